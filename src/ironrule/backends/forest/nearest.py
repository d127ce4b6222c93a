"""Find and prove the nearest counterfactuals of a forest: fewest changes, then least distance; or least of any cost.

A quick answer comes first, uphill from the instance. Then changes of at most one feature are searched, of at most two,
and so on (:mod:`~ironrule.backends.forest.change_search`), until a counterfactual is found: the search goes on with its
cost as the limit, and at its end nothing is cheaper. For the next one, the features that an earlier one changes must
not all change.

Other costs that are sums over features have bounds and a search of their own (:mod:`.cheapest_search`), which looks
for all that are wanted at once (:mod:`.cheapest_sequence`). Where the largest cost counts, or sums go through links,
what costs less than an eighth of the quick answer is searched, less than a quarter, and so on: a low limit closes most
of a box at once, so that what such a search takes is little beside the last one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.backends.forest.branch_and_bound import PROVEN, UNSURE, record_denied
from ironrule.backends.forest.change_search import accept_point, search_changes, start_change_search
from ironrule.backends.forest.change_tables import ChangeTables, build_change_tables
from ironrule.backends.forest.cheapest import CheapestSearch, has_links, prove_cheapest
from ironrule.backends.forest.cheapest_sequence import Candidate, CheapestSequence
from ironrule.backends.forest.compile import CompiledForest
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.forest.workspace import DEPTH, MAX_DEPTH, ForestWorkspace
from ironrule.backends.nearest import ChangeCosts
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted

BOXES_PER_ROUND = 500  # after which the budget is looked at
FIRST_SHARES = (1 / 8, 1 / 4, 1 / 2)  # of the cost of a quick answer: limits that are tried first
MAX_PARTS = 32  # boxes that are asked for a quick answer beside earlier counterfactuals


@dataclass(slots=True, eq=False)
class ForestNearestSearch:
    """One counterfactual after the other, each the cheapest that is left; ``limit`` boxes are looked at for each.

    Those that are sought together are handed out one by one. If that search ends early, the first that are not proven
    come last, with what ended it.
    """

    forests: Sequence[CompiledForest]
    oracle: ForestOracle
    query: BoxQuery
    costs: ChangeCosts
    limit: int
    best: Points | None = field(default=None)
    listed: list[Points] = field(default_factory=list)  # those that were found together, and are proven
    unproven: Points | None = None  # the one after these
    ended_early: bool = False
    stop: BudgetExhausted | KeyboardInterrupt | None = None  # what ended the search early, if not its limit of boxes

    def next(self, found: list[Points], run: Run) -> bool:
        """Look for the cheapest counterfactual that those found leave, as ``best``; whether that ended with a proof."""
        instance = self.query.case.instance
        if len(found) < len(self.listed) and all(map(np.array_equal, found, self.listed)):
            self.best = self.listed[len(found)]
            return True
        if self.ended_early:
            self.best = self.unproven
            if self.stop is not None:
                raise self.stop
            return False
        forbidden = np.array([point != instance for point in found], dtype=np.bool_).reshape(-1, len(instance))
        if self._find_quick_answer(forbidden, run):
            return True
        if self.query.cost is not None and self.costs.adds_up and not any(map(has_links, self.forests)):
            sequence = self._find_candidates(forbidden, run)
            try:
                self._find_cheapest(sequence, run)
            except (BudgetExhausted, KeyboardInterrupt) as stop:
                self.stop = stop
            return self._hand_out(found, sequence, run)
        searches = [self._start(place, forest, forbidden) for place, forest in enumerate(self.forests)]
        boxes_left = self.limit
        # The nearest of those left costs no less than the one before.
        last = self.costs.measure_point(found[-1]) if found else 0.0
        cost_limit = self._measure_best()
        for limit in self._list_limits(last):
            for search in searches:
                search.begin(min(cost_limit, limit))
                while not search.run_round(self.query, self.costs, min(BOXES_PER_ROUND, boxes_left), run):
                    boxes_left -= BOXES_PER_ROUND
                    self._note_best(search.tables)
                    if boxes_left <= 0 or search.is_full:
                        return False
                    run.meter.check()
                self._note_best(search.tables)
                cost_limit = self._measure_best()
            if cost_limit <= limit:
                break
        for search in searches:
            self.oracle.workspaces.release(search.place, search.workspace)
        return True

    def _find_candidates(self, forbidden: BoolArray, run: Run) -> CheapestSequence:
        """Cheap counterfactuals, as many as are wanted or as are found, for a search to begin with. The first one is
        ``best`` from now on, as before.
        """
        every = math.nextafter(self.costs.sum_largest(), math.inf)
        sequence = CheapestSequence(max(1, self.query.k - len(forbidden)), every, forbidden)
        try:
            for _ in range(sequence.wanted):
                self._descend(forbidden, run)
                if self.best is None:
                    break
                changed = self.best != self.query.case.instance
                sequence.add(Candidate(self._measure_best(), changed, self.best))
                if len(sequence.candidates) == sequence.wanted:
                    break
                forbidden, self.best = np.concatenate([forbidden, changed[None, :]]), None
                if self._find_quick_answer(forbidden, run):
                    break
        finally:  # the budget may end
            self.best = next(iter(sequence.points), self.best)
        sequence.want_no_more()
        return sequence

    def _descend(self, forbidden: BoolArray, run: Run) -> None:
        """Look for something cheaper than ``best``, by small steps."""
        for place, forest in enumerate(self.forests):
            tables = build_change_tables(forest, self.costs, self.query, forbidden)
            search = CheapestSearch(forest, tables, self.oracle.workspaces.acquire(place, forest))
            # One above all costs, if there is no counterfactual yet: a forest alone may have one.
            search.begin(min(self._measure_best(), math.nextafter(self.costs.sum_largest(), math.inf)))
            try:
                search.descend(run)
            finally:
                self._note_best(tables)
            self.oracle.workspaces.release(place, search.workspace)

    def _find_cheapest(self, sequence: CheapestSequence, run: Run) -> None:
        """Look for the cheapest under a cost that is a sum, and prove as many as the limit of boxes permits."""
        searches = list[CheapestSearch]()
        for place, forest in enumerate(self.forests):
            tables = sequence.prepare(build_change_tables(forest, self.costs, self.query, sequence.earlier))
            searches.append(CheapestSearch(forest, tables, self.oracle.workspaces.acquire(place, forest)))
        boxes = self.limit * sequence.wanted
        prove_cheapest(searches, self.query, self.costs, sequence=sequence, boxes=boxes, run=run)
        for place, search in enumerate(searches):
            self.oracle.workspaces.release(place, search.workspace)

    def _hand_out(self, found: list[Points], sequence: CheapestSequence, run: Run) -> bool:
        """Set ``best`` to the first of those that were sought together; whether it is proven, or that there is none."""
        points, count = sequence.points, sequence.proven_count
        self.best, self.listed = next(iter(points), None), [*found, *points[:count]]
        self.ended_early, self.unproven = sequence.proven_below < math.inf, next(iter(points[count:]), None)
        if self.ended_early and count == 0:
            return self.next(found, run)  # with what ended the search
        return True

    def _list_limits(self, last: float) -> Iterator[float]:
        """Limits of what a counterfactual may cost, each tried if the one before brought none; the last one is above
        all costs. ``last``: what the counterfactual before costs.
        """
        every = math.nextafter(self.costs.sum_largest(), math.inf)
        if self.query.cost is None:
            changeable = int((self.query.box.low < self.query.box.high).sum())
            yield from (changes + 1.0 for changes in range(max(1, int(last)), changeable + 1))
            return
        most = min(every, self._measure_best())
        for share in FIRST_SHARES:
            if last < share * most:
                yield share * most
        yield every

    def _measure_best(self) -> float:
        """What the best counterfactual so far costs."""
        return math.inf if self.best is None else self.costs.measure_point(self.best)

    def _find_quick_answer(self, forbidden: BoolArray, run: Run) -> bool:
        """Set ``best`` to some counterfactual that is not forbidden; whether it is proven that there is none."""
        sets, box = [np.flatnonzero(row).tolist() for row in forbidden], self.costs.find_hull(self.query.box)
        if math.prod(map(len, sets)) > MAX_PARTS:
            return False
        proven = True
        # Of every set one feature stays: together these boxes hold all that is not forbidden.
        for staying in itertools.product(*sets):
            low, high = box.low.copy(), box.high.copy()
            chosen = list(staying)
            low[chosen] = high[chosen] = self.query.case.instance[chosen]
            answer = self.oracle.find_or_prove(BoxQuery(self.query.case, Box(low, high)), run)
            if isinstance(answer, np.ndarray):
                nearest = self.costs.find_cheapest_point(self.forests[0].cells.locate(answer))
                if self.costs.measure_point(nearest) < self._measure_best():
                    self.best = nearest
                return False
            proven = proven and answer is not None
        return proven

    def _start(self, place: int, forest: CompiledForest, forbidden: BoolArray) -> _ForestSearch:
        tables = build_change_tables(forest, self.costs, self.query, forbidden)
        return _ForestSearch(place, forest, tables, self.oracle.workspaces.acquire(place, forest))

    def _note_best(self, tables: ChangeTables) -> None:
        """Take over what a search has found below the limit."""
        if tables.best[0] >= 0:
            self.best = self.costs.find_cheapest_point(tables.best)


@dataclass(slots=True, eq=False)
class _ForestSearch:
    """The search in one forest."""

    place: int
    forest: CompiledForest
    tables: ChangeTables
    workspace: ForestWorkspace

    @property
    def is_full(self) -> bool:
        """Whether more boxes wait than there is room for."""
        return int(self.workspace.counters[DEPTH]) + 1 >= MAX_DEPTH

    def begin(self, cost_limit: float) -> None:
        """Look for what costs less than a limit."""
        start_change_search(self.tables, self.workspace, self.forest)
        self.tables.limit[0] = cost_limit

    def run_round(self, query: BoxQuery, costs: ChangeCosts, boxes: int, run: Run) -> bool:
        """Look at so many boxes; whether none is left."""
        seen = 0
        while seen < boxes:
            status, looked_at = search_changes(self.forest, self.tables, self.workspace, boxes - seen)
            seen += max(1, looked_at)
            run.meter.events["boxes"] += looked_at
            if status == PROVEN:
                return True
            if status != UNSURE:
                return False
            # Rounding could turn the decision here: only the model itself can say.
            point = costs.find_cheapest_point(self.workspace.point)
            if run.meter.desired(query.case.model, point[None, :])[0]:
                accept_point(self.forest, self.tables, self.workspace)
            else:
                record_denied(self.workspace)
        return False
