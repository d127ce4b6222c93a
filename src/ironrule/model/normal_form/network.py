"""A neural network as layers over the columns that the model sees: what readers give for networks.

A network says when a point is desired, as a sum of trees does (:mod:`ironrule.model.normal_form.tree_sum`):

    for some alternative, every margin is positive;   margin = offset + coefficients . outputs of the last layer

A binary classifier with one output has one alternative with one margin, the raw output less the threshold's. With an
output per class, there is an alternative per desired class, with a margin against every undesired one. Activations
rise and are continuous; the last layer's is the identity as a rule (a logistic or softmax behind it is undone by the
reader, which turns the threshold instead).

Margins are exact in real arithmetic. The model computes them in floating point, with unit roundoff ``roundoff``; how
far that can be off follows from the sizes of weights and columns (:func:`bound_arithmetic_errors`), and ``error`` of
a margin is what comes on top, such as the rounding of a softmax.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.model.normal_form.alternatives import intersect_alternatives, negate_alternatives
from ironrule.model.protocol import NormalForm, Unreadable, require_readable
from ironrule.space.feature import Feature

DOUBLE_ROUNDOFF = 2.0**-53
SINGLE_ROUNDOFF = 2.0**-24
SMALLEST_DOUBLE = 2.0**-1022
SMALLEST_SINGLE = 2.0**-126
FUNCTION_UNITS = 32  # how many units of its last place a library's tanh or logistic function may be off


@dataclass(frozen=True, slots=True)
class Activation:
    """A rising function of every unit; ``slope`` is that of ``leaky`` below zero, from 0 to 1."""

    kind: Literal["identity", "relu", "leaky", "tanh", "logistic"] = "identity"
    slope: float = 0.0

    def apply(self, values: Float64Array) -> Float64Array:
        """The function itself."""
        match self.kind:
            case "identity":
                return values
            case "relu":
                return np.maximum(values, 0.0)
            case "leaky":
                return np.maximum(values, self.slope * values)
            case "tanh":
                return np.tanh(values)
            case "logistic":
                return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))

    def bound_size(self, size: Float64Array) -> Float64Array:
        """What its values never exceed in size, for sums that do not exceed ``size``."""
        if self.kind == "tanh":
            return np.minimum(size, 1.0)
        return np.ones_like(size) if self.kind == "logistic" else size


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """``activation(inputs @ weights + bias)``; a row of weights per input."""

    weights: Float64Array
    bias: Float64Array
    activation: Activation = Activation()


@dataclass(frozen=True, slots=True, eq=False)
class OutputMargin:
    """A margin over the last layer's outputs that must be positive; ``error`` comes on top of the network's own."""

    coefficients: Float64Array
    offset: float
    error: float = 0.0

    def negate(self) -> OutputMargin:
        """The same with the other sign; its error is the same."""
        return OutputMargin(-1.0 * self.coefficients, -self.offset, self.error)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A network in normal form over the columns that the model sees."""

    layers: tuple[Layer, ...]
    alternatives: tuple[tuple[OutputMargin, ...], ...]
    roundoff: float = DOUBLE_ROUNDOFF
    kind: ClassVar[str] = "network"
    node_count: ClassVar[int] = 0  # it has no trees

    def __post_init__(self) -> None:
        """Refuse what is no network: NaN, infinity, sizes that do not fit."""
        width = len(self.layers[0].weights) if self.layers else 0
        for layer in self.layers:  # each takes as many inputs (width) as the one before has units
            if layer.weights.ndim != 2 or layer.weights.shape != (width, len(layer.bias)):
                raise Unreadable(f"its layers do not fit together: {width} inputs meet weights {layer.weights.shape}")
            if not (np.isfinite(layer.weights).all() and np.isfinite(layer.bias).all()):
                raise Unreadable("its weights must be finite numbers, but some are NaN or infinite")
            if not 0.0 <= layer.activation.slope <= 1.0:
                raise Unreadable(f"slopes below zero must be from 0 to 1, got {layer.activation.slope}")
            width = len(layer.bias)
        for margin in (margin for margins in self.alternatives for margin in margins):
            numbers = np.array([margin.offset, margin.error, *margin.coefficients])
            if len(margin.coefficients) != width or not np.isfinite(numbers).all():
                raise Unreadable("its outputs do not fit its classes, or the threshold is out of reach")

    @property
    def is_single(self) -> bool:
        """Whether the model computes in single precision."""
        return self.roundoff > 2.0**-40

    def outputs(self, seen: AnyArray) -> Float64Array:
        """The last layer's outputs for rows of what the model sees: the plain meaning, not the fast one."""
        values = np.asarray(seen, dtype=np.float64)
        for layer in self.layers:
            values = layer.activation.apply(values @ layer.weights + layer.bias)
        return values

    def negate(self) -> Network:
        """The network of the opposite decision; raises Unreadable if it would have too many alternatives."""
        return replace(self, alternatives=negate_alternatives(self.alternatives, OutputMargin.negate))

    def intersect(self, other: NormalForm) -> Network:
        """The network of what both desire, whose layers must be the same; raises Unreadable if they are not."""
        same = isinstance(other, Network) and _are_same_layers(self, other)
        require_readable(same, "two networks with different layers are not read together")
        assert isinstance(other, Network)
        return replace(self, alternatives=intersect_alternatives(self.alternatives, other.alternatives))

    def margins(self, seen: AnyArray) -> tuple[Float64Array, ...]:
        """For rows of what the model sees, per alternative the smallest margin; desired is where one is positive."""
        outputs = self.outputs(seen)
        return tuple(
            np.min([outputs @ margin.coefficients + margin.offset for margin in margins], axis=0)
            for margins in self.alternatives
        )


def _are_same_layers(first: Network, second: Network) -> bool:
    """Whether two networks differ in their outputs at the most."""
    return (first.roundoff, len(first.layers)) == (second.roundoff, len(second.layers)) and all(
        one.activation == other.activation
        and np.array_equal(one.weights, other.weights)
        and np.array_equal(one.bias, other.bias)
        for one, other in zip(first.layers, second.layers, strict=True)
    )


def bound_arithmetic_errors(network: Network, largest: Float64Array) -> tuple[tuple[float, ...], ...]:
    """Per alternative and margin, how far the model's arithmetic and ours together may be from the true margin, where
    no column exceeds ``largest`` in size.

    A sum of n products in floating point, in any order, is off by at most (n + 1) units of the sizes that meet in it
    (Higham, "Accuracy and Stability of Numerical Algorithms", chapter 3), to first order; twice that is allowed here.
    Activations have slopes of at most 1, so errors pass through them undiminished at the worst.
    """
    model, ours = (_propagate_errors(network, largest, unit) for unit in (network.roundoff, DOUBLE_ROUNDOFF))
    return tuple(
        tuple(first + second + margin.error for first, second, margin in zip(*parts, strict=True))
        for parts in zip(model, ours, network.alternatives, strict=True)
    )


def _propagate_errors(network: Network, largest: Float64Array, unit: float) -> tuple[tuple[float, ...], ...]:
    size, error = np.asarray(largest, dtype=np.float64), unit * np.asarray(largest, dtype=np.float64)
    _require_no_overflow(size, unit)
    for layer in network.layers:  # sizes and errors of its units, from those of what goes into it
        size, error = _propagate_sums(size, error, layer.weights, layer.bias, unit)
        _require_no_overflow(size, unit)
        if layer.activation.kind in ("tanh", "logistic"):  # values between -1 and 1 whatever comes in
            size = layer.activation.bound_size(size)
            error = np.minimum(error, 2.0) + FUNCTION_UNITS * 2.0 * unit
        elif layer.activation.kind == "leaky":
            error = error + 2.0 * unit * size
    return tuple(tuple(_bound_error(margin, size, error, unit) for margin in each) for each in network.alternatives)


def _require_no_overflow(size: Float64Array, unit: float) -> None:
    """Raise Unreadable where numbers may grow beyond what the model's type can hold."""
    kind = np.float64 if unit < 2.0**-40 else np.float32
    if not (size <= 0.5 * float(np.finfo(kind).max)).all():
        raise Unreadable(f"its weights, or what it sees, are so large that {kind.__name__} may not hold its sums")


def _bound_error(margin: OutputMargin, size: Float64Array, error: Float64Array, unit: float) -> float:
    weights = np.asarray(margin.coefficients, dtype=np.float64)[:, None]
    _, total = _propagate_sums(size, error, weights, np.array([margin.offset]), unit)
    require_readable(np.isfinite(total[0]), "its weights are so large that its arithmetic overflows")
    return float(total[0])


def _propagate_sums(
    size: Float64Array, error: Float64Array, weights: Float64Array, bias: Float64Array, unit: float
) -> tuple[Float64Array, Float64Array]:
    """The largest size of sums and how far they may be off, from those of what comes in."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = (size + error) @ np.abs(weights) + np.abs(bias)
        # what a number may lose that is too small to be held
        tiny = SMALLEST_DOUBLE if unit < 2.0**-40 else SMALLEST_SINGLE
        rounding = (len(weights) + 2) * (2.0 * unit * sums + tiny * (1.0 + np.abs(weights).sum(axis=0)))
        return sums, error @ np.abs(weights) + rounding


def find_largest_sizes(values: Sequence[AnyArray]) -> Float64Array:
    """The largest size of every column; raises Unreadable if one is no finite number."""
    numbers = [np.asarray(column, dtype=np.float64) for column in values]
    if not all(np.isfinite(column).all() for column in numbers):
        raise Unreadable("a network needs a finite number for every value, but some of what it sees is missing")
    return np.array([np.abs(column).max(initial=0.0) for column in numbers])


def require_straight_columns(feature: Feature, columns: Iterable[AnyArray]) -> None:
    """Raise Unreadable unless what a network sees of a feature's numbers is one column that rises or falls all the way.

    ``columns`` have a value for every code.
    """
    numbers = [np.asarray(column, dtype=np.float64)[: len(feature.values)] for column in columns]
    steps = [change for number in numbers if (change := np.sign(np.diff(number))).any()]
    if len(steps) > 1:
        raise Unreadable("several columns of what the network sees change with it")
    if any((step > 0).any() and (step < 0).any() for step in steps):
        raise Unreadable("what the network sees of it does not rise or fall all the way")
