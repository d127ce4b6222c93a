"""Beyond the paper: modern models with their libraries' defaults, and what people use to explain them.

XGBoost, LightGBM, random forests (trees of any depth) and HistGradientBoosting on Credit, Adult, FICO (the HELOC data)
and German. Minimum proven rules against anchors (ours, anchor-exp's, alibi's), rules driven by dice-ml's
counterfactuals, and PyXAI's reasons: how many have exceptions, by the exact oracle; how long they are; what they take.
Packages are there if their environments are named (see their ``methods_*.py``); slow ones get few rows, the first of
those that the others get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.paper.common import panels, usual_pictures, usual_tables
from benchmarks.paper.exceptions import has_exceptions
from benchmarks.paper.experiment import Experiment, Record, Tables, Task
from benchmarks.paper.methods import Found, label, methods
from benchmarks.paper.pictures import Picture, Stacked
from benchmarks.paper.rows import Warmth, text
from benchmarks.paper.subject import Subject
from benchmarks.paper.tables import column, good, grouped, mean, quantile
from benchmarks.proof_models import CLASSIFIERS, train
from benchmarks.stopwatch import timed
from ironrule import Proven, Refuted, Space

NAME, TITLE = "modern", "Modern models with their defaults"
SETS = {"Credit": "Credit", "Adult": "Adult", "FICO": "HELOC", "German": "German"}
MODELS: dict[str, Callable[[], Any]] = {
    "XGBoost": CLASSIFIERS["XGBoost 100 x 6"],  # which are its defaults
    "LightGBM": CLASSIFIERS["LightGBM"],
    "random forest": lambda: RandomForestClassifier(n_jobs=1, random_state=0),
    "HistGradientBoosting": CLASSIFIERS["HistGradientBoosting"],
}
COUNTS = {"minimum": 100, "anchor": 20, "anchor_exp": 20, "alibi": 20, "greedy_cf_dice": 5, "pyxai": 20}
FICO_ROWS = 30  # of minimum: random forests there take minutes for a row
QUICK = {"minimum": 3, "anchor": 1, "anchor_exp": 1, "alibi": 1, "greedy_cf_dice": 1, "pyxai": 1}
QUICK_TASKS = ("German, LightGBM", "Credit, XGBoost")
FORESTS_FOR_PYXAI = ("German, random forest",)  # it reads no other boosting, and larger forests too slowly
BUDGET, QUICK_BUDGET = 60.0, 20.0
JUDGING, QUICK_JUDGING = 60.0, 10.0
PARTS = ("has exceptions", "undecided", "proven to have none")


def tasks(quick: bool) -> list[Task]:
    """Every model on every data set."""
    names = [f"{data}, {model}" for data in SETS for model in MODELS]
    return [_task(name, quick) for name in names if not quick or name in QUICK_TASKS]


def _task(name: str, quick: bool) -> Task:
    _, model = name.split(", ")
    wanted = {method: count for method, count in (QUICK if quick else COUNTS).items() if method in methods()}
    if model != "XGBoost" and name not in FORESTS_FOR_PYXAI:
        wanted.pop("pyxai", None)
    if name.startswith("FICO"):
        wanted = {method: min(count, FICO_ROWS) for method, count in wanted.items()}
    return Task(
        name,
        {method: count for method, count in wanted.items() if count},
        QUICK_BUDGET if quick else BUDGET,
        facts={"judging": QUICK_JUDGING if quick else JUDGING},
    )


def prepare(task: Task) -> tuple[tuple[Subject, Warmth], list[int]]:
    """The model trained on all rows, and distinct undesired ones."""
    data, name = task.name.split(", ")
    model, table = train(SETS[data], MODELS[name]())
    space = Space.infer(table, one_hot=None, constant="keep", progress=False)
    subject = Subject(task.name, model, table, 1, task.q, task.s, space)
    order = np.array(subject.undesired(len(table)))
    distinct = order[~table.iloc[order].duplicated().to_numpy()]
    return (subject, Warmth()), distinct[: max(task.counts.values())].tolist()


def measure(state: tuple[Subject, Warmth], task: Task, method: str, rows: Sequence[int]) -> list[Record]:
    """One record per row."""
    subject, warmth = state
    warmth.ensure(subject, method, rows[0], task.budget)
    found = methods()[method].run(subject, rows, task.budget)
    pairs = zip(rows, found, strict=True)
    return [_record(subject, row, one, float(task.facts["judging"])) for row, one in pairs]


def _record(subject: Subject, row: int, found: Found, seconds: float) -> Record:
    facts = dict(found.facts)
    sets = facts.pop("sets", None)
    record: Record = {"wall": found.taken.wall, "cpu": found.taken.cpu} | facts
    if found.rule is None:
        return record | ({} if sets is None else {"exceptions": has_exceptions(subject.exact, row, sets, seconds)})
    judgement, judging = timed(lambda: subject.exact.judge(row, found.rule, budget=seconds))
    known = isinstance(judgement.verdict, Proven | Refuted)
    return record | {
        "cardinality": found.rule.cardinality,
        "rule": text(found.rule),
        "quality": judgement.quality.value,
        "exceptions": isinstance(judgement.verdict, Refuted) if known else None,
        "least": judgement.minimum_weight,
        "judging": judging.wall,
    }


def tables(records: Sequence[Record]) -> Tables:
    """Exceptions, length and time; then what other experiments show."""
    return {"Exceptions, length and time": exception_table(records)} | usual_tables(records)


def exception_table(records: Sequence[Record]) -> list[Record]:
    """One line per model and method; lengths also beside those of minimum rules of the same rows."""
    least = {(r["task"], r["row"]): r["cardinality"] for r in good(records) if r["method"] == "minimum"}
    lines = []
    for (task, method), everything in grouped(records).items():
        group = good(everything)
        shorter = [float(least[task, r["row"]]) for r in group if (task, r["row"]) in least]
        lines.append(
            {"task": task, "method": label(method), "rows": len(everything), "failed": len(everything) - len(group)}
            | dict(zip((f"{part}, %" for part in PARTS), _shares(group), strict=True))
            | {"length": mean(group, "cardinality"), "minimum's": float(np.mean(shorter)) if shorter else None}
            | {"median s": quantile(group, "wall", 0.5), "mean CPU s": mean(group, "cpu")}
            | {"CPU, times minimum's": _times(records, task, group)}
        )
    return lines


def _times(records: Sequence[Record], task: str, group: list[Record]) -> float | None:
    """CPU time over that of minimum rules, each the median of its rows."""
    ours = column((r for r in good(records) if r["task"] == task and r["method"] == "minimum"), "cpu")
    theirs = column(group, "cpu")
    return float(np.median(theirs) / np.median(ours)) if ours and theirs else None


def _shares(group: Sequence[Record]) -> list[float]:
    """Percentages of the rules that have exceptions, may have, and have none."""
    answers = [record.get("exceptions") for record in group]
    return [100.0 * sum(one is wanted for one in answers) / max(1, len(answers)) for wanted in (True, None, False)]


def pictures(records: Sequence[Record]) -> list[Picture]:
    """One panel per data set, over all its models."""
    merged = [record | {"task": record["task"].split(", ")[0]} for record in records]
    exceptions = Stacked(
        f"{NAME}-exceptions", f"{TITLE}: rules with exceptions", "rules, %", PARTS, panels(merged, _shares)
    )
    return [exceptions, *usual_pictures(NAME, TITLE, merged)]


EXPERIMENT = Experiment(
    NAME,
    TITLE,
    tasks,
    prepare,
    measure,
    tables,
    pictures,
    settings=lambda task, method: f"{methods()[method].settings(task)}; judged {task.facts['judging']:.0f} s",
    batch=lambda method: methods()[method].batch,
)
