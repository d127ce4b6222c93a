"""The conditions of a rule: one line per feature, its distribution among past rows with the admitted part marked.

Words stand on the left, the feature's line on the right, and a legend below. A rule that admits little of a feature's
range has a stretched line (:mod:`ironrule.report.plots.scale`), which is marked as not to scale. Here the rule is shown
as it was found, with what is proven besides; pages for people (:mod:`ironrule.report.plots.comparison`) show the rule
that they tell, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from ironrule.report.plots import drawing
from ironrule.report.plots.drawing import Drawing, LineSegment, Rectangle, Shape, TextLine, Triangle
from ironrule.report.plots.scale import SCALE_TEXTS, HistogramBar, ScaleTexts, Tick, build_scale
from ironrule.report.text import collect_labels, find_proven_wider_rule
from ironrule.results.background import Distribution
from ironrule.results.explanation import Explanation
from ironrule.rule.condition import find_admitted_codes
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels, format_outcome, group_conditions
from ironrule.space.feature import Value
from ironrule.wording import escape_controls, format_value

Span = tuple[float, float]
NO_HISTORY = "The past rows are not available, so no distributions are shown."
NOT_TO_SCALE = "not to scale"


class ConditionWording(Protocol):
    """How conditions are written in a plot."""

    def get_label(self, feature: str) -> str:
        """What the feature is called."""

    def format_value(self, feature: str, value: Value) -> str:
        """A value, with its unit."""

    def format_tick(self, feature: str, value: Value) -> str:
        """A value below a line, without its unit."""

    def format_number(self, feature: str, number: float, digits: int) -> str:
        """A round number below a line, with so many digits."""

    def format_condition(self, condition: FeatureCondition) -> str:
        """What the rule demands of its feature."""


@dataclass(frozen=True, slots=True)
class SignWording:
    """Conditions in signs, such as ``≥ 48 months``."""

    labels: FeatureLabels

    def get_label(self, feature: str) -> str:
        """What the feature is called."""
        return self.labels.label(feature)

    def format_value(self, feature: str, value: Value) -> str:
        """A value, with its unit."""
        return self.labels.format_value(feature, value)

    def format_tick(self, feature: str, value: Value) -> str:
        """A value below a line, without its unit."""
        text = self.labels.labels.get_value_text(feature, value)
        return format_value(value, "letter") if text is None else escape_controls(text)

    def format_number(self, feature: str, number: float, digits: int) -> str:  # noqa: ARG002
        """A round number below a line."""
        return f"{number:,.{digits}f}"

    def format_condition(self, condition: FeatureCondition) -> str:
        """What the rule demands of its feature."""
        return self.labels.format_short(condition)


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
    is_stretched: bool = False  # whether the line is not to scale
    has_slots: bool = False  # whether every bar has a tick of its own, as categories have


@dataclass(frozen=True, slots=True)
class LegendTerms:
    """How the plot speaks of the row, of past rows, and of what the rule admits."""

    row: str
    bars: str
    admitted: str


ROW_TERMS = LegendTerms("this row", "past rows inside and outside", "what the rule admits")


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
    labels = labels or collect_labels(explanation)
    wording, distributions = SignWording(labels), find_distributions(explanation)
    proven_wider = find_proven_wider_rule(explanation)
    wider_rule = explanation.rule if proven_wider is None else proven_wider.rule
    wider = {condition.feature: condition for condition in group_conditions(wider_rule)}
    conditions = tuple(
        build_plotted_condition(
            condition,
            wider.get(condition.feature, condition),
            distributions.get(condition.feature),
            wording,
            explanation.instance[condition.feature],
        )
        for condition in group_conditions(explanation.rule)
    )
    return ConditionsPlot(
        conditions,
        format_outcome(explanation.rule),
        drawing.choose_style(explanation.verdict),
        (NO_HISTORY,) if explanation.background is None and conditions else (),
    )


def find_distributions(explanation: Explanation) -> dict[str, Distribution]:
    """How often values occur among past rows, by the features of the rule; none where these are not at hand."""
    background = explanation.background
    distributions = () if background is None else background.distributions
    return {distribution.feature.name: distribution for distribution in distributions}


def build_plotted_condition(
    condition: FeatureCondition,
    wider: FeatureCondition,
    distribution: Distribution | None,
    wording: ConditionWording,
    own_value: Value,
    groups: tuple[str, str] = (SCALE_TEXTS.others, SCALE_TEXTS.between),
) -> PlottedCondition:
    """One condition, and how far it is proven; ``groups`` is what several values are called without and with order."""
    name, moved = condition.feature, wider != condition
    own_text = wording.format_value(name, own_value)
    own_position, span = 0.5, _guess_span(condition)
    plotted = PlottedCondition(
        label=wording.get_label(name),
        condition=wording.format_condition(condition),
        wider=wording.format_condition(wider) if moved else None,
        own_value=own_text,
        bars=(),
        ticks=(Tick(own_position, own_text),),
        span=span,
        wider_span=_guess_wider_span(span, condition, wider) if moved else None,
        own_position=own_position,
    )
    if distribution is None:
        return plotted
    feature = distribution.feature
    own_code = feature.code(own_value)
    codes, wider_codes = find_admitted_codes(condition, feature), find_admitted_codes(wider, feature)
    texts = ScaleTexts(
        lambda value: wording.format_tick(name, value),
        lambda number, digits: wording.format_number(name, number, digits),
        *groups,
    )
    # the row and the ends of what is admitted have places of their own, so that they can be marked
    kept = frozenset((own_code, codes[0], codes[-1], wider_codes[0], wider_codes[-1]))
    scale = build_scale(distribution, kept, wider_codes, texts)
    return replace(
        plotted,
        bars=scale.bars(distribution.counts, codes),
        ticks=scale.ticks,
        span=scale.span(codes),
        wider_span=scale.span(wider_codes) if moved else None,
        own_position=sum(scale.span(range(own_code, own_code + 1))) / 2,
        is_stretched=scale.is_stretched,
        has_slots=scale.has_slots,
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


@dataclass(frozen=True, slots=True)
class LineLayout:
    """Where a feature's line starts, how long it is, and how large its texts are."""

    start: float
    length: float
    text_size: float = 10.5

    def get_x(self, position: float) -> float:
        """A position from 0 to 1 on the canvas."""
        return self.start + position * self.length


LAYOUT = LineLayout(245.0, drawing.CANVAS_WIDTH - 245.0 - 12.0)
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
        shapes += draw_line(condition, plot.style, top + 24, LAYOUT)
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


def draw_line(
    condition: PlottedCondition,
    style: drawing.VerdictStyle,
    top: float,
    layout: LineLayout,
    not_to_scale: str = NOT_TO_SCALE,
) -> list[Shape]:
    """The feature's line: what the rule admits behind the bars, and the row in front of them."""
    base = top + BAR_HEIGHT
    shapes: list[Shape] = []
    if condition.wider_span is not None:
        left, right = condition.wider_span
        width = (right - left) * layout.length
        shapes += _draw_wider(layout.get_x(left), top - 4, width, BAR_HEIGHT + 4, "wider")
    left, right = condition.span
    # a single value of many is a thin line: it is made 4 wide, so that it can be seen
    x, width = layout.get_x(left), (right - left) * layout.length
    x, width = (x, width) if width > 3.0 else (x + width / 2 - 2, 4.0)
    shapes += style.draw_area(x, top - 4, width, BAR_HEIGHT + 4, "admitted")
    highest = max((bar.admitted + bar.others for bar in condition.bars), default=1) or 1
    for bar in condition.bars:  # the rows outside the condition are stacked on those inside
        slot = (bar.right - bar.left) * layout.length
        inset = min(6.0, slot * 0.12)
        x, width = layout.get_x(bar.left) + inset, slot - 2 * inset
        inside, others = BAR_HEIGHT * bar.admitted / highest, BAR_HEIGHT * bar.others / highest
        if inside:
            shapes.append(Rectangle(x, base - inside, width, inside, drawing.DARK, kind="inside"))
        if others:
            shapes += [
                Rectangle(x, base - inside - others, width, others, fill=drawing.PALE, stroke=OUTLINE, kind="outside")
            ]
    own_x, end = layout.get_x(condition.own_position), layout.get_x(1.0)
    shapes.append(
        LineSegment(layout.start, base, end, base, stroke=drawing.INK, width=1, dashed=condition.is_stretched)
    )
    shapes += [LineSegment(own_x, top - 6, own_x, base, stroke=drawing.INK, width=1.4), Triangle(own_x, top - 4)]
    if condition.is_stretched:
        shapes.append(TextLine(end, base + 29, not_to_scale, layout.text_size, "end", fill=drawing.GREY))
    return [*shapes, *_draw_ticks(condition, base, layout)]


def _draw_wider(x: float, y: float, width: float, height: float, kind: str) -> list[Shape]:
    """What the rule admits with its bounds as far out as is proven; only proven rules have it."""
    area = Rectangle(
        x, y, width, height, fill=drawing.PAPER, stroke=drawing.PROVEN_STYLE.colour, dashed=True, kind=kind
    )
    return drawing.draw_hatched(area, "#6fa0cf", 6)


def _draw_ticks(condition: PlottedCondition, base: float, layout: LineLayout) -> list[Shape]:
    shapes: list[Shape] = []
    room, size = layout.length / max(1, len(condition.ticks)) - 4, layout.text_size  # for the text of each
    for tick in condition.ticks:
        x = layout.get_x(tick.at)
        # texts at the ends of the line must not run over the edge of the canvas
        anchor: drawing.TextAnchor = "start" if tick.at < 0.02 else "end" if tick.at > 0.985 else "middle"
        shapes.append(LineSegment(x, base, x, base + 4, stroke=drawing.INK, width=1))
        lines = drawing.wrap_text(tick.text, room, size, 1 if condition.is_stretched else 2)
        shapes += drawing.stack_lines(x, base + 4.5 + size, lines, size, anchor, fill=drawing.GREY)
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
