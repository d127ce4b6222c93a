"""A drawing: shapes on a canvas, the style of every verdict, and the drawing as SVG.

All plots are made of rectangles, lines, texts and triangles; the origin is at the top left. A verdict has a colour, and
a pattern and words, so that it can be recognised without colour. The SVG is part of an HTML page: no script, no font,
no other files, everything escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ironrule.report.templating import render_template
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict
from ironrule.wording import escape_controls

CANVAS_WIDTH = 720.0  # of every canvas
LETTER_WIDTH, BOLD_LETTER_WIDTH = 0.58, 0.66  # in parts of their size: an estimate, since text cannot be measured
INK, DARK, GREY, PALE, PAPER = "#1a1a1a", "#333333", "#5c5c5c", "#bdbdbd", "#ffffff"
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", escape_controls(self.text))


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
    """Shapes on a canvas of this height, and a sentence that describes them, for screen readers."""

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
    words = re.findall(
        r"[^\s_/-]*[\s_/-]+|[^\s_/-]+", " ".join(escape_controls(text).split())
    )  # each with the sign that ends it
    pieces = [word[start : start + letters] for word in words for start in range(0, len(word), letters)]
    wrapped = [""]
    for piece in pieces:  # on the current line if it fits, its trailing space aside; else on a new one
        if wrapped[-1] and len((wrapped[-1] + piece).rstrip()) > letters:
            wrapped.append("")
        wrapped[-1] += piece
    kept = [line.rstrip() for line in wrapped[:lines]]
    if len(wrapped) > lines:
        kept[-1] = kept[-1][: letters - 1].rstrip() + "…"
    return kept


def stack_lines(
    x: float,
    y: float,
    texts: Sequence[str],
    size: float = 12.0,
    anchor: TextAnchor = "start",
    bold: bool = False,
    fill: str = INK,
) -> list[Shape]:
    """Lines of text below each other."""
    ys = (y + number * size * 1.25 for number in range(len(texts)))
    return [TextLine(x, at, text, size, anchor, bold=bold, fill=fill) for at, text in zip(ys, texts, strict=True)]


def draw_title(text: str) -> Shape:
    """The title of a drawing."""
    return TextLine(0, 16, text, 15, bold=True)


def draw_caption(x: float, y: float, text: str) -> Shape:
    """A small grey text, as legends have it."""
    return TextLine(x, y, text, 11, fill=GREY)


def draw_notes(y: float, notes: Sequence[str]) -> list[Shape]:
    """Small grey lines below a plot."""
    return stack_lines(0, y, notes, 11, fill=GREY)


def draw_hatched(area: Rectangle, stroke: str, step: float = 7.0, crossed: bool = False) -> list[Shape]:
    """An area filled with slanted lines, cut at its edges; crossed ones for what does not hold."""
    shapes: list[Shape] = [area]
    x, y, width, height, base = area.x, area.y, area.width, area.height, area.y + area.height
    # each line rises from the left or lower edge to the upper or right edge: where x + y is the offset, seen from the
    # upper left corner; its mirror image falls
    offset = step / 2
    while offset < width + height:
        left, right = max(0.0, offset - height), min(width, offset)
        top, bottom = offset - right, offset - left
        shapes.append(LineSegment(x + left, y + bottom, x + right, y + top, stroke=stroke, width=0.8))
        if crossed:
            shapes.append(LineSegment(x + left, base - bottom, x + right, base - top, stroke=stroke, width=0.8))
        offset += step
    return shapes


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
        area = Rectangle(x, y, width, height, fill=self.tint, stroke=self.colour, dashed=self.tint is None, kind=kind)
        return [area] if self.tint else draw_hatched(area, self.colour, crossed=self.crossed)

    def draw_bar(self, x: float, y: float, width: float, height: float) -> list[Shape]:
        """Like :meth:`draw_area`, but in full colour where the rule is proven."""
        if self.tint is None:
            return self.draw_area(x, y, width, height, self.word)
        return [Rectangle(x, y, width, height, fill=self.colour, stroke=self.colour, kind=self.word)]

    def draw_badge(self, x: float, y: float) -> list[Shape]:
        """The meaning in a box, which is filled only where the rule is proven."""
        proven = self.tint is not None
        fill, ink = (self.colour, PAPER) if proven else (PAPER, self.colour)
        width = len(self.meaning) * 12 * BOLD_LETTER_WIDTH * 0.93 + 18
        return [
            Rectangle(x, y, width, 20, fill=fill, stroke=self.colour, dashed=not proven, kind="badge"),
            TextLine(x + width / 2, y + 14.5, self.meaning, size=12, anchor="middle", bold=True, fill=ink),
        ]


PROVEN_STYLE = VerdictStyle("proven", "proven: there is no exception", "#0b5394", "#cfe2f3")
UNREFUTED_STYLE = VerdictStyle(
    "unrefuted", "not proven: no exception was found", "#8a5a00", None, claim="as far as we searched, "
)
REFUTED_STYLE = VerdictStyle(
    "refuted", "does not hold: there is an exception", "#a1260d", None, crossed=True, claim="the rule says: "
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


def render_svg(drawing: Drawing, css_class: str | None = None) -> str:
    """The drawing as a piece of HTML that is as wide as there is room for, with its sentence for screen readers. Its
    style is in the tag, or where a page has a style sheet for it, in that, under a class.
    """
    return render_template("drawing.svg", drawing=drawing, css_class=css_class)
