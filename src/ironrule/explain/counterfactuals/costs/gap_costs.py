"""What is known of the cost of numbers between two values of a domain, for searches that count them.

A distance grows with the number itself, a network sees what a pipeline makes of it. Where that is a straight line but
for rounding (:mod:`ironrule.model.number_formulas`), the one is a function of the other; elsewhere a number between two
values is only known to cost something between what these cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ironrule.arrays import BoolArray
from ironrule.backends.nearest import GapCostKind, GapCosts
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.costs.row_cost import RowCost
from ironrule.model.normal_form.network import Network
from ironrule.model.number_formulas import bound_bend
from ironrule.model.pipeline import split_pipeline
from ironrule.model.read_model import TabulatedModel


def build_gap_costs(
    context: ExplainerContext, tabulated_model: TabulatedModel, row_cost: RowCost, after: Sequence[BoolArray]
) -> GapCosts:
    """What is known of the numbers behind some codes of every feature, if they are seen by a single model."""
    kinds, bends = list[GapCostKind](), list[float]()
    for j, gaps in enumerate(after):
        bend = _bound_feature_bend(context, tabulated_model, row_cost, j) if gaps.any() else None
        kinds.append("unknown" if bend is None else row_cost.find_gap_cost(j))
        bends.append(bend or 0.0)
    return GapCosts(tuple(after), tuple(kinds), tuple(bends), row_cost.least_part)


def _bound_feature_bend(
    context: ExplainerContext, tabulated_model: TabulatedModel, row_cost: RowCost, j: int
) -> float | None:
    """How far the column of a feature's numbers may be from the straight line; None if it may be anywhere."""
    columns, one = tabulated_model.columns, row_cost.features[j]
    moving = [
        place for place in np.flatnonzero(columns.features == j).tolist() if len(np.unique(columns.values[place])) > 1
    ]
    if len(moving) != 1 or len(context.arguments.models) != 1:
        return None
    seen = columns.values[moving[0]][: len(one.feature.values)]
    if seen.dtype.kind not in "iuf":
        return None
    form = tabulated_model.normal_form
    single = seen.dtype == np.float32 or one.held_as == np.float32 or (isinstance(form, Network) and form.is_single)
    numbers = np.array(one.feature.values, dtype=np.float64)
    return bound_bend(split_pipeline(context.arguments.models[0])[0], moving[0], numbers, seen, single=bool(single))
