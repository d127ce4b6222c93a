"""What the columns of a network can be together in pieces of changes, for what they cost.

Where costs are added up, a number adds the more the more it costs, and all numbers together must cost less than the
limit. What a column x can be at most for a cost k is bounded by tangents: for any rate r,

    x  <=  h(r) + r k,    h(r) = the largest (x - r k) of all values in the piece.

The least of a few such lines is a concave function of k, made of segments with a length and a rate. How much all
columns add together is then a knapsack of segments, best rate first, which may be filled with parts of them (Sinha and
Zoltners, "The Multiple-Choice Knapsack Problem", Operations Research 1979). Any rates give a bound. The values of a
piece are taken to be all codes between its first and its last one, so that h is a maximum over a range, which is looked
up in a table of the maxima over ranges of 1, 2, 4, ... codes.

Columns that are affine in their number have closed forms in the place of these tables
(:mod:`~ironrule.checker.bounds.column_moves`). At a price that is given the most is exact for every feature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, IntpArray
from ironrule.checker.bounds.bound_propagation import FirstLayer, PieceBlock
from ironrule.checker.bounds.change_bounds import LARGE_COST, RELATIVE_ERROR, TINY_COST, ChangePieces
from ironrule.checker.bounds.column_moves import ListedFeature, Segments
from ironrule.checker.bounds.multiplier_programs import FeaturePoints

RATES = 12  # tangents between the best and the worst rate of a column
SMALLEST_RATE = 1e-100  # with its inverse: no arithmetic with rates between them overflows
MAX_POINTS = 60  # of a feature that is not straight, in a program


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

    def find_heights(self, first: IntpArray, last: IntpArray) -> Float64Array:
        """For ranges of codes, by direction and rate, the largest (x - r k)."""
        first = np.clip(first - self.start, 0, self.largest.shape[3] - 1)
        last = np.clip(last - self.start, first, self.largest.shape[3] - 1)
        level = np.frexp(last - first + 1)[1] - 1
        ends = first, last - (1 << level) + 1
        return np.stack([np.maximum(*(self.largest[side, level, :, end] for end in ends)) for side in range(2)], axis=1)

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
class PieceColumns:
    """What the columns of some pieces can be: a block of their ends, and what a linear function of them is at most.

    ``segments`` has straight columns; ``inside`` which atoms of the others are there. ``bases``, ``lengths`` and
    ``rates`` have for every single column, by the direction in which it is to move, what it adds for nothing and the
    segments by which it adds more; they are empty where costs are not added up. ``own_cells`` are the row's, of groups.
    """

    first: FirstLayer
    block: PieceBlock
    changes: ChangePieces
    segments: dict[int, Segments]
    errors: Float64Array  # per single column
    listed: dict[int, tuple[ListedFeature, BoolArray]]
    bases: list[Float64Array]
    lengths: list[Float64Array]
    rates: list[Float64Array]
    own_cells: list[int]

    def find_most(self, factors: Float64Array) -> Float64Array:
        """For every piece and row of its factors the most that factors times what all features add can be."""
        slopes = factors @ self.first.single.weights.T
        ends = np.maximum(slopes * self.block.low[:, None], slopes * self.block.high[:, None])
        off = np.abs(slopes) @ self.errors + RELATIVE_ERROR * np.abs(ends).sum(axis=2)
        adds = [
            np.where(flags[:, None], factors @ group.vectors.T, -np.inf)
            for flags, group in zip(self.block.present_cells, self.first.groups, strict=True)
        ]
        tops = [some.max(axis=2) for some in adds]
        off += RELATIVE_ERROR * sum((np.abs(top) for top in tops), np.zeros(off.shape))
        most = ends.sum(axis=2) + sum(tops, np.zeros(off.shape))
        if self.bases:
            most = np.fmin(most, self._fill_knapsacks(factors, slopes, tops))
        return np.asarray(most + off)

    def _fill_knapsacks(self, factors: Float64Array, slopes: Float64Array, tops: list[Float64Array]) -> Float64Array:
        pieces, rows = slopes.shape[:2]
        total, lengths, rates = np.zeros((pieces, rows)), list[Float64Array](), list[Float64Array]()
        for place in range(slopes.shape[2]):
            size, falls = np.abs(slopes[:, :, place]), (slopes[:, :, place] < 0)[:, :, None]
            base = np.where(falls[:, :, 0], self.bases[place][:, 1, None], self.bases[place][:, 0, None])
            total += size * base + RELATIVE_ERROR * size * np.abs(base)
            own = self.lengths[place]
            lengths.append(np.where(falls, own[:, None, 1], own[:, None, 0]))
            rates.append(size[:, :, None] * np.where(falls, self.rates[place][1], self.rates[place][0]))
        for group, top, cell in zip(self.first.groups, tops, self.own_cells, strict=True):
            own_adds = factors @ group.vectors[cell]
            free = self.changes.undecided[:, group.feature, None]
            total += np.where(free, own_adds, top)
            cost = np.clip(self.changes.costs[:, group.feature], TINY_COST, LARGE_COST)[:, None, None]
            lengths.append(np.broadcast_to(cost, (pieces, rows, 1)))
            rates.append(np.where(free, np.maximum(top - own_adds, 0.0), 0.0)[:, :, None] / cost)
        flat = [np.concatenate(some, axis=2).reshape(pieces * rows, -1) for some in (lengths, rates)]
        budget = _widen(np.full(pieces * rows, self.changes.limit))
        filled = fill_knapsack(flat[0], flat[1], budget).reshape(pieces, rows)
        return np.asarray(total + filled * (1.0 + RELATIVE_ERROR))

    def find_most_at(self, factors: Float64Array, prices: Float64Array) -> Float64Array:
        """For every piece the same of its one row of factors, less a price times what is paid below the limit."""
        slopes = factors @ self.first.single.weights.T
        paid = prices * self.changes.limit if np.isfinite(self.changes.limit) else np.zeros(len(prices))
        total, sizes = paid, np.abs(paid)
        for place, feature in enumerate(self.first.single.features):
            if place in self.segments:
                own = self.segments[place].find_most(slopes[:, place, None], prices[:, None])[:, 0]
                total = total + np.abs(slopes[:, place]) * self.errors[place]
            else:
                listed, inside = self.listed[feature]
                own = listed.find_most(inside, slopes[:, place, None], prices)
            total, sizes = total + own, sizes + np.abs(own)
        for group in self.first.groups:
            listed, inside = self.listed[group.feature]
            own = listed.find_most(inside, factors, prices)
            total, sizes = total + own, sizes + np.abs(own)
        return np.asarray(total + 4.0 * RELATIVE_ERROR * sizes)

    def select(self, rows: IntpArray) -> PieceColumns:
        """Some of the pieces."""
        return replace(
            self,
            block=self.block.select(rows),
            changes=self.changes.select(rows),
            segments={place: one.select(rows) for place, one in self.segments.items()},
            listed={j: (one, inside[rows]) for j, (one, inside) in self.listed.items()},
            bases=[one[rows] for one in self.bases],
            lengths=[one[rows] for one in self.lengths],
        )

    def list_points(self, row: int) -> tuple[list[FeaturePoints], list[IntpArray]]:
        """For every feature that the network sees what it may add to the first sums in a piece, point by point, and
        which atoms the points are, where they are atoms.
        """
        found, atoms = list[FeaturePoints](), list[IntpArray]()
        for place, feature in enumerate(self.first.single.features):
            weights = self.first.single.weights[place]
            if place in self.segments:
                columns, costs = np.array(self.segments[place].list_points(row)).reshape(-1, 2).T
                found.append(FeaturePoints(columns[:, None] * weights, costs))
                atoms.append(np.empty(0, dtype=np.intp))
                continue
            some, points = self._list_atoms(feature, row)
            found.append(FeaturePoints(points.vectors * weights, points.costs))
            atoms.append(some)
        for group in self.first.groups:
            some, points = self._list_atoms(group.feature, row)
            found.append(points)
            atoms.append(some)
        return found, atoms

    def _list_atoms(self, feature: int, row: int) -> tuple[IntpArray, FeaturePoints]:
        listed, inside = self.listed[feature]
        some = np.flatnonzero(inside[row])
        if len(some) > MAX_POINTS:
            own = some[some == listed.atoms.own]
            some = np.unique(np.append(some[np.linspace(0, len(some) - 1, MAX_POINTS).astype(np.intp)], own))
        places = np.concatenate([listed.places[0][some], listed.places[1][some][listed.atoms.is_gap[some]]])
        twice = np.append(some, some[listed.atoms.is_gap[some]])
        return twice, FeaturePoints(listed.vectors[places], listed.atoms.costs[twice])
