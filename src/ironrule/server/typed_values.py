"""Rows that people type into a form: one field per feature, what it starts with, and what was wrong with it.

A form keeps every text as it was typed. What cannot be used is told beside its field, in words for people who know the
data and not the program; programs that send a form get the first such problem as an error.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from ironrule.arrays import Int64Array
from ironrule.errors import InputError
from ironrule.rule.phrasing import format_label, name_value
from ironrule.server.errors import ApiError, format_brief
from ironrule.space.feature import Feature, Value, parse_date
from ironrule.space.labels import NO_LABELS, Labels, write_key
from ironrule.space.space import Space
from ironrule.wording import format_value

FieldKind = Literal["choice", "number", "date", "text"]
PLAIN_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)
MAX_CHOICES = 60  # in a list; of more values one is typed


@dataclass(frozen=True, slots=True)
class TypedRow:
    """A form as it was sent: the values that could be read, all texts as typed, and by feature what is wrong."""

    values: Mapping[str, Value]
    texts: Mapping[str, str]
    errors: Mapping[str, str]

    def require_valid(self, space: Space) -> None:
        """Raise an ApiError for the first value that cannot be used."""
        for name, problem in self.errors.items():
            got = format_brief(self.texts.get(name, ""))
            raise ApiError(422, "value-outside-domain", expected=f"{format_label(space[name])!r}: {problem}", got=got)


def get_field_kind(feature: Feature) -> FieldKind:
    """Which kind of input a feature has."""
    if feature.numeric and feature.values and not feature.one_hot and feature.naturally_ordered:
        return "number"
    if feature.temporal and all(type(value) is datetime.date for value in feature.values) and feature.values:
        return "date"
    return "choice" if feature.size <= MAX_CHOICES else "text"


def build_field(feature: Feature, counts: Int64Array, labels: Labels = NO_LABELS) -> dict[str, Any]:
    """The input of one feature; ``counts`` says how often every code occurs among the past rows."""
    kind = "choice" if _has_named_values(feature, labels) else get_field_kind(feature)
    values = [feature.value(code) for code in range(feature.size)]
    choices = [
        {"value": format_value(one, "unquoted"), "text": name_value(feature.name, one, labels, "unquoted")}
        for one in values
    ]
    return {
        "feature": feature.name,
        "label": format_label(feature),
        "unit": feature.unit,
        "kind": kind,
        "choices": choices if kind in ("choice", "text") else None,
        "step": "1" if feature.has_only_integers else "any",
        "may_be_missing": feature.missing,
        "default": format_value(find_usual_value(feature, counts), "unquoted"),
        "hint": None if kind == "choice" else _describe_range(feature, kind, labels),
    }


def _has_named_values(feature: Feature, labels: Labels) -> bool:
    """Whether every value of a feature is called something of its own, such as 4 that is called "7 years or more"."""
    own = labels.features.get(feature.name)
    if own is None or not feature.values or feature.size > MAX_CHOICES:
        return False
    return all(write_key(value) in own.values for value in feature.values)


def find_usual_value(feature: Feature, counts: Int64Array) -> Value:
    """What a form starts with: the middle of the past rows in the order of the values, or else the value of most."""
    present = counts[: len(feature.values)]
    if feature.ordered and present.sum() > 0:
        return feature.values[int(np.searchsorted(np.cumsum(present), present.sum() / 2))]
    return feature.value(int(np.argmax(counts)))


def _describe_range(feature: Feature, kind: FieldKind, labels: Labels) -> str | None:
    if kind not in ("number", "date"):
        return None
    low, high = (name_value(feature.name, feature.values[place], labels, "unquoted") for place in (0, -1))
    empty = "; empty if it is not known" if feature.missing else ""
    return f"past applicants: {low} to {high}{empty}"


def parse_typed_row(space: Space, fields: Mapping[str, str], is_whole: bool) -> TypedRow:
    """The values of the fields ``f0``, ``f1``, ..., one per feature; all must be there if the row is to be whole."""
    values: dict[str, Value] = {}
    texts: dict[str, str] = {}
    errors: dict[str, str] = {}
    for place, feature in enumerate(space.features):
        text = fields.get(f"f{place}")
        if text is None and not is_whole:
            continue
        texts[feature.name] = text or ""
        try:
            values[feature.name] = parse_typed_value(space, feature, text or "")
        except ApiError as error:
            errors[feature.name] = error.expected or error.message
    return TypedRow(values, texts, errors)


def parse_typed_value(space: Space, feature: Feature, text: str) -> Value:
    """A value that was typed, or chosen from a list, in the feature's own type; raises an ApiError if it is none."""
    text = text.strip()
    known = {format_value(feature.value(code), "unquoted"): feature.value(code) for code in range(feature.size)}
    if text in known:
        return known[text]
    if not text:
        if feature.missing:
            return None
        raise _build_value_error(text, "a value is needed")
    kind = get_field_kind(feature)
    value: Value = text
    if kind == "number":
        value = _parse_number(feature, text, space.labels)
    elif kind == "date" or feature.temporal:
        try:
            value = parse_date(feature, text)
        except ValueError:
            raise _build_value_error(text, "enter a date such as 2024-12-31") from None
    elif kind == "choice":
        raise _build_value_error(text, "choose one of the values")
    try:
        space.extend_domains({feature.name: value})
    except InputError as error:
        raise _build_value_error(text, error.expected or error.statement) from None
    return value


def read_number(feature: Feature, text: str, labels: Labels) -> float:
    """A number as a person writes it: with its unit, a sign between thousands, or in percent; raises ValueError if it
    is none, or could be two.

    >>> read_number(Feature("a", (1, 2), ordered=True), "1,500 EUR", Labels.from_dict({"a": {"unit": "EUR"}}))
    1500.0
    """
    unit, signs, own = labels.get_unit(feature.name), labels.get_signs(), labels.features.get(feature.name)
    text = text.strip()
    if unit and text.lower().endswith(unit.lower()):
        text = text[: -len(unit)].strip()
    text = text.removeprefix(unit or "").strip()
    if signs.thousands == "." and re.fullmatch(r"-?[1-9]\d{0,2}(\.\d{3})+", text):
        raise ValueError("either a decimal or a sign between thousands")
    share = 100 if own is not None and own.number_format == "percent" and text.endswith("%") else 1
    text = text.removesuffix("%").strip() if share == 100 else text
    between = r"\s" if signs.thousands.isspace() else re.escape(signs.thousands)
    if re.fullmatch(rf"[+-]?[1-9]\d{{0,2}}({between}\d{{3}})+({re.escape(signs.decimal)}\d+)?", text, re.ASCII) or (
        signs.decimal != "." and re.fullmatch(rf"[+-]?\d+{re.escape(signs.decimal)}\d+", text, re.ASCII)
    ):
        text = re.sub(between, "", text).replace(signs.decimal, ".")
    if PLAIN_NUMBER.fullmatch(text) is None:
        raise ValueError("no number")
    return float(Decimal(text) / share)


def _parse_number(feature: Feature, text: str, labels: Labels) -> int | float:
    wanted = "enter a whole number" if feature.has_only_integers else "enter a number"
    try:
        number = read_number(feature, text, labels)
    except ValueError:
        raise _build_value_error(text, wanted) from None
    if not math.isfinite(number) or (feature.has_only_integers and (number % 1 or abs(number) >= 2**63)):
        raise _build_value_error(text, wanted)
    return int(number) if number.is_integer() else number


def _build_value_error(text: str, problem: str) -> ApiError:
    return ApiError(422, "value-outside-domain", expected=problem, got=format_brief(text))
