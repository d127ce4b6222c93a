"""The cheapest counterfactuals under any cost, of any model that has an exact oracle, with a proven bound.

Branch and bound over boxes of codes: a box costs at least the sum, or the largest, of its features' least parts. The
cheapest box is put to the oracle. If it is proven to hold no counterfactual, it is closed; what the oracle finds in it
is made as cheap as the model lets it be, and becomes the best so far if it is cheaper. A box that is not closed is cut
in two, where its costs differ most. Before that, codes are left out that cost more than the best so far. The search
ends where no box is cheaper than the best, and whenever it ends, the cheapest box left says what all that is left
costs at least.

Between two codes there may be numbers, where the decision may turn, which no oracle's point can name. There the halves
of a box share the code at the cut, so that nothing is left out, and a box with nothing left to cut but such a gap stays
open: the bound then is a little below what was found.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Points
from ironrule.backends.nearest import CheapestPoint, OpenPart
from ironrule.model.protocol import Model
from ironrule.oracles.protocol import BoxQuery, Case, Oracle, Run
from ironrule.rule.box import Box
from ironrule.rule.cost import CostTable
from ironrule.verdict.verdict import Proven, Refuted

EFFORT = 0.02  # per question, of what the oracle usually spends: a box that it cannot close is cut instead
MAX_QUESTIONS = 20_000  # for one counterfactual
ROUNDING = 1e-12  # of costs: tables are rounded, so that little is lost


@dataclass(order=True, slots=True)
class CostedBox:
    """A box that may hold a counterfactual, by what its points cost at least."""

    bound: float
    number: int
    box: Box = field(compare=False)
    changing: frozenset[int] = field(compare=False)  # the features that change although the box has the row's own code


@dataclass(slots=True, eq=False)
class CheapestBoxSearch:
    """The search in one box; ``model`` decides single points, ``gap_after`` says per feature and code whether the
    decision may turn at numbers before the next one that may be chosen; ``least_part`` is what the least change costs.
    """

    case: Case
    box: Box
    table: CostTable
    oracle: Oracle
    model: Model
    gap_after: tuple[BoolArray, ...]
    least_part: float
    run: Run
    limit: int = MAX_QUESTIONS
    best: Points | None = None
    best_cost: float = math.inf
    earlier: Sequence[frozenset[int]] = ()
    heap: list[CostedBox] = field(default_factory=list)
    count: int = 0
    left: float = math.inf  # the least bound of what can neither be closed nor cut
    stuck: list[OpenPart] = field(default_factory=list)  # such boxes, of all answers so far
    current: float = math.inf  # the bound of the box that is looked at

    def find_next(self, earlier: Sequence[frozenset[int]]) -> CheapestPoint:
        """The cheapest counterfactual that changes all the features of no earlier one."""
        self.best, self.best_cost, self.earlier, self.left = None, math.inf, earlier, math.inf
        self.heap, self.current, questions = [], 0.0, 0
        self._push(self.box, frozenset())
        while self.heap and self.heap[0].bound < self._limit:
            if questions >= self.limit:
                self.left = min(self.left, self.heap[0].bound)
                break
            self.current = self.heap[0].bound
            self.run.meter.check()
            cheapest = heapq.heappop(self.heap)
            box = self._trim(cheapest.box, cheapest.changing)
            if box is None:
                continue
            questions += 1
            if not self._is_closed(box):
                self._cut(cheapest.bound, box, cheapest.changing)
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
        """What costs no less than this need not be looked at."""
        return self.best_cost if self.best is None else self.best_cost * (1.0 - ROUNDING) - 1e-300

    def _list_least(self, box: Box, changing: frozenset[int]) -> list[float]:
        """What every feature costs at least in a box."""
        ends = zip(self.table.parts, box.low.tolist(), box.high.tolist(), strict=True)
        least = [float(part[low : high + 1].min()) for part, low, high in ends]
        return [max(one, self.least_part) if j in changing else one for j, one in enumerate(least)]

    def _push(self, box: Box, changing: frozenset[int]) -> None:
        bound = self.table.combine_parts(self._list_least(box, changing))
        if bound < self._limit and bound < math.inf and not self._is_left_out(box, changing):
            self.count += 1
            heapq.heappush(self.heap, CostedBox(bound, self.count, box, changing))

    def _is_left_out(self, box: Box, changing: frozenset[int]) -> bool:
        """Whether all points of a box change all the features of an earlier counterfactual."""
        own = self.case.instance
        changed = {*np.flatnonzero((own < box.low) | (own > box.high)).tolist(), *changing}
        return any(one <= changed for one in self.earlier)

    def _trim(self, box: Box, changing: frozenset[int]) -> Box | None:
        """The box without codes at its ends that cost too much; None if nothing is left."""
        low, high, least = box.low.copy(), box.high.copy(), self._list_least(box, changing)
        total = self.table.combine_parts(least)
        for j, part in enumerate(self.table.parts):
            first, last = int(low[j]), int(high[j])
            costs = np.maximum(part[first : last + 1], least[j])
            whole = np.maximum(costs, total) if self.table.combine == "max" else total - least[j] + costs
            good = np.flatnonzero((whole < self._limit) & np.isfinite(costs)) + first
            if not len(good):
                return None
            # Where numbers lie beyond the last code that is cheap enough, the next code is kept with them.
            start, end = int(good[0]), int(good[-1])
            gaps = self.gap_after[j]
            low[j] = start - 1 if start > first and gaps[start - 1] else start
            high[j] = end + 1 if end < last and gaps[end] else end
        return Box(low, high)

    def _is_closed(self, box: Box) -> bool:
        """Whether the box is proven to hold no counterfactual; if it holds some, they are noted."""
        if (box.low == box.high).all():
            point = box.low.astype(np.int32)[None, :]
            if self._admits(point)[0] and self._ask(point)[0]:
                self._note(point[0])
            return True
        answer = self.oracle.find(BoxQuery(self.case, box, effort=EFFORT), self.run)
        if isinstance(answer, Refuted):
            for point in answer.points[self._ask(answer.points)]:
                self._note(self._make_cheaper(point))
        return isinstance(answer, Proven)

    def _admits(self, points: Points) -> BoolArray:
        """Which points may be chosen: not the row itself, though a model whose last bits waver may now desire it."""
        costs = np.stack([part[points[:, j]] for j, part in enumerate(self.table.parts)], axis=1)
        changed = points != self.case.instance
        earlier = ~changed.any(axis=1)
        for one in self.earlier:
            earlier |= changed[:, sorted(one)].all(axis=1)
        return np.asarray(np.isfinite(costs).all(axis=1) & ~earlier & self.case.feasible.admits(points))

    def _ask(self, points: Points) -> BoolArray:
        return self.run.meter.desired(self.model, points)

    def _note(self, point: Points) -> None:
        cost = self.table.measure_point(point)
        if cost < self.best_cost and self._admits(point[None, :])[0]:
            self.best, self.best_cost = point.astype(np.int32), cost

    def _make_cheaper(self, point: Points) -> Points:
        """The point with one feature after the other as near to the row as the model and the constraints permit."""
        for j in sorted(np.flatnonzero(point != self.case.instance).tolist(), key=lambda j: -self._part(point, j)):
            part = self.table.parts[j]
            codes = (
                np.flatnonzero(part < part[point[j]])
                if np.isfinite(part[point[j]])
                else np.flatnonzero(part < math.inf)
            )
            if self.table.combine == "max" or part[point[j]] == 0.0:
                codes = np.union1d(codes, self.case.instance[j : j + 1])
            if not len(codes):
                continue
            tried = np.repeat(point[None, :], len(codes), axis=0)
            tried[:, j] = codes
            good = self.case.feasible.admits(tried)
            tried = tried[good]
            tried = tried[self._ask(tried)] if len(tried) else tried
            if len(tried):
                point = tried[np.argmin(part[tried[:, j]])]
        return point

    def _part(self, point: Points, j: int) -> float:
        return float(self.table.parts[j][point[j]])

    def _cut(self, bound: float, box: Box, changing: frozenset[int]) -> None:
        """Put the parts of a box on the heap; where only gaps are left, nothing more can be known."""
        cut = self._find_cut(box, changing)
        if cut is None:
            self.left = min(self.left, bound)
            self.stuck.append(OpenPart(bound, box))
            return
        j, code = cut
        own, gaps = int(self.case.instance[j]), self.gap_after[j]
        if self._can_separate(j, box, changing):  # it stays, or goes one way or the other
            self._push(_restrict(box, j, own, own), changing)
            for low, high, gap in (
                (int(box.low[j]), own - 1, own > 0 and bool(gaps[own - 1])),
                (own + 1, int(box.high[j]), bool(gaps[own])),
            ):
                if low <= high:
                    ends = min(low, own) if gap and low > own else low, max(high, own) if gap and high < own else high
                    self._push(_restrict(box, j, *ends), changing | {j} if gap else changing)
            return
        self._push(_restrict(box, j, int(box.low[j]), code), changing)
        self._push(_restrict(box, j, code if gaps[code] else code + 1, int(box.high[j])), changing)

    def _can_separate(self, j: int, box: Box, changing: frozenset[int]) -> bool:
        """Whether the row's own value is to be kept apart from all others, since any change costs something."""
        own = int(self.case.instance[j])
        return self.least_part > 0.0 and j not in changing and box.low[j] <= own <= box.high[j]

    def _find_cut(self, box: Box, changing: frozenset[int]) -> tuple[int, int] | None:
        """A feature and the code after which to cut: where costs differ most, or in the middle of the longest range."""
        widest, found = 0.0, None
        for j, part in enumerate(self.table.parts):
            low, high = int(box.low[j]), int(box.high[j])
            costs = part[low : high + 1]
            finite = costs[np.isfinite(costs)]
            spread = float(finite.max() - finite.min()) if len(finite) else 0.0
            if high == low or spread <= widest:
                continue
            cut = low if self._can_separate(j, box, changing) else self._find_cost_cut(j, low, high, costs)
            if cut is not None:
                widest, found = spread, (j, cut)
        if found is not None:
            return found
        longest = 0
        for j in range(len(self.table.parts)):
            low, high = int(box.low[j]), int(box.high[j])
            if high - low > longest and self._divides(j, low, high, (low + high) // 2):
                longest, found = high - low, (j, (low + high) // 2)
        return found

    def _find_cost_cut(self, j: int, low: int, high: int, costs: Float64Array) -> int | None:
        """The code after which the costs of one side are in the upper half."""
        finite = np.isfinite(costs)
        middle = (float(costs[finite].min()) + float(costs[finite].max())) / 2
        cheap = np.flatnonzero(finite & (costs <= middle)) + low
        for code in (int(cheap[-1]), int(cheap[0]) - 1):
            for near in (code, code + 1, code - 1):
                if low <= near < high and self._divides(j, low, high, near):
                    return near
        return None

    def _divides(self, j: int, low: int, high: int, code: int) -> bool:
        """Whether both parts of a cut after a code are smaller than the whole."""
        return low <= code < high and (code > low or not self.gap_after[j][code])


def _restrict(box: Box, feature: int, first: int, last: int) -> Box:
    """The box with other ends of one feature."""
    low, high = box.low.copy(), box.high.copy()
    low[feature], high[feature] = first, last
    return Box(low, high)
