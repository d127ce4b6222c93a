"""Counterfactuals gathered before anything is proven.

The first rounds of an implicit hitting set search are all alike: a rule that hits what is known, a counterfactual that
lies in its box, what that demands of a rule. As long as counterfactuals are easily found, nothing in between needs
Python, so the rounds run as one compiled loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ironrule.model.forest import Forest, cells_at
from ironrule.oracles.climbing_kernels import Desk
from ironrule.oracles.covering import Log
from ironrule.oracles.ensemble_kernels import FOUND, PROVEN
from ironrule.oracles.gathering_kernels import Table, gather
from ironrule.oracles.protocol import Case
from ironrule.rule.bit_kernels import Floats, Words
from ironrule.rule.bits import members, pack, popcount
from ironrule.rule.duals import duals_of
from ironrule.rule.hitting_kernels import fill_sides
from ironrule.space import Points
from ironrule.verdict import Proven

PORTION = 16  # rounds between two looks at the budget
BRIEF = 200  # boxes that a search may look at where climbing does not lead to a counterfactual


class Sought(NamedTuple):
    """What rules must hit as far as is known, the components that they may have, and what each counts."""

    duals: Words
    allowed: int
    weights: Floats

    def further(self, case: Case, points: Points) -> Sought:
        """The same with what more counterfactuals demand."""
        more = duals_of(points, case.relevant.low, case.relevant.high) & pack(self.allowed, len(case.space))
        return self._replace(duals=np.concatenate([self.duals, more]))


class Gathered(NamedTuple):
    """Further counterfactuals, the last rule looked at, and the proof that its box holds none, where there is one."""

    points: Points
    rule: int
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
        found, status = gather(forest, desk, table, len(sought.duals), found, portion, sweeps, BRIEF)
        rule = sum(1 << bit for bit in bits[table.chosen].tolist())
        log = Log(forest.cells, desk.log[: desk.state[3]].copy()) if status == PROVEN and alone else None
        proof = None if log is None else case.proven(case.relevant.box(rule), log.pieces, (log,))
        yield Gathered(table.points[before:found], rule, proof)


def _table(forest: Forest, case: Case, sought: Sought, bits: np.ndarray, rounds: int, seed: int) -> Table:
    duals, relevant, features = np.ascontiguousarray(sought.duals), case.relevant, len(case.space)
    places = np.zeros(64 * duals.shape[1], dtype=np.int64)
    places[bits] = np.arange(len(bits))
    hit = np.zeros((len(bits), -(-(len(duals) + rounds) // 64)), dtype=np.uint64)
    starts, elements = np.zeros(len(duals) + 1, np.int64), np.empty(int(popcount(duals).sum()), np.int64)
    fill_sides(duals, places, hit, starts, elements)
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
        chosen=np.zeros(len(bits), dtype=np.bool_),
        box_low=np.empty(features, dtype=np.int32),
        box_high=np.empty(features, dtype=np.int32),
        spare=np.empty(hit.shape[1], dtype=np.uint64),
        order=np.arange(features),
        points=np.empty((rounds, features), dtype=np.int32),
        state=np.array([seed], dtype=np.uint64),
    )
