"""Upper bounds of a network's margins over pieces of which only few features may change.

A bound of bound propagation is a linear function of the first layer's sums, to which every feature adds its own part.
What a feature may gain by changing is what it adds at its best beyond what it adds at the row's value
(:mod:`~ironrule.checker.bounds.change_bounds`).

**Where costs are added up**, a number adds the more the more it costs, and all numbers together must cost less than the
limit. What a column x can be at most for a cost k is bounded by tangents: for any rate r,

    x  <=  h(r) + r k,    h(r) = the largest (x - r k) of all values in the piece.

The least of a few such lines is a concave function of k, made of segments with a length and a rate. How much all
columns add together is then a knapsack of segments, best rate first, which may be filled with parts of them (Sinha and
Zoltners, "The Multiple-Choice Knapsack Problem", Operations Research 1979). Any rates give a bound. The values of a
piece are taken to be all codes between its first and its last one, so that h is a maximum over a range, which is looked
up in a table of the maxima over ranges of 1, 2, 4, ... codes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, Int32Array, IntpArray
from ironrule.checker.bounds.bound_propagation import RelaxedNetwork
from ironrule.checker.bounds.change_bounds import (
    LARGE_COST,
    MAX_BLOCK_ENTRIES,
    RELATIVE_ERROR,
    TINY_COST,
    ChangePieces,
    bound_knapsack,
    count_loose_parts,
)
from ironrule.checker.bounds.network_bounds import AlternativeMargins, NetworkBounds

RATES = 12  # tangents between the best and the worst rate of a column
SMALLEST_RATE = 1e-100  # with its inverse: no arithmetic with rates between them overflows
LEAST_SPARE = 0.01  # of what features can gain together: numbers are put no closer than for so much to spare


def _widen(budget: Float64Array) -> Float64Array:
    """A budget with room for the rounding of the costs that are added up."""
    return budget * (1.0 + RELATIVE_ERROR)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnTangents:
    """Tangents to what a column can be at most, and at least, for what it costs.

    ``rates`` has falling rates for a column that is to rise, and for one that is to fall; the last one is 0.
    ``largest`` has by direction, level, and rate the largest (x - r k), with x negative where it is to fall, of the
    2**level codes from each code on; the first code is ``start``. Codes outside of these cost too much.
    """

    start: int
    rates: Float64Array
    largest: Float64Array

    @classmethod
    def build(cls, values: Float64Array, costs: Float64Array, own: float, limit: float) -> ColumnTangents:
        """``costs`` are those of every code, or of a number in a gap beside it; infinite where it may not be chosen."""
        paid = np.flatnonzero(costs < limit)
        values, costs = (some[paid[0] : paid[-1] + 1] for some in (values, costs))
        rates, tables = list[Float64Array](), list[Float64Array]()
        for sign in (1.0, -1.0):
            moved = (sign * (values - own) > 0) & (costs > 0) & np.isfinite(costs)
            each = sign * (values[moved] - own) / costs[moved] if moved.any() else np.ones(1)
            most = np.clip(each.max(), SMALLEST_RATE, 1.0 / SMALLEST_RATE)
            least = np.clip(each.min(), 1e-9 * most, most / 1.5)
            rates.append(np.array([8.0 * most, *np.geomspace(most, least, RATES), 0.5 * least, 0.0]))
            known = np.isfinite(costs)
            table = [np.where(known, sign * values - rates[-1][:, None] * np.where(known, costs, 0.0), -np.inf)]
            while 1 << len(table) <= len(values):
                last, half = table[-1], 1 << (len(table) - 1)
                further = np.full_like(last, -np.inf)
                further[:, :-half] = last[:, half:]
                table.append(np.maximum(last, further))
            tables.append(np.array(table))
        return cls(int(paid[0]), np.array(rates), np.array(tables))

    def find_segments(
        self, first: IntpArray, last: IntpArray, slopes: Float64Array
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """For ranges of codes, and the factors that a column is multiplied with: what it adds for nothing, and the
        lengths and rates of the segments by which it adds more.
        """
        side = np.where(slopes >= 0, 0, 1)
        first = np.clip(first - self.start, 0, self.largest.shape[3] - 1)
        last = np.clip(last - self.start, first, self.largest.shape[3] - 1)
        level = np.frexp(last - first + 1)[1] - 1
        ends = first, last - (1 << level) + 1
        heights = np.maximum(*(self.largest[side, level, :, end] for end in ends))
        rates = self.rates[side]
        # the line of a rate is the least one from where it meets that of the rate before
        meets = np.diff(heights, axis=1) / (rates[:, :-1] - rates[:, 1:])
        meets = np.maximum.accumulate(np.maximum(meets, 0.0), axis=1)
        return (
            np.abs(slopes) * heights[:, 0],
            np.diff(meets, axis=1, prepend=0.0),
            np.abs(slopes)[:, None] * rates[:, :-1],
        )


def fill_knapsack(lengths: Float64Array, rates: Float64Array, budget: Float64Array) -> Float64Array:
    """For every row the most that segments add together within a budget, each its rate times how much of it is taken.

    >>> fill_knapsack(np.array([[1.0, 2.0]]), np.array([[1.0, 3.0]]), np.array([2.5]))
    array([6.5])
    """
    order = np.argsort(-rates, axis=1)
    lengths, rates = (np.take_along_axis(one, order, axis=1) for one in (lengths, rates))
    before = np.cumsum(lengths, axis=1) - lengths
    return np.asarray((rates * np.clip(budget[:, None] - before, 0.0, lengths)).sum(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class NetworkChangeBounds:
    """A network as changes of one row see it. ``code_costs``: what every code of a feature, or a number in a gap beside
    it, costs at least; ``costs``: what the code itself does. ``tangents`` are kept for every limit.
    """

    bounds: NetworkBounds
    own: Int32Array
    code_costs: tuple[Float64Array, ...]
    costs: tuple[Float64Array, ...]
    tangents: dict[float, tuple[ColumnTangents, ...]] = field(default_factory=dict)

    def flag_closed(self, changes: ChangePieces) -> tuple[BoolArray, Float64Array]:
        """See :class:`ChangeBounds`."""
        network, closed = self.bounds.network, np.ones(len(changes), dtype=np.bool_)
        gains, prepared = np.zeros(changes.undecided.shape), network.first.prepare_pieces(changes.pieces)
        widest = max(len(layer.bias) for layer in network.layers)
        step = max(1, MAX_BLOCK_ENTRIES // (2 * widest * max(widest, network.first.max_width)))
        with np.errstate(over="ignore", invalid="ignore"):
            for some in (slice(start, start + step) for start in range(0, len(changes), step)):
                relaxed = RelaxedNetwork.build(network, prepared.build_block(some))
                for margins in self.bounds.alternatives:
                    here, own_gains = self._flag_block(relaxed, margins, changes.select(some))
                    closed[some] &= here
                    gains[some] = np.maximum(gains[some], own_gains)
        return closed, gains

    def count_parts(self, changes: ChangePieces, limit: float) -> list[Float64Array]:
        """See :class:`ChangeBounds`."""
        network, rows = self.bounds.network, changes.pieces.rows
        counts = [np.zeros(one.shape[1]) for one in changes.pieces.sets]
        affordable = [np.where(one < limit, one, np.inf) for one in self.costs]
        columns = list(zip(network.first.single.features, network.first.single.values, strict=True))
        with np.errstate(over="ignore", invalid="ignore"):
            relaxed = RelaxedNetwork.build(
                network, network.first.prepare_pieces(changes.pieces).build_block(slice(None))
            )
            for margins in self.bounds.alternatives:
                traced = relaxed.trace_bounds(margins.factors)
                for place in range(len(margins.offsets)):
                    slopes = traced.first[:, place] @ network.first.single.weights.T
                    price = self._find_price(slopes, changes)
                    own = slopes @ np.array([values[self.own[j]] for j, values in columns])
                    reach = np.maximum(slopes * relaxed.block.low, slopes * relaxed.block.high).sum(axis=1) - own
                    each = (LEAST_SPARE * np.maximum(reach, TINY_COST) / max(1, len(columns)))[:, None]
                    for column, (j, values) in enumerate(columns):
                        inside, adds = changes.pieces.sets[j][rows[:, j]], slopes[:, column, None] * values
                        parts = count_loose_parts(
                            adds, inside, price, loose=self.code_costs[j], exact=affordable[j], each=each
                        )
                        counts[j] = np.maximum(counts[j], parts)
        return counts

    def _flag_block(
        self, relaxed: RelaxedNetwork, margins: AlternativeMargins, changes: ChangePieces
    ) -> tuple[BoolArray, Float64Array]:
        traced = relaxed.trace_bounds(margins.factors)
        here, gains = np.zeros(len(changes), dtype=np.bool_), np.zeros(changes.undecided.shape)
        for place, (offset, slack) in enumerate(zip(margins.offsets, margins.slack, strict=True)):
            own_gains, spread, sizes = self._measure_gains(relaxed, traced.first[:, place], changes)
            bound = traced.bounds[:, place] + offset + self.bounds.network.rounding * abs(offset)
            sizes = RELATIVE_ERROR * (sizes + np.abs(bound) + abs(offset))
            most = bound - own_gains.sum(axis=1) + bound_knapsack(own_gains, changes.costs, changes.left) + sizes
            if np.isfinite(changes.limit):
                least = self._bound_by_costs(relaxed, traced.first[:, place], changes, bound, own_gains)
                most = np.where(np.isfinite(least), np.minimum(least + sizes, most), most)
            here |= np.where(np.isfinite(most) & np.isfinite(bound), np.minimum(bound, most) <= -slack, False)
            gains = np.maximum(gains, np.where(np.isfinite(spread), spread, 0.0))
        return here, gains

    def _bound_by_costs(
        self,
        relaxed: RelaxedNetwork,
        factors: Float64Array,
        changes: ChangePieces,
        bound: Float64Array,
        gains: Float64Array,
    ) -> Float64Array:
        """The bound with what columns can add for what they cost in the place of what they add at their best."""
        first, block = relaxed.network.first, relaxed.block
        slopes, budget = factors @ first.single.weights.T, _widen(np.full(len(changes), changes.limit))
        base, lengths, rates = self._find_segments(slopes, changes)
        total = bound + (base - np.maximum(slopes * block.low, slopes * block.high)).sum(axis=1)
        for feature in (group.feature for group in first.groups):  # one segment each, if it may still change
            total -= gains[:, feature]
            lengths.append(np.clip(changes.costs[:, feature], TINY_COST, LARGE_COST)[:, None])
            rates.append(gains[:, feature, None] / lengths[-1])
        most = fill_knapsack(np.concatenate(lengths, axis=1), np.concatenate(rates, axis=1), budget)
        return np.asarray(total + most + RELATIVE_ERROR * np.abs(base).sum(axis=1))

    def _find_segments(
        self, slopes: Float64Array, changes: ChangePieces
    ) -> tuple[Float64Array, list[Float64Array], list[Float64Array]]:
        """What each column adds for nothing, and the lengths and rates of its segments."""
        single = self.bounds.network.first.single
        if changes.limit not in self.tangents:
            self.tangents[changes.limit] = tuple(
                ColumnTangents.build(values, self.code_costs[j], values[self.own[j]], changes.limit)
                for j, values in zip(single.features, single.values, strict=True)
            )
        base, lengths, rates = np.zeros(slopes.shape), list[Float64Array](), list[Float64Array]()
        for place, (j, tangents) in enumerate(zip(single.features, self.tangents[changes.limit], strict=True)):
            sets, rows = changes.pieces.sets[j], changes.pieces.rows[:, j]
            first, last = sets.argmax(axis=1), sets.shape[1] - 1 - sets[:, ::-1].argmax(axis=1)
            base[:, place], length, rate = tangents.find_segments(first[rows], last[rows], slopes[:, place])
            lengths.append(length)
            rates.append(rate)
        return base, lengths, rates

    def _find_price(self, slopes: Float64Array, changes: ChangePieces) -> Float64Array:
        """For every piece what the limit gains per cost, where columns alone may change."""
        if not np.isfinite(changes.limit):
            return np.zeros(len(changes))
        _, lengths, rates = self._find_segments(slopes, changes)
        every = np.concatenate(rates, axis=1)
        order = np.argsort(-every, axis=1)
        paid = np.cumsum(np.take_along_axis(np.concatenate(lengths, axis=1), order, axis=1), axis=1) < changes.limit
        falling = np.append(np.take_along_axis(every, order, axis=1), np.zeros((len(changes), 1)), axis=1)
        return np.asarray(falling[np.arange(len(changes)), paid.sum(axis=1)])

    def _measure_gains(
        self, relaxed: RelaxedNetwork, factors: Float64Array, changes: ChangePieces
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """What each undecided feature adds at its best beyond what it adds at the row's value; between which ends what
        a feature adds lies; and all sizes.
        """
        first, block = relaxed.network.first, relaxed.block
        gains, spread, sizes = *np.zeros((2, *changes.undecided.shape)), np.zeros(len(changes))
        slopes = factors @ first.single.weights.T
        for place, (feature, values) in enumerate(zip(first.single.features, first.single.values, strict=True)):
            ends = slopes[:, place] * block.low[:, place], slopes[:, place] * block.high[:, place]
            own = slopes[:, place] * values[self.own[feature]]
            gains[:, feature] = np.maximum(*ends) - own
            spread[:, feature] = np.abs(ends[1] - ends[0])
            sizes += np.maximum(np.abs(ends[0]), np.abs(ends[1])) + np.abs(own)
        for flags, group in zip(block.present_cells, first.groups, strict=True):
            adds = factors @ group.vectors.T
            own = adds[:, group.cells[self.own[group.feature]]]
            gains[:, group.feature] = np.where(flags, adds, -np.inf).max(axis=1) - own
            spread[:, group.feature] = np.where(flags, adds, -np.inf).max(axis=1) - np.where(flags, adds, np.inf).min(
                axis=1
            )
            sizes += np.abs(adds).max(axis=1)
        return np.where(changes.undecided, np.maximum(gains, 0.0), 0.0), spread, sizes
