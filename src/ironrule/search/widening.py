"""Wider rules: every bound of a proven rule is moved as far as the proof holds.

A rule's bounds are the instance's own values (``income <= 500``), although the rule may hold further out (``income <=
640``). Each bound in turn is moved to the furthest value at which an exact oracle still proves the box; a
counterfactual that it finds instead says where to try next; where such steps are small, the stretch that is left is
halved. A bound that has gone as far as it can in one box can go no further in a larger one, so in the end none can
move: the rule is maximal. The order matters. Rules with few bounds try every order, others move first what covers most
of the history. How far a bound could go in a smaller box says what it is worth at the most in a larger one, so most of
what would not win is never asked about. All boxes that are tried lie in the one with every bound where it can go at the
most, so only the past rows in that one are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ironrule.model import Gaps
from ironrule.oracles.memory import Remembering
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter, Proven, Refuted, Spent

ALL_ORDERS = 3
FEW_STEPS = 16


@dataclass(frozen=True, slots=True)
class Widened:
    """A larger box with its proof; ``maximal`` if it is known that no bound can move further.

    ``limits`` are the counterfactuals that show that: for every bound that could, one that would be in the box.
    """

    box: Box
    verdict: Proven
    maximal: bool
    limits: Points | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a box: a feature's last code, or its first."""

    feature: int
    upper: bool

    def at(self, box: Box) -> int:
        """Where the bound stands."""
        return int((box.high if self.upper else box.low)[self.feature])

    def moved(self, box: Box, code: int) -> Box:
        """The box with the bound somewhere else."""
        low, high = box.low.copy(), box.high.copy()
        (high if self.upper else low)[self.feature] = code
        return Box(low, high)

    def before(self, codes: npt.NDArray[Any]) -> int:
        """The last place before all of these codes."""
        return int(codes.min()) - 1 if self.upper else int(codes.max()) + 1


class Counting(Protocol):
    """Past rows."""

    def covered(self, box: Box) -> int:
        """How many lie in a box."""
        ...

    def within(self, box: Box, features: Sequence[int]) -> Counting:
        """Those in a box, for boxes inside it that differ from it in some features alone."""
        ...


@dataclass(slots=True, eq=False)
class Widening:
    """Widens boxes of one case.

    ``scout`` is an oracle that is quick to find counterfactuals and gives up soon; what it misses costs time only.
    ``gaps`` has the numbers between values, where they count: a bound that could move into a gap, though not to its
    other end, may not have gone as far as it can.
    """

    case: Case
    oracle: Remembering
    meter: Meter
    rng: np.random.Generator
    past: Counting
    scout: Remembering | None = None
    gaps: Gaps | None = None
    limits: dict[Bound, int] = field(default_factory=dict)  # how far each bound can go at the most
    known: dict[tuple[bytes, bytes, Bound], Widened] = field(default_factory=dict)

    def widened(self, rule: int, proof: Proven) -> Widened:
        """The rule's box as wide as it goes; less wide, and not called maximal, if it is stopped first."""
        start = Widened(self.case.relevant.box(rule), proof, True)
        self.oracle.proofs.add(start.box, proof)
        bounds = [Bound(bit // 2, bit % 2 == 0) for bit in self.case.relevant.ordered if rule >> bit & 1]
        try:
            for bound in bounds:
                last = self.case.space.features[bound.feature].last if bound.upper else 0
                self.limits[bound] = last
                self.limits[bound] = self._at_the_most(start, bound)
            self.past = self.past.within(self._outermost(start.box), sorted({bound.feature for bound in bounds}))
            best = self._in_any_order(start, bounds) if len(bounds) <= ALL_ORDERS else self._greedily(start, bounds)
            return self._with_limits(best, bounds)
        except (Spent, KeyboardInterrupt):
            best = max((start, *self.known.values()), key=lambda one: self._value(one.box))
            return Widened(best.box, best.verdict, False)

    def _outermost(self, box: Box) -> Box:
        """The box with every bound where it can go at the most."""
        for bound, limit in self.limits.items():
            box = bound.moved(box, limit)
        return box

    def _with_limits(self, widened: Widened, bounds: list[Bound]) -> Widened:
        """The same with what stopped every bound; not called maximal where that is not at hand."""
        found: list[Points] = []
        known = self.oracle.points
        for bound in bounds:
            last, now = self.case.space.features[bound.feature].last if bound.upper else 0, bound.at(widened.box)
            if now == last:
                continue
            if self.gaps is not None and self.gaps.may_turn_after(bound.feature, now if bound.upper else now - 1):
                return replace(widened, maximal=False)
            further = bound.moved(widened.box, now + (1 if bound.upper else -1))
            inside = np.empty((0, 0)) if known is None else known[further.contains(known)]
            if len(inside) == 0:
                return replace(widened, maximal=False)
            found.append(inside[0])
        limits = np.unique(np.array(found, dtype=np.int32).reshape(len(found), len(widened.box.low)), axis=0)
        return replace(widened, limits=limits) if widened.maximal else widened

    def _value(self, box: Box) -> tuple[int, float]:
        sizes = (box.high.astype(np.int64) - box.low + 1).tolist()
        return self.past.covered(box), sum(map(math.log, sizes))

    def _hope(self, box: Box, bounds: Sequence[Bound]) -> tuple[int, float]:
        """What a box could be worth at the most, with these bounds where their limits are."""
        for bound in bounds:
            box = bound.moved(box, self.limits[bound])
        return self._value(box)

    def _in_any_order(self, here: Widened, left: Sequence[Bound], best: Widened | None = None) -> Widened:
        """The best of all orders in which these bounds can move; those that cannot be better are left out."""
        if best is not None and self._hope(here.box, left) <= self._value(best.box):
            return best
        if not left:
            return here
        for bound in left:
            others = [other for other in left if other != bound]
            best = self._in_any_order(self._furthest(here, bound), others, best)
        return here if best is None else best

    def _greedily(self, here: Widened, bounds: Sequence[Bound]) -> Widened:
        """Always move the bound that lets the box cover most."""
        left = list(bounds)
        while left:
            here, bound = self._first(here, left)
            left.remove(bound)
        return here

    def _first(self, here: Widened, left: Sequence[Bound]) -> tuple[Widened, Bound]:
        """The bound whose move covers most, moved. Only those that could be it, by their limits, are asked about."""
        hopes = {bound: self._hope(here.box, [bound]) for bound in left}
        while True:
            bound = max(left, key=hopes.__getitem__)
            moved = self._furthest(here, bound)
            value = self._value(moved.box)
            if value == hopes[bound]:
                return moved, bound
            hopes[bound], self.limits[bound] = value, bound.at(moved.box)

    def _at_the_most(self, here: Widened, bound: Bound) -> int:
        """Where a bound can go at the most, as far as the scout sees; without one, where it can go."""
        if self.scout is None:
            return bound.at(self._furthest(here, bound).box)
        target, now = self.limits[bound], bound.at(here.box)
        tried = target
        while target != now:
            verdict = self.scout.find(self.case, bound.moved(here.box, tried), 1, self.meter, self.rng)
            if isinstance(verdict, Refuted):
                self.oracle.learn(verdict.points)
                last, target = target, bound.before(verdict.points[:, bound.feature])
                tried = _next_try(now, target, last)
            elif tried == target:
                break
            else:  # nothing was found as far as there: it is looked for further out
                now, tried = tried, target
        return target

    def _furthest(self, here: Widened, bound: Bound) -> Widened:
        """The box with one bound as far out as can be proven."""
        key = (here.box.low.tobytes(), here.box.high.tobytes(), bound)
        if key not in self.known:
            self.known[key] = self._moved(here, bound)
        return self.known[key]

    def _moved(self, here: Widened, bound: Bound) -> Widened:
        target, now, maximal = self.limits[bound], bound.at(here.box), here.maximal
        tried = target
        while target != now:
            box = bound.moved(here.box, tried)
            verdict = self.oracle.find(self.case, box, 1, self.meter, self.rng)
            if isinstance(verdict, Proven):
                here, now, tried = Widened(box, verdict, maximal), tried, target
            elif isinstance(verdict, Refuted):
                last, target = target, bound.before(verdict.points[:, bound.feature])
                tried = _next_try(now, target, last)
            else:
                maximal, target = False, now + int((tried - now) / 2)
                tried = target
        return Widened(here.box, here.verdict, maximal)


def _next_try(now: int, target: int, last: int) -> int:
    """Where to try after counterfactuals have brought a bound's target nearer: there, or, where that would take many
    small steps, half way.
    """
    step, left = abs(last - target), abs(target - now)
    return target if left <= FEW_STEPS * step else now + int((target - now) / 2)
