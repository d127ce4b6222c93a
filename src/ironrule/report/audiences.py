"""Reports as HTML files, by audience: one explanation or many, for the person or for the validator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

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


class AudienceReport(NamedTuple):
    """What an audience gets: a page about one explanation, and a page about many under a title, with their names."""

    render_one: Callable[[Explanation, CheckCommand], str]
    render_many: Callable[[str, Sequence[Explanation], Sequence[str], FeatureLabels | None], str]


def _render_letter(explanation: Explanation, _: CheckCommand) -> str:
    letter = build_letter(explanation)
    return render_template("person.html", title=letter["title"], letters=[letter])


def _render_letters(title: str, many: Sequence[Explanation], names: Sequence[str], _: FeatureLabels | None) -> str:
    return render_template("person.html", title=title, letters=map(build_letter, many, names))


def _render_validation(explanation: Explanation, check_command: CheckCommand) -> str:
    return render_template("validator.html", **build_validator_view(explanation, check_command))


def _render_table(title: str, many: Sequence[Explanation], names: Sequence[str], labels: FeatureLabels | None) -> str:
    return render_template("batch.html", title=title, **build_batch_view(many, names, labels))


REPORTS: dict[Audience, AudienceReport] = {
    "person": AudienceReport(_render_letter, _render_letters),
    "validator": AudienceReport(_render_validation, _render_table),
}


def render_report(
    explanation: Explanation, audience: Audience = "person", check_command: CheckCommand | None = None
) -> str:
    """One explanation as a whole HTML page; ``check_command`` names the files that the validator needs."""
    return _get_report(audience).render_one(explanation, check_command or CheckCommand())


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
        expected = f"names must have {format_count(count, 'name')}, one for each explanation"
        raise InputError(expected=expected, got=len(names))
    labels = None if space is None else FeatureLabels.from_space(space)
    return _get_report(audience).render_many(format_count(count, "explanation"), explanations, names, labels)


def save_text(text: str, path: str | Path | None) -> str:
    """The same text, also in a file where a path is given."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _get_report(audience: Audience) -> AudienceReport:
    if audience not in AUDIENCES:
        raise InputError(expected=f"audience must be one of {', '.join(AUDIENCES)}", got=repr(audience))
    return REPORTS[audience]
