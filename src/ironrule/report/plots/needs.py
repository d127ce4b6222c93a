"""Why the rule is not shorter: for every component an example that satisfies all others and has the desired outcome.

Drawn as a table: every line is a point that satisfies all components but one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ironrule.report.plots.drawing import (
    CANVAS_WIDTH,
    GREY,
    INK,
    PALE,
    Drawing,
    LineSegment,
    Rectangle,
    Shape,
    TextLine,
    hatch,
    stack_lines,
    wrap_text,
)
from ironrule.report.text import collect_labels, format_desired_outcome
from ironrule.results.background import ComponentNeed
from ironrule.results.explanation import Explanation
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels, format_outcome
from ironrule.rule.rule import Component

UNKNOWN_NEED = "Not known whether this part is needed."
NO_DATA = "The data is not at hand, so it cannot be shown why every part is needed."


@dataclass(frozen=True, slots=True)
class NeedExample:
    """What the rule without one component would let through; ``values`` by component, None where nothing is known."""

    component_index: int  # of the component that is left out
    values: tuple[str, ...] | None
    others: tuple[str, ...]  # what else differs from the row, in features that the rule does not name
    is_past_row: bool


@dataclass(frozen=True, slots=True)
class NeedsPlot:
    """The components, and one example for each."""

    components: tuple[tuple[str, str], ...]  # label and condition
    examples: tuple[NeedExample, ...]
    outcome: str
    desired: str
    notes: tuple[str, ...]


def build_needs_plot(explanation: Explanation, labels: FeatureLabels | None = None) -> NeedsPlot:
    """The examples that show that every component is needed, as far as they are known."""
    labels, background = labels or collect_labels(explanation), explanation.background
    components = explanation.rule.components
    needs = () if background is None else background.needs
    heads = tuple(
        (labels.label(component.feature), labels.format_short(FeatureCondition(component.feature, (component,))))
        for component in components
    )
    examples = tuple(_build_example(place, need, components, labels) for place, need in enumerate(needs))
    outcome, desired = format_outcome(explanation.rule), format_desired_outcome(explanation)
    return NeedsPlot(heads, examples, outcome, desired, _build_notes(explanation, needs))


def _build_notes(explanation: Explanation, needs: Sequence[ComponentNeed]) -> tuple[str, ...]:
    background = explanation.background
    if background is None:
        return (NO_DATA,)
    close = "Who is shown gets the desired outcome from one of the models, or has a score within the margin."
    return (close,) if background.is_robust and any(need.counterfactual for need in needs) else ()


def _build_example(
    place: int, need: ComponentNeed, components: Sequence[Component], labels: FeatureLabels
) -> NeedExample:
    counterfactual = need.counterfactual
    if counterfactual is None:
        return NeedExample(place, None, (), False)
    values = tuple(
        labels.format_value(component.feature, counterfactual.values[component.feature]) for component in components
    )
    return NeedExample(
        place,
        values,
        format_other_changes(counterfactual, {component.feature for component in components}, labels),
        need.is_past_row,
    )


def format_other_changes(counterfactual: Counterfactual, named: set[str], labels: FeatureLabels) -> tuple[str, ...]:
    """What a counterfactual changes in features that are not named."""
    return tuple(
        f"{labels.label(change.feature)}: {labels.format_value(change.feature, change.after)}"
        for change in counterfactual.changes
        if change.feature not in named
    )


COMPONENT_X, VALUE_X, CELLS_X, OUTCOME_X = 0.0, 236.0, 424.0, 636.0  # where the columns begin
HEAD_HEIGHT, ROW_HEIGHT, OTHERS_HEIGHT = 58.0, 44.0, 14.0
MIN_CELL_WIDTH = 15.0  # a column below this has no room for a number or a sign


def draw_needs(needs: NeedsPlot) -> Drawing:
    """The table laid out."""
    shapes: list[Shape] = [TextLine(0, 16, "Why every part of the rule is needed", 15, bold=True)]
    if not needs.examples:
        texts = needs.notes if needs.components else ("The rule has no parts that could go.",)
        return Drawing((*shapes, *stack_lines(0, 40, texts, 11, fill=GREY)), 52 + 14 * len(texts), " ".join(texts))
    shapes += [*_draw_head(needs), *_draw_instance(needs, HEAD_HEIGHT + 4)]
    top = HEAD_HEIGHT + 4 + ROW_HEIGHT
    for example in needs.examples:
        shapes += _draw_example(example, needs, top)
        top += ROW_HEIGHT + (OTHERS_HEIGHT if example.others else 0)
    shapes += [*_draw_legend(needs, top + 20), *stack_lines(0, top + 40, needs.notes, 11, fill=GREY)]
    return Drawing(tuple(shapes), top + 30 + 16 * len(needs.notes), _describe(needs))


def _describe(needs: NeedsPlot) -> str:
    known = sum(example.values is not None for example in needs.examples)
    return (
        f"For {known} of the {len(needs.components)} parts of the rule: somebody who satisfies all the others, but not "
        f"this one, and gets the other outcome."
    )


def _draw_head(needs: NeedsPlot) -> list[Shape]:
    wide = _cell_width(needs)
    step = 1 if wide >= MIN_CELL_WIDTH else 5  # numbers that would run into each other are left out
    shown = [place for place in _component_indices(needs) if place == 0 or (place + 1) % step == 0]
    numbers = [TextLine(CELLS_X + (place + 0.5) * wide, 50, f"{place + 1}", 11, "middle", True) for place in shown]
    titles = ((COMPONENT_X, "without this part"), (VALUE_X, "somebody with"), (OUTCOME_X, "gets"))
    return [
        *(TextLine(x, 50, text, 11, bold=True) for x, text in titles),
        *numbers,
        LineSegment(0, HEAD_HEIGHT, CANVAS_WIDTH, HEAD_HEIGHT, INK, 1),
    ]


def _component_indices(needs: NeedsPlot) -> range:
    return range(len(needs.components))


def _cell_width(needs: NeedsPlot) -> float:
    return min(44.0, (OUTCOME_X - CELLS_X - 8) / len(needs.components))


def _draw_instance(needs: NeedsPlot, top: float) -> list[Shape]:
    return [
        TextLine(COMPONENT_X, top + 26, "this row", 12),
        *_draw_cells(needs, None, top),
        *stack_lines(OUTCOME_X, top + 26, wrap_text(needs.outcome, CANVAS_WIDTH - OUTCOME_X, 12), 12),
    ]


def _draw_example(example: NeedExample, needs: NeedsPlot, top: float) -> list[Shape]:
    label, condition = needs.components[example.component_index]
    lines = wrap_text(f"{example.component_index + 1}  {label} {condition}", VALUE_X - 10, 12, 2)
    shapes: list[Shape] = [LineSegment(0, top, CANVAS_WIDTH, top, PALE, 0.6), *_stack_centred(COMPONENT_X, top, lines)]
    if example.values is None:
        area = Rectangle(
            VALUE_X, top + 5, CANVAS_WIDTH - VALUE_X, ROW_HEIGHT - 10, "#ffffff", GREY, True, kind="unknown"
        )
        background = Rectangle(VALUE_X + 8, top + 12, 8 + 6.4 * len(UNKNOWN_NEED), 20, "#ffffff")
        return [*shapes, area, *hatch(area, PALE), background, TextLine(VALUE_X + 12, top + 26, UNKNOWN_NEED, 11)]
    shapes += _stack_centred(
        VALUE_X, top, wrap_text(example.values[example.component_index], CELLS_X - VALUE_X - 12, 12, 2, True), bold=True
    )
    shapes += [*_draw_cells(needs, example.component_index, top)]
    shapes += stack_lines(
        OUTCOME_X, top + 26, wrap_text(needs.desired, CANVAS_WIDTH - OUTCOME_X, 12, 1, True), 12, bold=True
    )
    if example.others:
        line = wrap_text(f"and {'; '.join(example.others)}", CANVAS_WIDTH - VALUE_X, 11)[0]
        shapes.append(TextLine(VALUE_X, top + ROW_HEIGHT + 6, line, 11, fill=GREY))
    return shapes


def _stack_centred(x: float, top: float, lines: list[str], bold: bool = False) -> list[Shape]:
    return stack_lines(x, top + (26 if len(lines) == 1 else 19), lines, 12, bold=bold)


def _draw_cells(needs: NeedsPlot, fails: int | None, top: float) -> list[Shape]:
    wide, shapes = _cell_width(needs), list[Shape]()
    for place in _component_indices(needs):
        failing = place == fails
        shapes += _draw_cell(CELLS_X + place * wide, top + 6, wide - 3, ROW_HEIGHT - 12, failing)
    return shapes


def _draw_cell(x: float, y: float, width: float, height: float, fails: bool) -> list[Shape]:
    fill, stroke, kind = ("#ffffff", INK, "fails") if fails else ("#e4e4e4", None, "satisfies")
    if width < MIN_CELL_WIDTH:  # too narrow for a sign: dark is what fails
        return [Rectangle(x, y, width, height, INK if fails else fill, stroke, kind=kind)]
    middle, size = x + width / 2, min(13.0, width * 0.8)
    sign = TextLine(middle, y + height / 2 + size * 0.35, "✗" if fails else "✓", size, "middle", fails, INK)
    return [Rectangle(x, y, width, height, fill, stroke, kind=kind), sign]


def _draw_legend(needs: NeedsPlot, y: float) -> list[Shape]:
    wide = min(22.0, _cell_width(needs) - 3)
    return [
        *_draw_cell(0, y - 13, wide, 18, False),
        TextLine(28, y, "satisfies the part with this number", 11, fill=GREY),
        *_draw_cell(248, y - 13, wide, 18, True),
        TextLine(276, y, "does not: without it the rule would have this exception", 11, fill=GREY),
    ]
