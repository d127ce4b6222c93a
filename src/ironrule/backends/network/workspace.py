"""What the kernels that bound boxes read and write.

A query's box becomes *open cells*: per feature the cells that it meets, in the order of what the network sees; boxes
inside it are ranges of places among these. A :class:`NetworkWorkspace` is the memory of one thread. Boxes go through
the kernels side by side, `LANES` at a time, each in a lane of its own: the innermost loop of every sum runs over
lanes, which are next to each other in memory, so that one instruction serves several boxes. :class:`BoundResults` says
for every box whether it is closed, open, a single point, or shows a counterfactual.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, Points
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.jit import kernel
from ironrule.rule.box import Box

# What is known of a box: no desired point; undecided; a single point for the model to decide; a counterfactual seen.
STATUS_CLOSED, STATUS_OPEN, STATUS_POINT, STATUS_FOUND = 0, 1, 2, 3
LANES = 16  # sixteen doubles fill whole vector registers


class OpenCells(NamedTuple):
    """The box of a query: per feature its open cells, in the order that parts of the box are ranges of."""

    starts: Int64Array  # per feature, where its open cells begin; a place is counted from there
    cells: Int64Array  # per open cell, its number within the feature
    values: Float64Array  # per open cell, what a scaled number is there


class NetworkWorkspace(NamedTuple):
    """The memory of one thread. Arrays have a column per lane, but for the last three, which belong to one point."""

    first: Int64Array  # per feature, the box: its first and its last place
    last: Int64Array
    at_first: Float64Array  # per feature, what a scaled number is at either
    at_last: Float64Array
    low: Float64Array  # per unit, bounds of its sum
    high: Float64Array
    lower_slope: Float64Array  # per unit, the line below its activation: slope and value at zero
    lower_intercept: Float64Array
    upper_slope: Float64Array
    upper_intercept: Float64Array
    kept_coefficients: Float64Array  # per unit, what stands before its activation in the last bound
    coefficients: Float64Array  # per unit of one layer: the linear function that is traced back
    next_coefficients: Float64Array  # the same for the layer before, while it is computed
    looseness: Float64Array  # per unit of one layer, what a bound loses per width of its sum
    sums: Float64Array  # per unit of one layer, its sum where the last bound is reached
    values: Float64Array  # its output there, on the lines
    slopes: Float64Array  # per feature, its factor in the linear function; later what its range costs
    row_products: Float64Array  # per row of the tables, what it adds to the linear function
    maximum_place: Int64Array  # per feature, the place where the last bound is reached
    margin: Int64Array  # which margin is bounded
    total: Float64Array  # the constant part of the linear function so far
    error: Float64Array  # the sizes of all that was added; times gamma, it covers rounding
    bound: Float64Array  # the last upper bound
    least: Float64Array  # the smallest upper bound so far
    cells: Int64Array  # a point
    point_sums: Float64Array
    point_values: Float64Array


def allocate_network_workspace(net: CompiledNetwork, features: int) -> NetworkWorkspace:
    """Allocate the memory of one thread, for boxes of so many features."""
    units, widest = int(net.unit_starts[-1]), int(net.widths.max())
    first, last, best = np.zeros((3, features, LANES), dtype=np.int64)
    at_first, at_last, slopes = np.zeros((3, features, LANES))
    low, high, below, below_at, above, above_at, given = np.zeros((7, units, LANES))
    now, then, flow, sums, values = np.zeros((5, widest, LANES))
    total, error, bound, least = np.zeros((4, LANES))
    point_sums, point_values = np.zeros((2, widest))
    return NetworkWorkspace(
        first, last, at_first, at_last, low, high, below, below_at, above, above_at, given, now, then, flow, sums,
        values, slopes, np.zeros((len(net.table), LANES)), best, np.zeros(LANES, np.int64), total, error, bound, least,
        np.zeros(features, np.int64), point_sums, point_values,
    )  # fmt: skip


@kernel
def _list_open_cells(
    net: CompiledNetwork,
    low: Points,
    high: Points,
    met: BoolArray,
    starts: Int64Array,
    cells: Int64Array,
    values: Float64Array,
) -> int:
    """List, per feature, the cells that hold some code of the box, with their values; returns how many there are."""
    count = 0
    for j in range(low.shape[0]):
        first, last = net.cells.cell_starts[j], net.cells.cell_starts[j + 1]
        # First mark the cells of all codes of the range: cells need not follow the order of codes. Then list the marked
        # cells in the order of their numbers, so that places rise with what the network sees.
        for code in range(low[j], high[j] + 1):
            met[first + net.cells.cell_by_code[net.cells.code_starts[j] + code]] = True
        for place in range(first, last):
            if met[place]:
                cells[count] = place - first
                values[count] = net.cell_values[place]
                count += 1
        starts[j + 1] = count
    return count


def find_open_cells(net: CompiledNetwork, box: Box) -> OpenCells:
    """The cells that a box of codes meets."""
    every = int(net.cells.cell_starts[-1])
    starts, cells, values = np.zeros(len(box.low) + 1, np.int64), np.empty(every, np.int64), np.empty(every)
    count = _list_open_cells(net, box.low, box.high, np.zeros(every, np.bool_), starts, cells, values)
    return OpenCells(starts, cells[:count], values[:count])


class BoundResults(NamedTuple):
    """What was found for each of some boxes, one row per box."""

    status: Int64Array  # one of the four above
    cuts: Int64Array  # the feature to cut, -1 for a point, and the last place of its first part
    points: Int64Array  # the cells of the point where the bound is reached
