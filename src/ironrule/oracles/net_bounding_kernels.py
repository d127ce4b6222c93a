"""Upper bounds of a network's margins over boxes, layer by layer.

A layer's sums are bounded by going back through the layers before it: every activation is replaced by a line above or
below it, whichever the sign of what stands before it wants, until a linear function of the first layer's sums is left.
Its maximum over a box is exact, since every feature adds its own part (Zhang et al. 2018; Singh et al., "An Abstract
Domain for Certifying Neural Networks", POPL 2019). Rounding is covered by `gamma` times the sizes of all that meets.
"""

from __future__ import annotations

import numpy as np

from ironrule.model.net import Net
from ironrule.oracles.net_entry_kernels import add_entry
from ironrule.oracles.net_relaxing_kernels import lines
from ironrule.oracles.net_room import LANES, Floats, Opened, Room
from ironrule.rule.bit_kernels import part

TINY = 1e-290  # times sizes, more than products too small for a double can lose


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
    add_entry(net, opened, room, keep)
    for lane in range(LANES):
        bound = room.total[lane] + net.gamma * room.error[lane]
        room.bound[lane] = bound if np.isfinite(bound) else np.inf  # what overflows bounds nothing


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
