"""Run times of the classifiers and of GeCo (the paper's Table 2).

The classifier predicts 10,000 rows of its table at once (drawn again where the table has fewer); GeCo looks for five
counterfactuals of one undesired row; where the model can be read, the exact search for the five nearest stands beside
it. "row" is the row explained; for the classifier it only counts repetitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from benchmarks.paper.common import panels
from benchmarks.paper.experiment import Experiment, Record, Tables, Task
from benchmarks.paper.pictures import Bars, Picture
from benchmarks.paper.real import STAND_IN, paper_tasks
from benchmarks.paper.subject import SUBJECTS, Subject
from benchmarks.paper.tables import good, grouped, mean, quantile
from benchmarks.stopwatch import timed

NAME, TITLE = "runtimes", "Run times of classifiers and of counterfactuals"
PREDICTED = 10_000
WANTED = 5  # counterfactuals
PUBLISHED = {  # the paper's Table 2, in seconds, on the authors' machine and with their classifiers' own code
    ("Credit", "classifier"): 0.0041,
    ("Adult", "classifier"): 0.0079,
    ("FICO", "classifier"): 0.1079,
    ("Yelp", "classifier"): 0.02081,
    ("Credit", "geco"): 0.0854,
    ("Adult", "geco"): 0.1294,
    ("FICO", "geco"): 1.9050,
    ("Yelp", "geco"): 2.0793,
}
LABELS = {
    "classifier": "classifier, 10,000 rows",
    "geco": "GeCo, one row",
    "nearest": "nearest by proof, one row",
}


@dataclass(frozen=True, slots=True)
class State:
    """A subject and the rows that its classifier predicts."""

    subject: Subject
    predicted: pd.DataFrame


def tasks(quick: bool) -> list[Task]:
    """The classifiers of the real experiment."""
    return [_task(task, quick) for task in paper_tasks(quick)]


def _task(task: Task, quick: bool) -> Task:
    counts = {"classifier": 5, "geco": 5, "nearest": 5} if quick else {"classifier": 50, "geco": 200, "nearest": 200}
    if task.name == STAND_IN:  # its network is beyond that search
        del counts["nearest"]
    return Task(task.name, counts, task.budget, processes=task.processes, facts=task.facts)


def prepare(task: Task) -> tuple[State, list[int]]:
    """The classifier with its table; each method runs once before it is timed."""
    subject = SUBJECTS[task.name](task)
    places = np.random.default_rng(0).permutation(len(subject.table))
    chosen = np.resize(places, PREDICTED) if len(places) < PREDICTED else places[:PREDICTED]
    state = State(subject, subject.table.iloc[chosen].reset_index(drop=True))
    rows = subject.undesired(max(task.counts.values()))
    for method in task.counts:
        measure(state, task, method, rows[:1])
    return state, rows


def measure(state: State, task: Task, method: str, rows: Sequence[int]) -> list[Record]:
    """One record per row."""
    if method == "classifier":
        taken = [timed(lambda: state.subject.model.predict(state.predicted))[1] for _ in rows]
        return [{"wall": one.wall, "cpu": one.cpu} for one in taken]
    how: Literal["geco", "exact"] = "geco" if method == "geco" else "exact"
    return [_counterfactuals(state.subject, row, how, task.budget) for row in rows]


def _counterfactuals(subject: Subject, row: int, how: Literal["geco", "exact"], budget: float) -> Record:
    explainer = subject.black_box if how == "geco" else subject.exact
    found, taken = timed(lambda: explainer.counterfactuals(row, WANTED, algorithm=how, budget=budget))
    return {
        "wall": taken.wall,
        "cpu": taken.cpu,
        "found": len(found),
        "changes": float(np.mean([len(one.changes) for one in found])) if len(found) else None,
        "evaluations": found.statistics.evaluations,
        "stopped": found.statistics.stopped,
    }


def tables(records: Sequence[Record]) -> Tables:
    """The paper's table, with its figures beside ours."""
    lines: list[dict[str, Any]] = [
        {
            "task": task,
            "what": LABELS[method],
            "rows": len(group),
            "median s": quantile(group, "wall", 0.5),
            "median CPU s": quantile(group, "cpu", 0.5),
            "mean s": mean(group, "wall"),
            "mean CPU s": mean(group, "cpu"),
            "paper s": PUBLISHED.get((task.removesuffix(" stand-in"), method)),
            "counterfactuals": mean(group, "found"),
            "features changed": mean(group, "changes"),
            "evaluations": mean(group, "evaluations"),
        }
        for (task, method), all_of in grouped(records).items()
        for group in [good(all_of)]
    ]
    return {"Seconds": lines}


def pictures(records: Sequence[Record]) -> list[Picture]:
    """Medians by the processor's clock."""
    named = [record | {"method": LABELS[record["method"]]} for record in records]
    shown = panels(named, lambda group: [quantile(group, "cpu", 0.5) or 0.0])
    return [Bars(NAME, TITLE, "CPU seconds, median", shown, log=True)]


EXPERIMENT = Experiment(NAME, TITLE, tasks, prepare, measure, tables, pictures)
