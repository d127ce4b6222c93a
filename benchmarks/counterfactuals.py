"""GeCo against dice-ml's genetic method on Adult and Credit: CPU time, validity and sparsity of counterfactuals.

    IRONRULE_DATA=<folder> python -m benchmarks.counterfactuals --dice-python <python of dice-ml's environment>

Both get the same scikit-learn pipeline on raw columns, the same history, the same undesired rows, and are asked for the
same number of counterfactuals per row. dice-ml runs in its own process and environment (requirements-dice.txt) and is
measured with both of its ways to begin. Time is CPU time of the process, one thread each, without setting up either
explainer (reported apart). Validity and changes are judged here, by the model.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from benchmarks.data import adult, credit
from benchmarks.report import parser, show, store
from benchmarks.stopwatch import UNTIMED, timed
from ironrule import Explainer

SETS: dict[str, Callable[[], tuple[pd.DataFrame, pd.Series]]] = {"Adult": adult, "Credit": credit}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(100, max_depth=12, n_jobs=1, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(random_state=0),
}
TARGET = "desired"
INITIALIZATIONS = ("kdtree", "random")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Task:
    """One model on one data set, and the rows to find counterfactuals for."""

    name: str
    model: Pipeline
    table: pd.DataFrame
    target: pd.Series
    rows: list[int]
    k: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The counterfactuals of one row, as values, and what they cost."""

    found: list[dict[str, Any]]
    cpu: float


def make_task(data: str, classifier: str, rows: int, k: int, seed: int) -> Task:
    """Train the pipeline on all rows and choose undesired ones."""
    table, target = SETS[data]()
    categories = make_column_selector(dtype_exclude="number")
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), categories), remainder="passthrough"
    )
    model = make_pipeline(encoder, CLASSIFIERS[classifier]()).fit(table, target)
    undesired = np.flatnonzero(model.predict(table) == 0)
    chosen = np.random.default_rng(seed).choice(undesired, rows, replace=False).tolist()
    return Task(f"{data}, {classifier}", model, table, target, chosen, k)


def ours(task: Task) -> tuple[float, list[Answer]]:
    """GeCo's answers, and the CPU time of setting up."""
    explainer, setup = timed(lambda: Explainer(task.model, task.table, desired=1, progress=False, domain="seen"))
    explainer.counterfactuals(task.rows[0], k=task.k)  # compiles
    answers = []
    for row in task.rows:
        found, taken = timed(lambda r=row: explainer.counterfactuals(r, k=task.k, budget=UNTIMED))
        answers.append(Answer([dict(item.values) for item in found], taken.cpu))
    return setup.cpu, answers


def theirs(task: Task, python: str, ways: tuple[str, ...], seed: int) -> tuple[float, dict[str, list[Answer]]]:
    """dice-ml's answers per way to begin, from its own process, and the CPU time of setting up."""
    settings = {
        "k": task.k,
        "seed": seed,
        "target": TARGET,
        "numeric": task.table.select_dtypes("number").columns.tolist(),
        "initializations": ways,
    }
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "model.pkl").write_bytes(pickle.dumps(task.model))
        task.table.assign(**{TARGET: task.target}).to_csv(place / "table.csv", index=False)
        (place / "rows.json").write_text(json.dumps(task.rows))
        (place / "settings.json").write_text(json.dumps(settings))
        script = Path(__file__).with_name("dice_part.py")
        ran = subprocess.run([python, str(script), name], env=os.environ | ONE_THREAD, capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"dice-ml's half must end well, but it did not:\n{ran.stderr[-2000:]}")
        written = json.loads((place / "dice.json").read_text())
    answers = {way: [Answer(one["found"], one["cpu"]) for one in written["answers"][way]] for way in ways}
    return written["setup"], answers


def summary(task: Task, method: str, setup: float, answers: list[Answer]) -> dict[str, Any]:
    """One line of the table."""
    counts, changes = [], []
    for row, answer in zip(task.rows, answers, strict=True):
        good = valid_ones(task, answer)
        counts.append(len(good))
        changes += [features_changed(task.table.iloc[row], other) for _, other in good.iterrows()]
    cpu = sum(answer.cpu for answer in answers)
    return {
        "task": task.name,
        "method": method,
        "asked": task.k * len(task.rows),
        "found": sum(len(answer.found) for answer in answers),
        "valid": sum(counts),
        "rows with all": sum(count >= task.k for count in counts),
        "CPU s per row": cpu / len(task.rows),
        "CPU s per valid": cpu / max(sum(counts), 1),
        "features changed": float(np.mean(changes)) if changes else None,
        "set-up CPU s": setup,
    }


def valid_ones(task: Task, answer: Answer) -> pd.DataFrame:
    """The distinct counterfactuals that the model gives the desired outcome."""
    if not answer.found:
        return task.table.iloc[:0]
    frame = pd.DataFrame(answer.found)[task.table.columns.tolist()].astype(task.table.dtypes).drop_duplicates()
    return frame[task.model.predict(frame) == 1]


def features_changed(row: pd.Series, other: pd.Series) -> int:
    """In how many features two rows differ."""
    return int(sum(row[name] != other[name] for name in row.index))


def compare(task: Task, python: str | None, ways: tuple[str, ...], seed: int) -> list[dict[str, Any]]:
    """Ours and theirs on one task, with the ratio of CPU times."""
    rows = [summary(task, "GeCo", *ours(task))]
    if python is not None:
        setup, answers = theirs(task, python, ways, seed)
        rows += [summary(task, f"dice-ml, {way}", setup, answers[way]) for way in ways]
    for row in rows:
        row["per valid / GeCo's"] = row["CPU s per valid"] / rows[0]["CPU s per valid"]
    return rows


def main() -> None:
    """Run, print, store."""
    made = parser(__doc__)
    made.add_argument("--dice-python", help="python of an environment with dice-ml; without it only GeCo is measured")
    made.add_argument("--rows", type=int, help="rows per task (30; quick: 3)")
    made.add_argument("--k", type=int, default=4, help="counterfactuals asked for per row")
    made.add_argument("--seed", type=int, default=0)
    given = made.parse_args()
    count = given.rows or (3 if given.quick else 30)
    results = []
    for data in SETS:
        for classifier in CLASSIFIERS:
            task = make_task(data, classifier, count, given.k, given.seed)
            results += compare(task, given.dice_python, INITIALIZATIONS, given.seed)
            show(
                f"Counterfactuals, {task.name}",
                results[-(1 + len(INITIALIZATIONS)) :] if given.dice_python else results[-1:],
            )
    store(given.json, "counterfactuals", {"rows": results})


if __name__ == "__main__":
    main()
