"""Stated rules of tiny cases, and their quality by looking at every point and at every rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from ironrule.oracles.protocol import Case
from ironrule.rule.condition import ComponentInterval, ComponentIntervals, build_box, encode_own_components
from ironrule.verdict.verdict import Quality
from tiny_cases import exceptions_in, subsets


def options_of(case: Case) -> list[ComponentInterval]:
    """Every part that the instance satisfies, those that exclude nothing included."""
    found = []
    for j, feature in enumerate(case.space.features):
        code = case.instance.item(j)
        if not feature.ordered or code > feature.last_code:
            found.append(ComponentInterval(2 * j, code, code))
        else:
            found += [ComponentInterval(2 * j, 0, high) for high in range(code, feature.last_code + 1)]
            found += [ComponentInterval(2 * j + 1, low, feature.last_code) for low in range(code + 1)]
    return found


@st.composite
def stated_rules(draw: st.DrawFn, case: Case) -> ComponentIntervals:
    """A rule with any bounds round the instance; now and then one that says something twice."""
    return tuple(draw(st.lists(st.sampled_from(options_of(case)), max_size=6)))


def holds(case: Case, parts: ComponentIntervals) -> bool:
    """Whether no point that occurs in the box is desired."""
    return len(exceptions_in(case, build_box(case.components, parts))) == 0


def least_weight(case: Case, weights: Sequence[float]) -> float:
    """What the lightest consistent rule of the row's own components weighs."""
    rules = (encode_own_components(case.components, bits) for bits in subsets(case.components.usable))
    return min(weight_of(parts, weights) for parts in rules if holds(case, parts))


def weight_of(parts: ComponentIntervals, weights: Sequence[float]) -> float:
    return float(sum(weights[part.bit] for part in parts))


def true_quality(case: Case, parts: ComponentIntervals, weights: Sequence[float], least: float) -> Quality:
    """The class of a rule, by looking."""
    box, history = build_box(case.components, parts), case.history
    if box.contains(history.codes.points())[np.asarray(history.outcomes)].any():
        return Quality.FAILED_DATA
    if not holds(case, parts):
        return Quality.FAILED_GLOBAL
    if any(holds(case, parts[:place] + parts[place + 1 :]) for place in range(len(parts))):
        return Quality.REDUNDANT
    return Quality.MINIMUM if weight_of(parts, weights) <= least else Quality.IRREDUNDANT
