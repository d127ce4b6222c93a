"""Why the rule is not shorter: for every component an example that satisfies all others and has the desired outcome.

Drawn as a table: every line is a point that satisfies all components but one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ironrule.report.plots import drawing
from ironrule.report.plots.drawing import Drawing, LineSegment, Rectangle, Shape, TextLine
from ironrule.report.text import collect_labels, format_desired_outcome
from ironrule.results.background import ComponentNeed
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels, format_outcome

UNKNOWN_NEED = "Not known whether this part is needed."
NO_DATA = "The past rows are not available, so it cannot be shown why every part is needed."
ROBUST = "These cases get the desired outcome from one of the models, or have a score within the margin."


@dataclass(frozen=True, slots=True)
class NeedExample:
    """A case that only one component excludes; ``values`` by component, None where no such case is known."""

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
    named = [component.feature for component in components]
    needs = () if background is None else background.needs
    notes: tuple[str, ...] = ()
    if background is None:
        notes = (NO_DATA,)
    elif background.is_robust and any(need.counterfactual for need in needs):
        notes = (ROBUST,)
    return NeedsPlot(
        tuple(
            (labels.label(component.feature), labels.format_short(FeatureCondition(component.feature, (component,))))
            for component in components
        ),
        tuple(_build_example(index, need, named, labels) for index, need in enumerate(needs)),
        format_outcome(explanation.rule),
        format_desired_outcome(explanation),
        notes,
    )


def _build_example(index: int, need: ComponentNeed, named: Sequence[str], labels: FeatureLabels) -> NeedExample:
    if need.counterfactual is None:
        return NeedExample(index, None, (), False)
    values = need.counterfactual.values
    shown = tuple(labels.format_value(name, values[name]) for name in named)
    others = tuple(
        f"{labels.label(change.feature)}: {labels.format_value(change.feature, change.after)}"
        for change in need.counterfactual.changes
        if change.feature not in named
    )
    return NeedExample(index, shown, others, need.is_past_row)


COMPONENT_X, VALUE_X, CELLS_X, OUTCOME_X = 0.0, 236.0, 424.0, 636.0  # where the columns begin
HEAD_HEIGHT, ROW_HEIGHT, OTHERS_HEIGHT = 58.0, 44.0, 14.0
MIN_CELL_WIDTH = 15.0  # a column below this has no room for a number or a sign


def draw_needs(needs: NeedsPlot) -> Drawing:
    """The table laid out."""
    shapes = [drawing.draw_title("Why every part of the rule is needed")]
    if not needs.examples:
        texts = needs.notes if needs.components else ("The rule has no parts that could be left out.",)
        return Drawing((*shapes, *drawing.draw_notes(40, texts)), 52 + 14 * len(texts), " ".join(texts))
    top = HEAD_HEIGHT + 4
    shapes += [*_draw_head(needs), *_draw_instance(needs, top)]
    top += ROW_HEIGHT
    for example in needs.examples:  # a line of the table each; a second one for other values that differ
        shapes += _draw_example(example, needs, top)
        top += ROW_HEIGHT + (OTHERS_HEIGHT if example.others else 0)
    shapes += [*_draw_legend(needs, top + 20), *drawing.draw_notes(top + 40, needs.notes)]
    known = sum(example.values is not None for example in needs.examples)
    description = (
        f"For {known} of the {len(needs.components)} parts of the rule: a case that satisfies all other parts, but not "
        f"this one, and gets the desired outcome."
    )
    return Drawing(tuple(shapes), top + 30 + 16 * len(needs.notes), description)


def _draw_head(needs: NeedsPlot) -> list[Shape]:
    """The titles of the columns; those of the cells are the numbers of the components."""
    width = _cell_width(needs)
    step = 1 if width >= MIN_CELL_WIDTH else 5  # numbers that would run into each other are left out
    numbers = [number for number in range(1, len(needs.components) + 1) if number == 1 or number % step == 0]
    titles = ((COMPONENT_X, "without this part"), (VALUE_X, "a case with"), (OUTCOME_X, "gets"))
    return [
        *(TextLine(x, 50, text, 11, bold=True) for x, text in titles),
        *(TextLine(CELLS_X + (number - 0.5) * width, 50, f"{number}", 11, "middle", bold=True) for number in numbers),
        LineSegment(0, HEAD_HEIGHT, drawing.CANVAS_WIDTH, HEAD_HEIGHT, stroke=drawing.INK, width=1),
    ]


def _cell_width(needs: NeedsPlot) -> float:
    return min(44.0, (OUTCOME_X - CELLS_X - 8) / len(needs.components))


def _draw_instance(needs: NeedsPlot, top: float) -> list[Shape]:
    return [
        TextLine(COMPONENT_X, top + 26, "this row", 12),
        *_draw_cells(needs, None, top),
        TextLine(OUTCOME_X, top + 26, drawing.wrap_text(needs.outcome, drawing.CANVAS_WIDTH - OUTCOME_X, 12)[0], 12),
    ]


def _draw_example(example: NeedExample, needs: NeedsPlot, top: float) -> list[Shape]:
    label, condition = needs.components[example.component_index]
    component = f"{example.component_index + 1}  {label} {condition}"
    shapes: list[Shape] = [LineSegment(0, top, drawing.CANVAS_WIDTH, top, stroke=drawing.PALE, width=0.6)]
    shapes += _draw_cell_text(COMPONENT_X, top, component, VALUE_X - 10)
    if example.values is None:
        width, height = drawing.CANVAS_WIDTH - VALUE_X, ROW_HEIGHT - 10
        area = Rectangle(
            VALUE_X, top + 5, width, height, fill=drawing.PAPER, stroke=drawing.GREY, dashed=True, kind="unknown"
        )
        background = Rectangle(VALUE_X + 8, top + 12, 8 + 6.4 * len(UNKNOWN_NEED), 20, drawing.PAPER)
        text = TextLine(VALUE_X + 12, top + 26, UNKNOWN_NEED, 11)
        return [*shapes, *drawing.draw_hatched(area, drawing.PALE), background, text]
    value = example.values[example.component_index]
    desired = drawing.wrap_text(needs.desired, drawing.CANVAS_WIDTH - OUTCOME_X, 12, 1, True)[0]
    shapes += [
        *_draw_cell_text(VALUE_X, top, value, CELLS_X - VALUE_X - 12, bold=True),
        *_draw_cells(needs, example.component_index, top),
        TextLine(OUTCOME_X, top + 26, desired, 12, bold=True),
    ]
    if example.others:
        others = drawing.wrap_text(f"and {'; '.join(example.others)}", drawing.CANVAS_WIDTH - VALUE_X, 11)[0]
        shapes.append(drawing.draw_caption(VALUE_X, top + ROW_HEIGHT + 6, others))
    return shapes


def _draw_cell_text(x: float, top: float, text: str, width: float, bold: bool = False) -> list[Shape]:
    """One line or two, in the middle of a line of the table."""
    lines = drawing.wrap_text(text, width, 12, 2, bold)
    return drawing.stack_lines(x, top + (26 if len(lines) == 1 else 19), lines, 12, bold=bold)


def _draw_cells(needs: NeedsPlot, failing: int | None, top: float) -> list[Shape]:
    """A cell for every component; the ``failing`` one is not satisfied."""
    width, shapes = _cell_width(needs), list[Shape]()
    for index in range(len(needs.components)):
        shapes += _draw_cell(CELLS_X + index * width, top + 6, width - 3, ROW_HEIGHT - 12, index == failing)
    return shapes


def _draw_cell(x: float, y: float, width: float, height: float, fails: bool) -> list[Shape]:
    fill, stroke, kind = (drawing.PAPER, drawing.INK, "fails") if fails else ("#e4e4e4", None, "satisfies")
    if width < MIN_CELL_WIDTH:  # too narrow for a sign: dark is what fails
        return [Rectangle(x, y, width, height, fill=drawing.INK if fails else fill, stroke=stroke, kind=kind)]
    middle, size = x + width / 2, min(13.0, width * 0.8)
    sign = TextLine(middle, y + height / 2 + size * 0.35, "✗" if fails else "✓", size, "middle", bold=fails)
    return [Rectangle(x, y, width, height, fill=fill, stroke=stroke, kind=kind), sign]


def _draw_legend(needs: NeedsPlot, y: float) -> list[Shape]:
    width = min(22.0, _cell_width(needs) - 3)
    return [
        *_draw_cell(0, y - 13, width, 18, False),
        drawing.draw_caption(28, y, "satisfies the part with this number"),
        *_draw_cell(248, y - 13, width, 18, True),
        drawing.draw_caption(276, y, "does not: without this part the rule would have this exception"),
    ]
