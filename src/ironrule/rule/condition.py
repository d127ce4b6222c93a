"""Rules as the user writes them: parse conditions such as ``20 < age <= 37``, and encode them.

Conditions may come from a person, from another tool, or from a widened rule: any bounds on the features of a row, not
only the row's own values. Every stated component admits an interval of codes, as the row's own components do
(:mod:`ironrule.rule.instance_components`). Replace each by the row's own component on the same side, and the rule
admits less: if it was consistent, it still is, and it is no longer. So no stated rule that covers the row is lighter
than the lightest of the row's own.
"""

from __future__ import annotations

import datetime
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

import numpy as np

from ironrule.errors import InputError
from ironrule.hitting.bits import list_members
from ironrule.rule.box import Box
from ironrule.rule.instance_components import InstanceComponents
from ironrule.rule.rule import Component, Rule
from ironrule.space.feature import Feature, Value, is_missing
from ironrule.space.space import Space
from ironrule.space.table import to_python_value
from ironrule.wording import format_value

StatedOperator = Literal["<=", "<", ">=", ">", "=="]


class StatedComponent(NamedTuple):
    """What somebody said of one feature."""

    feature: str
    operator: StatedOperator
    value: Value


class ComponentInterval(NamedTuple):
    """One component in codes: which it admits, and the number of the row's own component on that side."""

    bit: int
    low: int
    high: int


ComponentIntervals = tuple[ComponentInterval, ...]


def encode_rule(components: InstanceComponents, conditions: Sequence[StatedComponent]) -> ComponentIntervals:
    """A rule in codes, an equality on an ordered feature as two bounds; raises InputError if the row breaks it."""
    parts: list[ComponentInterval] = []
    for condition in conditions:
        some = _encode_component(components, condition)
        if not all(part.low <= components.instance.item(part.bit // 2) <= part.high for part in some):
            raise _build_violation_error(components, condition)
        parts += some
    return tuple(parts)


def _build_violation_error(components: InstanceComponents, condition: StatedComponent) -> InputError:
    name, relation, value = condition
    j = components.space.index(name)
    now = format_value(components.space.features[j].value(components.instance.item(j)))
    said = f"{name} {relation.replace('==', '=')} {format_value(to_python_value(value))}"
    return InputError(expected=f"the row must satisfy the rule's condition {said}", got=f"{name} = {now}")


def _encode_component(components: InstanceComponents, condition: StatedComponent) -> ComponentIntervals:
    """The one or two components that a condition is."""
    j = components.space.index(condition.feature)
    feature, relation = components.space.features[j], condition.operator
    value = to_python_value(condition.value)
    if relation == "==":
        return _encode_equality(j, feature, feature.code(value))
    if not feature.ordered or is_missing(value):
        kind = "a missing value" if feature.ordered else f"the nominal feature {feature.name!r}"
        raise InputError(expected=f"a condition on {kind} must be an equality", got=f"{relation} {format_value(value)}")
    if relation in ("<=", "<"):
        return (ComponentInterval(2 * j, 0, _count_values_up_to(feature, value, relation == "<=") - 1),)
    return (ComponentInterval(2 * j + 1, _count_values_up_to(feature, value, relation == ">"), feature.last_code),)


def _encode_equality(j: int, feature: Feature, code: int) -> ComponentIntervals:
    if feature.ordered and code <= feature.last_code:
        return ComponentInterval(2 * j, 0, code), ComponentInterval(2 * j + 1, code, feature.last_code)
    return (ComponentInterval(2 * j, code, code),)


def _count_values_up_to(feature: Feature, value: Value, included: bool) -> int:
    """How many values of the domain come up to a bound, which may lie between two where their order is natural."""
    if not feature.naturally_ordered:
        return feature.code(value) + included
    try:
        return bisect_right(feature.values, value) if included else bisect_left(feature.values, value)
    except TypeError:
        raise InputError(
            expected=f"a bound on {feature.name!r} must be comparable with its values", got=repr(value)
        ) from None


def build_box(components: InstanceComponents, parts: ComponentIntervals) -> Box:
    """Where all of these components hold."""
    low, high = [0] * len(components.space), components.space.code_limits.top.tolist()
    for bit, lowest, highest in parts:
        j = bit // 2
        low[j], high[j] = max(low[j], lowest), min(high[j], highest)
    return Box(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32))


def find_own_components(parts: ComponentIntervals) -> int:
    """The row's own components on the same sides: a rule that holds wherever the stated one does."""
    bits = 0
    for part in parts:
        bits |= 1 << part.bit
    return bits


def encode_own_components(components: InstanceComponents, bits: int) -> ComponentIntervals:
    """A rule of the row's own components, as one that is stated."""
    return tuple(
        ComponentInterval(bit, components.low.item(bit), components.high.item(bit)) for bit in list_members(bits)
    )


def decode_rule(components: InstanceComponents, parts: ComponentIntervals, outcome: str) -> Rule:
    """The rule in the user's terms, its bounds at values of the domains."""
    return Rule(tuple(decode_component(components, part) for part in parts), outcome)


def decode_component(components: InstanceComponents, part: ComponentInterval) -> Component:
    """One component in the user's terms."""
    feature = components.space.features[part.bit // 2]
    if not feature.ordered or part.low > feature.last_code:
        return Component.from_feature(feature, "==", feature.value(part.low))
    if part.bit % 2:
        return Component.from_feature(feature, ">=", feature.value(part.low))
    return Component.from_feature(feature, "<=", feature.value(part.high))


OPERATOR_PATTERN = r"\s*(<=|>=|==|=|<|>|≤|≥)\s*"
OPERATOR_ALIASES = {"=": "==", "≤": "<=", "≥": ">="}
FLIPPED_OPERATORS = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
QUOTED_PATTERN = re.compile(r"""(['"])(.*)\1""", re.DOTALL)


def parse_condition(text: str, space: Space) -> list[StatedComponent]:
    """The one or two conditions that a text states on one feature; raises InputError if it states none."""
    for name in sorted(space.names, key=len, reverse=True):  # a name may begin with another one
        after = re.fullmatch(rf"\s*{re.escape(name)}{OPERATOR_PATTERN}(.*?)\s*", text, re.DOTALL)
        if after is not None:
            return [_build_component(space[name], after[1], after[2])]
    for name in sorted(space.names, key=len, reverse=True):
        around = re.fullmatch(
            rf"\s*(.*?){OPERATOR_PATTERN}{re.escape(name)}(?:{OPERATOR_PATTERN}(.*?))?\s*", text, re.DOTALL
        )
        if around is not None:
            return _parse_around_name(space[name], *around.groups())
    raise InputError(
        expected="a condition must look like age <= 30, job = cook or 20 < age <= 30, with a feature of the space "
        f"({', '.join(space.names)})",
        got=repr(text),
    )


def _parse_around_name(
    feature: Feature, before: str, first: str, second: str | None, after: str | None
) -> list[StatedComponent]:
    """What stands before the name is read the other way round."""
    left = _build_component(feature, first, before)
    turned = left._replace(operator=cast(StatedOperator, FLIPPED_OPERATORS[left.operator]))
    return [turned] if second is None or after is None else [turned, _build_component(feature, second, after)]


def _build_component(feature: Feature, sign: str, text: str) -> StatedComponent:
    return StatedComponent(
        feature.name, cast(StatedOperator, OPERATOR_ALIASES.get(sign, sign)), _parse_value(feature, text)
    )


def _parse_value(feature: Feature, text: str) -> Value:
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
            return _parse_date(feature, plain) if feature.temporal else float(plain)
        except ValueError:
            pass
    raise InputError(
        expected=f"the value in a condition on {feature.name!r} must be {feature.describe()}", got=repr(text)
    )


def _parse_date(feature: Feature, text: str) -> Value:
    """A date or a moment, as the domain has them."""
    moment = datetime.datetime.fromisoformat(text)
    by_day = type(feature.values[0]) is datetime.date
    return moment.date() if by_day and moment.time() == datetime.time() else moment
