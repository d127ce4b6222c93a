"""The report of an explanation as one file: the one place where the server meets the reports."""

from __future__ import annotations

from html import escape
from typing import Any

from ironrule.explain import Explanation
from ironrule.report.html import explanation_html

VOICES = ("person", "validator")


def report_html(document: dict[str, Any], voice: str) -> str:
    """A whole HTML file, for the person who was denied or for the validator."""
    explanation = Explanation.from_dict(document)
    written = getattr(explanation, "to_html", None)
    if written is not None:
        text: str = written(voice=voice)
        return text
    title = escape(f"Explanation, for the {voice}")
    return f'<!doctype html>\n<meta charset="utf-8">\n<title>{title}</title>\n{explanation_html(explanation)}\n'
