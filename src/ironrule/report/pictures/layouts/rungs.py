"""The ladder: words on the left, the feature's line on the right, and below what the marks mean."""

from __future__ import annotations

from dataclasses import dataclass

from ironrule.report.pictures.ladder import Ladder, Rung
from ironrule.report.pictures.looks import PROVEN, Look
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
    Triangle,
    column,
    fitted,
    hatched,
)

LEFT, LINE, ROOM = 225.0, 245.0, WIDTH - 245.0 - 12.0  # the words' width; where the line begins, and its length
TALL = 50.0  # of the highest bar
HEAD, RUNG = 64.0, 112.0


def ladder_drawing(ladder: Ladder) -> Drawing:
    """The ladder laid out."""
    who = f"{ladder.look.claim}everyone{' with all of this' if ladder.rungs else ''} gets"
    who = f"(continued) {who}" if ladder.begun else who[:1].upper() + who[1:]
    title = fitted(f"{who}: {ladder.outcome}", WIDTH, 15, bold=True)[0]
    marks: list[Mark] = [Text(0, 16, title, 15, bold=True), *ladder.look.badge(0, 28)]
    top = HEAD
    for place, rung in enumerate(ladder.rungs):
        marks += _rung(rung, ladder, top, place)
        top += RUNG
    marks += _legend(ladder, top + 14) if ladder.rungs else []
    top += 30 if ladder.rungs else 0
    marks += column(0, top + 10, ladder.notes, 11, fill=GREY)
    return Drawing(tuple(marks), top + 16 * len(ladder.notes) + 4, _sentence(ladder, who))


def _sentence(ladder: Ladder, who: str) -> str:
    told = "; ".join(f"{rung.label} {rung.condition}" for rung in ladder.rungs)
    return f"{who} {ladder.outcome} ({ladder.look.meaning})" + (f": {told}." if told else ".")


def _rung(rung: Rung, ladder: Ladder, top: float, place: int) -> list[Mark]:
    marks: list[Mark] = [Line(0, top, WIDTH, top, PALE, 0.8)]
    if place or ladder.begun:
        marks += [Rect(8, top - 8, 34, 16, "#ffffff", None), Text(25, top + 4, "and", 12, "middle", fill=GREY)]
    return [*marks, *_words(rung, _terms(ladder), top + 24), *_line(rung, ladder.look, top + 24)]


@dataclass(frozen=True, slots=True)
class Terms:
    """How the picture speaks of the row, of past rows, and of what the rule admits."""

    row: str = "this row"
    bars: str = "past rows inside and outside"
    admitted: str = "what the rule admits"


FRIENDLY = Terms("you", "past cases that fit and others", "what fits")


def _terms(ladder: Ladder) -> Terms:
    return FRIENDLY if ladder.friendly else Terms()


def _words(rung: Rung, terms: Terms, top: float) -> list[Mark]:
    marks: list[Mark] = []
    y = top
    texts = [(rung.label, 13.0, True, INK, 2), (rung.condition, 13.0, False, INK, 2)]
    texts += [] if rung.condition == f"= {rung.mine}" else [(f"{terms.row}: {rung.mine}", 11.0, False, GREY, 1)]
    texts += [] if rung.wider is None else [(f"proven as far as {rung.wider}", 11.0, False, GREY, 1)]
    for text, size, bold, fill, most in texts:
        lines = fitted(text, LEFT, size, most, bold)
        marks += column(0, y, lines, size, bold=bold, fill=fill)
        y += len(lines) * size * 1.25 + 1
    return marks


def _line(rung: Rung, look: Look, top: float) -> list[Mark]:
    base = top + TALL
    marks = [*_wider(rung, top), *_admitted(rung, look, top)]
    most = max((bar.admitted + bar.others for bar in rung.bars), default=1) or 1
    for bar in rung.bars:
        x, width = LINE + bar.left * ROOM, (bar.right - bar.left) * ROOM
        inset = min(6.0, width * 0.12)
        inside, others = TALL * bar.admitted / most, TALL * bar.others / most
        marks += [Rect(x + inset, base - inside, width - 2 * inset, inside, "#333333", kind="inside")] if inside else []
        outside = Rect(x + inset, base - inside - others, width - 2 * inset, others, PALE, "#8c8c8c", kind="outside")
        marks += [outside] if others else []
    marks.append(Line(LINE, base, LINE + ROOM, base, INK, 1))
    marks += [Line(_x(rung.mark), top - 6, _x(rung.mark), base, INK, 1.4), Triangle(_x(rung.mark), top - 4)]
    return [*marks, *_ticks(rung, base)]


def _x(at: float) -> float:
    return LINE + at * ROOM


def _admitted(rung: Rung, look: Look, top: float) -> list[Mark]:
    left, right = rung.span
    x, width = (_x(left), (right - left) * ROOM) if right - left > 0.006 else (_x(left) - 2, 4.0)
    return look.area(x, top - 4, width, TALL + 4, "admitted")


def _wider(rung: Rung, top: float) -> list[Mark]:
    """The part that the rule admits with its bounds as far out as is proven; only proven rules have one."""
    if rung.wider_span is None:
        return []
    left, right = rung.wider_span
    area = Rect(_x(left), top - 4, (right - left) * ROOM, TALL + 4, "#ffffff", PROVEN.colour, True, kind="wider")
    return [area, *hatched(area, "#6fa0cf", 6)]


def _ticks(rung: Rung, base: float) -> list[Mark]:
    marks: list[Mark] = []
    slot = ROOM / max(1, len(rung.ticks))
    for tick in rung.ticks:
        x = _x(tick.at)
        anchor = "start" if tick.at < 0.02 else "end" if tick.at > 0.985 else "middle"
        marks.append(Line(x, base, x, base + 4, INK, 1))
        marks += column(x, base + 15, fitted(tick.text, slot - 4, 10.5, 2), 10.5, anchor=anchor, fill=GREY)
    return marks


def _legend(ladder: Ladder, y: float) -> list[Mark]:
    marks: list[Mark] = []
    x = 0.0
    if any(rung.bars for rung in ladder.rungs):
        marks += [Rect(x, y - 10, 9, 12, "#333333"), Rect(x + 11, y - 10, 9, 12, PALE, "#8c8c8c")]
        marks.append(Text(x + 26, y, _terms(ladder).bars, 11, fill=GREY))
        x += 210
    marks += ladder.look.area(x, y - 11, 26, 14, "legend")
    marks.append(Text(x + 32, y, _terms(ladder).admitted, 11, fill=GREY))
    x += 165
    if any(rung.wider_span for rung in ladder.rungs):
        area = Rect(x, y - 11, 26, 14, "#ffffff", PROVEN.colour, True, kind="legend")
        marks += [area, *hatched(area, "#6fa0cf", 6), Text(x + 32, y, "proven as far as this", 11, fill=GREY)]
        x += 180
    return [*marks, Triangle(x + 6, y), Text(x + 16, y, _terms(ladder).row, 11, fill=GREY)]
