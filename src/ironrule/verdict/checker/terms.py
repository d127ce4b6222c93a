"""From the user's terms to codes: values, points, components and boxes, by the space that is at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.rule.component import Component
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space import Feature, Points, Space
from ironrule.space.plain import from_plain
from ironrule.verdict.checker.document import Plain
from ironrule.verdict.checker.result import Fails
from ironrule.verdict.digest import canonical


@dataclass(frozen=True, slots=True)
class Condition:
    """A component as codes: the feature's position and the codes that it admits, first and last."""

    feature: int
    low: int
    high: int


def code_of(feature: Feature, plain: Any) -> int:
    """The code of a value given as plain data; raises Fails if the domain does not have it."""
    try:
        value = from_plain(plain)
    except (ValueError, TypeError):
        raise Fails(f"{feature.name!r} must be {feature.describe()}, but {plain!r} came") from None
    if value is None and feature.missing:
        return feature.missing_code
    for code, known in enumerate(feature.values):
        if known == value and isinstance(known, bool) == isinstance(value, bool):
            return code
    raise Fails(f"{feature.name!r} must be {feature.describe()}, but {plain!r} came")


def point_of(space: Space, values: Plain) -> Points:
    """The point with these values; raises Fails if it is none of the space."""
    if set(values) != set(space.names):
        odd = sorted(set(values) ^ set(space.names))
        raise Fails(f"a point must have a value for every feature and no more, but {odd[0]!r} is one too many or few")
    return np.array([code_of(feature, values[feature.name]) for feature in space.features], dtype=np.int32)


def counterfactual_of(space: Space, instance: Points, plain: Plain) -> Points:
    """The point of a counterfactual whose changes are those that lead to it; raises Fails if they are not."""
    point = point_of(space, plain["values"])
    if canonical(plain) != canonical(Counterfactual.between(space, instance, point).to_dict()):
        raise Fails("the changes listed must be those that lead from the instance to the values, but they are not")
    return point


def condition_of(space: Space, plain: Plain) -> Condition:
    """What a component admits; raises Fails if it makes no sense in the space."""
    if plain["feature"] not in space.names:
        raise Fails(f"a component must name a feature of the space, but {plain['feature']!r} is none")
    place = space.index(plain["feature"])
    feature, op = space.features[place], plain["op"]
    code = code_of(feature, plain["value"])
    if op != "==" and (not feature.ordered or code == feature.missing_code):
        raise Fails(f"{feature.name!r} has no order, or not for a missing value, but a component says {op}")
    expected = Component.of(feature, op, feature.value(code)).to_dict()
    if canonical(plain) != canonical(expected):
        raise Fails(f"the component {feature.name} {op} must name its columns as the space has them, but does not")
    low, high = {"<=": (0, code), ">=": (code, feature.last), "==": (code, code)}[op]
    return Condition(place, low, high)


def box_of(space: Space, conditions: list[Condition]) -> tuple[Points, Points]:
    """Where all conditions hold: the first and the last code of every feature."""
    low, high = np.zeros(len(space), dtype=np.int32), (space.sizes - 1).astype(np.int32)
    for one in conditions:
        low[one.feature] = max(low[one.feature], one.low)
        high[one.feature] = min(high[one.feature], one.high)
    return low, high
