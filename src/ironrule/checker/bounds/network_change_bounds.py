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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, Int32Array, IntpArray
from ironrule.checker.bounds.bound_propagation import FirstLayer, LinearRelaxation, PieceBlock, RelaxedNetwork
from ironrule.checker.bounds.change_bounds import (
    LARGE_COST,
    NO_CUT,
    RELATIVE_ERROR,
    TINY_COST,
    ChangeAnswer,
    ChangePieces,
    bound_knapsack,
    count_loose_parts,
)
from ironrule.checker.bounds.column_moves import ChangeCosts, ListedFeature, Segments, StraightColumn
from ironrule.checker.bounds.multiplier_programs import (
    FeaturePoints,
    LayerLines,
    Multipliers,
    propose_multipliers,
)
from ironrule.checker.bounds.network_bounds import AlternativeMargins, NetworkBounds
from ironrule.checker.readers.network_form import NetworkLayer

RATES = 12  # tangents between the best and the worst rate of a column
SMALLEST_RATE = 1e-100  # with its inverse: no arithmetic with rates between them overflows
BLOCK_PIECES = 64  # bounded together
MAX_PROGRAMS = 4_000  # solved for one claim; then bounds must do without
MAX_POINTS = 60  # of a feature that is not straight, in a program
LEAST_CUT_GAIN = 1e-9
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

    def find_heights(self, first: IntpArray, last: IntpArray) -> Float64Array:
        """For ranges of codes, by direction and rate, the largest (x - r k)."""
        first = np.clip(first - self.start, 0, self.largest.shape[3] - 1)
        last = np.clip(last - self.start, first, self.largest.shape[3] - 1)
        level = np.frexp(last - first + 1)[1] - 1
        ends = first, last - (1 << level) + 1
        return np.stack(
            [np.maximum(*(self.largest[side, level, :, end] for end in ends)) for side in range(2)], axis=1
        )

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


@dataclass(frozen=True, slots=True, eq=False)
class NetworkChangeBounds:
    """A network as changes of one row see it. ``code_costs``: what every code of a feature, or a number in a gap beside
    it, costs at least; ``costs``: what the code itself does. ``tangents`` are kept for every limit; ``programs``
    were solved.
    """

    bounds: NetworkBounds
    own: Int32Array
    code_costs: tuple[Float64Array, ...]
    costs: tuple[Float64Array, ...]
    moves: ChangeCosts | None = None
    tangents: dict[float, dict[int, ColumnTangents]] = field(default_factory=dict)
    straight: dict[int, StraightColumn] = field(default_factory=dict)
    listed: dict[int, ListedFeature] = field(default_factory=dict)
    programs: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def build(
        cls,
        bounds: NetworkBounds,
        own: Int32Array,
        code_costs: Sequence[Float64Array],
        costs: Sequence[Float64Array],
        moves: ChangeCosts | None,
    ) -> NetworkChangeBounds:
        """Sort columns by whether they are straight; without ``moves`` none is, and nothing is asked of programs."""
        found = cls(bounds, own, tuple(code_costs), tuple(costs), moves)
        first = bounds.network.first
        if moves is None:
            return found
        for place, (feature, values) in enumerate(zip(first.single.features, first.single.values, strict=True)):
            column = StraightColumn.build(feature, values, moves)
            if column is not None:
                found.straight[place] = column
            else:
                cells = np.arange(len(values))
                found.listed[feature] = ListedFeature.build(feature, cells, values[:, None], moves.atoms[feature])
        for group in first.groups:
            atoms = moves.atoms[group.feature]
            found.listed[group.feature] = ListedFeature.build(group.feature, group.cells, group.vectors, atoms)
        return found

    @property
    def unit_count(self) -> int:
        """How many units may be given a side."""
        return sum(len(layer.bias) for layer in self.bounds.network.layers) if self.moves is not None else 0

    def flag_closed(self, changes: ChangePieces) -> ChangeAnswer:
        """See :class:`ChangeBounds`."""
        network = self.bounds.network
        answer = ChangeAnswer.build(changes)
        if not len(changes):
            return answer
        prepared = network.first.prepare_pieces(changes.pieces)
        with np.errstate(over="ignore", invalid="ignore"):
            for some in (slice(start, start + BLOCK_PIECES) for start in range(0, len(changes), BLOCK_PIECES)):
                self._flag_block(changes.select(some), prepared.build_block(some), answer, some)
        return answer

    def _flag_block(self, changes: ChangePieces, block: PieceBlock, answer: ChangeAnswer, some: slice) -> None:
        network, columns = self.bounds.network, self._build_columns(changes, block)
        sides = self._split_sides(changes)
        relaxed = RelaxedNetwork.build(network, columns.block, columns.find_most, sides)
        empty = np.any([(low > high).any(axis=1) for low, high in relaxed.ends], axis=0)
        for segments in columns.segments.values():
            empty |= ~(segments.own[0] | segments.missing[0] | segments.there.any(axis=1))
        closed = np.ones(len(changes), dtype=np.bool_)
        for margins in self.bounds.alternatives:
            here = empty | self._close_directly(relaxed, margins, changes, answer.gains[some])
            if self.moves is not None:
                rows = np.flatnonzero(~here)
                here[rows] = self._close_by_programs(rows, relaxed, columns, margins, (sides, answer, some))
            closed &= here
        answer.closed[some] = closed

    def _close_directly(
        self, relaxed: RelaxedNetwork, margins: AlternativeMargins, changes: ChangePieces, spreads: Float64Array
    ) -> BoolArray:
        """Which pieces the bounds of single margins close; ``spreads`` gets what features may move them by."""
        network, here = self.bounds.network, np.zeros(len(changes), dtype=np.bool_)
        in_blocks = replace(relaxed, find_most=None).trace_bounds(margins.factors)
        by_costs = relaxed.trace_bounds(margins.factors).bounds
        for place, (offset, slack) in enumerate(zip(margins.offsets, margins.slack, strict=True)):
            own_gains, spread, sizes = self._measure_gains(relaxed, in_blocks.first[:, place], changes)
            rounding = network.rounding * abs(offset)
            bound = in_blocks.bounds[:, place] + offset + rounding
            sizes = RELATIVE_ERROR * (sizes + np.abs(bound) + abs(offset))
            most = bound - own_gains.sum(axis=1) + bound_knapsack(own_gains, changes.costs, changes.left) + sizes
            for top in (bound, most, by_costs[:, place] + offset + rounding):
                here |= np.where(np.isfinite(top) & np.isfinite(bound), top <= -slack, False)
            spreads[:] = np.maximum(spreads, np.where(np.isfinite(spread), spread, 0.0))
        return here

    def _close_by_programs(
        self,
        rows: IntpArray,
        relaxed: RelaxedNetwork,
        columns: PieceColumns,
        margins: AlternativeMargins,
        rest: tuple[list[Float64Array], ChangeAnswer, slice],
    ) -> BoolArray:
        """Which pieces are closed at the multipliers that a program proposes for each; of others, where to cut."""
        sides, answer, some = rest
        network, limit = self.bounds.network, columns.changes.limit
        closed, known = np.zeros(len(rows), dtype=np.bool_), list[tuple[int, Multipliers]]()
        points = list[tuple[list[FeaturePoints], list[IntpArray]]]()
        for place, row in enumerate(rows.tolist()):
            if self.programs[0] >= MAX_PROGRAMS:
                break
            self.programs[0] += 1
            features, atoms = columns.list_points(row)
            layers = [
                LayerLines(layer, LinearRelaxation(*(one[row] for one in lines)), _flag_bent(layer, ends, row), own[row])
                for layer, lines, ends, own in zip(network.layers, relaxed.relaxations, relaxed.ends, sides, strict=True)
            ]
            found = propose_multipliers(features, layers, margins.factors, margins.offsets, limit)
            if found is not None:
                known.append((place, found))
                points.append((features, atoms))
        if not known:
            return closed
        places = np.array([place for place, _ in known])
        bound, needed = self.bound_at_multipliers([one for _, one in known], rows[places], relaxed, columns, margins)
        closed[places] = np.where(np.isfinite(bound), bound < -needed, False)
        for (place, found), (features, atoms) in zip(known, points, strict=True):
            if not closed[place]:
                row = int(rows[place])
                cut = self._choose_cut(row, found, features, atoms, columns)
                answer.cuts[some.start + row] = cut
        return closed

    def bound_at_multipliers(
        self,
        multipliers: Sequence[Multipliers],
        rows: IntpArray,
        relaxed: RelaxedNetwork,
        columns: PieceColumns,
        margins: AlternativeMargins,
    ) -> tuple[Float64Array, Float64Array]:
        """For pieces with multipliers of their own an upper bound of the margins and sides times these, and of what is
        left of the limit times the price; and what rounding may take from the margins. All that is not negative proves:
        where the bound is below what rounding takes, no point of the piece that can be paid has positive margins.
        """
        network, part = self.bounds.network, relaxed.select(rows)
        weights = np.maximum(np.array([one.margins for one in multipliers]), 0.0)
        prices = np.maximum(np.array([one.price for one in multipliers]), 0.0)
        signs = [own[rows] for own in self._split_sides(columns.changes)]
        added = [
            own * np.maximum(own * np.array([one.sides[place] for one in multipliers]), 0.0)
            for place, own in enumerate(signs)
        ]
        relaxations = list[LinearRelaxation]()
        for place, (layer, lines) in enumerate(zip(network.layers, part.relaxations, strict=True)):
            if layer.activation.kind in ("relu", "leaky"):
                least = layer.activation.slope if layer.activation.kind == "leaky" else 0.0
                low, high = part.ends[place]
                slopes = np.clip(np.array([one.lower_slopes[place] for one in multipliers]), least, 1.0)
                free = (low < 0.0) & (high > 0.0)
                lines = lines._replace(lower_slope=np.where(free, slopes, lines.lower_slope))
            relaxations.append(lines)
        wanted = (weights @ margins.factors)[:, None]
        own = columns.select(rows)
        least_bound = np.full(len(rows), np.inf)
        for find_most in (lambda factors: own.find_most_at(factors[:, 0], prices)[:, None], own.find_most):
            one = RelaxedNetwork(network, own.block, relaxations, part.ends, find_most)
            traced = one.trace_bounds(wanted, added).bounds[:, 0]
            least_bound = np.fmin(least_bound, traced)
        offsets = weights @ margins.offsets
        sizes = weights @ np.abs(margins.offsets)
        bound = least_bound + offsets + 2.0 * (network.rounding + RELATIVE_ERROR) * (sizes + np.abs(least_bound))
        return bound, weights @ margins.slack

    def _choose_cut(
        self,
        row: int,
        found: Multipliers,
        features: list[FeaturePoints],
        atoms: list[IntpArray],
        columns: PieceColumns,
    ) -> tuple[int, int, int]:
        """Which unit to give a side, or at which atom to cut which feature: where the program is furthest from true."""
        first, status = self.bounds.network.first, columns.changes.status
        low, high = columns.changes.low, columns.changes.high
        assert self.moves is not None and status is not None and low is not None and high is not None
        best, cut = LEAST_CUT_GAIN, NO_CUT
        unit = int(found.unit_gains.argmax())
        if found.unit_gains[unit] > best:
            best, cut = float(found.unit_gains[unit]), (unit, -1, -1)
        names = [*first.single.features, *(group.feature for group in first.groups)]
        for place, feature in enumerate(names):
            shares, costs, own = found.shares[place], features[place].costs, self.moves.atoms[feature].own
            if low[row, feature] == high[row, feature]:
                continue
            if place in columns.segments:
                gain, at = self._judge_column(row, place, shares, found.price, columns)
            else:
                used = np.flatnonzero((shares > 1e-6) & (atoms[place] != own))
                mean = shares @ features[place].vectors
                gain = float(shares @ np.abs(features[place].vectors - mean).sum(axis=1)) * 0.1 + found.price * float(
                    shares @ np.abs(costs - shares @ costs)
                )
                if not len(used) or shares.max() > 1.0 - 1e-6:
                    continue
                most = int(atoms[place][used[shares[used].argmax()]])
                at = most - 1 if most > own else most
            at = min(max(at, int(low[row, feature])), int(high[row, feature]) - 1)
            if gain > best:
                best, cut = gain, (-1, feature, at)
        return cut

    def _judge_column(
        self, row: int, place: int, shares: Float64Array, price: float, columns: PieceColumns
    ) -> tuple[float, int]:
        """What a straight column costs more than a program pays for it, and after which atom to cut it."""
        segments, column = columns.segments[place], self.straight[place]
        points = np.array(segments.list_points(row))
        at, paid = (float(shares @ one) for one in points.T)
        gain = price * (segments.measure_cost(row, at) - paid)
        atoms, own = column.atoms, column.atoms.own
        ordered = int(np.count_nonzero(atoms.begins < len(column.moved)))
        if segments.missing[0][row] and shares[int(segments.own[0][row])] > 1e-6:
            return gain + float(shares[int(segments.own[0][row])]), ordered - 1
        if own >= ordered:
            return gain, -1
        codes = np.where(atoms.is_gap, atoms.begins, atoms.cheapest)[:ordered]
        codes[own] = atoms.own_code
        starts = column.values[codes]
        sign = 1.0 if starts[-1] >= starts[0] else -1.0
        where = max(int(np.searchsorted(sign * starts, sign * at + 1e-12, side="right")) - 1, 0)
        if not atoms.is_gap[where] and where != own and where + 1 < ordered:
            apart = abs(starts[where + 1] - starts[where])
            off = min(abs(at - starts[where]), abs(starts[where + 1] - at))
            if not atoms.is_gap[where + 1] and off > 1e-6 * max(apart, 1e-300):  # between single values
                steps = np.abs(np.diff(column.costs.price(column.moved[[*codes[where : where + 2]]])))
                return gain + 0.5 * price * float(steps[0]) * off / apart, where
        up = points[:, 0][shares > 1e-6] * sign > sign * column.values[atoms.own_code] + 1e-12
        down = points[:, 0][shares > 1e-6] * sign < sign * column.values[atoms.own_code] - 1e-12
        if segments.costs.squared and not (up.any() and down.any()):
            return gain, where
        return gain, own if up.any() else own - 1

    def _split_sides(self, changes: ChangePieces) -> list[Float64Array]:
        """The sides of units, layer by layer; none of s-shaped ones."""
        found, start = list[Float64Array](), 0
        for layer in self.bounds.network.layers:
            count = len(layer.bias)
            own = np.zeros((len(changes), count))
            if changes.sides is not None and changes.sides.shape[1] and layer.activation.kind in ("relu", "leaky"):
                own = changes.sides[:, start : start + count].astype(np.float64)
            found.append(own)
            start += count
        return found

    def _build_columns(self, changes: ChangePieces, block: PieceBlock) -> PieceColumns:
        first = self.bounds.network.first
        segments, inside = dict[int, Segments](), dict[int, tuple[ListedFeature, BoolArray]]()
        low, high, errors = block.low.copy(), block.high.copy(), np.zeros(len(first.single.features))
        for place, column in self.straight.items():
            ranges = self._get_ranges(changes, column.feature)
            own = segments[place] = column.build_segments(*ranges, limit=changes.top)
            ends = own.find_ends()
            low[:, place], high[:, place] = ends[0] - column.error, ends[1] + column.error
            errors[place] = column.error
        for feature, listed in self.listed.items():
            inside[feature] = listed, listed.flag_inside(*self._get_ranges(changes, feature))
        bases, lengths, rates = list[Float64Array](), list[Float64Array](), list[Float64Array]()
        for place in range(len(first.single.features)) if np.isfinite(changes.limit) else ():
            heights, own_rates = self._find_heights(place, changes, segments.get(place))
            meets = np.diff(heights, axis=2) / (own_rates[:, :-1] - own_rates[:, 1:])
            meets = np.maximum.accumulate(np.maximum(np.nan_to_num(meets, nan=0.0), 0.0), axis=2)
            bases.append(heights[:, :, 0])
            lengths.append(np.diff(meets, axis=2, prepend=0.0))
            rates.append(own_rates[:, :-1])
        cells = [int(group.cells[self.own[group.feature]]) for group in first.groups]
        block = PieceBlock(low, high, block.present_cells)
        return PieceColumns(
            first,
            block,
            changes,
            segments=segments,
            errors=errors,
            listed=inside,
            bases=bases,
            lengths=lengths,
            rates=rates,
            own_cells=cells,
        )

    def _get_ranges(self, changes: ChangePieces, feature: int) -> tuple[IntpArray, IntpArray, IntpArray]:
        assert changes.low is not None and changes.high is not None and changes.status is not None
        return changes.low[:, feature], changes.high[:, feature], changes.status[:, feature]

    def _find_heights(
        self, place: int, changes: ChangePieces, segments: Segments | None
    ) -> tuple[Float64Array, Float64Array]:
        """By direction and rate the most that a column is beyond the rate times what it costs; and the rates."""
        if segments is not None:
            rates = self.straight[place].list_rates(changes.limit)
            ones = np.ones((len(changes), len(rates)))
            most = [segments.find_most(sign * ones, ones * rates) for sign in (1.0, -1.0)]
            return np.stack(most, axis=1), np.stack([rates, rates])
        tangents = self._get_tangents(place, changes.limit)
        feature = self.bounds.network.first.single.features[place]
        sets, rows = changes.pieces.sets[feature], changes.pieces.rows[:, feature]
        first, last = sets.argmax(axis=1), sets.shape[1] - 1 - sets[:, ::-1].argmax(axis=1)
        return tangents.find_heights(first[rows], last[rows]), tangents.rates

    def _get_tangents(self, place: int, limit: float) -> ColumnTangents:
        known = self.tangents.setdefault(limit, {})
        if place not in known:
            single = self.bounds.network.first.single
            j, values = single.features[place], single.values[place]
            known[place] = ColumnTangents.build(values, self.code_costs[j], values[self.own[j]], limit)
        return known[place]

    def count_parts(self, changes: ChangePieces, limit: float) -> list[Float64Array]:
        """See :class:`ChangeBounds`. Straight columns need no numbers between their values."""
        network, rows = self.bounds.network, changes.pieces.rows
        counts = [np.zeros(one.shape[1]) for one in changes.pieces.sets]
        affordable = [np.where(one < limit, one, np.inf) for one in self.costs]
        columns = list(zip(network.first.single.features, network.first.single.values, strict=True))
        if len(self.straight) == len(columns):
            return counts
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
                        if column in self.straight:
                            continue
                        inside, adds = changes.pieces.sets[j][rows[:, j]], slopes[:, column, None] * values
                        parts = count_loose_parts(
                            adds, inside, price, loose=self.code_costs[j], exact=affordable[j], each=each
                        )
                        counts[j] = np.maximum(counts[j], parts)
        return counts

    def _find_price(self, slopes: Float64Array, changes: ChangePieces) -> Float64Array:
        """For every piece what the limit gains per cost, where columns alone may change."""
        if not np.isfinite(changes.limit):
            return np.zeros(len(changes))
        lengths, rates = list[Float64Array](), list[Float64Array]()
        for place, j in enumerate(self.bounds.network.first.single.features):
            sets, rows = changes.pieces.sets[j], changes.pieces.rows[:, j]
            first, last = sets.argmax(axis=1), sets.shape[1] - 1 - sets[:, ::-1].argmax(axis=1)
            tangents = self._get_tangents(place, changes.limit)
            _, length, rate = tangents.find_segments(first[rows], last[rows], slopes[:, place])
            lengths.append(length)
            rates.append(rate)
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


def _flag_bent(layer: NetworkLayer, ends: tuple[Float64Array, Float64Array], row: int) -> BoolArray:
    """Which units of a layer are no line in a piece."""
    if layer.activation.kind == "identity":
        return np.zeros(len(layer.bias), dtype=np.bool_)
    if layer.activation.is_bounded:
        return np.ones(len(layer.bias), dtype=np.bool_)
    return np.asarray((ends[0][row] < 0.0) & (ends[1][row] > 0.0))
