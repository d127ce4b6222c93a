"""Upper bounds of a network's margins over boxes, layer by layer.

A layer's sums are bounded by going back through the layers before it: every activation is replaced by a line above or
below it, whichever the sign of what stands before it wants, until a linear function of the first layer's sums is left.
Its maximum over a box is exact, since every feature adds its own part (Zhang et al. 2018; Singh et al., "An Abstract
Domain for Certifying Neural Networks", POPL 2019). Rounding is covered by `gamma` times the sizes of all that meets.
"""

from __future__ import annotations

import numpy as np

from ironrule.model.net import Net
from ironrule.oracles.net_relaxing_kernels import lines
from ironrule.oracles.net_room import LANES, Floats, Opened, Room
from ironrule.rule.bit_kernels import part

TINY = 1e-290  # times sizes, more than products too small for a double can lose


@part
def first_bounds(net: Net, opened: Opened, room: Room) -> None:
    """Bounds of the first layer's sums."""
    low, high = room.low, room.high
    for h in range(net.base.shape[0]):
        for lane in range(LANES):
            low[h, lane] = net.base[h]
            high[h, lane] = net.base[h]
    for j in range(room.first.shape[0]):
        if net.line[j]:
            for h in range(net.base.shape[0]):
                d = net.direction[j, h]
                down, up = (room.at_first, room.at_last) if d >= 0.0 else (room.at_last, room.at_first)
                for lane in range(LANES):
                    low[h, lane] += d * down[j, lane]
                for lane in range(LANES):
                    high[h, lane] += d * up[j, lane]
        else:
            _add_least_and_most(net, opened, j, room)
    for h in range(net.base.shape[0]):
        off = net.gamma * net.sizes[h]
        for lane in range(LANES):
            low[h, lane] -= off
            high[h, lane] += off


@part
def _add_least_and_most(net: Net, opened: Opened, j: int, room: Room) -> None:
    """To the bounds of the first layer's sums, what a feature with a table can add."""
    start, row = opened.starts[j], net.table_starts[j]
    for h in range(net.base.shape[0]):
        for lane in range(LANES):
            least, most = np.inf, -np.inf
            for place in range(start + room.first[j, lane], start + room.last[j, lane] + 1):
                value = net.table[row + opened.cells[place], h]
                least, most = min(least, value), max(most, value)
            room.low[h, lane] += least
            room.high[h, lane] += most


@part
def relax(net: Net, layer: int, room: Room) -> None:
    """Lines for the activations of a layer whose sums are bounded."""
    for i in range(net.unit_starts[layer], net.unit_starts[layer + 1]):
        size = net.sizes[i]
        for lane in range(LANES):
            low, high = max(room.low[i, lane], -size), min(room.high[i, lane], size)
            below, below_at, above, above_at = lines(net.kinds[layer], net.slopes[layer], low, max(low, high))
            room.below[i, lane], room.below_at[i, lane] = below, below_at
            room.above[i, lane], room.above_at[i, lane] = above, above_at


@part
def combine(matrix: Floats, at: int, factors: Floats, count: int, into: Floats, width: int) -> None:
    """The sum of rows of a matrix that begins at a place of a flat array, each times its factor."""
    for h in range(width):
        for lane in range(LANES):
            into[h, lane] = 0.0
    for i in range(count):
        for h in range(width):
            weight = matrix[at + i * width + h]
            for lane in range(LANES):
                into[h, lane] += weight * factors[i, lane]


@part
def _replace(net: Net, layer: int, room: Room) -> None:
    """Replace the activations of a layer, each taken `now` times, by lines; `now` stands before the sums then."""
    now, total, error = room.now, room.total, room.error
    above, above_at, below, below_at = room.above, room.above_at, room.below, room.below_at
    for i in range(net.widths[layer]):
        unit = net.unit_starts[layer] + i
        bias, size = net.bias[unit], net.sizes[unit] + 1.0
        for lane in range(LANES):
            over, under = above_at[unit, lane], below_at[unit, lane]
            total[lane] += now[i, lane] * (over if now[i, lane] >= 0.0 else under)
        for lane in range(LANES):
            error[lane] += abs(now[i, lane]) * size
        for lane in range(LANES):
            over, under = above[unit, lane], below[unit, lane]
            now[i, lane] = now[i, lane] * (over if now[i, lane] >= 0.0 else under)
        for lane in range(LANES):
            total[lane] += now[i, lane] * bias
        for lane in range(LANES):
            error[lane] += (abs(now[i, lane]) + TINY) * size


@part
def highest(net: Net, opened: Opened, layer: int, room: Room, keep: bool) -> None:
    """In `bound`, an upper bound of `now` times the outputs of a layer. With `keep`, what stands before every
    activation and where the bound is reached are kept.
    """
    now, then = room.now, room.then
    for lane in range(LANES):
        room.total[lane] = 0.0
        room.error[lane] = 0.0
    for back in range(layer + 1):
        k = layer - back
        start, width = net.unit_starts[k], net.widths[k]
        if keep:
            for i in range(width):
                for lane in range(LANES):
                    room.given[start + i, lane] = now[i, lane]
        _replace(net, k, room)
        if k > 0:
            combine(net.turned, net.weight_starts[k - 1], now, width, then, net.widths[k - 1])
            for h in range(net.widths[k - 1]):
                for lane in range(LANES):
                    now[h, lane] = then[h, lane]
    _enter(net, opened, room, keep)
    for lane in range(LANES):
        bound = room.total[lane] + net.gamma * room.error[lane]
        room.bound[lane] = bound if np.isfinite(bound) else np.inf  # what overflows bounds nothing


@part
def _enter(net: Net, opened: Opened, room: Room, keep: bool) -> None:
    """To `total`, the most that the first layer's sums can be, each `now` times."""
    slopes, rows = room.slopes, room.rows
    for j in range(slopes.shape[0]):
        for lane in range(LANES):
            slopes[j, lane] = 0.0
    for row in range(rows.shape[0]):
        for lane in range(LANES):
            rows[row, lane] = 0.0
    now, total, across, down = room.now, room.total, net.across, net.down
    width = net.base.shape[0]
    for h in range(width):
        base = net.base[h]
        for lane in range(LANES):
            total[lane] += base * now[h, lane]
    even = width - width % 4
    for h in range(0, even, 4):
        for j in range(slopes.shape[0]):
            w0, w1, w2, w3 = across[h, j], across[h + 1, j], across[h + 2, j], across[h + 3, j]
            for lane in range(LANES):
                slopes[j, lane] += (w0 * now[h, lane] + w1 * now[h + 1, lane]) + (
                    w2 * now[h + 2, lane] + w3 * now[h + 3, lane]
                )
    for h in range(even, width):
        for j in range(slopes.shape[0]):
            weight = across[h, j]
            for lane in range(LANES):
                slopes[j, lane] += weight * now[h, lane]
    for h in range(net.base.shape[0]):
        for row in range(rows.shape[0]):
            weight = down[h, row]
            for lane in range(LANES):
                rows[row, lane] += weight * now[h, lane]
    for j in range(slopes.shape[0]):
        if net.line[j]:
            for lane in range(LANES):
                last, first = room.at_last[j, lane], room.at_first[j, lane]
                room.total[lane] += slopes[j, lane] * (last if slopes[j, lane] >= 0.0 else first)
            if keep:
                for lane in range(LANES):
                    room.best[j, lane] = room.last[j, lane] if slopes[j, lane] >= 0.0 else room.first[j, lane]
        else:
            _add_most(net, opened, j, room, keep)


@part
def _add_most(net: Net, opened: Opened, j: int, room: Room, keep: bool) -> None:
    """To `total`, the most that a feature with a table can add."""
    start, row = opened.starts[j], net.table_starts[j]
    for lane in range(LANES):
        most, place = -np.inf, room.first[j, lane]
        for here in range(room.first[j, lane], room.last[j, lane] + 1):
            value = room.rows[row + opened.cells[start + here], lane]
            if value > most:
                most, place = value, here
        room.total[lane] += most
        if keep:
            room.best[j, lane] = place


@part
def inner_bounds(net: Net, opened: Opened, layer: int, room: Room) -> None:
    """Bounds of the sums of a layer behind the first."""
    inputs, at = net.widths[layer - 1], net.weight_starts[layer - 1]
    for i in range(net.widths[layer]):
        unit = net.unit_starts[layer] + i
        off = net.gamma * net.sizes[unit]
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for h in range(inputs):
                weight = sign * net.turned[at + i * inputs + h]
                for lane in range(LANES):
                    room.now[h, lane] = weight
            highest(net, opened, layer - 1, room, False)
            for lane in range(LANES):
                bound = room.bound[lane] + sign * net.bias[unit] + off
                if side == 0:
                    room.high[unit, lane] = bound
                else:
                    room.low[unit, lane] = -bound


@part
def margin_bound(net: Net, opened: Opened, room: Room) -> None:
    """In `bound`, an upper bound of the lanes' margins, their slack added."""
    last = net.widths.shape[0] - 1
    for i in range(net.widths[last]):
        for lane in range(LANES):
            room.now[i, lane] = net.coefficients[room.margin[lane], i]
    highest(net, opened, last, room, True)
    for lane in range(LANES):
        margin = room.margin[lane]
        bound = room.bound[lane] + net.offset[margin]
        room.bound[lane] = bound + net.slack[margin] + net.gamma * abs(net.offset[margin])
