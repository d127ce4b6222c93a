"""What the kernels that bound boxes read and write.

A query's box becomes *open cells*: per feature the cells that it meets, in the order of what the network sees; boxes
inside it are ranges of places among these. Of an interval, a place also stands for the numbers from its own value up to
the next one in the query's box, both included: so neighbouring boxes touch, and nothing between them is left out. Such
a place has a *gap*. A :class:`NetworkWorkspace` is the memory of one thread. Boxes go through
the kernels side by side, `LANES` at a time, each in a lane of its own: the innermost loop of every sum runs over
lanes, which are next to each other in memory, so that one instruction serves several boxes. :class:`BoundResults` says
for every box whether it is closed, open, a single point, shows a counterfactual, or has only gaps left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, Points
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.jit import kernel, kernel_helper
from ironrule.rule.box import Box

# What is known of a box: no desired point; undecided; a single point for the model to decide; a counterfactual seen;
# undecided, with nothing left to cut but gaps.
STATUS_CLOSED, STATUS_OPEN, STATUS_POINT, STATUS_FOUND, STATUS_GAP = 0, 1, 2, 3, 4
NO_CUT, NO_CUT_IN_GAP = -1, -2  # in place of a feature to cut: the box is a single point; it has gaps alone
LANES = 16  # sixteen doubles fill whole vector registers


class OpenCells(NamedTuple):
    """The box of a query: per feature its open cells, in the order that parts of the box are ranges of."""

    starts: Int64Array  # per feature, where its open cells begin; a place is counted from there
    cells: Int64Array  # per open cell, its number within the feature
    values: Float64Array  # per open cell, what a scaled number is there
    next_cells: Int64Array  # per open cell, the cell at the other end of its gap; itself where it has none
    low_cells: Int64Array  # per open cell, where a scaled number is least in a range of places that begins here
    high_cells: Int64Array  # the same, where it is most in a range that ends here

    @property
    def have_gaps(self) -> bool:
        """Whether some place has a gap."""
        return not np.array_equal(self.next_cells, self.cells)


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
    multipliers: Float64Array  # per unit, what its sum is multiplied with, where its sign is known, and then added
    unit_sums: Float64Array  # per unit, its sum at a point, on the lines
    kept_coefficients: Float64Array  # per unit, what stands before its activation in the last bound
    coefficients: Float64Array  # per unit of one layer: the linear function that is traced back
    next_coefficients: Float64Array  # the same for the layer before, while it is computed
    looseness: Float64Array  # per unit of one layer, what a bound loses per width of its sum
    sums: Float64Array  # per unit of one layer, its sum where the last bound is reached
    values: Float64Array  # its output there, on the lines
    slopes: Float64Array  # per feature, its factor in the linear function; later what its range costs
    row_products: Float64Array  # per row of the tables, what it adds to the linear function
    maximum_cell: Int64Array  # per feature, the cell where the last bound is reached
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
    low, high, below, below_at, above, above_at, signs, at, given = np.zeros((9, units, LANES))
    now, then, flow, sums, values = np.zeros((5, widest, LANES))
    total, error, bound, least = np.zeros((4, LANES))
    point_sums, point_values = np.zeros((2, widest))
    return NetworkWorkspace(
        first, last, at_first, at_last, low, high, below, below_at, above, above_at, signs, at, given, now, then, flow,
        sums, values, slopes, np.zeros((len(net.table), LANES)), best, np.zeros(LANES, np.int64), total, error, bound,
        least, np.zeros(features, np.int64), point_sums, point_values,
    )  # fmt: skip


@kernel
def _list_open_cells(
    net: CompiledNetwork,
    low: Points,
    high: Points,
    met: BoolArray,
    ends: Int64Array,
    open_cells: OpenCells,
) -> int:
    """List, per feature, the cells that hold some code of the box, with their values and the ends of their gaps.

    Returns how many there are; `met` and `ends` have an entry per cell, false and minus one.
    """
    count, starts, cells, values = 0, open_cells.starts, open_cells.cells, open_cells.values
    for j in range(low.shape[0]):
        first, last = net.cells.cell_starts[j], net.cells.cell_starts[j + 1]
        # First mark the cells of all codes of the range: cells need not follow the order of codes. Then list the marked
        # cells in the order of their numbers, so that places rise with what the network sees.
        for code in range(low[j], high[j] + 1):
            at = net.cells.code_starts[j] + code
            met[first + net.cells.cell_by_code[at]] = True
            # A gap counts if the box has both of its ends. What the network sees rises or falls with the codes, so
            # that a cell has one gap at the most.
            if code < high[j] and net.gap_after[at]:
                ends[first + net.cells.cell_by_code[at]] = net.cells.cell_by_code[at + 1]
        for place in range(first, last):
            if met[place]:
                cells[count] = place - first
                values[count] = net.cell_values[place]
                open_cells.next_cells[count] = place - first if ends[place] < 0 else ends[place]
                count += 1
        starts[j + 1] = count
        _list_range_ends(net, open_cells, j)
    return count


@kernel_helper
def _list_range_ends(net: CompiledNetwork, open_cells: OpenCells, j: int) -> None:
    """Where a scaled number is least in a range that begins at each place, and most in one that ends there."""
    first, end, start = open_cells.starts[j], open_cells.starts[j + 1], net.cells.cell_starts[j]
    # A gap may reach over other places: missing may be seen as a number inside it. So the least and the most of all
    # places from here on, or up to here, are taken. Cells of a scaled number are in the order of its values.
    most = np.int64(0)
    for place in range(first, end):
        most = max(most, open_cells.cells[place], open_cells.next_cells[place])
        open_cells.high_cells[place] = most
    least = net.cells.cell_starts[j + 1] - start
    for place in range(end - 1, first - 1, -1):
        least = min(least, open_cells.cells[place], open_cells.next_cells[place])
        open_cells.low_cells[place] = least


def find_open_cells(net: CompiledNetwork, box: Box) -> OpenCells:
    """The cells that a box of codes meets."""
    every = int(net.cells.cell_starts[-1])
    starts, values, (cells, *ends) = (
        np.zeros(len(box.low) + 1, np.int64),
        np.empty(every),
        np.empty((4, every), np.int64),
    )
    met, gap_ends = np.zeros(every, np.bool_), np.full(every, -1, np.int64)
    count = _list_open_cells(net, box.low, box.high, met, gap_ends, OpenCells(starts, cells, values, *ends))
    return OpenCells(starts, cells[:count], values[:count], *(cells[:count] for cells in ends))


def find_open_values(net: CompiledNetwork, box: Box) -> OpenCells:
    """The same without gaps: the values of the domains alone."""
    return find_open_cells(net._replace(gap_after=np.zeros_like(net.gap_after)), box)


class BoundResults(NamedTuple):
    """What was found for each of some boxes, one row per box."""

    status: Int64Array  # one of the five above
    cuts: Int64Array  # the feature to cut, or NO_CUT or NO_CUT_IN_GAP, and the last place of its first part
    points: Int64Array  # the cells of the point where the bound is reached
