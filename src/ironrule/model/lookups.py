"""Tables of points as trees: what one column adds by its bin, or two together by both their bins.

Neighbouring places with the same points are one leaf, so that a search has no more to tell apart than the model has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Between:
    """A test: places from ``start`` on and before ``end`` go left."""

    lookup: Lookup
    start: int
    end: int

    @property
    def column(self) -> int:
        """The column's position."""
        return self.lookup.column

    def goes_left(self, values: npt.NDArray[Any]) -> Mask:
        """Which of these values of the column go left."""
        places = self.lookup.places(values)
        return np.asarray((places >= self.start) & (places < self.end), dtype=np.bool_)


def tree_of(lookups: Sequence[Lookup], points: Floats) -> Tree:
    """The tree of a table with one axis per column: halves of the first axis, then of the next."""
    tests: list[Test | None] = []
    left: list[int] = []
    right: list[int] = []
    values: list[float] = []
    waiting = [(tuple((0, size) for size in points.shape), left, -1)]
    for ranges, side, parent in waiting:  # which grows on the way
        if parent >= 0:
            side[parent] = len(tests)
        here = points[tuple(slice(*ends) for ends in ranges)]
        cut = _cut(here)
        left.append(-1)
        right.append(-1)
        values.append(float(here.flat[0]) if cut is None else 0.0)
        if cut is None:
            tests.append(None)
            continue
        axis, middle = cut
        start, end = ranges[axis]
        tests.append(Between(lookups[axis], start, start + middle))
        halves = ((start, start + middle), (start + middle, end))
        low, high = ((*ranges[:axis], half, *ranges[axis + 1 :]) for half in halves)
        waiting += [(low, left, len(tests) - 1), (high, right, len(tests) - 1)]
    return Tree(tuple(tests), np.array(left, np.int32), np.array(right, np.int32), np.array(values))


def _cut(points: Floats) -> tuple[int, int] | None:
    """The first axis along which points change, and the middle one of the places where they do; None if all are one."""
    for axis in range(points.ndim):
        along = np.moveaxis(points, axis, 0).reshape(points.shape[axis], -1)
        changes = np.flatnonzero((along[1:] != along[:-1]).any(axis=1)) + 1
        if len(changes):
            return axis, int(changes[len(changes) // 2])
    return None
