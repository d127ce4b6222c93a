"""Reports as HTML files, by audience: one explanation or many, for the person or for the validator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ironrule.errors import InputError
from ironrule.report.batch import build_batch_view
from ironrule.report.person import build_letter
from ironrule.report.templating import render_template
from ironrule.report.validator import CheckCommand, build_validator_view
from ironrule.results.audience import AUDIENCES, Audience
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureLabels
from ironrule.space.space import Space
from ironrule.wording import format_count


def render_report(
    explanation: Explanation, audience: Audience = "person", check_command: CheckCommand | None = None
) -> str:
    """One explanation as a whole HTML page; ``check_command`` names the files that the validator needs."""
    if _parse_audience(audience) == "validator":
        return render_template("validator.html", **build_validator_view(explanation, check_command or CheckCommand()))
    letter = build_letter(explanation)
    return render_template("person.html", title=letter["title"], letters=[letter])


def render_batch_report(
    explanations: Sequence[Explanation],
    audience: Audience = "validator",
    names: Sequence[str] | None = None,
    space: Space | None = None,
) -> str:
    """Many explanations as one HTML page: a table of all for the validator, or one letter per person.

    Names are numbers unless given. Labels in the table come from the space, or from the background of the first
    explanation.
    """
    count = len(explanations)
    if not explanations:
        raise InputError(expected="a report needs at least one explanation", got="none")
    names = [str(number) for number in range(1, count + 1)] if names is None else [str(name) for name in names]
    if len(names) != count:
        raise InputError(
            expected=f"names must have {format_count(count, 'name')}, one for each explanation", got=len(names)
        )
    title = format_count(count, "explanation")
    if _parse_audience(audience) == "person":
        return render_template("person.html", title=title, letters=map(build_letter, explanations, names))
    labels = None if space is None else FeatureLabels.from_space(space)
    return render_template("batch.html", title=title, **build_batch_view(explanations, names, labels))


def save_text(text: str, path: str | Path | None) -> str:
    """The same text, also in a file where a path is given."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _parse_audience(audience: str) -> str:
    if audience not in AUDIENCES:
        raise InputError(expected=f"audience must be one of {', '.join(AUDIENCES)}", got=repr(audience))
    return audience
