"""From the user's terms to codes: values, points and components; which components were permitted, and what they weigh.

Feature j has the components 2j (``F <= v``, or ``F == v`` for a nominal or missing value) and 2j + 1 (``F >= v``), with
v the instance's value. Sets of components are integers, bit i standing for component i. A component that excludes
nothing is never used.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ironrule.checker.arrays import Int32Array
from ironrule.checker.document import JsonObject, RestrictionsClaim, to_canonical_json
from ironrule.checker.result import ClaimFailed
from ironrule.checker.space.space import CheckerFeature, CheckerSpace, value_from_json, value_to_json

MAX_WEIGHT_SIZE = 10**300


@dataclass(frozen=True, slots=True)
class CodeRange:
    """What a component admits: the feature's position, the first and the last code; and its operator."""

    feature: int
    low: int
    high: int
    op: str


def encode_value(feature: CheckerFeature, plain: Any) -> int:
    """The code of a value given as plain data; raises ClaimFailed if the domain does not have it."""
    try:
        value = value_from_json(plain)
    except (ValueError, TypeError):
        value = plain
    if value is None and feature.missing:
        return feature.missing_code
    for code, known in enumerate(feature.values):
        if known == value and isinstance(known, bool) == isinstance(value, bool):
            return code
    raise ClaimFailed(f"{feature.name!r} must be {feature.describe()}, got {plain!r}")


def encode_point(space: CheckerSpace, values: JsonObject) -> Int32Array:
    """The point with these values; raises ClaimFailed if it is none of the space."""
    if set(values) != set(space.names):
        odd = sorted(set(values) ^ set(space.names))
        raise ClaimFailed(f"a point must have one value for every feature; {odd[0]!r} is missing or is no feature")
    return np.array([encode_value(feature, values[feature.name]) for feature in space.features], dtype=np.int32)


def encode_counterfactual(space: CheckerSpace, instance: Int32Array, plain: JsonObject) -> Int32Array:
    """The point of a counterfactual whose changes are those that lead to it; raises ClaimFailed if they are not."""
    point = encode_point(space, plain["values"])
    if to_canonical_json(plain) != to_canonical_json(_counterfactual_to_json(space, instance, point)):
        raise ClaimFailed("the changes listed must be those that lead from the instance to the values")
    return point


def _counterfactual_to_json(space: CheckerSpace, instance: Int32Array, point: Int32Array) -> JsonObject:
    """A counterfactual as a document has it."""
    before, after = ({f.name: value_to_json(f.value(c)) for f, c in zip(space.features, codes, strict=True)}
                     for codes in (instance.tolist(), point.tolist()))  # fmt: skip
    moved = [name for name, old, new in zip(space.names, instance, point, strict=True) if old != new]
    changes = [{"feature": name, "before": before[name], "after": after[name]} for name in moved]
    return {"values": after, "changes": changes}


def describe_changes(space: CheckerSpace, instance: Int32Array, point: Int32Array) -> str:
    """A point in words: what differs from the instance."""
    changes = [
        f"{feature.name}: {format_value(feature.value(old))} -> {format_value(feature.value(new))}"
        for feature, old, new in zip(space.features, instance.tolist(), point.tolist(), strict=True)
        if old != new
    ]
    return ", ".join(changes) or "no change"


def format_value(value: Any) -> str:
    """A value as a person reads it, with all its digits."""
    if value is None:
        return "missing"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date) else repr(value)


def describe_rule(components: tuple[JsonObject, ...], outcome: str) -> str:
    """The rule in words, as the document has it."""
    who = f"Everyone with {describe_conditions(components)}" if components else "Everyone"
    return f"{who} gets: {outcome}."


def describe_conditions(components: tuple[JsonObject, ...]) -> str:
    """The components in words; ``F <= v`` and ``F >= v`` are read as ``F = v``."""
    shown = [(str(c["feature"]), str(c["op"]), _format_json_value(c["value"])) for c in components]
    ends = [{(name, value) for name, op, value in shown if op == side} for side in ("<=", ">=")]
    both = ends[0] & ends[1]
    texts = [f"{name} {'=' if op == '==' or (name, value) in both else op} {value}" for name, op, value in shown]
    return " and ".join(dict.fromkeys(texts))


def _format_json_value(plain: Any) -> str:
    try:
        return format_value(value_from_json(plain))
    except (TypeError, ValueError):
        return repr(plain)


def encode_component(space: CheckerSpace, plain: JsonObject) -> CodeRange:
    """What a component admits; raises ClaimFailed if it makes no sense in the space."""
    if plain["feature"] not in space.names:
        raise ClaimFailed(f"a component must name a feature of the space, got {plain['feature']!r}")
    place = space.index(plain["feature"])
    feature, op = space.features[place], plain["op"]
    code = encode_value(feature, plain["value"])
    if op != "==" and (not feature.ordered or code == feature.missing_code):
        raise ClaimFailed(f"{feature.name!r} has no order, or not for a missing value, but a component says {op}")
    if to_canonical_json(plain) != to_canonical_json(_component_to_json(feature, op, code)):
        raise ClaimFailed(f"the component {feature.name} {op} must name its columns as the space has them")
    low, high = {"<=": (0, code), ">=": (code, feature.last_code), "==": (code, code)}[op]
    return CodeRange(place, low, high, op)


def _component_to_json(feature: CheckerFeature, op: str, code: int) -> JsonObject:
    """A component as a document has it, with the columns that it needs to be applied to a table."""
    data: dict[str, Any] = {"feature": feature.name, "op": op, "value": value_to_json(feature.value(code))}
    if len(feature.columns) > 1:  # a one-hot group: the value's own column is 1, or all on the other side of it are 0
        if op == "==" and code < len(feature.columns):
            return data | {"one_hot_columns": [[feature.columns[code], 1]]}
        excluded = feature.columns[code + 1 :] if op == "<=" else feature.columns[:code]
        return data | ({"one_hot_columns": [[name, 0] for name in excluded]} if excluded else {})
    if feature.columns[0] != feature.name:
        data["column"] = feature.columns[0]
    if op != "==" and not feature.naturally_ordered:
        allowed = feature.values[: code + 1] if op == "<=" else feature.values[code:]
        data["allowed"] = [value_to_json(value) for value in allowed]
    return data


def intersect_ranges(space: CheckerSpace, ranges: list[CodeRange]) -> tuple[Int32Array, Int32Array]:
    """Where all hold: the first and the last code of every feature."""
    low, high = np.zeros(len(space.features), dtype=np.int32), (space.sizes - 1).astype(np.int32)
    for one in ranges:
        low[one.feature] = max(low[one.feature], one.low)
        high[one.feature] = min(high[one.feature], one.high)
    return low, high


Components = dict[int, CodeRange]  # those relevant to the instance, by number


@dataclass(frozen=True, slots=True, eq=False)
class PermittedComponents:
    """The components, those allowed, the sets of which one must be used, and weights as whole numbers of ``unit``."""

    components: Components
    allowed: int
    required: tuple[int, ...]
    weights: tuple[int, ...]
    unit: Fraction

    def find_number(self, component: CodeRange) -> int:
        """A component's number; raises ClaimFailed if it is not one that was permitted for the instance."""
        for bit, one in self.components.items():
            if one == component:
                if not self.allowed >> bit & 1:
                    raise ClaimFailed("the rule must use permitted components alone, but one of it was forbidden")
                return bit
        raise ClaimFailed("a component must speak of the instance's own value, and exclude something")

    def find_dual(self, point: Int32Array) -> int:
        """The permitted components that are false on a point."""
        false = 0
        for bit, one in self.components.items():
            if not one.low <= point[one.feature] <= one.high:
                false |= 1 << bit
        return false & self.allowed

    def weigh(self, rule: int) -> Fraction:
        """What a rule weighs."""
        return self.unit * sum(weight for bit, weight in enumerate(self.weights) if rule >> bit & 1)


def find_permitted_components(
    space: CheckerSpace, instance: Int32Array, restrictions: RestrictionsClaim
) -> PermittedComponents:
    """What was permitted for an instance; raises ClaimFailed if what is said of that makes no sense."""
    components = _list_usable_components(space, instance)
    allowed = sum(1 << bit for bit in components)
    for name in restrictions.forbid:
        allowed &= ~_select_components(space, components, name)
    required = tuple(_select_components(space, components, name) & allowed for name in restrictions.require)
    if not all(required):
        raise ClaimFailed("what a rule must use must be usable for this instance, but something is not")
    weights = _list_weights(space, components, restrictions)
    unit = Fraction(1, math.lcm(*(weight.denominator for weight in weights)))
    if max(unit.denominator, *(weight.numerator for weight in weights)) > MAX_WEIGHT_SIZE:
        limits = "not finer than 10**-300, nor larger than 10**300"
        raise ClaimFailed(f"weights must be multiples of one unit that is {limits}")
    return PermittedComponents(components, allowed, required, tuple(int(weight / unit) for weight in weights), unit)


def _list_usable_components(space: CheckerSpace, instance: Int32Array) -> Components:
    found: Components = {}
    for j, feature in enumerate(space.features):
        code = int(instance[j])
        if feature.ordered and code != feature.missing_code:
            found[2 * j] = CodeRange(j, 0, code, "<=")
            found[2 * j + 1] = CodeRange(j, code, feature.last_code, ">=")
        else:
            found[2 * j] = CodeRange(j, code, code, "==")
    return {bit: one for bit, one in found.items() if one.high - one.low + 1 < space.features[one.feature].size}


def _select_components(space: CheckerSpace, components: Components, name: str) -> int:
    """The components that a text names: a feature, or a feature with an operator behind it."""
    feature, op = name, ""
    if name not in space.names and name.endswith((" <=", " >=", " ==")):
        feature, op = name[:-3], name[-2:]
    if feature not in space.names:
        raise ClaimFailed(f"what was permitted must name features of the space, got {name!r}")
    place = space.index(feature)
    return sum(1 << bit for bit, one in components.items() if bit // 2 == place and op in ("", one.op))


def _list_weights(space: CheckerSpace, components: Components, restrictions: RestrictionsClaim) -> list[Fraction]:
    each = [Fraction(1)] * (2 * len(space.features))
    if restrictions.weights == "paper":
        return [Fraction(1 if space.features[bit // 2].ordered or bit % 2 else 2) for bit in range(len(each))]
    given = restrictions.weights if isinstance(restrictions.weights, dict) else {}
    for name in sorted(given, key=lambda name: name not in space.names):  # a component's own weight counts
        weight = given[name]
        if weight <= 0:
            raise ClaimFailed(f"a weight must be positive, got {weight} for {name!r}")
        chosen = _select_components(space, components, name)
        each = [weight if chosen >> bit & 1 else known for bit, known in enumerate(each)]
    return each
