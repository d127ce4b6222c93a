"""The compiled half of :mod:`ironrule.oracles.gathering`: rounds of rule, counterfactual and demand in one loop.

A single box is one round with the rule given, so that all climbing is compiled once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ironrule.model.forest import Forest
from ironrule.oracles.climbing_kernels import Codes, Desk, climb, nearest_codes, pull_back, trace_all
from ironrule.oracles.ensemble_kernels import FOUND, PROVEN, UNSURE, open_box, search
from ironrule.rule.bit_kernels import ONE, Flags, Floats, Integers, Words, kernel, part
from ironrule.rule.hitting_kernels import choose_quickly
from ironrule.rule.hitting_repair_kernels import OFFSET, STEP, repair

NUMBERS, WEIGHTS, WORDS = np.empty(0, np.int64), np.empty(0), np.empty((0, 1), np.uint64)
FINEST = 2.0**-53  # the last of the bits that a random number between 0 and 1 has
GOES_ON, NO_RULE, ENDED, HOLDS, IN_DOUBT = 0, 1, 2, 3, 4
GIVEN = -1.0  # instead of a weight
TIES = 1e-9  # weights differ by less in a random choice among equals


class Table(NamedTuple):
    """What a gathering works on. Its elements are the components that may be used, without gaps; where the box is
    given there are none.
    """

    instance: Codes
    home: Integers  # the instance's cells, or those of the nearest point in a single box
    start: Integers  # the cells to climb from
    box_low: Codes  # where the rule of the last round holds
    box_high: Codes
    order: Integers
    points: Codes  # the counterfactuals
    state: Any  # of the random numbers, and how many boxes were looked at
    feature: Integers = NUMBERS  # per element, its feature and the codes that it admits
    low: Integers = NUMBERS
    high: Integers = NUMBERS
    top: Integers = NUMBERS  # per feature, the last code
    weights: Floats = WEIGHTS
    costs: Floats = WEIGHTS
    hit: Words = WORDS  # per element, the duals that it hits
    starts: Integers = NUMBERS  # per dual, its elements
    elements: Integers = NUMBERS
    repairing: Any = (WEIGHTS, NUMBERS, WEIGHTS, NUMBERS)  # what local search works on
    chosen: Flags = np.empty(0, np.bool_)  # the rule of the last round
    spare: Words = np.empty(0, np.uint64)


@part
def _random(table: Table) -> Any:
    """The next random bits; the first ones are the best."""
    table.state[0] = table.state[0] * STEP + OFFSET
    return table.state[0] >> np.uint64(11)


@part
def _shuffle(table: Table) -> None:
    """Put the features into a random order."""
    for place in range(table.order.shape[0] - 1, 0, -1):
        other = np.int64((_random(table) >> np.uint64(22)) % np.uint64(place + 1))
        table.order[place], table.order[other] = table.order[other], table.order[place]


@part
def _choose(table: Table, duals: int, within: float, steps: int) -> bool:
    """A hitting set of the duals: a quick one, ties at random, or one within a weight, by local search from the last;
    whether one was found.
    """
    if within == np.inf:
        for i in range(table.weights.shape[0]):
            table.costs[i] = table.weights[i] * (1.0 + TIES * FINEST * np.float64(_random(table)))
        choose_quickly(table.hit, table.weights, table.costs, table.chosen, table.spare)
        return True
    score, age, priority, count = table.repairing
    for i in range(score.shape[0]):
        score[i], age[i] = 0.0, 0
    for e in range(duals):
        priority[e], count[e] = 1.0, 0
    work = score, age, priority[:duals], count[:duals]
    starts = table.starts[: duals + 1]
    return repair(table.hit, starts, table.elements, table.weights, table.chosen, within, steps, _random(table), work)


@part
def _box(table: Table) -> None:
    """Where the chosen rule holds."""
    for j in range(table.top.shape[0]):
        table.box_low[j], table.box_high[j] = 0, table.top[j]
    for i in range(table.weights.shape[0]):
        if table.chosen[i]:
            j = table.feature[i]
            table.box_low[j] = max(table.box_low[j], table.low[i])
            table.box_high[j] = min(table.box_high[j], table.high[i])


@part
def _demands(table: Table, point: Codes, dual: int) -> bool:
    """Note the dual of a counterfactual; whether anything hits it."""
    end = table.starts[dual]
    for i in range(table.weights.shape[0]):
        code = point[table.feature[i]]
        if code < table.low[i] or code > table.high[i]:
            table.hit[i, dual >> 6] |= ONE << np.uint64(dual & 63)
            table.elements[end] = i
            end += 1
    table.starts[dual + 1] = end
    return bool(end > table.starts[dual])


@kernel
def gather(
    forest: Forest,
    desk: Desk,
    table: Table,
    duals: int,
    found: int,
    rounds: int,
    within: float,
    limits: tuple[int, int, int],
) -> tuple[int, int]:
    """Go on for some rounds, until there is no rule within a weight, until no counterfactual is easily found, or one
    that no rule excludes; how many there are then, and how the last round ended: GOES_ON, NO_RULE, ENDED, HOLDS if
    there is no counterfactual, with the proof on the desk, or IN_DOUBT if the model itself must be asked about the
    desk's point. ``limits`` are sweeps, steps of a local search, and boxes of the search where climbing fails; if
    ``within`` is GIVEN, the table has the box already.
    """
    sweeps, steps, boxes = limits
    for _ in range(rounds):
        if within != GIVEN:
            if not _choose(table, duals + found, within, steps):
                return found, NO_RULE
            _box(table)
        open_box(forest, table.box_low, table.box_high, desk)
        for j in range(table.start.shape[0]):
            desk.point[j] = table.start[j]
        _shuffle(table)
        if not climb(forest, desk, desk.domains[0], table.order, sweeps):
            status, seen = search(forest, desk, boxes)
            table.state[1] += np.uint64(seen)
            if status != FOUND:
                return found, HOLDS if status == PROVEN else IN_DOUBT if status == UNSURE else ENDED
            trace_all(forest, desk)
        _shuffle(table)
        pull_back(forest, desk, table.home, table.order)
        point = table.points[found]
        nearest_codes(forest.cells, desk.point, table.instance, table.box_low, table.box_high, point)
        found += 1
        if within == GIVEN or not _demands(table, point, duals + found - 1):
            return found, ENDED
    return found, GOES_ON
