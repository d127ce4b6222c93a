"""Reports as HTML files, by audience: one explanation or many, for the person or for the validator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ironrule.errors import InputError
from ironrule.report.batch import choose_names, render_person_letters, render_validator_table
from ironrule.report.html import render_page
from ironrule.report.person import format_person_title, render_person_body
from ironrule.report.validator import CheckCommand, format_validator_title, render_validator_body
from ironrule.results.audience import AUDIENCES, Audience
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureLabels
from ironrule.space.space import Space
from ironrule.wording import format_count


def render_report(
    explanation: Explanation, audience: Audience = "person", check_command: CheckCommand | None = None
) -> str:
    """One explanation as a whole HTML page; ``check_command`` names the files that the validator needs."""
    if _parse_audience(audience) == "person":
        return render_page(format_person_title(explanation), render_person_body(explanation))
    return render_page(
        format_validator_title(explanation), render_validator_body(explanation, check_command or CheckCommand())
    )


def render_batch_report(
    explanations: Sequence[Explanation],
    audience: Audience = "validator",
    names: Sequence[str] | None = None,
    space: Space | None = None,
) -> str:
    """Many explanations as one HTML page: an account of all for the validator, or one letter per person.

    Labels in the account come from the space, or from what stands behind the first explanation.
    """
    if not explanations:
        raise InputError(expected="a report needs at least one explanation", got="none")
    called = choose_names(explanations, names)
    title = format_count(len(explanations), "explanation")
    if _parse_audience(audience) == "person":
        return render_page(title, render_person_letters(explanations, called))
    return render_page(
        title, render_validator_table(explanations, called, None if space is None else FeatureLabels.from_space(space))
    )


def save_text(text: str, path: str | Path | None) -> str:
    """The same text, also in a file where a path is given."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _parse_audience(audience: str) -> str:
    if audience not in AUDIENCES:
        raise InputError(expected=f"audience must be one of {', '.join(AUDIENCES)}", got=repr(audience))
    return audience
