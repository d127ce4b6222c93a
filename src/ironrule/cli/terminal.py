"""Plain text for a terminal: styled lines, panels and tables, folded to its width.

Colours appear only where standard output is a terminal and ``NO_COLOR`` is not set. A control character in the user's
data is shown as its escape: no name or value can move the cursor or change a colour.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TextIO

from ironrule.wording import escape_controls

UNICODE_FRAME, ASCII_FRAME = tuple("╭╮╰╯─│"), tuple("++++-|")  # four corners, the horizontal line, the vertical line
ANSI_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_STYLE_CODE = re.compile(r"(\x1b\[(?:0|[12]|3[1-3]|1;3[1-3])m)")  # those that _apply_style writes
BREAK_SIGNS = "-_/,;:."  # behind these, a word that is too long may be cut
MAX_WHOLE_WORD = 24
PIPE_WIDTH = 80  # where there is no terminal and COLUMNS is not set
SPINNER_DELAY, SPINNER_INTERVAL = 1.0, 0.5  # seconds
_output: ContextVar[TextIO | None] = ContextVar("output", default=None)  # None: standard output


@contextlib.contextmanager
def render_for(stream: TextIO) -> Iterator[None]:
    """Texts are made for this stream: its encoding, and colours if it is a terminal. A command makes its texts while
    standard output leads elsewhere, so that nothing that a model prints is mixed up with the result.
    """
    token = _output.set(stream)
    try:
        yield
    finally:
        _output.reset(token)


def format_line(text: str, style: str = "") -> str:
    """The text in lines of the terminal's width; ``style`` is words such as "bold red"."""
    return "\n".join(_apply_style(line, style) for line in _fold(text, _get_width()))


def escape_output(text: str) -> str:
    """All that is printed, once more: of control characters only line breaks and our own styles may stay, and these
    only in a terminal that shows them.
    """
    parts = _STYLE_CODE.split(text) if _shows_styles() else [text]
    return "".join(part if _STYLE_CODE.fullmatch(part) else escape_controls(part, keep="\n") for part in parts)


def format_panel(text: str, title: str, colour: str) -> str:
    """The text in a frame with a title."""
    top_left, top_right, bottom_left, bottom_right, dash, bar = _get_frame()
    inner = _get_width() - 2
    heading = f" {_escape(title)} "[: max(inner - 1, 0)]
    top_rest = dash * (inner - 1 - _measure(heading)) + top_right
    side = _apply_style(bar, colour)
    lines = [f"{side}  {_pad(line, inner - 2)}{side}" for line in ("", *_fold(text, inner - 4), "")]
    top = (
        _apply_style(top_left + dash, colour) + _apply_style(heading, f"bold {colour}") + _apply_style(top_rest, colour)
    )
    return "\n".join([top, *lines, _apply_style(bottom_left + dash * inner + bottom_right, colour)])


def format_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Sequence[Sequence[str]] = (),
    section_ends: Sequence[int] = (),
) -> str:
    """A table under its titles. Cells too wide are folded; ``styles`` has a style per cell, and an empty line follows
    each row whose number is in ``section_ends``.
    """
    widths = _choose_widths([titles, *rows])
    lines = _format_row(titles, widths, ["bold"] * len(titles))
    lines.append(" " + _get_frame()[4] * (sum(widths) + 3 * len(widths) - 1))
    for number, row in enumerate(rows):
        lines += _format_row(row, widths, styles[number] if styles else [""] * len(row))
        lines += [""] if number in section_ends and number < len(rows) - 1 else []
    return "\n".join(["", *lines, ""])


@contextlib.contextmanager
def show_spinner(message: str = "Searching (Ctrl-C: the best so far)") -> Iterator[None]:
    """The message with the seconds so far on standard error, once a search has run for a second in a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    finished = threading.Event()
    spinner = threading.Thread(target=_spin, args=(message, finished), daemon=True)
    spinner.start()
    try:
        yield
    finally:
        finished.set()
        spinner.join()


def _spin(message: str, finished: threading.Event) -> None:
    seconds = SPINNER_DELAY
    if finished.wait(SPINNER_DELAY):
        return
    while True:
        sys.stderr.write(f"\r{message} ... {seconds:.0f} s")
        sys.stderr.flush()
        if finished.wait(SPINNER_INTERVAL):
            sys.stderr.write("\r\x1b[2K")  # clears the line
            sys.stderr.flush()
            return
        seconds += SPINNER_INTERVAL


def _get_width() -> int:
    return max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, 20)


def _get_frame() -> tuple[str, ...]:
    return UNICODE_FRAME if "utf" in (_get_output().encoding or "").lower() else ASCII_FRAME


def _apply_style(text: str, style: str) -> str:
    if not text or not style or not _shows_styles():
        return text
    return f"\x1b[{';'.join(ANSI_CODES[word] for word in style.split())}m{text}\x1b[0m"


def _shows_styles() -> bool:
    return "NO_COLOR" not in os.environ and _get_output().isatty()


def _get_output() -> TextIO:
    return _output.get() or sys.stdout


def _escape(text: str) -> str:
    """The text as one line; what cannot be seen, such as a blank of no width, is shown as its escape too."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _measure(text: str) -> int:
    """How many cells of the terminal the text takes: wide letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text
    )


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _measure(text))


def _fold(text: str, width: int) -> list[str]:
    """The text in lines that are at most so wide; a word that is wider is broken."""
    text = _escape(text)
    if _measure(text) <= width:
        return [text]
    # counted in letters: with wide ones, half as many always fit
    return _wrap(text, max(width // 2, 1) if _measure(text) > len(text) else width)


def _wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most so many letters. A word stays whole where it fits into a line of its own."""
    lines = [""]
    for gap, word in re.findall(r"(\s*)(\S+)", text):
        if lines[-1] and len(lines[-1]) + len(gap) + len(word) <= width:
            lines[-1] += gap + word
        else:
            lines += _break_word(word, width)
    return lines[1:] or [""]


def _break_word(word: str, width: int) -> list[str]:
    """A word in pieces of at most so many letters, cut behind a hyphen or the like where one is near."""
    pieces = []
    while len(word) > width:
        near = max(word.rfind(sign, width // 3, width) for sign in BREAK_SIGNS) + 1
        pieces.append(word[: near or width])
        word = word[near or width :]
    return [*pieces, word]


def _choose_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column: what its widest cell needs, less where the terminal is too narrow for that.

    A column keeps its longest word whole as long as others can become narrower.
    """
    columns = [[_escape(cell) for cell in column] for column in zip(*rows, strict=True)]
    widths = [max(map(_measure, column)) for column in columns]
    whole = [min(max(map(_measure, " ".join(column).split()), default=0), MAX_WHOLE_WORD) for column in columns]
    available = _get_width() - 3 * len(widths) - 1
    while sum(widths) > available and max(widths) > 4:
        spare = [place for place, width in enumerate(widths) if width > whole[place]] or range(len(widths))
        widths[max(spare, key=widths.__getitem__)] -= 1  # take from the widest column, one cell at a time
    return widths


def _format_row(cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> list[str]:
    columns = [_fold(cell, width) for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, columns))
    lines = []
    for place in range(height):
        parts = []
        for column, width, style in zip(columns, widths, styles, strict=True):
            line = column[place] if place < len(column) else ""
            parts.append(_apply_style(line, style) + " " * (width - _measure(line)))
        lines.append(("  " + "   ".join(parts)).rstrip())
    return lines
