"""A drawing: shapes on a canvas, the style of every verdict, and the drawing as SVG.

All plots are made of rectangles, lines, texts and triangles; the origin is at the top left. A verdict has a colour, and
a pattern and words that tell it without colour. The SVG stands inside HTML: no script, no font, nothing from elsewhere,
everything escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ironrule.report.templating import render_template
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict

CANVAS_WIDTH = 720.0  # of every canvas
LETTER_WIDTH, BOLD_LETTER_WIDTH = 0.58, 0.66  # in parts of their size; nothing here can measure text
INK, GREY, PALE, PAPER = "#1a1a1a", "#5c5c5c", "#bdbdbd", "#ffffff"
TextAnchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle; ``kind`` says what it stands for."""

    tag: ClassVar[str] = "rect"  # its SVG element
    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    dashed: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class LineSegment:
    """A line."""

    tag: ClassVar[str] = "line"  # its SVG element
    x1: float
    y1: float
    x2: float
    y2: float
    stroke: str = INK
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text; ``y`` is its base line."""

    tag: ClassVar[str] = "text"  # its SVG element
    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: TextAnchor = "start"
    bold: bool = False
    fill: str = INK


@dataclass(frozen=True, slots=True)
class Triangle:
    """A small triangle that points down at (x, y)."""

    tag: ClassVar[str] = "polygon"  # its SVG element
    x: float
    y: float
    size: float = 7.0
    fill: str = INK

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        """Its two upper corners, and the point."""
        top = self.y - 1.4 * self.size
        return (self.x - self.size, top), (self.x + self.size, top), (self.x, self.y)


Shape = Rectangle | LineSegment | TextLine | Triangle


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes on a canvas of this height, and in one sentence what they show, for those who cannot see them."""

    shapes: tuple[Shape, ...]
    height: float
    description: str
    width: float = CANVAS_WIDTH

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts."""
        return tuple(shape.text for shape in self.shapes if isinstance(shape, TextLine))


def wrap_text(text: str, width: float, size: float = 12.0, lines: int = 1, bold: bool = False) -> list[str]:
    """A text in lines of about this width, broken after spaces and signs; what does not fit is cut, and shows it.

    >>> wrap_text("a rather long text", 90, 12), wrap_text("months_of_employment", 100, 12, 2)
    (['a rather…'], ['months_of_', 'employment'])
    """
    letters = max(2, int(width / ((BOLD_LETTER_WIDTH if bold else LETTER_WIDTH) * size)))
    found = [""]
    for part in _split_words(" ".join(text.split()), letters):
        if found[-1] and len((found[-1] + part).rstrip()) > letters:
            found.append("")
        found[-1] += part
    kept = [line.rstrip() for line in found[:lines]]
    if len(found) > lines:
        kept[-1] = kept[-1][: letters - 1].rstrip() + "…"
    return kept


def _split_words(text: str, letters: int) -> list[str]:
    """Pieces that stay together: up to a space or a sign, and no longer than a line."""
    pieces = re.findall(r"[^\s_/-]*[\s_/-]+|[^\s_/-]+", text)
    return [piece[start : start + letters] for piece in pieces for start in range(0, len(piece), letters)]


def stack_lines(x: float, y: float, texts: Sequence[str], size: float = 12.0, **style: object) -> list[Shape]:
    """Lines of text below each other."""
    return [TextLine(x, y + place * size * 1.25, text, size, **style) for place, text in enumerate(texts)]  # type: ignore[arg-type]


def hatch(area: Rectangle, stroke: str, step: float = 7.0, crossed: bool = False) -> list[Shape]:
    """Slanted lines that fill an area, cut at its edges; crossed ones for what does not hold."""
    found: list[Shape] = []
    x, y, width, height = area.x, area.y, area.width, area.height
    offset = step / 2
    while offset < width + height:
        left, right = max(0.0, offset - height), min(width, offset)
        top, bottom = offset - right, offset - left
        found.append(LineSegment(x + left, y + bottom, x + right, y + top, stroke, 0.8))
        if crossed:
            found.append(LineSegment(x + left, y + height - bottom, x + right, y + height - top, stroke, 0.8))
        offset += step
    return found


@dataclass(frozen=True, slots=True)
class VerdictStyle:
    """A verdict's word, its meaning in a few words, its colours, and whether areas are filled, hatched or crossed."""

    word: str
    meaning: str
    colour: str
    tint: str | None  # None: areas are hatched, never filled
    crossed: bool = False
    claim: str = ""  # what must stand before the rule

    def draw_area(self, x: float, y: float, width: float, height: float, kind: str) -> list[Shape]:
        """An area in this style."""
        rect = Rectangle(x, y, width, height, self.tint, self.colour, dashed=self.tint is None, kind=kind)
        return [rect, *([] if self.tint else hatch(rect, self.colour, crossed=self.crossed))]

    def draw_bar(self, x: float, y: float, width: float, height: float) -> list[Shape]:
        """An area as :meth:`draw_area` has it, but that what is proven is full."""
        if self.tint is None:
            return self.draw_area(x, y, width, height, self.word)
        return [Rectangle(x, y, width, height, self.colour, self.colour, kind=self.word)]

    def draw_badge(self, x: float, y: float) -> list[Shape]:
        """The word in a box: only what is proven has a full one."""
        width, full = len(self.meaning) * 12 * BOLD_LETTER_WIDTH * 0.93 + 18, self.tint is not None
        box = Rectangle(x, y, width, 20, self.colour if full else PAPER, self.colour, dashed=not full, kind="badge")
        return [
            box,
            TextLine(x + width / 2, y + 14.5, self.meaning, 12, "middle", True, PAPER if full else self.colour),
        ]


PROVEN_STYLE = VerdictStyle("proven", "proven: there is no exception", "#0b5394", "#cfe2f3")

UNREFUTED_STYLE = VerdictStyle(
    "unrefuted", "not proven: no exception was found", "#8a5a00", None, claim="as far as was searched, "
)

REFUTED_STYLE = VerdictStyle(
    "refuted", "does not hold: there is an exception", "#a1260d", None, True, "the rule says: "
)

VERDICT_STYLES = (PROVEN_STYLE, UNREFUTED_STYLE, REFUTED_STYLE)


def choose_style(verdict: Verdict) -> VerdictStyle:
    """How this verdict looks."""
    match verdict:
        case Proven():
            return PROVEN_STYLE
        case Unrefuted():
            return UNREFUTED_STYLE
        case Refuted():
            return REFUTED_STYLE


def render_svg(drawing: Drawing) -> str:
    """The drawing as a piece of HTML that is as wide as there is room for, with its sentence for screen readers."""
    return render_template("drawing.svg", drawing=drawing)
