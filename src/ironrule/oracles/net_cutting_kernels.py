"""Where to cut a box that is not closed: at the feature that widens most those sums whose lines lie far from their
activations, in the middle.
"""

from __future__ import annotations

import numpy as np

from ironrule.model.net import Net
from ironrule.oracles.net_room import LANES, Opened, Room
from ironrule.rule.bit_kernels import part


@part
def spread(net: Net, room: Room) -> None:
    """In `flow`, how much the last bound loses for every unit by which a first sum's interval is wide."""
    flow, then, layers = room.flow, room.then, net.widths.shape[0]
    for i in range(net.widths[layers - 1]):
        for lane in range(LANES):
            flow[i, lane] = 0.0
    for back in range(layers):
        k = layers - 1 - back
        start, width = net.unit_starts[k], net.widths[k]
        for i in range(width):
            _lose(room, start + i, i)
        if k > 0:
            inputs, at = net.widths[k - 1], net.weight_starts[k - 1]
            for h in range(inputs):
                for lane in range(LANES):
                    then[h, lane] = 0.0
            for i in range(width):
                for h in range(inputs):
                    weight = abs(net.turned[at + i * inputs + h])
                    for lane in range(LANES):
                        then[h, lane] += weight * flow[i, lane]
            for h in range(inputs):
                for lane in range(LANES):
                    flow[h, lane] = then[h, lane]


@part
def _lose(room: Room, unit: int, i: int) -> None:
    """To what flows into a unit, how far its lines are apart in the middle, by the width of its sum, times what stands
    before it.
    """
    flow, given, lows, highs = room.flow, room.given, room.low, room.high
    above, above_at, below, below_at = room.above, room.above_at, room.below, room.below_at
    for lane in range(LANES):
        low, high = lows[unit, lane], highs[unit, lane]
        gap = (above[unit, lane] - below[unit, lane]) * (0.5 * (low + high)) + above_at[unit, lane]
        own = abs(given[unit, lane]) * abs(gap - below_at[unit, lane]) / max(high - low, 1e-12)
        flow[i, lane] = own + flow[i, lane] * max(above[unit, lane], below[unit, lane])


@part
def costs(net: Net, opened: Opened, room: Room) -> None:
    """In `slopes`, what the range of every feature costs."""
    cost = room.slopes
    for j in range(cost.shape[0]):
        for lane in range(LANES):
            cost[j, lane] = 0.0
        if net.line[j]:
            for h in range(net.base.shape[0]):
                size = abs(net.direction[j, h])
                for lane in range(LANES):
                    cost[j, lane] += room.flow[h, lane] * size
            for lane in range(LANES):
                cost[j, lane] *= room.at_last[j, lane] - room.at_first[j, lane]
        else:
            _add_costs(net, opened, j, room)


@part
def _add_costs(net: Net, opened: Opened, j: int, room: Room) -> None:
    """What the range of a feature with a table costs."""
    start, row = opened.starts[j], net.table_starts[j]
    for lane in range(LANES):
        for h in range(net.base.shape[0]):
            least, most = np.inf, -np.inf
            for place in range(start + room.first[j, lane], start + room.last[j, lane] + 1):
                value = net.table[row + opened.cells[place], h]
                least, most = min(least, value), max(most, value)
            room.slopes[j, lane] += room.flow[h, lane] * (most - least)


@part
def choose(net: Net, opened: Opened, lane: int, room: Room) -> tuple[int, int]:
    """The feature whose range costs most, and the last place of its first part; -1 if the box is a point."""
    feature, most = -1, -1.0
    for j in range(room.slopes.shape[0]):
        if room.first[j, lane] < room.last[j, lane] and (feature < 0 or room.slopes[j, lane] > most):
            feature, most = j, room.slopes[j, lane]
    if feature < 0:
        return -1, -1
    return feature, _halfway(net, opened, feature, room.first[feature, lane], room.last[feature, lane])


@part
def _halfway(net: Net, opened: Opened, feature: int, first: int, last: int) -> int:
    """The last place of the first part: half of the range of a scaled number, half of the cells of others."""
    start = opened.starts[feature]
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
