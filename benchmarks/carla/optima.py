"""How far an answer is from the proven optimum: the exact search answers the same rows, with proof.

Three distances: the number of changes, l1 and l2 (with its root). Each system minimises one of its own, which these
cover or come near to. An answer that changes what is immutable, or that lies outside the data's ranges, is no
competitor: the optimum is among answers that a person could have. So gaps are taken over the other answers alone, and
how many those are is told. Whole numbers stay whole in the optimum; an answer with half an hour per week may be a
little nearer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.carla.measures import AnswerMeasures
from benchmarks.carla.models import CarlaModel
from ironrule import Budget

Optimum = Mapping[str, float | None]  # the least distance by norm, None where it is not proven or where there is none
NORMS = ("fewest", "l1", "l2")


def find_optima(
    model: CarlaModel,
    rows: Sequence[int],
    budget: float,
    norms: Sequence[str],
    remember: Callable[[Callable[[], float | None], int, str], float | None] = lambda find, *_: find(),
) -> list[Optimum]:
    """The proven optimum of every row, in some of the norms; ``remember`` finds one, or knows it from before."""
    return [
        {norm: remember(partial(find_optimum, model, row, budget, norm), row, norm) for norm in norms} for row in rows
    ]


def find_optimum(model: CarlaModel, row: int, budget: float, norm: str) -> float | None:
    """The least distance of a counterfactual, if that is proven."""
    found = model.explainer.counterfactuals(row, k=1, cost=norm, budget=Budget(seconds=budget), progress=False)
    if not found.proven or len(found) == 0:
        return None
    point = model.encode(pd.DataFrame([dict(found[0].values)])[list(model.table.columns)])[0]
    difference = np.abs(point - model.encoded[row])
    return measure_distance(norm, len(found[0].changes), float(difference.sum()), float((difference**2).sum()))


def measure_distance(norm: str, changes: int, l1: float, squares: float) -> float:
    """A distance by its norm."""
    return {"fewest": float(changes), "l1": l1, "l2": float(np.sqrt(squares))}[norm]


def measure_gaps(measured: Sequence[AnswerMeasures | None], optima: Sequence[Optimum]) -> dict[str, float | int | None]:
    """How much farther than necessary answers are, over the rows where both are known and the answer is possible."""
    pairs = [pair for pair in zip(measured, optima, strict=True) if pair[0] is not None and pair[0].is_possible]
    gaps: dict[str, float | int | None] = {"possible": len(pairs)}
    for norm in NORMS:
        extra = [
            measure_distance(norm, len(one.changes), one.l1, one.l2) - least
            for one, optimum in pairs
            if one is not None and (least := optimum.get(norm)) is not None
        ]
        gaps[f"compared by {norm}"] = len(extra)
        gaps[f"gap by {norm}"] = float(np.mean(extra)) if extra else None
    return gaps
