"""Conditions beside the past rows of their features: distributions as bars, with what stands at their axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ironrule.arrays import Int64Array
from ironrule.rule.condition import find_admitted_codes
from ironrule.rule.phrasing import FeatureLabels, format_label, group_conditions, name_value
from ironrule.rule.rule import Rule
from ironrule.space.feature import Feature
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.space.space import Space
from ironrule.wording import format_count

MAX_BARS = 40
MAX_CATEGORIES = 6


def build_conditions(
    rule: Rule, wider: Rule | None, space: Space, instance: dict[str, Any], frequencies: Sequence[Int64Array]
) -> list[dict[str, Any]]:
    """One entry per feature of a rule: what is shown of it, what it says with the row's own value, the wider bound, and
    the distribution.
    """
    entries, labels = [], FeatureLabels.from_space(space, "unquoted")
    further = {} if wider is None else {moved.feature: moved for moved in group_conditions(wider)}
    for condition in group_conditions(rule):
        name = condition.feature
        feature, place = space[name], space.index(name)
        shown = further.get(name, condition)
        admitted = find_admitted_codes(shown, feature)
        inside = [code in admitted for code in range(feature.size)]
        bins, own_code = assign_bins(feature), feature.code(instance[name])
        bars = build_bars(frequencies[place], bins, inside, own_code)
        text, wider_text = (labels.format_sentence(one) for one in (condition, shown))
        entries.append(
            {
                "feature": name,
                "label": format_label(feature),
                "unit": feature.unit,
                "shown": wider_text,
                "text": text,
                "value": name_value(name, instance[name], space.labels, "unquoted"),
                "wider": wider_text if wider_text != text else None,
                "bars": bars,
                "axis": build_axis(feature, bins, frequencies[place], space.labels),
                "categories": list_categories(
                    feature, frequencies[place], inside=inside, own_code=own_code, labels=space.labels
                ),
                "satisfying_rows": int(frequencies[place][np.array(inside)].sum()),
            }
        )
    return entries


def build_bars(counts: Int64Array, bins: Int64Array, inside: Sequence[bool], own_code: int) -> list[dict[str, Any]]:
    """A distribution as bars: heights from 0 to 1, which share of the rows in each is allowed, the row's own place."""
    heights = np.bincount(bins, weights=counts)
    allowed = np.bincount(bins, weights=counts * np.array(inside))
    last = {int(place): bool(allows) for place, allows in zip(bins, inside, strict=True)}
    top = float(heights.max()) or 1.0
    return [
        {
            "height": round(height / top, 3),
            "allowed_share": round(part / height, 3) if height else 0.0,
            "allowed_on_right": last.get(place, False),  # else on the left, where only a part is allowed
            "is_own": place == int(bins[own_code]),
        }
        for place, (height, part) in enumerate(zip(heights.tolist(), allowed.tolist(), strict=True))
    ]


def build_axis(
    feature: Feature, bins: Int64Array, counts: Int64Array, labels: Labels = NO_LABELS
) -> dict[str, Any] | None:
    """What is written at an axis of numbers: its ends, the height of the largest bar, and whether the last bar is
    missing values; None for categories, which have names of their own.
    """
    if not feature.ordered or not feature.values:
        return None
    return {
        "low": name_value(feature.name, feature.values[0], labels, "unquoted"),
        "high": name_value(feature.name, feature.values[-1], labels, "unquoted"),
        "top": int(np.bincount(bins, weights=counts).max()),
        "last_is_missing": feature.missing,
    }


def list_categories(
    feature: Feature, counts: Int64Array, inside: Sequence[bool], own_code: int, labels: Labels = NO_LABELS
) -> list[dict[str, Any]] | None:
    """The values of a category with how many rows have each, those of most rows first and the row's own always among
    them; None for what has an axis. What is too much for a page is one line at the end.
    """
    if feature.ordered and feature.values:
        return None
    top = max(1, int(counts.max()))
    order = sorted(range(feature.size), key=lambda code: (code != own_code, -int(counts[code])))
    shown = order if feature.size <= MAX_CATEGORIES else order[: MAX_CATEGORIES - 1]
    rest = [code for code in order if code not in shown]
    rows = [
        {
            "text": name_value(feature.name, feature.value(code), labels, "unquoted"),
            "rows": int(counts[code]),
            "height": round(int(counts[code]) / top, 3),
            "is_allowed": bool(inside[code]),
            "is_own": code == own_code,
        }
        for code in sorted(shown, key=lambda code: -int(counts[code]))
    ]
    if rest:
        number = int(counts[rest].sum())
        text = format_count(len(rest), "other value")
        allowed = sum(bool(inside[code]) for code in rest)
        text += f", {allowed} allowed" if 0 < allowed < len(rest) else ""
        every = {"is_allowed": allowed == len(rest), "is_own": False}
        rows.append({"text": text, "rows": number, "height": min(1.0, round(number / top, 3)), **every})
    return rows


def assign_bins(feature: Feature) -> Int64Array:
    """Which bar every code belongs to: its own, or where there are too many, by value or else by place in the order.

    >>> assign_bins(Feature("age", (20, 30, 40), ordered=True)).tolist()
    [0, 1, 2]
    """
    places = np.arange(feature.size, dtype=np.int64)
    if feature.size <= MAX_BARS:
        return places
    if not (feature.naturally_ordered and feature.numeric):
        return places * MAX_BARS // feature.size
    values = np.array(feature.values, dtype=float)
    scaled = (values - values[0]) / (values[-1] - values[0]) * MAX_BARS
    bins = np.minimum(scaled.astype(np.int64), MAX_BARS - 1)
    return np.append(bins, MAX_BARS) if feature.missing else bins
