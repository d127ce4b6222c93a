"""The exact oracle for neural networks: ascent to counterfactuals, then branch and bound with bound propagation.

First points are moved to a counterfactual (:mod:`ironrule.backends.network.ascent`). If that finds nothing, the box is
bounded (:mod:`ironrule.backends.network.box_bounds`) and cut, hundreds of sub-boxes at a time on all cores,
until every one is closed: that is complete, because domains are finite and the bound of a single point is its value.
Where the numbers between two values count too, sub-boxes touch: each reaches up to the next value. What is left of one
that cannot be cut any more is then a small box of real numbers, and only a bound can close it; if none does, the query
stays undecided, unless a counterfactual is found elsewhere.
Where a point that was found cannot occur, its box is cut on. The point where the bound of an open sub-box is reached
is a good one to climb from, so some are tried: in every round at first, then now and then.

When the budget ends first, two things are known of the box: the share of its points in closed sub-boxes (by points
that can occur; an open sub-box counts as all open), and what points drawn from it say, by the network as it was read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.network.ascent import AscentSearch
from ironrule.backends.network.compile import CompiledNetwork, decide_points
from ironrule.backends.network.engine import BoundEngine, CpuEngine
from ironrule.backends.network.partition import BoxPartition, FeasibleCombinations, SubBoxes
from ironrule.backends.network.workspace import NO_CUT_IN_GAP, STATUS_FOUND, STATUS_GAP, STATUS_OPEN
from ironrule.oracles.caching import MAX_EXPLORED, ROUNDING_FACTOR
from ironrule.oracles.protocol import BoxQuery, Capabilities, Run, find_disjoint_counterfactuals
from ironrule.rule.box import Box
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.verdict.budget import BudgetExhausted, Meter
from ironrule.verdict.verdict import NOT_SEARCHED, Refuted, Unrefuted, Verdict

SAMPLES = 10_000
ERROR_PROBABILITY = 0.05  # of all searches that end so, the share that may claim too small a bound


def compute_explored_share(
    nets: tuple[CompiledNetwork, ...], proofs: tuple[BoxPartition, ...], feasible: FeasibleRegion, box: Box
) -> float:
    """A lower bound of the share of a box's points that lie in closed sub-boxes of all nets; always below 1."""
    waiting = sum(_compute_waiting_share(net, parts, box) for net, parts in zip(nets, proofs, strict=True))
    explored = 1.0 - waiting * _compute_points_per_feasible(feasible, box) * ROUNDING_FACTOR
    return max(0.0, min(explored, MAX_EXPLORED))


def _compute_waiting_share(net: CompiledNetwork, parts: BoxPartition, box: Box) -> float:
    """The share of a box's points that lie in waiting sub-boxes, without regard to constraints."""
    lows, highs = parts.list_open_ranges()
    logs = np.zeros(len(lows))
    # The share of a sub-box is a product over features: codes in its range by codes of the box. Logarithms keep
    # products of many small shares from underflowing.
    for j, (start, end) in enumerate(zip(parts.open_cells.starts[:-1], parts.open_cells.starts[1:], strict=True)):
        first = int(net.cells.code_starts[j])
        own = net.cells.cell_by_code[first + int(box.low[j]) : first + int(box.high[j]) + 1]
        # How many codes of the box lie in every open cell; `upto` sums them, so that a range is a difference.
        counts = np.bincount(np.searchsorted(parts.open_cells.cells[start:end], own), minlength=end - start)
        upto = np.concatenate([[0], np.cumsum(counts)])
        logs += np.log((upto[highs[:, j] + 1] - upto[lows[:, j]]) / upto[-1])
    return float(np.exp(logs).sum())


def _compute_points_per_feasible(feasible: FeasibleRegion, box: Box) -> float:
    """How many points of a box there are for each that can occur; infinite where that is not known."""
    ratio = 1.0
    # Groups of tied features are independent of each other, so their ratios multiply.
    for group in feasible.groups:
        columns = list(group.columns)
        if group.combinations is None:
            return math.inf
        inside = (group.combinations >= box.low[columns]) & (group.combinations <= box.high[columns])
        possible, every = int(inside.all(axis=1).sum()), Box(box.low[columns], box.high[columns]).size
        ratio = ratio * every / possible if possible else math.inf
    return ratio


def bound_by_sampling(
    nets: tuple[CompiledNetwork, ...], query: BoxQuery, run: Run, explored: float
) -> Unrefuted | Refuted:
    """A bound on the share of exceptions in a box, by points drawn from it, for when the budget is spent.

    The points are decided by the compiled network alone; the model is not asked. The k-th oracle call of a search may
    err with a probability of ERROR_PROBABILITY / (k (k + 1)); over all k these sum to ERROR_PROBABILITY at most.
    """
    points = query.case.feasible.draw(run.rng, query.box.low, query.box.high, SAMPLES)
    if len(points) == 0:
        return replace(NOT_SEARCHED, explored=explored)
    answers = [decide_points(net, points) for net in nets]
    may, sure = (np.any([answer[which] for answer in answers], axis=0) for which in (0, 1))
    if sure.any():
        return query.case.build_refuted(points[sure][:1])
    if may.any():  # only the model itself can decide some of them, and that it is not asked any more
        return replace(NOT_SEARCHED, explored=explored)
    asked = max(1, run.meter.events["oracle calls"])
    return Unrefuted(len(points), len(points), 1.0 - ERROR_PROBABILITY / (asked * (asked + 1)), explored)


MAX_UNDECIDED = 64  # parts that can neither be closed nor cut, before a query is given up
CLIMBS_PER_ROUND = 2  # points of open parts that are climbed from in a round
MEDIUM_EFFORT_BOXES = 2_000  # parts of a box for a wider rule
TIME_SHARE = 0.2  # of the seconds that are left, for one query
LIMIT_EXTENSIONS = ((0.6, 4), (0.9, 16))  # a query that is explored so far may take so many times as many parts
FIRST_CLIMB_ROUNDS, CLIMB_INTERVAL = 16, 8  # rounds in which that is done: the first ones, and then every so many


@dataclass(frozen=True, slots=True, eq=False)
class NetworkOracle:
    """Decides boxes for a model read as a network; ``limit`` parts are bounded per query, ``batch`` at a time (None:
    as many as the engine likes, and more parts while a share of a budget in seconds lasts). A query that says with what
    effort gets that share of the engine's limit, whatever the time, and may go on where it is mostly explored by then.
    """

    nets: tuple[CompiledNetwork, ...]
    limit: int | None = None
    batch: int | None = None
    engine: BoundEngine = field(default_factory=CpuEngine)

    @property
    def capabilities(self) -> Capabilities:
        """Its effort can be adjusted; proofs are expensive, so one begins where another ends."""
        return Capabilities(adjustable_effort=self, extender=self)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if there is none; ``Unrefuted`` with the share that
        is explored if the limit is reached; ``BudgetExhausted`` comes with that and a bound by samples.
        """
        case, box, answer = query.case, query.box, self._try_nets(query, run)
        if isinstance(answer, np.ndarray):
            return case.build_refuted(find_disjoint_counterfactuals(answer, self, query, run))
        if answer.is_complete:
            return case.build_proven(box, sum(parts.pieces for parts in answer.proofs), answer.proofs)
        explored = compute_explored_share(self.nets, answer.proofs, case.feasible, box)
        if answer.budget_spent:
            raise BudgetExhausted(bound_by_sampling(self.nets, query, run, explored))
        return replace(NOT_SEARCHED, explored=explored)

    @property
    def low_effort(self) -> NetworkOracle:
        """The same for further counterfactuals, which nothing depends on: climbing alone."""
        return replace(self, limit=0)

    @property
    def medium_effort(self) -> NetworkOracle:
        """The same for wider rules, where what stays undecided costs no more than a bound that could have moved."""
        return replace(self, limit=MEDIUM_EFFORT_BOXES)

    def has_gap_after(self, feature: int, code: int) -> bool:
        """Whether numbers that a net tells apart lie between a value and the next."""
        return any(bool(net.gap_after[net.cells.code_starts[feature] + code]) for net in self.nets)

    def find_or_prove(self, query: BoxQuery, run: Run) -> Points | tuple[BoxPartition, ...] | None:
        """A counterfactual, what proves that there is none, or None where the limit was reached."""
        answer = self._try_nets(query, run)
        if isinstance(answer, np.ndarray):
            return answer
        if answer.budget_spent:
            raise BudgetExhausted
        return answer.proofs if answer.is_complete else None

    def _try_nets(self, query: BoxQuery, run: Run) -> Points | _ProofAttempt:
        """A counterfactual, or how far a proof has come; once the budget is spent nothing more is tried."""
        run.meter.check()
        proofs, spent = list[BoxPartition](), False
        # A counterfactual of any alternative refutes the box; a proof needs all alternatives closed. After the budget
        # is spent the remaining nets get a partition that is all open, so that the explored share stays right.
        for net in self.nets:
            work = AscentSearch(net, query.case, query.box)
            answer = None if spent else work.climb(run.rng)
            if answer is None:
                parts = BoxPartition.build(net.cells, work.open_cells, query.box)
                try:
                    answer = None if spent else self._branch_and_bound(work, parts, query.effort, run)
                except BudgetExhausted:
                    spent = True
                proofs.append(parts)
            if answer is not None:
                return answer
        return _ProofAttempt(tuple(proofs), spent)

    def _branch_and_bound(
        self, work: AscentSearch, parts: BoxPartition, effort: float | None, run: Run
    ) -> Points | None:
        """Bound and cut sub-boxes until none waits or the limit is reached; a counterfactual if one is found."""
        meter, (limit, until) = run.meter, self._compute_limits(effort, run.meter)
        batch = self.engine.batch if self.batch is None else self.batch
        occurring, rounds = FeasibleCombinations.build(work.net, work.open_cells, work.case.feasible, work.box), 0
        first = limit
        # Rounds of branch and bound: take a batch, drop what constraints exclude, bound the rest, look at the points
        # that the bounds have shown, cut what is still open.
        while parts.waiting and (parts.count < limit or meter.elapsed < until):
            if parts.undecided_count >= MAX_UNDECIDED:  # there will be no proof
                return None
            meter.check()
            taken, rounds = parts.take(batch), rounds + 1
            feasible = occurring.keep_feasible(taken)
            outcome = self.engine.bound_boxes(work.net, work.open_cells, feasible.low, feasible.high)
            meter.events["boxes"] += len(feasible.number)
            again = CLIMBS_PER_ROUND if rounds <= FIRST_CLIMB_ROUNDS or rounds % CLIMB_INTERVAL == 0 else 0
            try:
                answer = work.check_bound_points(outcome, again, run)
            except BudgetExhausted:
                # These sub-boxes were not dealt with to the end: they count as open in the explored share.
                parts.put_back(taken)
                raise
            if answer is not None:
                return answer
            # What was found cannot occur; the rest of such a sub-box is looked at like that of an open one.
            rest = (outcome.status == STATUS_OPEN) | (outcome.status == STATUS_FOUND) | (outcome.status == STATUS_GAP)
            in_gaps = rest & (outcome.cuts[:, 0] == NO_CUT_IN_GAP)
            parts.set_aside(SubBoxes(*(array[in_gaps] for array in feasible)))
            cut = rest & (outcome.cuts[:, 0] >= 0)
            parts.cut(SubBoxes(*(array[cut] for array in feasible)), outcome.cuts[cut])
            if effort is not None and parts.count >= limit:
                limit = min(2 * limit, self._compute_extended_limit(first, work, parts))
        return None

    @staticmethod
    def _compute_extended_limit(limit: int, work: AscentSearch, parts: BoxPartition) -> int:
        """How far a query may go by what is explored of it."""
        explored = compute_explored_share((work.net,), (parts,), work.case.feasible, work.box)
        return limit * max((times for share, times in LIMIT_EXTENSIONS if explored >= share), default=1)

    def _compute_limits(self, effort: float | None, meter: Meter) -> tuple[int, float]:
        """How many parts a query may have, and until when it may go on with more: for a share of the seconds left."""
        if effort is not None:
            return max(1, int(effort * self.engine.limit)), 0.0
        if self.limit is not None:
            return self.limit, 0.0
        return self.engine.limit, meter.elapsed + TIME_SHARE * meter.seconds_left if meter.seconds_left else 0.0


class _ProofAttempt(NamedTuple):
    """How far proofs have come, one per net, and whether the budget is spent."""

    proofs: tuple[BoxPartition, ...]
    budget_spent: bool

    @property
    def is_complete(self) -> bool:
        """Whether every sub-box is closed."""
        return all(parts.is_complete for parts in self.proofs)
