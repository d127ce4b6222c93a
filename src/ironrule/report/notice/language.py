"""The language of a notice or of a person's report: its sentences, its direction, how it writes numbers and dates.

A language is a TOML file. English and German are in ``languages/``; for another one, users write a file with the same
keys, or one that ``extends`` a language that is there and changes a few. Sentences have places to fill in, such as
``{value}``; every language must have the sentences of what is written in it, each with no other places than the English
one, so that a page cannot turn out with a gap or in two languages.
"""

from __future__ import annotations

import datetime
import math
import string
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ironrule.errors import InputError
from ironrule.space.labels import DEFAULT_LANGUAGE, read_toml
from ironrule.wording import group_digits

SECTIONS = ("numbers", "values", "letter", "reasons", "worth", "report")
Purpose = Literal["notice", "report"]
NEEDED_SECTIONS: Mapping[Purpose, tuple[str, ...]] = {
    "notice": ("numbers", "values", "letter", "reasons", "worth"),
    "report": ("numbers", "values", "report"),
}
DIRECTIONS = ("ltr", "rtl")
FINE_SHARE = 0.99  # from here on shares are given in thousandths
MONTHS = 12
SINGLE_DIGITS = 9  # that a number of single precision needs at the most
MAX_SINGLE = 1e38


@dataclass(frozen=True, slots=True)
class NoticeLanguage:
    """The sentences of a language, by section and key, such as ``worth.measured``."""

    code: str
    direction: str
    sentences: Mapping[str, str]
    months: tuple[str, ...]

    def phrase(self, key: str, **values: str) -> str:
        """A sentence with its places filled in."""
        return self.sentences[key].format(**values)

    def get_section(self, section: str) -> dict[str, str]:
        """The sentences of a section, by key."""
        start = f"{section}."
        return {key.removeprefix(start): text for key, text in self.sentences.items() if key.startswith(start)}

    def format_number(self, number: float, grouped: bool = True) -> str:
        """A number with all its digits, as the language writes it.

        >>> load_language("de").format_number(-1234567.25), load_language("en").format_number(1500)
        ('-1.234.567,25', '1,500')
        """
        if not math.isfinite(number):
            return str(number)
        digits = f"{_find_decimal(number):f}"
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
        return group_digits(digits, self.sentences["numbers.decimal"], self.sentences["numbers.thousands"], grouped)

    def format_percent(self, share: float) -> str:
        """A share in percent."""
        percent = _find_decimal(share) * 100
        return self.phrase("numbers.percent", number=self.format_number(float(percent)))

    def format_date(self, date: datetime.date) -> str:
        """A day; of a moment the time too.

        >>> load_language("de").format_date(datetime.date(2026, 3, 1))
        '1. März 2026'
        """
        month, numbers = self.months[date.month - 1], {"month_number": f"{date.month:02d}", "year": str(date.year)}
        text = self.phrase("numbers.date", day=str(date.day), month=month, **numbers)
        return f"{text} {date:%H:%M}" if isinstance(date, datetime.datetime) else text

    def split_share(self, share: float) -> tuple[str, str]:
        """A share that holds at least, as so many in 100, or in 1,000 where it is large. Never rounded up.

        >>> load_language("en").split_share(0.9799), load_language("en").split_share(0.9978)
        (('97', '100'), ('997', '1,000'))
        """
        of = 1000 if share >= FINE_SHARE else 100
        return self.format_number(math.floor(share * of)), self.format_number(of)


def _find_decimal(number: float) -> Decimal:
    """A number in the fewest digits that stand for it; if these are many, as the single-precision number that it is.

    >>> _find_decimal(1234567.25), _find_decimal(1.7139999866485596), _find_decimal(0.1 + 0.2)
    (Decimal('1234567.25'), Decimal('1.714'), Decimal('0.30000000000000004'))
    """
    exact = Decimal(str(number))
    if isinstance(number, float) and len(exact.as_tuple().digits) > SINGLE_DIGITS and abs(number) < MAX_SINGLE:
        single = np.float32(number)
        return Decimal(str(single)) if float(single) == number else exact
    return exact


def load_language(language: str | Path, purpose: Purpose = "notice") -> NoticeLanguage:
    """A language by its name, or in a TOML file of the user's own, for a notice or a report.

    Raises InputError if there is none, or if sentences are missing or have other places than the English ones.
    """
    if str(language) in list_languages():
        return _load_shipped(str(language))
    if Path(language).suffix.lower() != ".toml":
        listed = ", ".join(list_languages())
        expected = f"the language of a {purpose} must be one of {listed}, or the path of a .toml file"
        raise InputError(expected=expected, got=repr(str(language)))
    document = read_toml(language, "language file")
    return _parse_language(document, str(document.get("code", Path(language).stem)), Path(language).name, purpose)


@cache
def list_languages() -> tuple[str, ...]:
    """The languages that are there."""
    names = (file.name for file in files(__package__).joinpath("languages").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def _load_shipped(name: str) -> NoticeLanguage:
    return _parse_language(_read_shipped(name), name, f"{name}.toml")


def _read_shipped(name: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(files(__package__).joinpath("languages", f"{name}.toml").read_text(encoding="utf-8"))


def _parse_language(
    document: Mapping[str, Any], code: str, file_name: str, purpose: Purpose = "notice"
) -> NoticeLanguage:
    unknown = sorted({*document} - {*SECTIONS, "direction", "extends", "code"})
    if unknown:
        expected = f"{file_name} may have code, direction, extends, {', '.join(SECTIONS)}"
        raise InputError(expected=expected, got=", ".join(unknown))
    document = _extend_document(document, file_name)
    direction, months = document.get("direction"), document.get("numbers", {}).get("months", [])
    if direction not in DIRECTIONS:
        expected = f"direction in {file_name} must be one of {', '.join(DIRECTIONS)}"
        raise InputError(expected=expected, got=repr(direction))
    if not isinstance(months, list) or len(months) != MONTHS or not all(isinstance(one, str) for one in months):
        raise InputError(expected=f"numbers.months in {file_name} must have 12 names", got=repr(months))
    sentences = _flatten(document)
    model = sentences if code == DEFAULT_LANGUAGE else _flatten(_read_shipped(DEFAULT_LANGUAGE))
    missing, other = sorted({*model} - {*sentences}), sorted({*sentences} - {*model})
    missing = [key for key in missing if key.partition(".")[0] in NEEDED_SECTIONS[purpose]]
    if missing or other:
        what = f"{missing[0]} is missing" if missing else f"{other[0]} is not one of them"
        hint = f'add it, or take the others from a language that is there: extends = "{DEFAULT_LANGUAGE}"'
        raise InputError(f"{file_name} must have the sentences of a {purpose}: {what}", hint=hint)
    for key, text in sentences.items():
        _check_places(key, text, model[key], file_name)
    return NoticeLanguage(code, direction, sentences, tuple(months))


def _extend_document(document: Mapping[str, Any], file_name: str) -> dict[str, Any]:
    """The document on top of the language that it extends, if it does."""
    for section in SECTIONS:
        if not isinstance(document.get(section, {}), Mapping):
            raise InputError(expected=f"{section} in {file_name} must be a table", got=repr(document[section]))
    base = document.get("extends")
    if base is None:
        return dict(document)
    if base not in list_languages():
        expected = f"extends in {file_name} must be one of {', '.join(list_languages())}"
        raise InputError(expected=expected, got=repr(base))
    whole = _read_shipped(base)
    sections = {section: {**whole[section], **document.get(section, {})} for section in SECTIONS}
    return {**whole, **document, **sections}


def _flatten(document: Mapping[str, Any]) -> dict[str, str]:
    sections = {section: document.get(section, {}) for section in SECTIONS}
    return {f"{section}.{key}": text for section, entries in sections.items() for key, text in entries.items()
            if key != "months"}  # fmt: skip


DATE_PLACES = {"day", "month", "month_number", "year"}


def _check_places(key: str, text: Any, model: str, file_name: str) -> None:
    """Raise InputError if a sentence is no text, or has places that are not filled in."""
    if not isinstance(text, str):
        raise InputError(expected=f"{key} in {file_name} must be a text", got=repr(text))
    allowed = DATE_PLACES if key == "numbers.date" else {place for place in _list_places(model) if place is not None}
    try:
        places = _list_places(text)
    except ValueError as error:
        raise InputError(f"{key} in {file_name} cannot be filled in: {error}", hint="write {{ for a brace") from None
    wrong = [place for place in places if place is not None and place not in allowed]
    if wrong:
        named = ", ".join(f"{{{place}}}" for place in sorted(allowed)) or "nothing in braces"
        raise InputError(expected=f"{key} in {file_name} may have {named}", got=f"{{{wrong[0]}}}")


def _list_places(text: str) -> list[str | None]:
    """The places of a sentence; a place with a format or a conversion is given with it, so that it is refused."""
    return [
        None if name is None else name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        for _, name, spec, conversion in string.Formatter().parse(text)
    ]
