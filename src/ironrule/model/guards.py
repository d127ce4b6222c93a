"""Constraints on the space as trees: what cannot occur has the value minus infinity.

Added to a sum that must be positive, such a tree guards it: where a point breaks a constraint the sum is minus
infinity, elsewhere it is as it was. So search and proof need to know nothing about constraints. Features that
constraints tie together are looked at as one table over all their combinations, cut along one feature after the other,
equal slices together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.model.coded import Within
from ironrule.model.reading import Test, Tree, Unreadable
from ironrule.space import Feasible

MOST_COMBINATIONS = 20_000_000
MOST_LEAVES = 20_000
CHUNK = 1 << 18

Mask = npt.NDArray[np.bool_]


def guards(feasible: Feasible) -> tuple[Tree, ...]:
    """One tree for every group of features that constraints tie together; raises Unreadable if one is too large."""
    return tuple(_guard(feasible, group.columns) for group in feasible.groups)


def _guard(feasible: Feasible, columns: tuple[int, ...]) -> Tree:
    shape = tuple(feasible.sizes[j] for j in columns)
    if math.prod(shape) > MOST_COMBINATIONS:
        raise Unreadable(
            f"the constraints tie {len(columns)} features together with {math.prod(shape):,} combinations, and up to "
            f"{MOST_COMBINATIONS:,} are read"
        )
    order = sorted(range(len(columns)), key=lambda place: shape[place])
    admitted = _admitted(feasible, columns, shape).transpose(order)
    return _Grower(feasible.sizes, [columns[place] for place in order]).grown(admitted)


def _admitted(feasible: Feasible, columns: tuple[int, ...], shape: tuple[int, ...]) -> Mask:
    """Which combinations satisfy the constraints that speak of these features."""
    concerned = [predicate for predicate in feasible.predicates if set(predicate.columns) & set(columns)]
    admitted = np.ones(math.prod(shape), dtype=np.bool_)
    for start in range(0, len(admitted), CHUNK):
        here = np.arange(start, min(start + CHUNK, len(admitted)))
        points = np.zeros((len(here), len(feasible.sizes)), dtype=np.int32)
        points[:, columns] = np.stack(np.unravel_index(here, shape), axis=1)
        for predicate in concerned:
            admitted[here] &= predicate(points, feasible.instance)
    return admitted.reshape(shape)


@dataclass(slots=True)
class _Grower:
    """Grows a tree; every node comes before its children."""

    sizes: Sequence[int]
    columns: list[int]
    tests: list[Test | None] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def grown(self, admitted: Mask) -> Tree:
        self._grow(admitted, 0)
        left, right = (np.array(children, dtype=np.int32) for children in (self.left, self.right))
        return Tree(tuple(self.tests), left, right, np.array(self.value))

    def _grow(self, admitted: Mask, depth: int) -> int:
        """The tree of a table over the features from a depth on; the place of its root."""
        if admitted.all() or not admitted.any():
            return self._node(None, 0.0 if admitted.all() else -np.inf)
        slices, places = np.unique(admitted.reshape(len(admitted), -1), axis=0, return_inverse=True)
        if len(self.tests) > MOST_LEAVES:
            raise Unreadable("the constraints on the space are too intricate to read")
        return self._divide(slices, places.ravel(), 0, len(slices), admitted.shape[1:], depth)

    def _divide(
        self, slices: Mask, places: npt.NDArray[np.intp], start: int, end: int, shape: tuple[int, ...], depth: int
    ) -> int:
        """A balanced tree over slices, each with the tree of what it holds."""
        if end - start == 1:
            return self._grow(slices[start].reshape(shape), depth + 1) if shape else self._grow(slices[start], depth)
        middle = (start + end) // 2
        node = self._node(Within(self.columns[depth], places, start, middle), 0.0)
        self.left[node] = self._divide(slices, places, start, middle, shape, depth)
        self.right[node] = self._divide(slices, places, middle, end, shape, depth)
        return node

    def _node(self, test: Test | None, value: float) -> int:
        self.tests.append(test)
        self.left.append(-1)
        self.right.append(-1)
        self.value.append(value)
        return len(self.tests) - 1
