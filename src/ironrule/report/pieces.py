"""Pieces of HTML that reports and notebooks share. Everything from the user's data is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ironrule.report.pictures.looks import Look
from ironrule.report.pictures.marks import Drawing
from ironrule.report.pictures.svg import svg
from ironrule.report.words import Words
from ironrule.rule import Counterfactual

PAGE = 6  # rungs of a ladder that fit a page


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{_class(style)}>{escape(text)}</p>"


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""


def badge(look: Look) -> str:
    """What is known of a rule, in a box that only proven rules have full."""
    return f'<span class="badge {look.word}">{escape(look.meaning)}</span>'


def section(title: str, *parts: str) -> str:
    """A part of a page under a heading; nothing if there is nothing in it."""
    inside = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{inside}</section>\n" if inside else ""


def listed(items: Iterable[str], style: str = "", ordered: bool = False) -> str:
    """A list of pieces of HTML."""
    tag = "ol" if ordered else "ul"
    inside = "".join(f"<li>{item}</li>" for item in items)
    return f"<{tag}{_class(style)}>{inside}</{tag}>" if inside else ""


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values, both plain text."""
    inside = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f'<table class="facts"><tbody>{inside}</tbody></table>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a heading, which can be scrolled sideways like a picture; its cells are plain text."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    inside = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    whole = f"<table><thead><tr>{top}</tr></thead><tbody>{inside}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="group" aria-label="table">{whole}</div>'


def picture(drawing: Drawing) -> str:
    """A drawing that can be scrolled sideways where the screen is narrow; with the keyboard too."""
    return f'<div class="picture" tabindex="0" role="group" aria-label="picture">{svg(drawing)}</div>'


def changes(counterfactual: Counterfactual, words: Words) -> str:
    """What a counterfactual changes, in one sentence without an end."""
    return "; ".join(
        f"{words.label(change.feature)}: {words.value(change.feature, change.after)} instead of "
        f"{words.value(change.feature, change.before)}"
        for change in counterfactual.changes
    )
