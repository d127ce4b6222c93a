"""What a report needs besides an explanation: the words and the letterhead of a person's, the files of a validator's.

A person's report is a letter that explains a decision; a validator's can be signed, and names the files that the
decision rests on, so that the command it prints checks them. Notices have options of their own
(:mod:`ironrule.results.notice`).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ironrule.errors import InputError
from ironrule.results.notice import is_fields
from ironrule.space.labels import DEFAULT_LANGUAGE, Labels
from ironrule.wording import format_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """How a report is written; raises InputError if something cannot be used.

    ``language`` of a person's report is "en", "de", or the TOML file of another language; a validator's is in English.
    ``labels`` (``Labels``, the same as plain data, or a TOML file) come before those of the explanation. ``template``
    is a jinja2 template of the user's own for the person. ``date`` is that of the report, today unless given.
    ``fields`` are its own values: ``creditor``, ``recipient``, ``reference`` and ``contact`` of a person's,
    ``asked_by`` and ``reference`` of a validator's; ``fields_by_row`` has those of single rows of a batch.

    ``model_file`` and ``data_file`` are the files that an explanation was made with: a validator's report has their
    hashes, and the command that checks it names them. ``check_options`` are further words of that command, such as
    ``("--target", "status", "--trust", "xgboost.core.Booster")``, and ``explanation_file`` is the file that it checks.
    """

    language: str | Path = DEFAULT_LANGUAGE
    labels: str | Path | Mapping[str, Any] | Labels = field(default_factory=dict)
    template: str | Path | None = None
    date: datetime.date | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    fields_by_row: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    model_file: str | Path | None = None
    data_file: str | Path | None = None
    check_options: Sequence[str] = ()
    explanation_file: str | Path | None = None

    def __repr__(self) -> str:
        return format_settings(self)

    def __post_init__(self) -> None:
        checks: dict[str, tuple[bool, str]] = {
            "language": (isinstance(self.language, (str, Path)) and bool(str(self.language)), "a language or a file"),
            "labels": (isinstance(self.labels, (str, Path, Mapping, Labels)), "labels, or a file"),
            "date": (self.date is None or isinstance(self.date, datetime.date), "a date"),
            "fields": (is_fields(self.fields), "a mapping from names to texts"),
            "fields_by_row": (
                isinstance(self.fields_by_row, Mapping) and all(map(is_fields, self.fields_by_row.values())),
                "a mapping from row numbers to mappings from names to texts",
            ),
            "check_options": (
                not isinstance(self.check_options, str)
                and isinstance(self.check_options, Sequence)
                and all(isinstance(word, str) for word in self.check_options),
                "a list of words",
            ),
        }
        for name in ("template", "model_file", "data_file", "explanation_file"):
            path = getattr(self, name)
            checks[name] = (path is None or isinstance(path, (str, Path)), "the path of a file")
        for name, (is_usable, kind) in checks.items():
            if not is_usable:
                raise InputError(expected=f"{name} of a report must be {kind}", got=repr(getattr(self, name)))
        object.__setattr__(self, "labels", Labels.parse(self.labels))

    @property
    def own_labels(self) -> Labels:
        """The labels, read."""
        return self.labels  # type: ignore[return-value]  # __post_init__ has read them

    def get_fields(self, row: int | None = None) -> dict[str, str]:
        """The fields of a report, those of a row of a batch first."""
        return {**self.fields, **({} if row is None else self.fields_by_row.get(row, {}))}

    def get_date(self) -> datetime.date:
        """The day of the report."""
        return self.date or datetime.date.today()
