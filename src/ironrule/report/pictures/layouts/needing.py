"""Why not shorter: every line is somebody who satisfies all parts of the rule but one, and gets the other outcome."""

from __future__ import annotations

from ironrule.report.pictures.marks import (
    GREY,
    INK,
    PALE,
    WIDTH,
    Drawing,
    Line,
    Mark,
    Rect,
    Text,
    column,
    fitted,
    hatched,
)
from ironrule.report.pictures.needs import UNKNOWN, Case, Needs

PART, VALUE, CELLS, OUTCOME = 0.0, 236.0, 424.0, 636.0  # where the columns begin
HEAD, ROW, OTHERS = 58.0, 44.0, 14.0
NARROW = 15.0  # a column below this has no room for a number or a sign


def needs_drawing(needs: Needs) -> Drawing:
    """The table laid out."""
    marks: list[Mark] = [Text(0, 16, "Why every part of the rule is needed", 15, bold=True)]
    if not needs.cases:
        texts = needs.notes if needs.components else ("The rule has no parts that could go.",)
        return Drawing((*marks, *column(0, 40, texts, 11, fill=GREY)), 52 + 14 * len(texts), " ".join(texts))
    marks += [*_head(needs), *_own(needs, HEAD + 4)]
    top = HEAD + 4 + ROW
    for case in needs.cases:
        marks += _case(case, needs, top)
        top += ROW + (OTHERS if case.others else 0)
    marks += [*_legend(needs, top + 20), *column(0, top + 40, needs.notes, 11, fill=GREY)]
    return Drawing(tuple(marks), top + 30 + 16 * len(needs.notes), _sentence(needs))


def _sentence(needs: Needs) -> str:
    known = sum(case.values is not None for case in needs.cases)
    return (
        f"For {known} of the {len(needs.components)} parts of the rule: somebody who satisfies all the others, but not "
        f"this one, and gets the other outcome."
    )


def _head(needs: Needs) -> list[Mark]:
    wide = _wide(needs)
    step = 1 if wide >= NARROW else 5  # numbers that would run into each other are left out
    shown = [place for place in _places(needs) if place == 0 or (place + 1) % step == 0]
    numbers = [Text(CELLS + (place + 0.5) * wide, 50, f"{place + 1}", 11, "middle", True) for place in shown]
    titles = ((PART, "without this part"), (VALUE, "somebody with"), (OUTCOME, "gets"))
    return [*(Text(x, 50, text, 11, bold=True) for x, text in titles), *numbers, Line(0, HEAD, WIDTH, HEAD, INK, 1)]


def _places(needs: Needs) -> range:
    return range(len(needs.components))


def _wide(needs: Needs) -> float:
    return min(44.0, (OUTCOME - CELLS - 8) / len(needs.components))


def _own(needs: Needs, top: float) -> list[Mark]:
    return [
        Text(PART, top + 26, "this row", 12),
        *_cells(needs, None, top),
        *column(OUTCOME, top + 26, fitted(needs.outcome, WIDTH - OUTCOME, 12), 12),
    ]


def _case(case: Case, needs: Needs, top: float) -> list[Mark]:
    label, condition = needs.components[case.place]
    lines = fitted(f"{case.place + 1}  {label} {condition}", VALUE - 10, 12, 2)
    marks: list[Mark] = [Line(0, top, WIDTH, top, PALE, 0.6), *_centred(PART, top, lines)]
    if case.values is None:
        area = Rect(VALUE, top + 5, WIDTH - VALUE, ROW - 10, "#ffffff", GREY, True, kind="unknown")
        told = Rect(VALUE + 8, top + 12, 8 + 6.4 * len(UNKNOWN), 20, "#ffffff")
        return [*marks, area, *hatched(area, PALE), told, Text(VALUE + 12, top + 26, UNKNOWN, 11)]
    marks += _centred(VALUE, top, fitted(case.values[case.place], CELLS - VALUE - 12, 12, 2, True), bold=True)
    marks += [*_cells(needs, case.place, top)]
    marks += column(OUTCOME, top + 26, fitted(needs.desired, WIDTH - OUTCOME, 12, 1, True), 12, bold=True)
    if case.others:
        line = fitted(f"and {'; '.join(case.others)}", WIDTH - VALUE, 11)[0]
        marks.append(Text(VALUE, top + ROW + 6, line, 11, fill=GREY))
    return marks


def _centred(x: float, top: float, lines: list[str], bold: bool = False) -> list[Mark]:
    return column(x, top + (26 if len(lines) == 1 else 19), lines, 12, bold=bold)


def _cells(needs: Needs, fails: int | None, top: float) -> list[Mark]:
    wide, marks = _wide(needs), list[Mark]()
    for place in _places(needs):
        failing = place == fails
        marks += _cell(CELLS + place * wide, top + 6, wide - 3, ROW - 12, failing)
    return marks


def _cell(x: float, y: float, width: float, height: float, fails: bool) -> list[Mark]:
    fill, stroke, kind = ("#ffffff", INK, "fails") if fails else ("#e4e4e4", None, "satisfies")
    if width < NARROW:  # too narrow for a sign: dark is what fails
        return [Rect(x, y, width, height, INK if fails else fill, stroke, kind=kind)]
    middle, size = x + width / 2, min(13.0, width * 0.8)
    sign = Text(middle, y + height / 2 + size * 0.35, "✗" if fails else "✓", size, "middle", fails, INK)
    return [Rect(x, y, width, height, fill, stroke, kind=kind), sign]


def _legend(needs: Needs, y: float) -> list[Mark]:
    wide = min(22.0, _wide(needs) - 3)
    return [
        *_cell(0, y - 13, wide, 18, False),
        Text(28, y, "satisfies the part with this number", 11, fill=GREY),
        *_cell(248, y - 13, wide, 18, True),
        Text(276, y, "does not: without it the rule would have this exception", 11, fill=GREY),
    ]
