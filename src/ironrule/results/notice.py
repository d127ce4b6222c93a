"""What a notice needs besides a ladder: the lender's words, names for features and values, and the letter's own fields.

A notice is one page that a lender sends to the applicant (:mod:`ironrule.report.notice` writes it). Feature texts say
how people know a feature: its label, its unit, how its numbers are written, and what its codes mean. They come from a
TOML file, where a text is a string, or has one string per language:

    [checking]
    label = { en = "Checking account", de = "Girokonto" }

    [checking.values]
    A11 = { en = "overdrawn", de = "überzogen" }

    [utilisation]
    label = "Share of the credit line in use"
    format = "percent"                     # 0.25 is 25%; or "grouped" (1,500), "plain" (2024)
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ironrule.errors import InputError
from ironrule.results.reasons import ReasonCatalogue
from ironrule.space.labels import DEFAULT_LANGUAGE, FeatureText, Labels, read_toml
from ironrule.wording import format_settings

MAX_REASONS = 4  # of a notice, unless the lender says otherwise


def read_feature_texts(source: str | Path | Mapping[str, Any] | Labels) -> Mapping[str, FeatureText]:
    """The texts of features, by name, in a labels file, in plain data, or in labels."""
    return Labels.parse(source).features


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeOptions:
    """How a notice is written; raises InputError if something cannot be used.

    ``catalogue`` has the codes and sentences of reasons; without one they are plain sentences. ``language`` is "en",
    "de", or the TOML file of another language. ``template`` is a jinja2 template of the lender's own. ``labels`` gives
    texts of features (a TOML file, or the same as plain data); what it does not name is called as the space has it.
    ``most`` is the number of reasons, ``worth`` says whether what they are worth stands below the line. ``date`` is
    that of the letter, today unless given. ``fields`` are the letter's own values, such as ``reference``, ``creditor``
    or ``recipient``, which the template shows; ``fields_by_row`` has those of single rows of a batch.
    """

    catalogue: ReasonCatalogue | None = None
    language: str | Path = DEFAULT_LANGUAGE
    template: str | Path | None = None
    labels: str | Path | Mapping[str, Any] | Labels = field(default_factory=dict)
    most: int = MAX_REASONS
    worth: bool = True
    date: datetime.date | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    fields_by_row: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return format_settings(self)

    def __post_init__(self) -> None:
        checks: dict[str, tuple[bool, str]] = {
            "catalogue": (self.catalogue is None or isinstance(self.catalogue, ReasonCatalogue), "a ReasonCatalogue"),
            "language": (isinstance(self.language, (str, Path)) and bool(str(self.language)), "a language or a file"),
            "template": (self.template is None or isinstance(self.template, (str, Path)), "the path of a file"),
            "labels": (isinstance(self.labels, (str, Path, Mapping, Labels)), "the path of a file, or a mapping"),
            "worth": (isinstance(self.worth, bool), "True or False"),
            "most": (type(self.most) is int and self.most > 0, "a positive integer"),
            "date": (self.date is None or isinstance(self.date, datetime.date), "a date"),
            "fields": (is_fields(self.fields), "a mapping from names to texts"),
            "fields_by_row": (
                isinstance(self.fields_by_row, Mapping) and all(map(is_fields, self.fields_by_row.values())),
                "a mapping from row numbers to mappings from names to texts",
            ),
        }
        for name, (is_usable, kind) in checks.items():
            if not is_usable:
                raise InputError(expected=f"{name} of a notice must be {kind}", got=repr(getattr(self, name)))
        object.__setattr__(self, "labels", read_feature_texts(self.labels))

    @property
    def feature_texts(self) -> Mapping[str, FeatureText]:
        """The texts of features, read."""
        return self.labels  # type: ignore[return-value]  # __post_init__ has read them

    def get_fields(self, row: int | None = None) -> dict[str, str]:
        """The fields of a letter, those of a row of a batch first."""
        return {**self.fields, **({} if row is None else self.fields_by_row.get(row, {}))}


def is_fields(value: Any) -> bool:
    """Whether these are texts by name."""
    return isinstance(value, Mapping) and all(isinstance(part, str) for item in value.items() for part in item)


def read_fields(path: Path) -> dict[str, str]:
    """The fields of all letters, in a TOML file."""
    document = read_toml(path, "file of fields")
    if not is_fields(document):
        expected = f'{path.name} must have lines such as creditor = "Example Bank"'
        raise InputError(expected=expected, got=repr(document))
    return document


def read_fields_by_row(path: Path) -> dict[int, dict[str, str]]:
    """The fields of single letters, in a CSV file whose column ``row`` has the numbers of rows."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = list(csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read the fields of rows in {path.name}: {error}") from None
    fields: dict[int, dict[str, str]] = {}
    for line in lines:
        number = line.pop("row", None)
        is_whole = None not in line and None not in line.values() and number is not None and number.isdecimal()
        if not is_whole or number is None:
            expected = f"every line of {path.name} must have a row number in the column 'row', and a value per column"
            raise InputError(expected=expected, got=repr(line if number is None else number))
        fields[int(number)] = line
    return fields
