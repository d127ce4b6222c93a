"""Methods that explain rows, ours and those of other packages, behind one face so that all are judged alike.

Every file ``methods_*.py`` of this package has a tuple ``METHODS``; this is the whole plug point. A method gets a
subject, some rows (one, unless ``batch`` says more) and seconds per row, and hands back one :class:`Found` per row, in
order. A method of another package that lives in an environment of its own starts a process there for the whole batch.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import benchmarks.paper
from benchmarks.paper.experiment import Record, Task
from benchmarks.paper.subject import Subject
from benchmarks.stopwatch import Taken, timed
from ironrule import Budget, Explainer, Explanation, Rule


@dataclass(frozen=True, slots=True)
class Found:
    """What a method found for one row: a rule over our components, or None with the reason in ``facts["failed"]``."""

    rule: Rule | None
    taken: Taken
    facts: Record = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Method:
    """One way to explain rows.

    ``settings`` says all that answers depend on for a task (it is part of the log's key); ``version`` names the package
    that answers where it is not our engine; ``label`` is what figures call it.
    """

    name: str
    label: str
    run: Callable[[Subject, Sequence[int], float], list[Found]]
    settings: Callable[[Task], str] = lambda _task: ""
    batch: int = 1
    version: str | None = None


@cache
def methods() -> dict[str, Method]:
    """All methods by name, file by file in alphabetical order."""
    names = sorted(one.name for one in pkgutil.iter_modules(benchmarks.paper.__path__))
    modules = [importlib.import_module(f"benchmarks.paper.{name}") for name in names if name.startswith("methods_")]
    found: dict[str, Method] = {}
    for method in (method for module in modules for method in module.METHODS):
        if method.name in found:
            raise SystemExit(f"methods must have different names, but two are called {method.name!r}")
        found[method.name] = method
    return found


def label(name: str) -> str:
    """What figures call a method."""
    known = methods().get(name)
    return name if known is None else known.label


def ours(
    name: str,
    label: str,
    algorithm: Callable[[Any], Any],
    explainer: Callable[[Subject], Explainer],
    k: int = 5,
) -> Method:
    """An algorithm of ours; ``algorithm`` makes it from the q and s of a task or subject.

    The oracle is asked for ``k`` counterfactuals at a time, which is also the paper's number of rules returned.

    The clock runs from the row to the explanation: the explainer is made before, once for all rows. A rule's bounds are
    not widened afterwards, which is no part of any method compared here.
    """

    def run(subject: Subject, rows: Sequence[int], budget: float) -> list[Found]:
        asked, chosen, limits = explainer(subject), algorithm(subject), Budget(seconds=budget)
        return [
            _found(*timed(lambda row=row: asked.explain(row, chosen, k=k, budget=limits, widen=False)))  # type: ignore[misc]
            for row in rows
        ]

    return Method(name, label, run, lambda task: f"{algorithm(task)!r}, k={k}")


def _found(explanation: Explanation, taken: Taken) -> Found:
    did = explanation.statistics
    operators = {f"operator {name}": seconds for name, seconds in did.operator_seconds.items()}
    facts: Record = {
        "verdict": type(explanation.verdict).__name__,
        "lower bound": explanation.lower_bound,
        "coverage": explanation.coverage,
        "oracle calls": did.oracle_calls,
        "model calls": did.model_calls,
        "evaluations": did.evaluations,
        "candidates": did.candidates,
        "generations": did.generations,
        "stopped": did.stopped,
    }
    return Found(explanation.rule, taken, facts | operators)
