"""Microbenchmarks (the paper's Figures 7 to 9): time per operator of GeneticRuleCF, candidates explored, oracle calls.

100 undesired rows of Credit, Adult and FICO, 20 of the stand-in for Yelp, as in the paper. Operators are timed where
they run, each without what another operator takes inside it; "preparation" includes the pass over the history, "other"
is what belongs to none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.paper.common import panels
from benchmarks.paper.experiment import Experiment, Record, Tables, Task
from benchmarks.paper.methods import label, methods
from benchmarks.paper.pictures import Bars, Picture, Stacked
from benchmarks.paper.real import measure, paper_tasks, prepare
from benchmarks.paper.tables import good, grouped, mean

NAME, TITLE = "operators", "Microbenchmarks"
OPERATORS = {
    "preparation": ("preparation", "history"),
    "selection": ("selection",),
    "crossover": ("crossover",),
    "mutation": ("mutate",),
    "CF rules": ("cf rules",),
    "reduction": ("reduction",),
    "final check": ("check",),
}
PARTS = (*OPERATORS, "other")
ROWS, LARGE_ROWS, QUICK_ROWS = 100, 20, 1
GENETIC = ("genetic_cf", "genetic_cf_exact")
ASKING = ("genetic_cf", "greedy_cf", "genetic_cf_exact", "greedy_cf_exact")
SEARCHING = (*ASKING, "genetic")


def tasks(quick: bool) -> list[Task]:
    """The classifiers of the real experiment."""
    return [_task(task, quick) for task in paper_tasks(quick)]


def _task(task: Task, quick: bool) -> Task:
    rows = QUICK_ROWS if quick else LARGE_ROWS if task.processes == 1 else ROWS
    counts = {method: rows for method in SEARCHING if method in task.counts}
    return Task(task.name, counts, task.budget, task.q, task.s, task.processes, task.facts)


def seconds(record: Record) -> list[float]:
    """Per part of :data:`PARTS` what it took."""
    known = [sum(record.get(f"operator {name}") or 0.0 for name in names) for names in OPERATORS.values()]
    return [*known, max(0.0, record["wall"] - sum(known))]


def mean_seconds(group: Sequence[Record]) -> list[float]:
    """The mean of each part."""
    return [float(one) for one in np.mean([seconds(record) for record in group], axis=0)]


def tables(records: Sequence[Record]) -> Tables:
    """Seconds per operator; candidates and calls."""
    groups = {key: good(group) for key, group in grouped(records).items()}
    operators = [
        {"task": task, "method": label(method), "rows": len(group), "mean s": mean(group, "wall")}
        | dict(zip(PARTS, mean_seconds(group), strict=True))
        for (task, method), group in groups.items()
        if method in GENETIC and group
    ]
    work = [
        {"task": task, "method": label(method), "rows": len(group)}
        | {name: mean(group, name) for name in ("candidates", "oracle calls", "model calls", "evaluations")}
        | {"generations": mean(group, "generations"), "cardinality": mean(group, "cardinality")}
        for (task, method), group in groups.items()
    ]
    return {"Seconds per operator of GeneticRuleCF": operators, "Work": work}


def pictures(records: Sequence[Record]) -> list[Picture]:
    """The paper's three figures."""
    genetic = [record for record in records if record["method"] in GENETIC]
    asking = [record for record in records if record["method"] in ASKING]
    return [
        Stacked(
            f"{NAME}-time",
            "Run time of GeneticRuleCF by operator",
            "seconds per row, mean",
            PARTS,
            panels(genetic, mean_seconds),
            end=None,
            graded=False,
        ),
        Bars(
            f"{NAME}-candidates",
            "Rule candidates explored",
            "candidates per row, mean",
            panels(records, lambda group: [mean(group, "candidates") or 0.0]),
            log=True,
        ),
        Bars(
            f"{NAME}-calls",
            "Questions to the counterfactual oracle",
            "oracle calls per row, mean",
            panels(asking, lambda group: [mean(group, "oracle calls") or 0.0]),
            log=True,
        ),
    ]


EXPERIMENT = Experiment(
    NAME,
    TITLE,
    tasks,
    prepare,
    measure,
    tables,
    pictures,
    settings=lambda task, method: methods()[method].settings(task),
)
