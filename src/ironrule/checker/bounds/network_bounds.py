"""Upper bounds of a neural network's margins over pieces of a box, for many pieces at once.

The bounds are those of :mod:`~ironrule.checker.bounds.bound_propagation`. A piece is closed if some margin, with all
that the model's own arithmetic may be off, is not above zero anywhere in it.

A piece that is not closed is halved, a few times: its halves have better bounds, and it is closed if all of them are.
The search that wrote a certificate may have rounded otherwise, or used better lines, so that a bound just below zero
there may be just above it here. A piece is halved at the feature that moves the first layer's sums most, in the middle
of its values.

Of a number between two values a network sees one between what it sees of these: its column rises or falls with the
feature, and no other column changes (:func:`~ironrule.checker.intervals.find_network_gaps`). So a linear function of
the first layer's sums is largest at one of the two, and a bound over both holds for all numbers between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array, Int32Array, IntpArray
from ironrule.checker.bounds import bound_propagation
from ironrule.checker.bounds.bound_propagation import FirstLayer, PreparedNetwork, RelaxedNetwork
from ironrule.checker.bounds.pieces import Pieces, PieceTest, halve_pieces
from ironrule.checker.preprocessing import EstimatorColumns
from ironrule.checker.readers import network_form
from ironrule.checker.readers.network_form import NetworkForm, NetworkMargin
from ironrule.checker.readers.normal_form import NoReading, to_float64

MAX_HALVINGS = 8
MAX_SUBPIECES = 1 << 14


def close_by_halving(pieces: Pieces, close: PieceTest, layer: FirstLayer, cells: Sequence[IntpArray]) -> BoolArray:
    """Which pieces are closed, by themselves or part by part."""
    owners, given_up = np.flatnonzero(~close(pieces)), np.zeros(len(pieces), dtype=np.bool_)
    parts = pieces.select(owners)
    for _ in range(MAX_HALVINGS):  # ``parts`` are those still open, ``owners`` the pieces they belong to
        with np.errstate(over="ignore", invalid="ignore"):
            spread = layer.measure_spread(parts)
        given_up[owners[spread.max(axis=1, initial=0.0) == 0.0]] = True  # what is left of it is a single point
        going = np.flatnonzero(~given_up[owners])
        if not 0 < 2 * len(going) <= MAX_SUBPIECES:
            break
        # where sums are spread there are two cells or more, so every part has two halves
        parts = halve_pieces(parts.select(going), spread[going].argmax(axis=1), cells)
        assert len(parts) == 2 * len(going)
        left = np.flatnonzero(~close(parts))
        owners, parts = np.repeat(owners[going], 2)[left], parts.select(left)
    given_up[owners] = True
    return ~given_up


MAX_BLOCK_ENTRIES = 1 << 18  # numbers in one array of a block of pieces
POINTS_PER_BLOCK = 1 << 14


class AlternativeMargins(NamedTuple):
    """The margins of one alternative: factors of the outputs, offsets, and how far each may be off."""

    factors: Float64Array
    offsets: Float64Array
    slack: Float64Array


@dataclass(frozen=True, slots=True, eq=False)
class NetworkBounds:
    """A network prepared for bounds; ``cells``: codes of a feature that no column tells apart are in the same cell."""

    cells: tuple[IntpArray, ...]
    alternatives: tuple[AlternativeMargins, ...]
    form: NetworkForm
    features: IntpArray  # that every column depends on
    values: tuple[Float64Array, ...]  # of every column, per code
    network: PreparedNetwork
    halves_pieces: ClassVar[bool] = True
    reaches_across_gaps: ClassVar[bool] = True

    def flag_closed(self, pieces: Pieces, alternative: int, flag_feasible: PieceTest | None = None) -> BoolArray:
        """Which pieces surely hold no feasible point where all margins of this alternative are positive."""
        limits = self.alternatives[alternative]

        def close_whole(some: Pieces) -> BoolArray:
            closed = np.asarray((self.bound(some.reach_across_gaps(), limits) <= -limits.slack).any(axis=1))
            if flag_feasible is not None:
                left = np.flatnonzero(~closed)
                closed[left] = ~flag_feasible(some.select(left))
            return closed

        return close_by_halving(pieces, close_whole, self.network.first, self.cells)

    def bound(self, pieces: Pieces, margins: AlternativeMargins) -> Float64Array:
        """For every piece and margin an upper bound."""
        prepared, bounds = self.network.first.prepare_pieces(pieces), np.empty((len(pieces), len(margins.offsets)))
        widest = max(len(layer.bias) for layer in self.network.layers)
        rows = max(2 * widest, len(margins.offsets))
        step = max(1, MAX_BLOCK_ENTRIES // (rows * max(widest, self.network.first.max_width)))
        rounding = self.network.rounding * np.abs(margins.offsets)
        with np.errstate(over="ignore", invalid="ignore"):
            for some in (slice(start, start + step) for start in range(0, len(pieces), step)):
                relaxed = RelaxedNetwork.build(self.network, prepared.build_block(some))
                bounds[some] = relaxed.trace_bounds(margins.factors).bounds + margins.offsets + rounding
                _tighten_bounds(bounds[some], relaxed, margins, rounding)
        return np.where(np.isfinite(bounds), bounds, np.inf)

    def decide(self, points: Int32Array) -> tuple[BoolArray, BoolArray]:
        """Which points may be desired, and which surely are."""
        starts = range(0, max(1, len(points)), POINTS_PER_BLOCK)
        parts = [self._decide(points[start : start + POINTS_PER_BLOCK]) for start in starts]
        possible, sure = (np.concatenate(some) for some in zip(*parts, strict=True))
        return possible, sure

    def _decide(self, points: Int32Array) -> tuple[BoolArray, BoolArray]:
        columns = zip(self.features.tolist(), self.values, strict=True)
        rows = np.stack([values[points[:, feature]] for feature, values in columns], axis=1)
        outputs = self.form.compute_outputs(rows)
        possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
        for limits in self.alternatives:
            margins = outputs @ limits.factors.T + limits.offsets
            possible |= ~(margins <= -limits.slack).any(axis=1)
            sure |= (margins > limits.slack).all(axis=1)
        return possible, sure


def _tighten_bounds(
    bounds: Float64Array, relaxed: RelaxedNetwork, margins: AlternativeMargins, rounding: Float64Array
) -> None:
    """Improve the bound of the margin nearest to zero of every piece that is not closed, in place."""
    above = bounds + margins.slack
    nearest = np.where((above > 0.0).all(axis=1), above.argmin(axis=1), -1)
    for margin in range(len(margins.offsets)):
        rows = np.flatnonzero(nearest == margin)
        if len(rows):
            least = bound_propagation.tighten_bound(relaxed.select(rows), margins.factors[margin])
            bounds[rows, margin] = np.fmin(bounds[rows, margin], least + margins.offsets[margin] + rounding[margin])


def prepare_network_bounds(reading: NetworkForm, columns: EstimatorColumns, sizes: Sequence[int]) -> NetworkBounds:
    """Prepare a network; raises NoReading if its columns are not numbers or its arithmetic may overflow."""
    if len(columns) != reading.width:
        raise NoReading(f"the network takes {reading.width} columns, but {len(columns)} reach it")
    values = tuple(to_float64(column.values) for column in columns)
    features, largest = [int(column.feature) for column in columns], network_form.find_largest_sizes(values)
    errors = network_form.bound_arithmetic_errors(reading, largest)
    first = bound_propagation.build_first_layer(features, values, reading.layers[0].weights, len(sizes))
    network = bound_propagation.prepare_network(reading.layers, first, largest)
    limits = [_build_alternative(*both) for both in zip(reading.alternatives, errors, strict=True)]
    seen = [[column.values for column in columns if column.feature == feature] for feature in range(len(sizes))]
    cells = tuple(map(_find_cells, seen, sizes))
    return NetworkBounds(cells, tuple(limits), reading, features=np.array(features), values=values, network=network)


def _build_alternative(margins: tuple[NetworkMargin, ...], slack: tuple[float, ...]) -> AlternativeMargins:
    factors = np.array([margin.coefficients for margin in margins], dtype=np.float64)
    return AlternativeMargins(factors, np.array([margin.offset for margin in margins]), np.array(slack))


def _find_cells(columns: list[AnyArray], size: int) -> IntpArray:
    """The cell of every code of one feature."""
    cells = np.zeros(size, dtype=np.intp)
    for values in columns:  # the cells so far, refined by one more column
        numbers = np.unique(values, return_inverse=True)[1].ravel()
        cells = np.unique(np.stack([cells, numbers], axis=1), axis=0, return_inverse=True)[1].ravel()
    return cells
