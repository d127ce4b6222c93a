"""Boxes decided by bounds: closed, or cut further, or a counterfactual seen on the way.

Where the bound of the tightest margin does not close a box, better lines are tried a few times
(:mod:`ironrule.oracles.net_sharpening_kernels`). The point where the last bound is reached is a good one to look at.
"""

from __future__ import annotations

import numpy as np

from ironrule.model.net import Net
from ironrule.model.net_kernels import enter, forward, least_margin
from ironrule.oracles.net_bounding_kernels import inner_bounds, margin_bound, relax
from ironrule.oracles.net_cutting_kernels import choose, costs, spread
from ironrule.oracles.net_entry_kernels import first_bounds
from ironrule.oracles.net_room import CLOSED, FOUND, LANES, OPEN, POINT, Ints, Opened, Room
from ironrule.oracles.net_sharpening_kernels import sharpen
from ironrule.rule.bit_kernels import kernel, part

STEPS, FIRST_STEP, SHRINKS = 4, 0.5, 0.7  # downhill, for better slopes


@part
def seat(opened: Opened, lows: Ints, highs: Ints, row: int, room: Room) -> None:
    """Boxes from a row on into the lanes; the last one into all that are left."""
    for lane in range(LANES):
        own = min(row + lane, lows.shape[0] - 1)
        for j in range(lows.shape[1]):
            first, last = lows[own, j], highs[own, j]
            room.first[j, lane], room.last[j, lane] = first, last
            room.at_first[j, lane] = opened.values[opened.starts[j] + first]
            room.at_last[j, lane] = opened.values[opened.starts[j] + last]


@part
def relax_all(net: Net, opened: Opened, room: Room) -> None:
    """Lines for all activations over the boxes in the lanes."""
    first_bounds(net, opened, room)
    relax(net, 0, room)
    for layer in range(1, net.widths.shape[0]):
        if net.kinds[layer] != 0:
            inner_bounds(net, opened, layer, room)
        relax(net, layer, room)


@part
def bound_tightest(net: Net, opened: Opened, room: Room) -> None:
    """In `least`, the bound of every lane's tightest margin, which is bounded last and is `margin` then."""
    for lane in range(LANES):
        room.least[lane] = np.inf
    tightest = np.zeros(LANES, np.int64)
    for margin in range(net.offset.shape[0]):
        for lane in range(LANES):
            room.margin[lane] = margin
        margin_bound(net, opened, room)
        for lane in range(LANES):
            if room.bound[lane] < room.least[lane]:
                tightest[lane], room.least[lane] = margin, room.bound[lane]
    for lane in range(LANES):
        room.margin[lane] = tightest[lane]
    if net.offset.shape[0] > 1:
        margin_bound(net, opened, room)


@part
def all_closed(room: Room) -> bool:
    """Whether the bounds of all lanes are not positive."""
    closed = True
    for lane in range(LANES):
        closed = closed and room.least[lane] <= 0.0
    return closed


@part
def bound_sharply(net: Net, opened: Opened, room: Room) -> None:
    """The same bounds with better lines, until all are closed or the steps are done."""
    step = FIRST_STEP
    for _ in range(STEPS):
        if all_closed(room):
            return
        sharpen(net, opened, room, step)
        margin_bound(net, opened, room)
        for lane in range(LANES):
            room.least[lane] = min(room.least[lane], room.bound[lane])
        step *= SHRINKS


@part
def look(net: Net, opened: Opened, lane: int, room: Room, cut: Ints, point: Ints) -> int:
    """What an open box is: the cells where its bound is reached, and where to cut it."""
    for j in range(point.shape[0]):
        point[j] = opened.cells[opened.starts[j] + room.best[j, lane]]
    enter(net, point, room.point_sums)
    forward(net, room.point_sums, room.point_values)
    most, sure = least_margin(net, room.point_values)
    feature, place = choose(net, opened, lane, room)
    cut[0], cut[1] = feature, place
    if sure > 0.0:
        return FOUND
    if feature >= 0:
        return OPEN
    return POINT if most > 0.0 else CLOSED


@kernel
def bound_boxes(
    net: Net, opened: Opened, lows: Ints, highs: Ints, room: Room, status: Ints, cuts: Ints, points: Ints
) -> None:
    """For every box: CLOSED if some margin is surely not positive in it; FOUND with a counterfactual's cells in
    `points`; POINT if it is a single point that only the model can decide; OPEN otherwise. A box that is not closed
    gets the cells where its bound is reached, and a feature and a place to cut, no feature if it is a point.
    """
    count = lows.shape[0]
    for row in range(0, count, LANES):
        seat(opened, lows, highs, row, room)
        relax_all(net, opened, room)
        bound_tightest(net, opened, room)
        bound_sharply(net, opened, room)
        if not all_closed(room):
            spread(net, room)
            costs(net, opened, room)
        for lane in range(min(LANES, count - row)):
            if room.least[lane] <= 0.0:
                status[row + lane] = CLOSED
            else:
                status[row + lane] = look(net, opened, lane, room, cuts[row + lane], points[row + lane])
