"""Rules that a user states: their components as intervals of codes, and back.

Conditions may come from a person, from another tool, or from a widened rule: any bounds on the features of a row, not
only the row's own values. Every stated component admits an interval of codes, as the row's own components do
(:mod:`ironrule.rule.instance_components`). Replace each by the row's own component on the same side, and the rule
admits less: if it was consistent, it still is, and it is no longer. So no stated rule that covers the row is lighter
than the lightest of the row's own.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ironrule.errors import InputError, describe_value
from ironrule.hitting.bits import list_members
from ironrule.rule.box import Box
from ironrule.rule.instance_components import InstanceComponents
from ironrule.rule.parsing import StatedComponent
from ironrule.rule.phrasing import FeatureCondition, phrase_comparison
from ironrule.rule.rule import Component, Rule
from ironrule.space.feature import Feature, Value, is_missing
from ironrule.space.table import to_python_value
from ironrule.wording import format_value


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
        intervals = _encode_component(components, condition)
        if not all(part.low <= components.instance.item(part.bit // 2) <= part.high for part in intervals):
            raise _build_violation_error(components, condition)
        parts += intervals
    return tuple(parts)


def _build_violation_error(components: InstanceComponents, condition: StatedComponent) -> InputError:
    name, operator, value = condition
    j = components.space.index(name)
    own = components.space.features[j].value(components.instance.item(j))
    stated = phrase_comparison(name, operator, to_python_value(value))
    rule = f"the row must satisfy the rule's condition {stated}"
    return InputError(expected=rule, got=phrase_comparison(name, "==", own))


def _encode_component(components: InstanceComponents, condition: StatedComponent) -> ComponentIntervals:
    """The one or two components that a condition is."""
    j = components.space.index(condition.feature)
    feature, operator = components.space.features[j], condition.operator
    low, high = find_code_range(feature, operator, to_python_value(condition.value))
    if operator == "==" and feature.ordered and low <= feature.last_code:
        return ComponentInterval(2 * j, 0, low), ComponentInterval(2 * j + 1, low, feature.last_code)
    return (ComponentInterval(2 * j + (operator in (">=", ">")), low, high),)


def find_code_range(feature: Feature, operator: str, value: Value) -> tuple[int, int]:
    """The first and the last code of a feature that satisfy a comparison; an order says nothing of a missing value.

    The bound may lie between two values whose order is natural. Where no code satisfies it, the last comes before the
    first. The row's own components are many and always at a value: a kernel does the same for them
    (:func:`ironrule.rule.kernels.fill_component_intervals`).

    >>> age = Feature("age", (20, 30, 40), ordered=True, missing=True)
    >>> find_code_range(age, "<=", 35), find_code_range(age, ">", 20), find_code_range(age, "==", None)
    ((0, 1), (1, 2), (3, 3))
    """
    if operator == "==":
        code = feature.code(value)
        return code, code
    if not feature.ordered or is_missing(value):
        kind = "a missing value" if feature.ordered else f"the nominal feature {feature.name!r}"
        raise InputError(expected=f"a condition on {kind} must be an equality", got=f"{operator} {format_value(value)}")
    if operator in ("<=", "<"):
        return 0, _count_values_up_to(feature, value, operator == "<=") - 1
    return _count_values_up_to(feature, value, operator == ">"), feature.last_code


def find_last_admitted_number(feature: Feature, condition: StatedComponent) -> Value:
    """The number nearest to a bound, or at it, that a condition on a numeric feature admits; None where there is none.

    >>> age = Feature("age", (20, 30, 40), ordered=True)
    >>> find_last_admitted_number(age, StatedComponent("age", "<", 35.5)), find_last_admitted_number(
    ...     age, StatedComponent("age", ">", 35)
    ... )
    (35, 36)
    """
    value = to_python_value(condition.value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    upper, excluded = condition.operator in ("<=", "<"), condition.operator in ("<", ">")
    if feature.has_only_integers:
        if condition.operator == "==":
            return int(value) if value == int(value) else None
        # A strict bound that is a whole number itself admits the next one.
        nearest = math.floor(value) if upper else math.ceil(value)
        return nearest + (0 if not excluded or nearest != value else -1 if upper else 1)
    return math.nextafter(value, -math.inf if upper else math.inf) if excluded else float(value)


def find_admitted_codes(condition: FeatureCondition, feature: Feature) -> range:
    """The codes that all components of a condition admit."""
    ends = [find_code_range(feature, component.op, component.value) for component in condition.components]
    return range(max(low for low, _ in ends), min(high for _, high in ends) + 1)


def _count_values_up_to(feature: Feature, value: Value, included: bool) -> int:
    """How many values of the domain come up to a bound, which may lie between two where their order is natural."""
    if not feature.naturally_ordered:
        return feature.code(value) + included
    try:
        return bisect_right(feature.values, value) if included else bisect_left(feature.values, value)
    except TypeError:
        rule = f"a bound on {feature.name!r} must be comparable with its values"
        raise InputError(expected=rule, got=describe_value(value)) from None


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
    low, high = components.low, components.high
    return tuple(ComponentInterval(bit, low.item(bit), high.item(bit)) for bit in list_members(bits))


def decode_rule(components: InstanceComponents, parts: ComponentIntervals, outcome: str) -> Rule:
    """The rule in the user's terms, its bounds at values of the domains."""
    return Rule(tuple(decode_component(components, part) for part in parts), outcome, components.space.labels)


def decode_component(components: InstanceComponents, part: ComponentInterval) -> Component:
    """One component in the user's terms."""
    feature = components.space.features[part.bit // 2]
    if not feature.ordered or part.low > feature.last_code:
        return Component.from_feature(feature, "==", feature.value(part.low))
    if part.bit % 2:
        return Component.from_feature(feature, ">=", feature.value(part.low))
    return Component.from_feature(feature, "<=", feature.value(part.high))
