"""The report of an explanation as one file: the one place where the server meets the reports."""

from __future__ import annotations

from typing import Any

from ironrule.errors import InputError
from ironrule.explain import Explainer, Explanation
from ironrule.report.recheck import Recheck
from ironrule.report.reports import VOICES, Voice, explanation_report

__all__ = ["VOICES", "Voice", "report_html"]


def report_html(document: dict[str, Any], voice: Voice, explainer: Explainer, file: str) -> str:
    """A whole HTML file, for the person who was denied or for the validator; ``file`` is what to check is called."""
    explanation = _with_history(Explanation.from_dict(document), explainer)
    return explanation_report(explanation, voice, Recheck(file))


def _with_history(explanation: Explanation, explainer: Explainer) -> Explanation:
    """With the past rows that are served; one made with another model or data is reported without, and says so."""
    try:
        return explanation.with_history(explainer)
    except InputError:
        return explanation
