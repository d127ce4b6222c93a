"""Measure counterfactuals as papers on them do: how much they change, and whether people like that were accepted.

``ynn`` is as in CARLA (Pawelczyk and others, 2021): of the five past rows that are nearest to a counterfactual, the
share with the desired outcome. Nearest is by the root of the sum of squared distances, each in ranges of its feature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ironrule.arrays import BoolArray, Float64Array
from ironrule.explain.context import ExplainerContext, raise_without_rows
from ironrule.explain.counterfactuals.costs.row_cost import RowCost
from ironrule.results.counterfactuals import ChangeMeasures
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.feature import Feature, Value, is_missing

NEIGHBOURS = 5


def measure_counterfactuals(
    context: ExplainerContext, instance: Mapping[str, Value], items: Sequence[Counterfactual], row_cost: RowCost | None
) -> tuple[ChangeMeasures, ...]:
    """The measures of some counterfactuals of a row; without a cost of the user's own, cost is the sum of distances."""
    if context.row_count == 0:
        raise_without_rows("measures of counterfactuals")
    return tuple(_measure(context, instance, item, row_cost) for item in items)


def _measure(
    context: ExplainerContext, instance: Mapping[str, Value], item: Counterfactual, row_cost: RowCost | None
) -> ChangeMeasures:
    features = [feature for feature in context.space.features if item.values[feature.name] != instance[feature.name]]
    apart = [_find_distance(feature, item.values[feature.name], instance[feature.name]) for feature in features]
    l1 = math.fsum(apart)
    return ChangeMeasures(
        l0=len(features),
        l1=l1,
        l2=math.hypot(*apart),
        linf=max(apart, default=0.0),
        ynn=_find_desired_share(context, item.values),
        cost=l1 if row_cost is None else row_cost.measure_distance(item.values),
    )


def _find_distance(feature: Feature, value: Value, other: Value) -> float:
    return float(_tabulate_distances(feature, [other], value)[0])


def _tabulate_distances(feature: Feature, values: Sequence[Value], value: Value) -> Float64Array:
    """How far some values are from one, in ranges of the feature: 1 for others without an order, and for missing."""
    if not feature.ordered or is_missing(value):
        return np.array([0.0 if one == value or (is_missing(one) and is_missing(value)) else 1.0 for one in values])
    places = _place(feature, [feature.values[0], feature.values[-1]])
    reach = abs(float(places[1] - places[0])) or 1.0
    present = [place for place, one in enumerate(values) if not is_missing(one)]
    apart = np.ones(len(values))
    apart[present] = np.abs(_place(feature, [values[place] for place in present]) - _place(feature, [value])) / reach
    return apart


def _place(feature: Feature, values: Sequence[Value]) -> Float64Array:
    numbers = values if feature.numeric else [feature.code_by_value[value] for value in values]
    return np.array(numbers, dtype=np.float64)


def _find_desired_share(context: ExplainerContext, values: Mapping[str, Value]) -> float:
    """The share of the nearest past rows that have the desired outcome; of rows as near, the first ones count."""
    squared = np.zeros(len(context.history))
    for feature, column in zip(context.space.features, context.history.codes.columns, strict=True):
        domain = (*feature.values, None)[: feature.size]
        squared += (_tabulate_distances(feature, domain, values[feature.name]) ** 2)[column]
    return float(_select_nearest(squared, context.outcomes).mean())


def _select_nearest(squared: Float64Array, outcomes: BoolArray) -> BoolArray:
    """The outcomes of the nearest rows."""
    count = min(NEIGHBOURS, len(squared))
    farthest = np.partition(squared, count - 1)[count - 1]
    nearer, as_far = np.flatnonzero(squared < farthest), np.flatnonzero(squared == farthest)
    return np.asarray(outcomes[np.concatenate([nearer, as_far])[:count]], dtype=np.bool_)
