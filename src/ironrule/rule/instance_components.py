"""The components of one instance: their numbering, the codes they admit, and rules and boxes made of them.

Feature j has the bits 2j (``F <= v``, or ``F == v`` for a nominal or missing value) and 2j + 1 (``F >= v``). A rule is
an integer whose bits are its components. Every component admits an interval of codes; a bit that is not used, or that
excludes nothing, admits all of them and so never occurs in a dual.

Rows of one space share most of their components, so those written in the user's terms are cached per space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ironrule.arrays import Int64Array, Points
from ironrule.errors import InputError, describe_value
from ironrule.hitting.bits import count_words, list_members, pack_sets, unpack_sets
from ironrule.rule.box import Box
from ironrule.rule.rule import Component, Operator, Rule
from ironrule.space.space import Space

MAX_CACHED_COMPONENTS = 65_536


class ComponentCache:
    """A cache of components of spaces that share their features. It is not copied along with its owner."""

    __slots__ = ("_components",)

    def __init__(self) -> None:
        self._components: dict[tuple[str, Operator, int], Component] = {}  # by feature, operator and code

    def component(self, space: Space, bit: int, code: int, bound: bool) -> Component:
        """The component of this number whose value is that of the code."""
        feature = space.features[bit // 2]
        key = feature.name, _choose_operator(bit, bound), code
        component = self._components.get(key)
        if component is None:
            if len(self._components) >= MAX_CACHED_COMPONENTS:
                self._components.clear()
            component = self._components[key] = Component.from_feature(feature, key[1], feature.value(code))
        return component

    def __reduce__(self) -> tuple[Any, ...]:
        return ComponentCache, ()


def _choose_operator(bit: int, bound: bool) -> Operator:
    if not bound:
        return "=="
    return ">=" if bit % 2 else "<="


MAX_CACHED_BOXES = 1024


@dataclass(frozen=True, slots=True, eq=False)
class InstanceComponents:
    """The components relevant to an instance: their intervals, and which of them exclude anything at all."""

    space: Space
    instance: Points
    low: Int64Array
    high: Int64Array
    usable: int
    cache: ComponentCache = field(default_factory=ComponentCache, repr=False)
    _boxes: dict[int, Box] = field(default_factory=dict, init=False, repr=False)  # a rule's is asked for several times

    @property
    def usable_numbers(self) -> tuple[int, ...]:
        """The numbers of the components that exclude something."""
        return list_members(self.usable)

    @property
    def bound_numbers(self) -> tuple[int, ...]:
        """The numbers of those among them that are bounds, ``<=`` or ``>=``."""
        return tuple(bit for bit in self.usable_numbers if self._has_order(bit // 2))

    def _has_order(self, j: int) -> bool:
        return bool(self.instance.item(j) <= self.space.code_limits.last.item(j))  # which a missing value is not

    def component(self, bit: int, box: Box | None = None) -> Component:
        """A component in the user's terms, its bound where a wider box has it."""
        j, second = divmod(bit, 2)
        code, bound = self.instance.item(j), self._has_order(j)
        if box is not None and bound:
            code = int((box.low if second else box.high)[j])
        return self.cache.component(self.space, bit, code, bound)

    def rule(self, bits: int, outcome: str, box: Box | None = None) -> Rule:
        """A rule in the user's terms, its bounds where a wider box has them."""
        return Rule(tuple([self.component(bit, box) for bit in list_members(bits)]), outcome, self.space.labels)

    def box(self, bits: int) -> Box:
        """Where the rule holds."""
        box = self._boxes.get(bits)
        if box is None:
            if len(self._boxes) >= MAX_CACHED_BOXES:
                self._boxes.clear()
            box = self._boxes[bits] = self._box(bits)
        return box

    def _box(self, bits: int) -> Box:
        if bits == 0:
            return Box(np.zeros(len(self.space), dtype=np.int32), self.space.code_limits.top.astype(np.int32))
        low, high = [0] * len(self.space), self.space.code_limits.top.tolist()
        lows, highs = self.low.tolist(), self.high.tolist()
        for bit in list_members(bits):
            j = bit // 2
            low[j] = low[j] if low[j] > lows[bit] else lows[bit]
            high[j] = high[j] if high[j] < highs[bit] else highs[bit]
        return Box(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32))

    def boxes(self, rules: Sequence[int]) -> Box:
        """Where many rules hold: the same with a row for every rule."""
        from ironrule.rule.kernels import fill_boxes

        low, high = np.empty((2, len(rules), len(self.space)), dtype=np.int32)
        fill_boxes(pack_sets(rules, len(self.space)), self.low, self.high, self.space.code_limits.top, low, high)
        return Box(low, high)

    def select(self, names: Sequence[str]) -> int:
        """The usable components that the given texts name: a feature, or a feature with ``<=``, ``>=`` or ``==``."""
        chosen = 0
        for name in names:
            j, op = self.parse_component(name)
            for bit in (2 * j, 2 * j + 1):
                if self.usable >> bit & 1 and (not op or self.component(bit).op == op):
                    chosen |= 1 << bit
        return chosen

    def parse_component(self, text: str) -> tuple[int, str]:
        """The feature's number and the operator, empty where there is none, of a text such as ``"age <="``."""
        name, op = split_component_text(self.space, text)
        j = self.space.index(name)
        feature = self.space.features[j]
        if (op in ("<=", ">=") and not feature.ordered) or (op == "==" and feature.ordered and not feature.missing):
            kinds = "==" if not feature.ordered else "<= or >="
            raise InputError(expected=f"a component of {name!r} must use {kinds}", got=describe_value(text))
        return j, op

    def operator(self, bit: int) -> str:
        """The operator of a component, whether the row can use it or not; the second component of a feature without
        an order, which no rule uses, has that of the first.
        """
        return _choose_operator(bit, self._has_order(bit // 2))


def split_component_text(space: Space, text: str) -> tuple[str, str]:
    """The feature's name and the operator, empty where there is none, of a text such as ``"age <="``."""
    # A name with an operator and no value. It is kept in documents as it is written, where the checker parses it
    # by itself, so no other spelling is allowed.
    split = text.endswith((" <=", " >=", " ==")) and text not in space.names
    name, _, op = text.rpartition(" ") if split else (text, "", "")
    return name, op


def build_instance_components(
    space: Space, instance: Points, cache: ComponentCache | None = None
) -> InstanceComponents:
    """The components relevant to an instance; ``cache`` keeps those of one space that were put into words."""
    from ironrule.rule.kernels import fill_component_intervals

    low, high = np.empty(2 * len(space), dtype=np.int64), np.empty(2 * len(space), dtype=np.int64)
    usable = np.zeros((1, count_words(len(space))), dtype=np.uint64)
    fill_component_intervals(instance, space.code_limits.last, space.code_limits.top, low, high, usable[0])
    bits, cache = unpack_sets(usable)[0], ComponentCache() if cache is None else cache
    return InstanceComponents(space, instance, low, high=high, usable=bits, cache=cache)
