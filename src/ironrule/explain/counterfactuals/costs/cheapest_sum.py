"""The cheapest changes of a sum under a cost that adds up, or of which the largest part counts, with a proven bound.

Every feature takes one of its *choices*, of which one is to stay; each costs something and gains something, and the
gains together must pass a need. That is a knapsack problem with one choice per feature (Kellerer, Pferschy, Pisinger,
"Knapsack Problems", 2004, chapter 11). For a price on gain,

    price * need + the sum over features of the least (cost - price * gain)

is no more than what any solution costs (Lagrangian relaxation), and what a choice is above its feature's least adds to
that. Partial solutions are searched best first by this bound, so that the search may end at any time: the bound of the
next one is one for all that is left. Where the largest part counts, it is enough to try costs: at each, every feature
gains what it can for that much.

A later answer must not change all the features of an earlier one. Where the cheapest would, one of these features
after the other is kept as it is, and the cheapest of these cases is the answer. What the cheapest is that leaves some
features as they are does not depend on earlier answers, so it is kept for later ones.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, IntpArray
from ironrule.backends.additive.nearest import Assignment, Need, find_price

STAYS = -1  # the place of the choice not to change
WAITING = 10  # times as many partial solutions may wait as may be looked at; one has up to thousands of successors
ROUNDING = 1e-9  # of costs: what our own sums may lose


@dataclass(frozen=True, slots=True, eq=False)
class FeatureChoices:
    """The choices of one feature that are worth it: each costs more than the one before, and gains more.

    ``places`` says which of the options given each is, ``STAYS`` for none of them; ``stays``: the feature may stay.
    """

    costs: Float64Array
    gains: Float64Array
    places: IntpArray
    stays: bool

    @classmethod
    def select(cls, costs: Float64Array, gains: Float64Array, allowed: BoolArray, stays: bool) -> FeatureChoices:
        """Of the allowed options those that gain more than every cheaper one, and to stay, if that is possible."""
        places = np.flatnonzero(allowed)
        costs, gains = costs[places], gains[places]
        if stays:
            places, costs, gains = np.append(places, STAYS), np.append(costs, 0.0), np.append(gains, 0.0)
        # Of choices that cost and gain the same, to stay comes first: nothing changes without need.
        order = np.lexsort((places, -gains, costs))
        best = np.maximum.accumulate(gains[order])
        better = np.ones(len(order), dtype=np.bool_)
        better[1:] = best[1:] > best[:-1]
        kept = order[better]
        return cls(costs[kept], gains[kept], places[kept], stays)

    @property
    def most(self) -> float:
        """The largest gain."""
        return float(self.gains[-1])

    def pick(self, price: float) -> int:
        """The choice that costs least after a price on its gain."""
        return int(np.argmin(self.costs - price * self.gains))

    def find_cheapest_above(self, gain: float) -> int:
        """The cheapest choice that gains more than this; one beyond the last if none does."""
        return int(np.searchsorted(self.gains, gain, "right"))


STAYING = FeatureChoices(np.zeros(1), np.zeros(1), np.array([STAYS], dtype=np.intp), True)


class SumAnswer(NamedTuple):
    """The cheapest solution that was found, None if none was; and what every solution costs at least."""

    assignment: Assignment | None
    cost: float
    bound: float


NO_ANSWER = SumAnswer(None, math.inf, math.inf)


def find_apart(
    solve: Callable[[frozenset[int]], SumAnswer], earlier: Sequence[frozenset[int]], must_end: Callable[[], bool]
) -> SumAnswer:
    """The cheapest that changes all the features of no earlier one; ``solve`` finds the cheapest that leaves some
    features as they are.
    """
    best, least_left, count = NO_ANSWER, math.inf, 0
    waiting = [(solve(frozenset()), frozenset[int]())]
    heap = [(waiting[0][0].bound, 0, *waiting[0])]
    known = {frozenset[int]()}
    while heap:
        bound, _, answer, staying = heapq.heappop(heap)
        if bound >= best.cost - ROUNDING * (1.0 + abs(best.cost)) or answer.bound == math.inf:
            continue
        broken = next((one for one in earlier if answer.assignment and one <= answer.assignment.keys()), None)
        if broken is None and answer.assignment is not None:
            least_left = min(least_left, bound)
            best = answer if answer.cost < best.cost else best
            continue
        if broken is None or must_end():  # nothing was found, or there is no time to go on
            least_left = min(least_left, bound)
            continue
        for feature in sorted(broken):
            more = staying | {feature}
            if more not in known:
                known.add(more)
                count += 1
                solved = solve(more)
                heapq.heappush(heap, (max(bound, solved.bound), count, solved, more))
    if best.assignment is None:
        return SumAnswer(None, math.inf, least_left)
    return SumAnswer(best.assignment, best.cost, min(least_left, best.cost))


@dataclass(slots=True, eq=False)
class CheapestSum:
    """The search over the choices of all features; ``limit`` partial solutions are looked at for each answer."""

    choices: Sequence[FeatureChoices]
    need: Need
    combine: Literal["sum", "max"]
    limit: int
    check: Callable[[], None]  # raises an exception when time is up
    looked_at: int = 0
    solved: dict[frozenset[int], SumAnswer] = field(default_factory=dict)  # by the features that stay

    def find_next(self, earlier: Sequence[frozenset[int]]) -> SumAnswer:
        """The cheapest that changes all the features of no earlier one."""
        self.looked_at = 0
        return find_apart(self._solve, earlier, lambda: self.looked_at > self.limit)

    def _solve(self, staying: frozenset[int]) -> SumAnswer:
        """The cheapest that leaves some features as they are, sought once."""
        if staying not in self.solved:
            self.solved[staying] = self._search(staying)
        return self.solved[staying]

    def _search(self, staying: frozenset[int]) -> SumAnswer:
        """As :meth:`_solve`."""
        if not all(self.choices[j].stays for j in staying):
            return NO_ANSWER
        choices = [STAYING if j in staying else one for j, one in enumerate(self.choices)]
        if any(len(one.costs) == 0 for one in choices) or sum(one.most for one in choices) <= self.need.least:
            return NO_ANSWER
        self.looked_at += 1
        return self._solve_largest(choices) if self.combine == "max" else self._solve_sum(choices)

    def _solve_largest(self, choices: Sequence[FeatureChoices]) -> SumAnswer:
        """The least largest part: every feature gains what it can for a cost, and costs are halved."""
        levels = np.unique(np.concatenate([one.costs for one in choices]))
        bound = levels[_find_first(levels, lambda cost: _gain_within(choices, cost) > self.need.least)]
        if _gain_within(choices, math.inf) <= self.need.sure:
            return SumAnswer(None, math.inf, float(bound))
        cost = levels[_find_first(levels, lambda cost: _gain_within(choices, cost) > self.need.sure)]
        picks = [int(np.searchsorted(one.costs, cost, "right")) - 1 for one in choices]
        return SumAnswer(self._simplify(choices, picks), float(cost), float(bound))

    def _solve_sum(self, choices: Sequence[FeatureChoices]) -> SumAnswer:
        """Best first over partial solutions."""
        need, scale = self.need.least, abs(self.need.least) + sum(float(np.abs(one.gains).max()) for one in choices)
        price = find_price(lambda at: sum(float(one.gains[one.pick(at)]) for one in choices), need, scale or 1.0)
        priced = [one.costs - price * one.gains for one in choices]
        above = [some - some.min() for some in priced]
        start = price * need + sum(float(some.min()) for some in priced)
        best, cost = self._find_start(choices, price)
        worth = [
            np.flatnonzero(some <= max(cost - start, 0.0)) if cost < math.inf else np.arange(len(some))
            for some in above
        ]
        order = sorted(range(len(choices)), key=lambda j: len(worth[j]))
        most = np.array([float(choices[j].gains[worth[j]].max()) for j in order])
        rest = np.concatenate([np.cumsum(most[::-1])[::-1], [0.0]])
        # By bound, and of those with the same the one with most features decided; then cost, gain and picks so far.
        heap: list[tuple[float, int, int, float, float, tuple[int, ...]]] = [(start, 0, 0, 0.0, 0.0, ())]
        count, left, limit = 0, math.inf, self.looked_at + self.limit
        while heap:
            bound, _, _, spent, gained, picks = heapq.heappop(heap)
            if bound >= cost - ROUNDING * (1.0 + abs(cost)):
                break
            self.looked_at += 1
            if self.looked_at >= limit or count > WAITING * self.limit:
                left = bound
                break
            if self.looked_at % 64 == 0:
                self.check()
            j = order[len(picks)]
            one = choices[j]
            if len(picks) == len(order) - 1:
                for place in self._iterate_last(one, gained, cost - spent):
                    full = [0] * len(order)
                    for feature, pick in zip(order, (*picks, place), strict=True):
                        full[feature] = pick
                    if gained + one.gains[place] > self.need.sure or self.need.ask([_name(choices, full)])[0]:
                        best, cost = full, spent + float(one.costs[place])
                        break
                    left = min(left, bound)  # one that gains as much and costs more was left out
                continue
            bounds, gains = bound + above[j][worth[j]], gained + one.gains[worth[j]]
            good = (bounds < cost - ROUNDING * (1.0 + abs(cost))) & (gains + rest[len(picks) + 1] > need)
            for at in np.flatnonzero(good).tolist():
                count += 1
                place = int(worth[j][at])
                longer = spent + float(one.costs[place]), float(gains[at]), (*picks, place)
                heapq.heappush(heap, (float(bounds[at]), -len(longer[2]), count, *longer))
        if best is None:
            return SumAnswer(None, math.inf, left)
        assignment = self._simplify(choices, best)
        bound = min(left, cost)
        return SumAnswer(assignment, cost, bound - ROUNDING * (1.0 + abs(bound)) if bound < cost else cost)

    def _iterate_last(self, one: FeatureChoices, gained: float, affordable: float) -> Iterator[int]:
        """The choices of the last feature that may be enough, cheapest first."""
        for place in range(one.find_cheapest_above(self.need.least - gained), len(one.costs)):
            if one.costs[place] >= affordable:
                return
            yield place

    def _find_start(self, choices: Sequence[FeatureChoices], price: float) -> tuple[list[int] | None, float]:
        """A first solution: what is cheapest after the price, each then as cheap as the others let it be."""
        picks = [one.pick(price) for one in choices]
        total = sum(float(one.gains[pick]) for one, pick in zip(choices, picks, strict=True))
        for j, one in enumerate(choices):  # the price may stand just below the one that is enough
            if total <= self.need.sure:
                total += one.most - float(one.gains[picks[j]])
                picks[j] = len(one.gains) - 1
        if total <= self.need.sure:
            return None, math.inf
        # Where gains are linear, it is best to take back a part of what is dearest for its gain, and nothing else.
        dearness = [
            one.costs[pick] / max(float(one.gains[pick]), 1e-300) for one, pick in zip(choices, picks, strict=True)
        ]
        dearest = sorted(range(len(choices)), key=lambda j: -dearness[j])
        reduced = [self._reduce(choices, picks), self._reduce(choices, picks, dearest)]
        costs = [sum(float(one.costs[pick]) for one, pick in zip(choices, some, strict=True)) for some in reduced]
        cheaper = int(np.argmin(costs))
        return reduced[cheaper], costs[cheaper]

    def _reduce(
        self, choices: Sequence[FeatureChoices], picks: Sequence[int], order: Sequence[int] | None = None
    ) -> list[int]:
        """Every choice as cheap as the others let it be, one after the other: by default those that gain least first,
        so that few features change.
        """
        picks = list(picks)
        total = sum(float(one.gains[pick]) for one, pick in zip(choices, picks, strict=True))
        if order is None:
            order = sorted(range(len(choices)), key=lambda j: float(choices[j].gains[picks[j]]))
        for j in order:
            others = total - float(choices[j].gains[picks[j]])
            enough = choices[j].find_cheapest_above(self.need.sure - others)
            if enough < picks[j]:
                total, picks[j] = others + float(choices[j].gains[enough]), enough
        return picks

    def _simplify(self, choices: Sequence[FeatureChoices], picks: Sequence[int]) -> Assignment:
        """A solution without changes that are not needed, where the sum is clearly enough."""
        gains = (float(one.gains[pick]) for one, pick in zip(choices, picks, strict=True))
        return _name(choices, self._reduce(choices, picks) if sum(gains) > self.need.sure else picks)


def _find_first(levels: Float64Array, enough: Callable[[float], bool]) -> int:
    """The first level that is enough; the last one is."""
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(float(levels[middle])) else (middle + 1, high)
    return low


def _gain_within(choices: Sequence[FeatureChoices], cost: float) -> float:
    """The largest gain of parts that each cost at most so much; minus infinity if a feature cannot."""
    places = [int(np.searchsorted(one.costs, cost, "right")) - 1 for one in choices]
    if min(places, default=0) < 0:
        return -math.inf
    return sum(float(one.gains[place]) for one, place in zip(choices, places, strict=True))


def _name(choices: Sequence[FeatureChoices], picks: Sequence[int]) -> Assignment:
    """A solution by the options that it changes features to."""
    places = {j: int(one.places[pick]) for j, (one, pick) in enumerate(zip(choices, picks, strict=True))}
    return {j: place for j, place in places.items() if place != STAYS}
