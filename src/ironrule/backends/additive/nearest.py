"""The cheapest changes of a sum: every feature adds something by itself, and the sum must pass a limit.

Each feature has *options*: what a change to one of its values costs, and what it gains. Wanted are changes of as few
features as possible whose gains together pass a need, and among these the cheapest. That is a knapsack problem with one
choice per feature (Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004, chapter 11), small because few features
change. For a price on gain, each feature's cheapest option after the price is found by itself, so that

    price * need + the sum of these costs, over the features that have to change and the cheapest others

is no more than what any solution costs (Lagrangian relaxation, with the number of changes kept). Sets of features are
searched depth first, cheapest first, as long as that bound is below the best cost so far; then, for one set, options in
the same way, the last two features at once by looking up what is still needed.

The model's own rounding may turn its decision where the sum is within an error of the limit. There the model is asked;
where it denies, ``has_denied`` says that a dearer option with the same gain may not have been looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, IntpArray

COST_TOLERANCE = 1e-9  # a solution that is cheaper by less is not looked for
PRICE_STEPS = 40
MAX_PRICE = 1e4  # in costs by the size of gains
Assignment = dict[int, int]  # by feature that changes, the position of its option


@dataclass(frozen=True, slots=True, eq=False)
class FeatureOptions:
    """The options of one feature that are worth it: each costs more than the one before, and gains more.

    ``places`` says which of the options given each is. ``forced``: the feature cannot stay as it is.
    """

    costs: Float64Array
    gains: Float64Array
    places: IntpArray
    forced: bool = False

    @classmethod
    def select(cls, costs: Float64Array, gains: Float64Array, allowed: BoolArray, forced: bool) -> FeatureOptions:
        """Of the allowed options those that gain more than every cheaper one, and, unless forced, anything at all."""
        places = np.flatnonzero(allowed if forced else allowed & (gains > 0.0))
        places = places[np.lexsort((-gains[places], costs[places]))]
        best = np.maximum.accumulate(gains[places])
        better = np.ones(len(places), dtype=np.bool_)
        better[1:] = best[1:] > best[:-1]
        places = places[better]
        return cls(costs[places], gains[places], places, forced)

    @property
    def most(self) -> float:
        """The largest gain."""
        return float(self.gains[-1])

    def pick(self, price: float) -> int:
        """The option that costs least after a price on its gain."""
        return int(np.argmin(self.costs - price * self.gains))


@dataclass(frozen=True, slots=True)
class Need:
    """Gains above ``sure`` are enough; up to ``least`` they are not; in between ``ask`` says which assignments are."""

    least: float
    sure: float
    ask: Callable[[list[Assignment]], Sequence[bool]]


class SearchLimitReached(Exception):  # noqa: N818  # a limit of the search, no error
    """The search looked at as many possibilities as it may."""


@dataclass(slots=True, eq=False)
class CheapestChanges:
    """The search for one assignment after the other: fewest changes first, then least cost, none with all the features
    of an earlier one. ``best`` is the cheapest so far of the next one.
    """

    options: Sequence[FeatureOptions]
    need: Need
    limit: int  # possibilities that are looked at for one of them
    check: Callable[[], None]  # raises an exception when time is up
    found: list[Assignment] = field(default_factory=list)
    best: Assignment | None = None
    best_cost: float = np.inf
    looked_at: int = 0
    size: int = 1  # changes that the next one has at least
    scale: float = 1.0  # of gains
    has_denied: bool = False  # whether the model denied what was in doubt

    def __post_init__(self) -> None:
        self.size = max(1, sum(one.forced for one in self.options))
        sizes = (float(np.abs(one.gains).max()) for one in self.options if len(one.gains))
        self.scale = abs(self.need.least) + sum(sizes) or 1.0

    def find_next(self) -> Assignment | None:
        """The next one, None if there is none; raises SearchLimitReached."""
        self.best, self.best_cost, self.looked_at = None, np.inf, 0
        usable = [j for j, one in enumerate(self.options) if len(one.gains)]
        if any(one.forced and not len(one.gains) for one in self.options):
            return None
        while self.size <= len(usable):
            self._search_size(usable)
            if self.best is not None:
                self.found.append(self.best)
                return self.best
            self.size += 1
        return None

    def _count(self, more: int = 1) -> None:
        self.looked_at += more
        if self.looked_at > self.limit:
            raise SearchLimitReached
        self.check()

    def _search_size(self, usable: Sequence[int]) -> None:
        """The cheapest that changes ``size`` features."""
        forced = [j for j in usable if self.options[j].forced]
        free = [j for j in usable if not self.options[j].forced]
        top = sorted((self.options[j].most for j in free), reverse=True)
        if sum(self.options[j].most for j in forced) + sum(top[: self.size - len(forced)]) <= self.need.least:
            return
        price = self._choose_price(forced, free)
        reduced = {j: float((self.options[j].costs - price * self.options[j].gains).min()) for j in usable}
        free.sort(key=reduced.__getitem__)
        for chosen in self._list_sets(forced, free, reduced, price * self.need.least):
            self._search_options(chosen)

    def _choose_price(self, forced: Sequence[int], free: Sequence[int]) -> float:
        """A price at which what is cheapest is just enough; any price gives a bound."""

        def gain(price: float) -> float:
            picks = {j: self.options[j].pick(price) for j in (*forced, *free)}
            each = {j: float(self.options[j].costs[p] - price * self.options[j].gains[p]) for j, p in picks.items()}
            chosen = [*forced, *sorted(free, key=each.__getitem__)[: self.size - len(forced)]]
            return sum(float(self.options[j].gains[picks[j]]) for j in chosen)

        return find_price(gain, self.need.least, self.scale)

    def _list_sets(
        self, forced: Sequence[int], free: Sequence[int], reduced: dict[int, float], start: float
    ) -> Iterator[tuple[int, ...]]:
        """The sets of features that may hold something cheaper than the best so far, depth first."""
        count = self.size - len(forced)
        # Features stand in the order of what they cost at least at the price: `sums` adds that up from the front.
        # `tops[place][slots]` is the most that so many features from a place on can gain.
        sums = np.concatenate([[0.0], np.cumsum([reduced[j] for j in free])])
        most = np.array([self.options[j].most for j in free])
        tops = [np.concatenate([[0.0], np.cumsum(np.sort(most[place:])[::-1])]) for place in range(len(free) + 1)]
        enough = self.need.least - sum(self.options[j].most for j in forced)
        waiting: list[tuple[tuple[int, ...], int, float, float]] = []
        if count <= len(free):
            waiting.append(((), 0, start + sum(reduced[j] for j in forced), enough))
        while waiting:
            chosen, place, bound, left = waiting.pop()
            self._count()
            slots = count - len(chosen)
            if slots == 0:
                if left < 0.0 and bound < self.best_cost - COST_TOLERANCE:
                    yield (*forced, *chosen)
                continue
            if len(free) - place < slots or tops[place][slots] <= left:
                continue
            # what the rest costs at least: as many features as are to come, the cheapest from here on
            if bound + sums[place + slots] - sums[place] >= self.best_cost - COST_TOLERANCE:
                continue
            # Without this feature, and with it. What is put on last comes first: sets of cheap features are met early.
            waiting.append((chosen, place + 1, bound, left))
            longer, one = (*chosen, free[place]), free[place]
            if not any(earlier.keys() <= {*forced, *longer} for earlier in self.found):
                waiting.append((longer, place + 1, bound + reduced[one], left - self.options[one].most))

    def _search_options(self, chosen: tuple[int, ...]) -> None:
        """The cheapest options of some features that all change."""
        if any(earlier.keys() <= set(chosen) for earlier in self.found):
            return

        def gain(price: float) -> float:
            return sum(float(self.options[j].gains[self.options[j].pick(price)]) for j in chosen)

        price = find_price(gain, self.need.least, self.scale)
        self._offer_priced(chosen, price)
        order = tuple(sorted(chosen, key=lambda j: len(self.options[j].gains)))
        each = [self.options[j].costs - price * self.options[j].gains for j in order]
        least = [float(costs.min()) for costs in each]
        rising = [costs - lowest for costs, lowest in zip(each, least, strict=True)]
        bound = price * self.need.least + sum(least)
        self._search_rest(order, rising, {}, bound, self.need.least)

    def _offer_priced(self, chosen: tuple[int, ...], price: float) -> None:
        """A first solution: what is cheapest after the price, each then as cheap as the others let it be."""
        picks = {j: self.options[j].pick(price) for j in chosen}
        total = sum(float(self.options[j].gains[p]) for j, p in picks.items())
        for j in chosen:  # the price may stand just below the one that is enough
            if total <= self.need.sure:
                total += self.options[j].most - float(self.options[j].gains[picks[j]])
                picks[j] = len(self.options[j].gains) - 1
        for j in sorted(chosen, key=lambda j: -self.options[j].costs[picks[j]]):
            others = total - float(self.options[j].gains[picks[j]])
            enough = int(np.searchsorted(self.options[j].gains, self.need.sure - others, "right"))
            if enough < picks[j]:
                total, picks[j] = others + float(self.options[j].gains[enough]), enough
        if total > self.need.sure:
            self._offer([picks])

    def _search_rest(
        self, order: tuple[int, ...], rising: list[Float64Array], taken: Assignment, bound: float, left: float
    ) -> None:
        """Options of the features after those taken; ``left`` is still needed, ``bound`` is what all cost at least."""
        place = len(taken)
        if place == len(order) - 1:
            self._finish(order, taken, np.array([], dtype=np.intp), left)
            return
        own, rest = self.options[order[place]], sum(self.options[j].most for j in order[place + 1 :])
        costs = bound + rising[place]
        worth = np.flatnonzero((costs < self.best_cost - COST_TOLERANCE) & (own.gains + rest > left))
        if place == len(order) - 2:
            self._count(1 + len(worth) // 256)
            self._finish(order, taken, worth, left)
            return
        for option in worth[np.argsort(costs[worth], kind="stable")].tolist():
            self._count()
            if costs[option] >= self.best_cost - COST_TOLERANCE:
                break
            longer = taken | {order[place]: option}
            self._search_rest(order, rising, longer, float(costs[option]), left - float(own.gains[option]))

    def _finish(self, order: tuple[int, ...], taken: Assignment, firsts: IntpArray, left: float) -> None:
        """The last feature, or the last two: for every option of the first of them the least of the other."""
        *before, last = order
        own, spent = self.options[last], sum(float(self.options[j].costs[p]) for j, p in taken.items())
        are_two = len(before) > len(taken)
        needed, base = np.array([left]), np.array([spent])
        if are_two:
            first = self.options[before[-1]]
            needed, base = left - first.gains[firsts], spent + first.costs[firsts]

        def build(row: int, option: int) -> Assignment:
            return taken | ({before[-1]: int(firsts[row])} if are_two else {}) | {last: option}

        doubt = self.need.sure - self.need.least
        begin, end = (np.searchsorted(own.gains, needed + more, "right") for more in (0.0, doubt))
        costs = base + np.append(own.costs, np.inf)[end]
        if len(costs) and costs.min() < self.best_cost - COST_TOLERANCE:
            row = int(np.argmin(costs))
            self._offer([build(row, int(end[row]))])
        unsure = [
            build(row, option)
            for row in np.flatnonzero(begin < end).tolist()
            for option in range(int(begin[row]), int(end[row]))
            if base[row] + own.costs[option] < self.best_cost - COST_TOLERANCE
        ]
        if unsure:
            self._count(len(unsure))
            answers = self.need.ask(unsure)
            self.has_denied |= not all(answers)
            self._offer([one for one, good in zip(unsure, answers, strict=True) if good])

    def _offer(self, assignments: list[Assignment]) -> None:
        """Make the cheapest of some solutions the best one, if it is cheaper."""
        for one in assignments:
            cost = sum(float(self.options[j].costs[p]) for j, p in one.items())
            if cost < self.best_cost:
                self.best, self.best_cost = one, cost


def find_price(gain: Callable[[float], float], need: float, scale: float) -> float:
    """Nearly the least price at which the gain passes a need; the gain rises with the price.

    No price is so high that rounding could spoil bounds: costs are about 1, gains about ``scale``.
    """
    low, high = 0.0, 1.0 / scale
    while gain(high) <= need:
        if high > MAX_PRICE / scale:
            return high
        low, high = high, high * 8.0
    for _ in range(PRICE_STEPS):
        middle = (low + high) / 2
        if gain(middle) > need:
            high = middle
        else:
            low = middle
        if high - low <= 1e-6 * high:
            break
    return high
