"""The components relevant to one instance, and their numbering.

Feature j has the bits 2j (``F <= v``, or ``F == v`` for a nominal or missing value) and 2j + 1 (``F >= v``). A rule is
an integer whose bits are its components. Every component admits an interval of codes; a bit that is not used, or that
excludes nothing, admits all of them and so never occurs in a dual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError
from ironrule.rule.box import Box
from ironrule.rule.component import Component
from ironrule.rule.named import Named
from ironrule.rule.rule import Rule
from ironrule.space import Points, Space

MOST_BOXES = 1024


def members(components: int) -> tuple[int, ...]:
    """The numbers of the components in a set, in order.

    >>> members(0b1101)
    (0, 2, 3)
    """
    found = []
    while components:
        lowest = components & -components
        found.append(lowest.bit_length() - 1)
        components ^= lowest
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Relevant:
    """The components relevant to an instance: their intervals, and which of them exclude anything at all."""

    space: Space
    instance: Points
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    usable: int
    named: Named = field(default_factory=Named, repr=False)
    _boxes: dict[int, Box] = field(default_factory=dict, init=False, repr=False)  # a rule's is asked for several times

    @property
    def bits(self) -> tuple[int, ...]:
        """The numbers of the components that exclude something."""
        return members(self.usable)

    @property
    def ordered(self) -> tuple[int, ...]:
        """The numbers of those among them that are bounds, ``<=`` or ``>=``."""
        return tuple(bit for bit in self.bits if self._has_order(bit // 2))

    def _has_order(self, j: int) -> bool:
        feature = self.space.features[j]
        return bool(feature.ordered and self.instance.item(j) <= feature.last)  # which a missing value has not

    def component(self, bit: int, box: Box | None = None) -> Component:
        """A component in the user's terms, its bound where a wider box has it."""
        j, second = divmod(bit, 2)
        code, bound = self.instance.item(j), self._has_order(j)
        if box is not None and bound:
            code = int((box.low if second else box.high)[j])
        return self.named.component(self.space, bit, code, bound)

    def rule(self, bits: int, outcome: str, box: Box | None = None) -> Rule:
        """A rule in the user's terms, its bounds where a wider box has them."""
        return Rule(tuple([self.component(bit, box) for bit in members(bits)]), outcome)

    def box(self, bits: int) -> Box:
        """Where the rule holds."""
        made = self._boxes.get(bits)
        if made is None:
            if len(self._boxes) >= MOST_BOXES:
                self._boxes.clear()
            made = self._boxes[bits] = self._box(bits)
        return made

    def _box(self, bits: int) -> Box:
        if bits == 0:
            return Box(np.zeros(len(self.space), dtype=np.int32), self.space.scale.top.astype(np.int32))
        low, high = [0] * len(self.space), self.space.scale.top.tolist()
        lows, highs = self.low.tolist(), self.high.tolist()
        for bit in members(bits):
            j = bit // 2
            low[j] = low[j] if low[j] > lows[bit] else lows[bit]
            high[j] = high[j] if high[j] < highs[bit] else highs[bit]
        return Box(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32))

    def boxes(self, rules: Sequence[int]) -> Box:
        """Where many rules hold: the same with a row for every rule."""
        from ironrule.rule.bits import pack
        from ironrule.rule.relevant_kernels import fill_boxes

        low, high = np.empty((2, len(rules), len(self.space)), dtype=np.int32)
        fill_boxes(pack(rules, len(self.space)), self.low, self.high, self.space.scale.top, low, high)
        return Box(low, high)

    def select(self, names: Sequence[str]) -> int:
        """The usable components that the given texts name: a feature, or a feature with ``<=``, ``>=`` or ``==``."""
        chosen = 0
        for name in names:
            chosen |= self._named(name)
        return chosen

    def _named(self, text: str) -> int:
        j, op = self.parse(text)
        bits = [bit for bit in (2 * j, 2 * j + 1) if self.usable >> bit & 1]
        return sum(1 << bit for bit in bits if not op or self.component(bit).op == op)

    def parse(self, text: str) -> tuple[int, str]:
        """The feature's number and the operator, empty where there is none, of a text such as ``"age <="``."""
        split = text.endswith((" <=", " >=", " ==")) and text not in self.space.names
        name, _, op = text.rpartition(" ") if split else (text, "", "")
        j = self.space.index(name)
        feature = self.space.features[j]
        if (op in ("<=", ">=") and not feature.ordered) or (op == "==" and feature.ordered and not feature.missing):
            kinds = "==" if not feature.ordered else "<= or >="
            raise InputError(expected=f"a component of {name!r} must use {kinds}", got=repr(text))
        return j, op

    def operator(self, bit: int) -> str:
        """The operator of a component, whether the row can use it or not; the second component of a feature without
        an order, which no rule uses, has that of the first.
        """
        return ("<=", ">=")[bit % 2] if self._has_order(bit // 2) else "=="


def relevant_to(space: Space, instance: Points, named: Named | None = None) -> Relevant:
    """The components relevant to an instance; ``named`` keeps those of one space that were put into words."""
    from ironrule.rule.bits import unpack, width
    from ironrule.rule.relevant_kernels import fill_bounds

    low, high = np.empty(2 * len(space), dtype=np.int64), np.empty(2 * len(space), dtype=np.int64)
    usable = np.zeros((1, width(len(space))), dtype=np.uint64)
    fill_bounds(instance, space.scale.last, space.scale.top, low, high, usable[0])
    return Relevant(space, instance, low, high, unpack(usable)[0], Named() if named is None else named)
