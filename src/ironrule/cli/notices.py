"""The options of notices and reports, which several commands share, and what they say."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ironrule.space.labels import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from ironrule.results.notice import NoticeOptions
    from ironrule.results.report_options import ReportOptions


def add_notice_options(group: argparse._ActionsContainer) -> None:
    """How a notice is written; its language and labels are options of all that is shown."""
    group.add_argument("--catalogue", metavar="FILE", type=Path, help="codes and sentences of reasons (.toml)")
    text = "a template of your own for the notice or the person's report (jinja2)"
    group.add_argument("--template", metavar="FILE", type=Path, help=text)
    text = "values for the letter, such as creditor, reference and contact; for the validator asked_by (.toml)"
    group.add_argument("--fields", metavar="FILE", type=Path, help=text)
    text = "the date that stands in it, such as 2026-03-31 (default: today)"
    group.add_argument("--date", metavar="DATE", type=_parse_day, help=text)
    text = "leave out how reliable the reasons are"
    group.add_argument("--no-worth", dest="worth", action="store_false", help=text)


def build_notice_options(options: argparse.Namespace, reasons: int | None = None) -> NoticeOptions:
    """What a notice is told; files are read now."""
    from ironrule.results.notice import MAX_REASONS, NoticeOptions, read_fields, read_fields_by_row
    from ironrule.results.reasons import ReasonCatalogue

    people = getattr(options, "people", None)
    return NoticeOptions(
        catalogue=None if options.catalogue is None else ReasonCatalogue.from_file(options.catalogue),
        language=options.language or DEFAULT_LANGUAGE,
        template=options.template,
        labels={} if options.labels is None else options.labels,
        most=MAX_REASONS if reasons is None else reasons,
        worth=options.worth,
        date=options.date,
        fields={} if options.fields is None else read_fields(options.fields),
        fields_by_row={} if people is None else read_fields_by_row(people),
    )


def build_report_options(options: argparse.Namespace, explanation_file: Path | None) -> ReportOptions:
    """What a report is told; ``explanation_file`` is what the command in it checks, where there is such a file."""
    from ironrule.cli.saved import build_check_command
    from ironrule.results.notice import read_fields, read_fields_by_row
    from ironrule.results.report_options import ReportOptions

    return ReportOptions(
        language=options.language or DEFAULT_LANGUAGE,
        labels={} if options.labels is None else options.labels,
        template=options.template,
        date=options.date,
        fields={} if options.fields is None else read_fields(options.fields),
        fields_by_row={} if options.people is None else read_fields_by_row(options.people),
        model_file=options.model,
        data_file=options.data,
        check_options=build_check_command(options).options,
        explanation_file=explanation_file,
    )


def get_language_code(language: str | None) -> str:
    """The code of a language that is named, or that is in a file; English where none is."""
    from ironrule.report.notice.language import load_language

    if language is None:
        return DEFAULT_LANGUAGE
    return load_language(language).code if language.lower().endswith(".toml") else language


def _parse_day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


_parse_day.__name__ = "date"  # argparse names it in "invalid date value"
