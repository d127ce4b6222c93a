"""Conditions that people write, such as ``20 < age <= 37``: which feature, which operator, which value.

``split_condition`` is the one place that cuts such a text: rules to be judged, the search box of the web pages and
ranges on the command line use it. Names of features may hold spaces and operators, so the names decide where a text is
cut, the longest first. The constraint language (:mod:`ironrule.space.constraints.parser`) has a grammar of its own:
there names and values are marked by quotes, and expressions can stand on both sides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, cast

from ironrule.errors import InputError, describe_value
from ironrule.rule.ends import KNOWN
from ironrule.space.feature import Feature, Value, parse_date
from ironrule.space.space import Space

StatedOperator = Literal["<=", "<", ">=", ">", "=="]

OPERATOR_PATTERN = re.compile(r"\s*(<=|>=|==|!=|=|<|>|≤|≥)")
OPERATOR_ALIASES = {"=": "==", "≤": "<=", "≥": ">="}
FLIPPED_OPERATORS: dict[str, StatedOperator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
QUOTED_PATTERN = re.compile(r"""(['"])(.*)\1""", re.DOTALL)


class StatedComponent(NamedTuple):
    """What a text says of one feature."""

    feature: str
    operator: StatedOperator
    value: Value


class ConditionParts(NamedTuple):
    """A condition that is cut, but not understood yet: its operator may be ``!=``, its value is a text with spaces."""

    name: str
    operator: str
    value: str


def split_condition(text: str, names: Iterable[str]) -> ConditionParts | None:
    """The parts of a text that begins with one of the names and an operator; None if it does not.

    >>> split_condition("age of car ≤ 3", ["age", "age of car"])
    ConditionParts(name='age of car', operator='<=', value=' 3')
    """
    text = text.lstrip()
    for name in sorted((name for name in names if text.startswith(name.lstrip())), key=len, reverse=True):
        operator = OPERATOR_PATTERN.match(text, len(name.lstrip()))
        if operator is not None:
            return ConditionParts(name, OPERATOR_ALIASES.get(operator[1], operator[1]), text[operator.end() :])
    return None


def parse_condition(text: str, space: Space) -> list[StatedComponent]:
    """The one or two conditions that a text states on one feature; raises InputError if it states none."""
    known = next((name for name in space.names if text.strip() == f"{name.strip()} {KNOWN}"), None)
    if known is not None:
        return [_build_known(space[known], text)]
    parts = split_condition(text, space.names)
    if parts is not None and parts.operator in FLIPPED_OPERATORS:
        return [_parse_parts(parts, space)]
    for operator in OPERATOR_PATTERN.finditer(text):  # the value may stand before the name: 20 < age, 20 < age <= 37
        before, after = text[: operator.start()], text[operator.end() :]
        flipped = FLIPPED_OPERATORS.get(OPERATOR_ALIASES.get(operator[1], operator[1]))
        name = next((name for name in space.names if name.strip() == after.strip()), None)
        parts = None if name is not None else split_condition(after, space.names)
        if parts is not None and parts.operator in FLIPPED_OPERATORS:
            name = parts.name
        if flipped is not None and name is not None:
            first = _parse_parts(ConditionParts(name, flipped, before), space)
            return [first] if parts is None else [first, _parse_parts(parts, space)]
    raise InputError(
        expected="a condition must look like age <= 30, job = cook or 20 < age <= 30, with a feature of the space "
        f"({', '.join(space.names)})",
        got=describe_value(text),
    )


def _build_known(feature: Feature, text: str) -> StatedComponent:
    """The bound that excludes missing values alone."""
    if not feature.ordered or not feature.missing or not feature.values:
        expected = f"{KNOWN!r} must be said of an ordered feature with missing values"
        raise InputError(expected=expected, got=describe_value(text))
    return StatedComponent(feature.name, "<=", feature.values[-1])


def _parse_parts(parts: ConditionParts, space: Space) -> StatedComponent:
    value = parse_value(space[parts.name], parts.value.strip())
    return StatedComponent(parts.name, cast(StatedOperator, parts.operator), value)


def parse_value(feature: Feature, text: str) -> Value:
    """A value of the feature as it is written, with or without quotes; a number need not be in the domain."""
    quoted = QUOTED_PATTERN.fullmatch(text)
    plain = quoted[2] if quoted else text
    known = {str(value): value for value in feature.values}
    for written in (text, plain):
        if written in known:
            return known[written]
    if feature.missing and text == "missing":
        return None
    if feature.values and (feature.numeric or feature.temporal):
        try:
            return parse_date(feature, plain) if feature.temporal else float(plain)
        except ValueError:
            pass
    rule = f"the value in a condition on {feature.name!r} must be {feature.describe()}"
    raise InputError(expected=rule, got=describe_value(text))


def parse_ranges(texts: Sequence[str], space: Space) -> dict[str, list[Any]]:
    """The permitted values per feature, in its own type, of texts such as ``age=18:60`` or ``job=clerk,cook``."""
    return dict(_parse_range(text, space) for text in texts)


def _parse_range(text: str, space: Space) -> tuple[str, list[Any]]:
    parts = split_condition(text, space.names)
    name, values = (parts.name, parts.value) if parts else (text.partition("=")[0], "")
    feature = space[name]
    if parts is None or parts.operator != "==" or not values.strip():
        rule = f"a range must be written as feature=values, such as {name}={_format_example(feature)}"
        raise InputError(expected=rule, got=describe_value(text))
    if values.lstrip().startswith("["):
        return name, _parse_json_list(name, values)
    return name, _parse_ends(feature, values) if feature.ordered else _parse_categories(feature, values)


def _parse_json_list(name: str, values: str) -> list[Any]:
    try:
        return list(json.loads(values))
    except json.JSONDecodeError as error:
        raise InputError(f"the range of {name!r} begins with [, but is not a JSON list: {error}") from None


def _parse_ends(feature: Feature, values: str) -> list[Any]:
    lowest, colon, highest = values.partition(":")
    if not colon:
        rule = f"the range of {feature.name!r} must be lowest:highest, such as {_format_example(feature)}"
        raise InputError(expected=rule, got=describe_value(values))
    ends = (lowest.strip(), feature.values[0]), (highest.strip(), feature.values[-1])
    return [parse_value(feature, text) if text else end for text, end in ends]


def _parse_categories(feature: Feature, values: str) -> list[Any]:
    """The categories between the commas; a text that is a category as a whole is not cut."""
    whole = [value for value in feature.values if str(value) == values]
    return whole or [parse_value(feature, text.strip()) for text in values.split(",")]


def _format_example(feature: Feature) -> str:
    if feature.ordered:
        return f"{feature.values[0]}:{feature.values[-1]}" if feature.values else "1:2"
    return ",".join(map(str, feature.values[:2]))
