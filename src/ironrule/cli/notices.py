"""The options of notices, which several commands share, and what they say."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ironrule.space.labels import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from ironrule.results.notice import NoticeOptions


def add_notice_options(group: argparse._ActionsContainer) -> None:
    """How a notice is written; its language and labels are options of all that is shown."""
    group.add_argument("--catalogue", metavar="FILE", type=Path, help="codes and sentences of reasons (.toml)")
    group.add_argument("--template", metavar="FILE", type=Path, help="a template of your own for the notice (jinja2)")
    text = "values for the letter, such as creditor and reference (.toml)"
    group.add_argument("--fields", metavar="FILE", type=Path, help=text)
    text = "the date of the notice, such as 2026-03-31 (default: today)"
    group.add_argument("--date", metavar="DATE", type=_parse_day, help=text)
    text = "leave out what the reasons are worth"
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


def get_language_code(language: str | None) -> str:
    """The code of a language that is named, or that is in a file; English where none is."""
    from ironrule.report.notice.language import load_language

    if language is None:
        return DEFAULT_LANGUAGE
    return load_language(language).code if language.lower().endswith(".toml") else language


def _parse_day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


_parse_day.__name__ = "date"  # argparse names it in "invalid date value"
