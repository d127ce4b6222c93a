"""The nearest counterfactual of tree ensembles, beside treecf on the same rows.

    IRONRULE_DATA=<folder> python -m benchmarks.nearest --rows 100 --k 1 3 --treecf-python <python of its environment>

Every feature is a number here (categories are numbered), since both must see the same columns. Asked for is one
counterfactual with the fewest changes, and of those the nearest. Time is CPU time of the process, one thread, without
set-up. Ours has whole intervals, and confirms every answer by the model. Distances differ (treecf divides by a spread,
we by the range), so the number of changes is compared: both claim that it is the least. treecf is asked for one.

With ``--l1``, asked for is the least sum of distances instead, in ranges of the past rows for both; the last column
then compares what the answers cost. ``--scale mad`` divides our distances by median absolute deviations (treecf is then
not asked).

With ``--additive``, asked about are boosted additive models (interpret), with and without interactions, under both
costs:

    IRONRULE_DATA=<folder> python -m benchmarks.nearest --additive --only Credit German HELOC --rows 8 --k 1 3

*First answer* is the CPU time from the begin of the call until the search holds a valid counterfactual, by the reading
of the model. (The model's own word on it comes at the end of the call.)
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import pickle
import subprocess
import tempfile
import time
import unittest.mock
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from benchmarks.data import adult, credit, heloc
from benchmarks.stopwatch import timed
from benchmarks.unseen import german
from ironrule import Budget, Cost, Explainer
from ironrule.backends.forest.nearest import ForestNearestSearch

DATA: dict[str, Callable[[], tuple[pd.DataFrame, pd.Series]]] = {
    "German": german,
    "Adult": adult,
    "Credit": credit,
    "HELOC": heloc,
}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
BACKGROUND_ROWS = 5_000


def build_xgboost() -> Any:
    """XGBoost, 100 trees of depth 6."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=0)


def build_lightgbm() -> Any:
    """LightGBM, 100 trees of 31 leaves."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=100, n_jobs=1, random_state=0, verbose=-1)


MODELS: dict[str, Callable[[], Any]] = {
    "XGBoost 100 x 6": build_xgboost,
    "LightGBM": build_lightgbm,
    "forest 100 x 6": lambda: RandomForestClassifier(100, max_depth=6, n_jobs=1, random_state=0),
}


def build_additive(interactions: int) -> Any:
    """An explainable boosting machine, 256 bins for a feature."""
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(interactions=interactions, max_bins=256, n_jobs=1, random_state=0)


ADDITIVE: dict[str, Callable[[], Any]] = {
    "EBM": lambda: build_additive(0),
    "EBM, 5 interactions": lambda: build_additive(5),
}


def encode_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Categories as numbers, all columns as floats."""
    columns = {
        name: column if pd.api.types.is_numeric_dtype(column) else column.astype("category").cat.codes
        for name, column in table.items()
    }
    return pd.DataFrame(columns).astype(np.float64)


def run_treecf(python: str, model: Any, background: Any, rows: Any, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What treecf says of every row."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "model.pkl").write_bytes(pickle.dumps(model))
        np.save(place / "background.npy", background)
        np.save(place / "rows.npy", rows)
        (place / "settings.json").write_text(json.dumps(settings))
        part = Path(__file__).with_name("treecf_part.py")
        subprocess.run([python, str(part), folder], check=True, env=os.environ | ONE_THREAD)
        answers: list[dict[str, Any]] = json.loads((place / "treecf.json").read_text())
    return answers


def format_seconds(seconds: list[float]) -> str:
    """Median and largest."""
    return f"{np.median(seconds):.4f} ({np.max(seconds):.3f})"


@dataclass(frozen=True, slots=True)
class Task:
    """One model, its past rows, and the denied rows to be asked about."""

    name: str
    model: Any
    past: Any
    denied: Any


def make_task(data: str, name: str, rows: int) -> Task:
    """Train a model; the rows asked about are others, unless the data are short."""
    table, target = DATA[data]()
    order = np.random.default_rng(0).permutation(len(table))
    table, target = encode_numbers(table).iloc[order], target.iloc[order]
    train, past = slice(0, min(20_000, len(table) // 2)), table[-BACKGROUND_ROWS:].to_numpy()
    model = (MODELS | ADDITIVE)[name]().fit(table[train].to_numpy(), target[train])
    return Task(f"{data}, {name}", model, past, past[np.asarray(model.predict(past)) == 0][:rows])


def measure_first_answers(explainer: Explainer, task: Task) -> str:
    """When the search has its quick answer, which is a counterfactual; said is how many rows have none by then."""
    seconds, before = list[float](), ForestNearestSearch._find_quick_answer

    def note(search: ForestNearestSearch, *arguments: Any) -> bool:
        ended = before(search, *arguments)
        seconds.append(np.inf if search.best is None else time.process_time() - began)
        return ended

    with unittest.mock.patch.object(ForestNearestSearch, "_find_quick_answer", note):
        for row in task.denied:
            began = time.process_time()
            explainer.counterfactuals(row, k=1)
    missing = sum(map(math.isinf, seconds))
    return format_seconds([one for one in seconds if one < np.inf]) + (f", none: {missing}" if missing else "")


def compare(task: Task, counts: list[int], seconds: float, treecf_python: str | None) -> None:
    """Print one line per system and number of counterfactuals."""
    explainer = Explainer(task.model, task.past, desired=1, progress=False)
    explainer.counterfactuals(task.denied[0], k=1)  # warm
    first, budget = measure_first_answers(explainer, task), Budget(seconds=seconds)
    cpu, changes = list[float](), list[int | None]()
    for k in counts:
        answers = [
            timed(lambda row=row, k=k: explainer.counterfactuals(row, k=k, budget=budget)) for row in task.denied
        ]
        proven, every = sum(found.proven for found, _ in answers), [taken.cpu for _, taken in answers]
        cells = f"{proven} of {len(task.denied)} | {format_seconds(every)} | {first if k == 1 else ''}"
        if k == 1:
            cpu, changes = every, [len(found[0].changes) if len(found) else None for found, _ in answers]
            more = ""
        else:
            more = f"{np.median(np.array(every) / np.array(cpu)):.1f} times k = 1" if cpu else ""
        print(f"| {task.name} | Ironrule, k = {k} | {cells} | {more} |", flush=True)
    for backend in ("exact", "genetic") if treecf_python is not None and cpu else ():
        settings = {"backend": backend, "seconds": seconds}
        found = run_treecf(str(treecf_python), task.model, task.past, task.denied, settings)
        theirs = [one["cpu"] for one in found]
        optimal = sum(one["proof"] == "optimal" for one in found)
        same = sum(one["changes"] == own for one, own in zip(found, changes, strict=True))
        fewer = sum(own is not None and (one["changes"] or 99) > own for one, own in zip(found, changes, strict=True))
        ratios = np.array(cpu) / np.array(theirs)
        cells = f"{optimal} of {len(task.denied)} | {format_seconds(theirs)} | "
        more = f"{same} as many changes, {fewer} more or none; ours takes {np.median(ratios):.2f} ({ratios.max():.2f})"
        print(f"| {task.name} | treecf {backend} | {cells} | {more} |", flush=True)


def compare_additive(task: Task, counts: list[int], seconds: float) -> None:
    """Print one line per cost and number of counterfactuals of an additive model."""
    names = list(task.model.feature_names_in_)
    past, denied = (pd.DataFrame(rows, columns=names) for rows in (task.past, task.denied))
    explainer, budget = Explainer(task.model, past, desired=1, progress=False), Budget(seconds=seconds)
    costs: tuple[Literal["fewest", "l1"], ...] = ("fewest", "l1")
    for cost in costs:
        explainer.counterfactuals(denied.iloc[0], k=1, cost=cost)  # warm
        for k in counts:
            find = functools.partial(explainer.counterfactuals, k=k, cost=cost, budget=budget)
            answers = [timed(functools.partial(find, denied.iloc[place])) for place in range(len(denied))]
            proven, every = sum(found.proven for found, _ in answers), [taken.cpu for _, taken in answers]
            print(f"| {task.name} | {cost}, k = {k} | {proven} of {len(every)} | {format_seconds(every)} |", flush=True)


def compare_l1(
    task: Task, counts: list[int], seconds: float, treecf_python: str | None, scale: Literal["range", "mad"] = "range"
) -> None:
    """The same for the least sum of distances; ours as the search found it and after numbers were made readable."""
    explainer = Explainer(task.model, task.past, desired=1, progress=False)
    ranges, budget = np.ptp(task.past, axis=0), Budget(seconds=seconds)
    ranges[ranges == 0] = 1.0
    cost_of_change = Cost("l1", scale=scale)
    explainer.counterfactuals(task.denied[0], k=1, cost=cost_of_change)  # warm
    own, cpu = list[float](), list[float]()
    for k in counts:
        answers = [
            timed(lambda row=row, k=k: explainer.counterfactuals(row, k=k, cost=cost_of_change, budget=budget))
            for row in task.denied
        ]
        proven, every = sum(found.proven for found, _ in answers), [taken.cpu for _, taken in answers]
        print(f"| {task.name} | Ironrule, k = {k} | {proven} of {len(task.denied)} | {format_seconds(every)} | |")
        if k == 1:
            cpu, own = every, [found.measure()[0].cost - found.resolution for found, _ in answers]
    if treecf_python is not None and cpu and scale == "range":
        settings = {"backend": "exact", "seconds": seconds, "ranges": ranges.tolist()}
        found = run_treecf(treecf_python, task.model, task.past, task.denied, settings)
        theirs = [one["cpu"] for one in found]
        cost = [
            math.inf if one["point"] is None else float((np.abs(np.array(one["point"]) - row) / ranges).sum())
            for one, row in zip(found, task.denied, strict=True)
        ]
        optimal, dearer = sum(one["proof"] == "optimal" for one in found), np.array(cost) > np.array(own) + 1e-6
        ratio = np.array(cpu) / np.array(theirs)
        cheaper = np.array(cost) < np.array(own) - 1e-6
        more = f"{dearer.sum()} cost more than ours or none, {cheaper.sum()} less; "
        more += f"ours takes {np.median(ratio):.2f} ({ratio.max():.2f})"
        cells = f"{optimal} of {len(task.denied)} | {format_seconds(theirs)} | {more}"
        print(f"| {task.name} | treecf exact | {cells} |", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100, help="denied rows per data set and model")
    parser.add_argument("--k", type=int, nargs="+", default=[1], help="counterfactuals per row")
    parser.add_argument("--seconds", type=float, default=20.0, help="per row")
    parser.add_argument("--only", nargs="+", default=[], help="names of data sets and models")
    parser.add_argument("--treecf-python", help="the python of treecf's environment")
    parser.add_argument("--l1", action="store_true", help="the least sum of distances, not the fewest changes")
    parser.add_argument("--scale", choices=["range", "mad"], default="range", help="what --l1 divides distances by")
    parser.add_argument("--additive", action="store_true", help="additive models, without a peer")
    given = parser.parse_args()
    models = ADDITIVE if given.additive else MODELS
    if given.additive:
        print("| data, model | cost | proven | CPU s per row, median (most) |")
        print("|---|---|--:|--:|")
    elif not given.l1:
        print("| data, model | system | proven | CPU s per row, median (most) | first answer | |")
        print("|---|---|--:|--:|---|---|")
    for data in [name for name in DATA if name in given.only] or DATA:
        for name in [name for name in models if name in given.only] or models:
            task = make_task(data, name, given.rows)
            if given.additive:
                compare_additive(task, given.k, given.seconds)
            elif given.l1:
                compare_l1(task, given.k, given.seconds, given.treecf_python, given.scale)
            else:
                compare(task, given.k, given.seconds, given.treecf_python)


if __name__ == "__main__":
    main()
