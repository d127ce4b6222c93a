"""The normal form of a neural network: layers one after the other, and the margins that say when a point is desired.

A layer computes activation(x W + b). A point is desired exactly if, for some alternative, every margin is positive; a
margin is a linear function of the last layer's outputs. All of this is in real arithmetic.

**How far floating-point arithmetic is from it.** Let u be the unit roundoff of the arithmetic. A sum of n products and
a bias, in any order, with or without fused operations, is off by at most k u / (1 - k u) times the sum of the sizes of
what is added, with k = n + 1 (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1). Here k is n + 8
and the factor is 2 k u: room for casts of what comes in, a product with the slope of a leaky relu, and libraries that
multiply the factors of neighbouring layers beforehand. Every activation has slopes of at most 1, so it passes on what
its argument is off without making it larger; a library's tanh and logistic function may add 32 u. Results too small
for the type are off by its smallest normal number at the most, which covers libraries that put zero in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ironrule.checker.readings.normal_form import Floats, Unreadable

DOUBLE = 2.0**-53
SINGLE = 2.0**-24
SMALLEST = {DOUBLE: 2.0**-1022, SINGLE: 2.0**-126}  # normal numbers
LARGEST = {DOUBLE: 2.0**1000, SINGLE: 2.0**120}  # with room for what is added up on the way
ROUNDINGS = 8  # of one number, besides the additions
LIBRARY = 32.0  # units that a library's tanh or logistic function may be off
MOST_TERMS_ERROR = 0.01  # k u must be below this for 2 k u to be generous


@dataclass(frozen=True, slots=True)
class Activation:
    """A rising function with slopes of at most 1, applied to every unit; ``slope`` is that of a leaky relu below 0."""

    kind: Literal["identity", "relu", "leaky", "tanh", "logistic"] = "identity"
    slope: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.slope <= 1.0:
            raise Unreadable(f"the slope of a leaky relu must be from 0 to 1, got {self.slope!r}")

    def apply(self, sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The function's values, in the type of the sums."""
        match self.kind:
            case "identity":
                return sums
            case "relu":
                return np.asarray(np.maximum(sums, 0.0))
            case "leaky":
                return np.where(sums > 0.0, sums, self.slope * sums)
            case "tanh":
                return np.asarray(np.tanh(sums))
            case "logistic":
                return np.asarray(0.5 + 0.5 * np.tanh(0.5 * sums))

    @property
    def is_bounded(self) -> bool:
        """Whether its values are from -1 to 1."""
        return self.kind in ("tanh", "logistic")

    def limit_size(self, sizes: Floats) -> Floats:
        """What the values do not exceed in size where the sums do not exceed these."""
        if self.kind == "logistic":
            return np.ones_like(sizes)
        return np.minimum(sizes, 1.0) if self.kind == "tanh" else sizes


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Units that compute activation(x W + b); ``weights`` has a row for every input and a column for every unit."""

    weights: Floats
    bias: Floats
    activation: Activation = Activation()


@dataclass(frozen=True, slots=True, eq=False)
class NetworkMargin:
    """Coefficients times the outputs, plus an offset. ``error`` is how far off the model's own comparison may be, its
    outputs taken as they are.
    """

    coefficients: Floats
    offset: float
    error: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class NetworkReading:
    """A model as a network: desired where, for some alternative, all margins are positive.

    ``unit`` is the unit roundoff of the model's arithmetic, SINGLE where any part of it may be in single precision.
    Raises Unreadable where numbers are not finite or shapes do not fit.
    """

    layers: tuple[Layer, ...]
    alternatives: tuple[tuple[NetworkMargin, ...], ...]
    unit: float = DOUBLE

    def __post_init__(self) -> None:
        if not self.layers or not len(self.layers[0].weights) or self.unit not in SMALLEST:
            raise Unreadable("a network must have columns and layers, in single or double precision")
        width = len(self.layers[0].weights)
        for layer in self.layers:
            if layer.weights.shape != (width, len(layer.bias)) or layer.bias.ndim != 1:
                raise Unreadable(
                    f"weights of {width} rows and {len(layer.bias)} columns are expected in a layer of the network, "
                    f"got {layer.weights.shape}"
                )
            _check_numbers(layer.weights, layer.bias)
            width = len(layer.bias)
        for margin in (margin for margins in self.alternatives for margin in margins):
            if margin.coefficients.shape != (width,) or not margin.error >= 0.0:
                raise Unreadable(f"a margin must have {width} coefficients and an error that is not negative")
            _check_numbers(margin.coefficients, np.array([margin.offset, margin.error]))

    @property
    def width(self) -> int:
        """How many columns come in."""
        return len(self.layers[0].weights)

    def outputs(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The last layer's values for rows of columns, in the type of the rows (double, or more precise)."""
        values = rows
        for layer in self.layers:
            values = layer.activation.apply(values @ layer.weights + layer.bias)
        return values


def _check_numbers(*arrays: Floats) -> None:
    for array in arrays:
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise Unreadable("all weights of the network must be finite numbers, but some are not")


def largest_sizes(columns: Sequence[Floats]) -> Floats:
    """The largest size of every column's values; raises Unreadable where one is missing or infinite."""
    if not all(np.isfinite(values).all() for values in columns):
        raise Unreadable("a network takes finite numbers only, but some of its columns can be missing or infinite")
    return np.array([np.abs(values).max(initial=0.0) for values in columns], dtype=np.float64)


def arithmetic_errors(reading: NetworkReading, largest: Floats) -> tuple[tuple[float, ...], ...]:
    """For every alternative and margin how far the model's decision and this module's double arithmetic, together, may
    be from the true margin, where column k does not exceed ``largest[k]`` in size.

    Raises Unreadable where the arithmetic may overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sizes, own = _follow_errors(reading.layers, largest, DOUBLE)
        _, models = _follow_errors(reading.layers, largest, reading.unit)
        slack = tuple(
            tuple(_margin_error(margin, sizes, own, models) for margin in margins) for margins in reading.alternatives
        )
    if not np.isfinite([error for errors in slack for error in errors]).all():
        raise Unreadable("its weights are so large that its arithmetic may overflow")
    return slack


def _margin_error(margin: NetworkMargin, sizes: Floats, own: Floats, models: Floats) -> float:
    coefficients = np.abs(margin.coefficients)
    count = len(coefficients) + ROUNDINGS
    added = coefficients @ (sizes + own) + abs(margin.offset)
    total = margin.error + coefficients @ (own + models) + count * (2.0 * DOUBLE * added + SMALLEST[DOUBLE])
    return float(total * (1.0 + 1e-9))  # this sum is rounded too


def _follow_errors(layers: tuple[Layer, ...], largest: Floats, unit: float) -> tuple[Floats, Floats]:
    """What the outputs do not exceed in size, and how far arithmetic of one precision may be from them."""
    smallest = SMALLEST[unit]
    sizes, errors = largest, 2.0 * unit * largest + smallest  # what comes in may be cast
    seen = 1.0  # the largest size met so far, by which a product of factors that is too small may be multiplied
    gross = np.maximum(largest, 1.0)  # at least 1, so that products of the factors of several layers do not overflow
    for layer in layers:
        weights, bias = np.abs(layer.weights), np.abs(layer.bias)
        count = len(weights) + ROUNDINGS
        if count * unit > MOST_TERMS_ERROR:
            raise Unreadable(f"a layer of the network adds up {len(weights)} products, too many for its precision")
        gross = (gross + errors) @ weights + bias
        if not (gross <= LARGEST[unit]).all():
            raise Unreadable("its weights are so large that its arithmetic may overflow")
        gross = np.maximum(layer.activation.limit_size(gross), 1.0)
        seen = max(seen, float(sizes.max(initial=0.0)))
        added = (sizes + errors) @ weights + bias
        errors = errors @ weights + count * (2.0 * unit * added + smallest * (1.0 + seen))
        sizes = layer.activation.limit_size(sizes @ weights + bias)
        if layer.activation.is_bounded:  # two values from -1 to 1 are never further apart than 2
            errors = np.minimum(errors, 2.0) + 2.0 * LIBRARY * unit
    return sizes, errors
