"""Conditions as people and other tools write them: ``age <= 30``, ``job = cook``, ``20 < age <= 37``."""

from __future__ import annotations

import datetime
import re
from typing import cast

from ironrule.errors import InputError
from ironrule.rule.stated import Condition, Relation
from ironrule.space import Feature, Space, Value

SIGN = r"\s*(<=|>=|==|=|<|>|≤|≥)\s*"
MEANING = {"=": "==", "≤": "<=", "≥": ">="}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
QUOTED = re.compile(r"""(['"])(.*)\1""", re.DOTALL)


def conditions_in(text: str, space: Space) -> list[Condition]:
    """The one or two conditions that a text states on one feature; raises InputError if it states none."""
    for name in sorted(space.names, key=len, reverse=True):  # a name may begin with another one
        after = re.fullmatch(rf"\s*{re.escape(name)}{SIGN}(.*?)\s*", text, re.DOTALL)
        if after is not None:
            return [_condition(space[name], after[1], after[2])]
    for name in sorted(space.names, key=len, reverse=True):
        around = re.fullmatch(rf"\s*(.*?){SIGN}{re.escape(name)}(?:{SIGN}(.*?))?\s*", text, re.DOTALL)
        if around is not None:
            return _around(space[name], *around.groups())
    raise InputError(
        expected="a condition must look like age <= 30, job = cook or 20 < age <= 30, with a feature of the space "
        f"({', '.join(space.names)})",
        got=repr(text),
    )


def _around(feature: Feature, before: str, first: str, second: str | None, after: str | None) -> list[Condition]:
    """What stands before the name is read the other way round."""
    left = _condition(feature, first, before)
    turned = left._replace(relation=cast(Relation, FLIPPED[left.relation]))
    return [turned] if second is None or after is None else [turned, _condition(feature, second, after)]


def _condition(feature: Feature, sign: str, text: str) -> Condition:
    return Condition(feature.name, cast(Relation, MEANING.get(sign, sign)), _value(feature, text))


def _value(feature: Feature, text: str) -> Value:
    """A value of the feature as it is written, with or without quotes; a number need not be in the domain."""
    quoted = QUOTED.fullmatch(text)
    plain = quoted[2] if quoted else text
    known = {str(value): value for value in feature.values}
    for written in (text, plain):
        if written in known:
            return known[written]
    if feature.missing and text == "missing":
        return None
    if feature.values and (feature.numeric or feature.dated):
        try:
            return _date(feature, plain) if feature.dated else float(plain)
        except ValueError:
            pass
    raise InputError(
        expected=f"the value in a condition on {feature.name!r} must be {feature.describe()}", got=repr(text)
    )


def _date(feature: Feature, text: str) -> Value:
    """A date or a moment, as the domain has them."""
    moment = datetime.datetime.fromisoformat(text)
    by_day = type(feature.values[0]) is datetime.date
    return moment.date() if by_day and moment.time() == datetime.time() else moment
