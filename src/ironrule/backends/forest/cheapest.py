"""Prove which changes of one forest are the cheapest, under a cost that is a sum; rounds of compiled code.

What :mod:`.cheapest_search` does, between looks at the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ironrule.arrays import Float64Array, Int64Array, UInt64Array
from ironrule.backends.forest.branch_and_bound import PROVEN, UNSURE, record_denied
from ironrule.backends.forest.change_messages import Messages, allocate_messages
from ironrule.backends.forest.change_problem import ChangeProblem, build_change_problem
from ironrule.backends.forest.change_reduction import reduce_problem
from ironrule.backends.forest.change_search import accept_point, start_change_search
from ironrule.backends.forest.change_tables import ChangeTables
from ironrule.backends.forest.cheapest_search import (
    FIRST_PRICES,
    FIRST_SWEEPS,
    FOUND,
    LATER,
    SMALL,
    WaitingBoxes,
    bound_box,
    close_first_box,
    descend,
    measure_shortfalls,
    search_cheapest,
)
from ironrule.backends.forest.cheapest_sequence import Candidate, CheapestSequence
from ironrule.backends.forest.compile import CompiledForest
from ironrule.backends.forest.workspace import MAX_DEPTH, ForestWorkspace

if TYPE_CHECKING:
    from ironrule.backends.nearest import ChangeCosts
    from ironrule.oracles.protocol import BoxQuery, Run

BOXES_PER_LOOK = 20  # boxes between looks at the budget: one may take milliseconds
MAX_DESCENTS = 60
MAX_DEFERRED = 2_000  # boxes put off at once: their problems take memory
LEAST_LEAVES = 100  # problems with fewer are small enough
LEAST_LIMIT = 1e-200  # for which a price is sought: where all changes are free it would be infinite


class OpenProblem(NamedTuple):
    """A problem, and its boxes that wait."""

    problem: ChangeProblem
    tables: ChangeTables
    messages: Messages
    waiting: WaitingBoxes


class DeferredBox(NamedTuple):
    """A box of a problem that is put off until what is cheaper is proven."""

    least_cost: float  # nothing in it costs less
    whole: OpenProblem
    domain: UInt64Array
    dead: UInt64Array

    def reopen(self) -> OpenProblem:
        """Its problem, of which no other box waits now, with this one waiting."""
        waiting = self.whole.waiting
        waiting.domains[0], waiting.dead[0], waiting.counters[:] = self.domain, self.dead, 0
        return self.whole


def has_links(forest: CompiledForest) -> bool:
    """Whether sums of trees go through functions, of which messages say nothing."""
    return bool((forest.links[:, 0] != 0.0).any())


@dataclass(slots=True, eq=False)
class CheapestSearch:
    """The search in one forest. ``tables.limit`` is what a counterfactual must cost less than, ``tables.best`` the last
    one found below the limit that it began with.
    """

    forest: CompiledForest
    tables: ChangeTables
    workspace: ForestWorkspace
    is_full: bool = False
    least_leaves: int = LEAST_LEAVES
    has_denied: bool = False  # whether the model denied a point that rounding could turn
    merges: bool = True  # whether the cheapest alone is looked at of cells that trees do not tell apart
    has_begun: bool = False
    deferred: list[DeferredBox] = field(default_factory=list)
    proven_below: float = -math.inf  # nothing is left in this forest that costs less and belongs into the sequence

    def begin(self, cost_limit: float) -> None:
        """Look for what costs less than a limit."""
        start_change_search(self.tables, self.workspace, self.forest)
        self.tables.limit[0] = cost_limit

    def descend(self, run: Run) -> None:
        """Look for a cheap counterfactual from the instance on, and then for cheaper ones without its changes."""
        home, best, left = self.tables.home, self.tables.best, MAX_DESCENTS
        if not self._descend_from(home, -1):
            return
        improved = True
        while improved:
            improved = False
            for feature in np.flatnonzero(best != home).tolist():
                run.meter.check()
                start = best.copy()
                start[feature] = home[feature]
                improved |= self._descend_from(start, feature)
                improved |= self._descend_from(home, feature)
                left -= 1
                if left == 0:
                    return

    def _descend_from(self, start: Int64Array, feature: int) -> bool:
        """Whether a cheaper one was found from a point on that keeps a feature, if it is not -1, as it is."""
        frozen = np.zeros(len(start), dtype=np.bool_)
        if feature >= 0:
            frozen[feature] = True
        return descend(self.forest, self.tables, self.workspace, start, frozen)

    def advance(self, query: BoxQuery, costs: ChangeCosts, sequence: CheapestSequence, boxes: int, run: Run) -> int:
        """Search what may hold something cheaper than the first of a sequence, for which the tables were prepared, that
        is not proven in this forest; the boxes left. Boxes that hold nothing so cheap are put off.

        Of cells that trees do not tell apart the cheapest alone is looked at. Where the model denied a point that
        rounding could turn, its word is not about the others, so that all cells are looked at once more.
        """
        sequence.set_limits(self.tables)
        goal = sequence.find_goal(self.proven_below)
        pending = [box for box in self.deferred if box.least_cost < goal]
        self.deferred = [box for box in self.deferred if box.least_cost >= goal]
        problems = [] if self.has_begun else self._begin()
        while problems or pending:
            if boxes <= 0 or self.is_full:
                return boxes
            if not problems:
                box = pending.pop()
                if box.least_cost >= goal:  # something cheaper was found meanwhile
                    self.deferred.append(box)
                    continue
                problems.append(box.reopen())
            run.meter.check()
            has_room = len(self.deferred) + len(pending) < MAX_DEFERRED
            problem, tables, messages, waiting = problems[-1]
            status, seen, least_cost = search_cheapest(
                self.forest,
                self.tables,
                self.workspace,
                problem,
                tables,
                messages,
                waiting,
                self.least_leaves,
                goal if has_room else math.inf,
                min(BOXES_PER_LOOK, boxes),
            )
            boxes -= max(1, seen)
            run.meter.events["boxes"] += seen
            if status == PROVEN:
                problems.pop()
            elif status == FOUND or (status == UNSURE and self._ask_model(query, costs, run)):
                self._accept(costs, sequence)
                goal = sequence.find_goal(self.proven_below)
            elif status == LATER:
                self.deferred.append(_defer_top_box(problems[-1], least_cost))
            elif status == SMALL:
                reduced = _take_top_box(problems[-1], self.merges)
                problems += [] if reduced is None else [reduced]
            self.is_full = int(waiting.counters[0]) + 1 >= MAX_DEPTH
        if self.merges and self.has_denied:
            self.merges, self.has_begun, self.deferred = False, False, []
        else:
            self.proven_below = max(self.proven_below, min((box.least_cost for box in self.deferred), default=math.inf))
        return boxes

    def _begin(self) -> list[OpenProblem]:
        """The problem of all that costs less than the limit; none if there is nothing."""
        self.has_begun = True
        if self.merges:
            start_change_search(self.tables, self.workspace, self.forest)
        first = self._bound_first(self.merges)
        return [] if first is None else [first]

    def _bound_first(self, merges: bool) -> OpenProblem | None:
        """The problem below the limit, bounded at the best of some prices; None if there is nothing."""
        limit = float(self.tables.limit[0])
        domain = self.tables.start_domain.copy()
        if limit <= 0.0 or not close_first_box(self.forest, self.tables, domain):
            return None
        built = build_change_problem(self.forest, self.tables, domain, merges)
        if built is None:
            return None
        problem, tables = built
        least, chosen = np.inf, None
        for share in FIRST_PRICES:
            messages = allocate_messages(problem, self._find_prices(share / max(limit, LEAST_LIMIT)))
            domain = tables.start_domain.copy()
            dead = np.zeros((len(problem.leaf_values) + 63) // 64, dtype=np.uint64)
            bound, _ = bound_box(problem, tables, messages, domain, dead, limit, FIRST_SWEEPS, False)
            if bound == -np.inf:
                return None
            if chosen is None or bound < least:
                least, chosen = bound, (messages, domain, dead)
        assert chosen is not None
        messages, domain, dead = chosen
        waiting = _allocate_waiting(domain, len(problem.leaf_values))
        waiting.dead[0] = dead
        return OpenProblem(problem, tables, messages, waiting)

    def _find_prices(self, share: float) -> Float64Array:
        """A price per margin: a share of what it falls short of at the instance."""
        short = np.zeros(len(self.forest.offset))
        measure_shortfalls(self.forest, self.tables, self.workspace.sums, short)
        # Where the instance itself cannot occur, what trees bring gives the order of magnitude.
        size = np.array([np.abs(self.forest.leaf_weights[np.isfinite(self.forest.leaf_weights)]).max(initial=1.0)])
        return np.where(np.isfinite(short), short, size) * share

    def _ask_model(self, query: BoxQuery, costs: ChangeCosts, run: Run) -> bool:
        """Rounding could turn the decision at the workspace's point: only the model itself can say."""
        point = costs.find_cheapest_point(self.workspace.point)
        if run.meter.desired(query.case.model, point[None, :])[0]:
            return True
        record_denied(self.workspace)
        self.has_denied = True
        return False

    def _accept(self, costs: ChangeCosts, sequence: CheapestSequence) -> None:
        """Put the workspace's point, which costs less than its limit, into the sequence."""
        accept_point(self.forest, self.tables, self.workspace)
        best = self.tables.best
        point = costs.find_cheapest_point(best)
        sequence.add(Candidate(float(self.tables.limit[0]), best != self.tables.home, point))
        sequence.set_limits(self.tables)


def prove_cheapest(
    searches: Sequence[CheapestSearch],
    query: BoxQuery,
    costs: ChangeCosts,
    sequence: CheapestSequence,
    boxes: int,
    run: Run,
) -> int:
    """Search forests until nothing is left in any that belongs into a sequence, or for so many boxes; the boxes left.

    The first of the sequence is proven first in all forests, then the second, and so on.
    """
    while boxes > 0 and sequence.proven_below < math.inf:
        least = min(searches, key=lambda search: search.proven_below)
        boxes = least.advance(query, costs, sequence, boxes, run)
        if least.is_full:
            break
        sequence.proven_below = min(search.proven_below for search in searches)
    return boxes


def _allocate_waiting(domain: UInt64Array, leaves: int) -> WaitingBoxes:
    """One box that waits, of which no leaf is known to be dead."""
    domains = np.empty((MAX_DEPTH, len(domain)), dtype=np.uint64)
    dead = np.empty((MAX_DEPTH, (leaves + 63) // 64), dtype=np.uint64)
    domains[0], dead[0] = domain, 0
    return WaitingBoxes(domains, dead, np.zeros(2, dtype=np.int64))


def _defer_top_box(whole: OpenProblem, least_cost: float) -> DeferredBox:
    """The box on top, which no longer waits there."""
    waiting = whole.waiting
    depth = int(waiting.counters[0])
    waiting.counters[:] = depth - 1, 0
    return DeferredBox(least_cost, whole, waiting.domains[depth].copy(), waiting.dead[depth].copy())


def _take_top_box(whole: OpenProblem, merges: bool) -> OpenProblem | None:
    """The box on top, as a problem of its own; None if no counterfactual is left in it."""
    problem, tables, messages, waiting = whole
    depth, answered = waiting.counters.tolist()
    waiting.counters[:] = depth - 1, 0
    domain, dead = waiting.domains[depth], waiting.dead[depth]
    reduced = reduce_problem(problem, tables, messages, domain=domain, dead=dead, merges=merges)
    if reduced is None:
        return None
    own = _allocate_waiting(reduced[1].start_domain, len(reduced[0].leaf_values))
    own.counters[1] = answered
    return OpenProblem(*reduced, own)
