"""The nearest counterfactuals of a forest, proven so: fewest changes first, then least distance.

A quick answer comes first, uphill from the instance. Then changes of at most one feature are searched, of at most two,
and so on (:mod:`~ironrule.backends.forest.change_search`), until a counterfactual is found: the search goes on with its
cost as the limit, and at its end nothing is cheaper. For the next one, the features that an earlier one changes must
not all change.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.backends.forest.branch_and_bound import PROVEN, UNSURE, record_denied
from ironrule.backends.forest.change_search import (
    ChangeTables,
    accept_point,
    build_change_tables,
    search_changes,
    start_change_search,
)
from ironrule.backends.forest.compile import CompiledForest
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.forest.workspace import DEPTH, MAX_DEPTH, ForestWorkspace
from ironrule.backends.nearest import ChangeCosts, fill_nearest_codes
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.rule.box import Box

BOXES_PER_ROUND = 500  # after which the budget is looked at
MAX_PARTS = 32  # boxes that are asked for a quick answer beside earlier counterfactuals


@dataclass(slots=True, eq=False)
class ForestNearestSearch:
    """One counterfactual after the other, each the cheapest that is left; ``limit`` boxes are looked at for each."""

    forests: tuple[CompiledForest, ...]
    oracle: ForestOracle
    query: BoxQuery
    costs: ChangeCosts
    limit: int
    best: Points | None = field(default=None)

    def next(self, found: list[Points], run: Run) -> bool:
        """Look for the cheapest counterfactual that those found leave, as ``best``; whether that ended with a proof."""
        instance, box = self.query.case.instance, self.query.box
        forbidden = np.array([point != instance for point in found], dtype=np.bool_).reshape(-1, len(instance))
        if self._find_quick_answer(forbidden, run):
            return True
        cost_limit = math.inf if self.best is None else self.costs.sum_point(self.best)
        searches = [self._start(place, forest, forbidden) for place, forest in enumerate(self.forests)]
        boxes_left = self.limit
        # The nearest of those left costs no less than the one before.
        fewest = max([1, *(int(self.costs.sum_point(point)) for point in found[-1:])])
        for changes in range(fewest, int((box.low < box.high).sum()) + 1):
            for search in searches:
                search.begin(min(cost_limit, changes + 1.0))
                while not search.run_round(self.query, min(BOXES_PER_ROUND, boxes_left), run):
                    boxes_left -= BOXES_PER_ROUND
                    self._note_best(search, cost_limit)
                    if boxes_left <= 0 or search.is_full:
                        return False
                    run.meter.check()
                cost_limit = self._note_best(search, cost_limit)
            if cost_limit <= changes + 1.0:
                break
        for search in searches:
            self.oracle.workspaces.release(search.place, search.workspace)
        return True

    def _find_quick_answer(self, forbidden: BoolArray, run: Run) -> bool:
        """Set ``best`` to some counterfactual that is not forbidden; whether it is proven that there is none."""
        sets = [np.flatnonzero(row).tolist() for row in forbidden]
        if math.prod(map(len, sets)) > MAX_PARTS:
            return False
        proven = True
        # Of every set one feature stays: together these boxes hold all that is not forbidden.
        for staying in itertools.product(*sets):
            low, high = self.query.box.low.copy(), self.query.box.high.copy()
            chosen = list(staying)
            low[chosen] = high[chosen] = self.query.case.instance[chosen]
            answer = self.oracle.find_or_prove(BoxQuery(self.query.case, Box(low, high)), run)
            if isinstance(answer, np.ndarray):
                if self.best is None or self.costs.sum_point(answer) < self.costs.sum_point(self.best):
                    self.best = self.costs.find_cheapest_point(self.forests[0].cells.locate(answer))
                return False
            proven = proven and answer is not None
        return proven

    def _start(self, place: int, forest: CompiledForest, forbidden: BoolArray) -> _ForestSearch:
        box = self.query.box
        tables = build_change_tables(forest, self.costs, self.query.case.instance, box.low, box.high)
        workspace = self.oracle.workspaces.acquire(place, forest)
        return _ForestSearch(place, forest, tables._replace(forbidden=forbidden), workspace)

    def _note_best(self, search: _ForestSearch, cost_limit: float) -> float:
        """Take over what a search has found below the limit; the limit from then on."""
        if search.tables.best[0] < 0:
            return cost_limit
        self.best = self.costs.find_cheapest_point(search.tables.best)
        return self.costs.sum_point(self.best)


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

    def run_round(self, query: BoxQuery, boxes: int, run: Run) -> bool:
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
            point = self._find_codes(query)
            if run.meter.desired(query.case.model, point[None, :])[0]:
                accept_point(self.forest, self.tables, self.workspace)
            else:
                record_denied(self.workspace)
        return False

    def _find_codes(self, query: BoxQuery) -> Points:
        """The workspace's point as codes of the query's box."""
        codes = np.empty_like(query.case.instance)
        cells, box = self.forest.cells, query.box
        fill_nearest_codes(cells, self.workspace.point, query.case.instance, box.low, box.high, codes)
        return codes
