"""Better lines for the units of a network: steps downhill of a bound.

Below a relu that may be on either side of zero lies every line through zero with a slope from that of its left side to
1; above the concave side of an s-shaped function lies every tangent, below the convex side too, and between two such
lines every mixture of both. A bound is a convex function of the lines. At the point where it is reached, a unit's slope
does better if it is larger where the sum is positive and smaller where it is negative, and a tangent if it touches
there (Xu et al., "Fast and Complete: Enabling Complete Verification with Rapid and Massively Parallel Incomplete
Verifiers", ICLR 2021). Bounds hold whatever lines are chosen, so a few such steps can only close more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironrule.model.net import Net
from ironrule.model.net_kernels import activated, enter
from ironrule.oracles.net_relaxing_kernels import NARROW, tangent
from ironrule.rule.bit_kernels import part

if TYPE_CHECKING:
    from ironrule.oracles.net_bounding_kernels import Opened, Scratch


@part
def sharpen(net: Net, opened: Opened, room: Scratch, step: float) -> None:
    """Move lines against the last bound, whose factors and place were kept."""
    for j in range(room.best.shape[0]):
        room.cells[j] = opened.cells[opened.starts[j] + room.best[j]]
    enter(net, room.cells, room.sums)
    for k in range(net.widths.shape[0]):
        start, width = net.unit_starts[k], net.widths[k]
        if k > 0:
            inputs, at = net.widths[k - 1], net.weight_starts[k - 1]
            for i in range(width):
                total = net.bias[start + i]
                for h in range(inputs):
                    total += net.turned[at + i * inputs + h] * room.values[h]
                room.sums[i] = total
        for i in range(width):
            unit, z = start + i, room.sums[i]
            if room.given[unit] >= 0.0:
                room.values[i] = room.above[unit] * z + room.above_at[unit]
            else:
                room.values[i] = room.below[unit] * z + room.below_at[unit]
            if net.kinds[k] > 2:
                _mix(net, k, unit, z, room, step)
            elif net.kinds[k] > 0 and room.given[unit] < 0.0 and room.low[unit] < 0.0 < room.high[unit]:
                least = net.slopes[k] if net.kinds[k] == 2 else 0.0
                room.below[unit] = min(1.0, max(least, room.below[unit] + (step if z > 0.0 else -step)))


@part
def _mix(net: Net, k: int, unit: int, z: float, room: Scratch, step: float) -> None:
    """Mix the line of an s-shaped function with its tangent at a sum, where that is sound."""
    low, high = max(room.low[unit], -net.sizes[unit]), min(room.high[unit], net.sizes[unit])
    if high - low < NARROW:
        return
    at = min(max(z, low), high)
    slope, start = tangent(net.kinds[k], at)
    if room.given[unit] >= 0.0:
        if at >= 0.0 and (low >= 0.0 or slope * low + start >= activated(net.kinds[k], 0.0, low)):
            room.above[unit] += step * (slope - room.above[unit])
            room.above_at[unit] += step * (start - room.above_at[unit])
    elif at <= 0.0 and (high <= 0.0 or slope * high + start <= activated(net.kinds[k], 0.0, high)):
        room.below[unit] += step * (slope - room.below[unit])
        room.below_at[unit] += step * (start - room.below_at[unit])
