"""A batch at a glance: what share is proven, how long the rules are, and which features they name.

Verdicts are one bar; lengths and features are bars, each split by verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ironrule.errors import InputError
from ironrule.report.plots import drawing
from ironrule.report.plots.drawing import Drawing, LineSegment, Shape, TextLine
from ironrule.report.text import collect_labels
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureLabels
from ironrule.wording import format_count, format_percent

MAX_FEATURES = 15
T = TypeVar("T")
VerdictCounts = tuple[tuple[drawing.VerdictStyle, int], ...]
"""How many rules have each verdict; verdicts that do not occur are left out."""


@dataclass(frozen=True, slots=True)
class BatchOverview:
    """A batch in numbers, each split by verdict."""

    count: int
    verdicts: VerdictCounts
    shortest: int  # rules that are proven to hold and proven to be the shortest
    lengths: tuple[tuple[int, VerdictCounts], ...]  # by number of conditions
    features: tuple[tuple[str, VerdictCounts], ...]  # most used first
    left_out: int  # features that are used, but not among those


def build_overview(explanations: Iterable[Explanation], labels: FeatureLabels | None = None) -> BatchOverview:
    """The batch in numbers, read once; raises InputError if there is no explanation in it."""
    by_length: Counter[tuple[int, str]] = Counter()
    by_feature: Counter[tuple[str, str]] = Counter()
    verdicts: Counter[str] = Counter()
    used: Counter[str] = Counter()
    shortest = 0
    for explanation in explanations:
        labels, word = labels or collect_labels(explanation), drawing.choose_style(explanation.verdict).word
        verdicts[word] += 1
        by_length[len(explanation.rule.features), word] += 1
        by_feature.update((name, word) for name in explanation.rule.features)
        used.update(explanation.rule.features)
        shortest += explanation.minimum
    if labels is None or not verdicts:
        raise InputError(expected="an overview needs at least one explanation", got="none")
    ranked = sorted(used, key=lambda name: (-used[name], name))
    lengths = range(min(by_length)[0], max(by_length)[0] + 1)
    return BatchOverview(
        count=verdicts.total(),
        verdicts=_split_by_verdict(verdicts),
        shortest=shortest,
        lengths=tuple((length, _select_counts(by_length, length)) for length in lengths),
        features=tuple((labels.label(name), _select_counts(by_feature, name)) for name in ranked[:MAX_FEATURES]),
        left_out=len(ranked[MAX_FEATURES:]),
    )


def _select_counts(counts: Mapping[tuple[T, str], int], key: T) -> VerdictCounts:
    return _split_by_verdict(Counter({word: number for (own, word), number in counts.items() if own == key}))


def _split_by_verdict(counts: Counter[str]) -> VerdictCounts:
    return tuple((style, counts[style.word]) for style in drawing.VERDICT_STYLES if counts[style.word])


NAME_WIDTH = 230.0
BAR_LENGTH = drawing.CANVAS_WIDTH - NAME_WIDTH - 60.0
ROW_HEIGHT, BAR_HEIGHT = 24.0, 16.0


def draw_overview(overview: BatchOverview) -> Drawing:
    """The batch laid out."""
    shapes = [drawing.draw_title(f"What is known of {format_count(overview.count, 'rule')}")]
    shapes += [
        *_draw_bar(
            counts=overview.verdicts, x=0, top=32, length=drawing.CANVAS_WIDTH, highest=overview.count, height=24
        ),
        *_draw_verdicts(overview, 78),
    ]
    top = 78.0 + 18 * len(overview.verdicts) + 26
    highest = max(_sum_counts(counts) for _, counts in overview.lengths)
    lengths = [(format_count(length, "condition"), counts) for length, counts in overview.lengths]
    block, top = _draw_block("How long the rules are", lengths, highest, top)
    shapes += block
    if overview.features:
        block, top = _draw_block("Which features they name", overview.features, overview.count, top + 22)
        shapes += block
    if overview.left_out:
        shapes.append(drawing.draw_caption(0, top + 8, f"and {overview.left_out} more, less often"))
        top += 16
    verdicts = "; ".join(f"{style.meaning}: {number:,}" for style, number in overview.verdicts)
    return Drawing(tuple(shapes), top + 8, f"{format_count(overview.count, 'explanation')}. {verdicts}.")


def _sum_counts(counts: VerdictCounts) -> int:
    return sum(number for _, number in counts)


def _draw_bar(
    counts: VerdictCounts, x: float, top: float, length: float, highest: int, height: float = BAR_HEIGHT
) -> list[Shape]:
    """The verdicts side by side; ``length`` is that of the ``highest`` number."""
    shapes: list[Shape] = []
    for style, number in counts:
        width = length * number / highest
        shapes += style.draw_bar(x, top, width, height)
        x += width
    return shapes


def _draw_verdicts(overview: BatchOverview, top: float) -> list[Shape]:
    """A legend of the verdicts, with their numbers and shares."""
    shapes: list[Shape] = []
    for index, (style, number) in enumerate(overview.verdicts):
        y = top + 18 * index
        share = format_percent(number / overview.count) if number < overview.count else "all"
        text = f"{style.meaning} ({number:,}, {share})"
        if style.tint is not None and overview.shortest:
            text += f"; {overview.shortest:,} of them with a proof that no shorter rule holds"
        shapes += [*style.draw_bar(0, y - 11, 22, 14), TextLine(30, y, text, 12)]
    return shapes


def _draw_block(
    title: str, rows: Sequence[tuple[str, VerdictCounts]], highest: int, top: float
) -> tuple[list[Shape], float]:
    """Bars below each other, names left of a common line and totals right of each; with where the block ends."""
    shapes: list[Shape] = [TextLine(0, top, title, 13, bold=True)]
    first = top = top + 12
    for name, counts in rows:
        total = _sum_counts(counts)
        shapes.append(TextLine(NAME_WIDTH - 8, top + 12.5, drawing.wrap_text(name, NAME_WIDTH - 8, 12)[0], 12, "end"))
        shapes += _draw_bar(counts, NAME_WIDTH, top, BAR_LENGTH, highest)
        end = NAME_WIDTH + BAR_LENGTH * total / highest
        shapes.append(TextLine(end + 6, top + 12.5, f"{total:,}", 12, fill=drawing.GREY))
        top += ROW_HEIGHT
    return [*shapes, LineSegment(NAME_WIDTH, first - 3, NAME_WIDTH, top - 4, stroke=drawing.INK, width=1)], top
