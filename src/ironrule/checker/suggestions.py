"""Changes that are suggested to a person: their numbers need not be values of the domains.

The model is asked about every one, and about what it was before its numbers were rounded. That they respect their
limits, and are the nearest, is checked by :mod:`~ironrule.checker.changes.suggested`, if they are said to be proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.checker.arrays import Int32Array
from ironrule.checker.components import encode_counterfactual, encode_point
from ironrule.checker.document import ChangesClaim, JsonObject
from ironrule.checker.intervals import is_interval_feature
from ironrule.checker.result import ClaimFailed, ClaimUndecided
from ironrule.checker.scope import CheckScope
from ironrule.checker.space.space import CheckerFeature, CheckerSpace
from ironrule.checker.user_models import UserModel

ROUNDING = 1e-9  # of a range, in the differences of its numbers


def check_suggested_changes(
    changes: ChangesClaim, scope: CheckScope, instance: JsonObject, check_nearest: Callable[[], str]
) -> str:
    """What becomes of the claim; raises ClaimFailed unless the model gives all of them the desired outcome."""
    plain = changes.counterfactuals
    nearest = check_nearest() if changes.proven else "that they are the nearest is not claimed"
    if not plain:
        return f"none is suggested; {nearest}" if changes.proven else "none is suggested"
    for one in plain:
        for name in one.get("exact", {}):
            check_rounding(one, name, scope.space, changes.resolution if changes.cost is None else 1.0)
    before = [{**one["values"], **one["exact"]} for one in plain if "exact" in one]
    space = add_numbers(scope.space, [*(one["values"] for one in plain), *before])
    origin = encode_point(space, instance)
    shown = [{"values": one["values"], "changes": one["changes"]} for one in plain]
    points = [*(encode_counterfactual(space, origin, one) for one in shown), *(encode_point(space, v) for v in before)]
    _require_desired(scope, space, np.stack(points))
    rounded = f", {len(before)} of them also before rounding" if before else ""
    return f"the model gives all {len(plain)} the desired outcome{rounded}; {nearest}"


def _require_desired(scope: CheckScope, space: CheckerSpace, points: Int32Array) -> None:
    """Raise ClaimFailed unless all points can occur and the model itself gives them the desired outcome."""
    if not space.admits(points).all():
        raise ClaimFailed("a suggested change must satisfy the constraints on the space, but one does not")
    model = scope.user_models.primary
    if space == scope.space:
        desired = model.desired(points)
    elif isinstance(model, UserModel):
        desired = model.decision(model.layout_for(space)(points), len(points))
    else:
        raise ClaimUndecided("the model cannot be asked about numbers between the values of the domains")
    if not desired.all():
        raise ClaimFailed("the model must give every suggested change the desired outcome, but it denies one")


def add_numbers(space: CheckerSpace, rows: Sequence[JsonObject]) -> CheckerSpace:
    """The space whose intervals have all numbers of some rows."""
    features = []
    for feature in space.features:
        new = {value for row in rows if _is_between(feature, value := row.get(feature.name))}.difference(feature.values)
        features.append(replace(feature, values=tuple(sorted({*feature.values, *new}))) if new else feature)
    return replace(space, features=tuple(features))


def _is_between(feature: CheckerFeature, value: Any) -> bool:
    """Whether a value is a number inside an interval."""
    kinds = (int,) if feature.whole else (int, float)
    inside = is_interval_feature(feature) and type(value) in kinds and math.isfinite(value)
    return inside and bool(feature.values[0] <= value <= feature.values[-1])


def check_rounding(one: JsonObject, name: str, space: CheckerSpace, resolution: float) -> None:
    """Raise ClaimFailed unless a number was rounded away from the row, and by no more than the resolution."""
    change = next((change for change in one["changes"] if change["feature"] == name), None)
    feature = space.features[space.index(name)] if name in space.names else None
    if change is None or feature is None or not is_interval_feature(feature):
        raise ClaimFailed(f"only numbers of intervals that change can be rounded, but {name!r} is said to be")
    own, exact, shown = numbers = change["before"], one["exact"][name], change["after"]
    if not all(type(number) in (int, float) for number in numbers):
        raise ClaimFailed(f"{name!r} is said to be rounded, but it is no number")
    away = min(own, shown) <= exact <= max(own, shown)
    if not away or abs(shown - exact) > (resolution + ROUNDING) * (feature.values[-1] - feature.values[0]):
        raise ClaimFailed(f"{name!r} must be rounded away from the row, and by no more than the resolution")
