"""Find points of a part of a network's box at which cost and gain are in the best proportion.

The gain of a point is a sum over the features: a linear function of scaled numbers and of rows of tables, which
back-substitution leaves in ``slopes`` and ``row_products`` (:mod:`.bound_propagation`). For given weights, the point
with the least ``weight * cost - gain_weight * gain`` has for every feature the best place of its range. From such
points follow

- the least cost of a point whose gain exceeds a limit, or at least a lower bound of it: the best price per unit of gain
  is found by going from point to point (Lagrangian relaxation; Geoffrion, "Lagrangean relaxation for integer
  programming", 1974);
- in the same way, the most that points gain which cost no more than a limit;
- where the largest cost of a feature counts in place of the sum, the least limit on all features at which the gain
  suffices, by halving.

All results are on the safe side of rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ironrule.arrays import Float64Array, Int64Array
from ironrule.backends.network.change_places import ChangePlaces
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.backends.network.workspace import LANES, NetworkWorkspace
from ironrule.jit import kernel_helper

MAX_PRICES = 8  # prices tried for one bound
SHORT_RANGE = 6  # places that are looked at one by one
HALVINGS = 40  # of a limit on the largest cost of a feature


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
def price_part(
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
def maximize_below_limit(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
    limit: float,
) -> float:
    """An upper bound of the linear function's gain over the points of a lane's part that cost at most the limit."""
    price_part(net, places, workspace, costs, lane, 0.0, 1.0)
    most_cost, most_gain, bound = costs.cost_at[lane], costs.gain_at[lane], costs.gain_at[lane]
    if most_cost <= limit:
        return float(bound)
    price_part(net, places, workspace, costs, lane, 1.0, 0.0)
    low_cost, low_gain = costs.cost_at[lane], costs.gain_at[lane]
    for _ in range(MAX_PRICES):
        if most_cost <= low_cost or most_gain <= low_gain:
            break
        price = (most_gain - low_gain) / (most_cost - low_cost)
        price_part(net, places, workspace, costs, lane, price, 1.0)
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
    return float(bound)


@kernel_helper
def _copy_point(costs: CostWorkspace, lane: int, point: Int64Array) -> None:
    for j in range(point.shape[0]):
        point[j, lane] = costs.tried[j, lane]


@kernel_helper
def find_lower_bound(
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
    price_part(net, places, workspace, costs, lane, 0.0, 1.0)
    good_cost, good_gain = costs.cost_at[lane], costs.gain_at[lane]
    _copy_point(costs, lane, costs.good)
    if total + good_gain <= 0.0:
        costs.lower[lane] = np.inf
        _copy_point(costs, lane, costs.cheap)
        return
    price_part(net, places, workspace, costs, lane, 1.0, 0.0)
    cheap_cost, cheap_gain = costs.cost_at[lane], costs.gain_at[lane]
    _copy_point(costs, lane, costs.cheap)
    costs.lower[lane] = cheap_cost - net.gamma * costs.size_at[lane]
    costs.excess[lane] = total + cheap_gain
    if total + cheap_gain > 0.0:
        _copy_point(costs, lane, costs.good)
        return
    for _ in range(MAX_PRICES):
        if good_gain <= cheap_gain or good_cost <= cheap_cost:
            break
        price = (good_cost - cheap_cost) / (good_gain - cheap_gain)
        costs.price[lane] = price
        price_part(net, places, workspace, costs, lane, 1.0, price)
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
def _maximize_below_largest(
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
def find_lower_bound_of_largest(
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
    largest = total + _maximize_below_largest(net, places, workspace, costs, lane, high)
    if largest <= 0.0:
        costs.lower[lane] = np.inf
        price_part(net, places, workspace, costs, lane, 0.0, 1.0)
        _copy_point(costs, lane, costs.good)
        _copy_point(costs, lane, costs.cheap)
        return
    _copy_point(costs, lane, costs.good)
    most = total + _maximize_below_largest(net, places, workspace, costs, lane, low)
    costs.excess[lane] = most
    if most > 0.0:
        _copy_point(costs, lane, costs.cheap)
        costs.lower[lane] = 0.0
        return
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high or high - low <= 1e-9 * high:
            break
        if total + _maximize_below_largest(net, places, workspace, costs, lane, middle) <= 0.0:
            low = middle
        else:
            high = middle
            _copy_point(costs, lane, costs.good)
    price_part(net, places, workspace, costs, lane, 1.0, 0.0)
    _copy_point(costs, lane, costs.cheap)
    costs.lower[lane] = low
    costs.price[lane] = (limit - low) / max(largest, 1e-300)


@kernel_helper
def trim_part(
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
