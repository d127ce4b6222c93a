"""Several counterfactuals from a search that finds one: further ones are sought where the duals of those found are
excluded, so that all are disjoint and every hitting set needs one component for each.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter


class Finding(Protocol):
    """A search for one counterfactual in a box, which ends early."""

    def __call__(self, case: Case, box: Box, meter: Meter, rng: np.random.Generator, /) -> object:
        """A point, or anything else if it has found none."""
        ...


def several(
    first: Points, find: Finding, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator
) -> Points:
    """A counterfactual and up to k - 1 more whose duals are disjoint."""
    found, here = [first], box
    while len(found) < k:
        here = _without(case, here, found[-1])
        if (here.low > here.high).any():  # a box without the instance need not hold what satisfies a dual
            break
        another = find(case, here, meter, rng)
        if not isinstance(another, np.ndarray):
            break
        found.append(another)
    return np.stack(found)


def _without(case: Case, box: Box, point: Points) -> Box:
    """The part of a box that satisfies every component of the point's dual."""
    relevant = case.relevant
    doubled = np.repeat(point, 2)
    false = (doubled < relevant.low) | (doubled > relevant.high)
    low = np.where(false, relevant.low, 0).reshape(-1, 2).max(axis=1)
    high = np.where(false, relevant.high, np.iinfo(np.int32).max).reshape(-1, 2).min(axis=1)
    return Box(np.maximum(box.low, low).astype(np.int32), np.minimum(box.high, high).astype(np.int32))
