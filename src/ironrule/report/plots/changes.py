"""What counterfactuals change and by how much, the region around one of them, and menus of changes.

Changes and regions are drawn feature by feature on a line from the smallest to the largest value of its domain. A
change is an arrow from the row's value to the new one; a region is a bar, filled where it is proven and hatched where
it is not. Values that are neither numbers nor dates are told in words.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ironrule.report.plots import drawing
from ironrule.report.plots.drawing import Drawing, LineSegment, Rectangle, Shape, TextLine, Triangle
from ironrule.results.changes.menu import ChangeMenu, MenuEntry
from ironrule.results.changes.region import CounterfactualRegion, FeatureRange
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.results.scope import DomainSummary
from ironrule.rule.counterfactual import Change, Goal
from ironrule.rule.phrasing import FeatureLabels
from ironrule.space.feature import Value
from ironrule.wording import format_first

NO_CHANGES = "No counterfactual was found."
LINE_X, LINE_WIDTH, TEXT_X = 200.0, 300.0, 520.0  # where the lines begin, how long they are, where the texts stand
HEAD_HEIGHT, ROW_HEIGHT, GAP = 30.0, 36.0, 10.0
MARK_SIZE = 9.0


def find_position(value: Value, ends: Sequence[Value]) -> float | None:
    """Where a number or a date lies on a line from 0 to 1 that goes from the first to the last of the ends; None for
    what has no place there.

    >>> find_position(25.0, [20.0, 30.0]), find_position("b", ["a", "c"]), find_position(None, [1, 2])
    (0.5, None, None)
    """
    if not ends:
        return None
    low, at, high = (_to_number(each) for each in (ends[0], value, ends[-1]))
    if low is None or at is None or high is None:
        return None
    return min(1.0, max(0.0, (at - low) / (high - low))) if high > low else 0.5


def _to_number(value: Value) -> float | None:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC).timestamp() / 86400
    if isinstance(value, datetime.date):
        return float(value.toordinal())
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One change: the feature, its values before and after in words, and where these lie, if they have a place."""

    label: str
    text: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class ChangesPlot:
    """The changes of every counterfactual, and what is known of them all."""

    counterfactuals: tuple[tuple[ChangeLine, ...], ...]
    note: str


def build_changes_plot(found: Counterfactuals, labels: FeatureLabels | None = None) -> ChangesPlot:
    """The changes of all counterfactuals on the domains of their features; without these, on the values shown."""
    labels = labels or FeatureLabels(found.labels)
    lines = tuple(
        tuple(_build_line(change, found, labels) for change in counterfactual.changes) for counterfactual in found
    )
    note = "Proven to be the nearest." if found.proven else "Found by search: nearer ones may exist."
    if found.proven_count and not found.proven:
        note = f"Proven to be the nearest: {format_first(found.proven_count)}."
    return ChangesPlot(lines, note if lines else str(found))


def _build_line(change: Change, found: Counterfactuals, labels: FeatureLabels) -> ChangeLine:
    name = change.feature
    ends = _find_ends(found.domains.get(name), found, name)
    text = f"{labels.format_value(name, change.before)} → {labels.format_value(name, change.after)}"
    places = find_position(change.before, ends), find_position(change.after, ends)
    return ChangeLine(labels.label(name), text, *places)


def _find_ends(domain: DomainSummary | None, found: Counterfactuals, name: str) -> Sequence[Value]:
    """The ends of a domain; where it is not known, of the values shown. None of a list of categories."""
    if domain is not None:
        return () if domain.kind == "list" else (domain.low, domain.high)
    shown = [found.instance[name], *(item.values[name] for item in found)]
    placed = [(number, value) for value in shown if (number := _to_number(value)) is not None]
    return [value for _, value in sorted(placed, key=lambda one: one[0])]


def draw_changes(changes: ChangesPlot) -> Drawing:
    """The counterfactuals one below the other, a line for every change."""
    shapes, top = [drawing.draw_title("What would have changed the outcome")], HEAD_HEIGHT + 4
    for number, lines in enumerate(changes.counterfactuals, 1):
        shapes.append(TextLine(0, top + 22, f"{number}", 14, bold=True))
        for line in lines:
            shapes += _draw_change(line, top)
            top += ROW_HEIGHT
        shapes.append(
            LineSegment(0, top + GAP / 2, drawing.CANVAS_WIDTH, top + GAP / 2, stroke=drawing.PALE, width=0.6)
        )
        top += GAP
    if changes.counterfactuals:
        shapes += _draw_marks_legend(top + 16)
        top += 26
    shapes += drawing.draw_notes(top + 14, (changes.note,))
    told = [f"{number}: {', '.join(f'{line.label} {line.text}' for line in lines)}"
            for number, lines in enumerate(changes.counterfactuals, 1)]  # fmt: skip
    return Drawing(tuple(shapes), top + 24, " ".join(["What would have changed the outcome.", *told, changes.note]))


def _draw_change(line: ChangeLine, top: float) -> list[Shape]:
    """The name, the arrow on its line, and the values in words."""
    middle = top + 18
    texts = drawing.wrap_text(line.label, LINE_X - 40, 12, 2)
    shapes = drawing.stack_lines(22, middle + (4 if len(texts) == 1 else -3), texts, 12)
    text = drawing.wrap_text(line.text, drawing.CANVAS_WIDTH - TEXT_X, 12, 2)
    shapes += drawing.stack_lines(TEXT_X, middle + (4 if len(text) == 1 else -3), text, 12)
    if line.before is None and line.after is None:
        return shapes
    shapes.append(LineSegment(LINE_X, middle, LINE_X + LINE_WIDTH, middle, stroke=drawing.PALE))
    if line.before is not None and line.after is not None:
        ends = (LINE_X + LINE_WIDTH * place for place in (line.before, line.after))
        first, last = ends
        shapes.append(LineSegment(first, middle, last, middle, stroke=drawing.PROVEN_STYLE.colour, width=3.0))
    for place, is_new in ((line.before, False), (line.after, True)):
        if place is not None:
            shapes += _draw_mark(LINE_X + LINE_WIDTH * place, middle, is_new)
    return shapes


def _draw_mark(x: float, y: float, is_new: bool) -> list[Shape]:
    """The row's own value: an empty square. The counterfactual's: a triangle that points at its place."""
    if is_new:
        return [Triangle(x, y - 2, 6.0, drawing.PROVEN_STYLE.colour)]
    half = MARK_SIZE / 2
    return [Rectangle(x - half, y - half, MARK_SIZE, MARK_SIZE, fill=drawing.PAPER, stroke=drawing.INK, kind="before")]


def _draw_marks_legend(y: float) -> list[Shape]:
    return [
        *_draw_mark(LINE_X + 5, y - 4, False),
        drawing.draw_caption(LINE_X + 18, y, "the row"),
        *_draw_mark(LINE_X + 97, y, True),
        drawing.draw_caption(LINE_X + 110, y, "the counterfactual"),
    ]


def draw_region(region: CounterfactualRegion, labels: FeatureLabels | None = None) -> Drawing:
    """A bar for every feature that varies: what it may be, on the line of what it can be at all."""
    labels, style = labels or FeatureLabels(region.rule.labels), drawing.choose_style(region.verdict)
    is_plain = region.goal == Goal()
    reached = "has the desired outcome" if is_plain else "reaches the target"
    meaning = f"every point {reached}" if region.proven else "no other point was found"
    shapes, top = [drawing.draw_title(f"The region around a counterfactual: {meaning}")], HEAD_HEIGHT + 4
    sentences = _split_conditions(region)
    for one in region.ranges:
        shapes += _draw_range(one, labels.label(one.feature), sentences[one.feature], style, top)
        top += ROW_HEIGHT
    shapes += _draw_marks_legend(top + 18)
    notes = ["Proven." if region.proven else f"Not proven: {region.verdict.details}."]
    if not is_plain:
        notes.append(f"The target: {region.goal.describe(labels.labels)}.")
    if region.fixed:
        notes.append("All other features are as in the counterfactual.")
    lines = [line for note in notes for line in drawing.wrap_text(note, drawing.CANVAS_WIDTH, 11, 3)]
    shapes += drawing.draw_notes(top + 40, lines)
    return Drawing(tuple(shapes), top + 36 + 16 * len(lines), str(region))


def _split_conditions(region: CounterfactualRegion) -> Mapping[str, str]:
    """The words for every feature, without its name."""
    pairs = zip(region.ranges, region.conditions, strict=True)
    return {one.feature: said.rpartition(": ")[2] for one, said in pairs}


def _draw_range(one: FeatureRange, label: str, said: str, style: drawing.VerdictStyle, top: float) -> list[Shape]:
    middle = top + 18
    texts = drawing.wrap_text(label, LINE_X - 20, 12, 2)
    shapes = drawing.stack_lines(0, middle + (4 if len(texts) == 1 else -3), texts, 12)
    text = drawing.wrap_text(said, drawing.CANVAS_WIDTH - TEXT_X, 12, 2)
    shapes += drawing.stack_lines(TEXT_X, middle + (4 if len(text) == 1 else -3), text, 12)
    ends = (one.first, one.last)
    low, high = (0.0, 1.0) if one.any_value else (find_position(value, ends) for value in (one.low, one.high))
    if low is None or high is None or any(_to_number(end) is None for end in ends):
        if one.any_value:
            shapes += style.draw_area(LINE_X, middle - 7, LINE_WIDTH, 14, "region")
        return shapes
    width = max(LINE_WIDTH * (high - low), 3.0)
    shapes.append(LineSegment(LINE_X, middle, LINE_X + LINE_WIDTH, middle, stroke=drawing.PALE))
    shapes += style.draw_area(LINE_X + LINE_WIDTH * low, middle - 7, width, 14, "region")
    for value, is_new in ((one.before, False), (one.after, True)):
        place = find_position(value, ends)
        if place is not None and not (value == one.after and not is_new):
            shapes += _draw_mark(LINE_X + LINE_WIDTH * place, middle, is_new)
    return shapes


BAR_HEIGHT, CHANGES_X = 16.0, 430.0
MENU_WIDTH = CHANGES_X - LINE_X - 60


def draw_menu(menu: ChangeMenu) -> Drawing:
    """A bar for every set of features: how far its cheapest change goes; solid where that is proven to be cheapest."""
    shapes, top = [drawing.draw_title("Changes to choose from, cheapest first")], HEAD_HEIGHT + 4
    longest = max((entry.distance or 0.0 for entry in menu), default=0.0) or 1.0
    for entry in menu:
        shapes += _draw_entry(entry, longest, top)
        top += ROW_HEIGHT
    notes = ["Bars: the sum of what changes, each as a share of its range. Hatched: not proven to be the cheapest."]
    if not menu.entries:
        notes = [str(menu)]
    elif not menu.complete:
        notes.append("There may be others.")
    shapes += drawing.draw_notes(top + 14, notes)
    return Drawing(tuple(shapes), top + 10 + 16 * len(notes), f"Changes to choose from. {menu}")


def _draw_entry(entry: MenuEntry, longest: float, top: float) -> list[Shape]:
    middle = top + 18
    texts = drawing.wrap_text(entry.shown_name, LINE_X - 20, 12, 2)
    shapes = drawing.stack_lines(0, middle + (4 if len(texts) == 1 else -3), texts, 12)
    style = drawing.PROVEN_STYLE if entry.proven else drawing.UNREFUTED_STYLE
    said = "there is none" if entry.proven else "none was found"
    if entry.counterfactual is not None and entry.distance is not None:
        width = max(MENU_WIDTH * entry.distance / longest, 2.0)
        shapes += style.draw_bar(LINE_X, middle - BAR_HEIGHT / 2, width, BAR_HEIGHT)
        shapes.append(TextLine(LINE_X + width + 8, middle + 4, f"{entry.distance:.2g}", 12))
        said = str(entry.counterfactual)
    text = drawing.wrap_text(said, drawing.CANVAS_WIDTH - CHANGES_X, 12, 2)
    return [*shapes, *drawing.stack_lines(CHANGES_X, middle + (4 if len(text) == 1 else -3), text, 12)]
