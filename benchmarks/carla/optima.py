"""How far an answer is from the proven optimum: the exact search answers the same rows, with proof.

An answer that changes what is immutable, or that lies outside the data's ranges, is no competitor: the optimum is among
answers that a person could have. So gaps are taken over the other answers alone, and how many those are is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.carla.measures import AnswerMeasures
from benchmarks.carla.models import CarlaModel
from ironrule import Budget


@dataclass(frozen=True, slots=True)
class Optimum:
    """The fewest features that must change, of a row; None where it is not proven, or where there is no answer."""

    changes: int | None


def find_optima(model: CarlaModel, rows: Sequence[int], budget: float) -> list[Optimum]:
    """The proven optimum of every row."""
    optima = []
    for row in rows:
        found = model.explainer.counterfactuals(row, k=1, budget=Budget(seconds=budget), progress=False)
        known = found.proven and len(found) > 0
        optima.append(Optimum(len(found[0].changes) if known else None))
    return optima


def measure_gaps(measured: Sequence[AnswerMeasures | None], optima: Sequence[Optimum]) -> dict[str, float | int | None]:
    """How much more than necessary answers change, over the rows where both are known and the answer is possible."""
    extra = [
        len(one.changes) - optimum.changes
        for one, optimum in zip(measured, optima, strict=True)
        if one is not None and one.is_possible and optimum.changes is not None
    ]
    return {
        "compared": len(extra),
        "gap in changes": float(np.mean(extra)) if extra else None,
        "fewest": sum(gap == 0 for gap in extra),
    }
