"""Reports as HTML files, by audience: one explanation or ladder or many, for the person or for the validator.

A ladder can also be reported as a notice, which a lender sends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import NamedTuple

from ironrule.errors import InputError
from ironrule.report.batch import build_batch_view
from ironrule.report.check_command import CheckCommand
from ironrule.report.ladder import render_ladder_page
from ironrule.report.notice.render import render_notice, render_notices
from ironrule.report.person import LetterHead, LetterWriter
from ironrule.report.templating import render_template
from ironrule.report.validator import build_validator_view
from ironrule.results.audience import AUDIENCES, LADDER_AUDIENCES, Audience, LadderAudience
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.results.notice import NoticeOptions
from ironrule.results.report_options import ReportOptions
from ironrule.rule.phrasing import FeatureLabels
from ironrule.space.space import Space
from ironrule.wording import format_count


class ReportedExplanations(NamedTuple):
    """Explanations with their names, their row numbers where they have any, and labels, where these are known."""

    explanations: Sequence[Explanation]
    names: Sequence[str]
    rows: Sequence[int] | None = None
    labels: FeatureLabels | None = None

    @property
    def title(self) -> str:
        """How many there are."""
        return format_count(len(self.explanations), "explanation")

    @property
    def heads(self) -> list[LetterHead]:
        """What stands above their letters."""
        rows = [None] * len(self.names) if self.rows is None else self.rows
        return [LetterHead(name, row) for name, row in zip(self.names, rows, strict=True)]


class AudienceReport(NamedTuple):
    """What an audience gets: a page about one explanation, and a page about many."""

    render_one: Callable[[Explanation, ReportOptions], str]
    render_many: Callable[[ReportedExplanations, ReportOptions], str]


def _render_letter(explanation: Explanation, options: ReportOptions) -> str:
    writer = LetterWriter(options)
    return writer.render([writer.build(explanation)])


def _render_letters(many: ReportedExplanations, options: ReportOptions) -> str:
    writer = LetterWriter(options)
    letters = [writer.build(one, head) for one, head in zip(many.explanations, many.heads, strict=True)]
    return writer.render(letters, many.title)


def _render_validation(explanation: Explanation, options: ReportOptions) -> str:
    return render_template("validator.html", **build_validator_view(explanation, options))


def _render_table(many: ReportedExplanations, options: ReportOptions) -> str:
    view = build_batch_view(many.explanations, many.names, options, many.labels)
    return render_template("batch.html", title=many.title, **view)


REPORTS: dict[Audience, AudienceReport] = {
    "person": AudienceReport(_render_letter, _render_letters),
    "validator": AudienceReport(_render_validation, _render_table),
}


def render_report(
    explanation: Explanation,
    audience: Audience = "person",
    report: CheckCommand | ReportOptions | None = None,
    path: str | Path | None = None,
) -> str:
    """One explanation as a whole HTML page; ``report`` says how, or names the files that the validator needs.

    The explanation is attached to the page, so where it will be at ``path``, the check reads it from there.
    """
    return _get_report(audience).render_one(explanation, _add_path(_parse_options(report), path))


def _add_path(options: ReportOptions, path: str | Path | None) -> ReportOptions:
    """The options, with the report itself as the file that is checked, unless there is another one."""
    return replace(options, explanation_file=path) if path is not None and options.explanation_file is None else options


def render_batch_report(
    explanations: Sequence[Explanation],
    audience: Audience = "validator",
    names: Sequence[str] | None = None,
    space: Space | None = None,
    *,
    report: ReportOptions | None = None,
    rows: Sequence[int] | None = None,
) -> str:
    """Many explanations as one HTML page: a table of all for the validator, or one letter per person.

    Names are numbers unless given; ``rows`` are the numbers of rows, for the fields of single letters. Labels in the
    table come from the space, or from the background of the first explanation.
    """
    count = len(explanations)
    if not explanations:
        raise InputError(expected="a report needs at least one explanation", got="none")
    names = [str(number) for number in range(1, count + 1)] if names is None else [str(name) for name in names]
    if len(names) != count:
        expected = f"names must have {format_count(count, 'name')}, one for each explanation"
        raise InputError(expected=expected, got=len(names))
    labels = None if space is None else FeatureLabels.from_space(space)
    many = ReportedExplanations(explanations, names, rows, labels)
    return _get_report(audience).render_many(many, _parse_options(report))


def _parse_options(report: CheckCommand | ReportOptions | None) -> ReportOptions:
    if isinstance(report, CheckCommand):
        return report.to_options()
    if report is not None and not isinstance(report, ReportOptions):
        raise InputError(expected="report must be a ReportOptions", got=type(report).__name__)
    return report or ReportOptions()


class ReportedLadders(NamedTuple):
    """Ladders of several rows, with their numbers, names where these are not enough, and the space, if it is known."""

    ladders: Sequence[Ladder]
    rows: Sequence[int]
    names: Sequence[str] | None = None
    space: Space | None = None


class LadderReportOptions(NamedTuple):
    """How a report of ladders is written: a notice, and any other."""

    notice: NoticeOptions
    report: ReportOptions


class LadderReport(NamedTuple):
    """What an audience gets of ladders: a page about one, and a page about those of several rows."""

    render_one: Callable[[Ladder, LadderReportOptions], str]
    render_many: Callable[[ReportedLadders, LadderReportOptions], str]


def _render_ladder_letter(ladder: Ladder, options: LadderReportOptions) -> str:
    writer = LetterWriter(options.report)
    return writer.render([writer.build_for_ladder(ladder)])


def _render_ladder_letters(many: ReportedLadders, options: LadderReportOptions) -> str:
    writer = LetterWriter(options.report)
    heads = map(LetterHead, _name_rows(many), many.rows)
    letters = [writer.build_for_ladder(ladder, head) for ladder, head in zip(many.ladders, heads, strict=True)]
    return writer.render(letters, format_count(len(many.ladders), "explanation"))


def _render_ladder_account(many: ReportedLadders, options: LadderReportOptions) -> str:
    explanations = [ladder.explanation for ladder in many.ladders]
    return render_batch_report(explanations, "validator", _name_rows(many), many.space, report=options.report)


def _name_rows(many: ReportedLadders) -> list[str]:
    return [f"row {row}" for row in many.rows] if many.names is None else [*many.names]


LADDER_REPORTS: dict[LadderAudience, LadderReport] = {
    "person": LadderReport(_render_ladder_letter, _render_ladder_letters),
    "validator": LadderReport(
        lambda ladder, options: render_ladder_page(ladder, options.report), _render_ladder_account
    ),
    "notice": LadderReport(
        lambda ladder, options: render_notice(ladder, options.notice),
        lambda many, options: render_notices(many.ladders, many.rows, options.notice, many.space),
    ),
}


def render_ladder_report(
    ladder: Ladder,
    audience: LadderAudience,
    notice: NoticeOptions | None = None,
    report: ReportOptions | None = None,
    path: str | Path | None = None,
) -> str:
    """One ladder as a whole HTML page, which will be at ``path``."""
    options = LadderReportOptions(_check_notice(notice), _add_path(_parse_options(report), path))
    return _get_ladder_report(audience).render_one(ladder, options)


def render_ladder_batch_report(
    many: ReportedLadders,
    audience: LadderAudience,
    notice: NoticeOptions | None = None,
    report: ReportOptions | None = None,
) -> str:
    """The ladders of several rows as one HTML page: a letter or a notice for each, or an account of all."""
    if not many.ladders:
        raise InputError(expected="a report needs at least one ladder", got="none")
    options = LadderReportOptions(_check_notice(notice), _parse_options(report))
    return _get_ladder_report(audience).render_many(many, options)


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
            raise InputError(expected=expected, got=repr(audience), hint=_hint_at_path(audience))
        hint = "build a ladder of the row, which can be reported so"
        raise InputError(expected=expected, got=repr(audience), hint=hint, code="audience-needs-ladder")
    return REPORTS[audience]


def _get_ladder_report(audience: LadderAudience) -> LadderReport:
    if audience not in LADDER_AUDIENCES:
        expected = f"audience must be one of {', '.join(LADDER_AUDIENCES)}"
        raise InputError(expected=expected, got=repr(audience), hint=_hint_at_path(audience))
    return LADDER_REPORTS[audience]


def _hint_at_path(audience: object) -> str | None:
    """Where a file is named in the place of an audience: that it comes second."""
    is_path = isinstance(audience, PurePath) or str(audience).endswith((".html", ".pdf"))
    return "the file comes second, as in to_html('person', 'why.html')" if is_path else None
