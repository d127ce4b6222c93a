"""Find and prove the nearest counterfactuals of a network: best-first branch and bound by the cost of changes.

A sub-box costs at least what its cheapest places do, feature by feature; the least cost of a range of places is looked
up in a table of the least over runs of 1, 2, 4, ... places, two of which make up any range. Sub-boxes are bounded in
the order of that cost. One is closed if the network's bound closes it, if it costs as much as the best counterfactual
found, or if all its points change every feature of an earlier one. A sub-box that holds the instance's place of a
feature is cut next to that place, so that sub-boxes soon say which features change; once no further change can be
afforded, all others stay as they are, and what is left are boxes of few features, which bounds close soon. A
counterfactual that is found is made cheaper, one feature after the other, before it becomes the best.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, Points
from ironrule.backends.nearest import ChangeCosts
from ironrule.backends.network.ascent import AscentSearch
from ironrule.backends.network.compile import CompiledNetwork, compute_margins
from ironrule.backends.network.engine import BoundEngine, CpuEngine
from ironrule.backends.network.partition import FeasibleCombinations, SubBoxes
from ironrule.backends.network.workspace import (
    NO_CUT_IN_GAP,
    STATUS_FOUND,
    STATUS_GAP,
    STATUS_OPEN,
    STATUS_POINT,
    BoundResults,
    OpenCells,
    find_open_values,
)
from ironrule.oracles.protocol import BoxQuery, Case, Run
from ironrule.rule.box import Box
from ironrule.verdict.budget import Meter


@dataclass(slots=True, eq=False)
class Frontier:
    """The sub-boxes that wait, and the least that a point in each costs; ``taken_count`` counts those taken."""

    starts: Int64Array
    range_minima: Float64Array  # per length of a run, a power of two, and place
    origin: Int64Array  # per feature, the instance's place
    cheapest_change: Float64Array  # per feature, the cheapest change
    adds_up: bool  # whether costs of features are added up, or the largest counts
    earlier_changes: list[Int64Array]
    low: Int64Array
    high: Int64Array
    cost: Float64Array
    taken_count: int = 0

    @classmethod
    def build(cls, open_cells: OpenCells, costs: ChangeCosts, home: Int64Array, unlike: list[Int64Array]) -> Frontier:
        """The whole box, waiting."""
        ends = list(zip(open_cells.starts[:-1].tolist(), open_cells.starts[1:].tolist(), strict=True))
        cells = [open_cells.cells[start:end] for start, end in ends]
        # What an open cell costs: the cost of its cheapest code. `change` is the least of cells but the instance's own.
        each = [cost[own] for cost, own in zip(costs.list_cell_costs(), cells, strict=True)]
        places = np.array([np.searchsorted(own, cell) for own, cell in zip(cells, home, strict=True)])
        change = np.array(
            [np.delete(cost, place).min(initial=np.inf) for cost, place in zip(each, places, strict=True)]
        )
        whole = np.diff(open_cells.starts)[None, :] - 1
        return cls(
            starts=open_cells.starts[:-1],
            range_minima=_build_range_minima(np.concatenate(each)),
            origin=places,
            cheapest_change=change,
            adds_up=costs.adds_up,
            earlier_changes=unlike,
            low=np.zeros_like(whole),
            high=whole,
            cost=np.zeros(1),
        )

    def keep_below(self, cost_limit: float) -> bool:
        """Drop sub-boxes that cost as much as the limit or more; returns whether any is left."""
        kept = self.cost < cost_limit
        if not kept.all():
            self.low, self.high, self.cost = self.low[kept], self.high[kept], self.cost[kept]
        return len(self.cost) > 0

    def take(self, most: int, cost_limit: float) -> SubBoxes:
        """Take the cheapest sub-boxes; features whose change would reach the limit stay at the instance's place."""
        order = np.argsort(self.cost, kind="stable")
        some, rest = order[:most], order[most:]
        low, high, cost = self.low[some], self.high[some], self.cost[some]
        self.low, self.high, self.cost = self.low[rest], self.high[rest], self.cost[rest]
        self.taken_count += len(some)
        # The cost of a sub-box counts such a feature as unchanged; any change adds at least `cheapest_change`, and what
        # costs as much as the limit is not wanted. So only the instance's place of the feature is left.
        each = cost[:, None] + self.cheapest_change if self.adds_up else self.cheapest_change[None, :]
        at_home = (low <= self.origin) & (high >= self.origin) & (each >= cost_limit)
        stay = np.broadcast_to(self.origin, low.shape)
        return SubBoxes(some, np.where(at_home, stay, low), np.where(at_home, stay, high))

    def cut(self, parents: SubBoxes, cuts: Int64Array, beside_home: bool) -> None:
        """Cut sub-boxes in two; the halves wait.

        With `beside_home`, they are cut next to the instance's place if they hold it.
        """
        row, feature, place = np.arange(len(cuts)), cuts[:, 0], cuts[:, 1]
        if beside_home:
            # Cut just before the instance's place, or just after it if the range begins there: after at most two cuts
            # the place is alone, and the sub-boxes say whether the feature changes.
            home, first = self.origin[feature], parents.low[row, feature]
            inside = (first <= home) & (home <= parents.high[row, feature])
            place = np.where(inside, np.where(home > first, home - 1, home), place)
        # All first halves, then all second halves; those that only repeat an earlier counterfactual are dropped.
        low, high = np.concatenate([parents.low] * 2), np.concatenate([parents.high] * 2)
        high[row, feature] = place
        low[len(cuts) + row, feature] = place + 1
        cost, kept = self._compute_costs(low, high), ~self._repeats_earlier(low, high)
        self.low, self.high = np.concatenate([self.low, low[kept]]), np.concatenate([self.high, high[kept]])
        self.cost = np.concatenate([self.cost, cost[kept]])

    def _compute_costs(self, low: Int64Array, high: Int64Array) -> Float64Array:
        """The least that a point of every part costs."""
        # A sparse table of range minima: two runs of length 2^power, one from the first place and one up to the last,
        # overlap and together are the range. `frexp` gives the largest such power.
        power = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        first, last = self.starts + low, self.starts + high - (1 << power) + 1
        each = np.minimum(self.range_minima[power, first], self.range_minima[power, last])
        return np.asarray(each.sum(axis=1) if self.adds_up else each.max(axis=1, initial=0.0))

    def _repeats_earlier(self, low: Int64Array, high: Int64Array) -> BoolArray:
        """Whether all points of a part change every feature of an earlier counterfactual."""
        # A feature changes in all points of a sub-box if its range does not hold the instance's place.
        changed, alike = (low > self.origin) | (high < self.origin), np.zeros(len(low), dtype=np.bool_)
        for features in self.earlier_changes:
            alike |= changed[:, features].all(axis=1)
        return alike


def _build_range_minima(costs: Float64Array) -> Float64Array:
    """For runs of 1, 2, 4, ... places from every place on, the least of their costs."""
    runs, length = [costs], 1
    # A run of length 2n is two runs of length n. Runs may reach into the next feature; ranges looked up never do.
    while 2 * length <= len(costs):
        runs.append(np.minimum(runs[-1], np.concatenate([runs[-1][length:], np.full(length, np.inf)])))
        length *= 2
    return np.stack(runs)


MAX_BOXES = 400_000
FIRST_CLIMBS = 8  # boxes climbed in for a first counterfactual


@dataclass(slots=True, eq=False)
class NetworkNearestSearch:
    """The next nearest counterfactual, in every alternative of a network."""

    nets: tuple[CompiledNetwork, ...]
    case: Case
    box: Box
    costs: ChangeCosts
    engine: BoundEngine
    best: Points | None = None
    earlier_changes: list[Int64Array] = field(default_factory=list)

    @classmethod
    def build(
        cls, nets: tuple[CompiledNetwork, ...], query: BoxQuery, engine: BoundEngine | None
    ) -> NetworkNearestSearch:
        """A search in a query's box."""
        return cls(nets, query.case, query.box, ChangeCosts.build(query, nets[0].cells), engine or CpuEngine())

    def next(self, found: list[Points], run: Run) -> bool:
        """Search every alternative; each must be cheaper than the best of those before. Whether all searches ended."""
        self.earlier_changes = [np.flatnonzero(point != self.case.instance) for point in found]
        for net in self.nets:
            self._climb_first(net, run)
        answers = [self._search_net(net, run.meter) for net in self.nets]
        return all(answers)

    @property
    def cost_limit(self) -> float:
        """The cost of the best counterfactual so far, infinite before there is one."""
        return np.inf if self.best is None else self.costs.measure_point(self.best)

    def _climb_first(self, net: CompiledNetwork, run: Run) -> None:
        """Climb in boxes that keep a feature of every earlier counterfactual."""
        for _ in range(FIRST_CLIMBS if self.earlier_changes else 1):
            run.meter.check()
            low, high = self.box.low.copy(), self.box.high.copy()
            # Fixing one feature of every earlier counterfactual, chosen at random: no change set repeats one of them.
            for features in self.earlier_changes:
                kept = run.rng.choice(features)
                low[kept] = high[kept] = self.case.instance[kept]
            found = AscentSearch(net, self.case, Box(low, high)).climb(run.rng)
            if found is not None:
                self._offer_point(net, net.cells.locate(found))

    def _search_net(self, net: CompiledNetwork, meter: Meter) -> bool:
        """Bound sub-boxes until none is left that may hold anything cheaper.

        False if they are too many, or if none was found and one may lie between two values.
        """
        work = AscentSearch(net, self.case, self.box)
        frontier = Frontier.build(work.open_cells, self.costs, work.origin, self.earlier_changes)
        occurring = FeasibleCombinations.build(net, work.open_cells, self.case.feasible, self.box)
        values, decided = find_open_values(net, self.box), True
        # Best-first branch and bound: `cost_limit` falls with every better counterfactual, which drops more sub-boxes.
        while frontier.keep_below(self.cost_limit):
            if frontier.taken_count >= MAX_BOXES:
                return False
            meter.check()
            some = occurring.keep_feasible(frontier.take(self.engine.batch, self.cost_limit))
            # Beside a counterfactual that was found, values alone are looked at: who calls it the nearest accounts for
            # the numbers between them.
            cells = work.open_cells if self.best is None else values
            outcome = self.engine.bound_boxes(net, cells, some.low, some.high)
            meter.events["boxes"] += len(some.number)
            self._check_points(net, outcome, meter)
            # A sub-box with a counterfactual is cut on: it may hold a cheaper one. Where only gaps are left, numbers
            # in them may be counterfactuals; the value where they begin has not been looked at yet.
            rest = (outcome.status == STATUS_OPEN) | (outcome.status == STATUS_FOUND) | (outcome.status == STATUS_GAP)
            in_gaps = rest & (outcome.cuts[:, 0] == NO_CUT_IN_GAP)
            if in_gaps.any():
                decided = False
                begins = self.engine.bound_boxes(net, values, some.low[in_gaps], some.high[in_gaps])
                self._check_points(net, begins, meter)
            cut = rest & (outcome.cuts[:, 0] >= 0)
            parents = SubBoxes(*(one[cut] for one in some))
            frontier.cut(parents, outcome.cuts[cut], self.best is not None)
        return decided or self.best is not None

    def _check_points(self, net: CompiledNetwork, outcome: BoundResults, meter: Meter) -> None:
        """Counterfactuals that bounds have shown: sure ones, and points that only the model can decide."""
        for cells in outcome.points[outcome.status == STATUS_FOUND]:
            self._offer_point(net, cells)
        for cells in outcome.points[outcome.status == STATUS_POINT]:
            point = self.costs.find_cheapest_point(cells)
            if self._is_permitted(point) and meter.desired(self.case.model, point[None, :])[0]:
                self.best = point

    def _offer_point(self, net: CompiledNetwork, cells: Int64Array) -> None:
        """Make a counterfactual the best one if it is cheaper, as cheap as it can be made."""
        if self._is_permitted(self.costs.find_cheapest_point(cells)):
            # Make it cheaper one feature at a time, the most expensive change first.
            every = zip(self.costs.code_costs, self.costs.cheapest_codes, cells, strict=True)
            for j in np.argsort([-own[cheapest[cell]] for own, cheapest, cell in every]).tolist():
                cells = self._lower_cost(net, cells, j)
            self.best = self.costs.find_cheapest_point(cells)

    def _lower_cost(self, net: CompiledNetwork, cells: Int64Array, j: int) -> Int64Array:
        """A counterfactual with the cheapest cell of one feature with which it surely is one that can occur."""
        codes = self.costs.cheapest_codes[j]
        inside, prices = (codes >= self.box.low[j]) & (codes <= self.box.high[j]), self.costs.code_costs[j][codes]
        better = np.flatnonzero(inside & (prices < prices[cells[j]]))
        # All cheaper cells at once, kept where the margin is surely positive; of these the cheapest that can occur.
        moved = np.repeat(cells[None, :], len(better), axis=0)
        moved[:, j] = better
        moved = moved[compute_margins(net, moved)[1] > 0.0]
        for one in moved[np.argsort(prices[moved[:, j]], kind="stable")]:
            if self.case.feasible.admits(self.costs.find_cheapest_point(one)[None, :])[0]:
                return np.asarray(one)
        return cells

    def _is_permitted(self, point: Points) -> bool:
        """Whether a point can occur, is cheaper than the best, and keeps a feature of every earlier one.

        The row itself is none, though a library that adds otherwise for one row than for many may now desire it.
        """
        changed = point != self.case.instance
        repeats = any(changed[features].all() for features in self.earlier_changes)
        if not changed.any() or repeats or self.costs.measure_point(point) >= self.cost_limit:
            return False
        return bool(self.case.feasible.admits(point[None, :])[0])
