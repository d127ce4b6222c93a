"""Real classifiers (the paper's Figures 4 and 6): the five classes, cardinality and run time.

Credit and Adult with the authors' decision trees, FICO with their two-layer model and, beyond the paper, with a network
of two logistic layers, a stand-in for Yelp with a network of ten.
Fast methods explain 10,000 undesired rows where so many exist, else all; slow ones the first few hundred of the same
rows: :data:`COUNTS` states how many. Yelp's parameters are the paper's: q = 20, s = 5000.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from benchmarks.paper.common import usual_pictures, usual_tables
from benchmarks.paper.experiment import Experiment, Record, Tables, Task
from benchmarks.paper.goals import Goal, consistent, faster, minimum
from benchmarks.paper.methods import methods
from benchmarks.paper.rows import Warmth, explained
from benchmarks.paper.subject import SUBJECTS, Subject

NAME, TITLE = "real", "Real classifiers"
STAND_IN = "Yelp stand-in"
NOT_THE_PAPERS = "FICO network"
NETWORKS = (NOT_THE_PAPERS, STAND_IN)
BUDGET, NETWORK_BUDGET, QUICK_BUDGET = 300.0, 60.0, 10.0  # seconds per row
STAND_IN_BUDGET, STAND_IN_MINIMUM, STAND_IN_JUDGING = 5.0, 12.0, 10.0  # likewise: of 100 rows, and all methods
TREES = {
    "minimum": 10_000,
    "greedy_cf_exact": 10_000,
    "greedy_cf_uncut": 10_000,
    "genetic_cf_exact": 1_000,
    "greedy_cf": 1_000,
    "genetic_cf": 500,
    "genetic": 500,
    "min_set_cover": 10_000,
    "anchor": 200,
    "anchor_exp": 200,
    "alibi": 100,
}
COUNTS = {
    "Credit": TREES,
    "Adult": TREES,
    "FICO": TREES | {"genetic_cf_exact": 500, "greedy_cf": 200, "genetic_cf": 100, "genetic": 300},
    NOT_THE_PAPERS: {
        "minimum": 50,
        "greedy_cf_exact": 50,
        "genetic_cf_exact": 20,
        "greedy_cf": 50,
        "genetic_cf": 20,
        "genetic": 50,
        "min_set_cover": 50,
        "anchor": 50,
        "anchor_exp": 20,
    },
    STAND_IN: {
        "minimum": 100,
        "greedy_cf": 100,
        "genetic_cf": 100,
        "genetic": 100,
        "min_set_cover": 100,
        "anchor": 100,
    },
}
READABLE = ("Credit", "Adult", "FICO")
EXACT = ("minimum", "greedy_cf_exact", "greedy_cf_uncut", "genetic_cf_exact")
GOALS = (
    Goal("globally consistent, by proof", EXACT, consistent, READABLE),
    Goal("minimum, by proof", ("minimum", "greedy_cf_exact", "greedy_cf_uncut"), minimum, READABLE),
)
QUICK = {"minimum": 50, "greedy_cf_exact": 50, "greedy_cf_uncut": 5, "min_set_cover": 50, "genetic_cf": 1}
QUICK_ROWS = 1  # of the other methods


def tasks(quick: bool) -> list[Task]:
    """All classifiers; the stand-in where its module is there."""
    there = importlib.util.find_spec("benchmarks.paper.yelp_stand_in") is not None
    return [_task(name, quick) for name in COUNTS if there or name != STAND_IN]


def paper_tasks(quick: bool) -> list[Task]:
    """Those of the paper, and for Yelp its stand-in."""
    return [task for task in tasks(quick) if task.name != NOT_THE_PAPERS]


def _task(name: str, quick: bool) -> Task:
    counts = {method: count for method, count in COUNTS[name].items() if method in methods()}
    if quick:
        few = {} if name in NETWORKS else QUICK
        counts = {method: min(count, few.get(method, QUICK_ROWS)) for method, count in counts.items()}
    budget = QUICK_BUDGET if quick else NETWORK_BUDGET if name in NETWORKS else BUDGET
    if name != STAND_IN:
        return Task(name, counts, budget)
    brief = dict.fromkeys(counts, STAND_IN_BUDGET) | {"minimum": STAND_IN_MINIMUM}
    return Task(name, counts, budget, 20, 5000, processes=1, facts={"quick": quick}, budgets=brief)


def prepare(task: Task) -> tuple[tuple[Subject, Warmth], list[int]]:
    """The classifier with its table, and undesired rows."""
    subject = SUBJECTS[task.name](task)
    return (subject, Warmth()), subject.undesired(max(task.counts.values()))


def measure(state: tuple[Subject, Warmth], task: Task, method: str, rows: Sequence[int]) -> list[Record]:
    """One record per row."""
    subject, warmth = state
    judging = STAND_IN_JUDGING if task.name == STAND_IN else None
    return explained(warmth, subject, method, rows, task.seconds(method), judging)


def tables(records: Sequence[Record]) -> Tables:
    """The usual, times beside those of ``minimum``, and goals."""
    goals = [line for goal in GOALS for line in goal.lines(records)]
    return usual_tables(records) | {"Beside minimum, on the same rows": faster(records, "minimum"), "Goals": goals}


EXPERIMENT = Experiment(
    NAME,
    TITLE,
    tasks,
    prepare,
    measure,
    tables,
    lambda records: usual_pictures(NAME, TITLE, records),
    settings=lambda task, method: methods()[method].settings(task),
    batch=lambda method: methods()[method].batch,
)
