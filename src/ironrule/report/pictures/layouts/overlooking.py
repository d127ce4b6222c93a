"""A batch at a glance: verdicts as one bar, lengths and features as bars, each split by verdict."""

from __future__ import annotations

from ironrule.counting import counted
from ironrule.report.pictures.marks import GREY, INK, WIDTH, Drawing, Line, Mark, Text, fitted
from ironrule.report.pictures.overview import Overview, Split

NAMES = 230.0
ROOM = WIDTH - NAMES - 60.0
ROW, BAR = 24.0, 16.0


def overview_drawing(overview: Overview) -> Drawing:
    """The batch laid out."""
    marks: list[Mark] = [Text(0, 16, f"What is known of {counted(overview.count, 'rule')}", 15, bold=True)]
    marks += [*_bar(overview.verdicts, 0, 32, WIDTH, overview.count, 24), *_verdicts(overview, 78)]
    top = 78.0 + 18 * len(overview.verdicts) + 26
    most = max(_total(split) for _, split in overview.lengths)
    lengths = [(counted(length, "part"), split) for length, split in overview.lengths]
    block, top = _block("How long the rules are", lengths, most, top)
    marks += block
    if overview.features:
        block, top = _block("Which features they name", list(overview.features), overview.count, top + 22)
        marks += block
    if overview.left_out:
        marks.append(Text(0, top + 8, f"and, less often, {overview.left_out} more", 11, fill=GREY))
        top += 16
    return Drawing(tuple(marks), top + 8, _sentence(overview))


def _sentence(overview: Overview) -> str:
    told = "; ".join(f"{look.meaning}: {number:,}" for look, number in overview.verdicts)
    return f"{counted(overview.count, 'explanation')}. {told}."


def _total(split: Split) -> int:
    return sum(number for _, number in split)


def _bar(split: Split, x: float, top: float, room: float, most: int, tall: float = BAR) -> list[Mark]:
    marks: list[Mark] = []
    for look, number in split:
        width = room * number / most
        marks += look.bar(x, top, width, tall)
        x += width
    return marks


def _verdicts(overview: Overview, top: float) -> list[Mark]:
    marks: list[Mark] = []
    for place, (look, number) in enumerate(overview.verdicts):
        y = top + 18 * place
        share = f"{100 * number / overview.count:.0f} %" if number < overview.count else "all"
        text = f"{look.meaning} ({number:,}, {share})"
        if look.tint is not None and overview.shortest:
            text += f"; {overview.shortest:,} of them with a proof that no shorter rule holds"
        marks += [*look.bar(0, y - 11, 22, 14), Text(30, y, text, 12)]
    return marks


def _block(title: str, rows: list[tuple[str, Split]], most: int, top: float) -> tuple[list[Mark], float]:
    marks: list[Mark] = [Text(0, top, title, 13, bold=True)]
    first = top = top + 12
    for name, split in rows:
        total = _total(split)
        marks.append(Text(NAMES - 8, top + 12.5, fitted(name, NAMES - 8, 12)[0], 12, "end"))
        marks += _bar(split, NAMES, top, ROOM, most)
        marks.append(Text(NAMES + ROOM * total / most + 6, top + 12.5, f"{total:,}", 12, fill=GREY))
        top += ROW
    return [*marks, Line(NAMES, first - 3, NAMES, top - 4, INK, 1)], top
