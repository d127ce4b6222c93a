"""Counterfactuals gathered before anything is proven.

The rounds of an implicit hitting set search are all alike: a rule that hits what is known, a counterfactual in its box,
what that demands of a rule. As long as counterfactuals are easily found, nothing in between needs Python, so the rounds
run as one compiled loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ironrule.model.forest import Forest, cells_at
from ironrule.oracles.climbing_kernels import Desk, Ints
from ironrule.oracles.covering import Log
from ironrule.oracles.gathering_kernels import GIVEN, GOES_ON, HOLDS, NO_RULE, Table, gather
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.rule.bit_kernels import Floats, Words
from ironrule.rule.bits import members, pack, popcount
from ironrule.rule.duals import duals_of
from ironrule.rule.hitting_kernels import fill_sides
from ironrule.rule.hitting_repair_kernels import work_arrays as repair_arrays
from ironrule.space import Points

PORTION = 40  # rounds between two looks at the budget
SWEEPS = 3  # over all features, in climbing
BOXES = 600  # looked at where climbing fails
USUAL_TREES = 1_000  # forests with more have shorter portions, and fewer boxes


class Sought(NamedTuple):
    """What rules must hit as far as is known, the components that they may have, and what each counts.

    Where rules must weigh no more than ``within``, local search finds them, beginning with ``start``, in so many steps.
    """

    duals: Words
    allowed: int
    weights: Floats
    within: float = np.inf
    start: int = 0
    steps: int = 0

    def further(self, case: Case, points: Points) -> Sought:
        """The same with what more counterfactuals demand."""
        more = duals_of(points, case.relevant.low, case.relevant.high) & pack(self.allowed, len(case.space))
        return self._replace(duals=np.concatenate([self.duals, more]))


class Gathered(NamedTuple):
    """Further counterfactuals, and the last rule looked at, if there was one to look at; the last counterfactual may
    refute it, or else there may be a proof that none of this forest does.
    """

    points: Points
    rule: int | None
    proof: Log | None = None
    boxes: int = 0  # looked at on the way


def gathered(
    forest: Forest, desk: Desk, case: Case, sought: Sought, rounds: int, rng: np.random.Generator
) -> Iterator[Gathered]:
    """What every portion of the rounds gives."""
    bits = np.array(members(sought.allowed), dtype=np.int64)
    table, within = _table(forest, case, sought, bits, rounds, rng), sought.within
    found, status, many = 0, GOES_ON, max(1, len(forest.root) // USUAL_TREES)
    limits = SWEEPS, sought.steps, BOXES // many
    while status == GOES_ON and found < rounds:
        before, portion, table.state[1] = found, min(max(1, PORTION // many), rounds - found), 0
        found, status = gather(forest, desk, table, len(sought.duals), found, portion, within, limits)
        rule = sum(1 << bit for bit in bits[table.chosen].tolist())
        proof = Log(forest.cells, desk.log[: desk.state[3]].copy()) if status == HOLDS else None
        yield Gathered(table.points[before:found], None if status == NO_RULE else rule, proof, int(table.state[1]))


def uphill(
    forest: Forest, desk: Desk, case: Case, box: Box, home: Ints, start: Ints, rng: np.random.Generator, boxes: int = 0
) -> tuple[Points | None, int]:
    """A counterfactual in a box uphill from a point, pulled back towards another, both given by cells, or else by a
    search of so many boxes; and how that ended. The search may go on from the desk.
    """
    table = Table(
        instance=case.instance,
        home=home,
        start=start,
        box_low=box.low,
        box_high=box.high,
        order=np.arange(len(home)),
        points=np.empty((1, len(home)), dtype=np.int32),
        state=_state(rng),
    )
    found, status = gather(forest, desk, table, 0, 0, 1, GIVEN, (SWEEPS, 0, boxes))
    return table.points[0] if found else None, status


def _table(forest: Forest, case: Case, sought: Sought, bits: Ints, rounds: int, rng: np.random.Generator) -> Table:
    duals, relevant, features = np.ascontiguousarray(sought.duals), case.relevant, len(case.space)
    places = np.zeros(64 * duals.shape[1], dtype=np.int64)
    places[bits] = np.arange(len(bits))
    most, size = len(duals) + rounds, int(popcount(duals).sum()) + rounds * len(bits)
    hit = np.zeros((len(bits), -(-most // 64)), dtype=np.uint64)
    starts, elements = np.zeros(most + 1, dtype=np.int64), np.empty(size, dtype=np.int64)
    fill_sides(duals, places, hit, starts, elements)
    chosen = np.array([sought.start >> bit & 1 for bit in members(sought.allowed)], dtype=np.bool_)
    home = cells_at(forest, case.instance)
    return Table(
        instance=case.instance,
        home=home,
        start=home,
        feature=bits >> 1,
        low=relevant.low[bits],
        high=relevant.high[bits],
        top=case.space.scale.top,
        weights=sought.weights[bits],
        costs=np.empty(len(bits)),
        hit=hit,
        starts=starts,
        elements=elements,
        repairing=repair_arrays(len(bits), most),
        chosen=chosen,
        box_low=np.empty(features, dtype=np.int32),
        box_high=np.empty(features, dtype=np.int32),
        spare=np.empty(hit.shape[1], dtype=np.uint64),
        order=np.arange(features),
        points=np.empty((rounds, features), dtype=np.int32),
        state=_state(rng),
    )


def _state(rng: np.random.Generator) -> Words:
    return np.array([rng.bit_generator.random_raw(), 0], dtype=np.uint64)
