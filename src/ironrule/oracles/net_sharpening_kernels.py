"""Better lines for the units of a network: steps downhill of a bound.

Below a relu that may be on either side of zero lies every line through zero with a slope from that of its left side to
1; above the concave side of an s-shaped function lies every tangent, below the convex side too, and between two such
lines every mixture of both. A bound is a convex function of the lines. At the point where it is reached, a unit's slope
does better if it is larger where the sum is positive and smaller where it is negative, and a tangent if it touches
there (Xu et al., "Fast and Complete: Enabling Complete Verification with Rapid and Massively Parallel Incomplete
Verifiers", ICLR 2021). Bounds hold whatever lines are chosen, so a few such steps can only close more.
"""

from __future__ import annotations

from ironrule.model.net import Net
from ironrule.model.net_kernels import activated
from ironrule.oracles.net_relaxing_kernels import NARROW, tangent
from ironrule.oracles.net_room import LANES, Floats, Opened, Room
from ironrule.rule.bit_kernels import part


@part
def sharpen(net: Net, opened: Opened, room: Room, step: float) -> None:
    """Move lines against the last bound, whose factors and place were kept."""
    _enter_best(net, opened, room)
    for k in range(net.widths.shape[0]):
        start, width = net.unit_starts[k], net.widths[k]
        if k > 0:
            _sum(net, k, room)
        for i in range(width):
            _follow(room, start + i, i)
            if net.kinds[k] > 2:
                _mix(net, k, start + i, room.sums[i], room, step)
            elif net.kinds[k] > 0:
                _turn(net.slopes[k] if net.kinds[k] == 2 else 0.0, start + i, room.sums[i], room, step)


@part
def _enter_best(net: Net, opened: Opened, room: Room) -> None:
    """The first layer's sums where the last bound is reached."""
    sums, at, direction = room.sums, room.total, net.direction
    for h in range(net.base.shape[0]):
        for lane in range(LANES):
            sums[h, lane] = net.base[h]
    for j in range(room.best.shape[0]):
        start = opened.starts[j]
        if net.line[j]:
            for lane in range(LANES):
                at[lane] = opened.values[start + room.best[j, lane]]
            for h in range(net.base.shape[0]):
                factor = direction[j, h]
                for lane in range(LANES):
                    sums[h, lane] += factor * at[lane]
        else:
            for lane in range(LANES):
                row = net.table_starts[j] + opened.cells[start + room.best[j, lane]]
                for h in range(net.base.shape[0]):
                    sums[h, lane] += net.table[row, h]


@part
def _sum(net: Net, k: int, room: Room) -> None:
    """A layer's sums, from the outputs of the layer before it."""
    inputs, at, start = net.widths[k - 1], net.weight_starts[k - 1], net.unit_starts[k]
    sums, values, turned = room.sums, room.values, net.turned
    for i in range(net.widths[k]):
        for lane in range(LANES):
            sums[i, lane] = net.bias[start + i]
        for h in range(inputs):
            weight = turned[at + i * inputs + h]
            for lane in range(LANES):
                sums[i, lane] += weight * values[h, lane]


@part
def _follow(room: Room, unit: int, i: int) -> None:
    """A unit's outputs on the lines that the last bound has used."""
    sums, values, given = room.sums, room.values, room.given
    above, above_at, below, below_at = room.above, room.above_at, room.below, room.below_at
    for lane in range(LANES):
        over = above[unit, lane] * sums[i, lane] + above_at[unit, lane]
        under = below[unit, lane] * sums[i, lane] + below_at[unit, lane]
        values[i, lane] = over if given[unit, lane] >= 0.0 else under


@part
def _turn(least: float, unit: int, sums: Floats, room: Room, step: float) -> None:
    """Turn the line below a relu that may be on either side of zero."""
    low, high, given, below = room.low, room.high, room.given, room.below
    for lane in range(LANES):
        turned = below[unit, lane] + (step if sums[lane] > 0.0 else -step)
        if given[unit, lane] < 0.0 and low[unit, lane] < 0.0 < high[unit, lane]:
            below[unit, lane] = min(1.0, max(least, turned))


@part
def _mix(net: Net, k: int, unit: int, sums: Floats, room: Room, step: float) -> None:
    """Mix the line of an s-shaped function with its tangent at a sum, where that is sound."""
    kind, size = net.kinds[k], net.sizes[unit]
    for lane in range(LANES):
        low, high = max(room.low[unit, lane], -size), min(room.high[unit, lane], size)
        if high - low < NARROW:
            continue
        at = min(max(sums[lane], low), high)
        slope, start = tangent(kind, at)
        if room.given[unit, lane] >= 0.0:
            if at >= 0.0 and (low >= 0.0 or slope * low + start >= activated(kind, 0.0, low)):
                room.above[unit, lane] += step * (slope - room.above[unit, lane])
                room.above_at[unit, lane] += step * (start - room.above_at[unit, lane])
        elif at <= 0.0 and (high <= 0.0 or slope * high + start <= activated(kind, 0.0, high)):
            room.below[unit, lane] += step * (slope - room.below[unit, lane])
            room.below_at[unit, lane] += step * (start - room.below_at[unit, lane])
