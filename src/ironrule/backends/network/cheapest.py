"""Find and prove the cheapest counterfactual of a network under any cost: best-first branch and bound.

A part of the box is a range of places per feature (:mod:`.change_places`), and for some rectified units the side of
zero on which their sum lies. The part with the least lower bound (:mod:`.cost_bounds`) is cut next: at the unit where
its bound loses most, or at a feature. The point that the bound takes for a counterfactual is often one; it is made as
cheap as can be, one feature after the other, and becomes the best so far. The search ends where no part may hold
anything cheaper; whenever it ends, the least bound of what is left says what everything costs at least.

A counterfactual must not change all the features of an earlier one, so it keeps one of each. Every way to keep one of
each begins with a part of its own, in which these features stay as they are.

A part stays open where its bound takes a number between two values, and nothing else that could be cut would raise the
bound by more than a small share of what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import Int64Array, Points
from ironrule.backends.nearest import CheapestPoint, GapCosts, OpenPart
from ironrule.backends.network.ascent import AscentSearch
from ironrule.backends.network.change_places import ChangePlaces, list_change_places
from ironrule.backends.network.compile import CompiledNetwork, compute_margins
from ironrule.backends.network.cost_bounds import PartBounds, bound_parts_on_cores
from ironrule.backends.network.linear_program import (
    RelaxedSolution,
    are_rectified,
    list_envelope_turns,
    solve_relaxation,
)
from ironrule.backends.network.part_cuts import EXACT_SHARE, PART_FEATURE, PART_POINT, PART_STUCK, PART_UNIT
from ironrule.backends.network.part_queue import PartQueue, Parts
from ironrule.backends.network.partition import FeasibleCombinations, SubBoxes
from ironrule.backends.network.workspace import LANES
from ironrule.model.protocol import Model
from ironrule.oracles.protocol import Case, Run
from ironrule.rule.box import Box
from ironrule.rule.cost import CostTable

BATCH = 128  # parts bounded at a time, where no linear programs are solved
STEPS = 8  # to better lines and multipliers
FIRST_STEPS, LAST_STEPS = 2, 2  # the same before and after a linear program
MAX_UNITS = 400  # of networks whose linear programs are solved
MAX_PARTS = 200_000  # for one counterfactual
PROGRAM_WORK = 10  # parts as which a linear program counts
MARGIN_TOLERANCE = 1e-6  # to which HiGHS keeps rows
ROUNDING = 1e-9  # of a cost: what is cheaper by no more is not looked for
MAX_SEEN = 1_000  # counterfactuals that are kept for later answers
MAX_FIRST_PARTS = 4_096  # ways to keep a feature of every earlier counterfactual
FIRST_CLIMBS = 8  # of these ways, for which a first counterfactual is sought by ascent


@dataclass(slots=True, eq=False)
class SearchedNet:
    """One alternative of a network, its places, and the parts of it that wait."""

    net: CompiledNetwork
    places: ChangePlaces
    queue: PartQueue
    combinations: FeasibleCombinations
    uses_programs: bool
    turns: tuple[Int64Array, ...]  # of the envelopes, for linear programs

    @classmethod
    def build(cls, net: CompiledNetwork, places: ChangePlaces, case: Case) -> SearchedNet:
        """A search with an empty queue."""
        units = int(net.unit_starts[-1])
        queue = PartQueue(Parts.allocate(0, len(case.instance), units))
        uses_programs = are_rectified(net) and units <= MAX_UNITS
        turns = list_envelope_turns(net, places)
        return cls(net, places, queue, _list_combinations(places, case), uses_programs=uses_programs, turns=turns)

    def decode(self, chosen: Int64Array) -> Points:
        """The point at some places."""
        return np.asarray(self.places.codes[self.places.starts[:-1] + chosen], dtype=np.int32)

    def push_first_parts(self, ways: Iterable[frozenset[int]]) -> None:
        """Let the whole box wait, once for every set of features that stay as they are."""
        for kept in ways:
            chosen = sorted(kept)
            if (self.places.own[chosen] < 0).any():  # it may not stay as it is
                continue
            part = Parts.allocate(1, len(self.places.own), self.queue.parts.phases.shape[1])
            part.high[0] = np.diff(self.places.starts) - 1
            part.low[0, chosen] = part.high[0, chosen] = self.places.own[chosen]
            self.queue.push(part)

    def take(self, limit: float) -> Parts:
        """The parts with the least bounds, of those below the limit in which something can occur."""
        parts = self.queue.take(LANES if self.uses_programs else BATCH, limit)
        numbered = SubBoxes(np.arange(len(parts.bound)), parts.low, parts.high)
        return parts.select(self.combinations.keep_feasible(numbered).number)

    def fix_unit(self, parts: Parts, row: int, unit: int) -> None:
        """Two parts, one for each side of zero of a unit's sum."""
        for side in (1, -1):
            half = parts.select(np.array([row]))
            half.phases[0, unit] = side
            self.queue.push(half)

    def cut_feature(self, parts: Parts, row: int, j: int, place: int) -> None:
        """Two parts, one up to a place and one behind it; if numbers lie behind it, both have the place."""
        first, last = int(parts.low[row, j]), int(parts.high[row, j])
        joined = self.places.joined[self.places.starts[j] + first : self.places.starts[j] + last]
        place = min(max(place, first), last - 1)
        if place == first and joined[0] and last > first + 1:
            place += 1
        for low, high in ((first, place), (place if joined[place - first] else place + 1, last)):
            half = parts.select(np.array([row]))
            half.low[0, j], half.high[0, j] = low, high
            self.queue.push(half)

    @staticmethod
    def list_widest(parts: Parts, row: int) -> list[int]:
        """The features, those with most places in a part first."""
        return list(np.argsort(parts.low[row] - parts.high[row], kind="stable").tolist())

    def find_cuttable(self, parts: Parts, row: int, columns: Iterable[int]) -> int | None:
        """The first of some features whose range is more than a value, or two with numbers between them."""
        for j in columns:
            first, last = int(parts.low[row, j]), int(parts.high[row, j])
            if last > first + 1 or (last == first + 1 and not self.places.joined[self.places.starts[j] + first]):
                return j
        return None


@dataclass(slots=True, eq=False)
class CheapestNetworkSearch:
    """The search in one box; ``model`` decides points that rounding could turn. ``limit`` parts are looked at for one
    counterfactual; a linear program counts as several.
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
    seen: dict[bytes, Points] = field(default_factory=dict)  # counterfactuals, some of which may be a later answer

    def find_next(self, earlier: Sequence[frozenset[int]]) -> CheapestPoint:
        """The cheapest counterfactual that changes all the features of no earlier one."""
        self.best, self.best_cost, self.earlier, self.left, self.current = None, math.inf, earlier, math.inf, 0.0
        ways, searched, work = _list_ways_to_keep(earlier), list[SearchedNet](), 0
        for point in self.seen.values():
            if self._is_permitted(point):
                self._note(point)
        for net in self.nets:
            places = list_change_places(net, self.case, self.box, self.table, self.gaps)
            if places is not None:
                searched.append(SearchedNet.build(net, places, self.case))
                searched[-1].push_first_parts(ways)
                self._climb_first(searched[-1], ways)
        while any(one.queue.bound < self._limit for one in searched):
            self.current = min(one.queue.bound for one in searched)
            for one in searched:
                work += self._search_parts(one)
            if work >= self.limit:
                self.left = min(self.left, *(one.queue.bound for one in searched))
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
        largest = [float(part[np.isfinite(part)].max(initial=0.0)) for part in self.table.parts]
        return 1.0 + 2.0 * self.table.combine_parts(largest)

    @property
    def _adds_up(self) -> bool:
        return self.table.combine == "sum"

    def _climb_first(self, one: SearchedNet, ways: Sequence[frozenset[int]]) -> None:
        """Climb to counterfactuals that keep a feature of each earlier one, for a first limit."""
        for kept in ways[:FIRST_CLIMBS]:
            self.run.meter.check()
            low, high = self.box.low.copy(), self.box.high.copy()
            low[list(kept)] = high[list(kept)] = self.case.instance[list(kept)]
            found = AscentSearch(one.net, self.case, Box(low, high)).climb(self.run.rng)
            if found is not None:
                self._offer_point(one, found)

    def _search_parts(self, one: SearchedNet) -> int:
        """Bound some parts, look at the points that the bounds have shown, and cut what is still open."""
        parts = one.take(self._limit)
        if not len(parts.bound):
            return 0
        found = self._bound(one, parts, FIRST_STEPS if one.uses_programs else STEPS)
        parts.bound[:] = np.maximum(parts.bound, found.lower)
        solutions = self._solve_programs(one, parts, found) if one.uses_programs else {}
        for row in np.flatnonzero(parts.bound < self._limit).tolist():
            if row in solutions and (parts.low[row] < parts.high[row]).any():
                self._cut_at_solution(one, parts, row, solutions[row])
            else:
                self._cut(one, parts, row, found)
        return len(parts.bound) + PROGRAM_WORK * len(solutions)

    def _bound(self, one: SearchedNet, parts: Parts, steps: int) -> PartBounds:
        self.run.meter.check()
        found = bound_parts_on_cores(
            one.net,
            one.places,
            parts.low,
            parts.high,
            parts.phases,
            multipliers=parts.multipliers,
            line_slopes=parts.slopes,
            limit=self._limit,
            adds_up=self._adds_up,
            steps=steps,
        )
        self.run.meter.events["boxes"] += len(parts.bound)
        self._check_points(one, found)
        return found

    def _solve_programs(self, one: SearchedNet, parts: Parts, found: PartBounds) -> dict[int, RelaxedSolution]:
        """Solve the linear programs of the parts that are still open, and bound these anew with what they propose."""
        solutions = dict[int, RelaxedSolution]()
        for row in np.flatnonzero(parts.bound < self._limit).tolist():
            self.run.meter.check()
            ends = parts.low[row], parts.high[row], parts.phases[row], found.unit_bounds[row]
            solution = solve_relaxation(one.net, one.places, one.turns, *ends, limit=self._limit, adds_up=self._adds_up)
            if solution is not None:
                solutions[row] = solution
                parts.multipliers[row], parts.slopes[row] = solution.multipliers, solution.slopes
                self._round_solution(one, solution)
        rows = np.array(sorted(solutions), dtype=np.int64)
        if len(rows):
            again = parts.select(rows)
            parts.bound[rows] = np.maximum(parts.bound[rows], self._bound(one, again, LAST_STEPS).lower)
            parts.multipliers[rows] = again.multipliers
        return solutions

    def _round_solution(self, one: SearchedNet, solution: RelaxedSolution) -> None:
        """Look at the point of a solution, its numbers moved outwards to the next place."""
        places, chosen = one.places, solution.mixed[:, 1].copy()
        for j, (first, last) in enumerate(solution.mixed.tolist()):
            ends = np.array([first, last])
            if first < last and one.net.is_linear[j]:
                place = _find_place(places, j, first, last, float(solution.values[j]))
                ends = np.array([place, place + 1])
            chosen[j] = ends[np.argmax(places.cost[places.starts[j] + ends])]
        point = one.decode(chosen)
        if compute_margins(one.net, one.net.cells.locate(point[None, :]))[1][0] > 0.0:
            self._offer_point(one, point)

    def _cut_at_solution(self, one: SearchedNet, parts: Parts, row: int, solution: RelaxedSolution) -> None:
        """Cut a part where the solution of its program is no point of the network, or one that is not permitted. Where
        it is a number between two values at which the network has the desired outcome, the part stays open.
        """
        missing, unit = self._limit - float(parts.bound[row]), int(np.argmax(solution.unit_losses))
        if solution.unit_losses[unit] > EXACT_SHARE * missing:
            one.fix_unit(parts, row, unit)
            return
        cut, gaps = self._find_mixed_feature(one, parts, row, solution)
        if cut is not None:
            one.cut_feature(parts, row, *cut)
        elif solution.margin < -MARGIN_TOLERANCE and solution.unit_gaps.any():
            one.fix_unit(parts, row, int(np.argmax(solution.unit_gaps)))
        else:
            # A value that has been looked at, if no number lies between two: what is left of the part is cut on. The
            # same while no counterfactual is known and the number is hardly one, since there may be none.
            surely = solution.margin >= (MARGIN_TOLERANCE if self.best is None else -MARGIN_TOLERANCE)
            tied = sorted({j for group in self.case.feasible.groups for j in group.columns})
            columns = tied if surely and (gaps >= 0).any() else one.list_widest(parts, row)
            j = one.find_cuttable(parts, row, columns)
            if j is None:
                self._leave_open(one, float(parts.bound[row]), gaps)
            else:
                first, last = int(parts.low[row, j]), int(parts.high[row, j])
                one.cut_feature(parts, row, j, min(max(int(solution.mixed[j, 0]), first), last - 1))

    def _find_mixed_feature(
        self, one: SearchedNet, parts: Parts, row: int, solution: RelaxedSolution
    ) -> tuple[tuple[int, int] | None, Int64Array]:
        """A feature of which a solution mixes values without being a number that costs as little, and where to cut it;
        and per feature the place before the number, or -1.
        """
        places, gaps = one.places, np.full(len(solution.values), -1)
        cut, widest = None, -1.0
        for j, (first, last) in enumerate(solution.mixed.tolist()):
            if first == last:
                continue
            if one.find_cuttable(parts, row, [j]) is None:  # two places with numbers between them
                gaps[j] = parts.low[row, j]
                continue
            place, value = (first + last) // 2, float(solution.values[j])
            if one.net.is_linear[j]:
                place = _find_place(places, j, first, last, value)
                if _is_number(places, j, place, value, float(solution.costs[j]) if self._adds_up else solution.cost):
                    gaps[j] = place
                    continue
            apart = float(np.ptp(places.edge[places.starts[j] + np.array([first, last])]))
            if apart > widest:
                cut, widest = (j, place), apart
        return cut, gaps

    def _cut(self, one: SearchedNet, parts: Parts, row: int, found: PartBounds) -> None:
        """Cut a part where its bound says; one with nothing left to cut stays open."""
        status = int(found.status[row])
        if status == PART_UNIT:
            one.fix_unit(parts, row, int(found.cuts[row, 0]))
        elif status == PART_FEATURE:
            one.cut_feature(parts, row, *found.cuts[row].tolist())
        elif status == PART_STUCK:
            j = one.find_cuttable(parts, row, one.list_widest(parts, row)) if self.best is None else None
            if j is None:
                self._leave_open(one, float(parts.bound[row]), found.gaps[row])
            else:  # there may be no counterfactual at all
                one.cut_feature(parts, row, j, int(parts.low[row, j] + parts.high[row, j]) // 2)
        else:
            assert status == PART_POINT  # it has been looked at

    def _leave_open(self, one: SearchedNet, bound: float, gaps: Int64Array) -> None:
        """Keep a part that stays open, as the codes between which the numbers lie that its bound takes."""
        self.left = min(self.left, bound)
        low = self.case.instance.astype(np.int32)
        high = low.copy()
        for j in np.flatnonzero(gaps >= 0).tolist():
            place = one.places.starts[j] + gaps[j]
            ends = sorted(one.places.codes[place : place + 2].tolist())
            if ends[-1] == ends[0] + 1:  # else a missing value lies between them, which is seen as a number
                low[j], high[j] = ends
        self.stuck.append(OpenPart(bound, Box(low, high)))

    def _check_points(self, one: SearchedNet, found: PartBounds) -> None:
        """Make the counterfactuals that bounds have shown the best so far, if they are cheaper."""
        points = {row: one.decode(found.points[row]) for row in np.flatnonzero(found.sure).tolist()}
        for row in sorted(points, key=lambda row: self.table.measure_point(points[row])):
            point = points[row]
            if found.sure[row] == 1:
                self._offer_point(one, point)
            elif found.status[row] == PART_POINT and self._is_permitted(point) and self._ask(point):
                self._note(point)

    def _is_permitted(self, point: Points) -> bool:
        """Whether a point can occur, is cheaper than the best, and keeps a feature of every earlier one."""
        changed = frozenset(np.flatnonzero(point != self.case.instance).tolist())
        if not changed or any(features <= changed for features in self.earlier):
            return False
        if not self.table.measure_point(point) < self.best_cost:
            return False
        return bool(self.case.feasible.admits(point[None, :])[0])

    def _ask(self, point: Points) -> bool:
        return bool(self.run.meter.desired(self.model, point[None, :])[0])

    def _note(self, point: Points) -> None:
        self.best, self.best_cost = point, self.table.measure_point(point)

    def _offer_point(self, one: SearchedNet, point: Points) -> None:
        """Make a counterfactual as cheap as it can be made, and the best one if it is cheaper."""
        for cheaper in (self._make_cheaper(one, point), point):
            if len(self.seen) < MAX_SEEN:
                self.seen[cheaper.tobytes()] = cheaper
            if self._is_permitted(cheaper):
                self._note(cheaper)

    def _make_cheaper(self, one: SearchedNet, point: Points) -> Points:
        """The point with one feature after the other as near to the row as the network and the constraints permit."""
        parts, places, net = self.table.parts, one.places, one.net
        for j in sorted(np.flatnonzero(point != self.case.instance).tolist(), key=lambda j: -float(parts[j][point[j]])):
            some = places.codes[places.starts[j] : places.starts[j + 1]]
            is_own = (some == self.case.instance[j]) & (parts[j][some] <= parts[j][point[j]])
            some = some[is_own | (parts[j][some] < parts[j][point[j]])]
            if not len(some):
                continue
            tried = np.repeat(point[None, :], len(some), axis=0)
            tried[:, j] = some
            good = (compute_margins(net, net.cells.locate(tried))[1] > 0.0) & self.case.feasible.admits(tried)
            if good.any():
                tried = tried[good]
                # Of values that cost the same the row's own comes first: a change that is not needed is none.
                order = np.lexsort((tried[:, j] != self.case.instance[j], parts[j][tried[:, j]]))
                point = tried[order[0]]
        return point


def _list_combinations(places: ChangePlaces, case: Case) -> FeasibleCombinations:
    """The combinations of values that constraints permit, as places, per group of tied features."""
    groups = []
    for group in case.feasible.groups:
        if group.combinations is None:
            continue
        by_code = [_find_code_places(places, j, int(case.space.sizes[j])) for j in group.columns]
        every = np.asarray(group.combinations)
        found = np.stack([own[every[:, k]] for k, own in enumerate(by_code)], axis=1)
        found = found[(found >= 0).all(axis=1)]
        ordered = np.ascontiguousarray(found[np.argsort(found[:, 0], kind="stable")])
        groups.append((np.array(group.columns, dtype=np.int64), ordered))
    return FeasibleCombinations(tuple(groups))


def _find_code_places(places: ChangePlaces, j: int, size: int) -> Int64Array:
    """Per code of a feature that constraints speak of, its place; -1 for one that may not be chosen."""
    own = slice(int(places.starts[j]), int(places.starts[j + 1]))
    real = np.flatnonzero(~places.is_virtual[own])
    found = np.full(size, -1, dtype=np.int64)
    found[places.codes[own][real]] = real
    return found


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
