"""A batch at a glance: what share is proven, how long the rules are, and which features they name.

Verdicts are one bar; lengths and features are bars, each split by verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ironrule.errors import InputError
from ironrule.report.plots.drawing import (
    CANVAS_WIDTH,
    GREY,
    INK,
    VERDICT_STYLES,
    Drawing,
    LineSegment,
    Shape,
    TextLine,
    VerdictStyle,
    choose_style,
    wrap_text,
)
from ironrule.report.text import collect_labels
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureLabels
from ironrule.wording import format_count

MAX_FEATURES = 15
T = TypeVar("T")
VerdictCounts = tuple[tuple[VerdictStyle, int], ...]
"""How many rules have each verdict; verdicts that do not occur are left out."""


@dataclass(frozen=True, slots=True)
class BatchOverview:
    """A batch in numbers, each split by verdict."""

    count: int
    verdicts: VerdictCounts
    shortest: int  # rules that are proven to hold and proven to be the shortest
    lengths: tuple[tuple[int, VerdictCounts], ...]  # by number of components
    features: tuple[tuple[str, VerdictCounts], ...]  # most used first
    left_out: int  # features that are used, but not among those


def build_overview(explanations: Iterable[Explanation], labels: FeatureLabels | None = None) -> BatchOverview:
    """The batch in numbers, read once; raises InputError if there is no explanation in it."""
    by_length: Counter[tuple[int, str]] = Counter()
    by_feature: Counter[tuple[str, str]] = Counter()
    verdicts: Counter[str] = Counter()
    shortest = 0
    for explanation in explanations:
        labels, word = labels or collect_labels(explanation), choose_style(explanation.verdict).word
        verdicts[word] += 1
        by_length[explanation.cardinality, word] += 1
        by_feature.update((name, word) for name in explanation.rule.features)
        shortest += explanation.minimum
    if labels is None or not verdicts:
        raise InputError(expected="an overview needs at least one explanation", got="none")
    features, left_out = _select_most_used(by_feature, labels)
    lengths = range(min(by_length)[0], max(by_length)[0] + 1)
    spread = tuple((length, _count_key(by_length, length)) for length in lengths)
    return BatchOverview(verdicts.total(), _count_verdicts(verdicts), shortest, spread, features, left_out)


def _select_most_used(
    by_feature: Counter[tuple[str, str]], labels: FeatureLabels
) -> tuple[tuple[tuple[str, VerdictCounts], ...], int]:
    """The features that most rules name, and how many others there are."""
    used: Counter[str] = Counter()
    for (name, _), number in by_feature.items():
        used[name] += number
    ranked = sorted(used, key=lambda name: (-used[name], name))
    shown = tuple((labels.label(name), _count_key(by_feature, name)) for name in ranked[:MAX_FEATURES])
    return shown, len(ranked[MAX_FEATURES:])


def _count_key(counted: Mapping[tuple[T, str], int], key: T) -> VerdictCounts:
    return _count_verdicts(Counter({word: number for (own, word), number in counted.items() if own == key}))


def _count_verdicts(counted: Counter[str]) -> VerdictCounts:
    return tuple((style, counted[style.word]) for style in VERDICT_STYLES if counted[style.word])


NAME_WIDTH = 230.0
BAR_LENGTH = CANVAS_WIDTH - NAME_WIDTH - 60.0
ROW_HEIGHT, BAR_HEIGHT = 24.0, 16.0


def draw_overview(overview: BatchOverview) -> Drawing:
    """The batch laid out."""
    shapes: list[Shape] = [TextLine(0, 16, f"What is known of {format_count(overview.count, 'rule')}", 15, bold=True)]
    shapes += [*_draw_bar(overview.verdicts, 0, 32, CANVAS_WIDTH, overview.count, 24), *_draw_verdicts(overview, 78)]
    top = 78.0 + 18 * len(overview.verdicts) + 26
    most = max(_sum_counts(split) for _, split in overview.lengths)
    lengths = [(format_count(length, "part"), split) for length, split in overview.lengths]
    block, top = _draw_block("How long the rules are", lengths, most, top)
    shapes += block
    if overview.features:
        block, top = _draw_block("Which features they name", list(overview.features), overview.count, top + 22)
        shapes += block
    if overview.left_out:
        shapes.append(TextLine(0, top + 8, f"and, less often, {overview.left_out} more", 11, fill=GREY))
        top += 16
    return Drawing(tuple(shapes), top + 8, _describe(overview))


def _describe(overview: BatchOverview) -> str:
    told = "; ".join(f"{style.meaning}: {number:,}" for style, number in overview.verdicts)
    return f"{format_count(overview.count, 'explanation')}. {told}."


def _sum_counts(counts: VerdictCounts) -> int:
    return sum(number for _, number in counts)


def _draw_bar(
    counts: VerdictCounts, x: float, top: float, room: float, most: int, tall: float = BAR_HEIGHT
) -> list[Shape]:
    shapes: list[Shape] = []
    for style, number in counts:
        width = room * number / most
        shapes += style.draw_bar(x, top, width, tall)
        x += width
    return shapes


def _draw_verdicts(overview: BatchOverview, top: float) -> list[Shape]:
    shapes: list[Shape] = []
    for place, (style, number) in enumerate(overview.verdicts):
        y = top + 18 * place
        share = f"{100 * number / overview.count:.0f} %" if number < overview.count else "all"
        text = f"{style.meaning} ({number:,}, {share})"
        if style.tint is not None and overview.shortest:
            text += f"; {overview.shortest:,} of them with a proof that no shorter rule holds"
        shapes += [*style.draw_bar(0, y - 11, 22, 14), TextLine(30, y, text, 12)]
    return shapes


def _draw_block(title: str, rows: list[tuple[str, VerdictCounts]], most: int, top: float) -> tuple[list[Shape], float]:
    shapes: list[Shape] = [TextLine(0, top, title, 13, bold=True)]
    first = top = top + 12
    for name, split in rows:
        total = _sum_counts(split)
        shapes.append(TextLine(NAME_WIDTH - 8, top + 12.5, wrap_text(name, NAME_WIDTH - 8, 12)[0], 12, "end"))
        shapes += _draw_bar(split, NAME_WIDTH, top, BAR_LENGTH, most)
        shapes.append(TextLine(NAME_WIDTH + BAR_LENGTH * total / most + 6, top + 12.5, f"{total:,}", 12, fill=GREY))
        top += ROW_HEIGHT
    return [*shapes, LineSegment(NAME_WIDTH, first - 3, NAME_WIDTH, top - 4, INK, 1)], top
