"""Rows of a network explained: is the rule proven, is it proven that nothing of it can go, and how long is it?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.network_tasks import trained
from benchmarks.proof_rows import Watched
from benchmarks.proof_tables import good_ones, quantile, share, times
from benchmarks.proof_worker import Answer
from benchmarks.stopwatch import timed
from ironrule import Explainer, Proven, Refuted
from ironrule.oracles import Networks
from ironrule.oracles.net_engine import engine_on
from ironrule.rule.bits import members
from ironrule.search import Problem

WARM_SECONDS = 5.0


def prepare(folder: Path, name: str, warm: int, device: str | None) -> tuple[Explainer, Answer]:
    """The explainer of a task that was prepared before, compiled and warm."""
    explainer = trained(folder, name).explainer()
    ready = explainer._prepared
    assert isinstance(ready.oracle, Networks)
    explainer._prepared = replace(ready, oracle=replace(ready.oracle, engine=engine_on(device)))
    explain(explainer, warm, WARM_SECONDS)
    return explainer, {"task": name}


def explain(explainer: Explainer, row: int, budget: float) -> Answer:
    """One row: what was found, and what is known of it when time is up."""
    watched = Watched()
    explanation, taken = timed(lambda: explainer.explain(row, algorithm=watched, budget=budget, widen=False))
    problem = watched.problem
    assert problem is not None
    proven = isinstance(explanation.verdict, Proven)
    rule = watched.reached[-1][0] if watched.reached else None
    return {
        "wall": taken.wall,
        "cpu": taken.cpu,
        "proven": proven,
        "minimum": proven and explanation.minimum,
        "irredundant": proven and rule is not None and nothing_can_go(problem, rule),
        "cardinality": explanation.cardinality,
        "lower bound": explanation.lower_bound,
        "undecided": len(explanation.undecided),
        "stopped": explanation.statistics.stopped,
        "first wall": watched.reached[0][1] if watched.reached else None,
        "parts": problem.meter.events["boxes"],
    }


def nothing_can_go(problem: Problem, rule: int) -> bool:
    """Whether a counterfactual is known for the rule without any one of its components; nobody is asked anew."""
    for bit in members(rule):
        shorter = rule & ~(1 << bit)
        known = problem.oracle.recall(problem.case.relevant.box(shorter))
        if not isinstance(known, Refuted) and problem.exceptions(shorter) is None:
            return False
    return True


def line(name: str, answers: list[Answer]) -> Answer:
    """One line of the table; rows that failed count as not proven, and have no time."""
    good = good_ones(answers)
    proven: list[Any] = [one for one in good if one["proven"]]
    return {
        "task": name,
        "rows": len(answers),
        "failed": len(answers) - len(good),
        "proven": share(answers, "proven"),
        "irredundant": share(answers, "irredundant"),
        "minimum": share(answers, "minimum"),
        "components": float(np.mean([one["cardinality"] for one in proven])) if proven else None,
        "at least": float(np.mean([one["lower bound"] for one in proven])) if proven else None,
        "may not be needed": float(np.mean([one["undecided"] for one in proven])) if proven else None,
        "first s": _seconds(times(good, "first wall")),
        "median s": _seconds(times(good, "wall")),
        "CPU s": _seconds(times(good, "cpu")),
    }


def _seconds(values: list[float]) -> float | None:
    middle = quantile(values, 0.5)
    return None if middle is None else middle / 1000
