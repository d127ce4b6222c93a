"""Widen a proven rule: every bound is moved as far as the proof holds.

A rule's bounds are the instance's own values (``income <= 500``), although the rule may hold further out (``income <=
640``). Each side of the box in turn is moved to the furthest value at which an exact oracle still proves the box; a
counterfactual that it finds instead says where to try next; where such steps are small, the range that is left is
halved. A side that has gone as far as it can in one box can go no further in a larger one, so in the end none can
move: the rule is maximal. The order matters. Rules with few bounds try every order, others move first what covers most
of the history. How far a side could go in a smaller box says what it is worth at the most in a larger one, so most of
what would not win is never asked about. All boxes that are tried lie in the one with every side where it can go at the
most, so only the past rows in that one are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ironrule.arrays import AnyArray, Points
from ironrule.model.intervals import Gaps
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import BoxQuery, Case, Run
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import Proven, Refuted

MAX_SIDES_ALL_ORDERS = 3
MAX_STEPS = 16


@dataclass(frozen=True, slots=True)
class WidenedBox:
    """A larger box with its proof; ``maximal`` if it is known that no bound can move further.

    ``limits`` are the counterfactuals that show that: for every bound that could, one that would be in the box.
    """

    box: Box
    verdict: Proven
    maximal: bool
    limits: Points | None = None


@dataclass(frozen=True, slots=True)
class BoxSide:
    """One end of a box: a feature's last code, or its first."""

    feature: int
    upper: bool

    def get_bound(self, box: Box) -> int:
        """Where the bound stands."""
        return int((box.high if self.upper else box.low)[self.feature])

    def move(self, box: Box, code: int) -> Box:
        """The box with the bound somewhere else."""
        low, high = box.low.copy(), box.high.copy()
        (high if self.upper else low)[self.feature] = code
        return Box(low, high)

    def stop_before(self, codes: AnyArray) -> int:
        """The last place before all of these codes."""
        return int(codes.min()) - 1 if self.upper else int(codes.max()) + 1


class CoverageCounter(Protocol):
    """Counts the past rows in boxes."""

    def count(self, box: Box) -> int:
        """How many lie in a box."""
        ...

    def restrict(self, box: Box, features: Sequence[int]) -> CoverageCounter:
        """Those in a box, for boxes inside it that differ from it in some features alone."""
        ...


@dataclass(slots=True, eq=False)
class RuleWidener:
    """Widens boxes of one case.

    ``quick_oracle`` is one that is quick to find counterfactuals and gives up soon; what it misses costs time only.
    ``gaps`` has the numbers between values, where they count: a bound that could move into a gap, though not to its
    other end, may not have gone as far as it can. No bound moves out of ``outermost``, where that is given.
    """

    case: Case
    oracle: CachingOracle
    run: Run
    rows: CoverageCounter
    quick_oracle: CachingOracle | None = None
    gaps: Gaps | None = None
    outermost: Box | None = None
    limits: dict[BoxSide, int] = field(default_factory=dict)  # how far each bound can go at the most
    cache: dict[tuple[bytes, bytes, BoxSide], WidenedBox] = field(default_factory=dict)

    def widen(self, rule: int, proof: Proven) -> WidenedBox:
        """The rule's box as wide as it goes; less wide, and not called maximal, if it is stopped first."""
        start = WidenedBox(self.case.components.box(rule), proof, True)
        # Even component numbers are upper bounds (F <= v), odd ones lower bounds; "=" components do not move.
        bounds = [BoxSide(bit // 2, bit % 2 == 0) for bit in self.case.components.bound_numbers if rule >> bit & 1]
        return self.widen_box(start, bounds)

    def widen_box(self, start: WidenedBox, bounds: list[BoxSide]) -> WidenedBox:
        """The same for any proven box, of which these sides may move."""
        self.oracle.proven_boxes.add(start.box, start.verdict)
        try:
            # How far each side can go alone. In a larger box it goes no further: the limit holds for the whole search.
            for bound in bounds:
                self.limits[bound] = self._get_last_code(bound)
                self.limits[bound] = self._find_limit(start, bound)
            outermost, features = self._build_outermost(start.box), sorted({bound.feature for bound in bounds})
            self.rows = self.rows.restrict(outermost, features)
            widen = self._try_all_orders if len(bounds) <= MAX_SIDES_ALL_ORDERS else self._widen_greedily
            return self._attach_limits(widen(start, bounds), bounds)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            name_stop(stop, self.run.meter)
            best = max((start, *self.cache.values()), key=lambda one: self._score(one.box))
            return WidenedBox(best.box, best.verdict, False)

    def _get_last_code(self, bound: BoxSide) -> int:
        """Where a bound would exclude no value of its feature, or may go no further."""
        if self.outermost is not None:
            return bound.get_bound(self.outermost)
        return int(self.case.space.code_limits.last[bound.feature]) if bound.upper else 0

    def _build_outermost(self, box: Box) -> Box:
        """The box with every bound where it can go at the most."""
        for bound, limit in self.limits.items():
            box = bound.move(box, limit)
        return box

    def _attach_limits(self, widened: WidenedBox, bounds: list[BoxSide]) -> WidenedBox:
        """The same with what stopped every bound; not called maximal where that is not at hand."""
        found: list[Points] = []
        known = self.oracle.points
        # For each side that does not reach the end of its feature, look for a known counterfactual in the box that is
        # one code wider there: it shows that the side cannot move.
        for bound in bounds:
            now = bound.get_bound(widened.box)
            if now == self._get_last_code(bound):
                continue
            if self.gaps is not None and self.gaps.may_turn_after(bound.feature, now if bound.upper else now - 1):
                return replace(widened, maximal=False)
            further = bound.move(widened.box, now + (1 if bound.upper else -1))
            inside = np.empty((0, 0)) if known is None else known[further.contains(known)]
            if len(inside) == 0:
                return replace(widened, maximal=False)
            found.append(inside[0])
        limits = np.unique(np.array(found, dtype=np.int32).reshape(len(found), len(widened.box.low)), axis=0)
        return replace(widened, limits=limits) if widened.maximal else widened

    def _score(self, box: Box) -> tuple[int, float]:
        # First the past rows that the box covers, then its volume as a sum of logarithms.
        sizes = (box.high.astype(np.int64) - box.low + 1).tolist()
        return self.rows.count(box), sum(map(math.log, sizes))

    def _score_at_most(self, box: Box, bounds: Sequence[BoxSide]) -> tuple[int, float]:
        """What a box could be worth at the most, with these bounds where their limits are."""
        for bound in bounds:
            box = bound.move(box, self.limits[bound])
        return self._score(box)

    def _try_all_orders(self, here: WidenedBox, left: Sequence[BoxSide], best: WidenedBox | None = None) -> WidenedBox:
        """The best of all orders in which these bounds can move; those that cannot be better are left out."""
        # Branch and bound over orders: even with all remaining sides at their limits this would not be better.
        if best is not None and self._score_at_most(here.box, left) <= self._score(best.box):
            return best
        if not left:
            return here
        for bound in left:
            others = [other for other in left if other != bound]
            best = self._try_all_orders(self._move_furthest(here, bound), others, best)
        return here if best is None else best

    def _widen_greedily(self, here: WidenedBox, bounds: Sequence[BoxSide]) -> WidenedBox:
        """Always move the bound that lets the box cover most."""
        left = list(bounds)
        while left:
            here, bound = self._move_best(here, left)
            left.remove(bound)
        return here

    def _move_best(self, here: WidenedBox, left: Sequence[BoxSide]) -> tuple[WidenedBox, BoxSide]:
        """The bound whose move covers most, moved. Only those that could be it, by their limits, are asked about."""
        # Lazy evaluation: hopes are upper bounds on the score. The side with the highest hope is moved; if the true
        # score equals its hope, no other side can be better. Else its hope and limit are lowered to what was found.
        hopes = {bound: self._score_at_most(here.box, [bound]) for bound in left}
        while True:
            bound = max(left, key=hopes.__getitem__)
            moved = self._move_furthest(here, bound)
            value = self._score(moved.box)
            if value == hopes[bound]:
                return moved, bound
            hopes[bound], self.limits[bound] = value, bound.get_bound(moved.box)

    def _find_limit(self, here: WidenedBox, bound: BoxSide) -> int:
        """Where a bound can go at the most, as far as the quick oracle sees; without one, where it can go."""
        if self.quick_oracle is None:
            return bound.get_bound(self._move_furthest(here, bound).box)
        target, start = self.limits[bound], bound.get_bound(here.box)
        # `now`: nothing was found as far as here. `target`: the furthest code that no counterfactual excludes, which
        # comes nearer with every one that is found. It ends when nothing is found as far as the target.
        tried, now = target, start
        while target != now:
            self.run.meter.check()
            verdict = self.quick_oracle.find(BoxQuery(self.case, bound.move(here.box, tried)), self.run)
            if isinstance(verdict, Refuted):
                self.oracle.add_counterfactuals(verdict.points)
                last, target = target, bound.stop_before(verdict.points[:, bound.feature])
                if target < now if bound.upper else target > now:  # what was found now had been missed before
                    now = start
                tried = _choose_next_code(now, target, last)
            elif tried == target:
                break
            else:  # nothing was found as far as there: it is looked for further out
                now, tried = tried, target
        return target

    def _move_furthest(self, here: WidenedBox, bound: BoxSide) -> WidenedBox:
        """The box with one bound as far out as can be proven."""
        key = (here.box.low.tobytes(), here.box.high.tobytes(), bound)
        if key not in self.cache:
            self.cache[key] = self._move(here, bound)
        return self.cache[key]

    def _move(self, here: WidenedBox, bound: BoxSide) -> WidenedBox:
        target, now, maximal = self.limits[bound], bound.get_bound(here.box), here.maximal
        # The same search with the exact oracle. `now` is proven, `target` is the furthest code that may still be
        # proven. An undecided box halves the range, and the result is then not called maximal.
        tried = target
        while target != now:
            self.run.meter.check()
            box = bound.move(here.box, tried)
            verdict = self.oracle.find(BoxQuery(self.case, box), self.run)
            if isinstance(verdict, Proven):
                here, now, tried = WidenedBox(box, verdict, maximal), tried, target
            elif isinstance(verdict, Refuted):
                last, target = target, bound.stop_before(verdict.points[:, bound.feature])
                tried = _choose_next_code(now, target, last)
            else:
                maximal, target = False, now + int((tried - now) / 2)
                tried = target
        return WidenedBox(here.box, here.verdict, maximal)


def _choose_next_code(now: int, target: int, last: int) -> int:
    """Where to try after a bound's target came nearer: there, or half way where that would take many small steps."""
    step, left = abs(last - target), abs(target - now)
    return target if left <= MAX_STEPS * step else now + int((target - now) / 2)
