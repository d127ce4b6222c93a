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
        bars = bars_of(frequencies[place], inside, feature.code(instance[name]))
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


def bars_of(counts: npt.NDArray[np.int64], inside: Sequence[bool], here: int) -> list[dict[str, Any]]:
    """A distribution as at most forty bars: heights from 0 to 1, the part that is allowed, the row's own place."""
    edges = np.linspace(0, len(counts), min(len(counts), MOST_BARS) + 1).astype(int)
    parts = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    heights = np.array([int(counts[low:high].sum()) for low, high in parts], dtype=float)
    top = float(heights.max()) or 1.0
    return [
        {
            "height": round(height / top, 3),
            "inside": round(sum(inside[low:high]) / (high - low), 3),
            "right": bool(inside[high - 1]),  # where the allowed part of a bar is, if it is not all of it
            "here": low <= here < high,
        }
        for (low, high), height in zip(parts, heights.tolist(), strict=True)
    ]


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
