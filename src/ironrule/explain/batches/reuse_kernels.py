"""Which of many boxes hold a point: a walk over boxes that leaves each at the first feature that excludes the point."""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import Integers, kernel, part


@part
def _holds(low: Any, high: Any, point: Any) -> bool:
    j = 0
    while j < point.size and low[j] <= point[j] <= high[j]:
        j += 1
    return bool(j == point.size)


@kernel
def shortest_holding(points: Any, low: Any, high: Any, lengths: Integers) -> Integers:
    """Per point, the place of the box of least length that holds it, the first of those; -1 if none does."""
    found = np.full(points.shape[0], -1, np.int64)
    for r in range(points.shape[0]):
        for place in range(lengths.size):
            shorter = found[r] < 0 or lengths[place] < lengths[found[r]]
            if shorter and _holds(low[place], high[place], points[r]):
                found[r] = place
    return found
