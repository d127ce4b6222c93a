"""From past rows to what stands behind a rule: distributions, growth, and who needs every component.

All of it is read off the codes: a component admits an interval of codes, so comparing a column with it tells whom it
admits. Only a few bytes per row are held at a time, so that histories which do not fit into memory can be drawn too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ironrule.explain.background import Background, Caption, Distribution, Need, Step
from ironrule.rule import Component, Counterfactual, Rule
from ironrule.space import Codes, Feature, Points, Space, Value

MOST_ROWS = 5_000

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Past rows as codes of a space; ``desired`` says which have the desired outcome, None where nobody asked."""

    space: Space
    codes: Codes
    desired: Mask | None


def background_of(
    past: Past,
    rule: Rule,
    instance: Mapping[str, Value],
    known: Points,
    withstands: bool,
    libraries: tuple[tuple[str, str], ...] = (),
) -> Background:
    """What stands behind a rule; ``known`` are counterfactuals as codes."""
    space = past.space
    return Background(
        tuple(Caption(feature.name, feature.label, feature.unit) for feature in space.features),
        tuple(_distribution(past, space.index(name)) for name in rule.features),
        _growth(rule.components, past),
        _needs(rule.components, past, space.encode_row(instance), known),
        space.size,
        tuple(map(str, space.constraints)),
        withstands,
        libraries,
    )


def interval(component: Component, feature: Feature) -> tuple[int, int]:
    """The first and the last code that a component admits."""
    code = feature.missing_code if component.value is None else feature.places[component.value]
    if component.op == "==":
        return code, code
    return (0, code) if component.op == "<=" else (code, feature.last)


def _admitted(component: Component, space: Space, codes: Codes) -> Mask:
    place = space.index(component.feature)
    low, high = interval(component, space.features[place])
    column = codes.columns[place]
    return np.asarray((column >= low) & (column <= high), dtype=np.bool_)


def _distribution(past: Past, place: int) -> Distribution:
    feature = past.space.features[place]
    return Distribution(feature, tuple(np.bincount(past.codes.columns[place], minlength=feature.size).tolist()))


def _growth(components: Sequence[Component], past: Past) -> tuple[Step, ...]:
    """The rule grown by what excludes most desired rows first; most rows of any kind, where the model was not asked."""
    everyone = np.ones(len(past.codes), dtype=np.bool_)
    steps, left, here = [_step(None, everyone, past.desired)], list(components), past
    while left:
        found = [_step(one, _admitted(one, past.space, here.codes), here.desired) for one in left]
        best = min(range(len(left)), key=lambda place: (found[place].desired or 0, found[place].covered, place))
        steps.append(found[best])
        here = _among(here, _admitted(left.pop(best), past.space, here.codes), left)
    return tuple(steps)


def _step(component: Component | None, inside: Mask, desired: Mask | None) -> Step:
    covered = int(np.count_nonzero(inside))
    return Step(component, covered, None if desired is None else int(np.count_nonzero(inside & desired)))


def _among(past: Past, inside: Mask, left: Sequence[Component]) -> Past:
    """The rows inside; of the columns, only those that what is left of the rule speaks of."""
    needed = {past.space.index(component.feature) for component in left}
    columns = [column[inside] if place in needed else column[:0] for place, column in enumerate(past.codes.columns)]
    return replace(past, codes=Codes(tuple(columns)), desired=None if past.desired is None else past.desired[inside])


def _needs(components: Sequence[Component], past: Past, instance: Points, known: Points) -> tuple[Need, ...]:
    """For every component the nearest counterfactual that it alone excludes: a past row, or one of those known."""
    rows, points = past.codes, Codes(tuple(known.T))
    broken_by_rows, broken_by_points = (_broken(components, past.space, codes) for codes in (rows, points))
    needs = []
    for component in components:
        found = known[(broken_by_points == 1) & ~_admitted(component, past.space, points)]
        chosen = (broken_by_rows == 1) & ~_admitted(component, past.space, rows)
        needs.append(_need(component, found, _desired(past, chosen), past.space, instance))
    return tuple(needs)


def _broken(components: Sequence[Component], space: Space, codes: Codes) -> npt.NDArray[np.uint8]:
    """How many components every row breaks: at most two for every feature, of which there are few."""
    counts = np.zeros(len(codes), dtype=np.uint8)
    for component in components:
        counts += ~_admitted(component, space, codes)
    return counts


def _desired(past: Past, chosen: Mask) -> Points:
    """Some of the chosen past rows that are desired."""
    places = np.flatnonzero(chosen if past.desired is None else chosen & past.desired)
    return past.codes.points(places[: MOST_ROWS if past.desired is not None else 0])


def _need(component: Component, found: Points, rows: Points, space: Space, instance: Points) -> Need:
    past = len(rows) > 0 and (len(found) == 0 or _least(rows, instance) <= _least(found, instance))
    points = rows if past else found
    if len(points) == 0:
        return Need(component, None)
    nearest = points[np.argmin((points != instance).sum(axis=1))]
    return Need(component, Counterfactual.between(space, instance, nearest), past)


def _least(points: Points, instance: Points) -> int:
    return int((points != instance).sum(axis=1).min())
