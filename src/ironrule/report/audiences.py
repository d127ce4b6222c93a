"""Reports as HTML files, by audience: one explanation or ladder or many, for the person or for the validator.

A ladder can also be reported as a notice, which a lender sends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ironrule.errors import InputError
from ironrule.report.batch import build_batch_view
from ironrule.report.ladder import render_ladder_page
from ironrule.report.notice.render import render_notice, render_notices
from ironrule.report.person import build_ladder_letter, build_letter
from ironrule.report.templating import render_template
from ironrule.report.validator import CheckCommand, build_validator_view
from ironrule.results.audience import AUDIENCES, LADDER_AUDIENCES, Audience, LadderAudience
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.results.notice import NoticeOptions
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


class ReportedLadders(NamedTuple):
    """Ladders of several rows, with their numbers, names where these are not enough, and the space, if it is known."""

    ladders: Sequence[Ladder]
    rows: Sequence[int]
    names: Sequence[str] | None = None
    space: Space | None = None


class LadderReport(NamedTuple):
    """What an audience gets of ladders: a page about one, and a page about those of several rows."""

    render_one: Callable[[Ladder, NoticeOptions], str]
    render_many: Callable[[ReportedLadders, NoticeOptions], str]


def _render_ladder_letter(ladder: Ladder, _: NoticeOptions) -> str:
    letter = build_ladder_letter(ladder)
    return render_template("person.html", title=letter["title"], letters=[letter])


def _render_ladder_letters(many: ReportedLadders, _: NoticeOptions) -> str:
    letters = map(build_ladder_letter, many.ladders, _name_rows(many))
    return render_template("person.html", title=format_count(len(many.ladders), "explanation"), letters=letters)


def _render_ladder_account(many: ReportedLadders, _: NoticeOptions) -> str:
    explanations = [ladder.explanation for ladder in many.ladders]
    return render_batch_report(explanations, "validator", _name_rows(many), many.space)


def _name_rows(many: ReportedLadders) -> list[str]:
    return [f"row {row}" for row in many.rows] if many.names is None else [*many.names]


LADDER_REPORTS: dict[LadderAudience, LadderReport] = {
    "person": LadderReport(_render_ladder_letter, _render_ladder_letters),
    "validator": LadderReport(lambda ladder, _: render_ladder_page(ladder), _render_ladder_account),
    "notice": LadderReport(
        render_notice, lambda many, notice: render_notices(many.ladders, many.rows, notice, many.space)
    ),
}


def render_ladder_report(ladder: Ladder, audience: LadderAudience, notice: NoticeOptions | None = None) -> str:
    """One ladder as a whole HTML page."""
    return _get_ladder_report(audience).render_one(ladder, _check_notice(notice))


def render_ladder_batch_report(
    many: ReportedLadders, audience: LadderAudience, notice: NoticeOptions | None = None
) -> str:
    """The ladders of several rows as one HTML page: a letter or a notice for each, or an account of all."""
    if not many.ladders:
        raise InputError(expected="a report needs at least one ladder", got="none")
    return _get_ladder_report(audience).render_many(many, _check_notice(notice))


def _check_notice(notice: NoticeOptions | None) -> NoticeOptions:
    if notice is not None and not isinstance(notice, NoticeOptions):
        raise InputError(expected="notice must be a NoticeOptions", got=type(notice).__name__)
    return notice or NoticeOptions()


def save_text(text: str, path: str | Path | None) -> str:
    """The same text, also in a file where a path is given."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _get_report(audience: Audience) -> AudienceReport:
    if audience not in AUDIENCES:
        expected = f"audience must be one of {', '.join(AUDIENCES)}"
        if str(audience) not in LADDER_AUDIENCES:
            raise InputError(expected=expected, got=repr(audience))
        hint = "build a ladder of the row, which can be reported so"
        raise InputError(expected=expected, got=repr(audience), hint=hint, code="audience-needs-ladder")
    return REPORTS[audience]


def _get_ladder_report(audience: LadderAudience) -> LadderReport:
    if audience not in LADDER_AUDIENCES:
        raise InputError(expected=f"audience must be one of {', '.join(LADDER_AUDIENCES)}", got=repr(audience))
    return LADDER_REPORTS[audience]
