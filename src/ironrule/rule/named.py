"""The components of one space in the user's terms: each is put into words once, since rows share most of theirs."""

from __future__ import annotations

from typing import Any

from ironrule.rule.component import Component, Op
from ironrule.space import Space

MOST = 65_536


class Named:
    """A memory of components, by number, code and whether they are bounds. It is not copied along with its owner."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, bool], Component] = {}

    def component(self, space: Space, bit: int, code: int, bound: bool) -> Component:
        """The component of this number whose value is that of the code."""
        named = self._known.get((bit, code, bound))
        if named is None:
            if len(self._known) >= MOST:
                self._known.clear()
            feature = space.features[bit // 2]
            named = self._known[bit, code, bound] = Component.of(feature, _op(bit, bound), feature.value(code))
        return named

    def __reduce__(self) -> tuple[Any, ...]:
        return Named, ()


def _op(bit: int, bound: bool) -> Op:
    if not bound:
        return "=="
    return ">=" if bit % 2 else "<="
