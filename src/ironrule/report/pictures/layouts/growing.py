"""Coverage as bars that shrink: the undesired rows that the rule keeps, and the desired ones that it must lose."""

from __future__ import annotations

from ironrule.report.pictures.growth import Grown, Growth
from ironrule.report.pictures.looks import PROVEN
from ironrule.report.pictures.marks import (
    GREY,
    INK,
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

NAMES, NUMBERS = 250.0, 150.0
ROW, BAR = 34.0, 20.0


def growth_drawing(growth: Growth) -> Drawing:
    """The bars laid out."""
    marks: list[Mark] = [Text(0, 16, "Past rows covered as the rule grows", 15, bold=True)]
    top = 34.0
    for step in growth.steps:
        marks += _step(step, growth.rows, top)
        top += ROW
    if growth.wider is not None:
        marks += _wider(growth.wider, growth.rows, top)
        top += ROW
    marks += [Line(NAMES, 32, NAMES, top - 4, INK, 1)]
    if growth.steps[0].desired is not None:
        marks += _legend(top + 16)
        top += 26
    marks += column(0, top + 14, growth.notes, 11, fill=GREY)
    return Drawing(tuple(marks), top + 8 + 16 * len(growth.notes), _sentence(growth))


def _sentence(growth: Growth) -> str:
    told = "; ".join(f"{step.label}: {step.covered:,}" for step in growth.steps)
    return f"Past rows covered as the rule grows. {told}."


def _step(step: Grown, rows: int, top: float) -> list[Mark]:
    room = WIDTH - NAMES - NUMBERS
    kept = step.covered - (step.desired or 0)
    width, lost = room * kept / max(rows, 1), room * (step.desired or 0) / max(rows, 1)
    marks: list[Mark] = _name(step.label, top)
    marks += [Rect(NAMES, top, max(width, 1.5), BAR, "#333333", kind="undesired")] if kept else []
    if lost:
        area = Rect(NAMES + width, top, max(lost, 1.5), BAR, "#ffffff", "#333333", kind="desired")
        marks += [area, *hatched(area, GREY, 5)]
    told = f"{step.covered:,}" + ("" if step.desired is None else f" ({step.desired:,} desired)")
    return [*marks, Text(NAMES + width + lost + 8, top + 14, told, 12)]


def _name(label: str, top: float) -> list[Mark]:
    lines = fitted(label, NAMES - 8, 12, 2)
    return column(0, top + (14 if len(lines) == 1 else 7), lines, 12)


def _wider(covered: int, rows: int, top: float) -> list[Mark]:
    width = max((WIDTH - NAMES - NUMBERS) * covered / max(rows, 1), 1.5)
    area = Rect(NAMES, top, width, BAR, PROVEN.tint, PROVEN.colour, True, kind="wider")
    return [
        Text(0, top + 14, "with its bounds as far as proven", 12),
        area,
        Text(NAMES + width + 8, top + 14, f"{covered:,}", 12),
    ]


def _legend(y: float) -> list[Mark]:
    area = Rect(140, y - 11, 22, 14, "#ffffff", "#333333", kind="legend")
    return [
        Rect(0, y - 11, 22, 14, "#333333", kind="legend"),
        Text(28, y, "undesired", 11, fill=GREY),
        area,
        *hatched(area, GREY, 5),
        Text(168, y, "desired: exceptions that the next parts must exclude", 11, fill=GREY),
    ]
