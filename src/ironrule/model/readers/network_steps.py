"""From a network as its library runs it to the normal form: its steps become layers, its outputs become margins.

**Steps.** A library runs more kinds of steps than a layer has: biases added on their own, scaling, batch
normalisation, several activations in a row. A factor and a shift for every unit are folded into the weights beside
them, so that a layer is left for every activation (:func:`fold_steps`).

Folding keeps the value but not the rounding. Whatever comes out of a step is a sum over paths, products of one input
or constant with weights, and every path is rounded at most ``roundings`` times, by the library and by the folding
together, in whatever order the library works. So a sum is off by that many units of the sizes that meet in it
(Higham, "Accuracy and Stability of Numerical Algorithms", chapter 3). The normal form allows for 2 (n + 2) units of
the inputs and the bias with n inputs (:func:`ironrule.model.normal_form.network.bound_arithmetic_errors`); where
paths are rounded more often, the network's roundoff is taken larger. Constants that nearly cancel in a bias count by
their own sizes, and so does underflow: :attr:`FoldedNetwork.output_errors` holds both.

**Outputs.** A logistic function or a softmax at the end rises, so it is undone and the threshold turned instead
(:func:`read_outputs`). Its rounding moves where the decision changes: a probability that is off by d at the threshold
t moves it by about d / (t (1 - t)) in log odds. Probabilities are taken to be off by at most 64 units, of the
library's function, of 1 - p, and of a threshold that is rounded to their type. Two outputs whose softmax is compared
can be told apart from a few units on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise
from typing import Any

import numpy as np

from ironrule.arrays import Float64Array
from ironrule.model.decision import split_classes
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF, FUNCTION_UNITS, Activation, Layer, Network, OutputMargin
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.sklearn_additive import ScoreThreshold, find_logit_threshold

COVERED_ROUNDINGS = 1.5  # roundings per input that the normal form allows for; it has 2, the rest is for higher orders
# of batch normalisation: the root and its inverse, twice over, the shift, two products and two sums
NORMALISATION_ROUNDINGS = 12
SINGLE_OR_DOUBLE = 2.0**-40  # between the units of single and of double precision


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """``inputs @ weights + bias``, or with a factor per unit ``inputs * weights + bias``.

    ``bias_sizes`` are those of the constants that meet in each bias, added up; ``roundings`` is how often a path from
    an input or a constant to the result is rounded.
    """

    weights: Float64Array
    bias: Float64Array
    bias_sizes: Float64Array
    roundings: int

    @property
    def is_unitwise(self) -> bool:
        """Whether it has a factor per unit instead of a matrix."""
        return self.weights.ndim == 1

    @property
    def matrix(self) -> Float64Array:
        """The weights with a row per input."""
        return np.diag(self.weights) if self.is_unitwise else self.weights

    def compose(self, other: Affine) -> Affine:
        """Both in one, where one of them has a factor per unit."""
        if len(self.bias) != len(other.weights):
            raise Unreadable(f"its layers do not fit together: {len(self.bias)} units meet {len(other.weights)}")
        weights = self.weights * other.weights if other.is_unitwise else (other.weights.T * self.weights).T
        return Affine(
            np.asarray(weights),
            other._apply_weights(self.bias, other.weights) + other.bias,
            other._apply_weights(self.bias_sizes, np.abs(other.weights)) + other.bias_sizes,
            self.roundings + other.roundings + 2,
        )

    def _apply_weights(self, values: Float64Array, weights: Float64Array) -> Float64Array:
        return values * weights if self.is_unitwise else values @ weights


Step = Affine | Activation


def make_dense(weights: Float64Array, bias: Float64Array | None = None) -> Affine:
    """A matrix with a row per input, and a bias."""
    matrix = np.asarray(weights, dtype=np.float64)
    shift = np.zeros(matrix.shape[1]) if bias is None else np.asarray(bias, dtype=np.float64)
    return Affine(matrix, shift, np.abs(shift), len(matrix) + 1)


def make_unitwise(factor: Float64Array, shift: Float64Array, roundings: int) -> Affine:
    """A factor and a shift per unit."""
    factors, shifts = np.broadcast_arrays(np.asarray(factor, dtype=np.float64), np.asarray(shift, dtype=np.float64))
    return Affine(factors.copy(), shifts.copy(), np.abs(shifts), roundings)


def make_normalisation(
    mean: Float64Array, variance: Float64Array, factor: Float64Array, shift: Float64Array, epsilon: float
) -> Affine:
    """``(inputs - mean) / sqrt(variance + epsilon) * factor + shift``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.asarray(factor, np.float64) / np.sqrt(np.asarray(variance, np.float64) + epsilon)
    moved = np.asarray(mean, np.float64) * scale
    return Affine(scale, shift - moved, np.abs(moved) + np.abs(shift), NORMALISATION_ROUNDINGS)


def make_leaky_relu(slope: float) -> Activation:
    """A rectifier with a slope below zero; raises Unreadable unless it is from 0 to 1."""
    require_readable(0.0 <= slope <= 1.0, f"a leaky rectifier must have a slope from 0 to 1 below zero, got {slope!r}")
    return Activation("leaky", slope)


@dataclass(frozen=True, slots=True, eq=False)
class FoldedNetwork:
    """Layers, the unit of their arithmetic, and how far each of the last one's outputs may be off on top."""

    layers: tuple[Layer, ...]
    roundoff: float
    output_errors: Float64Array

    def build_margin(self, coefficients: Float64Array, offset: float, error: float) -> OutputMargin:
        """A margin over the outputs, its error with what the layers add."""
        total = error + float(np.abs(coefficients) @ self.output_errors)
        if not np.isfinite(total):
            raise Unreadable("its weights are so large that its arithmetic overflows, or are no finite numbers")
        return OutputMargin(coefficients, offset, total)


def fold_steps(steps: Sequence[Step], unit: float) -> FoldedNetwork:
    """The layers of these steps; the last one's activation is the identity."""
    pairs = _pair_activations(_fold_unitwise(steps))
    layers = tuple(Layer(affine.matrix, affine.bias, activation) for affine, activation in pairs)
    for layer, following in pairwise(layers):
        if len(layer.bias) != len(following.weights):
            raise Unreadable(f"its layers do not fit: {len(layer.bias)} units meet {len(following.weights)} weights")
    crowded = max(affine.roundings / (COVERED_ROUNDINGS * (len(affine.weights) + 2)) for affine, _ in pairs)
    own = unit * max(1.0, crowded)
    return FoldedNetwork(layers, own, _bound_output_errors([affine for affine, _ in pairs], own))


def _fold_unitwise(steps: Sequence[Step]) -> list[Step]:
    """The steps, factors and shifts per unit folded into the weights beside them; what does nothing is left out."""
    folded: list[Step] = []
    for step in steps:  # in the order in which the library runs them; each joins the one before, or follows it
        if isinstance(step, Activation) and step.kind == "identity":
            continue
        last = folded[-1] if folded else None
        if isinstance(step, Affine) and isinstance(last, Affine) and (step.is_unitwise or last.is_unitwise):
            folded[-1] = last.compose(step)
        else:
            folded.append(step)
    return folded


def _pair_activations(steps: Sequence[Step]) -> list[tuple[Affine, Activation]]:
    """Weights and the activation behind them; weights that change nothing where none came."""
    width = next((len(step.weights) for step in steps if isinstance(step, Affine)), 0)
    require_readable(width != 0, "the network has no weights")
    pairs: list[tuple[Affine, Activation]] = []
    for step in steps:  # an activation completes the pair before it, or gets weights that change nothing
        if isinstance(step, Affine):
            pairs.append((step, Activation()))
        elif pairs and pairs[-1][1].kind == "identity":
            pairs[-1] = (pairs[-1][0], step)
        else:
            pairs.append((_make_identity(len(pairs[-1][0].bias) if pairs else width), step))
    if pairs[-1][1].kind != "identity":
        pairs.append((_make_identity(len(pairs[-1][0].bias)), Activation()))
    return pairs


def _make_identity(width: int) -> Affine:
    return make_unitwise(np.ones(width), np.zeros(width), 0)


def _bound_output_errors(affines: Sequence[Affine], unit: float) -> Float64Array:
    """How far the outputs may be off by constants that cancel, and by numbers too small for their type."""
    smallest = float(np.finfo(np.float32 if unit > SINGLE_OR_DOUBLE else np.float64).tiny)
    off = np.full(len(affines[0].weights), smallest)
    with np.errstate(over="ignore", invalid="ignore"):
        for affine in affines:
            lost = 2.0 * affine.roundings * unit * np.maximum(affine.bias_sizes - np.abs(affine.bias), 0.0)
            off = off @ np.abs(affine.matrix) + lost + (len(affine.weights) + 3) * smallest
    return off


MIN_EXPONENTIAL = 1e-30  # a threshold on an exponential must be above this


class OutputKind(Enum):
    """What the outputs are, and the function that was taken off their end."""

    SCORES = auto()  # numbers: of one, the sign decides; of several, the largest
    LOGISTIC = auto()  # a probability
    SOFTMAX = auto()  # probabilities
    LOG_SOFTMAX = auto()  # their logarithms
    PROBABILITIES = auto()  # as they come out of the last layer
    EXPONENTIAL = auto()  # a number


@dataclass(frozen=True, slots=True, eq=False)
class LibraryNetwork:
    """A network as its library runs it, without the function at its end; ``roundoff`` is that of its arithmetic."""

    steps: tuple[Step, ...]
    output_kind: OutputKind
    roundoff: float


def strip_final_logistic(steps: Sequence[Step], ending: OutputKind, unit: float) -> LibraryNetwork:
    """A network, a logistic function at its end taken off if it stands for one probability."""
    before = tuple(steps)
    if ending is OutputKind.PROBABILITIES:
        if before and _is_probability_pair(before[-1]):
            before = before[:-1]
        if before and before[-1] == Activation("logistic") and find_width(before) == 1:
            return LibraryNetwork(before[:-1], OutputKind.LOGISTIC, unit)
    return LibraryNetwork(tuple(steps), ending, unit)


def _is_probability_pair(step: Step) -> bool:
    """Whether it makes of a probability p the two of them, 1 - p and p."""
    if not isinstance(step, Affine):
        return False
    return np.array_equal(step.matrix, [[-1.0, 1.0]]) and np.array_equal(step.bias, [1.0, 0.0])


def find_width(steps: Sequence[Step]) -> int | None:
    """How many units come out of these steps; None if none of them has weights."""
    return next((len(step.bias) for step in reversed(steps) if isinstance(step, Affine)), None)


def read_outputs(
    network: LibraryNetwork, classes: Sequence[Any] | None, desired: tuple[Any, ...], threshold: float | None
) -> Network:
    """The network that says when one of the desired classes is decided; without classes, when its number passes."""
    body = fold_steps(network.steps, network.roundoff)
    if classes is None:
        alternatives = _read_regression(network, body, desired, threshold)
    else:
        wanted, others = split_classes(classes, desired)
        if not wanted or not others:
            raise Unreadable("some class must be desired and some undesired")
        alternatives = _read_classes(network, body, (wanted, others), threshold)
    return Network(body.layers, alternatives, body.roundoff)


OutputAlternatives = tuple[tuple[OutputMargin, ...], ...]
ClassPositions = tuple[list[int], list[int]]  # of the desired and of the undesired classes


def _read_regression(
    network: LibraryNetwork, body: FoldedNetwork, desired: tuple[Any, ...], threshold: float | None
) -> OutputAlternatives:
    if threshold is None or desired:
        raise Unreadable("a regression is read with a threshold alone: desired is a prediction above it")
    require_readable(len(body.output_errors) == 1, f"the regression predicts {len(body.output_errors)} numbers at once")
    # NumPy may round it to the predictions' precision
    cut = ScoreThreshold(threshold, 4 * network.roundoff * abs(threshold))
    if network.output_kind is OutputKind.LOGISTIC:
        cut = _find_logistic_threshold(threshold, network.roundoff)
    elif network.output_kind is OutputKind.EXPONENTIAL:
        cut = _find_exponential_threshold(threshold, network.roundoff)
    elif network.output_kind in (OutputKind.SOFTMAX, OutputKind.LOG_SOFTMAX):
        raise Unreadable("a softmax of one number decides nothing")
    return ((body.build_margin(np.ones(1), -cut.value, cut.error),),)


def _read_classes(
    network: LibraryNetwork, body: FoldedNetwork, places: ClassPositions, threshold: float | None
) -> OutputAlternatives:
    outputs, classes = len(body.output_errors), len(places[0]) + len(places[1])
    if outputs == 1 and classes == 2:
        return ((_read_single_output(network, body, places[0] == [1], threshold),),)
    if outputs != classes or network.output_kind is OutputKind.LOGISTIC:
        raise Unreadable(f"the network has {outputs} outputs for {classes} classes")
    if threshold is None:
        tie = 4.0 * FUNCTION_UNITS * network.roundoff
        cut = ScoreThreshold(0.0, tie if network.output_kind in (OutputKind.SOFTMAX, OutputKind.LOG_SOFTMAX) else 0.0)
        return _compare_outputs(body, places, cut)
    if network.output_kind is OutputKind.PROBABILITIES:
        together = np.isin(np.arange(outputs), places[0]).astype(np.float64)
        return ((body.build_margin(together, -threshold, 4 * network.roundoff * abs(threshold)),),)
    if classes > 2:
        raise Unreadable("a threshold on a softmax of more than two classes is no cut of one score")
    return _compare_outputs(body, places, _find_softmax_threshold(network, threshold))


def _compare_outputs(body: FoldedNetwork, places: ClassPositions, cut: ScoreThreshold) -> OutputAlternatives:
    """An alternative per desired class: its output is above every undesired one's, by what the cut says."""
    units = np.eye(len(body.output_errors))
    wanted, others = places
    return tuple(tuple(body.build_margin(units[d] - units[u], -cut.value, cut.error) for u in others) for d in wanted)


def _read_single_output(
    network: LibraryNetwork, body: FoldedNetwork, second: bool, threshold: float | None
) -> OutputMargin:
    """One output for two classes: positive, or above one half, for the second."""
    sign = np.full(1, 1.0 if second else -1.0)
    if network.output_kind is OutputKind.PROBABILITIES:
        level = 0.5 if threshold is None else threshold
        return body.build_margin(sign, -level if second else 1.0 - level, 4 * network.roundoff * (1 + abs(level)))
    if network.output_kind is OutputKind.SCORES:
        cut = ScoreThreshold() if threshold is None else _find_logistic_threshold(threshold, DOUBLE_ROUNDOFF)
    elif network.output_kind is OutputKind.LOGISTIC:
        cut = _find_logistic_threshold(0.5 if threshold is None else threshold, network.roundoff)
    else:
        raise Unreadable("a softmax of one output decides nothing")
    return body.build_margin(sign, -cut.value, cut.error)


def _find_logistic_threshold(threshold: float, unit: float) -> ScoreThreshold:
    """Where a probability passes a threshold, in log odds, if it is off by 2 FUNCTION_UNITS units."""
    return find_logit_threshold(threshold, 2 * FUNCTION_UNITS * unit / 16)


def _find_softmax_threshold(network: LibraryNetwork, threshold: float) -> ScoreThreshold:
    """The same for two outputs, where logarithms of probabilities may have been rounded before."""
    if network.output_kind is OutputKind.SOFTMAX:
        return _find_logistic_threshold(threshold, network.roundoff)
    cut = _find_logistic_threshold(threshold, DOUBLE_ROUNDOFF)
    if network.output_kind is OutputKind.SCORES:
        return cut
    size = 1.0 - math.log(threshold) - math.log1p(-threshold)
    return replace(cut, error=cut.error + 4.0 * FUNCTION_UNITS * network.roundoff * size)


def _find_exponential_threshold(threshold: float, unit: float) -> ScoreThreshold:
    if not MIN_EXPONENTIAL < threshold < 1 / MIN_EXPONENTIAL:
        raise Unreadable(f"a threshold of {threshold!r} on an exponential decides nothing, or too closely")
    place = math.log(threshold)
    return ScoreThreshold(place, 4.0 * FUNCTION_UNITS * unit + 4 * DOUBLE_ROUNDOFF * abs(place))
