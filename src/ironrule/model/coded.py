"""Trees over a feature's codes themselves, instead of over the columns that a model sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.reading import Floats, Mask, Test, Tree


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """A test of a feature's codes by their places in an order: those from ``start`` on and before ``end`` go left."""

    feature: int
    places: npt.NDArray[np.intp]  # per code; shared by all tests of a tree
    start: int
    end: int
    column: int = -1  # none that the model sees

    def goes_left(self, values: npt.NDArray[Any]) -> Mask:  # noqa: ARG002  # answered by position
        """Which codes go left."""
        return np.asarray((self.places >= self.start) & (self.places < self.end))


def table_tree(feature: int, values: Floats) -> Tree:
    """The tree that gives every code of a feature its value; equal values share a leaf."""
    distinct, places = np.unique(values, return_inverse=True)
    return class_tree(feature, distinct, places.ravel())


def class_tree(feature: int, values: Floats, places: npt.NDArray[np.intp]) -> Tree:
    """A balanced tree over a feature's codes with a leaf for every class; ``places`` has the class of every code."""
    tests: list[Test | None] = []
    left: list[int] = []
    right: list[int] = []
    results: list[float] = []
    pending = [(0, len(values), -1)]
    for start, end, parent in pending:  # which grows on the way
        node = len(tests)
        if parent >= 0 and left[parent] == 0:
            left[parent] = node
        elif parent >= 0:
            right[parent] = node
        leaf, middle = end - start == 1, (start + end) // 2
        tests.append(None if leaf else Within(feature, places, start, middle))
        left.append(-1 if leaf else 0)
        right.append(-1 if leaf else 0)
        results.append(float(values[start]) if leaf else 0.0)
        pending += [] if leaf else [(start, middle, node), (middle, end, node)]
    return Tree(tuple(tests), np.array(left, dtype=np.int32), np.array(right, dtype=np.int32), np.array(results))
