"""Rules that somebody states: any bounds on the features of a row, not only the row's own values.

``20 < age <= 37`` or ``income <= 640`` may come from a person, from another tool, or from a widened rule. Every stated
component admits an interval of codes, as the row's own components do (:mod:`ironrule.rule.relevant`). Put the row's own
component on the same side in the place of each, and the rule admits less: if it was consistent, it still is, and no
longer. So no stated rule that covers the row is lighter than the lightest of the row's own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ironrule.errors import InputError
from ironrule.rule.box import Box
from ironrule.rule.component import Component, shown
from ironrule.rule.relevant import Relevant, members
from ironrule.rule.rule import Rule
from ironrule.space import Feature, Value
from ironrule.space.feature import is_missing
from ironrule.space.table import as_python

Relation = Literal["<=", "<", ">=", ">", "=="]


class Condition(NamedTuple):
    """What somebody said of one feature."""

    feature: str
    relation: Relation
    value: Value


class Part(NamedTuple):
    """One component in codes: which it admits, and the number of the row's own component on that side."""

    bit: int
    low: int
    high: int


Parts = tuple[Part, ...]


def parts_of(relevant: Relevant, conditions: Sequence[Condition]) -> Parts:
    """A rule in codes, an equality on an ordered feature as two bounds; raises InputError if the row breaks it."""
    parts: list[Part] = []
    for condition in conditions:
        some = _parts(relevant, condition)
        if not all(part.low <= relevant.instance.item(part.bit // 2) <= part.high for part in some):
            raise _broken(relevant, condition)
        parts += some
    return tuple(parts)


def _broken(relevant: Relevant, condition: Condition) -> InputError:
    name, relation, value = condition
    j = relevant.space.index(name)
    now = shown(relevant.space.features[j].value(relevant.instance.item(j)))
    said = f"{name} {relation.replace('==', '=')} {shown(as_python(value))}"
    return InputError(expected=f"the row must satisfy the rule's condition {said}", got=f"{name} = {now}")


def _parts(relevant: Relevant, condition: Condition) -> Parts:
    """The one or two components that a condition is."""
    j = relevant.space.index(condition.feature)
    feature, relation = relevant.space.features[j], condition.relation
    value = as_python(condition.value)
    if relation == "==":
        return _equal(j, feature, feature.code(value))
    if not feature.ordered or is_missing(value):
        kind = "a missing value" if feature.ordered else f"the nominal feature {feature.name!r}"
        raise InputError(expected=f"a condition on {kind} must be an equality", got=f"{relation} {shown(value)}")
    if relation in ("<=", "<"):
        return (Part(2 * j, 0, _up_to(feature, value, relation == "<=") - 1),)
    return (Part(2 * j + 1, _up_to(feature, value, relation == ">"), feature.last),)


def _equal(j: int, feature: Feature, code: int) -> Parts:
    if feature.ordered and code <= feature.last:
        return Part(2 * j, 0, code), Part(2 * j + 1, code, feature.last)
    return (Part(2 * j, code, code),)


def _up_to(feature: Feature, value: Value, included: bool) -> int:
    """How many values of the domain come up to a bound, which may lie between two where their order is natural."""
    if not feature.natural:
        return feature.code(value) + included
    try:
        return bisect_right(feature.values, value) if included else bisect_left(feature.values, value)
    except TypeError:
        raise InputError(
            expected=f"a bound on {feature.name!r} must be comparable with its values", got=repr(value)
        ) from None


def box_of(relevant: Relevant, parts: Parts) -> Box:
    """Where all of these components hold."""
    low, high = [0] * len(relevant.space), relevant.space.scale.top.tolist()
    for bit, lowest, highest in parts:
        j = bit // 2
        low[j], high[j] = max(low[j], lowest), min(high[j], highest)
    return Box(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32))


def own_rule(parts: Parts) -> int:
    """The row's own components on the same sides: a rule that holds wherever the stated one does."""
    bits = 0
    for part in parts:
        bits |= 1 << part.bit
    return bits


def own_parts(relevant: Relevant, bits: int) -> Parts:
    """A rule of the row's own components, as one that is stated."""
    return tuple(Part(bit, relevant.low.item(bit), relevant.high.item(bit)) for bit in members(bits))


def as_rule(relevant: Relevant, parts: Parts, outcome: str) -> Rule:
    """The rule in the user's terms, its bounds at values of the domains."""
    return Rule(tuple(as_component(relevant, part) for part in parts), outcome)


def as_component(relevant: Relevant, part: Part) -> Component:
    """One component in the user's terms."""
    feature = relevant.space.features[part.bit // 2]
    if not feature.ordered or part.low > feature.last:
        return Component.of(feature, "==", feature.value(part.low))
    if part.bit % 2:
        return Component.of(feature, ">=", feature.value(part.low))
    return Component.of(feature, "<=", feature.value(part.high))
