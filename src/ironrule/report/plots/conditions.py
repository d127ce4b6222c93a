"""The conditions of a rule: one line per feature, its distribution among past rows with the admitted part marked.

Words stand on the left, the feature's line on the right, and a legend below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ironrule.report.plots.drawing import (
    CANVAS_WIDTH,
    GREY,
    INK,
    PALE,
    PROVEN_STYLE,
    Drawing,
    LineSegment,
    Rectangle,
    Shape,
    TextLine,
    Triangle,
    VerdictStyle,
    choose_style,
    hatch,
    stack_lines,
    wrap_text,
)
from ironrule.report.plots.scale import HistogramBar, Tick, build_scale
from ironrule.report.text import collect_labels, find_proven_wider_rule
from ironrule.results.background import Distribution
from ironrule.results.explanation import Explanation
from ironrule.rule.condition import find_admitted_codes
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels, format_outcome, group_conditions

Span = tuple[float, float]
NO_HISTORY = "The past rows are not at hand, so no distributions are shown."


@dataclass(frozen=True, slots=True)
class PlottedCondition:
    """One condition on its feature's line from 0 to 1; without past rows there are no bars."""

    label: str
    condition: str
    wider: str | None  # the same with its bounds as far out as is proven, where they could move
    own_value: str  # the row's own value
    bars: tuple[HistogramBar, ...]
    ticks: tuple[Tick, ...]
    span: Span
    wider_span: Span | None
    own_position: float  # where the row itself is


@dataclass(frozen=True, slots=True)
class ConditionsPlot:
    """All conditions, what they lead to, and what is known of that."""

    conditions: tuple[PlottedCondition, ...]
    outcome: str
    style: VerdictStyle
    notes: tuple[str, ...]
    friendly: bool = False  # told to the person whom the row is about
    is_continued: bool = False  # whether other conditions came before, in a plot of their own

    def split(self, max_items: int) -> tuple[ConditionsPlot, ...]:
        """The same in pieces that fit a page."""
        starts = range(0, max(1, len(self.conditions)), max_items)
        return tuple(
            replace(self, conditions=self.conditions[start : start + max_items], is_continued=start > 0)
            for start in starts
        )


def build_conditions_plot(explanation: Explanation, labels: FeatureLabels | None = None) -> ConditionsPlot:
    """The conditions of the best rule."""
    labels, background = labels or collect_labels(explanation), explanation.background
    shown = {} if background is None else {one.feature.name: one for one in background.distributions}
    further = find_proven_wider_rule(explanation)
    wider = {} if further is None else {one.feature: one for one in group_conditions(further.rule)}
    conditions = tuple(
        _build_condition(
            condition, wider.get(condition.feature, condition), shown.get(condition.feature), labels, explanation
        )
        for condition in group_conditions(explanation.rule)
    )
    notes = (NO_HISTORY,) if background is None and conditions else ()
    return ConditionsPlot(
        conditions,
        format_outcome(explanation.rule, labels.friendly),
        choose_style(explanation.verdict),
        notes,
        labels.friendly,
    )


def _build_condition(
    condition: FeatureCondition,
    wider: FeatureCondition,
    seen: Distribution | None,
    labels: FeatureLabels,
    explanation: Explanation,
) -> PlottedCondition:
    mine = explanation.instance[condition.feature]
    moved = None if wider == condition else labels.format_short(wider)
    texts = (
        labels.label(condition.feature),
        labels.format_short(condition),
        moved,
        labels.format_value(condition.feature, mine),
    )
    if seen is None:
        span = _guess_span(condition)
        wide = None if moved is None else _guess_wider_span(span, condition, wider)
        return PlottedCondition(*texts, (), (Tick(0.5, texts[3]),), span, wide, 0.5)
    feature = seen.feature
    codes, wider_codes, own = (
        find_admitted_codes(condition, feature),
        find_admitted_codes(wider, feature),
        feature.code(mine),
    )
    scale = build_scale(seen, frozenset((own, codes[0], codes[-1], wider_codes[0], wider_codes[-1])))
    own_position = sum(scale.span(range(own, own + 1))) / 2
    wide = None if moved is None else scale.span(wider_codes)
    return PlottedCondition(*texts, scale.bars(seen.counts, codes), scale.ticks, scale.span(codes), wide, own_position)


def _guess_span(condition: FeatureCondition) -> Span:
    """Where a condition lies on a line without a scale: left or right of the row, or at it."""
    most, least = condition.bound("<="), condition.bound(">=")
    if (most is None) == (least is None):
        return 0.4, 0.6
    return (0.0, 0.5) if least is None else (0.5, 1.0)


def _guess_wider_span(span: Span, condition: FeatureCondition, wider: FeatureCondition) -> Span:
    """Without a scale: a little further on the side where a bound could move."""
    left, right = (0.15 * (condition.bound(op) != wider.bound(op)) for op in (">=", "<="))
    return max(0.0, span[0] - left), min(1.0, span[1] + right)


TEXT_WIDTH = 225.0
LINE_START, LINE_LENGTH = 245.0, CANVAS_WIDTH - 245.0 - 12.0  # of a feature's line
BAR_HEIGHT = 50.0  # of the highest bar
HEAD_HEIGHT, CONDITION_HEIGHT = 64.0, 112.0
CONDITIONS_PER_PAGE = 6


def draw_condition_pages(explanation: Explanation, labels: FeatureLabels | None = None) -> tuple[Drawing, ...]:
    """The conditions of the best rule, in drawings that fit a page."""
    plot = build_conditions_plot(explanation, labels)
    return tuple(draw_conditions(part) for part in plot.split(CONDITIONS_PER_PAGE))


def draw_conditions(plot: ConditionsPlot) -> Drawing:
    """The conditions laid out."""
    who = f"{plot.style.claim}everyone{' with all of this' if plot.conditions else ''} gets"
    who = f"(continued) {who}" if plot.is_continued else who[:1].upper() + who[1:]
    title = wrap_text(f"{who}: {plot.outcome}", CANVAS_WIDTH, 15, bold=True)[0]
    shapes: list[Shape] = [TextLine(0, 16, title, 15, bold=True), *plot.style.draw_badge(0, 28)]
    top = HEAD_HEIGHT
    for place, condition in enumerate(plot.conditions):
        shapes += _draw_condition(condition, plot, top, place)
        top += CONDITION_HEIGHT
    shapes += _draw_legend(plot, top + 14) if plot.conditions else []
    top += 30 if plot.conditions else 0
    shapes += stack_lines(0, top + 10, plot.notes, 11, fill=GREY)
    return Drawing(tuple(shapes), top + 16 * len(plot.notes) + 4, _describe(plot, who))


def _describe(plot: ConditionsPlot, who: str) -> str:
    conditions = "; ".join(f"{condition.label} {condition.condition}" for condition in plot.conditions)
    return f"{who} {plot.outcome} ({plot.style.meaning})" + (f": {conditions}." if conditions else ".")


def _draw_condition(condition: PlottedCondition, plot: ConditionsPlot, top: float, place: int) -> list[Shape]:
    shapes: list[Shape] = [LineSegment(0, top, CANVAS_WIDTH, top, PALE, 0.8)]
    if place or plot.is_continued:
        shapes += [
            Rectangle(8, top - 8, 34, 16, "#ffffff", None),
            TextLine(25, top + 4, "and", 12, "middle", fill=GREY),
        ]
    return [
        *shapes,
        *_draw_texts(condition, _choose_terms(plot), top + 24),
        *_draw_line(condition, plot.style, top + 24),
    ]


@dataclass(frozen=True, slots=True)
class LegendTerms:
    """How the plot speaks of the row, of past rows, and of what the rule admits."""

    row: str = "this row"
    bars: str = "past rows inside and outside"
    admitted: str = "what the rule admits"


PERSON_TERMS = LegendTerms("you", "past cases that fit and others", "what fits")


def _choose_terms(plot: ConditionsPlot) -> LegendTerms:
    return PERSON_TERMS if plot.friendly else LegendTerms()


def _draw_texts(condition: PlottedCondition, terms: LegendTerms, top: float) -> list[Shape]:
    shapes: list[Shape] = []
    y = top
    texts = [(condition.label, 13.0, True, INK, 2), (condition.condition, 13.0, False, INK, 2)]
    texts += (
        []
        if condition.condition == f"= {condition.own_value}"
        else [(f"{terms.row}: {condition.own_value}", 11.0, False, GREY, 1)]
    )
    texts += [] if condition.wider is None else [(f"proven as far as {condition.wider}", 11.0, False, GREY, 1)]
    for text, size, bold, fill, most in texts:
        lines = wrap_text(text, TEXT_WIDTH, size, most, bold)
        shapes += stack_lines(0, y, lines, size, bold=bold, fill=fill)
        y += len(lines) * size * 1.25 + 1
    return shapes


def _draw_line(condition: PlottedCondition, style: VerdictStyle, top: float) -> list[Shape]:
    base = top + BAR_HEIGHT
    shapes = [*_draw_wider(condition, top), *_draw_admitted(condition, style, top)]
    most = max((bar.admitted + bar.others for bar in condition.bars), default=1) or 1
    for bar in condition.bars:
        x, width = LINE_START + bar.left * LINE_LENGTH, (bar.right - bar.left) * LINE_LENGTH
        inset = min(6.0, width * 0.12)
        inside, others = BAR_HEIGHT * bar.admitted / most, BAR_HEIGHT * bar.others / most
        shapes += (
            [Rectangle(x + inset, base - inside, width - 2 * inset, inside, "#333333", kind="inside")] if inside else []
        )
        outside = Rectangle(
            x + inset, base - inside - others, width - 2 * inset, others, PALE, "#8c8c8c", kind="outside"
        )
        shapes += [outside] if others else []
    shapes.append(LineSegment(LINE_START, base, LINE_START + LINE_LENGTH, base, INK, 1))
    shapes += [
        LineSegment(_to_x(condition.own_position), top - 6, _to_x(condition.own_position), base, INK, 1.4),
        Triangle(_to_x(condition.own_position), top - 4),
    ]
    return [*shapes, *_draw_ticks(condition, base)]


def _to_x(at: float) -> float:
    return LINE_START + at * LINE_LENGTH


def _draw_admitted(condition: PlottedCondition, style: VerdictStyle, top: float) -> list[Shape]:
    left, right = condition.span
    x, width = (_to_x(left), (right - left) * LINE_LENGTH) if right - left > 0.006 else (_to_x(left) - 2, 4.0)
    return style.draw_area(x, top - 4, width, BAR_HEIGHT + 4, "admitted")


def _draw_wider(condition: PlottedCondition, top: float) -> list[Shape]:
    """The part that the rule admits with its bounds as far out as is proven; only proven rules have one."""
    if condition.wider_span is None:
        return []
    left, right = condition.wider_span
    area = Rectangle(
        _to_x(left),
        top - 4,
        (right - left) * LINE_LENGTH,
        BAR_HEIGHT + 4,
        "#ffffff",
        PROVEN_STYLE.colour,
        True,
        kind="wider",
    )
    return [area, *hatch(area, "#6fa0cf", 6)]


def _draw_ticks(condition: PlottedCondition, base: float) -> list[Shape]:
    shapes: list[Shape] = []
    slot = LINE_LENGTH / max(1, len(condition.ticks))
    for tick in condition.ticks:
        x = _to_x(tick.at)
        anchor = "start" if tick.at < 0.02 else "end" if tick.at > 0.985 else "middle"
        shapes.append(LineSegment(x, base, x, base + 4, INK, 1))
        shapes += stack_lines(x, base + 15, wrap_text(tick.text, slot - 4, 10.5, 2), 10.5, anchor=anchor, fill=GREY)
    return shapes


def _draw_legend(plot: ConditionsPlot, y: float) -> list[Shape]:
    shapes: list[Shape] = []
    x = 0.0
    if any(condition.bars for condition in plot.conditions):
        shapes += [Rectangle(x, y - 10, 9, 12, "#333333"), Rectangle(x + 11, y - 10, 9, 12, PALE, "#8c8c8c")]
        shapes.append(TextLine(x + 26, y, _choose_terms(plot).bars, 11, fill=GREY))
        x += 210
    shapes += plot.style.draw_area(x, y - 11, 26, 14, "legend")
    shapes.append(TextLine(x + 32, y, _choose_terms(plot).admitted, 11, fill=GREY))
    x += 165
    if any(condition.wider_span for condition in plot.conditions):
        area = Rectangle(x, y - 11, 26, 14, "#ffffff", PROVEN_STYLE.colour, True, kind="legend")
        shapes += [area, *hatch(area, "#6fa0cf", 6), TextLine(x + 32, y, "proven as far as this", 11, fill=GREY)]
        x += 180
    return [*shapes, Triangle(x + 6, y), TextLine(x + 16, y, _choose_terms(plot).row, 11, fill=GREY)]
