"""A feature's values on a line from 0 to 1: equal slots for categories and few values, a scale for many numbers."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ironrule.explain.background import Distribution
from ironrule.report.words import plain
from ironrule.space import Feature

MOST_SLOTS = 8
FEW_NUMBERS = 12
BINS = 32
MISSING_FROM, NUMBERS_TO = 0.93, 0.90  # where the part of missing values begins, and numbers end, on one line


@dataclass(frozen=True, slots=True)
class Bar:
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
class Scale:
    """From where to where every code lies, which codes share a bar, and what is written below."""

    starts: tuple[float, ...]
    ends: tuple[float, ...]
    groups: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[float, float], ...]
    ticks: tuple[Tick, ...]

    def span(self, codes: range) -> tuple[float, float]:
        """The part of the line that these codes take."""
        return min(self.starts[codes[0]], self.starts[codes[-1]]), max(self.ends[codes[0]], self.ends[codes[-1]])

    def bars(self, counts: Sequence[int], admitted: range) -> tuple[Bar, ...]:
        """The past rows as bars."""
        bars = []
        for codes, (left, right) in zip(self.groups, self.edges, strict=True):
            inside = sum(counts[code] for code in codes if code in admitted)
            bars.append(Bar(left, right, inside, sum(counts[code] for code in codes) - inside))
        return tuple(bars)


def scale_of(distribution: Distribution, kept: frozenset[int]) -> Scale:
    """The line for a feature; the codes ``kept`` always have a place of their own."""
    feature = distribution.feature
    if feature.natural and len(feature.values) > FEW_NUMBERS:
        return _of_numbers(feature)
    return _of_slots(distribution, kept)


def _of_slots(distribution: Distribution, kept: frozenset[int]) -> Scale:
    feature, counts = distribution.feature, distribution.counts
    codes = range(feature.size)
    alone = set(codes)
    if feature.size > (FEW_NUMBERS + 1 if feature.ordered else MOST_SLOTS):
        often = sorted(codes, key=lambda code: -counts[code])
        alone = {*kept, *((0, feature.last) if feature.ordered else often[: MOST_SLOTS - 2])}
    groups = _groups(codes, alone, feature.ordered)
    edges = tuple((place / len(groups), (place + 1) / len(groups)) for place in range(len(groups)))
    slot = {code: edges[place] for place, group in enumerate(groups) for code in group}
    middles = [(left + right) / 2 for left, right in edges]
    ticks = tuple(Tick(at, _named(feature, group)) for at, group in zip(middles, groups, strict=True))
    return Scale(tuple(slot[code][0] for code in codes), tuple(slot[code][1] for code in codes), groups, edges, ticks)


def _groups(codes: range, alone: set[int], ordered: bool) -> tuple[tuple[int, ...], ...]:
    """Some codes alone; the others together, where they lie between two of those or, without an order, at the end."""
    if not ordered:
        rest = tuple(code for code in codes if code not in alone)
        return (*((code,) for code in sorted(alone)), *((rest,) if rest else ()))
    groups: list[list[int]] = []
    for code in codes:
        if code in alone or not groups or groups[-1][0] in alone:
            groups.append([])
        groups[-1].append(code)
    return tuple(map(tuple, groups))


def _named(feature: Feature, codes: tuple[int, ...]) -> str:
    if len(codes) == 1:
        return plain(feature.value(codes[0]))
    return f"{len(codes)} between" if feature.ordered else f"{len(codes)} others"


def _of_numbers(feature: Feature) -> Scale:
    numbers = [_number(value) for value in feature.values]
    low, high, room = numbers[0], numbers[-1], NUMBERS_TO if feature.missing else 1.0
    at = [room * (number - low) / (high - low) for number in numbers]
    binned: dict[int, list[int]] = {}
    for code, place in enumerate(at):
        binned.setdefault(min(BINS - 1, int(place / room * BINS)), []).append(code)
    edges = [(room * place / BINS, room * (place + 1) / BINS) for place in binned]
    groups = [tuple(codes) for codes in binned.values()]
    ticks = [Tick(room * (mark - low) / (high - low), text) for mark, text in _marks(feature, low, high)]
    if not feature.missing:
        return Scale(tuple(at), tuple(at), tuple(groups), tuple(edges), tuple(ticks))
    beside = Tick((MISSING_FROM + 1) / 2, plain(None))
    return Scale(
        (*at, MISSING_FROM),
        (*at, 1.0),
        (*groups, (feature.missing_code,)),
        (*edges, (MISSING_FROM, 1.0)),
        (*ticks, beside),
    )


def _number(value: object) -> float:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC).timestamp() / 86400
    if isinstance(value, datetime.date):
        return float(value.toordinal())
    assert isinstance(value, (int, float))
    return float(value)


def _marks(feature: Feature, low: float, high: float) -> list[tuple[float, str]]:
    """Round numbers between the extremes, or the first and the last date."""
    if feature.dated:
        return [(low, plain(feature.values[0])), (high, plain(feature.values[-1]))]
    step = _round_step((high - low) / 5)
    first, digits = math.ceil(low / step - 1e-9), max(0, -math.floor(math.log10(step)))
    marks = [step * place for place in range(first, first + 8) if step * place <= high + 1e-9 * abs(high)]
    return [(mark, f"{mark:,.{digits}f}") for mark in marks]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
