"""From past rows to what stands behind a rule: distributions, growth, and who needs every component.

All of it is read off the codes: a component admits an interval of codes, so a few comparisons per component and one
pass over their results tell what the rule covers at every step, and whom one component alone excludes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    inside = [_admitted(component, space, past.codes) for component in rule.components]
    return Background(
        tuple(Caption(feature.name, feature.label, feature.unit) for feature in space.features),
        tuple(_distribution(past, space.index(name)) for name in rule.features),
        _growth(rule.components, inside, past),
        _needs(rule.components, inside, past, space.encode_row(instance), known),
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


def _growth(components: Sequence[Component], inside: Sequence[Mask], past: Past) -> tuple[Step, ...]:
    """The rule grown by what excludes most desired rows first; most rows of any kind, where the model was not asked."""
    here = np.ones(len(past.codes), dtype=np.bool_)
    steps, left = [_step(None, here, past)], list(range(len(components)))
    while left:
        options = {place: _step(components[place], here & inside[place], past) for place in left}
        best = min(left, key=lambda place: (options[place].desired or 0, options[place].covered, place))
        here = here & inside[best]
        steps.append(options[best])
        left.remove(best)
    return tuple(steps)


def _step(component: Component | None, here: Mask, past: Past) -> Step:
    desired = None if past.desired is None else int((here & past.desired).sum())
    return Step(component, int(here.sum()), desired)


def _needs(
    components: Sequence[Component], inside: Sequence[Mask], past: Past, instance: Points, known: Points
) -> tuple[Need, ...]:
    """For every component the nearest counterfactual that it alone excludes: a past row, or one of those known."""
    admit = [_admitted(component, past.space, Codes(tuple(known.T))) for component in components]
    needs = []
    for place, component in enumerate(components):
        rows = _rows(past, _excluded_by(place, inside))
        needs.append(_need(component, known[_excluded_by(place, admit)], rows, past.space, instance))
    return tuple(needs)


def _excluded_by(place: int, admitted: Sequence[Mask]) -> Mask:
    """Which points this component alone excludes."""
    others = [mask for other, mask in enumerate(admitted) if other != place]
    return np.asarray(np.logical_and.reduce([~admitted[place], *others]), dtype=np.bool_)


def _rows(past: Past, chosen: Mask) -> Points:
    """Some of the chosen past rows that are desired."""
    desired = np.zeros(len(past.codes), dtype=np.bool_) if past.desired is None else past.desired
    return past.codes.points(np.flatnonzero(chosen & desired)[:MOST_ROWS])


def _need(component: Component, found: Points, rows: Points, space: Space, instance: Points) -> Need:
    past = len(rows) > 0 and (len(found) == 0 or _least(rows, instance) <= _least(found, instance))
    points = rows if past else found
    if len(points) == 0:
        return Need(component, None)
    nearest = points[np.argmin((points != instance).sum(axis=1))]
    return Need(component, Counterfactual.between(space, instance, nearest), past)


def _least(points: Points, instance: Points) -> int:
    return int((points != instance).sum(axis=1).min())
