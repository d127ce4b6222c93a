"""Points of a box that are put to the model itself: whatever a proof says, a single desired one refutes it.

Some thousand points are drawn: anywhere in the box, at its corners, and on both sides of every place where the model's
reading turns. Where a claim is about whole intervals, numbers between the values of the domains are drawn too, and the
neighbours of these values. The draw is a new one every time, so that nobody can prepare for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.checker.asked_models import AskedModel
from ironrule.checker.components import describe_changes, show_value
from ironrule.checker.intervals import is_numeric
from ironrule.checker.result import ClaimFails
from ironrule.checker.scope import Scope
from ironrule.checker.space.spaces import Feature

Points = npt.NDArray[np.int32]

ANYWHERE = 1024
CORNERS = 512
MOST_TURNS = 2048
FURTHEST = 2**62  # whole numbers beyond are not drawn
NUMBERS = 64  # drawn between two values of a domain, or beside one, per feature


def sample_box(
    scope: Scope, low: Points, high: Points, classes: Sequence[npt.NDArray[np.intp]], instance: Points
) -> None:
    """Ask the models about points of a box; raises ClaimFails with one that is desired and can occur."""
    rng = np.random.default_rng()
    points = _draw_points(rng, low, high, classes)
    points = points[scope.space.admits(points)]
    desired = points[scope.asked.desired(points)]
    if len(desired):
        raise ClaimFails(f"there is an exception: {describe_changes(scope.space, instance, desired[0])}")
    if scope.intervals:
        _sample_between(scope, low, high, rng)


def _draw_points(rng: np.random.Generator, low: Points, high: Points, classes: Sequence[Any]) -> Points:
    anywhere = rng.integers(low, high, size=(ANYWHERE, len(low)), endpoint=True, dtype=np.int32)
    corners = np.where(rng.integers(0, 2, size=(CORNERS, len(low)), dtype=np.int32), low, high)
    turns = []  # a feature and a code on either side of where the reading tells codes apart
    for j, of in enumerate(classes):
        inside = np.arange(low[j], high[j] + 1)
        changes = np.flatnonzero(of[inside][1:] != of[inside][:-1])
        turns += [(j, code) for code in np.unique(inside[np.concatenate([changes, changes + 1])]).tolist()]
    if len(turns) > MOST_TURNS:
        turns = [turns[place] for place in rng.choice(len(turns), MOST_TURNS, replace=False)]
    sides = rng.integers(low, high, size=(len(turns), len(low)), endpoint=True, dtype=np.int32)
    for row, (j, code) in enumerate(turns):
        sides[row, j] = code
    return np.concatenate([anywhere, corners, sides]).astype(np.int32)


def _sample_between(scope: Scope, low: Points, high: Points, rng: np.random.Generator) -> None:
    """Ask the models about numbers between the values of the domains: as points of a space that has those numbers."""
    every = zip(scope.space.features, low.tolist(), high.tolist(), strict=True)
    features = [_draw_numbers(feature, first, last, rng) for feature, first, last in every]
    space = replace(scope.space, features=tuple(features))
    moved = [new is not old for new, old in zip(features, scope.space.features, strict=True)]
    first, last = np.where(moved, 0, low), np.where(moved, space.sizes - 1, high)
    points = rng.integers(first, last, size=(ANYWHERE, len(low)), endpoint=True, dtype=np.int32)
    points = points[space.admits(points)]
    for member in scope.asked.members:
        if isinstance(member, AskedModel) and len(points):
            desired = points[member.decision(member.layout_for(space)(points), len(points))]
            if len(desired):
                values = [f"{f.name}: {show_value(f.value(int(c)))}" for f, c in zip(features, desired[0], strict=True)]
                raise ClaimFails(f"there is an exception between the values of the domains: {', '.join(values)}")


def _draw_numbers(feature: Feature, low: int, high: int, rng: np.random.Generator) -> Feature:
    """A numeric feature with other numbers of the box in its domain: drawn ones, and neighbours of those it has."""
    known = feature.values[low : min(high, feature.last) + 1]
    if not is_numeric(feature) or not known or max(abs(known[0]), abs(known[-1])) > FURTHEST:
        return feature  # the box may hold nothing but missing
    beside = [known[place] for place in rng.integers(0, len(known), size=NUMBERS)]
    if feature.whole:
        drawn = [int(n) for n in rng.integers(known[0], known[-1], size=NUMBERS, endpoint=True)]
        drawn += [number + step for number in beside for step in (-1, 1)]
    else:
        drawn = rng.uniform(known[0], known[-1], size=NUMBERS).tolist()
        drawn += [float(np.nextafter(number, side)) for number in beside for side in (-np.inf, np.inf)]
    inside = sorted({number for number in (*drawn, known[0], known[-1]) if known[0] <= number <= known[-1]})
    return replace(feature, values=tuple(inside), missing=False)
