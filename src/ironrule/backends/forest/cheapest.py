"""Prove which changes of one forest are the cheapest, under a cost that is a sum; rounds of compiled code.

What :mod:`.cheapest_search` does, between looks at the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
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
LEAST_LEAVES = 100  # problems with fewer are small enough
LEAST_LIMIT = 1e-200  # for which a price is sought: where all changes are free it would be infinite


class OpenProblem(NamedTuple):
    """A problem, and its boxes that wait."""

    problem: ChangeProblem
    tables: ChangeTables
    messages: Messages
    waiting: WaitingBoxes


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

    def prove(
        self, query: BoxQuery, costs: ChangeCosts, sequence: CheapestSequence, boxes: int, run: Run
    ) -> tuple[bool, int]:
        """Search until nothing is left that belongs into a sequence, for which the tables were prepared; whether that
        is so, and the boxes left.

        Of cells that trees do not tell apart the cheapest alone is looked at. Where the model denied a point that
        rounding could turn, its word is not about the others, so that all cells are looked at once more.
        """
        self.has_denied = False
        start_change_search(self.tables, self.workspace, self.forest)
        sequence.set_limits(self.tables)
        ended, boxes = self._prove(query, costs, sequence, boxes, run, merges=True)
        if ended and self.has_denied:
            ended, boxes = self._prove(query, costs, sequence, boxes, run, merges=False)
        return ended, boxes

    def _prove(
        self, query: BoxQuery, costs: ChangeCosts, sequence: CheapestSequence, boxes: int, run: Run, *, merges: bool
    ) -> tuple[bool, int]:
        first = self._bound_first(merges)
        if first is None:
            return True, boxes
        # Boxes of which little is left get a smaller problem of their own, on top of the others.
        problems = [first]
        while boxes > 0 and not self.is_full:
            run.meter.check()
            problem, tables, messages, waiting = problems[-1]
            status, seen = search_cheapest(
                self.forest,
                self.tables,
                self.workspace,
                problem,
                tables,
                messages,
                waiting,
                self.least_leaves,
                min(BOXES_PER_LOOK, boxes),
            )
            boxes -= max(1, seen)
            run.meter.events["boxes"] += seen
            if status == PROVEN:
                problems.pop()
                if not problems:
                    return True, boxes
            elif status == FOUND or (status == UNSURE and self._ask_model(query, costs, run)):
                self._accept(costs, sequence)
            elif status == SMALL:
                reduced = _take_top_box(problems[-1], merges)
                problems += [] if reduced is None else [reduced]
            self.is_full = int(waiting.counters[0]) + 1 >= MAX_DEPTH
        return False, boxes

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
            bound = bound_box(problem, tables, messages, domain, dead, limit, FIRST_SWEEPS, False)
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


def _allocate_waiting(domain: UInt64Array, leaves: int) -> WaitingBoxes:
    """One box that waits, of which no leaf is known to be dead."""
    domains = np.empty((MAX_DEPTH, len(domain)), dtype=np.uint64)
    dead = np.empty((MAX_DEPTH, (leaves + 63) // 64), dtype=np.uint64)
    domains[0], dead[0] = domain, 0
    return WaitingBoxes(domains, dead, np.zeros(2, dtype=np.int64))


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
