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
    STATUS_CLOSED,
    STATUS_FOUND,
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
    """In `looseness`, how much the last bound loses for every unit by which a first sum's interval is wide."""
    looseness, then, layers = workspace.looseness, workspace.next_coefficients, net.widths.shape[0]
    for i in range(net.widths[layers - 1]):
        for lane in range(LANES):
            looseness[i, lane] = 0.0
    for back in range(layers):
        k = layers - 1 - back
        start, width = net.unit_starts[k], net.widths[k]
        for i in range(width):
            _add_looseness(workspace, start + i, i)
        if k > 0:
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
    """To what flows into a unit, how far its lines are apart in the middle, by the width of its sum, times what stands
    before it.
    """
    looseness, given, lows, highs = workspace.looseness, workspace.kept_coefficients, workspace.low, workspace.high
    above, above_at, below, below_at = (
        workspace.upper_slope,
        workspace.upper_intercept,
        workspace.lower_slope,
        workspace.lower_intercept,
    )
    for lane in range(LANES):
        low, high = lows[unit, lane], highs[unit, lane]
        gap = (above[unit, lane] - below[unit, lane]) * (0.5 * (low + high)) + above_at[unit, lane]
        own = abs(given[unit, lane]) * abs(gap - below_at[unit, lane]) / max(high - low, 1e-12)
        looseness[i, lane] = own + looseness[i, lane] * max(above[unit, lane], below[unit, lane])


@kernel_helper
def score_features(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """In `slopes`, what the range of every feature costs."""
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
    """What the range of a feature with a table costs."""
    start, row = open_cells.starts[j], net.table_starts[j]
    for lane in range(LANES):
        for h in range(net.base.shape[0]):
            least, most = np.inf, -np.inf
            for place in range(start + workspace.first[j, lane], start + workspace.last[j, lane] + 1):
                value = net.table[row + open_cells.cells[place], h]
                least, most = min(least, value), max(most, value)
            workspace.slopes[j, lane] += workspace.looseness[h, lane] * (most - least)


@kernel_helper
def choose_cut(net: CompiledNetwork, open_cells: OpenCells, lane: int, workspace: NetworkWorkspace) -> tuple[int, int]:
    """The feature whose range costs most, and the last place of its first part; -1 if the box is a point."""
    feature, most = -1, -1.0
    for j in range(workspace.slopes.shape[0]):
        if workspace.first[j, lane] < workspace.last[j, lane] and (feature < 0 or workspace.slopes[j, lane] > most):
            feature, most = j, workspace.slopes[j, lane]
    if feature < 0:
        return -1, -1
    return feature, _find_midpoint(
        net, open_cells, feature, workspace.first[feature, lane], workspace.last[feature, lane]
    )


@kernel_helper
def _find_midpoint(net: CompiledNetwork, open_cells: OpenCells, feature: int, first: int, last: int) -> int:
    """The last place of the first part: half of the range of a scaled number, half of the cells of others."""
    start = open_cells.starts[feature]
    if not net.is_linear[feature]:
        return int((first + last) // 2)
    middle = 0.5 * (open_cells.values[start + first] + open_cells.values[start + last])
    while first < last - 1:
        place = (first + last) // 2
        if open_cells.values[start + place] <= middle:
            first = place
        else:
            last = place
    return int(first)


LINE_STEPS, FIRST_STEP, STEP_DECAY = 4, 0.5, 0.7  # downhill, for better slopes


@kernel_helper
def load_boxes(
    open_cells: OpenCells, lows: Int64Array, highs: Int64Array, row: int, workspace: NetworkWorkspace
) -> None:
    """Boxes from a row on into the lanes; the last one into all that are left."""
    for lane in range(LANES):
        own = min(row + lane, lows.shape[0] - 1)
        for j in range(lows.shape[1]):
            first, last = lows[own, j], highs[own, j]
            workspace.first[j, lane], workspace.last[j, lane] = first, last
            workspace.at_first[j, lane] = open_cells.values[open_cells.starts[j] + first]
            workspace.at_last[j, lane] = open_cells.values[open_cells.starts[j] + last]


@kernel_helper
def relax_network(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """Lines for all activations over the boxes in the lanes."""
    bound_first_layer(net, open_cells, workspace)
    relax_layer(net, 0, workspace)
    for layer in range(1, net.widths.shape[0]):
        if net.activations[layer] != 0:
            bound_hidden_layer(net, open_cells, layer, workspace)
        relax_layer(net, layer, workspace)


@kernel_helper
def bound_tightest_margin(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """In `least`, the bound of every lane's tightest margin, which is bounded last and is `margin` then."""
    for lane in range(LANES):
        workspace.least[lane] = np.inf
    tightest = np.zeros(LANES, np.int64)
    for margin in range(net.offset.shape[0]):
        for lane in range(LANES):
            workspace.margin[lane] = margin
        bound_margin(net, open_cells, workspace)
        for lane in range(LANES):
            if workspace.bound[lane] < workspace.least[lane]:
                tightest[lane], workspace.least[lane] = margin, workspace.bound[lane]
    for lane in range(LANES):
        workspace.margin[lane] = tightest[lane]
    if net.offset.shape[0] > 1:
        bound_margin(net, open_cells, workspace)


@kernel_helper
def are_all_closed(workspace: NetworkWorkspace) -> bool:
    """Whether the bounds of all lanes are not positive."""
    closed = True
    for lane in range(LANES):
        closed = closed and workspace.least[lane] <= 0.0
    return closed


@kernel_helper
def tighten_bounds(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """The same bounds with better lines, until all are closed or the steps are done."""
    step = FIRST_STEP
    for _ in range(LINE_STEPS):
        if are_all_closed(workspace):
            return
        optimize_relaxation(net, open_cells, workspace, step)
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
    """What an open box is: the cells where its bound is reached, and where to cut it."""
    for j in range(point.shape[0]):
        point[j] = open_cells.cells[open_cells.starts[j] + workspace.maximum_place[j, lane]]
    compute_first_layer(net, point, workspace.point_sums)
    run_forward(net, workspace.point_sums, workspace.point_values)
    most, sure = compute_least_margin(net, workspace.point_values)
    feature, place = choose_cut(net, open_cells, lane, workspace)
    cut[0], cut[1] = feature, place
    if sure > 0.0:
        return STATUS_FOUND
    if feature >= 0:
        return STATUS_OPEN
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
    `points`; POINT if it is a single point that only the model can decide; OPEN otherwise. A box that is not closed
    gets the cells where its bound is reached, and a feature and a place to cut, no feature if it is a point.
    """
    count = lows.shape[0]
    for row in range(0, count, LANES):
        load_boxes(open_cells, lows, highs, row, workspace)
        relax_network(net, open_cells, workspace)
        bound_tightest_margin(net, open_cells, workspace)
        tighten_bounds(net, open_cells, workspace)
        if not are_all_closed(workspace):
            propagate_looseness(net, workspace)
            score_features(net, open_cells, workspace)
        for lane in range(min(LANES, count - row)):
            if workspace.least[lane] <= 0.0:
                status[row + lane] = STATUS_CLOSED
            else:
                status[row + lane] = classify_open_box(
                    net, open_cells, lane, workspace, cuts[row + lane], points[row + lane]
                )


MIN_BOXES_PER_THREAD = 16  # boxes that are not worth a second thread


def bound_on_cores(net: CompiledNetwork, open_cells: OpenCells, low: Int64Array, high: Int64Array) -> BoundResults:
    """Bound boxes, on all cores."""
    count, n = low.shape
    outcome = BoundResults(np.zeros(count, np.int64), np.zeros((count, 2), np.int64), np.zeros((count, n), np.int64))
    threads = min(count_cores(), -(-count // MIN_BOXES_PER_THREAD))
    slices = [slice(count * i // threads, count * (i + 1) // threads) for i in range(threads)]

    def run(some: slice) -> Callable[[], None]:
        arrays = [array[some] for array in outcome]
        return lambda: bound_boxes(net, open_cells, low[some], high[some], allocate_network_workspace(net, n), *arrays)

    run_parallel([run(some) for some in slices])
    return outcome
