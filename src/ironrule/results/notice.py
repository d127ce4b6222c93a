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
    format = "percent"                     # 0.25 is 25 %; or "grouped" (1,500), "plain" (2024)
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ironrule.errors import InputError
from ironrule.results.reasons import DEFAULT_LANGUAGE, ReasonCatalogue, read_toml

NumberFormat = Literal["grouped", "plain", "percent"]
NUMBER_FORMATS: tuple[NumberFormat, ...] = get_args(NumberFormat)
MAX_REASONS = 4  # of a notice, unless the lender says otherwise
FEATURE_TEXT_KEYS = {"label", "unit", "format", "values"}
LocalText = str | Mapping[str, str]
"""One text for all languages, or one per language."""


@dataclass(frozen=True, slots=True)
class FeatureText:
    """How people know a feature; None where nothing is said. ``values`` has a text per value, as that is written."""

    label: LocalText | None = None
    unit: LocalText | None = None
    number_format: NumberFormat | None = None
    values: Mapping[str, LocalText] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, name: str, entry: Any) -> FeatureText:
        """The text in plain data; raises InputError, naming the feature, if it is none."""
        if not isinstance(entry, Mapping) or not set(entry) <= FEATURE_TEXT_KEYS:
            expected = f"the texts of feature {name!r} may have {', '.join(sorted(FEATURE_TEXT_KEYS))}"
            raise InputError(expected=expected, got=repr(entry))
        values = entry.get("values", {})
        if not isinstance(values, Mapping):
            raise InputError(expected=f"values of feature {name!r} must be a table of texts", got=repr(values))
        texts = [entry[key] for key in ("label", "unit") if key in entry]
        for text in (*texts, *values.values()):
            _check_text(name, text)
        number_format = entry.get("format")
        if number_format not in (None, *NUMBER_FORMATS):
            expected = f"format of feature {name!r} must be one of {', '.join(NUMBER_FORMATS)}"
            raise InputError(expected=expected, got=repr(number_format))
        return cls(entry.get("label"), entry.get("unit"), number_format, values)


def _check_text(name: str, text: Any) -> None:
    each = list(text.values()) if isinstance(text, Mapping) else [text]
    if not each or not all(isinstance(one, str) and one for one in each):
        expected = f"a text of feature {name!r} must be a string, or a table with one string per language"
        raise InputError(expected=expected, got=repr(text))


def choose_text(text: LocalText | None, language: str) -> str | None:
    """The text in a language, or the one for all; None where there is none.

    >>> choose_text({"en": "Income", "de": "Einkommen"}, "de"), choose_text("Income", "de"), choose_text({}, "de")
    ('Einkommen', 'Income', None)
    """
    return text if text is None or isinstance(text, str) else text.get(language)


def read_feature_texts(source: str | Path | Mapping[str, Any]) -> dict[str, FeatureText]:
    """The texts of features, by name, in a TOML file or in plain data."""
    document = source if isinstance(source, Mapping) else read_toml(source, "file of labels")
    return {
        name: entry if isinstance(entry, FeatureText) else FeatureText.from_dict(name, entry)
        for name, entry in document.items()
    }


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
    labels: str | Path | Mapping[str, Any] = field(default_factory=dict)
    most: int = MAX_REASONS
    worth: bool = True
    date: datetime.date | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    fields_by_row: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks: dict[str, tuple[bool, str]] = {
            "catalogue": (self.catalogue is None or isinstance(self.catalogue, ReasonCatalogue), "a ReasonCatalogue"),
            "language": (isinstance(self.language, (str, Path)) and bool(str(self.language)), "a language or a file"),
            "template": (self.template is None or isinstance(self.template, (str, Path)), "the path of a file"),
            "labels": (isinstance(self.labels, (str, Path, Mapping)), "the path of a file, or a mapping"),
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
