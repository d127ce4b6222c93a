"""What the counterfactuals in a part of a network's box cost at least: relaxation, prices and multipliers.

A part is a range of places per feature (:mod:`.change_places`), and for some rectified units the side of zero on which
their sum lies. Back-substitution gives a function that is nowhere below the margin and adds up over the features. A
counterfactual has a positive margin, so what points cost at which that function is positive is a lower bound
(:mod:`.priced_points`). Lines and multipliers in it are improved step by step (:mod:`.part_relaxation`); a part that
is still open is cut (:mod:`.part_cuts`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ironrule.arrays import Float64Array, Int64Array
from ironrule.backends.network.bound_propagation import collect_input_slopes, trace_back
from ironrule.backends.network.change_places import ChangePlaces
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.backends.network.part_cuts import PART_CLOSED, choose_part_cut, find_mixed_place, propose_point
from ironrule.backends.network.part_relaxation import apply_line_slopes, improve_relaxation, relax_parts
from ironrule.backends.network.priced_points import (
    CostWorkspace,
    allocate_cost_workspace,
    find_lower_bound,
    find_lower_bound_of_largest,
    trim_part,
)
from ironrule.backends.network.workspace import LANES, NetworkWorkspace, OpenCells, allocate_network_workspace
from ironrule.backends.parallel import count_cores, run_parallel
from ironrule.jit import kernel, kernel_helper

MIN_PARTS_PER_THREAD = 16  # with fewer, starting a thread costs more than it saves
FIRST_STEP, STEP_DECAY = 0.5, 0.8  # how far lines and multipliers move in the first step, and from one to the next


class PartBounds(NamedTuple):
    """What was found for each of some parts, one row per part."""

    lower: Float64Array  # what its counterfactuals that cost less than the limit cost at least; infinite if it has none
    status: Int64Array
    cuts: Int64Array  # the unit, or the feature and the last place of its first part
    points: Int64Array  # the places of a point that may be a counterfactual
    sure: Int64Array  # 1 if it surely is one, 2 if only the model can say, 0 if it is none
    gaps: Int64Array  # per feature, the place before the number that a stuck part's bound takes; -1 where it is a value
    unit_bounds: Float64Array  # per unit, the bounds of its sum


@kernel
def bound_parts(
    net: CompiledNetwork,
    places: ChangePlaces,
    open_cells: OpenCells,
    lows: Int64Array,
    highs: Int64Array,
    phases: Int64Array,
    multipliers: Float64Array,
    line_slopes: Float64Array,
    limit: float,
    adds_up: bool,
    steps: int,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lower: Float64Array,
    status: Int64Array,
    cuts: Int64Array,
    points: Int64Array,
    sure: Int64Array,
    gaps: Int64Array,
    unit_bounds: Float64Array,
) -> None:
    """For every part a lower bound of what its counterfactuals cost, and where to cut it (:class:`PartBounds`).

    Ranges are trimmed in place by what the limit permits; multipliers become the best that were found.
    """
    count = lows.shape[0]
    # Sixteen parts at a time, one per lane: lines, bounds, better lines and multipliers, and where to cut what is open.
    for row in range(0, count, LANES):
        _load_parts(net, places, lows, highs, phases, row, limit, adds_up, workspace, costs)
        relax_parts(net, places, open_cells, workspace, costs, limit, adds_up)
        for unit in range(phases.shape[1]):
            for lane in range(LANES):
                own = min(row + lane, count - 1)
                # A multiplier counts only with the sign of the side that is known.
                known = multipliers[own, unit] * phases[own, unit] > 0.0
                workspace.multipliers[unit, lane] = multipliers[own, unit] if known else 0.0
                unit_bounds[own, unit, 0], unit_bounds[own, unit, 1] = (
                    workspace.low[unit, lane],
                    workspace.high[unit, lane],
                )
        apply_line_slopes(net, workspace, line_slopes, row)
        _bound_tightest_margin(net, places, workspace, costs, limit, adds_up)
        step, taken = FIRST_STEP, 0
        while taken < steps and not _are_all_closed(costs, limit):
            improve_relaxation(net, places, workspace, costs, step, limit)
            _bound_margin(net, places, workspace, costs, limit, adds_up)
            _keep_best(costs, workspace, multipliers, row)
            step *= STEP_DECAY
            taken += 1
        if not _are_all_closed(costs, limit):
            improve_relaxation(net, places, workspace, costs, 0.0, limit)  # the sums at the last mixture
        for lane in range(min(LANES, count - row)):
            own = row + lane
            lower[own], status[own] = costs.best_lower[lane], PART_CLOSED
            if costs.best_lower[lane] < limit:
                propose_point(net, places, workspace, costs, lane, points[own], sure, own)
                status[own] = choose_part_cut(net, places, workspace, costs, lane, limit, cuts[own])
                for j in range(lows.shape[1]):
                    gaps[own, j] = -1
                    if costs.cheap[j, lane] != costs.good[j, lane]:
                        mixed = find_mixed_place(places, costs, j, lane)[0]
                        gaps[own, j] = mixed if net.is_linear[j] else workspace.first[j, lane]


@kernel_helper
def _load_parts(
    net: CompiledNetwork,
    places: ChangePlaces,
    lows: Int64Array,
    highs: Int64Array,
    phases: Int64Array,
    row: int,
    limit: float,
    adds_up: bool,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
) -> None:
    """Trim parts from a row on, and load one into every lane; lanes beyond the last part get that one."""
    for lane in range(LANES):
        own = min(row + lane, lows.shape[0] - 1)
        costs.is_empty[lane] = 0 if trim_part(net, places, lows[own], highs[own], limit, adds_up) else 1
        for unit in range(phases.shape[1]):
            costs.phases[unit, lane] = phases[own, unit]
        for j in range(lows.shape[1]):
            start, first, last = places.starts[j], lows[own, j], highs[own, j]
            workspace.first[j, lane], workspace.last[j, lane] = first, last
            workspace.at_first[j, lane] = places.values[start + first]
            workspace.at_last[j, lane] = places.values[start + last]


@kernel_helper
def _keep_best(costs: CostWorkspace, workspace: NetworkWorkspace, multipliers: Float64Array, row: int) -> None:
    """Keep the best bound of every lane, with its multipliers."""
    for lane in range(LANES):
        if costs.lower[lane] > costs.best_lower[lane]:
            costs.best_lower[lane] = costs.lower[lane]
            own = min(row + lane, multipliers.shape[0] - 1)
            for unit in range(multipliers.shape[1]):
                multipliers[own, unit] = workspace.multipliers[unit, lane]


@kernel_helper
def _are_all_closed(costs: CostWorkspace, limit: float) -> bool:
    closed = True
    for lane in range(LANES):
        closed = closed and costs.best_lower[lane] >= limit
    return closed


@kernel_helper
def _bound_tightest_margin(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    limit: float,
    adds_up: bool,
) -> None:
    """Write to `best_lower` the largest bound of all margins, which all must be positive; whose it is, to `margin`."""
    tightest = np.zeros(LANES, np.int64)
    for lane in range(LANES):
        costs.best_lower[lane] = -np.inf
    for margin in range(net.offset.shape[0]):
        for lane in range(LANES):
            workspace.margin[lane] = margin
        _bound_margin(net, places, workspace, costs, limit, adds_up)
        for lane in range(LANES):
            if costs.lower[lane] > costs.best_lower[lane]:
                tightest[lane], costs.best_lower[lane] = margin, costs.lower[lane]
    for lane in range(LANES):
        workspace.margin[lane] = tightest[lane]
    if net.offset.shape[0] > 1:
        _bound_margin(net, places, workspace, costs, limit, adds_up)


@kernel_helper
def _bound_margin(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    limit: float,
    adds_up: bool,
) -> None:
    """Write to `lower` what counterfactuals cost at least by the margin of every lane."""
    last = net.widths.shape[0] - 1
    for i in range(net.widths[last]):
        for lane in range(LANES):
            workspace.coefficients[i, lane] = net.coefficients[workspace.margin[lane], i]
    trace_back(net, last, workspace, True)
    collect_input_slopes(net, workspace)
    for lane in range(LANES):
        margin = workspace.margin[lane]
        bent = 0.0
        for j in range(workspace.first.shape[0]):
            bent += abs(workspace.slopes[j, lane]) * places.bends[j]
        workspace.total[lane] += net.offset[margin] + net.slack[margin] + net.gamma * abs(net.offset[margin])
        workspace.total[lane] += 2.0 * net.gamma * workspace.error[lane] + bent
        if not np.isfinite(workspace.total[lane]):  # what overflows bounds nothing
            workspace.total[lane] = np.inf
        if costs.is_empty[lane] != 0:
            costs.lower[lane] = np.inf
        elif adds_up:
            find_lower_bound(net, places, workspace, costs, lane)
        else:
            find_lower_bound_of_largest(net, places, workspace, costs, lane, limit)


def bound_parts_on_cores(
    net: CompiledNetwork,
    places: ChangePlaces,
    low: Int64Array,
    high: Int64Array,
    phases: Int64Array,
    multipliers: Float64Array,
    line_slopes: Float64Array,
    limit: float,
    adds_up: bool,
    steps: int,
) -> PartBounds:
    """Bound parts, on all cores."""
    count, n = low.shape
    outcome = PartBounds(
        np.zeros(count), np.zeros(count, np.int64), np.zeros((count, 2), np.int64), np.zeros((count, n), np.int64),
        np.zeros(count, np.int64), np.zeros((count, n), np.int64), np.zeros((count, phases.shape[1], 2)),
    )  # fmt: skip
    threads = min(count_cores(), -(-count // MIN_PARTS_PER_THREAD))
    slices = [slice(count * i // threads, count * (i + 1) // threads) for i in range(threads)]
    open_cells = places.as_open_cells()

    def run(some: slice) -> Callable[[], None]:
        arrays: list[Any] = [array[some] for array in outcome]
        memory = allocate_network_workspace(net, n), allocate_cost_workspace(net, n)
        return lambda: bound_parts(
            net,
            places,
            open_cells,
            low[some],
            high[some],
            phases[some],
            multipliers[some],
            line_slopes[some],
            limit,
            adds_up,
            steps,
            *memory,
            *arrays,
        )

    run_parallel([run(some) for some in slices])
    return outcome
