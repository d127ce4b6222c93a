"""Marks on a canvas: all that a picture here is made of, whoever draws it. The origin is at the top left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

WIDTH = 720.0  # of every canvas
LETTER, BOLD_LETTER = 0.58, 0.66  # how wide letters are, in parts of their size; nothing here can measure text

INK, GREY, PALE, PAPER = "#1a1a1a", "#5c5c5c", "#bdbdbd", "#ffffff"

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; ``kind`` says what it stands for."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    dashed: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line."""

    x1: float
    y1: float
    x2: float
    y2: float
    stroke: str = INK
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; ``y`` is its base line."""

    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: Anchor = "start"
    bold: bool = False
    fill: str = INK


@dataclass(frozen=True, slots=True)
class Triangle:
    """A small triangle that points down at (x, y)."""

    x: float
    y: float
    size: float = 7.0
    fill: str = INK


Mark = Rect | Line | Text | Triangle


@dataclass(frozen=True, slots=True)
class Drawing:
    """Marks on a canvas of this height, and in one sentence what they show, for those who cannot see them."""

    marks: tuple[Mark, ...]
    height: float
    sentence: str
    width: float = WIDTH

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts."""
        return tuple(mark.text for mark in self.marks if isinstance(mark, Text))


def fitted(text: str, width: float, size: float = 12.0, lines: int = 1, bold: bool = False) -> list[str]:
    """A text in lines of about this width, broken after spaces and signs; what does not fit is cut, and shows it.

    >>> fitted("a rather long text", 90, 12), fitted("months_of_employment", 100, 12, 2)
    (['a rather…'], ['months_of_', 'employment'])
    """
    letters = max(2, int(width / ((BOLD_LETTER if bold else LETTER) * size)))
    found = [""]
    for part in _parts(" ".join(text.split()), letters):
        if found[-1] and len((found[-1] + part).rstrip()) > letters:
            found.append("")
        found[-1] += part
    kept = [line.rstrip() for line in found[:lines]]
    if len(found) > lines:
        kept[-1] = kept[-1][: letters - 1].rstrip() + "…"
    return kept


def _parts(text: str, letters: int) -> list[str]:
    """Pieces that stay together: up to a space or a sign, and no longer than a line."""
    pieces = re.findall(r"[^\s_/-]*[\s_/-]+|[^\s_/-]+", text)
    return [piece[start : start + letters] for piece in pieces for start in range(0, len(piece), letters)]


def column(x: float, y: float, texts: Sequence[str], size: float = 12.0, **style: object) -> list[Mark]:
    """Lines of text below each other."""
    return [Text(x, y + place * size * 1.25, text, size, **style) for place, text in enumerate(texts)]  # type: ignore[arg-type]


def hatched(area: Rect, stroke: str, step: float = 7.0, crossed: bool = False) -> list[Mark]:
    """Slanted lines that fill an area, cut at its edges; crossed ones for what does not hold."""
    found: list[Mark] = []
    x, y, width, height = area.x, area.y, area.width, area.height
    offset = step / 2
    while offset < width + height:
        left, right = max(0.0, offset - height), min(width, offset)
        top, bottom = offset - right, offset - left
        found.append(Line(x + left, y + bottom, x + right, y + top, stroke, 0.8))
        if crossed:
            found.append(Line(x + left, y + height - bottom, x + right, y + height - top, stroke, 0.8))
        offset += step
    return found
