"""Find and prove the cheapest counterfactual of a network under any cost: best-first branch and bound.

A part of the box is a range of places per feature (:mod:`.change_places`), and for some rectified units the side of
zero on which their sum lies. The part with the least lower bound (:mod:`.cost_bounds`) is cut next: at the unit where
its bound loses most, or at a feature. The point that the bound takes for a counterfactual is often one; it is made as
cheap as can be, one feature after the other, and becomes the best so far. The search ends where no part may hold
anything cheaper; whenever it ends, the least bound of what is left says what everything costs at least.

A counterfactual must not change all the features of an earlier one, so it keeps one of each. Every way to keep one of
each begins with a part of its own, in which these features stay as they are.

What cannot be cut any more is a part whose features are single values or lie between two neighbouring ones, with every
unit's side known: it stays open.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import AnyArray, Float64Array, Int64Array, Points
from ironrule.backends.nearest import CheapestPoint, GapCosts, OpenPart
from ironrule.backends.network.ascent import AscentSearch
from ironrule.backends.network.change_places import ChangePlaces, list_change_places
from ironrule.backends.network.compile import CompiledNetwork, compute_margins
from ironrule.backends.network.cost_bounds import (
    PART_FEATURE,
    PART_POINT,
    PART_STUCK,
    PART_UNIT,
    PartBounds,
    bound_parts_on_cores,
)
from ironrule.backends.network.linear_program import RelaxedSolution, are_rectified, solve_relaxation
from ironrule.backends.network.workspace import LANES
from ironrule.model.protocol import Model
from ironrule.oracles.protocol import Case, Run
from ironrule.rule.box import Box
from ironrule.rule.cost import CostTable

BATCH = 128  # parts bounded at a time, where no linear programs are solved
STEPS = 8  # to better lines and multipliers
FIRST_STEPS, LAST_STEPS = 2, 2  # the same before and after a linear program
MAX_UNITS = 400  # of networks whose linear programs are solved
EXACT_SHARE = 0.002  # of what is missing to the limit: a solution that gains no more by relaxation counts as a point
MAX_PARTS = 200_000  # for one counterfactual
MARGIN_TOLERANCE = 1e-6  # of HiGHS
ROUNDING = 1e-9  # of a cost: what is cheaper by no more is not looked for
FIRST_CLIMBS = 8  # ways in which that is done to climb to a first counterfactual
MAX_FIRST_PARTS = 4_096  # ways to keep a feature of every earlier counterfactual


@dataclass(slots=True, eq=False)
class Parts:
    """Some parts, one row each."""

    bound: Float64Array  # what a counterfactual in it costs at least
    low: Int64Array  # per feature, the first and the last place
    high: Int64Array
    phases: Int64Array  # per unit, the side of zero of its sum, or 0
    multipliers: Float64Array  # per unit, the best that were found for the part or for one that it is cut from
    slopes: Float64Array  # the same for slopes of lines; NaN where there is none

    @classmethod
    def allocate(cls, count: int, features: int, units: int) -> Parts:
        """Room for so many parts."""
        low, high = np.zeros((2, count, features), np.int64)
        multipliers, slopes = np.zeros((count, units)), np.full((count, units), np.nan)
        return cls(np.zeros(count), low, high, np.zeros((count, units), np.int64), multipliers, slopes)

    @property
    def arrays(self) -> tuple[AnyArray, ...]:
        """All arrays."""
        return self.bound, self.low, self.high, self.phases, self.multipliers, self.slopes

    def select(self, rows: Int64Array) -> Parts:
        """Copies of some rows."""
        return Parts(*(array[rows] for array in self.arrays))


@dataclass(slots=True, eq=False)
class PartQueue:
    """The parts that wait, by their lower bound; rows of parts that have been taken are used again."""

    parts: Parts
    heap: list[tuple[float, int, int]] = field(default_factory=list)  # bound, order of arrival, row
    free: list[int] = field(default_factory=list)
    count: int = 0

    @property
    def bound(self) -> float:
        """The least bound of all that waits."""
        return self.heap[0][0] if self.heap else math.inf

    def push(self, part: Parts) -> None:
        """Let a part wait."""
        if not self.free:
            rows = len(self.parts.bound)
            more = Parts.allocate(max(rows, 64), self.parts.low.shape[1], self.parts.phases.shape[1])
            pairs = zip(self.parts.arrays, more.arrays, strict=True)
            self.parts = Parts(*(np.concatenate(pair) for pair in pairs))
            self.free = list(range(len(self.parts.bound) - 1, rows - 1, -1))
        row = self.free.pop()
        for array, own in zip(self.parts.arrays, part.arrays, strict=True):
            array[row] = own[0]
        self.count += 1
        heapq.heappush(self.heap, (float(part.bound[0]), self.count, row))

    def take(self, most: int, limit: float) -> Parts:
        """Take the parts with the least bounds, of those below the limit."""
        rows = list[int]()
        while self.heap and len(rows) < most and self.heap[0][0] < limit:
            rows.append(heapq.heappop(self.heap)[2])
        self.free += rows
        return self.parts.select(np.array(rows, dtype=np.int64))


@dataclass(slots=True, eq=False)
class CheapestNetworkSearch:
    """The search in one box; ``model`` decides points that rounding could turn. ``limit`` parts are looked at for one
    counterfactual.
    """

    nets: tuple[CompiledNetwork, ...]
    case: Case
    box: Box
    table: CostTable
    gaps: GapCosts
    model: Model
    run: Run
    limit: int = MAX_PARTS
    best: Points | None = None
    best_cost: float = math.inf
    earlier: Sequence[frozenset[int]] = ()
    left: float = math.inf  # the least bound of what can neither be closed nor cut, or was not looked at
    current: float = math.inf  # the least bound of what is looked at or waits
    stuck: list[OpenPart] = field(default_factory=list)

    def find_next(self, earlier: Sequence[frozenset[int]]) -> CheapestPoint:
        """The cheapest counterfactual that changes all the features of no earlier one."""
        self.best, self.best_cost, self.earlier, self.left, self.current = None, math.inf, earlier, math.inf, 0.0
        every = [list_change_places(net, self.case, self.box, self.table, self.gaps) for net in self.nets]
        queues = []
        for net, places in zip(self.nets, every, strict=True):
            queue = PartQueue(Parts.allocate(0, len(self.box.low), int(net.unit_starts[-1])))
            if places is not None:
                self._push_first_parts(queue, places)
            queues.append(queue)
        for net, places in zip(self.nets, every, strict=True):
            if places is not None:
                self._climb_first(net, places)
        questions = 0
        while any(queue.bound < self._limit for queue in queues):
            self.current = min(queue.bound for queue in queues)
            self.run.meter.check()
            for net, places, queue in zip(self.nets, every, queues, strict=True):
                if places is not None and queue.bound < self._limit:
                    questions += self._search_parts(net, places, queue)
            if questions >= self.limit:
                self.left = min(self.left, *(queue.bound for queue in queues))
                break
        self.current = math.inf
        return self.answer

    @property
    def answer(self) -> CheapestPoint:
        """What is known now, also where the search was ended by an exception."""
        bound = min(self.left, self.current)
        if self.best is None:
            return CheapestPoint(None, math.inf, bound)
        return CheapestPoint(self.best, self.best_cost, min(bound, self.best_cost))

    @property
    def _limit(self) -> float:
        """What costs no less than this need not be looked at; above all costs before there is a counterfactual."""
        if self.best is not None:
            return self.best_cost * (1.0 - ROUNDING) - 1e-300
        return 1.0 + 2.0 * self.table.combine_parts(
            [float(part[np.isfinite(part)].max(initial=0.0)) for part in self.table.parts]
        )

    def _climb_first(self, net: CompiledNetwork, places: ChangePlaces) -> None:
        """Climb to counterfactuals that keep a feature of each earlier one, for a first limit."""
        for kept in _list_ways_to_keep(self.earlier)[:FIRST_CLIMBS]:
            self.run.meter.check()
            low, high = self.box.low.copy(), self.box.high.copy()
            low[list(kept)] = high[list(kept)] = self.case.instance[list(kept)]
            found = AscentSearch(net, self.case, Box(low, high)).climb(self.run.rng)
            if found is not None:
                self._offer_point(net, places, found)

    def _push_first_parts(self, queue: PartQueue, places: ChangePlaces) -> None:
        """Let the whole box wait, once for every smallest way to keep a feature of each earlier counterfactual."""
        for kept in _list_ways_to_keep(self.earlier):
            chosen = sorted(kept)
            if (places.own[chosen] < 0).any():  # it may not stay as it is
                continue
            part = Parts.allocate(1, len(self.box.low), queue.parts.phases.shape[1])
            part.high[0] = np.diff(places.starts) - 1
            part.low[0, chosen] = part.high[0, chosen] = places.own[chosen]
            queue.push(part)

    def _search_parts(self, net: CompiledNetwork, places: ChangePlaces, queue: PartQueue) -> int:
        """Bound some parts, look at the points that the bounds have shown, and cut what is still open."""
        uses_programs = are_rectified(net) and int(net.unit_starts[-1]) <= MAX_UNITS
        parts = queue.take(LANES if uses_programs else BATCH, self._limit)
        found = self._bound(net, places, parts, FIRST_STEPS if uses_programs else STEPS)
        parts.bound[:] = np.maximum(parts.bound, found.lower)
        solutions = dict[int, RelaxedSolution]()
        if uses_programs:
            solutions = self._solve_programs(net, places, parts, found)
        for row in np.flatnonzero(parts.bound < self._limit).tolist():
            if row in solutions:
                self._cut_at_solution(net, places, queue, parts, row, found, solutions[row])
            else:
                self._cut(places, queue, parts, row, found)
        return len(parts.bound)

    def _bound(self, net: CompiledNetwork, places: ChangePlaces, parts: Parts, steps: int) -> PartBounds:
        self.run.meter.check()
        adds_up = self.table.combine == "sum"
        found = bound_parts_on_cores(
            net,
            places,
            parts.low,
            parts.high,
            parts.phases,
            multipliers=parts.multipliers,
            line_slopes=parts.slopes,
            limit=self._limit,
            adds_up=adds_up,
            steps=steps,
        )
        self.run.meter.events["boxes"] += len(parts.bound)
        self._check_points(net, places, found)
        return found

    def _solve_programs(
        self, net: CompiledNetwork, places: ChangePlaces, parts: Parts, found: PartBounds
    ) -> dict[int, RelaxedSolution]:
        """Solve the linear programs of the parts that are still open, and bound these anew with what they propose."""
        solutions, adds_up = dict[int, RelaxedSolution](), self.table.combine == "sum"
        for row in np.flatnonzero(parts.bound < self._limit).tolist():
            self.run.meter.check()
            ends = parts.low[row], parts.high[row], parts.phases[row], found.unit_bounds[row]
            solution = solve_relaxation(net, places, *ends, limit=self._limit, adds_up=adds_up)
            if solution is not None:
                solutions[row] = solution
                parts.multipliers[row], parts.slopes[row] = solution.multipliers, solution.slopes
                self._round_solution(net, places, solution)
        rows = np.array(sorted(solutions), dtype=np.int64)
        if len(rows):
            again = parts.select(rows)
            parts.bound[rows] = np.maximum(parts.bound[rows], self._bound(net, places, again, LAST_STEPS).lower)
            parts.multipliers[rows] = again.multipliers
        return solutions

    def _round_solution(self, net: CompiledNetwork, places: ChangePlaces, solution: RelaxedSolution) -> None:
        """Look at the point of a solution, its numbers moved outwards to the next place."""
        chosen = solution.mixed[:, 1].copy()
        for j, (first, last) in enumerate(solution.mixed.tolist()):
            ends = places.starts[j] + np.array([first, last])
            if first < last and net.is_linear[j]:
                place = _find_place(places, j, first, last, float(solution.values[j]))
                ends = places.starts[j] + np.array([place, place + 1])
            chosen[j] = ends[np.argmax(places.cost[ends])] - places.starts[j]
        point = places.codes[places.starts[:-1] + chosen].astype(np.int32)
        if compute_margins(net, net.cells.locate(point[None, :]))[1][0] > 0.0:
            self._offer_point(net, places, point)

    def _cut_at_solution(
        self,
        net: CompiledNetwork,
        places: ChangePlaces,
        queue: PartQueue,
        parts: Parts,
        row: int,
        found: PartBounds,
        solution: RelaxedSolution,
    ) -> None:
        """Cut a part where the solution of its program is no point of the network; if it is one, single values are told
        apart, and where there are none the part stays open.
        """
        if found.status[row] == PART_POINT:  # it has been looked at
            return
        missing = self._limit - float(parts.bound[row])
        unit = int(np.argmax(solution.unit_losses))
        if solution.unit_losses[unit] > EXACT_SHARE * missing:
            self._fix_unit(queue, parts, row, unit)
            return
        gaps, cut, widest = np.full(len(solution.values), -1), None, -1.0
        for j, (first, last) in enumerate(solution.mixed.tolist()):
            if first == last:
                continue
            if parts.high[row, j] == parts.low[row, j] + 1 and places.joined[places.starts[j] + parts.low[row, j]]:
                gaps[j] = parts.low[row, j]  # there is nothing to cut between neighbours
                continue
            place = (first + last) // 2
            if net.is_linear[j]:
                place = _find_place(places, j, first, last, float(solution.values[j]))
                paid = float(solution.costs[j] if self.table.combine == "sum" else solution.cost)
                if _is_number(places, j, place, float(solution.values[j]), paid):
                    gaps[j] = place
                    continue
            apart = float(np.ptp(places.edge[places.starts[j] + np.array([first, last])]))
            if apart > widest:
                cut, widest = (j, place), apart
        if cut is not None:
            self._cut_feature(places, queue, parts, row, *cut)
        elif solution.margin >= -MARGIN_TOLERANCE and (several := _find_single_values(places, parts, row)) is not None:
            self._cut_feature(places, queue, parts, row, several, int(solution.mixed[several, 0]))
        elif solution.margin >= -MARGIN_TOLERANCE:
            self.left = min(self.left, float(parts.bound[row]))
            self.stuck.append(self._describe_part(places, float(parts.bound[row]), gaps))
        elif solution.unit_gaps.any():
            self._fix_unit(queue, parts, row, int(np.argmax(solution.unit_gaps)))
        else:
            self._cut(places, queue, parts, row, found)

    def _cut(self, places: ChangePlaces, queue: PartQueue, parts: Parts, row: int, found: PartBounds) -> None:
        """Cut a part where its bound says; one with nothing left to cut stays open."""
        status = int(found.status[row])
        if status == PART_UNIT:
            self._fix_unit(queue, parts, row, int(found.cuts[row, 0]))
        elif status == PART_FEATURE:
            self._cut_feature(places, queue, parts, row, *found.cuts[row].tolist())
        elif status == PART_STUCK and self.best is None and (wide := _find_wide_range(places, parts, row)) is not None:
            self._cut_feature(places, queue, parts, row, *wide)  # there may be no counterfactual at all
        elif status == PART_STUCK:
            self.left = min(self.left, float(parts.bound[row]))
            self.stuck.append(self._describe_part(places, float(parts.bound[row]), found.gaps[row]))
        else:
            assert status == PART_POINT  # it has been looked at

    @staticmethod
    def _fix_unit(queue: PartQueue, parts: Parts, row: int, unit: int) -> None:
        """Two parts, one for each side of zero of a unit's sum."""
        for side in (1, -1):
            half = parts.select(np.array([row]))
            half.phases[0, unit] = side
            queue.push(half)

    @staticmethod
    def _cut_feature(places: ChangePlaces, queue: PartQueue, parts: Parts, row: int, j: int, place: int) -> None:
        """Two parts, one up to a place and one behind it; if numbers lie behind it, both have the place."""
        first, last = int(parts.low[row, j]), int(parts.high[row, j])
        joined = places.joined[places.starts[j] + first : places.starts[j] + last]
        place = min(max(place, first), last - 1)
        if place == first and joined[0] and last > first + 1:
            place += 1
        for low, high in ((first, place), (place if joined[place - first] else place + 1, last)):
            half = parts.select(np.array([row]))
            half.low[0, j], half.high[0, j] = low, high
            queue.push(half)

    def _describe_part(self, places: ChangePlaces, bound: float, gaps: Int64Array) -> OpenPart:
        """The codes between which the numbers lie that a part's bound takes."""
        low = self.case.instance.astype(np.int32)
        high = low.copy()
        for j in np.flatnonzero(gaps >= 0).tolist():
            place = places.starts[j] + gaps[j]
            ends = sorted(places.codes[place : place + 2].tolist())
            if ends[-1] == ends[0] + 1:  # else a missing value lies between them, which is seen as a number
                low[j], high[j] = ends
        return OpenPart(bound, Box(low, high))

    def _check_points(self, net: CompiledNetwork, places: ChangePlaces, found: PartBounds) -> None:
        """Make the counterfactuals that bounds have shown the best so far, if they are cheaper."""
        starts = places.starts[:-1]
        costs = [
            self.table.measure_point(places.codes[starts + point]) if sure else math.inf
            for point, sure in zip(found.points, found.sure.tolist(), strict=True)
        ]
        for row in np.argsort(costs, kind="stable").tolist():
            if costs[row] >= self.best_cost and costs[row] == math.inf:
                break
            chosen = places.codes[starts + found.points[row]].astype(np.int32)
            if found.sure[row] == 1:
                self._offer_point(net, places, chosen)
            elif found.status[row] == PART_POINT and self._is_permitted(chosen):
                if self.run.meter.desired(self.model, chosen[None, :])[0]:
                    self._note(chosen)

    def _is_permitted(self, point: Points) -> bool:
        """Whether a point can occur, is cheaper than the best, and keeps a feature of every earlier one."""
        changed = frozenset(np.flatnonzero(point != self.case.instance).tolist())
        if not changed or any(one <= changed for one in self.earlier):
            return False
        if not self.table.measure_point(point) < self.best_cost:
            return False
        return bool(self.case.feasible.admits(point[None, :])[0])

    def _note(self, point: Points) -> None:
        self.best, self.best_cost = point, self.table.measure_point(point)

    def _offer_point(self, net: CompiledNetwork, places: ChangePlaces, point: Points) -> None:
        """Make a counterfactual as cheap as it can be made, and the best one if it is cheaper."""
        point = self._make_cheaper(net, places, point)
        if self._is_permitted(point):
            self._note(point)

    def _make_cheaper(self, net: CompiledNetwork, places: ChangePlaces, point: Points) -> Points:
        """The point with one feature after the other as near to the row as the network and the constraints permit."""
        parts = self.table.parts
        for j in sorted(np.flatnonzero(point != self.case.instance).tolist(), key=lambda j: -float(parts[j][point[j]])):
            some = places.codes[places.starts[j] : places.starts[j + 1]]
            some = some[parts[j][some] < parts[j][point[j]]]
            if not len(some):
                continue
            tried = np.repeat(point[None, :], len(some), axis=0)
            tried[:, j] = some
            good = (compute_margins(net, net.cells.locate(tried))[1] > 0.0) & self.case.feasible.admits(tried)
            if good.any():
                tried = tried[good]
                point = tried[np.argmin(parts[j][tried[:, j]])]
        return point


def _list_ways_to_keep(earlier: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """The smallest sets of features that have one of every given set; where these are too many, of some of them.

    >>> sorted(map(sorted, _list_ways_to_keep([frozenset({0, 1}), frozenset({1, 2})])))
    [[0, 2], [1]]
    """
    ways = [frozenset[int]()]
    for features in earlier:
        kept = [way for way in ways if way & features]
        longer = {way | {one} for way in ways if not way & features for one in features}
        longer = {way for way in longer if not any(other <= way for other in kept)}
        if len(kept) + len(longer) > MAX_FIRST_PARTS:  # parts that repeat this one stay, and make bounds weaker
            continue
        ways = [*kept, *sorted(longer, key=sorted)]
    return ways


def _find_single_values(places: ChangePlaces, parts: Parts, row: int) -> int | None:
    """A feature of which a part has several values, but no numbers between them."""
    for j, (first, last) in enumerate(zip(parts.low[row].tolist(), parts.high[row].tolist(), strict=True)):
        start = places.starts[j]
        if first < last and not places.joined[start + first : start + last].any():
            return j
    return None


def _find_wide_range(places: ChangePlaces, parts: Parts, row: int) -> tuple[int, int] | None:
    """The feature of which a part has most places, and the middle one; None if only joined neighbours are left."""
    spans = parts.high[row] - parts.low[row]
    spans[(spans == 1) & places.joined[places.starts[:-1] + parts.low[row]]] = 0
    j = int(np.argmax(spans))
    return (j, int(parts.low[row, j] + parts.high[row, j]) // 2) if spans[j] else None


def _find_place(places: ChangePlaces, j: int, first: int, last: int, value: float) -> int:
    """The last place from `first` on, but before `last`, at which a scaled number is not above a value."""
    values = places.values[places.starts[j] + first : places.starts[j] + last]
    return first + max(0, int(np.searchsorted(values, value, side="right")) - 1)


def _is_number(places: ChangePlaces, j: int, place: int, value: float, paid: float) -> bool:
    """Whether there is a number that is seen as a value, at or behind a place, and costs no more than what is paid."""
    at = places.starts[j] + place
    wide = float(places.values[at + 1] - places.values[at])
    part = min(1.0, max(0.0, (value - float(places.values[at])) / wide)) if wide > 0.0 else 0.0
    near = (part < 1e-6, part > 1.0 - 1e-6)
    if not places.joined[at] and not any(near):
        return False
    cost = (1.0 - part) * float(places.edge[at]) + part * float(places.edge[at + 1])
    return cost <= paid + 1e-6 * (abs(paid) + 1e-6)
