"""A feature's values on a line from 0 to 1: equal slots for categories and few values, a scale for many numbers.

Where a rule admits so little of a scale that it would be a hair on it, the line is stretched: what is admitted gets
slots of its own, and the numbers outside are cut into slots that hold about equally many past rows. Such a line is not
to scale, and a plot says so.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ironrule.results.background import Distribution
from ironrule.space.feature import Feature, Value
from ironrule.wording import format_value

MAX_SLOTS = 8
MAX_NUMBER_SLOTS = 12
BINS = 32
MISSING_START, NUMBERS_END = 0.93, 0.90  # where the part of missing values begins, and numbers end, on one line
MIN_SPAN = 0.1  # of a line: if less is admitted, the line is stretched
STRETCHED_SLOTS, ADMITTED_SLOTS = 12, 3  # of a stretched line: in all, and for what is admitted
TICK_ROOM = 0.14  # of a stretched line, for the text of a tick


def _format_value(value: Value) -> str:
    return format_value(value, "letter")


def _format_number(number: float, digits: int) -> str:
    return f"{number:,.{digits}f}"


@dataclass(frozen=True, slots=True)
class ScaleTexts:
    """How values, numbers with so many digits, and groups of values are written below a line."""

    format_value: Callable[[Value], str] = _format_value
    format_number: Callable[[float, int], str] = _format_number
    others: str = "{count} others"
    between: str = "{count} between"


SCALE_TEXTS = ScaleTexts()


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
    is_stretched: bool = False  # not to scale
    has_slots: bool = False  # a slot of the same width for every value or group of values, each with a tick

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


def build_scale(
    distribution: Distribution,
    kept: frozenset[int],
    admitted: range | None = None,
    texts: ScaleTexts = SCALE_TEXTS,
) -> FeatureScale:
    """The line for a feature; the codes ``kept`` always have a place of their own. The line of numbers is stretched if
    the codes ``admitted`` would take too little of it.
    """
    feature = distribution.feature
    if not feature.naturally_ordered or len(feature.values) <= MAX_NUMBER_SLOTS:
        return _build_slot_scale(distribution, kept, texts)
    scale = _build_number_scale(feature, texts)
    if admitted is None or admitted[-1] > feature.last_code:  # a missing value has its part of the line
        return scale
    left, right = scale.span(admitted)
    return scale if right - left >= MIN_SPAN else _build_stretched_scale(distribution, admitted, texts)


def _build_slot_scale(distribution: Distribution, kept: frozenset[int], texts: ScaleTexts) -> FeatureScale:
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
        Tick((left + right) / 2, _label_group(feature, group, texts))
        for (left, right), group in zip(edges, groups, strict=True)
    )
    starts, ends = (tuple(slots[code][end] for code in codes) for end in (0, 1))
    return FeatureScale(starts, ends, groups, edges, ticks, has_slots=True)


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


def _label_group(feature: Feature, codes: tuple[int, ...], texts: ScaleTexts) -> str:
    if len(codes) == 1:
        return texts.format_value(feature.value(codes[0]))
    return (texts.between if feature.ordered else texts.others).format(count=len(codes))


def _build_number_scale(feature: Feature, texts: ScaleTexts) -> FeatureScale:
    numbers = [_to_number(value) for value in feature.values]
    low, high, length = numbers[0], numbers[-1], NUMBERS_END if feature.missing else 1.0
    positions = [length * (number - low) / (high - low) for number in numbers]
    bins: dict[int, list[int]] = {}  # those with codes in them, of BINS equal parts of the line
    for code, position in enumerate(positions):
        bins.setdefault(min(BINS - 1, int(position / length * BINS)), []).append(code)
    starts, ends = list(positions), list(positions)
    groups = [tuple(codes) for codes in bins.values()]
    edges = [(length * number / BINS, length * (number + 1) / BINS) for number in bins]
    ticks = [
        Tick(length * (mark - low) / (high - low), text) for mark, text in _choose_ticks(feature, low, high, texts)
    ]
    scale = FeatureScale(tuple(starts), tuple(ends), tuple(groups), tuple(edges), tuple(ticks))
    return _add_missing(scale, feature, texts)


def _add_missing(scale: FeatureScale, feature: Feature, texts: ScaleTexts) -> FeatureScale:
    """The line with a bar for missing values, right of the numbers, where the feature can be missing."""
    if not feature.missing:
        return scale
    return FeatureScale(
        starts=(*scale.starts, MISSING_START),
        ends=(*scale.ends, 1.0),
        groups=(*scale.groups, (feature.missing_code,)),
        edges=(*scale.edges, (MISSING_START, 1.0)),
        ticks=(*scale.ticks, Tick((MISSING_START + 1) / 2, texts.format_value(None))),
        is_stretched=scale.is_stretched,
    )


def _build_stretched_scale(distribution: Distribution, admitted: range, texts: ScaleTexts) -> FeatureScale:
    """Slots of the same width: some for what is admitted, the others by the numbers of past rows left and right of it;
    a slot is shared out equally among its codes.
    """
    feature, counts = distribution.feature, distribution.counts
    below, above = range(admitted[0]), range(admitted[-1] + 1, len(feature.values))
    rows_below, rows_above = sum(counts[: admitted[0]]), sum(counts[above.start : above.stop])
    inside = _split_codes(admitted, counts, ADMITTED_SLOTS)
    outside = STRETCHED_SLOTS - len(inside)
    on_the_left = round(outside * rows_below / max(1, rows_below + rows_above))
    left = _split_codes(below, counts, min(max(1, on_the_left), outside - 1))
    right = _split_codes(above, counts, outside - min(max(1, on_the_left), outside - 1))
    groups = (*left, *inside, *right)
    width = (NUMBERS_END if feature.missing else 1.0) / len(groups)
    edges = tuple((number * width, (number + 1) * width) for number in range(len(groups)))
    starts = [low + width * at / len(codes) for (low, _), codes in zip(edges, groups, strict=True)
              for at in range(len(codes))]  # fmt: skip
    ends = [*starts[1:], edges[-1][1]]
    ticks = _choose_stretched_ticks(feature, groups, range(len(left), len(left) + len(inside)), width, texts)
    scale = FeatureScale(tuple(starts), tuple(ends), groups, edges, ticks, is_stretched=True)
    return _add_missing(scale, feature, texts)


def _split_codes(codes: range, counts: Sequence[int], parts: int) -> tuple[tuple[int, ...], ...]:
    """The codes in at most so many groups of neighbours with about equally many past rows."""
    groups: list[list[int]] = []
    rows, total = 0, sum(counts[code] for code in codes)
    for place, code in enumerate(codes):
        is_next = rows * parts >= total * len(groups) if total else place * parts >= len(codes) * len(groups)
        must_be_next = len(codes) - place <= parts - len(groups)  # each of those that are left has a group of its own
        if not groups or (len(groups) < parts and (is_next or must_be_next)):
            groups.append([])
        groups[-1].append(code)
        rows += counts[code]
    return tuple(map(tuple, groups))


def _choose_stretched_ticks(
    feature: Feature, groups: Sequence[Sequence[int]], inside: range, width: float, texts: ScaleTexts
) -> tuple[Tick, ...]:
    """The ends of what is admitted (the groups ``inside``), the ends of the line, and where there is room the other
    edges of groups: left of what is admitted the first number of a group, right of it the last one.
    """
    first, last = inside.start, inside.stop
    if first == last - 1 and len(groups[first]) == 1:  # one number, in the middle of its slot
        wanted = [((first + 0.5) * width, groups[first][0])]
    else:
        wanted = [(first * width, groups[first][0]), (last * width, groups[last - 1][-1])]
    wanted += [(0.0, groups[0][0]), (len(groups) * width, groups[-1][-1])]
    wanted += [(number * width, groups[number][0]) for number in range(1, first)]
    wanted += [(number * width, groups[number - 1][-1]) for number in range(last + 1, len(groups))]
    chosen: list[tuple[float, int]] = []
    for at, code in wanted:
        if all(abs(_center(at) - _center(other)) >= TICK_ROOM - 1e-9 for other, _ in chosen):
            chosen.append((at, code))
    return tuple(Tick(at, texts.format_value(feature.value(code))) for at, code in sorted(chosen))


def _to_number(value: object) -> float:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC).timestamp() / 86400
    if isinstance(value, datetime.date):
        return float(value.toordinal())
    assert isinstance(value, (int, float))
    return float(value)


def _choose_ticks(feature: Feature, low: float, high: float, texts: ScaleTexts) -> list[tuple[float, str]]:
    """Round numbers between the extremes, or the first and the last date."""
    if feature.temporal:
        return [(low, texts.format_value(feature.values[0])), (high, texts.format_value(feature.values[-1]))]
    step = _choose_round_step((high - low) / 5)
    first, digits = math.ceil(low / step - 1e-9), max(0, -math.floor(math.log10(step)))
    # at most 6 multiples of a step of a fifth of the range or more; rounding must not lose the last
    marks = [step * factor for factor in range(first, first + 8) if step * factor <= high + 1e-9 * abs(high)]
    return [(mark, texts.format_number(mark, digits)) for mark in marks]


def _choose_round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _center(at: float) -> float:
    """Where the middle of a tick's text is: at the ends of a line, it stands inside."""
    return min(max(at, TICK_ROOM / 3), 1.0 - TICK_ROOM / 3)
