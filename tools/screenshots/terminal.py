"""The picture docs/demo.svg: what a terminal shows of the demo.

The command runs in this process, with a stream for standard output that says it is a terminal of 80 columns. Its text
is drawn down to the verdict of the whole rule, in the colours that it asks for.
"""

from __future__ import annotations

import io
import os
import re
import sys
from xml.sax.saxutils import escape

from ironrule.cli import main
from tools.screenshots.browser import DOCS

NAMES = frozenset({"demo"})
PICTURE = DOCS / "demo.svg"
COMMAND = ("demo",)
COLUMNS, CELL, LINE, SIZE, MARGIN = 80, 9.6, 20, 16, 24  # of the text, in cells and pixels
BACKGROUND, PLAIN = "#1d1f21", "#d0d3d4"
COLOURS = {"31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "2": "#8f9396"}
STYLE = re.compile(r"\x1b\[([\d;]*)m")
LAST_LINE = re.compile(r"Verdict: ")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """It does."""
        return True


def run_command() -> list[str]:
    """The lines that the command prints, up to the verdict of the whole rule."""
    os.environ["COLUMNS"] = str(COLUMNS)
    os.environ.pop("NO_COLOR", None)
    sys.stdout, plain = Terminal(), sys.stdout
    try:
        assert main(list(COMMAND)) == 0
        text = sys.stdout.getvalue()
    finally:
        sys.stdout = plain
    lines = text.splitlines()
    last = next(place for place, line in enumerate(lines) if LAST_LINE.match(line))
    return [f"$ ironrule {' '.join(COMMAND)}", *lines[: last + 1], "\x1b[2m...\x1b[0m"]


def draw_line(line: str, y: float) -> str:
    """One line: a piece of text per style, each as wide as its cells."""
    pieces, column, colour, weight = [], 0, PLAIN, "normal"
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        style = STYLE.fullmatch(part)
        if style is not None:
            codes = style[1].split(";")
            colour = next((COLOURS[code] for code in codes if code in COLOURS), PLAIN)
            weight = "bold" if "1" in codes else "normal"
        elif part:
            text = part.strip()
            x, width = MARGIN + (column + len(part) - len(part.lstrip())) * CELL, len(text) * CELL
            where = f'x="{x:.1f}" y="{y:.1f}" textLength="{width:.1f}"'
            if text:  # blanks at its ends need not be drawn
                pieces.append(f'<text {where} fill="{colour}" font-weight="{weight}">{escape(text)}</text>')
            column += len(part)
    return "".join(pieces)


def take_pictures(names: frozenset[str]) -> None:  # noqa: ARG001  # it is one picture
    """Run the command and write the picture."""
    lines = run_command()
    width, height = 2 * MARGIN + COLUMNS * CELL, 2 * MARGIN + len(lines) * LINE
    drawn = [draw_line(line, MARGIN + (place + 0.8) * LINE) for place, line in enumerate(lines)]
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{SIZE}">',
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        *[one for one in drawn if one],
        "</svg>",
    ]
    PICTURE.write_text("\n".join(svg) + "\n", encoding="utf-8")
