"""Upper bounds of a network's margins over pieces of which only few features may change.

A bound of bound propagation is a linear function of the first layer's sums, to which every feature adds its own part.
What a feature may gain by changing is what it adds at its best beyond what it adds at the row's value
(:mod:`~ironrule.checker.bounds.change_bounds`).

**Lagrangian bounds.** What is claimed of a piece is that no point of it that can be paid has positive margins. In it
some units have a *side*, 1 or -1: their sum times the side is not below zero, so that a relu or a leaky relu is linear
there. For any weights of the margins, any multipliers of the sides and any price of cost, none of them negative,

    weights * margins  +  multipliers * sides * sums  +  price * (limit - cost)

is positive wherever a counterfactual is, but for what rounding takes from the margins. If bound propagation shows that
it is below that in the whole piece, the piece is closed (Wang et al., "Beta-CROWN", NeurIPS 2021, for sides; costs are
treated alike). Multipliers are proposed by :mod:`~ironrule.checker.bounds.multiplier_programs`, one program for each
piece that plain bounds leave open; whatever they are, the bound holds. What columns can be for what they cost is told
by :mod:`~ironrule.checker.bounds.piece_columns`, also for the ends between which the units' sums lie: a limit on
the cost makes them narrower by far than the box does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, Int32Array, IntpArray
from ironrule.checker.bounds.bound_propagation import LinearRelaxation, PieceBlock, RelaxedNetwork
from ironrule.checker.bounds.change_bounds import (
    NO_CUT,
    RELATIVE_ERROR,
    TINY_COST,
    ChangeAnswer,
    ChangePieces,
    bound_knapsack,
    count_loose_parts,
)
from ironrule.checker.bounds.column_moves import ListedFeature, MoveCosts, Segments, StraightColumn
from ironrule.checker.bounds.multiplier_programs import (
    FeaturePoints,
    LayerLines,
    Multipliers,
    propose_multipliers,
)
from ironrule.checker.bounds.network_bounds import AlternativeMargins, NetworkBounds
from ironrule.checker.bounds.piece_columns import ColumnTangents, PieceColumns
from ironrule.checker.readers.network_form import NetworkLayer

BLOCK_PIECES = 64  # bounded together
MAX_PROGRAMS = 4_000  # solved for one claim; then bounds must do without
LEAST_CUT_GAIN = 1e-9
LEAST_SPARE = 0.01  # of what features can gain together: numbers are put no closer than for so much to spare


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
    moves: MoveCosts | None = None
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
        moves: MoveCosts | None,
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
                LayerLines(
                    layer, LinearRelaxation(*(one[row] for one in lines)), _flag_bent(layer, ends, row), own[row]
                )
                for layer, lines, ends, own in zip(
                    network.layers, relaxed.relaxations, relaxed.ends, sides, strict=True
                )
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
        first = self.bounds.network.first
        low, high = columns.changes.low, columns.changes.high
        assert self.moves is not None
        assert low is not None
        assert high is not None
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
        assert changes.low is not None
        assert changes.high is not None
        assert changes.status is not None
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
