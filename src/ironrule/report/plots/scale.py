"""A feature's values on a line from 0 to 1: equal slots for categories and few values, a scale for many numbers."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ironrule.results.background import Distribution
from ironrule.space.feature import Feature
from ironrule.wording import format_value

MAX_SLOTS = 8
MAX_NUMBER_SLOTS = 12
BINS = 32
MISSING_START, NUMBERS_END = 0.93, 0.90  # where the part of missing values begins, and numbers end, on one line


@dataclass(frozen=True, slots=True)
class HistogramBar:
    """Past rows with values between ``left`` and ``right``: those that the condition admits, and the others."""

    left: float
    right: float
    admitted: int
    others: int


@dataclass(frozen=True, slots=True)
class Tick:
    """A text at a place on the line."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class FeatureScale:
    """From where to where every code lies, which codes share a bar, and what is written below."""

    starts: tuple[float, ...]
    ends: tuple[float, ...]
    groups: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[float, float], ...]
    ticks: tuple[Tick, ...]

    def span(self, codes: range) -> tuple[float, float]:
        """The part of the line that these codes take."""
        return min(self.starts[codes[0]], self.starts[codes[-1]]), max(self.ends[codes[0]], self.ends[codes[-1]])

    def bars(self, counts: Sequence[int], admitted: range) -> tuple[HistogramBar, ...]:
        """The past rows as bars."""
        bars = []
        for codes, (left, right) in zip(self.groups, self.edges, strict=True):
            inside = sum(counts[code] for code in codes if code in admitted)
            bars.append(HistogramBar(left, right, inside, sum(counts[code] for code in codes) - inside))
        return tuple(bars)


def build_scale(distribution: Distribution, kept: frozenset[int]) -> FeatureScale:
    """The line for a feature; the codes ``kept`` always have a place of their own."""
    feature = distribution.feature
    if feature.naturally_ordered and len(feature.values) > MAX_NUMBER_SLOTS:
        return _build_number_scale(feature)
    return _build_slot_scale(distribution, kept)


def _build_slot_scale(distribution: Distribution, kept: frozenset[int]) -> FeatureScale:
    feature, counts = distribution.feature, distribution.counts
    codes = range(feature.size)
    alone = set(codes)
    if feature.size > (MAX_NUMBER_SLOTS + 1 if feature.ordered else MAX_SLOTS):
        most_frequent = sorted(codes, key=lambda code: -counts[code])
        alone = {*kept, *((0, feature.last_code) if feature.ordered else most_frequent[: MAX_SLOTS - 2])}
    groups = _group_codes(codes, alone, feature.ordered)
    # every group has a slot of the same width, and its text in the middle of it
    edges = tuple((index / len(groups), (index + 1) / len(groups)) for index in range(len(groups)))
    slots = {code: slot for slot, group in zip(edges, groups, strict=True) for code in group}
    ticks = tuple(
        Tick((left + right) / 2, _label_group(feature, group))
        for (left, right), group in zip(edges, groups, strict=True)
    )
    starts, ends = (tuple(slots[code][end] for code in codes) for end in (0, 1))
    return FeatureScale(starts, ends, groups, edges, ticks)


def _group_codes(codes: range, alone: set[int], ordered: bool) -> tuple[tuple[int, ...], ...]:
    """Each code of ``alone`` by itself; the others together: between two of those or, without an order, at the end."""
    if not ordered:
        rest = tuple(code for code in codes if code not in alone)
        return (*((code,) for code in sorted(alone)), *((rest,) if rest else ()))
    groups: list[list[int]] = []
    for code in codes:  # a new group for a code of its own, and for the first one after such a code
        if code in alone or not groups or groups[-1][0] in alone:
            groups.append([])
        groups[-1].append(code)
    return tuple(map(tuple, groups))


def _label_group(feature: Feature, codes: tuple[int, ...]) -> str:
    if len(codes) == 1:
        return format_value(feature.value(codes[0]), "letter")
    return f"{len(codes)} between" if feature.ordered else f"{len(codes)} others"


def _build_number_scale(feature: Feature) -> FeatureScale:
    numbers = [_to_number(value) for value in feature.values]
    low, high, length = numbers[0], numbers[-1], NUMBERS_END if feature.missing else 1.0
    positions = [length * (number - low) / (high - low) for number in numbers]
    bins: dict[int, list[int]] = {}  # those with codes in them, of BINS equal parts of the line
    for code, position in enumerate(positions):
        bins.setdefault(min(BINS - 1, int(position / length * BINS)), []).append(code)
    starts, ends = list(positions), list(positions)
    groups = [tuple(codes) for codes in bins.values()]
    edges = [(length * number / BINS, length * (number + 1) / BINS) for number in bins]
    ticks = [Tick(length * (mark - low) / (high - low), text) for mark, text in _choose_ticks(feature, low, high)]
    if feature.missing:  # a bar of its own, right of the numbers
        starts.append(MISSING_START)
        ends.append(1.0)
        groups.append((feature.missing_code,))
        edges.append((MISSING_START, 1.0))
        ticks.append(Tick((MISSING_START + 1) / 2, format_value(None, "letter")))
    return FeatureScale(tuple(starts), tuple(ends), tuple(groups), tuple(edges), tuple(ticks))


def _to_number(value: object) -> float:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC).timestamp() / 86400
    if isinstance(value, datetime.date):
        return float(value.toordinal())
    assert isinstance(value, (int, float))
    return float(value)


def _choose_ticks(feature: Feature, low: float, high: float) -> list[tuple[float, str]]:
    """Round numbers between the extremes, or the first and the last date."""
    if feature.temporal:
        return [(low, format_value(feature.values[0], "letter")), (high, format_value(feature.values[-1], "letter"))]
    step = _choose_round_step((high - low) / 5)
    first, digits = math.ceil(low / step - 1e-9), max(0, -math.floor(math.log10(step)))
    # at most 6 multiples of a step of a fifth of the range or more; rounding must not lose the last
    marks = [step * factor for factor in range(first, first + 8) if step * factor <= high + 1e-9 * abs(high)]
    return [(mark, f"{mark:,.{digits}f}") for mark in marks]


def _choose_round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
