"""What an experiment is: a small value made of functions, one module each.

``tasks`` says what there is to do, ``prepare`` and ``measure`` run in a worker process, ``tables`` and ``pictures``
turn records into what is shown. A record is a flat dictionary: experiment, task, method, row, and what was measured.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.paper.pictures import Picture

Record = dict[str, Any]
Tables = dict[str, list[Record]]
MODULES = ("synthetic", "real", "runtimes", "operators", "modern", "ablations")


@dataclass(frozen=True, slots=True)
class Task:
    """Something to explain, and how many rows each method gets; travels to workers.

    Rows come in one fixed order, so the few rows of a slow method are the first of the many of a fast one. ``q`` and
    ``s`` are the paper's parameters, ``processes`` the most that may work on the task at once, ``facts`` what else the
    experiment wants to know of it. ``budgets`` are those of methods that get other seconds than the rest.
    """

    name: str
    counts: Mapping[str, int]
    budget: float  # seconds that a method may take for a row
    q: int = 50
    s: int = 1000
    processes: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    budgets: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, method: str) -> float:
        """What a method may take for a row."""
        return self.budgets.get(method, self.budget)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment of the evaluation.

    ``prepare`` makes the state that rows are measured on, and lists the rows in order (as many as any method gets).
    ``measure`` has a method explain some rows (one, unless the method takes batches) and gives one record each.
    ``settings`` says, for the log, all that a method's answer depends on besides the task's name, the row, the budget
    and the engine. ``batch`` says how many rows a method takes at once.
    """

    name: str
    title: str
    tasks: Callable[[bool], Sequence[Task]]
    prepare: Callable[[Task], tuple[Any, list[int]]]
    measure: Callable[[Any, Task, str, Sequence[int]], list[Record]]
    tables: Callable[[Sequence[Record]], Tables]
    pictures: Callable[[Sequence[Record]], Sequence[Picture]]
    settings: Callable[[Task, str], str] = lambda _task, _method: ""
    batch: Callable[[str], int] = lambda _method: 1


def load(name: str) -> Experiment:
    """The experiment of a module of this package."""
    made: Experiment = importlib.import_module(f"benchmarks.paper.{name}").EXPERIMENT
    return made


def available() -> list[str]:
    """The experiments that are there; one whose module is missing is left out."""
    return [name for name in MODULES if importlib.util.find_spec(f"benchmarks.paper.{name}")]
