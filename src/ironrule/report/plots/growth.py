"""Coverage as the rule grows: the past rows that its first components admit, and how many of them are desired.

Drawn as bars that shrink: the undesired rows that the rule keeps, and the desired ones that it must exclude.
"""

from __future__ import annotations

from dataclasses import dataclass

from ironrule.report.plots.drawing import (
    CANVAS_WIDTH,
    GREY,
    INK,
    PROVEN_STYLE,
    Drawing,
    LineSegment,
    Rectangle,
    Shape,
    TextLine,
    hatch,
    stack_lines,
    wrap_text,
)
from ironrule.report.text import collect_labels, find_proven_wider_rule
from ironrule.results.background import GrowthStep
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels

NO_HISTORY = "The past rows are not at hand: only the coverage of the whole rule is known."
NO_OUTCOMES = "The model was not asked about the past rows here, so outcomes are not told apart."


@dataclass(frozen=True, slots=True)
class GrowthBar:
    """The rule up to one component; ``desired`` is None where outcomes are not known."""

    label: str
    covered: int
    desired: int | None


@dataclass(frozen=True, slots=True)
class GrowthPlot:
    """The rule as it grows; ``wider`` is what it covers with its bounds as far out as is proven."""

    bars: tuple[GrowthBar, ...]
    rows: int
    wider: int | None
    notes: tuple[str, ...]


def build_growth_plot(explanation: Explanation, labels: FeatureLabels | None = None) -> GrowthPlot:
    """The growth of the best rule."""
    labels, background, rows = (
        labels or collect_labels(explanation),
        explanation.background,
        explanation.history_rows,
    )
    further = find_proven_wider_rule(explanation)
    wider = None if further is None else further.coverage
    if background is None:
        ends = (GrowthBar("everyone", rows, None), GrowthBar("the whole rule", explanation.coverage, None))
        return GrowthPlot(ends, rows, wider, (NO_HISTORY,))
    bars = tuple(_build_bar(step, labels) for step in background.growth)
    return GrowthPlot(bars, rows, wider, () if bars[0].desired is not None else (NO_OUTCOMES,))


def _build_bar(step: GrowthStep, labels: FeatureLabels) -> GrowthBar:
    if step.component is None:
        return GrowthBar("everyone", step.covered, step.desired)
    condition = FeatureCondition(step.component.feature, (step.component,))
    return GrowthBar(
        f"and {labels.label(condition.feature)} {labels.format_short(condition)}", step.covered, step.desired
    )


NAME_WIDTH, NUMBER_WIDTH = 250.0, 150.0
ROW_HEIGHT, BAR_HEIGHT = 34.0, 20.0


def draw_growth(growth: GrowthPlot) -> Drawing:
    """The bars laid out."""
    shapes: list[Shape] = [TextLine(0, 16, "Past rows covered as the rule grows", 15, bold=True)]
    top = 34.0
    for bar in growth.bars:
        shapes += _draw_bar(bar, growth.rows, top)
        top += ROW_HEIGHT
    if growth.wider is not None:
        shapes += _draw_wider(growth.wider, growth.rows, top)
        top += ROW_HEIGHT
    shapes += [LineSegment(NAME_WIDTH, 32, NAME_WIDTH, top - 4, INK, 1)]
    if growth.bars[0].desired is not None:
        shapes += _draw_legend(top + 16)
        top += 26
    shapes += stack_lines(0, top + 14, growth.notes, 11, fill=GREY)
    return Drawing(tuple(shapes), top + 8 + 16 * len(growth.notes), _describe(growth))


def _describe(growth: GrowthPlot) -> str:
    told = "; ".join(f"{bar.label}: {bar.covered:,}" for bar in growth.bars)
    return f"Past rows covered as the rule grows. {told}."


def _draw_bar(bar: GrowthBar, rows: int, top: float) -> list[Shape]:
    room = CANVAS_WIDTH - NAME_WIDTH - NUMBER_WIDTH
    kept = bar.covered - (bar.desired or 0)
    width, lost = room * kept / max(rows, 1), room * (bar.desired or 0) / max(rows, 1)
    shapes: list[Shape] = _draw_name(bar.label, top)
    shapes += [Rectangle(NAME_WIDTH, top, max(width, 1.5), BAR_HEIGHT, "#333333", kind="undesired")] if kept else []
    if lost:
        area = Rectangle(NAME_WIDTH + width, top, max(lost, 1.5), BAR_HEIGHT, "#ffffff", "#333333", kind="desired")
        shapes += [area, *hatch(area, GREY, 5)]
    numbers = f"{bar.covered:,}" + ("" if bar.desired is None else f" ({bar.desired:,} desired)")
    return [*shapes, TextLine(NAME_WIDTH + width + lost + 8, top + 14, numbers, 12)]


def _draw_name(label: str, top: float) -> list[Shape]:
    lines = wrap_text(label, NAME_WIDTH - 8, 12, 2)
    return stack_lines(0, top + (14 if len(lines) == 1 else 7), lines, 12)


def _draw_wider(covered: int, rows: int, top: float) -> list[Shape]:
    width = max((CANVAS_WIDTH - NAME_WIDTH - NUMBER_WIDTH) * covered / max(rows, 1), 1.5)
    area = Rectangle(NAME_WIDTH, top, width, BAR_HEIGHT, PROVEN_STYLE.tint, PROVEN_STYLE.colour, True, kind="wider")
    return [
        TextLine(0, top + 14, "with its bounds as far as proven", 12),
        area,
        TextLine(NAME_WIDTH + width + 8, top + 14, f"{covered:,}", 12),
    ]


def _draw_legend(y: float) -> list[Shape]:
    area = Rectangle(140, y - 11, 22, 14, "#ffffff", "#333333", kind="legend")
    return [
        Rectangle(0, y - 11, 22, 14, "#333333", kind="legend"),
        TextLine(28, y, "undesired", 11, fill=GREY),
        area,
        *hatch(area, GREY, 5),
        TextLine(168, y, "desired: exceptions that the next parts must exclude", 11, fill=GREY),
    ]
