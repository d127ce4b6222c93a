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
from ironrule.oracles.climbing_kernels import Desk
from ironrule.oracles.covering import Log
from ironrule.oracles.ensemble_kernels import FOUND, PROVEN
from ironrule.oracles.gathering_kernels import NO_RULE, Table, gather
from ironrule.oracles.protocol import Case
from ironrule.rule.bit_kernels import Floats, Words
from ironrule.rule.bits import members, pack, popcount
from ironrule.rule.duals import duals_of
from ironrule.rule.hitting import ROUNDING
from ironrule.rule.hitting_kernels import fill_sides
from ironrule.rule.hitting_repair_kernels import work_arrays as repair_arrays
from ironrule.space import Points
from ironrule.verdict import Proven

PORTION = 16  # rounds between two looks at the budget
BRIEF = 200  # boxes that a search may look at where climbing does not lead to a counterfactual


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
    """Further counterfactuals, the last rule looked at, if there is one to look at, and the proof that its box holds
    none, where that is so.
    """

    points: Points
    rule: int | None
    proof: Proven | None


def gathered(
    forest: Forest,
    desk: Desk,
    case: Case,
    sought: Sought,
    rounds: int,
    sweeps: int,
    alone: bool,
    rng: np.random.Generator,
) -> Iterator[Gathered]:
    """What every portion of the rounds gives; where the forest is ``alone``, what is proven of it is proven."""
    bits = np.array(members(sought.allowed), dtype=np.int64)
    table = _table(forest, case, sought, bits, rounds, int(rng.integers(1 << 62)))
    found, status = 0, FOUND
    while status == FOUND and found < rounds:
        before, portion = found, min(PORTION, rounds - found)
        limits = sweeps, BRIEF, sought.steps
        found, status = gather(forest, desk, table, len(sought.duals), found, portion, sought.within + ROUNDING, limits)
        rule = sum(1 << bit for bit in bits[table.chosen].tolist())
        log = Log(forest.cells, desk.log[: desk.state[3]].copy()) if status == PROVEN and alone else None
        proof = None if log is None else case.proven(case.relevant.box(rule), log.pieces, (log,))
        yield Gathered(table.points[before:found], None if status == NO_RULE else rule, proof)


def _table(forest: Forest, case: Case, sought: Sought, bits: np.ndarray, rounds: int, seed: int) -> Table:
    duals, relevant, features = np.ascontiguousarray(sought.duals), case.relevant, len(case.space)
    places = np.zeros(64 * duals.shape[1], dtype=np.int64)
    places[bits] = np.arange(len(bits))
    most, size = len(duals) + rounds, int(popcount(duals).sum()) + rounds * len(bits)
    hit = np.zeros((len(bits), -(-most // 64)), dtype=np.uint64)
    starts, elements = np.zeros(most + 1, dtype=np.int64), np.empty(size, dtype=np.int64)
    fill_sides(duals, places, hit, starts, elements)
    start = np.array([sought.start >> bit & 1 for bit in members(sought.allowed)], dtype=np.bool_)
    return Table(
        instance=case.instance,
        home=cells_at(forest, case.instance),
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
        chosen=start,
        box_low=np.empty(features, dtype=np.int32),
        box_high=np.empty(features, dtype=np.int32),
        spare=np.empty(hit.shape[1], dtype=np.uint64),
        order=np.arange(features),
        points=np.empty((rounds, features), dtype=np.int32),
        state=np.array([seed], dtype=np.uint64),
    )
