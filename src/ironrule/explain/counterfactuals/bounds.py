"""Bounds of constraints as values of the domains, so that proofs hold between the values too.

A constraint that may hold for a number between two values of a domain and not at both of them leaves the numbers in
between open. Where its bound is itself a value of the domain, it holds there at both ends or at neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ironrule.explain.context import ExplainerContext, decide_row
from ironrule.explain.extend import extend_to_numbers, extend_to_row
from ironrule.model.intervals import find_constant_bound, list_neighbours
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Value


def extend_to_bounds(context: ExplainerContext, row: Any, bounds: Iterable[tuple[str, Value]]) -> ExplainerContext:
    """The context whose intervals have these numbers, by feature; those beyond the ends of a domain are left out."""
    own = context.space.decode_row(decide_row(context, row)[0])
    for name, value in bounds:
        feature = context.space[name]
        if not feature.interval or not isinstance(value, (int, float)):
            continue
        inside = feature.values[0] < value < feature.values[-1]
        if inside and (not feature.has_only_integers or float(value).is_integer()):
            context, _ = extend_to_row(context, {**own, name: value})
    return context


def extend_to_constants(context: ExplainerContext, row: Any, limits: Sequence[Constraint]) -> ExplainerContext:
    """The context whose intervals have the numbers that constraints on changes name, with those next to them, where the
    constraints may hold between two values and not at both; features of constraints must be searched (``reduced``).
    """
    if context.gaps is None or not limits:
        return context
    features, instance = context.reduced.space.features, context.reduced.reduce(decide_row(context, row)[0])
    numbers: dict[str, set[Value]] = {}
    for limit in limits:
        for comparison in context.gaps.list_unsafe_comparisons(bind_constraint(limit, features), instance):
            bound = find_constant_bound(comparison, instance)
            if bound is not None and math.isfinite(bound.constant):
                feature = features[bound.read.index]
                near = list_neighbours(bound.constant + 0.0, feature.has_only_integers)
                numbers.setdefault(feature.name, set()).update(near)
    return extend_to_numbers(context, {name: sorted(near) for name, near in numbers.items()})
