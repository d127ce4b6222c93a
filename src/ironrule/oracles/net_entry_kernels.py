"""Bounds where features enter a network: every feature adds its own part to the first layer's sums, a multiple of its
direction or a row of its table, so that the most and the least they can add over a box are exact.
"""

from __future__ import annotations

import numpy as np

from ironrule.model.net import Net
from ironrule.oracles.net_room import LANES, Opened, Room
from ironrule.rule.bit_kernels import part


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
def add_entry(net: Net, opened: Opened, room: Room, keep: bool) -> None:
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
