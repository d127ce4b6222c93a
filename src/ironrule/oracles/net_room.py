"""What the kernels that bound boxes work on: the box of a question, and room for some boxes that are bounded at once.

Boxes go through the kernels side by side, `LANES` at a time, each in a lane of its own: the innermost loop of every
sum runs over lanes, which are next to each other in memory, so that one instruction serves several boxes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model.net import Net

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLOSED, OPEN, POINT, FOUND = 0, 1, 2, 3
LANES = 16


class Opened(NamedTuple):
    """The box of a question: per feature its open cells, in the order that parts of the box are ranges of."""

    starts: Ints
    cells: Ints
    values: Floats  # what a scaled number is there


class Room(NamedTuple):
    """Room for one thread; all but what belongs to a point has a column per lane."""

    first: Ints  # per feature, the box: its first and its last place
    last: Ints
    at_first: Floats  # per feature, what a scaled number is at either
    at_last: Floats
    low: Floats  # per unit, bounds of its sum
    high: Floats
    below: Floats  # per unit, the line below its activation: slope and value at zero
    below_at: Floats
    above: Floats
    above_at: Floats
    given: Floats  # per unit, what stands before its activation in the last bound
    now: Floats  # as long as the widest layer
    then: Floats
    flow: Floats
    sums: Floats
    values: Floats
    slopes: Floats  # per feature
    rows: Floats  # per row of the tables
    best: Ints  # per feature, the place where the last bound is reached
    margin: Ints  # which margin is bounded
    total: Floats
    error: Floats
    bound: Floats
    least: Floats
    cells: Ints  # a point
    point_sums: Floats
    point_values: Floats


def room_for(net: Net, features: int) -> Room:
    """Room for one thread."""
    units, widest = int(net.unit_starts[-1]), int(net.widths.max())
    first, last, best = np.zeros((3, features, LANES), dtype=np.int64)
    at_first, at_last, slopes = np.zeros((3, features, LANES))
    low, high, below, below_at, above, above_at, given = np.zeros((7, units, LANES))
    now, then, flow, sums, values = np.zeros((5, widest, LANES))
    total, error, bound, least = np.zeros((4, LANES))
    point_sums, point_values = np.zeros((2, widest))
    return Room(
        first, last, at_first, at_last, low, high, below, below_at, above, above_at, given, now, then, flow, sums,
        values, slopes, np.zeros((len(net.table), LANES)), best, np.zeros(LANES, np.int64), total, error, bound, least,
        np.zeros(features, np.int64), point_sums, point_values,
    )  # fmt: skip
