"""A priority queue of parts of a network's box, the one with the least bound first."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import AnyArray, Float64Array, Int64Array


@dataclass(slots=True, eq=False)
class Parts:
    """Some parts, one row each."""

    bound: Float64Array  # what a counterfactual in it costs at least
    low: Int64Array  # per feature, the first and the last place
    high: Int64Array
    phases: Int64Array  # per unit, the side of zero of its sum, or 0
    multipliers: Float64Array  # per unit, the best that were found for the part or for one that it is cut from
    slopes: Float64Array  # the same for slopes of lines; NaN where there is none

    @classmethod
    def allocate(cls, count: int, features: int, units: int) -> Parts:
        """Room for so many parts."""
        low, high = np.zeros((2, count, features), np.int64)
        multipliers, slopes = np.zeros((count, units)), np.full((count, units), np.nan)
        phases = np.zeros((count, units), np.int64)
        return cls(np.zeros(count), low, high, phases, multipliers=multipliers, slopes=slopes)

    @property
    def arrays(self) -> tuple[AnyArray, ...]:
        """All arrays."""
        return self.bound, self.low, self.high, self.phases, self.multipliers, self.slopes

    def select(self, rows: Int64Array) -> Parts:
        """Copies of some rows."""
        return Parts(*(array[rows] for array in self.arrays))


@dataclass(slots=True, eq=False)
class PartQueue:
    """The parts that wait, by their lower bound; rows of parts that have been taken are used again."""

    parts: Parts
    heap: list[tuple[float, int, int]] = field(default_factory=list)  # bound, order of arrival, row
    free: list[int] = field(default_factory=list)
    pushed: int = 0  # parts with the same bound are taken in this order

    @property
    def bound(self) -> float:
        """The least bound of all that waits."""
        return self.heap[0][0] if self.heap else math.inf

    def push(self, part: Parts) -> None:
        """Add a part, given as one row."""
        if not self.free:
            rows = len(self.parts.bound)
            more = Parts.allocate(max(rows, 64), self.parts.low.shape[1], self.parts.phases.shape[1])
            pairs = zip(self.parts.arrays, more.arrays, strict=True)
            self.parts = Parts(*(np.concatenate(pair) for pair in pairs))
            self.free = list(range(len(self.parts.bound) - 1, rows - 1, -1))
        row = self.free.pop()
        for array, own in zip(self.parts.arrays, part.arrays, strict=True):
            array[row] = own[0]
        self.pushed += 1
        heapq.heappush(self.heap, (float(part.bound[0]), self.pushed, row))

    def take(self, most: int, limit: float) -> Parts:
        """Take the parts with the least bounds, of those below the limit."""
        rows = list[int]()
        while self.heap and len(rows) < most and self.heap[0][0] < limit:
            rows.append(heapq.heappop(self.heap)[2])
        self.free += rows
        return self.parts.select(np.array(rows, dtype=np.int64))
