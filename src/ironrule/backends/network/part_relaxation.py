"""Lines of all activations for parts of a network's box, and their improvement.

Bounds of the units' sums hold for what costs less than a limit, and where the side of zero of a unit's sum is known, on
that side alone. A multiple of such a sum may be added to a bound of the margin (the beta of Wang et al., "Beta-CROWN",
NeurIPS 2021). Lines and multipliers are improved step by step, at the mixture of the two last points of every lane.
"""

from __future__ import annotations

import numpy as np

from ironrule.arrays import Float64Array
from ironrule.backends.network.bound_propagation import (
    adjust_relu_slope,
    apply_relaxation,
    bound_first_layer,
    bound_hidden_layer,
    collect_input_slopes,
    compute_layer_sums,
    mix_with_tangent,
    relax_layer,
    trace_back,
)
from ironrule.backends.network.change_places import ChangePlaces
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.backends.network.priced_points import CostWorkspace, maximize_below_limit
from ironrule.backends.network.workspace import LANES, NetworkWorkspace, OpenCells
from ironrule.jit import kernel_helper


@kernel_helper
def _tighten_unit(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    unit: int,
    side: int,
    off: float,
    limit: float,
) -> None:
    """Bring a bound of a unit's sum in by what the limit on the cost leaves; `slopes` and `total` describe the sum, for
    side 0, or its negative, for side 1.
    """
    for lane in range(LANES):
        gain = maximize_below_limit(net, places, workspace, costs, lane, limit)
        bound = workspace.total[lane] + gain + 2.0 * net.gamma * workspace.error[lane] + off
        for j in range(workspace.first.shape[0]):
            bound += abs(workspace.slopes[j, lane]) * places.bends[j]
        if side == 0:
            workspace.high[unit, lane] = min(workspace.high[unit, lane], bound)
        else:
            workspace.low[unit, lane] = max(workspace.low[unit, lane], -bound)


@kernel_helper
def _tighten_first_layer(
    net: CompiledNetwork, places: ChangePlaces, workspace: NetworkWorkspace, costs: CostWorkspace, limit: float
) -> None:
    """Bounds of the first layer's sums, for what costs at most the limit."""
    rows = workspace.row_products.shape[0]
    for h in range(net.base.shape[0]):
        if not _is_undecided(net, 0, h, workspace):
            continue
        off = net.gamma * net.unit_sizes[h]
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for j in range(workspace.first.shape[0]):
                for lane in range(LANES):
                    workspace.slopes[j, lane] = sign * net.direction[j, h]
            for row in range(rows):
                for lane in range(LANES):
                    workspace.row_products[row, lane] = sign * net.table[row, h]
            for lane in range(LANES):
                workspace.total[lane], workspace.error[lane] = sign * net.base[h], 0.0
            _tighten_unit(net, places, workspace, costs, h, side, off, limit)


@kernel_helper
def _is_undecided(net: CompiledNetwork, layer: int, unit: int, workspace: NetworkWorkspace) -> bool:
    """Whether better bounds of a unit's sum may give it better lines in some lane."""
    if net.activations[layer] > 2:
        return True
    is_open = False
    for lane in range(LANES):
        is_open = is_open or workspace.low[unit, lane] < 0.0 < workspace.high[unit, lane]
    return is_open


@kernel_helper
def _bound_hidden_layer(
    net: CompiledNetwork,
    places: ChangePlaces,
    layer: int,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    limit: float,
) -> None:
    """Bounds of the sums of a layer behind the first, for what costs at most the limit."""
    inputs, at = net.widths[layer - 1], net.weight_starts[layer - 1]
    for i in range(net.widths[layer]):
        unit = net.unit_starts[layer] + i
        off = net.gamma * net.unit_sizes[unit] + net.gamma * abs(net.bias[unit])
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for h in range(inputs):
                for lane in range(LANES):
                    workspace.coefficients[h, lane] = sign * net.weights[at + i * inputs + h]
            trace_back(net, layer - 1, workspace, False)
            collect_input_slopes(net, workspace)
            for lane in range(LANES):
                workspace.total[lane] += sign * net.bias[unit]
                workspace.low[unit, lane] = -np.inf if side == 0 else workspace.low[unit, lane]
                workspace.high[unit, lane] = np.inf if side == 0 else workspace.high[unit, lane]
            _tighten_unit(net, places, workspace, costs, unit, side, off, limit)


@kernel_helper
def _apply_phases(net: CompiledNetwork, layer: int, workspace: NetworkWorkspace, costs: CostWorkspace) -> None:
    """Cut the bounds of a layer's sums at zero where their side is known; what is left may be empty."""
    for unit in range(net.unit_starts[layer], net.unit_starts[layer + 1]):
        for lane in range(LANES):
            if costs.phases[unit, lane] > 0:
                workspace.low[unit, lane] = max(workspace.low[unit, lane], 0.0)
            elif costs.phases[unit, lane] < 0:
                workspace.high[unit, lane] = min(workspace.high[unit, lane], 0.0)
            if workspace.low[unit, lane] > workspace.high[unit, lane]:
                costs.is_empty[lane] = 1


@kernel_helper
def relax_parts(
    net: CompiledNetwork,
    places: ChangePlaces,
    open_cells: OpenCells,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    limit: float,
    adds_up: bool,
) -> None:
    """Compute the lines of all activations for the parts in the lanes."""
    for unit in range(workspace.multipliers.shape[0]):
        for lane in range(LANES):
            workspace.multipliers[unit, lane] = 0.0
    bound_first_layer(net, open_cells, workspace)
    if adds_up and np.isfinite(limit):
        _tighten_first_layer(net, places, workspace, costs, limit)
    _apply_phases(net, 0, workspace, costs)
    relax_layer(net, 0, workspace)
    for layer in range(1, net.widths.shape[0]):
        if net.activations[layer] != 0:
            if adds_up and np.isfinite(limit):
                _bound_hidden_layer(net, places, layer, workspace, costs, limit)
            else:
                bound_hidden_layer(net, open_cells, layer, workspace)
            _apply_phases(net, layer, workspace, costs)
        relax_layer(net, layer, workspace)


@kernel_helper
def apply_line_slopes(net: CompiledNetwork, workspace: NetworkWorkspace, slopes: Float64Array, row: int) -> None:
    """Take given slopes, where they are no NaN, for the lines below rectified units on either side of zero."""
    for k in range(net.widths.shape[0]):
        if net.activations[k] < 1 or net.activations[k] > 2:
            continue
        least = net.slopes[k] if net.activations[k] == 2 else 0.0
        for unit in range(net.unit_starts[k], net.unit_starts[k + 1]):
            for lane in range(LANES):
                slope = slopes[min(row + lane, slopes.shape[0] - 1), unit]
                if slope >= least and workspace.low[unit, lane] < 0.0 < workspace.high[unit, lane]:
                    workspace.lower_slope[unit, lane] = min(slope, 1.0)
                    workspace.lower_intercept[unit, lane] = 0.0


@kernel_helper
def improve_relaxation(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    step: float,
    limit: float,
) -> None:
    """Move lines and multipliers one step towards a larger bound, at the mixture of the two last points."""
    _mix_first_sums(net, places, workspace, costs)
    violated = np.zeros(LANES)
    for k in range(net.widths.shape[0]):
        start, width = net.unit_starts[k], net.widths[k]
        if k > 0:
            compute_layer_sums(net, k, workspace)
        for i in range(width):
            apply_relaxation(workspace, start + i, i)
            for lane in range(LANES):
                # The sums are kept, for the multipliers and for what is lost at each unit.
                workspace.unit_sums[start + i, lane] = workspace.sums[i, lane]
                phase = costs.phases[start + i, lane]
                wrong = -phase * workspace.sums[i, lane]
                if phase != 0 and (wrong > 0.0 or workspace.multipliers[start + i, lane] != 0.0):
                    violated[lane] += wrong * wrong
            if net.activations[k] > 2:
                mix_with_tangent(net, k, start + i, workspace.sums[i], workspace, step)
            elif net.activations[k] > 0:
                least = net.slopes[k] if net.activations[k] == 2 else 0.0
                adjust_relu_slope(least, start + i, workspace.sums[i], workspace, step)
    # Polyak's step: how far the bound is from the limit, by the size of the subgradient. Where the cheapest point has a
    # positive bound itself, no price counts: the step is such that its bound becomes negative.
    for lane in range(LANES):
        price, missing = costs.price[lane], limit - costs.lower[lane]
        if not (violated[lane] > 0.0 and np.isfinite(missing) and missing > 0.0):
            continue
        reach = step * missing / price if price > 0.0 else 2.0 * max(0.0, costs.excess[lane])
        length = reach / violated[lane]
        for unit in range(workspace.multipliers.shape[0]):
            phase = costs.phases[unit, lane]
            if phase != 0:
                size = phase * workspace.multipliers[unit, lane] - phase * workspace.unit_sums[unit, lane] * length
                workspace.multipliers[unit, lane] = phase * max(0.0, size)


@kernel_helper
def _mix_first_sums(
    net: CompiledNetwork, places: ChangePlaces, workspace: NetworkWorkspace, costs: CostWorkspace
) -> None:
    """The first layer's sums at the mixture of the two last points of every lane."""
    sums = workspace.sums
    for lane in range(LANES):
        share = costs.share[lane]
        for h in range(net.base.shape[0]):
            sums[h, lane] = net.base[h]
        for j in range(workspace.first.shape[0]):
            start = places.starts[j]
            cheap, good = start + costs.cheap[j, lane], start + costs.good[j, lane]
            if net.is_linear[j]:
                value = (1.0 - share) * places.values[cheap] + share * places.values[good]
                for h in range(net.base.shape[0]):
                    sums[h, lane] += value * net.direction[j, h]
            else:
                row = net.table_starts[j]
                for h in range(net.base.shape[0]):
                    one, other = net.table[row + places.cells[cheap], h], net.table[row + places.cells[good], h]
                    sums[h, lane] += (1.0 - share) * one + share * other
