"""The normal form of a neural network: layers one after the other, and the margins that say when a point is desired.

A layer computes activation(x W + b). A point is desired exactly if, for some alternative, every margin is positive; a
margin is a linear function of the last layer's outputs. All of this is in real arithmetic.

**From outputs to margins.** A probability that comes last (logistic, softmax) is a rising function of scores: it is
undone, and the threshold turned instead. What a library's function may be off is carried along as the margin's error.

**How far floating-point arithmetic is from it.** Let u be the unit roundoff of the arithmetic. A sum of n products and
a bias, in any order, with or without fused operations, is off by at most k u / (1 - k u) times the sum of the sizes of
what is added, with k = n + 1 (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1). Here k is n + 8
and the factor is 2 k u: room for casts of what comes in, a product with the slope of a leaky relu, and libraries that
multiply the factors of neighbouring layers beforehand. Every activation has slopes of at most 1, so it passes on what
its argument is off without making it larger; a library's tanh and logistic function may add 32 u. Results too small
for the type are off by its smallest normal number at the most, which covers libraries that put zero in their place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ironrule.checker.arrays import Float64Array
from ironrule.checker.readers import normal_form
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, SINGLE_ROUNDOFF, EstimatorTarget, NoReading

if TYPE_CHECKING:
    from ironrule.checker.preprocessing import EstimatorColumns
    from ironrule.checker.scope import MarginBounds

SMALLEST_NORMAL = {DOUBLE_ROUNDOFF: 2.0**-1022, SINGLE_ROUNDOFF: 2.0**-126}  # normal numbers
LARGEST_SAFE = {DOUBLE_ROUNDOFF: 2.0**1000, SINGLE_ROUNDOFF: 2.0**120}  # with room for what is added up on the way
EXTRA_ROUNDINGS = 8  # of one number, besides the additions
LIBRARY_ERROR_UNITS = 32.0  # units that a library's tanh or logistic function may be off
MAX_SUM_ERROR = 0.01  # k u must be below this for 2 k u to be generous


@dataclass(frozen=True, slots=True)
class ActivationFunction:
    """A rising function with slopes of at most 1, applied to every unit; ``slope`` is that of a leaky relu below 0."""

    kind: Literal["identity", "relu", "leaky", "tanh", "logistic"] = "identity"
    slope: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.slope <= 1.0:
            raise NoReading(f"the slope of a leaky relu must be from 0 to 1, got {self.slope!r}")

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

    def bound_size(self, sizes: Float64Array) -> Float64Array:
        """What the values do not exceed in size where the sums do not exceed these."""
        if self.kind == "logistic":
            return np.ones_like(sizes)
        return np.minimum(sizes, 1.0) if self.kind == "tanh" else sizes


@dataclass(frozen=True, slots=True, eq=False)
class NetworkLayer:
    """Units that compute activation(x W + b); ``weights`` has a row for every input and a column for every unit."""

    weights: Float64Array
    bias: Float64Array
    activation: ActivationFunction = ActivationFunction()


Layers = tuple[NetworkLayer, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NetworkMargin:
    """Coefficients times the outputs, plus an offset; ``error``: how far off the model's comparison of these may be."""

    coefficients: Float64Array
    offset: float
    error: float = 0.0

    def negate(self) -> NetworkMargin:
        """The margin with the other sign."""
        return NetworkMargin(-1.0 * self.coefficients, -self.offset, self.error)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkForm:
    """A model as a network: desired where, for some alternative, all margins are positive.

    ``roundoff`` is that of the model's arithmetic, SINGLE_ROUNDOFF where any part of it may be in single precision.
    Raises NoReading where numbers are not finite or shapes do not fit.
    """

    layers: tuple[NetworkLayer, ...]
    alternatives: tuple[tuple[NetworkMargin, ...], ...]
    roundoff: float = DOUBLE_ROUNDOFF
    kind: ClassVar[str] = "network"

    def prepare_bounds(self, columns: EstimatorColumns, sizes: Sequence[int]) -> MarginBounds:
        """Upper bounds by bound propagation."""
        from ironrule.checker.bounds.network_bounds import prepare_network_bounds

        return prepare_network_bounds(self, columns, sizes)

    def negate(self) -> NetworkForm:
        """The form of the opposite decision; raises NoReading where it has too many alternatives."""
        return replace(self, alternatives=normal_form.negate_alternatives(self.alternatives, NetworkMargin.negate))

    def __post_init__(self) -> None:
        if not self.layers or not len(self.layers[0].weights) or self.roundoff not in SMALLEST_NORMAL:
            raise NoReading("a network must have columns and layers, in single or double precision")
        width = len(self.layers[0].weights)
        for layer in self.layers:
            if layer.weights.shape != (width, len(layer.bias)) or layer.bias.ndim != 1:
                shape = f"{width} rows and {len(layer.bias)} columns"
                raise NoReading(f"weights of {shape} are expected in a layer of the network, got {layer.weights.shape}")
            _require_finite(layer.weights, layer.bias)
            width = len(layer.bias)
        for margin in (margin for margins in self.alternatives for margin in margins):
            if margin.coefficients.shape != (width,) or not margin.error >= 0.0:
                raise NoReading(f"a margin must have {width} coefficients and an error that is not negative")
            _require_finite(margin.coefficients, np.array([margin.offset, margin.error]))

    @property
    def width(self) -> int:
        """How many columns come in."""
        return len(self.layers[0].weights)

    def compute_outputs(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The last layer's values for rows of columns, in the type of the rows (double, or more precise)."""
        values = rows
        for layer in self.layers:
            values = layer.activation.apply(values @ layer.weights + layer.bias)
        return values


def _require_finite(*arrays: Float64Array) -> None:
    for array in arrays:
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise NoReading("all weights of the network must be finite numbers, but some are not")


def find_largest_sizes(columns: Sequence[Float64Array]) -> Float64Array:
    """The largest size of every column's values; raises NoReading where one is missing or infinite."""
    if not all(np.isfinite(values).all() for values in columns):
        raise NoReading("a network takes finite numbers only, but some of its columns can be missing or infinite")
    return np.array([np.abs(values).max(initial=0.0) for values in columns], dtype=np.float64)


def bound_arithmetic_errors(reading: NetworkForm, largest: Float64Array) -> tuple[tuple[float, ...], ...]:
    """For every alternative and margin how far the model's decision and this module's double arithmetic, together, may
    be from the true margin, where column k does not exceed ``largest[k]`` in size.

    Raises NoReading where the arithmetic may overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sizes, own = _propagate_errors(reading.layers, largest, DOUBLE_ROUNDOFF)
        _, models = _propagate_errors(reading.layers, largest, reading.roundoff)
        ways = reading.alternatives
        slack = tuple(tuple(_bound_margin_error(margin, sizes, own, models) for margin in way) for way in ways)
    if not np.isfinite([error for errors in slack for error in errors]).all():
        raise NoReading("its weights are so large that its arithmetic may overflow")
    return slack


def _bound_margin_error(margin: NetworkMargin, sizes: Float64Array, own: Float64Array, models: Float64Array) -> float:
    coefficients = np.abs(margin.coefficients)
    count = len(coefficients) + EXTRA_ROUNDINGS
    added = coefficients @ (sizes + own) + abs(margin.offset)
    rounding = count * (2.0 * DOUBLE_ROUNDOFF * added + SMALLEST_NORMAL[DOUBLE_ROUNDOFF])
    total = margin.error + coefficients @ (own + models) + rounding
    return float(total * (1.0 + 1e-9))  # this sum is rounded too


def _propagate_errors(layers: Layers, largest: Float64Array, roundoff: float) -> tuple[Float64Array, Float64Array]:
    """What the outputs do not exceed in size, and how far arithmetic of one precision may be from them."""
    smallest = SMALLEST_NORMAL[roundoff]
    sizes, errors = largest, 2.0 * roundoff * largest + smallest  # what comes in may be cast
    seen = 1.0  # the largest size met so far, by which a product of factors that is too small may be multiplied
    gross = np.maximum(largest, 1.0)  # at least 1, so that products of the factors of several layers do not overflow
    for layer in layers:
        weights, bias = np.abs(layer.weights), np.abs(layer.bias)
        count = len(weights) + EXTRA_ROUNDINGS
        if count * roundoff > MAX_SUM_ERROR:
            raise NoReading(f"a layer of the network adds up {len(weights)} products, too many for its precision")
        gross = (gross + errors) @ weights + bias
        if not (gross <= LARGEST_SAFE[roundoff]).all():
            raise NoReading("its weights are so large that its arithmetic may overflow")
        gross = np.maximum(layer.activation.bound_size(gross), 1.0)
        seen = max(seen, float(sizes.max(initial=0.0)))
        added = (sizes + errors) @ weights + bias
        errors = errors @ weights + count * (2.0 * roundoff * added + smallest * (1.0 + seen))
        sizes = layer.activation.bound_size(sizes @ weights + bias)
        if layer.activation.is_bounded:  # two values from -1 to 1 are never further apart than 2
            errors = np.minimum(errors, 2.0) + 2.0 * LIBRARY_ERROR_UNITS * roundoff
    return sizes, errors


# units that a probability, computed by exponentials, may be off, relatively or of the number 1
PROBABILITY_ERROR_UNITS = 128.0


def decide_number(layers: Layers, threshold: float, roundoff: float) -> NetworkForm:
    """Desired where the one output is above the threshold, which may be cast to the type of the output."""
    error = 4.0 * roundoff * abs(threshold)
    return NetworkForm(layers, ((NetworkMargin(np.ones(1), -threshold, error),),), roundoff)


def decide_exponential(layers: Layers, threshold: float, roundoff: float) -> NetworkForm:
    """Desired where the exponential of the one output is above the threshold."""
    if threshold < 0.0:
        return _decide_constant(layers, 1.0, roundoff)
    if not 1e-30 < threshold < 1e30:  # far from where an exponential is rounded to 0 or to infinity
        raise NoReading(f"a threshold on an exponential must be from 1e-30 to 1e30, got {threshold!r}")
    cut = math.log(threshold)
    error = 2.0 * PROBABILITY_ERROR_UNITS * roundoff + 8.0 * DOUBLE_ROUNDOFF * (1.0 + abs(cut))
    return NetworkForm(layers, ((NetworkMargin(np.ones(1), -cut, error),),), roundoff)


def decide_logistic(layers: Layers, target: EstimatorTarget, roundoff: float, precision: float) -> NetworkForm:
    """Two classes, the second with the logistic function of the one output as its probability, which is computed with
    ``precision`` as its unit roundoff; without a threshold one half decides.
    """
    sign = 1.0 if target.desired_classes == (1,) else -1.0
    return _decide_probability(layers, np.array([sign]), target.threshold, roundoff, precision)


def decide_largest(layers: Layers, target: EstimatorTarget, roundoff: float, tie: float) -> NetworkForm:
    """The class with the largest output; outputs within ``tie`` of each other may come out in any order."""
    one = np.eye(len(layers[-1].bias))

    def lead(good: int, bad: int) -> NetworkMargin:
        return NetworkMargin(one[good] - one[bad], 0.0, tie)

    return NetworkForm(layers, normal_form.compare_classes(lead, target.desired_classes, len(one)), roundoff)


def decide_softmax(layers: Layers, target: EstimatorTarget, roundoff: float, precision: float) -> NetworkForm:
    """Classes by the softmax of the outputs; a threshold must be on the probability of one of two classes."""
    if target.threshold is None:
        return decide_largest(layers, target, roundoff, 2.0 * PROBABILITY_ERROR_UNITS * precision)
    if len(layers[-1].bias) != 2:
        raise NoReading("a threshold on a softmax of more than two classes is not a limit of one score")
    difference = np.array([-1.0, 1.0]) if target.desired_classes == (1,) else np.array([1.0, -1.0])
    return _decide_probability(layers, difference, target.threshold, roundoff, precision)


def decide_probability_output(layers: Layers, target: EstimatorTarget, roundoff: float) -> NetworkForm:
    """Two classes and one output p that is taken for the probability of the second as it is; the first has 1 - p."""
    threshold = 0.5 if target.threshold is None else target.threshold
    sign, cut = (1.0, threshold) if target.desired_classes == (1,) else (-1.0, 1.0 - threshold)
    margin = NetworkMargin(np.array([sign]), -sign * cut, 4.0 * roundoff * (1.0 + abs(threshold)))
    return NetworkForm(layers, ((margin,),), roundoff)


def decide_probability_outputs(layers: Layers, target: EstimatorTarget, roundoff: float) -> NetworkForm:
    """An output per class that is taken for its probability as it is, whatever they add up to."""
    if target.threshold is None:
        return decide_largest(layers, target, roundoff, 0.0)
    wanted = np.zeros(len(layers[-1].bias))
    wanted[list(target.desired_classes)] = 1.0
    error = 4.0 * roundoff * abs(target.threshold)
    return NetworkForm(layers, ((NetworkMargin(wanted, -target.threshold, error),),), roundoff)


def _decide_probability(
    layers: Layers, score: Float64Array, asked: float | None, roundoff: float, own: float
) -> NetworkForm:
    """Desired where the logistic function of a score is above a threshold."""
    threshold, noise = 0.5 if asked is None else asked, PROBABILITY_ERROR_UNITS * own
    if not -noise <= threshold < 1.0 + noise:
        return _decide_constant(layers, 1.0 if threshold < 0.0 else -1.0, roundoff)
    cut, error = normal_form.find_logit_threshold(threshold, noise)
    return NetworkForm(layers, ((NetworkMargin(score, -cut, error + 8.0 * own * (1.0 + abs(cut))),),), roundoff)


def _decide_constant(layers: Layers, value: float, roundoff: float) -> NetworkForm:
    """The same everywhere."""
    return NetworkForm(layers, ((NetworkMargin(np.zeros(len(layers[-1].bias)), value),),), roundoff)
