"""Bound propagation through a neural network (CROWN): upper bounds of its margins over pieces of a box.

**First layer.** A feature has finitely many codes, so what it adds to the first layer's sums is a vector per code.
Where only one column depends on a feature, that is a multiple of the column's weights, and a linear function of it is
largest at the column's largest or smallest value. Where several columns do, as those of a one-hot group, every distinct
vector is tried. Features add to the sums independently of each other, so the maximum of a linear function over a piece
is exact but for rounding.

**Relaxation.** Every activation is put between two straight lines. Relu and leaky relu are convex: the chord lies
above, and any line through zero with a slope between theirs below zero and 1 lies below; of the two ends the one is
taken that leaves the smaller area. An s-shaped function is convex below zero and concave above. Where it is concave a
tangent lies above it; where it is convex its chord does. Across zero the chord does if it reaches the upper end less
steeply than the function; otherwise a tangent that passes above the lower end does, whose point is found by bisection
and taken from the sound side. Lines below follow by symmetry (Zhang et al., "Efficient Neural Network Robustness
Certification with General Activation Functions", NeurIPS 2018).

**Back-substitution.** A linear function of a layer's outputs is bounded by putting a line in the place of every
activation: the line above it where its factor is positive, and the line below where it is negative. The result is a
linear function of the layer's sums, so of the outputs of the layer before. At the first layer its maximum over a piece
is exact. Lines need to know between which ends a sum lies; these are found in the same way, layer after layer (Zhang et
al. 2018; Singh et al., "An Abstract Domain for Certifying Neural Networks", POPL 2019).

**Tightening.** A bound holds whatever lines are chosen, as long as they lie on their side of the activation. Below a
relu whose sum may have either sign that is any slope from its own below zero to 1; above the concave side of an
s-shaped function any of its tangents, below the convex side too, and any mixture of two such lines. At the point where
a bound is attained a larger slope is better below a positive sum and a smaller one below a negative; and a tangent is
better that touches there. A few such steps are taken for pieces that are not closed (Xu et al., "Fast and Complete:
Enabling Complete Verification with Rapid and Massively Parallel Incomplete Verifiers", ICLR 2021).

**How far a computed line may be off.** Let u be 2**-53, and no sum larger than S in size. The chord of relu or leaky
relu is off by less than 10 u S at both ends, and so in between. For an s-shaped function that is accurate to 64 u:

- a slope at a point is off by 130 u, and a line with that slope through a computed value by (262 S + 65) u;
- a chord's slope is off by 128 u / width + 4 u, and the chord, since the width cancels, by (2 S + 135) u;
- where rounding has decided a comparison of slopes, these differ by no more than what both are off. A function that is
  convex and then concave cannot leave its chord, or the tangent at its end, by more than that times the width: by
  (268 S + 128) u. Where rounding has decided whether a tangent passes an end, it misses it by (8 S + 140) u.

The worst that can come together, a tangent at an end chosen wrongly, is off by less than ``540 u (1 + S)``. Mixing two
numbers of size B is off by 3 u B, so four mixtures of lines, whose slopes are at most 1 and whose values at zero at
most 1 + S, by 12 u S and 12 u (1 + S): by no more than 24 u (1 + S) besides the lines' own.

**Rounding of a whole bound.** Let a be the factors of a layer's outputs, p those of its sums, and S what its sums never
exceed in size. None of these errors grows on the way, since each is measured by the true values of the network that it
is multiplied with:

- lines that are off, mixed or not: 564 u |a| (1 + S) per unit;
- the product of a and the slope: u |p| S;
- p times the weights, n products each: n u |p| (weights times what comes in), which is no more than n u |p| S;
- at the first layer, vectors of c columns added up beforehand and n products, and the product with a column's value:
  (c + n + 1) u |p| S;
- all that is added to the bound, t terms: t u times their sizes, no more than 2 |a| (1 + S) + 2 |p| S per unit.

With t = columns + 2 units + 2, and n and c no more than t, these are together less than

    4 (t + 150) u times the sum of (|a| + |p|) (1 + S) over all units

to first order, with more than enough left for the rest. Products too small for a double are off by 2**-1074 at the
most, which a tiny number added to |a| covers. Where a number is too large, nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, IntpArray
from ironrule.checker.bounds.pieces import Pieces
from ironrule.checker.readers.network_form import ActivationFunction, NetworkLayer

MAX_SET_ENTRIES = 1 << 22
ArrayPair = tuple[Float64Array, Float64Array]


class IndependentColumns(NamedTuple):
    """Columns that add multiples of their weights: the feature of each, its value for every code, and its weights."""

    features: tuple[int, ...]
    values: tuple[Float64Array, ...]
    weights: Float64Array


class ColumnGroup(NamedTuple):
    """A feature that several columns depend on: the cell of every code, and the vector that every cell adds."""

    feature: int
    cells: IntpArray
    vectors: Float64Array


class PieceBlock(NamedTuple):
    """Some pieces: for every single column the ends of its values, for every group which of its cells are present."""

    low: Float64Array
    high: Float64Array
    present_cells: tuple[BoolArray, ...]

    def select(self, rows: IntpArray) -> PieceBlock:
        """Some of the pieces."""
        return PieceBlock(self.low[rows], self.high[rows], tuple(flags[rows] for flags in self.present_cells))


@dataclass(frozen=True, slots=True, eq=False)
class FirstLayer:
    """The first layer's weights, feature by feature."""

    single: IndependentColumns
    groups: tuple[ColumnGroup, ...]

    @property
    def max_width(self) -> int:
        """The most numbers that a linear function has for a piece."""
        return max([len(self.single.features), *(len(group.vectors) for group in self.groups)])

    def prepare_pieces(self, pieces: Pieces) -> PreparedPieces:
        """Look at every distinct set of codes of some pieces once."""
        columns = zip(self.single.features, self.single.values, strict=True)
        ends = tuple(_find_value_ends(pieces.sets[feature], values) for feature, values in columns)
        present = tuple(_flag_present_cells(pieces.sets[group.feature], group) for group in self.groups)
        return PreparedPieces(self, pieces, ends, present)

    def bound_sums(self, block: PieceBlock) -> ArrayPair:
        """The smallest and the largest of what all features add to every sum."""
        rising, falling = np.maximum(self.single.weights, 0.0), np.minimum(self.single.weights, 0.0)
        low = block.low @ rising + block.high @ falling
        high = block.high @ rising + block.low @ falling
        for flags, group in zip(block.present_cells, self.groups, strict=True):
            low += np.where(flags[:, :, None], group.vectors, np.inf).min(axis=1)
            high += np.where(flags[:, :, None], group.vectors, -np.inf).max(axis=1)
        return low, high

    def find_maximum(self, block: PieceBlock, factors: Float64Array) -> Float64Array:
        """For every piece and every row of its factors the maximum of the factors times what all features add."""
        slopes = factors @ self.single.weights.T
        total = np.maximum(slopes * block.low[:, None], slopes * block.high[:, None]).sum(axis=2)
        for flags, group in zip(block.present_cells, self.groups, strict=True):
            total += np.where(flags[:, None], factors @ group.vectors.T, -np.inf).max(axis=2)
        return np.asarray(total)

    def evaluate_at_maximum(self, block: PieceBlock, factors: Float64Array) -> Float64Array:
        """For every piece what all features add to the sums at a point where a row of factors has its maximum."""
        chosen = np.where(factors @ self.single.weights.T >= 0.0, block.high, block.low)
        sums = chosen @ self.single.weights
        for flags, group in zip(block.present_cells, self.groups, strict=True):
            sums = sums + group.vectors[np.where(flags, factors @ group.vectors.T, -np.inf).argmax(axis=1)]
        return np.asarray(sums)

    def measure_spread(self, pieces: Pieces) -> Float64Array:
        """For every piece and feature how far its codes move the first layer's sums; 0 where they all add the same."""
        spread = np.zeros((len(pieces), len(pieces.sets)))
        for feature, values, weights in zip(*self.single, strict=True):
            low, high = _find_value_ends(pieces.sets[feature], values)
            moves = (high - low) * np.abs(weights).sum()
            spread[:, feature] += moves[pieces.rows[:, feature]]
        for feature, cells, vectors in self.groups:
            moves = np.array([np.ptp(vectors[cells[codes]], axis=0).sum() for codes in pieces.sets[feature]])
            spread[:, feature] += moves[pieces.rows[:, feature]]
        return spread


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPieces:
    """Pieces whose distinct sets of codes have been looked at: ends per single column, cells per group."""

    layer: FirstLayer
    pieces: Pieces
    ends: tuple[ArrayPair, ...]
    present_cells: tuple[BoolArray, ...]

    def build_block(self, some: slice) -> PieceBlock:
        """Some of the pieces."""
        rows = self.pieces.rows[some]
        known = list(zip(self.ends, (rows[:, feature] for feature in self.layer.single.features), strict=True))
        sides = (np.array([ends[side][row] for ends, row in known]) for side in (0, 1))
        low, high = (side.reshape(-1, len(rows)).T for side in sides)
        groups = zip(self.present_cells, self.layer.groups, strict=True)
        return PieceBlock(low, high, tuple(flags[rows[:, group.feature]] for flags, group in groups))


def _find_value_ends(sets: BoolArray, values: Float64Array) -> ArrayPair:
    """The smallest and the largest of a column's values in every set of codes."""
    order = np.argsort(values, kind="stable")
    step = max(1, MAX_SET_ENTRIES // len(values))
    parts = [sets[start : start + step][:, order] for start in range(0, len(sets), step)]
    first = np.concatenate([part.argmax(axis=1) for part in parts])
    last = len(values) - 1 - np.concatenate([part[:, ::-1].argmax(axis=1) for part in parts])
    return values[order[first]], values[order[last]]


def _flag_present_cells(sets: BoolArray, group: ColumnGroup) -> BoolArray:
    """Which cells of a group every set of codes has."""
    found = np.zeros((len(sets), len(group.vectors)), dtype=np.bool_)
    for row, codes in enumerate(sets):
        found[row, group.cells[codes]] = True
    return found


def build_first_layer(
    features: Sequence[int], values: Sequence[Float64Array], weights: Float64Array, feature_count: int
) -> FirstLayer:
    """Sort columns by whether they alone depend on their feature."""
    changing = [k for k in range(len(features)) if np.ptp(values[k]) > 0]
    by_feature = [[k for k in changing if features[k] == feature] for feature in range(feature_count)]
    several = {feature: own for feature, own in enumerate(by_feature) if len(own) > 1}
    alone = [k for k, feature in enumerate(features) if k not in several.get(feature, ())]
    single = IndependentColumns(tuple(int(features[k]) for k in alone), tuple(values[k] for k in alone), weights[alone])
    groups = []
    for feature, own in several.items():
        distinct, cells = np.unique(np.stack([values[k] for k in own], axis=1), axis=0, return_inverse=True)
        groups.append(ColumnGroup(feature, cells.ravel(), distinct @ weights[own]))
    return FirstLayer(single, tuple(groups))


MIN_WIDTH = 1e-6  # intervals on which a rising function is bounded by its values at the ends
BISECTIONS = 12


class LinearRelaxation(NamedTuple):
    """For every unit the line below its activation and the line above it: slopes, and values at zero."""

    lower_slope: Float64Array
    lower_intercept: Float64Array
    upper_slope: Float64Array
    upper_intercept: Float64Array


def relax_activation(activation: ActivationFunction, low: Float64Array, high: Float64Array) -> LinearRelaxation:
    """The lines of one activation on intervals."""
    match activation.kind:
        case "identity":
            return LinearRelaxation(np.ones_like(low), np.zeros_like(low), np.ones_like(low), np.zeros_like(low))
        case "relu" | "leaky":
            return _relax_piecewise_linear(activation.slope if activation.kind == "leaky" else 0.0, low, high)
        case "tanh" | "logistic":
            # f(-z) = 2 f(0) - f(z): a line below is a line above, of the interval mirrored at zero, mirrored back
            twice = 0.0 if activation.kind == "tanh" else 1.0
            below, mirrored_at = _find_upper_line(activation, -high, -low)
            return LinearRelaxation(below, twice - mirrored_at, *_find_upper_line(activation, low, high))


def _relax_piecewise_linear(slope: float, low: Float64Array, high: Float64Array) -> LinearRelaxation:
    across = (low < 0.0) & (high > 0.0)
    chord = np.where(across, (high - slope * low) / np.where(across, high - low, 1.0), np.where(low < 0.0, slope, 1.0))
    below = np.where(high > -low, 1.0, slope)
    return LinearRelaxation(below, np.zeros_like(low), chord, np.where(across, high - chord * high, 0.0))


def _find_upper_line(activation: ActivationFunction, low: Float64Array, high: Float64Array) -> ArrayPair:
    """A line above: through a point of the function, its anchor, with the slope of a tangent or of the chord."""
    narrow = high - low < MIN_WIDTH
    chord = (activation.apply(high) - activation.apply(low)) / np.where(narrow, 1.0, high - low)
    across = (low < 0.0) & (high > 0.0) & (compute_slope(activation, high) < chord)
    point = 0.5 * (low + high)
    point[across] = _find_tangent_point(activation, low[across], high[across])
    tangent = (low >= 0.0) | across
    slope = np.where(tangent, compute_slope(activation, point), chord)
    anchor = np.where(tangent, point, low)
    slope, anchor = np.where(narrow, 0.0, slope), np.where(narrow, high, anchor)
    return slope, activation.apply(anchor) - slope * anchor


def _find_tangent_point(activation: ActivationFunction, low: Float64Array, high: Float64Array) -> Float64Array:
    """A point above zero, near the first one, whose tangent passes above the function at the lower end."""
    end, near, far = activation.apply(low), np.zeros_like(high), high
    for _ in range(BISECTIONS):  # the tangent at ``far`` always passes above the lower end
        middle = 0.5 * (near + far)
        passes = activation.apply(middle) + compute_slope(activation, middle) * (low - middle) >= end
        near, far = np.where(passes, near, middle), np.where(passes, middle, far)
    return far


def compute_slope(activation: ActivationFunction, at: Float64Array) -> Float64Array:
    """The slope of an s-shaped function."""
    if activation.kind == "tanh":
        return np.asarray(1.0 - np.tanh(at) ** 2)
    return np.asarray(0.25 - (0.5 * np.tanh(0.5 * at)) ** 2)


ROUNDOFF = 2.0**-53
LINE_ERROR_UNITS = 150
UNDERFLOW = 1e-290


@dataclass(frozen=True, slots=True, eq=False)
class PreparedNetwork:
    """A network's layers, the weights of the first feature by feature; what the sums of each never exceed in size; and
    how far bounds may be off, relative to the sizes that are added up in them.
    """

    layers: tuple[NetworkLayer, ...]
    first: FirstLayer
    sizes: tuple[Float64Array, ...]
    rounding: float


def prepare_network(layers: tuple[NetworkLayer, ...], first: FirstLayer, largest: Float64Array) -> PreparedNetwork:
    """Prepare layers, for columns that do not exceed ``largest`` in size."""
    sizes, size = list[Float64Array](), largest
    with np.errstate(over="ignore"):
        for layer in layers:
            sizes.append((size @ np.abs(layer.weights) + np.abs(layer.bias)) * (1.0 + 1e-9))
            size = layer.activation.bound_size(sizes[-1])
    terms = len(largest) + 2 * sum(len(layer.bias) for layer in layers) + 2
    return PreparedNetwork(layers, first, tuple(sizes), 4.0 * (terms + LINE_ERROR_UNITS) * ROUNDOFF)


FindMost = Callable[[Float64Array], Float64Array]  # per piece and row of factors of the first sums


class TracedBounds(NamedTuple):
    """Bounds, and the factors they came from: those of every layer's outputs, and those of the first layer's sums."""

    bounds: Float64Array
    factors: list[Float64Array]
    first: Float64Array


@dataclass(frozen=True, slots=True, eq=False)
class RelaxedNetwork:
    """A network over a block of pieces, with lines in the place of the activations of the layers bounded so far."""

    network: PreparedNetwork
    block: PieceBlock
    relaxations: list[LinearRelaxation] = field(default_factory=list)
    # between which the sums of every layer lie
    ends: list[ArrayPair] = field(default_factory=list)
    # what a linear function of the features can be at most, where more than the block is known of them
    find_most: FindMost | None = None

    @classmethod
    def build(
        cls,
        network: PreparedNetwork,
        block: PieceBlock,
        find_most: FindMost | None = None,
        sides: list[Float64Array] | None = None,
    ) -> RelaxedNetwork:
        """Bound every layer's sums, and find its lines. ``sides``, per layer: of units whose sum is known to be not
        below zero 1, not above it -1. Where a sum cannot have its side, the lower end is above the upper one.
        """
        relaxed = cls(network, block, find_most=find_most)
        for place, (layer, size) in enumerate(zip(network.layers, network.sizes, strict=True)):
            if layer.activation.kind == "identity":  # its lines do not depend on the ends
                low, high = np.broadcast_to(size, (2, len(block.low), len(size)))
                low = -low
            else:
                low, high = relaxed._bound_sums(layer, size)
            if sides is not None:
                low = np.where(sides[place] > 0, np.maximum(low, 0.0), low)
                high = np.where(sides[place] < 0, np.minimum(high, 0.0), high)
            relaxed.relaxations.append(relax_activation(layer.activation, low, high))
            relaxed.ends.append((low, high))
        return relaxed

    def _bound_sums(self, layer: NetworkLayer, size: Float64Array) -> ArrayPair:
        """The ends between which a layer's sums lie; the layers before it have been bounded."""
        if self.relaxations:
            tops = self.trace_bounds(np.concatenate([layer.weights.T, -layer.weights.T])).bounds
            low, high = layer.bias - tops[:, len(size) :], layer.bias + tops[:, : len(size)]
        else:
            low, high = self.network.first.bound_sums(self.block)
            low, high = low + layer.bias, high + layer.bias
            if self.find_most is not None:
                one = np.eye(len(size))
                tops = self.find_most(np.broadcast_to(np.concatenate([one, -one]), (len(low), 2 * len(one), len(one))))
                low = np.fmax(low, layer.bias - tops[:, len(size) :])
                high = np.fmin(high, layer.bias + tops[:, : len(size)])
        wider = self.network.rounding * (size + UNDERFLOW)  # rounding is directed outwards: down below, up above
        low = np.where(np.isfinite(low), np.maximum(low - wider, -size), -size)
        high = np.where(np.isfinite(high), np.minimum(high + wider, size), size)
        return low, high

    def select(self, rows: IntpArray) -> RelaxedNetwork:
        """Some of the pieces."""
        relaxations = [LinearRelaxation(*(numbers[rows] for numbers in one)) for one in self.relaxations]
        ends = [(low[rows], high[rows]) for low, high in self.ends]
        return RelaxedNetwork(self.network, self.block.select(rows), relaxations, ends)

    def trace_bounds(self, wanted: Float64Array, added: list[Float64Array] | None = None) -> TracedBounds:
        """For every piece an upper bound of each row of factors times the outputs of the last layer bounded; of pieces
        that have factors of their own, in three dimensions, with those. ``added``, per layer: factors of its sums, that
        many times which is added to what is bounded.
        """
        shape = wanted.shape if wanted.ndim == 3 else (len(self.block.low), *wanted.shape)
        factors, met = np.broadcast_to(wanted, shape), list[Float64Array]()
        total, sizes = np.zeros((2, *factors.shape[:2]))
        # From the last layer to the first: above a line where the factor is positive, below one where it is negative.
        # ``sizes`` adds up what rounding is measured by; it is put on top of the bound at the end.
        for place in reversed(range(len(self.relaxations))):
            layer, relaxation = self.network.layers[place], self.relaxations[place]
            met.append(factors)
            over, under = np.maximum(factors, 0.0), np.minimum(factors, 0.0)
            passed = over * relaxation.upper_slope[:, None] + under * relaxation.lower_slope[:, None]
            lines = ((over, relaxation.upper_intercept), (under, relaxation.lower_intercept))
            above, below = ((rows @ starts[:, :, None])[:, :, 0] for rows, starts in lines)
            if added is not None:
                passed = passed + added[place][:, None]
            total += above + below + passed @ layer.bias
            sizes += (np.abs(factors) + np.abs(passed) + UNDERFLOW) @ (1.0 + self.network.sizes[place])
            factors = passed @ layer.weights.T if place else passed
        most = (self.find_most or partial(self.network.first.find_maximum, self.block))(factors)
        return TracedBounds(np.asarray(total + most + self.network.rounding * sizes), met[::-1], factors)


STEP_SIZES = (0.5, 0.35, 0.245, 0.1715)


def tighten_bound(relaxed: RelaxedNetwork, wanted: Float64Array) -> Float64Array:
    """For every piece the least upper bound of factors times the outputs that a few steps find."""
    traced = relaxed.trace_bounds(wanted[None, :])
    least = traced.bounds[:, 0]
    for step in STEP_SIZES:
        relaxed = _improve_relaxations(relaxed, traced, step)
        traced = relaxed.trace_bounds(wanted[None, :])
        least = np.fmin(least, traced.bounds[:, 0])
    return least


def _improve_relaxations(relaxed: RelaxedNetwork, traced: TracedBounds, step: float) -> RelaxedNetwork:
    """The same pieces with lines that are better where the bounds are attained."""
    network, improved = relaxed.network, list[LinearRelaxation]()
    sums = network.first.evaluate_at_maximum(relaxed.block, traced.first[:, 0])
    for place, layer in enumerate(network.layers):
        relaxation, ends = relaxed.relaxations[place], relaxed.ends[place]
        factors, sums = traced.factors[place][:, 0], sums + layer.bias
        improved.append(improve_relaxation(layer.activation, relaxation, factors, sums, ends=ends, step=step))
        if place + 1 < len(network.layers):
            upper = relaxation.upper_slope * sums + relaxation.upper_intercept
            lower = relaxation.lower_slope * sums + relaxation.lower_intercept
            sums = np.where(factors >= 0.0, upper, lower) @ network.layers[place + 1].weights
    return RelaxedNetwork(network, relaxed.block, improved, relaxed.ends)


def improve_relaxation(
    activation: ActivationFunction,
    relaxation: LinearRelaxation,
    factors: Float64Array,
    sums: Float64Array,
    ends: ArrayPair,
    step: float,
) -> LinearRelaxation:
    """Lines between two ends that are better at these sums, whose outputs have these factors, by a step."""
    match activation.kind:
        case "identity":
            return relaxation
        case "relu" | "leaky":
            free = (factors < 0.0) & (ends[0] < 0.0) & (ends[1] > 0.0)
            least = activation.slope if activation.kind == "leaky" else 0.0
            slope = np.clip(relaxation.lower_slope + np.where(sums > 0.0, step, -step), least, 1.0)
            return relaxation._replace(lower_slope=np.where(free, slope, relaxation.lower_slope))
        case "tanh" | "logistic":
            return _mix_with_tangents(activation, relaxation, factors, np.clip(sums, *ends), ends=ends, step=step)


def _mix_with_tangents(
    activation: ActivationFunction,
    relaxation: LinearRelaxation,
    factors: Float64Array,
    at: Float64Array,
    ends: ArrayPair,
    step: float,
) -> LinearRelaxation:
    """Lines mixed with tangents that lie on the same side of an s-shaped function on the whole interval."""
    slope = compute_slope(activation, at)
    start = activation.apply(at) - slope * at
    wide = ends[1] - ends[0] >= MIN_WIDTH
    over = wide & (factors >= 0.0) & (at >= 0.0) & (slope * ends[0] + start >= activation.apply(ends[0]))
    under = wide & (factors < 0.0) & (at <= 0.0) & (slope * ends[1] + start <= activation.apply(ends[1]))
    towards = zip(relaxation, (under, under, over, over), (slope, start, slope, start), strict=True)
    return LinearRelaxation(*(np.where(there, line + step * (goal - line), line) for line, there, goal in towards))
