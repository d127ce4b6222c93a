"""What the columns of a network can be in a piece of changes, and what that costs: points, segments, prices.

A change moves the columns of a network's first layer. A linear function of what comes in is a sum over features, and so
is the cost (or the largest part counts). So for any price of cost p >= 0 the most that a linear function can be where
the cost is below a limit is no more than

    p * limit  +  the sum, over all features, of the largest (what a value adds - p * what it costs)

(Lagrangian relaxation; Everett, "Generalized Lagrange Multiplier Method", Operations Research 1963). The best price for
one function is found by filling a knapsack with segments: what a column x can be at most for a cost k lies below the
tangents h(r) + r k, with h(r) the largest (x - r k) in the piece.

**Straight columns.** The column of a scaled number is an affine function of the number but for rounding, and so is its
distance on each side of the row's own number. Then a range of numbers, with all that lies between the values of the
domain, is at most two segments and the row's own value, whatever the number of values in it: from the row's number, or
the nearer end of the range, to the farther end, cut where it costs more than the limit. Squared distances are convex:
along a segment the largest (x - p d^2) is at an end or at the vertex of a parabola. Values that are in no atom are let
in, which makes bounds larger and no more. What rounding moves a column away from the segment is added as an error.

All other columns are bounded by the values of their atoms, a gap by its two ends at the cost of the cheaper one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, IntpArray
from ironrule.checker.changes.atoms import CHANGES, FeatureAtoms

CLIP_MARGIN = 1e-9  # of a limit, by which a segment is cut behind it
TOUCHES = np.array([1.0, 1.15, 1.35, 1.6, 2.0, 2.6, 3.5, 5.0, 8.0, 16.0])  # shares at which tangents touch
CHORD_SAMPLES = 6  # of a parabola, where points stand for it


class MoveCosts(NamedTuple):
    """What changes of a row cost, atom by atom and along numbers. ``moved`` has for every feature and ordered code how
    far away it is; a change costs ``each`` and the distance divided by ``unit``, or the distance squared. ``errors``:
    for features whose columns are straight, how far off the line they may be.
    """

    atoms: tuple[FeatureAtoms, ...]
    moved: tuple[Float64Array, ...]
    squared: bool
    each: float
    unit: float
    errors: Mapping[int, float]

    def price(self, distances: Float64Array) -> Float64Array:
        """What changes by these distances cost."""
        return distances**2 if self.squared else self.each + distances / self.unit

    def find_reach(self, limit: float) -> float:
        """How far a change may go at the most that costs less than a limit; negative where none may."""
        if self.squared:
            return float(np.sqrt(limit)) * (1.0 + CLIP_MARGIN)
        return (limit - self.each) * self.unit * (1.0 + CLIP_MARGIN) + CLIP_MARGIN * self.unit * limit


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """What one straight column can be in some pieces: the row's own value, the value for missing, and a segment on
    each side of the row's number, from ``near`` to ``far``, with columns and distances.
    """

    costs: MoveCosts
    own: tuple[BoolArray, float]
    missing: tuple[BoolArray, float, float]
    there: BoolArray  # per piece and side
    columns: Float64Array  # per piece, side, end
    distances: Float64Array

    def find_most(self, slopes: Float64Array, prices: Float64Array) -> Float64Array:
        """Per piece and entry the largest of slope * column - price * cost; minus infinity where there is nothing."""
        best = np.where(self.own[0][:, None], slopes * self.own[1], -np.inf)
        allowed, value, cost = self.missing
        if allowed.any():
            best = np.maximum(best, np.where(allowed[:, None], slopes * value - prices * cost, -np.inf))
        for side in range(2):
            ends = [
                slopes * self.columns[:, side, end, None]
                - prices * self.costs.price(self.distances[:, side, end, None])
                for end in range(2)
            ]
            most = np.maximum(*ends)
            if self.costs.squared:
                most = np.maximum(most, self._find_vertex(side, slopes, prices))
            best = np.maximum(best, np.where(self.there[:, side, None], most, -np.inf))
        return np.asarray(best)

    def _find_vertex(self, side: int, slopes: Float64Array, prices: Float64Array) -> Float64Array:
        (near_x, far_x), (near, far) = (
            (one[:, side, 0, None], one[:, side, 1, None]) for one in (self.columns, self.distances)
        )
        width = np.where(far > near, far - near, 1.0)
        rate = np.where(far > near, (far_x - near_x) / width, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.nan_to_num(slopes * rate / (2.0 * prices), nan=0.0)
        at = np.clip(at, near, far)
        return np.asarray(slopes * (near_x + rate * (at - near)) - prices * at**2)

    def select(self, rows: IntpArray) -> Segments:
        """Some of the pieces."""
        own, missing = (self.own[0][rows], self.own[1]), (self.missing[0][rows], *self.missing[1:])
        return Segments(
            self.costs,
            own=own,
            missing=missing,
            there=self.there[rows],
            columns=self.columns[rows],
            distances=self.distances[rows],
        )

    def find_ends(self) -> tuple[Float64Array, Float64Array]:
        """The smallest and the largest column."""
        one, nothing = np.ones((len(self.there), 1)), np.zeros((len(self.there), 1))
        return -self.find_most(-one, nothing)[:, 0], self.find_most(one, nothing)[:, 0]

    def list_points(self, row: int) -> list[tuple[float, float]]:
        """Columns and costs of points of a piece, of which all others are nearly mixtures."""
        found = [(self.own[1], 0.0)] if self.own[0][row] else []
        if self.missing[0][row]:
            found.append((self.missing[1], self.missing[2]))
        for side in np.flatnonzero(self.there[row]).tolist():
            shares = np.linspace(0.0, 1.0, CHORD_SAMPLES if self.costs.squared else 2)
            columns, distances = (
                one[row, side, 0] + shares * (one[row, side, 1] - one[row, side, 0])
                for one in (self.columns, self.distances)
            )
            found += zip(columns.tolist(), self.costs.price(distances).tolist(), strict=True)
        return found

    def measure_cost(self, row: int, column: float) -> float:
        """What a column costs on the segments of a piece; 0 at the row's own."""
        if self.own[0][row] and abs(column - self.own[1]) <= 1e-9 * (1.0 + abs(column)):
            return 0.0
        found = []
        for side in np.flatnonzero(self.there[row]).tolist():
            ends, away = self.columns[row, side], self.distances[row, side]
            share = (column - ends[0]) / (ends[1] - ends[0]) if ends[1] != ends[0] else 0.0
            if -1e-6 <= share <= 1.0 + 1e-6:
                found.append(float(self.costs.price(away[0] + share * (away[1] - away[0]))))
        return min(found, default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class StraightColumn:
    """One column that is affine in its feature's number, as changes of the row see it."""

    feature: int
    values: Float64Array  # per code
    moved: Float64Array  # per ordered code
    atoms: FeatureAtoms
    costs: MoveCosts
    error: float

    @classmethod
    def build(cls, feature: int, values: Float64Array, costs: MoveCosts) -> StraightColumn | None:
        """The column; None where it is not straight, or its distances are not."""
        if feature not in costs.errors:
            return None
        column = cls(feature, values, costs.moved[feature], costs.atoms[feature], costs, error=costs.errors[feature])
        return column if column._is_straight() else None

    def _is_straight(self) -> bool:
        """Whether all values lie where the segments say, by side."""
        own, count = self.atoms.own_code, len(self.moved)
        sides = [np.arange(count)] if own >= count else [np.arange(own, count), np.arange(own, -1, -1)]
        for side in sides:
            known = side[np.isfinite(self.moved[side])]
            if len(known) < 2:
                continue
            columns, away = self.values[known], self.moved[known]
            steps = np.diff(columns)
            if not ((steps > 0).all() or (steps < 0).all()):
                return False
            if away[-1] == away[0]:
                if own < count or (away != away[0]).any():
                    return False
                continue
            line = columns[0] + (columns[-1] - columns[0]) * ((away - away[0]) / (away[-1] - away[0]))
            if not (np.abs(line - columns) <= self.error).all():
                return False
        return True

    def list_rates(self, limit: float) -> Float64Array:
        """Rates, falling to 0, at which tangents touch what the column can be for what it costs."""
        own, count, found = self.atoms.own_code, len(self.moved), list[float]()
        sides = [np.arange(count)] if own >= count else [np.arange(own, count), np.arange(own + 1)]
        for side in sides:
            known = side[np.isfinite(self.moved[side])]
            reach, away = np.ptp(self.values[known]), float(self.moved[known].max())
            if len(known) < 2 or not reach > 0 or not away > 0:
                continue
            top = min(max(self.costs.find_reach(limit), 1e-9 * away), away)
            if own >= count:
                apart = float(np.abs(self.values[known] - self.values[own]).max())
                found += (max(apart, 1e-9 * reach) / float(self.costs.price(np.array(away))) / TOUCHES).tolist()
            elif self.costs.squared:
                found += (reach / away / (2.0 * top) * TOUCHES).tolist()
            elif self.costs.each > 0.0:
                found += (reach / away * top / float(self.costs.price(np.array(top))) * TOUCHES).tolist()
                found += (reach / away * top / float(self.costs.price(np.array(top))) / TOUCHES).tolist()
            else:
                found.append(reach / away * self.costs.unit)
        rates = np.unique(np.array(found or [1.0]))[::-1]
        return np.array([8.0 * rates[0], *rates, 0.5 * rates[-1], 0.0])

    def build_segments(self, low: IntpArray, high: IntpArray, status: IntpArray, limit: float) -> Segments:
        """What the column can be in pieces with these ranges of atoms, for less than a limit."""
        atoms, count, own = self.atoms, len(self.moved), self.atoms.own_code
        ordered = int(np.count_nonzero(atoms.begins < count))
        begins = np.where(atoms.is_gap, atoms.begins, atoms.cheapest)
        ends = np.where(atoms.is_gap, atoms.begins + 1, atoms.cheapest)
        begins[atoms.own] = ends[atoms.own] = own
        first, last = np.minimum(low, ordered - 1), np.minimum(high, ordered - 1)
        numbers = low < ordered
        changes = status == CHANGES
        own_inside = (low <= atoms.own) & (atoms.own <= high) & ~changes
        missing_cost, missing_inside, missing = 0.0, np.zeros(len(low), dtype=np.bool_), 0.0
        if ordered < len(atoms) and atoms.own != ordered:
            missing_inside, missing_cost = high >= ordered, float(atoms.costs[ordered])
            missing = float(self.values[atoms.begins[ordered]])
        there = np.zeros((len(low), 2), dtype=np.bool_)
        codes = np.zeros((len(low), 2, 2), dtype=np.intp)
        if own >= count:  # all numbers cost the same
            there[:, 0] = numbers
            codes[:, 0] = np.stack([begins[first], ends[last]], axis=1)
        else:
            there = np.stack([numbers & (last > atoms.own), numbers & (first < atoms.own)], axis=1)
            codes[:, 0] = np.stack([np.where(first > atoms.own, begins[first], own), ends[last]], axis=1)
            codes[:, 1] = np.stack([np.where(last < atoms.own, ends[last], own), begins[first]], axis=1)
            codes[~there] = own
        columns, distances = self.values[codes], self.moved[codes]
        if np.isfinite(limit):
            top = self.costs.find_reach(limit)
            near, far = distances[:, :, 0], distances[:, :, 1]
            there &= near <= top
            cut = there & (far > top)
            share = np.where(cut, (top - near) / np.where(far > near, far - near, 1.0), 1.0)
            columns[:, :, 1] = columns[:, :, 0] + share * (columns[:, :, 1] - columns[:, :, 0])
            distances[:, :, 1] = np.where(cut, top, far)
        return Segments(
            self.costs,
            own=(own_inside, float(self.values[own])),
            missing=(missing_inside, missing, missing_cost),
            there=there,
            columns=columns,
            distances=distances,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ListedFeature:
    """A feature whose columns are no single straight one: what its atoms add, at both ends of a gap."""

    feature: int
    vectors: Float64Array  # per code (or cell), what is added to the first sums
    places: tuple[IntpArray, IntpArray]  # of the vectors of every atom's ends
    atoms: FeatureAtoms

    @classmethod
    def build(cls, feature: int, cells: IntpArray, vectors: Float64Array, atoms: FeatureAtoms) -> ListedFeature:
        """``cells`` says of every code which vector it adds."""
        first = np.where(atoms.is_gap, atoms.begins, atoms.cheapest)
        second = np.where(atoms.is_gap, atoms.begins + 1, atoms.cheapest)
        first[atoms.own] = second[atoms.own] = atoms.own_code
        return cls(feature, vectors, (cells[first], cells[second]), atoms)

    def flag_inside(self, low: IntpArray, high: IntpArray, status: IntpArray) -> BoolArray:
        """Which atoms are in pieces."""
        places, own = np.arange(len(self.atoms)), self.atoms.own
        inside = (places >= low[:, None]) & (places <= high[:, None])
        inside[status == CHANGES, own] = False
        return np.asarray(inside)

    def find_most(self, inside: BoolArray, factors: Float64Array, prices: Float64Array) -> Float64Array:
        """Per piece the largest of what an atom adds - price * what it costs."""
        adds = factors @ self.vectors.T
        most = np.maximum(adds[:, self.places[0]], adds[:, self.places[1]])
        return np.asarray(np.where(inside, most - prices[:, None] * self.atoms.costs, -np.inf).max(axis=1))
