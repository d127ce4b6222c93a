"""Decision trees: minimum proven rules through the public face, against PyXAI's minimal sufficient reasons.

    IRONRULE_DATA=<folder> python -m benchmarks.tree_rules [--pyxai-python <python of PyXAI's environment>]

The authors' Credit and Adult trees and an unpruned one on HELOC; 1,000 undesired rows each, given as dictionaries. The
time per row is that of ``explain``: from the dictionary to the explanation with its rule, verdict and certificate; the
counterfactuals, which an explanation puts into words when they are read, are timed on top. Every rule is judged by the
tree's leaves, independently of the package (benchmarks/leaf_sets.py), and its length, for a part of the rows, by HiGHS.

PyXAI (requirements-pyxai.txt) explains a part of the same rows in its own process: setting the row and asking for one
minimal sufficient reason. Its reasons are sets of the tree's own conditions (so they are longer), on the same trees.
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
from sklearn.tree import DecisionTreeClassifier

from benchmarks.data import adult_one_hot, credit, folder, heloc
from benchmarks.leaf_sets import LeafSets, check_sets, leaf_sets
from benchmarks.report import parser, show, store
from benchmarks.stopwatch import UNTIMED, Taken, timed
from benchmarks.tree import estimator_in, tree_of
from ironrule import Explainer, Explanation, Minimum, Proven

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Task:
    """A tree, the table that it decides about, and the desired class."""

    name: str
    model: DecisionTreeClassifier
    table: pd.DataFrame
    desired: int


def credit_task() -> Task:
    """The authors' tree on Credit; desired is no default."""
    model = estimator_in(folder() / "credit" / "tree.npz")
    return Task("Credit", model, credit()[0][list(model.feature_names_in_)], 1)


def adult_task() -> Task:
    """The authors' tree on Adult, one-hot; as in their script, rows predicted 1 are explained."""
    model = estimator_in(folder() / "adult" / "tree_onehot.npz")
    return Task("Adult", model, adult_one_hot()[0][list(model.feature_names_in_)], 0)


def heloc_task() -> Task:
    """A tree that was not pruned, on all of HELOC."""
    table, target = heloc()
    return Task("HELOC", DecisionTreeClassifier(random_state=0).fit(table, target), table, 1)


TASKS: tuple[Callable[[], Task], ...] = (credit_task, adult_task, heloc_task)


@dataclass(frozen=True, slots=True)
class Measured:
    """One row's explanation, what it took, and what it took to read its counterfactuals."""

    explanation: Explanation
    taken: Taken
    reading: Taken


def measured(explainer: Explainer, row: dict[str, Any]) -> Measured:
    """Explain one row."""
    explanation, taken = timed(lambda: explainer.explain(row, Minimum(ties=0), budget=UNTIMED, widen=False))
    _, reading = timed(lambda: list(explanation.counterfactuals))
    return Measured(explanation, taken, reading)


def judged(sets: LeafSets, done: list[Measured], checked: int) -> dict[str, int]:
    """How many rules are proven minimum, how many truly hold, and how many of those checked are truly shortest."""
    shortest = sum(sets.least(dict(one.explanation.instance)) == one.explanation.cardinality for one in done[:checked])
    return {
        "rows": len(done),
        "proven minimum": sum(isinstance(m.explanation.verdict, Proven) and m.explanation.minimum for m in done),
        "hold": sum(sets.exceptions(m.explanation.rule) == 0 for m in done),
        "by HiGHS": min(checked, len(done)),
        "shortest": shortest,
    }


def spread(taken: list[Taken]) -> dict[str, float]:
    """Milliseconds by both clocks."""
    wall, cpu = np.array([t.wall for t in taken]) * 1e3, np.array([t.cpu for t in taken]) * 1e3
    return {
        "ms": float(np.median(wall)),
        "p99 ms": float(np.percentile(wall, 99)),
        "CPU ms": float(np.median(cpu)),
        "p99 CPU ms": float(np.percentile(cpu, 99)),
        "mean CPU ms": float(cpu.mean()),
    }


def ask_pyxai(task: Task, rows: list[int], python: str) -> list[dict[str, Any]]:
    """PyXAI's answers for some rows, from its own process."""
    seen = task.table.iloc[rows]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "model.pkl").write_bytes(pickle.dumps(task.model))
        np.save(place / "rows.npy", seen.to_numpy())
        (place / "labels.json").write_text(json.dumps(task.model.predict(seen).tolist()))
        script = Path(__file__).with_name("pyxai_part.py")
        ran = subprocess.run([python, str(script), name], env=os.environ | ONE_THREAD, capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"PyXAI's half must end well, but it did not:\n{ran.stderr[-2000:]}")
        answers: list[dict[str, Any]] = json.loads((place / "pyxai.json").read_text())["answers"]
    if not all(answer["is_reason"] for answer in answers):
        raise SystemExit("PyXAI must call all its answers reasons, but it does not")
    return answers


def compared(explainer: Explainer, task: Task, rows: list[int], python: str) -> dict[str, Any]:
    """PyXAI on some rows, and ours on the same, before and after it."""
    given = [task.table.iloc[row].to_dict() for row in rows]
    ours = [measured(explainer, row).taken for row in given]
    answers = ask_pyxai(task, rows, python)
    ours += [measured(explainer, row).taken for row in given]
    theirs = [Taken(answer["wall"], answer["cpu"]) for answer in answers]
    wall, cpu = (_ratio(theirs, ours, clock) for clock in ("wall", "cpu"))
    return {
        "tree": task.name,
        "rows": len(rows),
        "PyXAI s": float(np.median([t.wall for t in theirs])),
        "PyXAI mean CPU s": float(np.mean([t.cpu for t in theirs])),
        "PyXAI literals": float(np.mean([answer["length"] for answer in answers])),
        "ours ms": float(np.median([t.wall for t in ours])) * 1e3,
        "ours mean CPU ms": float(np.mean([t.cpu for t in ours])) * 1e3,
        "times faster, wall": wall,
        "times faster, CPU": cpu,
    }


def _ratio(theirs: list[Taken], ours: list[Taken], clock: str) -> float:
    """Of the medians on the wall; of the means in CPU time, which the system counts in steps of 10 ms for children."""
    middle = np.median if clock == "wall" else np.mean
    return float(middle([getattr(t, clock) for t in theirs]) / middle([getattr(t, clock) for t in ours]))


def main() -> None:
    """Run, print, store."""
    made = parser(__doc__)
    made.add_argument("--pyxai-python", help="python of an environment with PyXAI; without it only ours is measured")
    made.add_argument("--rows", type=int, help="undesired rows per tree (1000; quick: 20)")
    made.add_argument("--pyxai-rows", type=int, help="of these, rows for PyXAI (30; quick: 2)")
    made.add_argument("--highs-rows", type=int, help="of these, rows whose length HiGHS checks (200; quick: 5)")
    made.add_argument("--seed", type=int, default=0)
    given = made.parse_args()
    count, few, checked = given.rows or 1000, given.pyxai_rows or 30, given.highs_rows or 200
    if given.quick:
        count, few, checked = given.rows or 20, given.pyxai_rows or 2, given.highs_rows or 5
    results, ratios = [], []
    for make in TASKS:
        task = make()
        explainer, setup = timed(
            lambda task=task: Explainer(task.model, task.table, desired=task.desired, domain="seen")
        )
        tree = tree_of(task.model, tuple(task.model.feature_names_in_), task.desired)
        sets = leaf_sets(tree, explainer.space)
        check_sets(sets, tree, task.table)
        undesired = np.flatnonzero(~explainer.outcomes)
        rows = np.random.default_rng(given.seed).choice(undesired, count, replace=False).tolist()
        chosen = [task.table.iloc[row].to_dict() for row in rows]
        measured(explainer, chosen[0])  # compiles
        done = [measured(explainer, row) for row in chosen]
        facts = {"tree": task.name, "nodes": len(tree.left), "desired leaves": len(sets.codes), "set-up s": setup.wall}
        lengths = {"components": float(np.mean([m.explanation.cardinality for m in done]))}
        reading = {"counterfactuals CPU ms": spread([m.reading for m in done])["CPU ms"]}
        results.append(facts | judged(sets, done, checked) | lengths | spread([m.taken for m in done]) | reading)
        if given.pyxai_python:
            ratios.append(compared(explainer, task, rows[:few], given.pyxai_python))
    show("Minimum proven rules of decision trees", results)
    if ratios:
        show("Against PyXAI's minimal_sufficient_reason, the same rows", ratios)
    store(given.json, "tree_rules", {"rows": results, "pyxai": ratios})


if __name__ == "__main__":
    main()
