"""How a case compares with past cases, for the person: a small picture per condition of the rule that is told.

The words stand beside a picture, on the page itself, so that both fit a phone. Numbers have a line, as in
:mod:`ironrule.report.plots.conditions`; categories and few values have a bar each, from left to right, with room for
their names.
"""

from __future__ import annotations

from dataclasses import dataclass

from ironrule.report.plots import drawing
from ironrule.report.plots.conditions import (
    BAR_HEIGHT,
    NOT_TO_SCALE,
    OUTLINE,
    ConditionWording,
    LineLayout,
    PlottedCondition,
    build_plotted_condition,
    draw_line,
    find_distributions,
)
from ironrule.report.plots.drawing import Drawing, LineSegment, Rectangle, Shape, TextLine, Triangle
from ironrule.report.plots.scale import SCALE_TEXTS
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import group_conditions

WIDTH, LEGEND_WIDTH = 420.0, 500.0  # of a picture, and of the legend of all
LINE = LineLayout(10.0, WIDTH - 20.0, text_size=12.0)
NAME_WIDTH, BAR_START, BAR_LENGTH = 176.0, 184.0, WIDTH - 184.0 - 46.0  # of categories
ROW_HEIGHT, TEXT_SIZE = 20.0, 12.0


@dataclass(frozen=True, slots=True)
class ComparisonTexts:
    """The words of the pictures, in the language of the page."""

    you: str = "you"
    fits: str = "what fits"
    fitting_cases: str = "past cases that fit"
    other_cases: str = "other past cases"
    not_to_scale: str = NOT_TO_SCALE
    others: str = SCALE_TEXTS.others
    between: str = SCALE_TEXTS.between


@dataclass(frozen=True, slots=True)
class CaseComparison:
    """One condition in words, and its picture."""

    label: str
    condition: str
    own_value: str
    drawing: Drawing
    is_stretched: bool


def build_comparisons(
    explanation: Explanation, wording: ConditionWording, texts: ComparisonTexts
) -> tuple[CaseComparison, ...]:
    """One for every condition of the rule shown; none where the past rows are not at hand."""
    distributions, style = find_distributions(explanation), drawing.choose_style(explanation.verdict)
    comparisons = []
    for condition in group_conditions(explanation.shown.rule):
        if condition.feature in distributions:
            plotted = build_plotted_condition(
                condition,
                condition,
                distributions[condition.feature],
                wording,
                explanation.instance[condition.feature],
                groups=(texts.others, texts.between),
            )
            picture = draw_comparison(plotted, style, texts)
            words = plotted.label, plotted.condition, plotted.own_value
            comparisons.append(CaseComparison(*words, picture, plotted.is_stretched))
    return tuple(comparisons)


def draw_comparison(condition: PlottedCondition, style: drawing.VerdictStyle, texts: ComparisonTexts) -> Drawing:
    """The picture of one condition."""
    description = f"{condition.label}: {condition.condition}. {texts.you}: {condition.own_value}."
    if condition.has_slots:
        shapes, height = _draw_slots(condition, style, texts)
    else:
        shapes = draw_line(condition, style, 22.0, LINE, texts.not_to_scale)
        height = 22.0 + BAR_HEIGHT + (40.0 if condition.is_stretched else 24.0)
    return Drawing(tuple(shapes), height, description, WIDTH)


def _draw_slots(
    condition: PlottedCondition, style: drawing.VerdictStyle, texts: ComparisonTexts
) -> tuple[list[Shape], float]:
    """A bar from left to right for every slot, its name left of it; and the height of all."""
    highest = max((bar.admitted + bar.others for bar in condition.bars), default=1) or 1
    shapes: list[Shape] = []
    top = 2.0
    for bar, tick in zip(condition.bars, condition.ticks, strict=True):
        lines = drawing.wrap_text(tick.text, NAME_WIDTH, TEXT_SIZE, 2)
        height = ROW_HEIGHT + (len(lines) - 1) * TEXT_SIZE * 1.25
        middle = top + height / 2
        if condition.span[0] <= tick.at <= condition.span[1]:
            shapes += style.draw_area(BAR_START, top + 1, WIDTH - BAR_START, height - 2, "admitted")
        first_line = middle + TEXT_SIZE * 0.36 - (len(lines) - 1) * TEXT_SIZE * 0.625
        shapes += drawing.stack_lines(BAR_START - 8, first_line, lines, TEXT_SIZE, "end")
        inside, others = (BAR_LENGTH * rows / highest for rows in (bar.admitted, bar.others))
        if inside:
            shapes.append(Rectangle(BAR_START, middle - 5, inside, 10, drawing.DARK, kind="inside"))
        if others:
            x = BAR_START + inside
            shapes.append(Rectangle(x, middle - 5, others, 10, drawing.PALE, stroke=OUTLINE, kind="outside"))
        if bar.left <= condition.own_position <= bar.right:
            x = BAR_START + inside + others + 8
            shapes += [
                LineSegment(x, middle, x + 8, middle, width=1.4),
                TextLine(x + 12, middle + TEXT_SIZE * 0.36, texts.you, TEXT_SIZE, bold=True),
            ]
        top += height
    shapes.append(LineSegment(BAR_START, 2.0, BAR_START, top, width=1))
    return shapes, top + 2.0


def draw_legend(style: drawing.VerdictStyle, texts: ComparisonTexts) -> Drawing:
    """What the colours and the mark of the pictures mean, in as many lines as it takes."""
    x, y, shapes = 0.0, 14.0, list[Shape]()
    captions = (texts.fitting_cases, texts.other_cases, texts.fits, texts.you)
    for number, caption in enumerate(captions):
        width = 30.0 + len(caption) * 11 * drawing.LETTER_WIDTH + 14.0
        if x and x + width > LEGEND_WIDTH:
            x, y = 0.0, y + 20.0
        samples: tuple[list[Shape], ...] = (
            [Rectangle(x, y - 10, 22, 12, drawing.DARK)],
            [Rectangle(x, y - 10, 22, 12, fill=drawing.PALE, stroke=OUTLINE)],
            style.draw_area(x, y - 11, 22, 14, "legend"),
            [Triangle(x + 11, y)],
        )
        shapes += [*samples[number], drawing.draw_caption(x + 28, y, caption)]
        x += width
    return Drawing(tuple(shapes), y + 8.0, "; ".join(captions), LEGEND_WIDTH)
