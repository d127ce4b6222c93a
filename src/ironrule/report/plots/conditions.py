"""The conditions of a rule: one line per feature, its distribution among past rows with the admitted part marked.

Words stand on the left, the feature's line on the right, and a legend below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ironrule.report.plots import drawing
from ironrule.report.plots.drawing import Drawing, LineSegment, Rectangle, Shape, TextLine, Triangle
from ironrule.report.plots.scale import HistogramBar, Tick, build_scale
from ironrule.report.text import collect_labels, find_proven_wider_rule
from ironrule.results.background import Distribution
from ironrule.results.explanation import Explanation
from ironrule.rule.condition import find_admitted_codes
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels, format_outcome, group_conditions
from ironrule.space.feature import Value

Span = tuple[float, float]
NO_HISTORY = "The past rows are not available, so no distributions are shown."


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
class LegendTerms:
    """How the plot speaks of the row, of past rows, and of what the rule admits."""

    row: str
    bars: str
    admitted: str


ROW_TERMS = LegendTerms("this row", "past rows inside and outside", "what the rule admits")
PERSON_TERMS = LegendTerms("you", "past cases that fit and others", "what fits")


@dataclass(frozen=True, slots=True)
class ConditionsPlot:
    """All conditions, what they lead to, and what is known of that."""

    conditions: tuple[PlottedCondition, ...]
    outcome: str
    style: drawing.VerdictStyle
    notes: tuple[str, ...]
    terms: LegendTerms = ROW_TERMS
    is_continued: bool = False  # whether other conditions came before, in a plot of their own

    def split(self, max_items: int) -> tuple[ConditionsPlot, ...]:
        """The same in pieces that fit a page."""
        starts = range(0, max(1, len(self.conditions)), max_items)
        pages = [(start > 0, self.conditions[start : start + max_items]) for start in starts]
        return tuple(replace(self, conditions=page, is_continued=is_continued) for is_continued, page in pages)


def build_conditions_plot(explanation: Explanation, labels: FeatureLabels | None = None) -> ConditionsPlot:
    """The conditions of the best rule."""
    labels, background = labels or collect_labels(explanation), explanation.background
    distributions = () if background is None else background.distributions
    by_feature = {distribution.feature.name: distribution for distribution in distributions}
    proven_wider = find_proven_wider_rule(explanation)
    wider_rule = explanation.rule if proven_wider is None else proven_wider.rule
    wider = {condition.feature: condition for condition in group_conditions(wider_rule)}
    conditions = tuple(
        _build_condition(
            condition,
            wider.get(condition.feature, condition),
            by_feature.get(condition.feature),
            labels,
            explanation.instance[condition.feature],
        )
        for condition in group_conditions(explanation.rule)
    )
    return ConditionsPlot(
        conditions,
        format_outcome(explanation.rule, labels.friendly),
        drawing.choose_style(explanation.verdict),
        (NO_HISTORY,) if background is None and conditions else (),
        PERSON_TERMS if labels.friendly else ROW_TERMS,
    )


def _build_condition(
    condition: FeatureCondition,
    wider: FeatureCondition,
    distribution: Distribution | None,
    labels: FeatureLabels,
    own_value: Value,
) -> PlottedCondition:
    own_text = labels.format_value(condition.feature, own_value)
    bars: tuple[HistogramBar, ...] = ()
    ticks: tuple[Tick, ...] = (Tick(0.5, own_text),)
    if distribution is None:
        own_position = 0.5
        span = _guess_span(condition)
        wider_span = _guess_wider_span(span, condition, wider)
    else:
        feature = distribution.feature
        own_code = feature.code(own_value)
        codes, wider_codes = find_admitted_codes(condition, feature), find_admitted_codes(wider, feature)
        # the row and the ends of what is admitted have places of their own, so that they can be marked
        scale = build_scale(distribution, frozenset((own_code, codes[0], codes[-1], wider_codes[0], wider_codes[-1])))
        bars, ticks = scale.bars(distribution.counts, codes), scale.ticks
        span, wider_span = scale.span(codes), scale.span(wider_codes)
        own_position = sum(scale.span(range(own_code, own_code + 1))) / 2
    moved = wider != condition
    return PlottedCondition(
        label=labels.label(condition.feature),
        condition=labels.format_short(condition),
        wider=labels.format_short(wider) if moved else None,
        own_value=own_text,
        bars=bars,
        ticks=ticks,
        span=span,
        wider_span=wider_span if moved else None,
        own_position=own_position,
    )


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
LINE_START, LINE_LENGTH = 245.0, drawing.CANVAS_WIDTH - 245.0 - 12.0  # of a feature's line
BAR_HEIGHT = 50.0  # of the highest bar
HEAD_HEIGHT, CONDITION_HEIGHT = 64.0, 112.0
CONDITIONS_PER_PAGE = 6
OUTLINE = "#8c8c8c"


def draw_condition_pages(explanation: Explanation, labels: FeatureLabels | None = None) -> tuple[Drawing, ...]:
    """The conditions of the best rule, in drawings that fit a page."""
    plot = build_conditions_plot(explanation, labels)
    return tuple(draw_conditions(part) for part in plot.split(CONDITIONS_PER_PAGE))


def draw_conditions(plot: ConditionsPlot) -> Drawing:
    """The conditions laid out."""
    claim = f"{plot.style.claim}everyone{' with all of this' if plot.conditions else ''} gets"
    claim = f"(continued) {claim}" if plot.is_continued else claim[:1].upper() + claim[1:]
    title = drawing.wrap_text(f"{claim}: {plot.outcome}", drawing.CANVAS_WIDTH, 15, bold=True)[0]
    shapes = [drawing.draw_title(title), *plot.style.draw_badge(0, 28)]
    top = HEAD_HEIGHT
    for index, condition in enumerate(plot.conditions):  # one below the other, with "and" between them
        shapes.append(LineSegment(0, top, drawing.CANVAS_WIDTH, top, stroke=drawing.PALE, width=0.8))
        if index or plot.is_continued:
            shapes.append(Rectangle(8, top - 8, 34, 16, fill=drawing.PAPER, stroke=None))
            shapes.append(TextLine(25, top + 4, "and", 12, "middle", fill=drawing.GREY))
        shapes += _draw_texts(condition, plot.terms, top + 24)
        shapes += _draw_line(condition, plot.style, top + 24)
        top += CONDITION_HEIGHT
    if plot.conditions:
        shapes += _draw_legend(plot, top + 14)
        top += 30
    shapes += drawing.draw_notes(top + 10, plot.notes)
    texts = "; ".join(f"{condition.label} {condition.condition}" for condition in plot.conditions)
    description = f"{claim} {plot.outcome} ({plot.style.meaning}){f': {texts}' if texts else ''}."
    return Drawing(tuple(shapes), top + 16 * len(plot.notes) + 4, description)


def _draw_texts(condition: PlottedCondition, terms: LegendTerms, top: float) -> list[Shape]:
    """The words on the left: label and condition, then in small letters the own value and how far is proven."""
    small = [] if condition.condition == f"= {condition.own_value}" else [f"{terms.row}: {condition.own_value}"]
    small += [] if condition.wider is None else [f"proven as far as {condition.wider}"]
    texts = [(condition.label, 13.0, True, drawing.INK, 2), (condition.condition, 13.0, False, drawing.INK, 2)]
    texts += [(text, 11.0, False, drawing.GREY, 1) for text in small]
    shapes: list[Shape] = []
    y = top
    for text, size, bold, fill, max_lines in texts:
        lines = drawing.wrap_text(text, TEXT_WIDTH, size, max_lines, bold)
        shapes += drawing.stack_lines(0, y, lines, size, bold=bold, fill=fill)
        y += len(lines) * size * 1.25 + 1
    return shapes


def _draw_line(condition: PlottedCondition, style: drawing.VerdictStyle, top: float) -> list[Shape]:
    """The feature's line: what the rule admits behind the bars, and the row in front of them."""
    base = top + BAR_HEIGHT
    shapes: list[Shape] = []
    if condition.wider_span is not None:
        left, right = condition.wider_span
        shapes += _draw_wider(_to_x(left), top - 4, (right - left) * LINE_LENGTH, BAR_HEIGHT + 4, "wider")
    left, right = condition.span
    # a single value of many is a thin line: it is made 4 wide, so that it can be seen
    x, width = (_to_x(left), (right - left) * LINE_LENGTH) if right - left > 0.006 else (_to_x(left) - 2, 4.0)
    shapes += style.draw_area(x, top - 4, width, BAR_HEIGHT + 4, "admitted")
    highest = max((bar.admitted + bar.others for bar in condition.bars), default=1) or 1
    for bar in condition.bars:  # the rows outside the condition are stacked on those inside
        inset = min(6.0, (bar.right - bar.left) * LINE_LENGTH * 0.12)
        x, width = _to_x(bar.left) + inset, (bar.right - bar.left) * LINE_LENGTH - 2 * inset
        inside, others = BAR_HEIGHT * bar.admitted / highest, BAR_HEIGHT * bar.others / highest
        if inside:
            shapes.append(Rectangle(x, base - inside, width, inside, drawing.DARK, kind="inside"))
        if others:
            shapes += [
                Rectangle(x, base - inside - others, width, others, fill=drawing.PALE, stroke=OUTLINE, kind="outside")
            ]
    own_x = _to_x(condition.own_position)
    shapes.append(LineSegment(LINE_START, base, LINE_START + LINE_LENGTH, base, stroke=drawing.INK, width=1))
    shapes += [LineSegment(own_x, top - 6, own_x, base, stroke=drawing.INK, width=1.4), Triangle(own_x, top - 4)]
    return [*shapes, *_draw_ticks(condition, base)]


def _to_x(position: float) -> float:
    return LINE_START + position * LINE_LENGTH


def _draw_wider(x: float, y: float, width: float, height: float, kind: str) -> list[Shape]:
    """What the rule admits with its bounds as far out as is proven; only proven rules have it."""
    area = Rectangle(
        x, y, width, height, fill=drawing.PAPER, stroke=drawing.PROVEN_STYLE.colour, dashed=True, kind=kind
    )
    return drawing.draw_hatched(area, "#6fa0cf", 6)


def _draw_ticks(condition: PlottedCondition, base: float) -> list[Shape]:
    shapes: list[Shape] = []
    room = LINE_LENGTH / max(1, len(condition.ticks)) - 4  # for the text of each
    for tick in condition.ticks:
        x = _to_x(tick.at)
        # texts at the ends of the line must not run over the edge of the canvas
        anchor: drawing.TextAnchor = "start" if tick.at < 0.02 else "end" if tick.at > 0.985 else "middle"
        shapes.append(LineSegment(x, base, x, base + 4, stroke=drawing.INK, width=1))
        shapes += drawing.stack_lines(
            x, base + 15, drawing.wrap_text(tick.text, room, 10.5, 2), 10.5, anchor, fill=drawing.GREY
        )
    return shapes


def _draw_legend(plot: ConditionsPlot, y: float) -> list[Shape]:
    """Samples with their captions from left to right; only of what the plot shows."""
    shapes: list[Shape] = []
    x = 0.0
    if any(condition.bars for condition in plot.conditions):
        shapes += [
            Rectangle(x, y - 10, 9, 12, drawing.DARK),
            Rectangle(x + 11, y - 10, 9, 12, fill=drawing.PALE, stroke=OUTLINE),
        ]
        shapes.append(drawing.draw_caption(x + 26, y, plot.terms.bars))
        x += 210
    shapes += [*plot.style.draw_area(x, y - 11, 26, 14, "legend"), drawing.draw_caption(x + 32, y, plot.terms.admitted)]
    x += 165
    if any(condition.wider_span for condition in plot.conditions):
        shapes += [*_draw_wider(x, y - 11, 26, 14, "legend"), drawing.draw_caption(x + 32, y, "proven as far as this")]
        x += 180
    return [*shapes, Triangle(x + 6, y), drawing.draw_caption(x + 16, y, plot.terms.row)]
