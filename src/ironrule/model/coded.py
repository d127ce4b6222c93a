"""Trees over a feature's codes themselves, instead of over the columns that a model sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.reading import Floats, Mask, Test, Tree


@dataclass(frozen=True, slots=True)
class Among:
    """A test on a feature itself that knows its answer for every code."""

    feature: int
    answers: bytes
    column: int = -1  # none that the model sees

    def goes_left(self, values: npt.NDArray[Any]) -> Mask:  # noqa: ARG002  # answered by position
        """Which codes go left."""
        return np.frombuffer(self.answers, dtype=np.bool_)


def table_tree(feature: int, values: Floats) -> Tree:
    """The tree that gives every code of a feature its value; equal values share a leaf."""
    distinct, places = np.unique(values, return_inverse=True)
    tests: list[Test | None] = []
    left: list[int] = []
    right: list[int] = []
    value: list[float] = []
    pending = [(0, len(distinct), left, -1)]  # which values, and where their node is to be entered
    while pending:
        start, end, side, parent = pending.pop()
        middle, leaf = (start + end) // 2, end - start == 1
        if parent >= 0:
            side[parent] = len(tests)
        tests.append(None if leaf else Among(feature, ((places >= start) & (places < middle)).ravel().tobytes()))
        value.append(float(distinct[start]) if leaf else 0.0)
        if not leaf:
            pending += [(middle, end, right, len(left)), (start, middle, left, len(left))]
        left.append(-1)
        right.append(-1)
    return Tree(tuple(tests), np.array(left, dtype=np.int32), np.array(right, dtype=np.int32), np.array(value))
