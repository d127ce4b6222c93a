"""The components relevant to one instance, and their numbering.

Feature j has the bits 2j (``F <= v``, or ``F == v`` for a nominal or missing value) and 2j + 1 (``F >= v``). A rule is
an integer whose bits are its components. Every component admits an interval of codes; a bit that is not used, or that
excludes nothing, admits all of them and so never occurs in a dual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError
from ironrule.rule.box import Box
from ironrule.rule.component import Component, Op
from ironrule.rule.rule import Rule
from ironrule.space import Feature, Points, Space


@dataclass(frozen=True, slots=True, eq=False)
class Relevant:
    """The components relevant to an instance: their intervals, and which of them exclude anything at all."""

    space: Space
    instance: Points
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    usable: int

    @property
    def bits(self) -> tuple[int, ...]:
        """The numbers of the components that exclude something."""
        return tuple(bit for bit in range(2 * len(self.space)) if self.usable >> bit & 1)

    @property
    def ordered(self) -> tuple[int, ...]:
        """The numbers of those among them that are bounds, ``<=`` or ``>=``."""
        return tuple(
            bit for bit in self.bits if _has_order(self.space.features[bit // 2], int(self.instance[bit // 2]))
        )

    def component(self, bit: int, box: Box | None = None) -> Component:
        """A component in the user's terms, its bound where a wider box has it."""
        j, second = divmod(bit, 2)
        feature, code = self.space.features[j], int(self.instance[j])
        op: Op = ">=" if second else "<=" if _has_order(feature, code) else "=="
        if box is not None and op != "==":
            code = int((box.low if second else box.high)[j])
        return Component.of(feature, op, feature.value(code))

    def rule(self, bits: int, outcome: str, box: Box | None = None) -> Rule:
        """A rule in the user's terms, its bounds where a wider box has them."""
        return Rule(tuple(self.component(bit, box) for bit in range(2 * len(self.space)) if bits >> bit & 1), outcome)

    def box(self, bits: int) -> Box:
        """Where the rule holds."""
        low = np.zeros(len(self.space), dtype=np.int32)
        high = self.space.sizes - 1
        for bit in range(2 * len(self.space)):
            if bits >> bit & 1:
                low[bit // 2] = max(low[bit // 2], self.low[bit])
                high[bit // 2] = min(high[bit // 2], self.high[bit])
        return Box(low, high)

    def select(self, names: Sequence[str]) -> int:
        """The usable components that the given texts name: a feature, or a feature with ``<=``, ``>=`` or ``==``."""
        chosen = 0
        for name in names:
            chosen |= self._named(name)
        return chosen

    def _named(self, text: str) -> int:
        split = text.endswith((" <=", " >=", " ==")) and text not in self.space.names
        name, _, op = text.rpartition(" ") if split else (text, "", "")
        j = self.space.index(name)
        feature = self.space.features[j]
        if (op in ("<=", ">=") and not feature.ordered) or (op == "==" and feature.ordered and not feature.missing):
            kinds = "== alone" if not feature.ordered else "<= and >="
            raise InputError(f"a component of {name!r} must have {kinds}, but {text!r} came")
        bits = [bit for bit in (2 * j, 2 * j + 1) if self.usable >> bit & 1]
        return sum(1 << bit for bit in bits if not op or self.component(bit).op == op)


def relevant_to(space: Space, instance: Points) -> Relevant:
    """The components relevant to an instance."""
    n = len(space)
    low = np.zeros(2 * n, dtype=np.int64)
    high = np.repeat(space.sizes.astype(np.int64) - 1, 2)
    usable = 0
    for j, feature in enumerate(space.features):
        code = int(instance[j])
        if _has_order(feature, code):
            high[2 * j] = code
            low[2 * j + 1], high[2 * j + 1] = code, feature.last
        else:
            low[2 * j] = high[2 * j] = code
        for bit in (2 * j, 2 * j + 1):
            if high[bit] - low[bit] + 1 < feature.size:
                usable |= 1 << bit
    return Relevant(space, instance, low, high, usable)


def _has_order(feature: Feature, code: int) -> bool:
    return feature.ordered and code != feature.missing_code
