"""Upper bounds of a network's margins over boxes, layer by layer, and where to cut a box that is not closed.

A layer's sums are bounded by going back through the layers before it: every activation is replaced by a line above or
below it, whichever the sign of what stands before it wants, until a linear function of the first layer's sums is left.
Its maximum over a box is exact, since every feature adds its own part (Zhang et al. 2018; Singh et al., "An Abstract
Domain for Certifying Neural Networks", POPL 2019). Rounding is covered by `gamma` times the sizes of all that meets.
Where the bound of the tightest margin does not close a box, better lines are tried a few times
(:mod:`ironrule.oracles.net_sharpening_kernels`).

A box is cut at the feature that widens most those sums whose lines lie far from their activations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model.net import Net
from ironrule.model.net_kernels import enter, forward, least_margin
from ironrule.oracles.net_relaxing_kernels import lines
from ironrule.oracles.net_sharpening_kernels import sharpen
from ironrule.rule.bit_kernels import kernel, part

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLOSED, OPEN, POINT, FOUND = 0, 1, 2, 3
STEPS, FIRST_STEP, SHRINKS = 4, 0.5, 0.7  # downhill, for better slopes
TINY = 1e-290  # times sizes, more than products too small for a double can lose


class Opened(NamedTuple):
    """The box of a question: per feature its open cells, in the order that parts of the box are ranges of."""

    starts: Ints
    cells: Ints
    values: Floats  # what a scaled number is there


class Scratch(NamedTuple):
    """Room for one thread."""

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
    slopes: Floats  # per feature
    rows: Floats  # per row of the tables
    best: Ints  # per feature, the place where the last bound is reached
    cells: Ints
    sums: Floats
    values: Floats


@part
def first_bounds(net: Net, opened: Opened, lo: Ints, hi: Ints, room: Scratch) -> None:
    """Bounds of the first layer's sums."""
    width = net.base.shape[0]
    for h in range(width):
        room.low[h] = net.base[h]
        room.high[h] = net.base[h]
    for j in range(lo.shape[0]):
        start = opened.starts[j]
        if net.line[j]:
            first, last = opened.values[start + lo[j]], opened.values[start + hi[j]]
            for h in range(width):
                d = net.direction[j, h]
                room.low[h] += d * (first if d >= 0.0 else last)
                room.high[h] += d * (last if d >= 0.0 else first)
        else:
            for h in range(width):
                least, most = np.inf, -np.inf
                for place in range(start + lo[j], start + hi[j] + 1):
                    value = net.table[net.table_starts[j] + opened.cells[place], h]
                    least, most = min(least, value), max(most, value)
                room.low[h] += least
                room.high[h] += most
    for h in range(width):
        room.low[h] -= net.gamma * net.sizes[h]
        room.high[h] += net.gamma * net.sizes[h]


@part
def relax(net: Net, layer: int, room: Scratch) -> None:
    """Lines for the activations of a layer whose sums are bounded."""
    for i in range(net.unit_starts[layer], net.unit_starts[layer + 1]):
        low, high = max(room.low[i], -net.sizes[i]), min(room.high[i], net.sizes[i])
        below, below_at, above, above_at = lines(net.kinds[layer], net.slopes[layer], low, max(low, high))
        room.below[i], room.below_at[i], room.above[i], room.above_at[i] = below, below_at, above, above_at


@part
def combine(matrix: Floats, at: int, factors: Floats, count: int, into: Floats, width: int) -> None:
    """The sum of rows of a matrix that begins at a place of a flat array, each times its factor."""
    for h in range(width):
        into[h] = 0.0
    for i in range(count):
        a = factors[i]
        if a != 0.0:
            row = at + i * width
            for h in range(width):
                into[h] += a * matrix[row + h]


@part
def highest(net: Net, opened: Opened, lo: Ints, hi: Ints, layer: int, room: Scratch, keep: bool) -> float:
    """An upper bound of `now` times the outputs of a layer. With `keep`, what stands before every activation and where
    the bound is reached are kept.
    """
    total, error, now, then = 0.0, 0.0, room.now, room.then
    for back in range(layer + 1):
        k = layer - back
        start, width = net.unit_starts[k], net.widths[k]
        for i in range(width):
            a, unit = now[i], start + i
            if keep:
                room.given[unit] = a
            if a >= 0.0:
                total += a * room.above_at[unit]
                now[i] = a * room.above[unit]
            else:
                total += a * room.below_at[unit]
                now[i] = a * room.below[unit]
            error += (abs(a) + abs(now[i]) + TINY) * (net.sizes[unit] + 1.0)
            total += now[i] * net.bias[unit]
        if k > 0:
            combine(net.turned, net.weight_starts[k - 1], now, width, then, net.widths[k - 1])
            for h in range(net.widths[k - 1]):
                now[h] = then[h]
    slopes, rows = room.slopes, room.rows
    for j in range(slopes.shape[0]):
        slopes[j] = 0.0
    for row in range(rows.shape[0]):
        rows[row] = 0.0
    for h in range(net.base.shape[0]):
        a = now[h]
        if a != 0.0:
            total += a * net.base[h]
            for j in range(slopes.shape[0]):
                slopes[j] += a * net.across[h, j]
            for row in range(rows.shape[0]):
                rows[row] += a * net.down[h, row]
    for j in range(lo.shape[0]):
        start = opened.starts[j]
        if net.line[j]:
            place = hi[j] if slopes[j] >= 0.0 else lo[j]
            total += slopes[j] * opened.values[start + place]
        else:
            most, place = -np.inf, lo[j]
            for here in range(lo[j], hi[j] + 1):
                value = rows[net.table_starts[j] + opened.cells[start + here]]
                if value > most:
                    most, place = value, here
            total += most
        if keep:
            room.best[j] = place
    bound = total + net.gamma * error
    return bound if np.isfinite(bound) else np.inf  # what overflows bounds nothing


@part
def inner_bounds(net: Net, opened: Opened, lo: Ints, hi: Ints, layer: int, room: Scratch) -> None:
    """Bounds of the sums of a layer behind the first."""
    inputs, at = net.widths[layer - 1], net.weight_starts[layer - 1]
    for i in range(net.widths[layer]):
        unit = net.unit_starts[layer] + i
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for h in range(inputs):
                room.now[h] = sign * net.turned[at + i * inputs + h]
            bound = highest(net, opened, lo, hi, layer - 1, room, False) + sign * net.bias[unit]
            bound += net.gamma * net.sizes[unit]
            if side == 0:
                room.high[unit] = bound
            else:
                room.low[unit] = -bound


@part
def margin_bound(net: Net, opened: Opened, lo: Ints, hi: Ints, margin: int, room: Scratch) -> float:
    """An upper bound of a margin, its slack added."""
    last = net.widths.shape[0] - 1
    for i in range(net.widths[last]):
        room.now[i] = net.coefficients[margin, i]
    bound = highest(net, opened, lo, hi, last, room, True) + net.offset[margin]
    return float(bound + net.slack[margin] + net.gamma * abs(net.offset[margin]))


@part
def sharpened_bound(net: Net, opened: Opened, lo: Ints, hi: Ints, margin: int, room: Scratch) -> float:
    """An upper bound of the margin that was bounded last, with better lines."""
    least, step = np.inf, FIRST_STEP
    for _ in range(STEPS):
        sharpen(net, opened, room, step)
        least = min(least, margin_bound(net, opened, lo, hi, margin, room))
        if least <= 0.0:
            break
        step *= SHRINKS
    return least


@part
def spread(net: Net, layers: int, room: Scratch) -> None:
    """In `flow`, how much the last bound loses for every unit by which a first sum's interval is wide."""
    flow, then = room.flow, room.then
    for i in range(net.widths[layers - 1]):
        flow[i] = 0.0
    for back in range(layers):
        k = layers - 1 - back
        start, width = net.unit_starts[k], net.widths[k]
        for i in range(width):
            unit = start + i
            low, high = room.low[unit], room.high[unit]
            middle = 0.5 * (low + high)
            gap = (room.above[unit] - room.below[unit]) * middle + room.above_at[unit] - room.below_at[unit]
            own = abs(room.given[unit]) * abs(gap) / max(high - low, 1e-12)
            flow[i] = own + flow[i] * max(room.above[unit], room.below[unit])
        if k > 0:
            inputs, at = net.widths[k - 1], net.weight_starts[k - 1]
            for h in range(inputs):
                then[h] = 0.0
            for i in range(width):
                for h in range(inputs):
                    then[h] += abs(net.turned[at + i * inputs + h]) * flow[i]
            for h in range(inputs):
                flow[h] = then[h]


@part
def choose(net: Net, opened: Opened, lo: Ints, hi: Ints, room: Scratch) -> tuple[int, int]:
    """The feature whose range costs most, and the last place of its first part; -1 if the box is a point."""
    feature, most = -1, -1.0
    width = net.base.shape[0]
    for j in range(lo.shape[0]):
        if lo[j] == hi[j]:
            continue
        start, cost = opened.starts[j], 0.0
        if net.line[j]:
            for h in range(width):
                cost += room.flow[h] * abs(net.direction[j, h])
            cost *= opened.values[start + hi[j]] - opened.values[start + lo[j]]
        else:
            for h in range(width):
                least, top = np.inf, -np.inf
                for place in range(start + lo[j], start + hi[j] + 1):
                    value = net.table[net.table_starts[j] + opened.cells[place], h]
                    least, top = min(least, value), max(top, value)
                cost += room.flow[h] * (top - least)
        if cost > most:
            feature, most = j, cost
    if feature < 0:
        return -1, -1
    return feature, _halfway(net, opened, lo, hi, feature)


@part
def _halfway(net: Net, opened: Opened, lo: Ints, hi: Ints, feature: int) -> int:
    """The last place of the first part: half of the range of a scaled number, half of the cells of others."""
    start, first, last = opened.starts[feature], lo[feature], hi[feature]
    if not net.line[feature]:
        return int((first + last) // 2)
    middle = 0.5 * (opened.values[start + first] + opened.values[start + last])
    while first < last - 1:
        place = (first + last) // 2
        if opened.values[start + place] <= middle:
            first = place
        else:
            last = place
    return int(first)


@kernel
def bound_boxes(
    net: Net, opened: Opened, lows: Ints, highs: Ints, room: Scratch, status: Ints, cuts: Ints, points: Ints
) -> None:
    """For every box: CLOSED if some margin is surely not positive in it; FOUND with a counterfactual's cells in
    `points`; POINT if it is a single point that only the model can decide; OPEN otherwise. A box that is not closed
    gets the cells where its bound is reached, and a feature and a place to cut, no feature if it is a point.
    """
    layers = net.widths.shape[0]
    for row in range(lows.shape[0]):
        lo, hi = lows[row], highs[row]
        first_bounds(net, opened, lo, hi, room)
        relax(net, 0, room)
        for layer in range(1, layers):
            if net.kinds[layer] != 0:
                inner_bounds(net, opened, lo, hi, layer, room)
            relax(net, layer, room)
        tightest, least = 0, np.inf
        for margin in range(net.offset.shape[0]):
            bound = margin_bound(net, opened, lo, hi, margin, room)
            if bound < least:
                tightest, least = margin, bound
        if least <= 0.0:
            status[row] = CLOSED
            continue
        if net.offset.shape[0] > 1:
            margin_bound(net, opened, lo, hi, tightest, room)
        least = min(least, sharpened_bound(net, opened, lo, hi, tightest, room))
        if least <= 0.0:
            status[row] = CLOSED
            continue
        for j in range(lo.shape[0]):
            points[row, j] = opened.cells[opened.starts[j] + room.best[j]]
        enter(net, points[row], room.sums)
        forward(net, room.sums, room.values)
        most, sure = least_margin(net, room.values)
        spread(net, layers, room)
        feature, place = choose(net, opened, lo, hi, room)
        cuts[row, 0], cuts[row, 1] = feature, place
        if sure > 0.0:
            status[row] = FOUND
        else:
            status[row] = OPEN if feature >= 0 else (POINT if most > 0.0 else CLOSED)
