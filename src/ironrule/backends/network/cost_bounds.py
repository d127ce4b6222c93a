"""What the counterfactuals in a part of a network's box cost at least: relaxation, prices and multipliers.

A part is a range of places per feature (:mod:`.change_places`), and for some rectified units the side of zero on which
their sum lies. Back-substitution (:mod:`.bound_propagation`) gives a function that is nowhere below the margin and adds
up over the features. A counterfactual has a positive margin, so for every price p of at least 0

    cost >= minimum over the part of (cost - p * upper bound of the margin)

and the minimum is one per feature (Lagrangian relaxation; Geoffrion, "Lagrangean relaxation for integer programming",
1974). As a function of p it is concave and made of straight pieces, one for every point at which it is reached. The
best p is found by going from piece to piece: of two points, one with a margin bound of at most 0 and one above 0, the
price at which both are as good is tried next.

Only what costs less than the best counterfactual so far matters. So the bounds of the units' sums hold for points below
that limit only, and are found in the same way: the most that a sum can be is at most, for every p of at least 0,
p * limit + maximum over the part of (sum - p * cost).

Where the side of a unit's sum z is known to be s * z >= 0, a multiple b * s * z with b of at least 0 may be added to
the upper bound of the margin (the beta of Wang et al., "Beta-CROWN", NeurIPS 2021). The multipliers and the lines of
units on either side of zero are improved step by step, at the mixture of the two last points at which the margin bound
is 0: there the relaxation has its optimum. What the relaxation loses there at each unit says where to cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ironrule.arrays import Float64Array, Int64Array
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
from ironrule.backends.network.compile import (
    CompiledNetwork,
    activate,
    compute_first_layer,
    compute_least_margin,
    run_forward,
)
from ironrule.backends.network.workspace import (
    LANES,
    NetworkWorkspace,
    OpenCells,
    allocate_network_workspace,
)
from ironrule.backends.parallel import count_cores, run_parallel
from ironrule.jit import kernel, kernel_helper

# What is known of a part: nothing in it is cheap enough; a unit whose side of zero to fix; a feature to cut; a single
# point for the model to decide; nothing left to cut but numbers between two values.
PART_CLOSED, PART_UNIT, PART_FEATURE, PART_POINT, PART_STUCK = 0, 1, 2, 3, 4
PIECES = 8  # prices tried for one bound
FIRST_STEP, STEP_DECAY = 0.5, 0.8
SHORT_RANGE = 6  # places that are looked at one by one
UNIT_SHARE = 0.02  # of what is missing to the limit: units that lose less are not fixed before features are cut
EXACT_SHARE = 0.002  # the same where the bound is nearly what a number between two values costs
HALVINGS = 40  # of a limit on the largest cost of a feature


class PartBounds(NamedTuple):
    """What was found for each of some parts, one row per part."""

    lower: Float64Array  # what a counterfactual in it costs at least; infinite if it has none below the limit
    status: Int64Array
    cuts: Int64Array  # the unit, or the feature and the last place of its first part
    points: Int64Array  # the places of a point that may be a counterfactual
    sure: Int64Array  # whether it surely is one
    gaps: Int64Array  # per feature, the place before the number that a stuck part's bound takes; -1 where it is a value
    unit_bounds: Float64Array  # per unit, the bounds of its sum


class CostWorkspace(NamedTuple):
    """The memory of one thread beside that of bounds. Arrays have a column per lane."""

    phases: Int64Array  # per unit, the side of zero of its sum: 1, -1, or 0 for either
    cheap: Int64Array  # per feature, the place of the last point whose margin bound is at most 0
    good: Int64Array  # the same with a bound above 0
    tried: Int64Array  # of the point tried last
    share: Float64Array  # of `good`, in the mixture whose margin bound is 0
    price: Float64Array
    excess: Float64Array  # the margin bound of the cheapest point, where that is positive
    lower: Float64Array  # the last lower bound
    best_lower: Float64Array  # the largest so far
    is_empty: Int64Array  # whether a lane's part is known to hold nothing cheap enough
    cost_at: Float64Array  # a point's cost and gain, and the sizes that were added
    gain_at: Float64Array
    size_at: Float64Array


def allocate_cost_workspace(net: CompiledNetwork, features: int) -> CostWorkspace:
    """Allocate the memory of one thread."""
    units = int(net.unit_starts[-1])
    cheap, good, tried = np.zeros((3, features, LANES), dtype=np.int64)
    share, price, excess, lower, best_lower, cost_at, gain_at, size_at = np.zeros((8, LANES))
    return CostWorkspace(
        phases=np.zeros((units, LANES), dtype=np.int64),
        cheap=cheap,
        good=good,
        tried=tried,
        share=share,
        price=price,
        excess=excess,
        lower=lower,
        best_lower=best_lower,
        is_empty=np.zeros(LANES, dtype=np.int64),
        cost_at=cost_at,
        gain_at=gain_at,
        size_at=size_at,
    )


@kernel_helper
def _find_least_in_run(
    places: ChangePlaces, start: int, first: int, last: int, weight: float, factor: float
) -> tuple[int, float]:
    """The place from `first` to `last`, on one side of the instance's own, with the least weight * cost - factor *
    value, and that least; of long runs by the envelope. Places are counted from `start`.
    """
    if last - first < SHORT_RANGE:
        best, least = first, np.inf
        for place in range(first, last + 1):
            value = weight * places.edge[start + place] - factor * places.values[start + place]
            if value < least:
                best, least = place, value
        return best, least
    if weight == 0.0:
        best = last if factor > 0.0 else first
    else:
        # The envelope is convex: look for the first place behind which it rises by more than the factor.
        target, low, high = factor / weight, first, last
        while low < high:
            middle = (low + high) // 2
            if places.slopes[start + middle] >= target:
                high = middle
            else:
                low = middle + 1
        best = low
    return best, weight * places.envelope[start + best] - factor * places.values[start + best]


@kernel_helper
def _price_part(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
    weight: float,
    gain_weight: float,
) -> None:
    """Find the point of a lane's part with the least weight * cost - gain_weight * gain; the gain of a feature is what
    it adds to the linear function that `slopes` and `row_products` describe.

    Writes its places to `tried`, its cost and gain to `cost_at` and `gain_at`, the sizes of all parts to `size_at`.
    """
    cost, gain, size = 0.0, 0.0, 0.0
    for j in range(workspace.first.shape[0]):
        start, own = places.starts[j], places.own[j]
        first, last = workspace.first[j, lane], workspace.last[j, lane]
        best = first
        if net.is_linear[j]:
            slope = workspace.slopes[j, lane]
            if first == last:
                part = places.cost[start + first]
            else:
                factor, least = gain_weight * slope, np.inf
                if first <= own <= last:
                    best = own
                    least = weight * places.edge[start + own] - factor * places.values[start + own]
                if first < own:
                    place, value = _find_least_in_run(places, start, first, min(last, own - 1), weight, factor)
                    if value < least:
                        best, least = place, value
                if last > own:
                    place, value = _find_least_in_run(places, start, max(first, own + 1), last, weight, factor)
                    if value < least:
                        best, least = place, value
                part = places.envelope[start + best] if last - first >= SHORT_RANGE else places.edge[start + best]
            part_gain = slope * places.values[start + best]
        else:
            # Of a range the edges count here too: numbers between two places may have the gain of either end.
            row, least, priced = net.table_starts[j], np.inf, places.cost if first == last else places.edge
            for place in range(first, last + 1):
                value = (
                    weight * priced[start + place]
                    - gain_weight * workspace.row_products[row + places.cells[start + place], lane]
                )
                if value < least:
                    best, least = place, value
            part = priced[start + best]
            part_gain = workspace.row_products[row + places.cells[start + best], lane]
        costs.tried[j, lane] = best
        cost += part
        gain += part_gain
        size += abs(part)
    costs.cost_at[lane], costs.gain_at[lane], costs.size_at[lane] = cost, gain, size


@kernel_helper
def _maximize_below_limit(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
    limit: float,
) -> float:
    """An upper bound of the linear function's gain over the points of a lane's part that cost at most the limit."""
    _price_part(net, places, workspace, costs, lane, 0.0, 1.0)
    most_cost, most_gain, bound = costs.cost_at[lane], costs.gain_at[lane], costs.gain_at[lane]
    if most_cost <= limit:
        return bound
    _price_part(net, places, workspace, costs, lane, 1.0, 0.0)
    low_cost, low_gain = costs.cost_at[lane], costs.gain_at[lane]
    for _ in range(PIECES):
        if most_cost <= low_cost or most_gain <= low_gain:
            break
        price = (most_gain - low_gain) / (most_cost - low_cost)
        _price_part(net, places, workspace, costs, lane, price, 1.0)
        cost, gain = costs.cost_at[lane], costs.gain_at[lane]
        value = gain + price * (limit - cost)
        off = net.gamma * price * (limit + costs.size_at[lane])
        if not np.isfinite(value + off):
            break
        bound = min(bound, value + off)
        if value <= (most_gain + price * (limit - most_cost)) + 1e-9 * abs(most_gain - low_gain):
            break
        if cost > limit:
            most_cost, most_gain = cost, gain
        else:
            low_cost, low_gain = cost, gain
    return bound


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
        gain = _maximize_below_limit(net, places, workspace, costs, lane, limit)
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
    for lane in range(LANES):
        if workspace.low[unit, lane] < 0.0 < workspace.high[unit, lane]:
            return True
    return False


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
def _relax_parts(
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
def _copy_point(costs: CostWorkspace, lane: int, point: Int64Array) -> None:
    for j in range(point.shape[0]):
        point[j, lane] = costs.tried[j, lane]


@kernel_helper
def _find_lower_bound(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
) -> None:
    """Write to `lower` what a lane's points with a positive margin bound cost at least; `total` is the constant part of
    the bound. The two last points, the price, and the share of the second in their mixture are kept.
    """
    total = workspace.total[lane]
    costs.share[lane], costs.price[lane] = 1.0, 0.0
    _price_part(net, places, workspace, costs, lane, 0.0, 1.0)
    good_cost, good_gain = costs.cost_at[lane], costs.gain_at[lane]
    _copy_point(costs, lane, costs.good)
    if total + good_gain <= 0.0:
        costs.lower[lane] = np.inf
        _copy_point(costs, lane, costs.cheap)
        return
    _price_part(net, places, workspace, costs, lane, 1.0, 0.0)
    cheap_cost, cheap_gain = costs.cost_at[lane], costs.gain_at[lane]
    _copy_point(costs, lane, costs.cheap)
    costs.lower[lane] = cheap_cost - net.gamma * costs.size_at[lane]
    costs.excess[lane] = total + cheap_gain
    if total + cheap_gain > 0.0:
        _copy_point(costs, lane, costs.good)
        return
    for _ in range(PIECES):
        if good_gain <= cheap_gain or good_cost <= cheap_cost:
            break
        price = (good_cost - cheap_cost) / (good_gain - cheap_gain)
        costs.price[lane] = price
        _price_part(net, places, workspace, costs, lane, 1.0, price)
        cost, gain = costs.cost_at[lane], costs.gain_at[lane]
        value = cost - price * (total + gain)
        value -= net.gamma * (costs.size_at[lane] + price * (abs(total) + abs(gain)))
        if not np.isfinite(value):
            break
        costs.lower[lane] = max(costs.lower[lane], value)
        if value >= cheap_cost - price * (total + cheap_gain) - 1e-9 * abs(good_cost):
            break
        if total + gain > 0.0:
            good_cost, good_gain = cost, gain
            _copy_point(costs, lane, costs.good)
        else:
            cheap_cost, cheap_gain = cost, gain
            _copy_point(costs, lane, costs.cheap)
    if good_gain > cheap_gain:
        costs.share[lane] = min(1.0, max(0.0, -(total + cheap_gain) / (good_gain - cheap_gain)))


@kernel_helper
def _reach(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
    limit: float,
) -> float:
    """The most that the linear function gains in a lane's part where no feature costs more than a limit; its places go
    to `tried`. -Infinity if some feature costs more everywhere.
    """
    gain = 0.0
    for j in range(workspace.first.shape[0]):
        start, own = places.starts[j], places.own[j]
        first, last = workspace.first[j, lane], workspace.last[j, lane]
        best, most = -1, -np.inf
        if net.is_linear[j] and first < last:
            slope = workspace.slopes[j, lane]
            low, high = _find_cheap_range(places, start, own, first, last, limit)
            if low <= high:
                for end in (low, high):
                    value = slope * places.values[start + end]
                    if value > most:
                        best, most = end, value
                # Numbers up to the next place on the way out may be cheap enough too.
                if low > first and places.joined[start + low - 1]:
                    most = max(most, slope * _cross(places, start + low, start + low - 1, limit))
                if high < last and places.joined[start + high]:
                    most = max(most, slope * _cross(places, start + high, start + high + 1, limit))
        elif net.is_linear[j]:
            if places.cost[start + first] <= limit:
                best, most = first, workspace.slopes[j, lane] * places.values[start + first]
        else:
            row, priced = net.table_starts[j], places.cost if first == last else places.edge
            for place in range(first, last + 1):
                value = workspace.row_products[row + places.cells[start + place], lane]
                if priced[start + place] <= limit and value > most:
                    best, most = place, value
        if best < 0:
            return -np.inf
        costs.tried[j, lane] = best
        gain += most
    return gain


@kernel_helper
def _find_cheap_range(
    places: ChangePlaces, start: int, own: int, first: int, last: int, limit: float
) -> tuple[int, int]:
    """The first and the last place of a range whose envelope is at most a limit; the first is after the last if none
    is. The envelope falls up to the instance's own place and rises behind it.
    """
    low, high = max(first, own), min(last, own)
    if first < own:
        # The first place on the left side that is cheap enough; the own place or the end of the range if none is.
        left, right = first, min(last + 1, own)
        while left < right:
            middle = (left + right) // 2
            if places.envelope[start + middle] <= limit:
                right = middle
            else:
                left = middle + 1
        low = left
        if left >= own > last or (left > last):
            low = last + 1
    if last > own:
        left, right = max(first, own + 1), last + 1
        while left < right:
            middle = (left + right) // 2
            if places.envelope[start + middle] > limit:
                right = middle
            else:
                left = middle + 1
        high = left - 1
    if first <= own <= last and places.envelope[start + own] > limit:
        return 1, 0
    return low, high


@kernel_helper
def _cross(places: ChangePlaces, inner: int, outer: int, limit: float) -> float:
    """What a scaled number is where its cost passes the limit, on the straight line between two places' edges."""
    near, far = min(places.edge[inner], limit), places.edge[outer]
    share = 1.0 if far <= limit else min(1.0, (limit - near) / (far - near) + 1e-9)
    return float(places.values[inner] + share * (places.values[outer] - places.values[inner]))


@kernel_helper
def _find_lower_bound_of_largest(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
    limit: float,
) -> None:
    """The same where the largest cost of a feature counts: the least limit with a positive margin bound."""
    total = workspace.total[lane]
    costs.share[lane], costs.price[lane] = 1.0, 0.0
    low, high = 0.0, limit
    largest = total + _reach(net, places, workspace, costs, lane, high)
    if largest <= 0.0:
        costs.lower[lane] = np.inf
        _price_part(net, places, workspace, costs, lane, 0.0, 1.0)
        _copy_point(costs, lane, costs.good)
        _copy_point(costs, lane, costs.cheap)
        return
    _copy_point(costs, lane, costs.good)
    most = total + _reach(net, places, workspace, costs, lane, low)
    costs.excess[lane] = most
    if most > 0.0:
        _copy_point(costs, lane, costs.cheap)
        costs.lower[lane] = 0.0
        return
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high or high - low <= 1e-9 * high:
            break
        if total + _reach(net, places, workspace, costs, lane, middle) <= 0.0:
            low = middle
        else:
            high = middle
            _copy_point(costs, lane, costs.good)
    _price_part(net, places, workspace, costs, lane, 1.0, 0.0)
    _copy_point(costs, lane, costs.cheap)
    costs.lower[lane] = low
    costs.price[lane] = (limit - low) / max(largest, 1e-300)


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
            _find_lower_bound(net, places, workspace, costs, lane)
        else:
            _find_lower_bound_of_largest(net, places, workspace, costs, lane, limit)


@kernel_helper
def _improve(
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
    # Polyak's step: how far the bound is from the limit, by the size of the subgradient. Where the cheapest point itself
    # has a positive bound, no price counts: the step is such that its bound becomes negative.
    for lane in range(LANES):
        price, missing = costs.price[lane], limit - costs.lower[lane]
        if not (violated[lane] > 0.0 and np.isfinite(missing) and missing > 0.0):
            continue
        if price > 0.0:
            length = step * missing / (price * violated[lane])
        else:
            length = 2.0 * costs.excess[lane] / violated[lane]
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


@kernel_helper
def _find_lossy_unit(
    net: CompiledNetwork, workspace: NetworkWorkspace, costs: CostWorkspace, lane: int
) -> tuple[int, float, float]:
    """The rectified unit on either side of zero at which the bound loses most at the mixture, how much of it, and what
    all units lose together, those beyond the side that is known of them included.
    """
    unit, most, total = -1, 0.0, 0.0
    for k in range(net.widths.shape[0]):
        for i in range(net.unit_starts[k], net.unit_starts[k + 1]):
            z, given = workspace.unit_sums[i, lane], workspace.kept_coefficients[i, lane]
            over = workspace.upper_slope[i, lane] * z + workspace.upper_intercept[i, lane]
            under = workspace.lower_slope[i, lane] * z + workspace.lower_intercept[i, lane]
            here = activate(net.activations[k], net.slopes[k], z)
            lost = abs(given * ((over if given >= 0.0 else under) - here))
            total += lost
            if lost > most and 1 <= net.activations[k] <= 2:
                if workspace.low[i, lane] < 0.0 < workspace.high[i, lane]:
                    unit, most = i, lost
    return unit, most, total


@kernel_helper
def _find_mixed_place(places: ChangePlaces, costs: CostWorkspace, j: int, lane: int) -> tuple[int, bool]:
    """The place of a scaled number at or before the mixture of the two last points; whether there is such a number,
    and costs no more than the mixture.
    """
    start, one, other = places.starts[j], costs.cheap[j, lane], costs.good[j, lane]
    share = costs.share[lane]
    value = (1.0 - share) * places.values[start + one] + share * places.values[start + other]
    cost = (1.0 - share) * places.edge[start + one] + share * places.edge[start + other]
    low, high = min(one, other), max(one, other)
    first, last = low, high
    while first < last - 1:
        middle = (first + last) // 2
        if places.values[start + middle] <= value:
            first = middle
        else:
            last = middle
    if not places.joined[start + first]:
        return first, False
    wide = places.values[start + first + 1] - places.values[start + first]
    part = (value - places.values[start + first]) / wide if wide > 0.0 else 0.0
    here = (1.0 - part) * places.edge[start + first] + part * places.edge[start + first + 1]
    return first, bool(here <= cost + 1e-9 * (abs(cost) + 1e-9))


@kernel_helper
def _find_cut(
    net: CompiledNetwork, places: ChangePlaces, workspace: NetworkWorkspace, costs: CostWorkspace, lane: int
) -> tuple[int, int]:
    """A feature to cut, and the last place of its first part; -1 if the mixture of the two last points is a point.

    It is cut at the mixture, where the costs of its places in the two points differ most.
    """
    feature, at, most = -1, -1, -1.0
    for j in range(workspace.first.shape[0]):
        start, first, last = places.starts[j], workspace.first[j, lane], workspace.last[j, lane]
        one, other = costs.cheap[j, lane], costs.good[j, lane]
        if one == other or (last == first + 1 and places.joined[start + first]):
            continue
        middle = (one + other) // 2
        if net.is_linear[j]:
            middle, is_there = _find_mixed_place(places, costs, j, lane)
            if is_there:
                continue
        apart = abs(places.edge[start + one] - places.edge[start + other]) + 1e-9
        if apart > most:
            feature, at, most = j, _move_cut(places, start, first, last, middle), apart
    return feature, at


@kernel_helper
def _find_widest(net: CompiledNetwork, places: ChangePlaces, workspace: NetworkWorkspace, lane: int) -> tuple[int, int]:
    """The feature whose range changes the bound most, and its middle; -1 if nothing but joined neighbours is left."""
    feature, at, most = -1, -1, -1.0
    for j in range(workspace.first.shape[0]):
        start, first, last = places.starts[j], workspace.first[j, lane], workspace.last[j, lane]
        if first == last or (last == first + 1 and places.joined[start + first]):
            continue
        if net.is_linear[j]:
            apart = abs(workspace.slopes[j, lane] * (workspace.at_last[j, lane] - workspace.at_first[j, lane]))
        else:
            row, least, largest = net.table_starts[j], np.inf, -np.inf
            for place in range(first, last + 1):
                value = workspace.row_products[row + places.cells[start + place], lane]
                least, largest = min(least, value), max(largest, value)
            apart = largest - least
        if apart > most:
            feature, at, most = j, _move_cut(places, start, first, last, (first + last) // 2), apart
    return feature, at


@kernel_helper
def _move_cut(places: ChangePlaces, start: int, first: int, last: int, middle: int) -> int:
    """A last place of the first part such that both parts are smaller than the whole, as near to the middle as can be.

    Where the place is joined to the next one, both parts have it.
    """
    middle = min(max(middle, first), last - 1)
    if middle == first and places.joined[start + first]:
        middle += 1
    return middle


@kernel_helper
def _trim(
    net: CompiledNetwork, places: ChangePlaces, lows: Int64Array, highs: Int64Array, limit: float, adds_up: bool
) -> bool:
    """Leave out places at the ends of a part's ranges that cost too much; False if nothing is left of the part."""
    total = 0.0
    if adds_up:
        for j in range(lows.shape[0]):
            total += _find_least_cost(places, j, net.is_linear[j], lows[j], highs[j])
    for j in range(lows.shape[0]):
        start, first, last = places.starts[j], lows[j], highs[j]
        # What the feature may cost, where all others cost the least.
        most = limit - total + _find_least_cost(places, j, net.is_linear[j], first, last) if adds_up else limit
        most += 1e-9 * abs(limit)
        while first < last and places.edge[start + first] > most and places.cost[start + first] > most:
            if places.joined[start + first] and places.edge[start + first + 1] <= most:
                break
            first += 1
        while last > first and places.edge[start + last] > most and places.cost[start + last] > most:
            if places.joined[start + last - 1] and places.edge[start + last - 1] <= most:
                break
            last -= 1
        if first == last and places.cost[start + first] > most:
            return False
        lows[j], highs[j] = first, last
    return True


@kernel_helper
def _find_least_cost(places: ChangePlaces, j: int, is_linear: bool, first: int, last: int) -> float:
    """The least cost of a range of places."""
    start, own = places.starts[j], places.own[j]
    if first == last:
        return float(places.cost[start + first])
    if first <= own <= last:
        return min(0.0, float(places.edge[start + own]))
    if is_linear:
        return float(_find_least_in_run(places, start, first, last, 1.0, 0.0)[1])
    least = np.inf
    for place in range(first, last + 1):
        least = min(least, places.edge[start + place])
    return float(least)


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
    count, features = lows.shape
    for row in range(0, count, LANES):
        for lane in range(LANES):
            own = min(row + lane, count - 1)
            costs.is_empty[lane] = 0 if _trim(net, places, lows[own], highs[own], limit, adds_up) else 1
            for unit in range(phases.shape[1]):
                costs.phases[unit, lane] = phases[own, unit]
            for j in range(features):
                start, first, last = places.starts[j], lows[own, j], highs[own, j]
                workspace.first[j, lane], workspace.last[j, lane] = first, last
                workspace.at_first[j, lane] = places.values[start + first]
                workspace.at_last[j, lane] = places.values[start + last]
        _relax_parts(net, places, open_cells, workspace, costs, limit, adds_up)
        for unit in range(phases.shape[1]):
            for lane in range(LANES):
                own = min(row + lane, count - 1)
                workspace.multipliers[unit, lane] = multipliers[own, unit]
                if row + lane < count:
                    unit_bounds[own, unit, 0] = workspace.low[unit, lane]
                    unit_bounds[own, unit, 1] = workspace.high[unit, lane]
        _take_slopes(net, workspace, line_slopes, row)
        _bound_tightest_margin(net, places, workspace, costs, limit, adds_up)
        step, taken = FIRST_STEP, 0
        while taken < steps and not _are_all_closed(costs, limit):
            _improve(net, places, workspace, costs, step, limit)
            _bound_margin(net, places, workspace, costs, limit, adds_up)
            for lane in range(LANES):
                if costs.lower[lane] > costs.best_lower[lane]:
                    costs.best_lower[lane] = costs.lower[lane]
                    for unit in range(phases.shape[1]):
                        multipliers[min(row + lane, count - 1), unit] = workspace.multipliers[unit, lane]
            step *= STEP_DECAY
            taken += 1
        if _are_all_closed(costs, limit):
            for lane in range(min(LANES, count - row)):
                lower[row + lane], status[row + lane] = costs.best_lower[lane], PART_CLOSED
            continue
        _improve(net, places, workspace, costs, 0.0, limit)  # the sums at the last mixture
        for lane in range(min(LANES, count - row)):
            own = row + lane
            lower[own] = costs.best_lower[lane]
            if costs.best_lower[lane] >= limit:
                status[own] = PART_CLOSED
                continue
            _look_at_point(net, places, workspace, costs, lane, points[own], sure, own)
            status[own] = _choose_cut(net, places, workspace, costs, lane, limit, cuts[own])
            for j in range(features):
                gaps[own, j] = -1
                if costs.cheap[j, lane] != costs.good[j, lane]:
                    gaps[own, j] = (
                        _find_mixed_place(places, costs, j, lane)[0] if net.is_linear[j] else workspace.first[j, lane]
                    )


@kernel_helper
def _take_slopes(net: CompiledNetwork, workspace: NetworkWorkspace, slopes: Float64Array, row: int) -> None:
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
    """Write to `best_lower` the largest bound of all margins, which all must be positive, and to `margin` whose it is."""
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
def _look_at_point(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
    point: Int64Array,
    sure: Int64Array,
    own: int,
) -> None:
    """Write a point that may be a counterfactual, and whether it surely (1) or maybe (2) is one: the mixture of the two
    last points, moved to the next places towards the one with more gain, or that one.
    """
    for attempt in range(2):
        for j in range(point.shape[0]):
            point[j] = costs.good[j, lane]
            if attempt == 0 and net.is_linear[j] and costs.cheap[j, lane] != point[j]:
                middle = _find_mixed_place(places, costs, j, lane)[0]
                point[j] = middle + 1 if point[j] > costs.cheap[j, lane] else middle
            workspace.cells[j] = places.cells[places.starts[j] + point[j]]
        compute_first_layer(net, workspace.cells, workspace.point_sums)
        run_forward(net, workspace.point_sums, workspace.point_values)
        most, least = compute_least_margin(net, workspace.point_values)
        sure[own] = 1 if least > 0.0 else 2 if most > 0.0 else 0
        if sure[own] == 1:
            return


@kernel_helper
def _choose_cut(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
    limit: float,
    cut: Int64Array,
) -> int:
    """Where to cut a part that is not closed: the status, with the unit or the feature in `cut`."""
    is_point = True
    for j in range(workspace.first.shape[0]):
        is_point = is_point and workspace.first[j, lane] == workspace.last[j, lane]
    if is_point:
        return PART_POINT
    unit, most, total = _find_lossy_unit(net, workspace, costs, lane)
    feature, place = _find_cut(net, places, workspace, costs, lane)
    price, missing = costs.price[lane], limit - costs.best_lower[lane]
    # Units first, as long as one loses something; then features of which the mixture is no value or number.
    if unit >= 0 and (price == 0.0 or price * most > (UNIT_SHARE if feature >= 0 else EXACT_SHARE) * missing):
        cut[0], cut[1] = unit, 0
        return PART_UNIT
    if feature < 0 and (price == 0.0 or price * total > EXACT_SHARE * missing):
        feature, place = _find_widest(net, places, workspace, lane)
    cut[0], cut[1] = feature, place
    if feature >= 0:
        return PART_FEATURE
    # The bound takes a point that is no counterfactual, or only the model knows: single values can still be told apart.
    for j in range(workspace.first.shape[0]):
        first, last = workspace.first[j, lane], workspace.last[j, lane]
        if first < last and not places.joined[places.starts[j] + first : places.starts[j] + last].any():
            cut[0], cut[1] = j, (first + last) // 2
            return PART_FEATURE
    return PART_STUCK


MIN_PARTS_PER_THREAD = 16  # parts that are not worth a second thread


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
        arrays = [array[some] for array in outcome]
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
