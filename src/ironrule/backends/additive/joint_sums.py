"""The cheapest changes by which several sums pass their limits at once, with a proven bound.

Every feature takes one of its *choices*. A choice costs something and gains something in each of the sums, and what is
gained must pass a need in all of them: a knapsack problem with several constraints (Kellerer, Pferschy, Pisinger,
"Knapsack Problems", 2004, chapter 9). For prices on the gains, none of them negative,

    prices * needs + the sum over features of the least (cost - prices * gains)

is no more than what any solution costs (Lagrangian relaxation). Any prices give a bound; good ones come from cutting
planes (Kelley, "The cutting-plane method for solving convex programs", 1960).

Pieces, which say of every feature from which range of its choices one is taken, are searched best first by this bound.
A piece is dropped where one of the sums cannot pass its need with the most that each feature can still gain, counted
over as many changes as can still be paid. Ends of ranges that only dropped pieces have are cut off. Otherwise a range
is divided, and a piece of single choices is a solution. The search may end at any time: the least bound of what is
left is one for all of it. Where the largest part of a cost counts, costs are tried, and all choices up to one are free.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ironrule.arrays import Float64Array, IntpArray
from ironrule.backends.additive.nearest import MAX_PRICE

ROUNDING = 1e-9  # of costs: what our own sums may lose
CUTTING_PLANES = 25
PRICE_SHARE = 1e-3  # of a bound: prices are good enough where others could add no more
PASSES = 3  # over all features, to make a solution of the choices that are best by price
FIRST_TRIES = 16  # pieces of which a solution is made; then one of so many
LEVEL_SHARE = 1e-4  # of the largest part: costs that are nearer are not told apart


@dataclass(frozen=True, slots=True, eq=False)
class JointChoices:
    """The choices of one feature, in an order in which neighbours are alike; ``gains`` has a row for every sum.

    ``places`` says which of the options given each is; ``own`` is the number of the choice not to change, -1 if the
    feature cannot stay as it is.
    """

    costs: Float64Array
    gains: Float64Array
    places: IntpArray
    own: int

    def select(self, most: float) -> JointChoices:
        """The choices that cost at most so much, as if they were free."""
        kept = np.flatnonzero(self.costs <= most)
        own = int(np.searchsorted(kept, self.own)) if self.own >= 0 else -1
        return JointChoices(np.zeros(len(kept)), self.gains[:, kept], self.places[kept], own)

    def stay(self) -> JointChoices:
        """The choice not to change alone; there must be one."""
        only = slice(self.own, self.own + 1)
        return JointChoices(self.costs[only], self.gains[:, only], self.places[only], 0)


@dataclass(frozen=True, slots=True, eq=False)
class JointNeed:
    """Gains above ``sure`` in every sum are enough; up to ``least`` in one of them they are not; in between ``ask``
    says whether an option of every feature, by its place, is.
    """

    least: Float64Array
    sure: Float64Array
    ask: Callable[[Sequence[int]], bool]


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """The options that were found, by their places, None if none were; what they cost; and what every solution costs at
    least.
    """

    places: tuple[int, ...] | None
    cost: float
    bound: float


NOTHING = JointAnswer(None, math.inf, math.inf)


@dataclass(slots=True, eq=False)
class JointSumSearch:
    """The search; ``limit`` pieces are looked at in one of its runs.

    ``least_part`` is what every change costs at least. A solution that is cheaper than another one by less than
    ``find_tolerance`` of its cost is not looked for.
    """

    need: JointNeed
    least_part: float
    limit: int
    check: Callable[[], None]  # raises an exception when time is up
    find_tolerance: Callable[[float], float] = field(default=lambda _: 0.0)
    looked_at: int = 0

    def find_least_sum(self, choices: Sequence[JointChoices], planes: int = CUTTING_PLANES) -> JointAnswer:
        """The solution of which all costs together are least."""
        if any(not len(one.costs) for one in choices):
            return NOTHING
        prices = find_prices(choices, self.need.least, planes)
        return _PieceSearch.build(self, choices, prices).run()

    def find_least_largest(self, choices: Sequence[JointChoices]) -> JointAnswer:
        """The solution of which the largest cost is least: costs are halved, and what costs no more is free."""
        if any(not len(one.costs) for one in choices):
            return NOTHING
        levels = np.unique(np.concatenate([one.costs for one in choices]))
        low, high, best, bound = 0, len(levels), NOTHING, math.inf
        free = replace(self, least_part=0.0, find_tolerance=lambda _: 0.0)
        while low < high and (high == len(levels) or levels[high] - levels[low] > LEVEL_SHARE * levels[high]):
            # first whether there is any solution, then the middle
            middle = (low + high) // 2 if high < len(levels) else len(levels) - 1
            level = float(levels[middle])
            found = free.find_least_sum([one.select(level) for one in choices], planes=CUTTING_PLANES // 2)
            self.looked_at = free.looked_at
            if found.places is not None:
                taken = zip(choices, found.places, strict=True)
                cost = max(float(one.costs[one.places == place][0]) for one, place in taken)
                best, high = JointAnswer(found.places, cost, cost), int(np.searchsorted(levels, cost))
                continue
            if found.bound < math.inf:  # it was not searched to the end
                bound = min(bound, level)
            if high == len(levels):
                return JointAnswer(None, math.inf, bound if bound == math.inf else 0.0)
            low = middle + 1
        return replace(best, bound=min(bound, float(levels[min(low, high)])))


def find_prices(choices: Sequence[JointChoices], need: Float64Array, planes: int) -> Float64Array:
    """Good prices by cutting planes, and for each sum alone some: one row for each."""
    from scipy.optimize import linprog

    reach = np.sum([np.abs(one.gains).max(axis=1) for one in choices], axis=0) + np.abs(need)
    scale = np.where(reach > 0.0, reach, 1.0)
    prices = best_prices = np.zeros(len(need))
    best, slopes, values = -math.inf, list[Float64Array](), list[float]()
    for _ in range(planes):
        picks = [int(np.argmin(one.costs - prices @ one.gains)) for one in choices]
        cost = sum(float(one.costs[pick]) for one, pick in zip(choices, picks, strict=True))
        slope = need - np.sum([one.gains[:, pick] for one, pick in zip(choices, picks, strict=True)], axis=0)
        value = cost + float(prices @ slope)
        if value > best:
            best, best_prices = value, prices
        slopes.append(slope / scale)
        values.append(cost)
        rows = np.column_stack([-np.array(slopes), np.ones(len(slopes))])
        bounds = [(0.0, MAX_PRICE)] * len(need) + [(None, None)]
        solved = linprog(np.append(np.zeros(len(need)), -1.0), rows, values, bounds=bounds)
        if solved.x is None or solved.x[-1] - best <= PRICE_SHARE * abs(best):
            break
        prices = np.maximum(solved.x[:-1], 0.0) / scale
    return np.concatenate([best_prices[None, :], best_prices[None, :] * np.eye(len(need))])


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Per feature the first and the last of its choices; the least cost of these, by every price (rows) and by itself;
    and the most and the least gain in every sum.
    """

    low: IntpArray
    high: IntpArray
    priced: Float64Array
    costs: Float64Array
    most: Float64Array
    least: Float64Array


@dataclass(slots=True, eq=False)
class _PieceSearch:
    """One run over the pieces of all choices."""

    search: JointSumSearch
    choices: Sequence[JointChoices]
    priced: Sequence[Float64Array]  # per feature the costs of its choices less what they gain, a row for every price
    start: Float64Array  # prices * needs
    scale: Float64Array
    best: tuple[int, ...] | None
    cost: float

    @classmethod
    def build(cls, search: JointSumSearch, choices: Sequence[JointChoices], prices: Float64Array) -> _PieceSearch:
        """Nothing is found yet; more than all costs together nothing costs."""
        priced = [one.costs - prices @ one.gains for one in choices]
        reach = np.sum([np.abs(one.gains).max(axis=1) for one in choices], axis=0)
        most = sum(float(one.costs.max()) for one in choices) * (1.0 + 1e-6) + 1e-6
        scale = np.where(reach > 0.0, reach, 1.0)
        start = prices @ search.need.least
        return cls(search, choices, priced=priced, start=start, scale=scale, best=None, cost=most)

    @property
    def limit(self) -> float:
        """What is not cheaper than this is not looked for."""
        tolerance = self.search.find_tolerance(self.cost) if self.best is not None else 0.0
        return self.cost - max(tolerance, ROUNDING * (1.0 + abs(self.cost)))

    def run(self) -> JointAnswer:
        """Best first."""
        count = len(self.choices)
        low = np.zeros(count, dtype=np.intp)
        high = np.array([len(one.costs) - 1 for one in self.choices], dtype=np.intp)
        first = self._shrink(self._measure(low, high))
        heap = [] if first is None else [(self._find_bound(first), 0, first)]
        number, left, last = 0, math.inf, self.search.looked_at + self.search.limit
        while heap:
            bound, _, piece = heapq.heappop(heap)
            # Best first: no piece that is left has a lower bound than this one.
            if bound >= self.limit or self.search.looked_at >= last:
                left = bound
                break
            self.search.looked_at += 1
            self.search.check()
            # A solution lowers the limit, which closes pieces: look for one early, and now and again later.
            if number < FIRST_TRIES or self.search.looked_at % FIRST_TRIES == 0:
                self._try_solution(piece)
            if (piece.low == piece.high).all():
                self._offer(piece.low.tolist())
                continue
            for part in self._divide(piece):
                shrunk = self._shrink(part)
                if shrunk is not None and (own := self._find_bound(shrunk)) < self.limit:
                    number += 1
                    heapq.heappush(heap, (max(bound, own), number, shrunk))
        if self.best is None:
            return JointAnswer(None, math.inf, left - ROUNDING * (1.0 + abs(left)) if left < math.inf else left)
        places = self._list_places(self.best)
        bound = min(left, self.limit, self.cost)
        # Exact: all below the limit was searched, and between the limit and the cost there is rounding alone.
        exact = self.limit >= self.cost - 2 * ROUNDING * (1.0 + abs(self.cost)) and left >= self.limit
        return JointAnswer(tuple(places), self.cost, self.cost if exact else bound - ROUNDING * (1.0 + abs(bound)))

    def _measure(self, low: IntpArray, high: IntpArray) -> _Piece:
        """The piece of these ranges."""
        ranges = [slice(first, last + 1) for first, last in zip(low.tolist(), high.tolist(), strict=True)]
        pairs = list(zip(self.choices, self.priced, ranges, strict=True))
        return _Piece(
            low,
            high,
            priced=np.stack([priced[:, some].min(axis=1) for _, priced, some in pairs], axis=1),
            costs=np.array([one.costs[some].min() for one, _, some in pairs]),
            most=np.stack([one.gains[:, some].max(axis=1) for one, _, some in pairs], axis=1),
            least=np.stack([one.gains[:, some].min(axis=1) for one, _, some in pairs], axis=1),
        )

    def _replace(self, piece: _Piece, j: int, low: int, high: int) -> _Piece:
        """The same piece with another range of one feature."""
        own, priced, some = self.choices[j], self.priced[j], slice(low, high + 1)
        new = _Piece(
            low=piece.low.copy(),
            high=piece.high.copy(),
            priced=piece.priced.copy(),
            costs=piece.costs.copy(),
            most=piece.most.copy(),
            least=piece.least.copy(),
        )
        new.low[j], new.high[j] = low, high
        new.priced[:, j], new.costs[j] = priced[:, some].min(axis=1), own.costs[some].min()
        new.most[:, j], new.least[:, j] = own.gains[:, some].max(axis=1), own.gains[:, some].min(axis=1)
        return new

    def _find_bound(self, piece: _Piece) -> float:
        """What every solution of a piece costs at least."""
        return float(max((self.start + piece.priced.sum(axis=1)).max(), piece.costs.sum()))

    def _shrink(self, piece: _Piece) -> _Piece | None:
        """The piece without ends of ranges that no cheaper solution has; None if it has none."""
        need, limit = self.search.need.least, self.limit
        if not self._can_pass(piece):
            return None
        for j in np.flatnonzero(piece.low < piece.high).tolist():
            first, last = int(piece.low[j]), int(piece.high[j])
            some = slice(first, last + 1)
            others = self.start + piece.priced.sum(axis=1) - piece.priced[:, j]
            paid = piece.costs.sum() - piece.costs[j]
            # A choice stays if, with the best of all other features, it is cheap enough by every price and by its own
            # cost, and every sum can still pass its need.
            good = (others[:, None] + self.priced[j][:, some] < limit).all(axis=0)
            good &= paid + self.choices[j].costs[some] < limit
            gained = piece.most.sum(axis=1) - piece.most[:, j]
            reach = gained[:, None] + self.choices[j].gains[:, some]
            good &= (reach > need[:, None] - ROUNDING * 1e-3 * self.scale[:, None]).all(axis=0)
            kept = np.flatnonzero(good)
            if not len(kept):
                return None
            if len(kept) < last + 1 - first and (kept[0] > 0 or kept[-1] < last - first):
                piece = self._replace(piece, j, first + int(kept[0]), first + int(kept[-1]))
        return piece

    def _can_pass(self, piece: _Piece) -> bool:
        """Whether every sum may pass its need, with as many changes as can be paid."""
        need, own = self.search.need.least, np.array([one.own for one in self.choices])
        slack = ROUNDING * 1e-3 * self.scale
        if (piece.most.sum(axis=1) <= need - slack).any():
            return False
        open_features = (piece.low <= own) & (own <= piece.high) & (piece.low < piece.high)
        if not self.search.least_part or not open_features.any():
            return True
        # Every further change costs something: count how many can be paid, and let those that gain most be made.
        left = (self.limit - piece.costs[~open_features].sum()) / self.search.least_part
        changes = min(max(int(left + ROUNDING), 0), int(open_features.sum()))
        more = -np.sort(-np.maximum(piece.most[:, open_features], 0.0), axis=1)[:, :changes].sum(axis=1)
        return not (piece.most[:, ~open_features].sum(axis=1) + more <= need - slack).any()

    def _divide(self, piece: _Piece) -> Iterator[_Piece]:
        """A piece in parts: the range of the feature whose gains are least known."""
        unknown = ((piece.most - piece.least) / self.scale[:, None]).sum(axis=0)
        unknown[piece.low == piece.high] = -1.0
        own = np.array([one.own for one in self.choices])
        if self.search.least_part:  # whether a feature changes comes before how
            unknown += np.where((piece.low <= own) & (own <= piece.high) & (piece.low < piece.high), 1e3, 0.0)
        j = int(np.argmax(unknown))
        low, high, stay = int(piece.low[j]), int(piece.high[j]), int(own[j])
        if self.search.least_part and low <= stay <= high:
            parts = [(stay, stay), (low, stay - 1), (stay + 1, high)]
        else:
            parts = [(low, (low + high) // 2), ((low + high) // 2 + 1, high)]
        for first, last in parts:
            if first <= last:
                yield self._replace(piece, j, first, last)

    def _try_solution(self, piece: _Piece) -> None:
        """Make a solution of the choices that are best by price: one feature after the other takes its cheapest choice
        that is enough, or the one with which least is missing.
        """
        picks = [
            int(low) + int(np.argmin(priced[0, low : high + 1]))
            for low, high, priced in zip(piece.low, piece.high, self.priced, strict=True)
        ]
        need = self.search.need.sure
        total = np.sum([one.gains[:, pick] for one, pick in zip(self.choices, picks, strict=True)], axis=0)
        for _ in range(PASSES):
            for j in np.argsort([-one.costs[pick] for one, pick in zip(self.choices, picks, strict=True)]).tolist():
                low, high, one = int(piece.low[j]), int(piece.high[j]), self.choices[j]
                others = total - one.gains[:, picks[j]]
                missing = (need - others)[:, None] - one.gains[:, low : high + 1]
                enough = np.flatnonzero((missing < 0.0).all(axis=0))
                if len(enough):
                    picks[j] = low + int(enough[np.argmin(one.costs[low : high + 1][enough])])
                elif not (total > need).all():
                    lacking = (np.maximum(missing, 0.0) / self.scale[:, None]).sum(axis=0)
                    picks[j] = low + int(np.argmin(lacking))
                total = others + one.gains[:, picks[j]]
        if (total > need).all():
            self._offer(picks)

    def _offer(self, picks: Sequence[int]) -> None:
        """Take a solution, if it is one and cheaper, without changes that are not needed."""
        need, picks = self.search.need, list(picks)
        total = self._add_gains(picks)
        if (total <= need.least).any():
            return
        if (total > need.sure).all():
            for j, one in enumerate(self.choices):
                stays = [*picks[:j], one.own, *picks[j + 1 :]]
                if one.own >= 0 and picks[j] != one.own and (self._add_gains(stays) > need.sure).all():
                    picks = stays
        cost = sum(float(one.costs[pick]) for one, pick in zip(self.choices, picks, strict=True))
        if cost < self.cost and ((self._add_gains(picks) > need.sure).all() or need.ask(self._list_places(picks))):
            self.best, self.cost = tuple(picks), cost

    def _add_gains(self, picks: Sequence[int]) -> Float64Array:
        gains = [one.gains[:, pick] for one, pick in zip(self.choices, picks, strict=True)]
        return np.asarray(np.sum(gains, axis=0), dtype=np.float64)

    def _list_places(self, picks: Sequence[int]) -> list[int]:
        """The options that choices are."""
        return [int(one.places[pick]) for one, pick in zip(self.choices, picks, strict=True)]
