"""Coverage as the rule grows: the past rows that its first components admit, and how many of them are desired.

Drawn as bars that shrink: the undesired rows that the rule keeps, and the desired ones that it must exclude.
"""

from __future__ import annotations

from dataclasses import dataclass

from ironrule.report.plots import drawing
from ironrule.report.plots.drawing import Drawing, LineSegment, Rectangle, Shape, TextLine
from ironrule.report.text import UNNAMED_DESIRED, collect_labels, find_proven_wider_rule, format_desired_outcome
from ironrule.results.background import GrowthStep
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels, format_outcome, is_named_outcome

NO_HISTORY = "The past rows are not available: only the coverage of the whole rule is known."
NO_OUTCOMES = "The model was not asked about the past rows, so their outcomes are not shown."


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
    desired: str = "desired"
    undesired: str = "undesired"


def build_growth_plot(explanation: Explanation, labels: FeatureLabels | None = None) -> GrowthPlot:
    """The growth of the best rule."""
    labels, background = labels or collect_labels(explanation), explanation.background
    proven_wider = find_proven_wider_rule(explanation)
    wider, rows = None if proven_wider is None else proven_wider.coverage, explanation.history_rows
    if background is None:
        ends = (GrowthBar("everyone", rows, None), GrowthBar("the whole rule", explanation.coverage, None))
        return GrowthPlot(ends, rows, wider, (NO_HISTORY,))
    bars = tuple(_build_bar(step, labels) for step in background.growth)
    notes = () if bars[0].desired is not None else (NO_OUTCOMES,)
    names = format_desired_outcome(explanation), format_outcome(explanation.rule)
    if names[0] == UNNAMED_DESIRED or not all(map(is_named_outcome, names)):
        return GrowthPlot(bars, rows, wider, notes)
    return GrowthPlot(bars, rows, wider, notes, *names)


def _build_bar(step: GrowthStep, labels: FeatureLabels) -> GrowthBar:
    if step.component is None:
        return GrowthBar("everyone", step.covered, step.desired)
    condition = FeatureCondition(step.component.feature, (step.component,))
    label = f"and {labels.label(condition.feature)} {labels.format_short(condition)}"
    return GrowthBar(label, step.covered, step.desired)


NAME_WIDTH, NUMBER_WIDTH = 250.0, 150.0
MAX_BAR_WIDTH, MIN_BAR_WIDTH = drawing.CANVAS_WIDTH - NAME_WIDTH - NUMBER_WIDTH, 1.5
ROW_HEIGHT, BAR_HEIGHT = 34.0, 20.0


def draw_growth(growth: GrowthPlot) -> Drawing:
    """The bars laid out: one below the other, names left of a common line, numbers right of each bar."""
    shapes = [drawing.draw_title("Past rows covered as the rule grows")]
    width_per_row = MAX_BAR_WIDTH / max(growth.rows, 1)
    top = 34.0
    for bar in growth.bars:
        shapes += _draw_bar(bar, width_per_row, top, growth.desired)
        top += ROW_HEIGHT
    if growth.wider is not None:
        width = max(width_per_row * growth.wider, MIN_BAR_WIDTH)
        tint, colour = drawing.PROVEN_STYLE.tint, drawing.PROVEN_STYLE.colour
        shapes += [
            TextLine(0, top + 14, "with bounds as wide as proven", 12),
            Rectangle(NAME_WIDTH, top, width, BAR_HEIGHT, fill=tint, stroke=colour, dashed=True, kind="wider"),
            TextLine(NAME_WIDTH + width + 8, top + 14, f"{growth.wider:,}", 12),
        ]
        top += ROW_HEIGHT
    shapes.append(LineSegment(NAME_WIDTH, 32, NAME_WIDTH, top - 4, stroke=drawing.INK, width=1))
    if growth.bars[0].desired is not None:
        shapes += _draw_legend(growth, top + 16)
        top += 26
    shapes += drawing.draw_notes(top + 14, growth.notes)
    texts = "; ".join(f"{bar.label}: {bar.covered:,}" for bar in growth.bars)
    description = f"Past rows covered as the rule grows. {texts}."
    return Drawing(tuple(shapes), top + 8 + 16 * len(growth.notes), description)


def _draw_bar(bar: GrowthBar, width_per_row: float, top: float, outcome: str) -> list[Shape]:
    """The undesired rows in full, then the desired ones hatched."""
    lines = drawing.wrap_text(bar.label, NAME_WIDTH - 8, 12, 2)
    shapes = drawing.stack_lines(0, top + (14 if len(lines) == 1 else 7), lines, 12)
    desired = bar.desired or 0
    width, desired_width = width_per_row * (bar.covered - desired), width_per_row * desired
    if width:
        shapes.append(Rectangle(NAME_WIDTH, top, max(width, MIN_BAR_WIDTH), BAR_HEIGHT, drawing.DARK, kind="undesired"))
    if desired:
        shapes += _draw_desired(NAME_WIDTH + width, top, max(desired_width, MIN_BAR_WIDTH), BAR_HEIGHT, "desired")
    number = f"{bar.covered:,}" + ("" if bar.desired is None else f" ({bar.desired:,} {outcome})")
    return [*shapes, TextLine(NAME_WIDTH + width + desired_width + 8, top + 14, number, 12)]


def _draw_desired(x: float, y: float, width: float, height: float, kind: str) -> list[Shape]:
    return drawing.draw_hatched(
        Rectangle(x, y, width, height, fill=drawing.PAPER, stroke=drawing.DARK, kind=kind), drawing.GREY, 5
    )


def _draw_legend(growth: GrowthPlot, y: float) -> list[Shape]:
    second = max(140.0, 28 + len(growth.undesired) * 11 * drawing.LETTER_WIDTH + 24)
    return [
        Rectangle(0, y - 11, 22, 14, drawing.DARK, kind="legend"),
        drawing.draw_caption(28, y, growth.undesired),
        *_draw_desired(second, y - 11, 22, 14, "legend"),
        drawing.draw_caption(second + 28, y, f"{growth.desired}: exceptions that the next parts must exclude"),
    ]
