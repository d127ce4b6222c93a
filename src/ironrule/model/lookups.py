"""Tables of points as trees: what one column adds by its bin, or two together by both their bins.

Neighbouring places with the same points are one leaf, so that a search has no more to tell apart than the model has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.reading import Floats, Mask, Test, Tree

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """How a column's values are put into places 0, 1, ... of a table."""

    column: int
    places: Callable[[npt.NDArray[Any]], Places]
    rises: bool = False  # whether larger numbers never have smaller places
    last: list[tuple[npt.NDArray[Any], Places]] = field(default_factory=list)

    def of(self, values: npt.NDArray[Any]) -> Places:
        """The places of values; those of the values asked about last are remembered, since every test asks again."""
        known = self.last[0] if self.last else None
        if known is None or known[0] is not values:
            known = (values, self.places(values))
            self.last[:] = [known]
        return known[1]


@dataclass(frozen=True, slots=True)
class Before:
    """A test: places before ``end`` go left."""

    lookup: Lookup
    end: int

    @property
    def changes_once(self) -> bool:
        """As the places do."""
        return self.lookup.rises

    @property
    def column(self) -> int:
        """The column's position."""
        return self.lookup.column

    def goes_left(self, values: npt.NDArray[Any]) -> Mask:
        """Which of these values of the column go left."""
        return np.asarray(self.lookup.of(values) < self.end, dtype=np.bool_)


def tree_of(lookups: Sequence[Lookup], points: Floats) -> Tree:
    """The tree of a table with one axis per column: the first axis is halved until it is settled, then the next."""
    grown = _Grown(lookups)
    grown.table(points)
    left, right = (np.array(side, dtype=np.int32) for side in (grown.left, grown.right))
    return Tree(tuple(grown.tests), left, right, np.array(grown.values))


@dataclass(slots=True, eq=False)
class _Grown:
    """A tree on its way, parents first."""

    lookups: Sequence[Lookup]
    tests: list[Test | None] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def table(self, points: Floats) -> int:
        """Add a table over the last axes; the node where it begins."""
        if points.ndim == 0:
            return self._node(None, float(points))
        rows = points.reshape(len(points), -1)
        changes = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
        return self._span(points, [0, *changes.tolist(), len(points)])

    def _span(self, points: Floats, marks: list[int]) -> int:
        """Add the places between the first mark and the last; points change only at marks."""
        if len(marks) == 2:
            return self.table(points[marks[0]])
        middle = len(marks) // 2
        axis = len(self.lookups) - points.ndim
        node = self._node(Before(self.lookups[axis], marks[middle]), 0.0)
        self.left[node] = self._span(points, marks[: middle + 1])
        self.right[node] = self._span(points, marks[middle:])
        return node

    def _node(self, test: Test | None, value: float) -> int:
        self.tests.append(test)
        self.left.append(-1)
        self.right.append(-1)
        self.values.append(value)
        return len(self.tests) - 1
