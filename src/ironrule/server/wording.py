"""Rules, values and distributions in the words and numbers that the pages show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.rule import Component, Counterfactual, Rule
from ironrule.server.subject import is_true, name_of, text_of
from ironrule.space import Feature, Space

MOST_BARS = 40
WORDS = {"<=": "at most", ">=": "at least", "==": "is"}


def phrase(components: Sequence[Component]) -> str:
    """What components of one feature say of it, without its name.

    >>> phrase([Component("age", ">=", 30)]), phrase([Component("age", "<=", 40), Component("age", ">=", 30)])
    ('at least 30', 'from 30 to 40')
    """
    by_op = {one.op: text_of(one.value) for one in components}
    if "<=" in by_op and ">=" in by_op:
        same = by_op["<="] == by_op[">="]
        return f"is {by_op['<=']}" if same else f"from {by_op['>=']} to {by_op['<=']}"
    return " and ".join(f"{WORDS[op]} {text}" for op, text in by_op.items())


def conditions(
    rule: Rule, wider: Rule | None, space: Space, instance: dict[str, Any], frequencies: Sequence[npt.NDArray[np.int64]]
) -> list[dict[str, Any]]:
    """One entry per feature of a rule: what it says, the row's own value, the wider bound, and the distribution."""
    entries = []
    for name in rule.features:
        feature, place = space[name], space.index(name)
        own = [one for one in rule.components if one.feature == name]
        moved = [] if wider is None else [one for one in wider.components if one.feature == name]
        inside = [all(is_true(one, feature, code) for one in own) for code in range(feature.size)]
        bars = bars_of(frequencies[place], bins_of(feature), inside, feature.code(instance[name]))
        said, further = phrase(own), phrase(moved) if moved else None
        entries.append(
            {
                "feature": name,
                "name": name_of(feature),
                "unit": feature.unit,
                "says": said,
                "value": text_of(instance[name]),
                "wider": further if further != said else None,
                "bars": bars,
                "rows": int(frequencies[place][np.array(inside)].sum()),
            }
        )
    return entries


def bars_of(
    counts: npt.NDArray[np.int64], bins: npt.NDArray[np.int64], inside: Sequence[bool], here: int
) -> list[dict[str, Any]]:
    """A distribution as bars: heights from 0 to 1, which share of the rows in each is allowed, the row's own place."""
    heights = np.bincount(bins, weights=counts)
    allowed = np.bincount(bins, weights=counts * np.array(inside))
    last = {int(place): bool(one) for place, one in zip(bins, inside, strict=True)}
    top = float(heights.max()) or 1.0
    return [
        {
            "height": round(height / top, 3),
            "inside": round(part / height, 3) if height else 0.0,
            "right": last.get(place, False),  # on which side the allowed part of a bar is, if it is not all of it
            "here": place == int(bins[here]),
        }
        for place, (height, part) in enumerate(zip(heights.tolist(), allowed.tolist(), strict=True))
    ]


def bins_of(feature: Feature) -> npt.NDArray[np.int64]:
    """Which bar every code belongs to: its own, or where there are too many, by value or else by place in the order.

    >>> bins_of(Feature("age", (20, 30, 40), ordered=True)).tolist()
    [0, 1, 2]
    """
    places = np.arange(feature.size, dtype=np.int64)
    if feature.size <= MOST_BARS:
        return places
    if not (feature.natural and feature.numeric):
        return places * MOST_BARS // feature.size
    values = np.array(feature.values, dtype=float)
    scaled = (values - values[0]) / (values[-1] - values[0]) * MOST_BARS
    bins = np.minimum(scaled.astype(np.int64), MOST_BARS - 1)
    return np.append(bins, MOST_BARS) if feature.missing else bins


def changes(found: Counterfactual, space: Space) -> list[dict[str, str]]:
    """The changes of a counterfactual."""
    return [
        {"feature": one.feature, "name": _named(space, one.feature), "before": text_of(one.before),
         "after": text_of(one.after)}
        for one in found.changes
    ]  # fmt: skip


def sentence(rule: Rule, space: Space) -> str:
    """A rule in one line, in labels."""
    parts = []
    for name in rule.features:
        said = phrase([one for one in rule.components if one.feature == name])
        parts.append(f"{_named(space, name)} {said}")
    return "; ".join(parts) or "everyone"


def _named(space: Space, name: str) -> str:
    return name_of(space[name]) if name in space.names else name.replace("_", " ")


def options_of(feature: Feature) -> list[str] | None:
    """The values to choose from, where they are few."""
    return [text_of(feature.value(code)) for code in range(feature.size)] if feature.size <= 60 else None
