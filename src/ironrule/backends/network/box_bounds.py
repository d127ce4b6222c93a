"""Bound boxes and decide them: closed, to be cut further, or a counterfactual seen on the way.

Where the bound of the tightest margin does not close a box, better relaxations are tried a few times. The point where
the last bound is reached is a good candidate for a counterfactual. An open box is cut in the middle of one feature: the
one that widens most those sums whose lines lie far from their activations. :func:`bound_on_cores` spreads boxes over
threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ironrule.arrays import Int64Array
from ironrule.backends.network.bound_propagation import (
    bound_first_layer,
    bound_hidden_layer,
    bound_margin,
    optimize_relaxation,
    relax_layer,
)
from ironrule.backends.network.compile import CompiledNetwork, compute_first_layer, compute_least_margin, run_forward
from ironrule.backends.network.workspace import (
    LANES,
    NO_CUT,
    NO_CUT_IN_GAP,
    STATUS_CLOSED,
    STATUS_FOUND,
    STATUS_GAP,
    STATUS_OPEN,
    STATUS_POINT,
    BoundResults,
    NetworkWorkspace,
    OpenCells,
    allocate_network_workspace,
)
from ironrule.backends.parallel import count_cores, run_parallel
from ironrule.jit import kernel, kernel_helper


@kernel_helper
def propagate_looseness(net: CompiledNetwork, workspace: NetworkWorkspace) -> None:
    """Write to `looseness`, per unit of the first layer, what the last bound loses per width of its sum's interval."""
    looseness, then, layers = workspace.looseness, workspace.next_coefficients, net.widths.shape[0]
    # At the last layer nothing flows in from behind.
    for i in range(net.widths[layers - 1]):
        for lane in range(LANES):
            looseness[i, lane] = 0.0
    # From the last layer to the first. Invariant: when layer k is done, `looseness[i]` is what the bound loses per unit
    # of width of the sum of its unit i, by the lines of this layer and of all behind it.
    for back in range(layers):
        k = layers - 1 - back
        start, width = net.unit_starts[k], net.widths[k]
        for i in range(width):
            _add_looseness(workspace, start + i, i)
        if k > 0:
            # A sum is at most as wide as its inputs times the sizes of their weights: go back through |weights|.
            inputs, at = net.widths[k - 1], net.weight_starts[k - 1]
            for h in range(inputs):
                for lane in range(LANES):
                    then[h, lane] = 0.0
            for i in range(width):
                for h in range(inputs):
                    weight = abs(net.weights[at + i * inputs + h])
                    for lane in range(LANES):
                        then[h, lane] += weight * looseness[i, lane]
            for h in range(inputs):
                for lane in range(LANES):
                    looseness[h, lane] = then[h, lane]


@kernel_helper
def _add_looseness(workspace: NetworkWorkspace, unit: int, i: int) -> None:
    """Turn the looseness of a unit's output into that of its sum: what its own lines lose comes on top."""
    looseness, given, lows, highs = workspace.looseness, workspace.kept_coefficients, workspace.low, workspace.high
    above, above_at = workspace.upper_slope, workspace.upper_intercept
    below, below_at = workspace.lower_slope, workspace.lower_intercept
    # Own loss: the gap between the two lines in the middle of the interval, times the size of the coefficient, per
    # width. What flows in from behind passes the unit with the steeper of its two lines.
    for lane in range(LANES):
        low, high = lows[unit, lane], highs[unit, lane]
        gap = (above[unit, lane] - below[unit, lane]) * (0.5 * (low + high)) + above_at[unit, lane]
        own = abs(given[unit, lane]) * abs(gap - below_at[unit, lane]) / max(high - low, 1e-12)
        looseness[i, lane] = own + looseness[i, lane] * max(above[unit, lane], below[unit, lane])


@kernel_helper
def score_features(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """Write to `slopes`, per feature, how much its range contributes to the looseness of the bound."""
    # `slopes` is free here: the bounds are done. The cost of a feature is how much it widens the first layer's sums,
    # each weighted with its looseness. It only decides where to cut, so rounding does not matter.
    cost = workspace.slopes
    for j in range(cost.shape[0]):
        for lane in range(LANES):
            cost[j, lane] = 0.0
        if net.is_linear[j]:
            for h in range(net.base.shape[0]):
                size = abs(net.direction[j, h])
                for lane in range(LANES):
                    cost[j, lane] += workspace.looseness[h, lane] * size
            for lane in range(LANES):
                cost[j, lane] *= workspace.at_last[j, lane] - workspace.at_first[j, lane]
        else:
            _score_table_feature(net, open_cells, j, workspace)


@kernel_helper
def _score_table_feature(net: CompiledNetwork, open_cells: OpenCells, j: int, workspace: NetworkWorkspace) -> None:
    """Add to `slopes` how much the range of a feature with a table contributes."""
    start, row = open_cells.starts[j], net.table_starts[j]
    for lane in range(LANES):
        for h in range(net.base.shape[0]):
            # How far the cells of the lane's range are apart in this unit's sum.
            least, most = np.inf, -np.inf
            for place in range(start + workspace.first[j, lane], start + workspace.last[j, lane] + 1):
                value, end = (
                    net.table[row + open_cells.cells[place], h],
                    net.table[row + open_cells.next_cells[place], h],
                )
                least, most = min(least, value, end), max(most, value, end)
            workspace.slopes[j, lane] += workspace.looseness[h, lane] * (most - least)


@kernel_helper
def choose_cut(net: CompiledNetwork, open_cells: OpenCells, lane: int, workspace: NetworkWorkspace) -> tuple[int, int]:
    """The feature whose range costs most, and the last place of its first part.

    NO_CUT if the box is a point, NO_CUT_IN_GAP if all that is left of it is gaps.
    """
    feature, most, first, last = NO_CUT, -1.0, workspace.first, workspace.last
    # Features with one place left cannot be cut. `feature < 0` takes the first of the others even if its cost is not a
    # number, so that a box that is no point is always cut.
    for j in range(workspace.slopes.shape[0]):
        if first[j, lane] < last[j, lane] and (feature < 0 or workspace.slopes[j, lane] > most):
            feature, most = j, workspace.slopes[j, lane]
    if feature < 0:
        for j in range(workspace.slopes.shape[0]):
            here = open_cells.starts[j] + first[j, lane]
            if open_cells.next_cells[here] != open_cells.cells[here]:
                return NO_CUT_IN_GAP, -1
        return NO_CUT, -1
    return feature, _find_midpoint(net, open_cells, feature, first[feature, lane], last[feature, lane])


@kernel_helper
def _find_midpoint(net: CompiledNetwork, open_cells: OpenCells, feature: int, first: int, last: int) -> int:
    """The last place of the first part: up to the middle value of a scaled number, half of the cells of others."""
    start = open_cells.starts[feature]
    if not net.is_linear[feature]:
        return int((first + last) // 2)
    middle = 0.5 * (open_cells.values[start + first] + open_cells.values[start + last])
    # Bisection for the last place whose value is at most the middle. The result is at least the old `first` and less
    # than the old `last`, so neither part is empty.
    while first < last - 1:
        place = (first + last) // 2
        if open_cells.values[start + place] <= middle:
            first = place
        else:
            last = place
    return int(first)


# Steps to better lines: how many, the length of the first, and the factor from one length to the next.
LINE_STEPS, FIRST_STEP, STEP_DECAY = 4, 0.5, 0.7


@kernel_helper
def load_boxes(
    net: CompiledNetwork,
    open_cells: OpenCells,
    lows: Int64Array,
    highs: Int64Array,
    row: int,
    workspace: NetworkWorkspace,
) -> None:
    """Load one box into every lane, from a row on; lanes beyond the last box get the last one."""
    for lane in range(LANES):
        # Lanes beyond the last box repeat it; their results are ignored.
        own = min(row + lane, lows.shape[0] - 1)
        for j in range(lows.shape[1]):
            first, last = lows[own, j], highs[own, j]
            workspace.first[j, lane], workspace.last[j, lane] = first, last
            start, values = open_cells.starts[j], net.cells.cell_starts[j]
            workspace.at_first[j, lane] = net.cell_values[values + open_cells.low_cells[start + first]]
            workspace.at_last[j, lane] = net.cell_values[values + open_cells.high_cells[start + last]]


@kernel_helper
def relax_network(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """Compute the lines of all activations, and the bounds of sums that they need, for the boxes in the lanes."""
    bound_first_layer(net, open_cells, workspace)
    relax_layer(net, 0, workspace)
    # Lines of a layer need bounds of its sums, and these need the lines of all layers before it. An identity has the
    # same line on every interval, so its sums need no bounds.
    for layer in range(1, net.widths.shape[0]):
        if net.activations[layer] != 0:
            bound_hidden_layer(net, open_cells, layer, workspace)
        relax_layer(net, layer, workspace)


@kernel_helper
def bound_tightest_margin(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """Write to `least` the smallest bound among every lane's margins, and to `margin` which one has it.

    That margin is bounded last, so that what the bound keeps belongs to it.
    """
    for lane in range(LANES):
        workspace.least[lane] = np.inf
    tightest = np.zeros(LANES, np.int64)
    # A desired point needs all margins positive, so one margin whose bound is not positive closes the box.
    for margin in range(net.offset.shape[0]):
        for lane in range(LANES):
            workspace.margin[lane] = margin
        bound_margin(net, open_cells, workspace)
        for lane in range(LANES):
            if workspace.bound[lane] < workspace.least[lane]:
                tightest[lane], workspace.least[lane] = margin, workspace.bound[lane]
    for lane in range(LANES):
        workspace.margin[lane] = tightest[lane]
    # Bound the tightest margin once more, so that what is kept belongs to it; a single one was bounded last already.
    if net.offset.shape[0] > 1:
        bound_margin(net, open_cells, workspace)


@kernel_helper
def are_all_closed(workspace: NetworkWorkspace) -> bool:
    """Whether the bounds of all lanes are at most zero."""
    closed = True
    for lane in range(LANES):
        closed = closed and workspace.least[lane] <= 0.0
    return closed


@kernel_helper
def tighten_bounds(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """Lower `least` with better lines, until all lanes are closed or the steps are done."""
    step = FIRST_STEP
    # Bounds hold for all lines, so the smallest of all steps counts. A step may make a lane's bound worse.
    for _ in range(LINE_STEPS):
        if are_all_closed(workspace):
            return
        optimize_relaxation(net, workspace, step)
        bound_margin(net, open_cells, workspace)
        for lane in range(LANES):
            workspace.least[lane] = min(workspace.least[lane], workspace.bound[lane])
        step *= STEP_DECAY


@kernel_helper
def classify_open_box(
    net: CompiledNetwork,
    open_cells: OpenCells,
    lane: int,
    workspace: NetworkWorkspace,
    cut: Int64Array,
    point: Int64Array,
) -> int:
    """The status of a box that no bound closes; writes the cells where its bound is reached, and where to cut it."""
    # The point where the bound is reached is a candidate: evaluate the network itself there.
    for j in range(point.shape[0]):
        point[j] = workspace.maximum_cell[j, lane]
    compute_first_layer(net, point, workspace.point_sums)
    run_forward(net, workspace.point_sums, workspace.point_values)
    most, sure = compute_least_margin(net, workspace.point_values)
    feature, place = choose_cut(net, open_cells, lane, workspace)
    cut[0], cut[1] = feature, place
    # `sure` has the slack taken away and `most` has it added: in between, only the model itself can decide. A
    # single point cannot be cut: it is closed if `most` is not positive, and otherwise put to the model. Where gaps are
    # left, no point speaks for all numbers in them.
    if sure > 0.0:
        return STATUS_FOUND
    if feature >= 0:
        return STATUS_OPEN
    if feature == NO_CUT_IN_GAP:
        return STATUS_GAP
    return STATUS_POINT if most > 0.0 else STATUS_CLOSED


@kernel
def bound_boxes(
    net: CompiledNetwork,
    open_cells: OpenCells,
    lows: Int64Array,
    highs: Int64Array,
    workspace: NetworkWorkspace,
    status: Int64Array,
    cuts: Int64Array,
    points: Int64Array,
) -> None:
    """For every box: CLOSED if some margin is surely not positive in it; FOUND with a counterfactual's cells in
    `points`; POINT if it is a single point that only the model can decide; GAP if nothing is left to cut but gaps; OPEN
    otherwise. A box that is not closed gets the cells where its bound is reached, and a feature and a place to cut.
    """
    count = lows.shape[0]
    # Sixteen boxes at a time, one per lane: lines, bounds, better lines, and where to cut those that stay open.
    for row in range(0, count, LANES):
        load_boxes(net, open_cells, lows, highs, row, workspace)
        relax_network(net, open_cells, workspace)
        bound_tightest_margin(net, open_cells, workspace)
        tighten_bounds(net, open_cells, workspace)
        if not are_all_closed(workspace):
            propagate_looseness(net, workspace)
            score_features(net, open_cells, workspace)
        for lane in range(min(LANES, count - row)):
            own = row + lane
            if workspace.least[lane] <= 0.0:
                status[own] = STATUS_CLOSED
            else:
                status[own] = classify_open_box(net, open_cells, lane, workspace, cuts[own], points[own])


MIN_BOXES_PER_THREAD = 16  # boxes that are not worth a second thread


def bound_on_cores(net: CompiledNetwork, open_cells: OpenCells, low: Int64Array, high: Int64Array) -> BoundResults:
    """Bound boxes, on all cores."""
    count, n = low.shape
    outcome = BoundResults(np.zeros(count, np.int64), np.zeros((count, 2), np.int64), np.zeros((count, n), np.int64))
    # Equal slices, one per thread. Every thread has its own workspace and writes to its own rows of the results.
    threads = min(count_cores(), -(-count // MIN_BOXES_PER_THREAD))
    slices = [slice(count * i // threads, count * (i + 1) // threads) for i in range(threads)]

    def run(some: slice) -> Callable[[], None]:
        arrays = [array[some] for array in outcome]
        return lambda: bound_boxes(net, open_cells, low[some], high[some], allocate_network_workspace(net, n), *arrays)

    run_parallel([run(some) for some in slices])
    return outcome
