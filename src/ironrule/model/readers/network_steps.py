"""From the steps of a network, as its library runs them, to the layers of the normal form.

A library runs more kinds of steps than a layer has: biases added on their own, scaling, batch normalisation, several
activations in a row. A factor and a shift for every unit are folded into the weights beside them, so that a layer is
left for every activation.

Folding keeps the value but not the rounding. Whatever comes out of a step is a sum over paths, products of one input or
constant with weights, and every path is rounded at most ``roundings`` times, by the library and by the folding
together, in whatever order the library works. So a sum is off by that many units of the sizes that meet in it (Higham,
"Accuracy and Stability of Numerical Algorithms", chapter 3). The normal form allows for 2 (n + 2) units of the inputs
and the bias with n inputs (:func:`ironrule.model.network.arithmetic_errors`); where paths are rounded more often, the
network's unit is taken larger. Constants that nearly cancel in a bias count by their own sizes, and so does underflow:
:attr:`Body.off` holds both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ironrule.model.network import Activation, Floats, Layer, Preference
from ironrule.model.reading import Unreadable

COVERED = 1.5  # roundings per input that the normal form allows for; it has 2, the rest is for higher orders
NORMALISING = 12  # of batch normalisation: the root and its inverse, twice over, the shift, two products and two sums
HALFWAY = 2.0**-40  # between the units of single and of double precision


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """``inputs @ weights + bias``, or with a factor per unit ``inputs * weights + bias``.

    ``sizes`` are those of the constants that meet in each bias, added up; ``roundings`` is how often a path from an
    input or a constant to the result is rounded.
    """

    weights: Floats
    bias: Floats
    sizes: Floats
    roundings: int

    @property
    def is_unitwise(self) -> bool:
        """Whether it has a factor per unit instead of a matrix."""
        return self.weights.ndim == 1

    @property
    def matrix(self) -> Floats:
        """The weights with a row per input."""
        return np.diag(self.weights) if self.is_unitwise else self.weights

    def then(self, other: Affine) -> Affine:
        """Both in one, where one of them has a factor per unit."""
        if len(self.bias) != len(other.weights):
            raise Unreadable(f"its layers do not fit together: {len(self.bias)} units meet {len(other.weights)}")
        weights = self.weights * other.weights if other.is_unitwise else (other.weights.T * self.weights).T
        return Affine(
            np.asarray(weights),
            other._linear(self.bias, other.weights) + other.bias,
            other._linear(self.sizes, np.abs(other.weights)) + other.sizes,
            self.roundings + other.roundings + 2,
        )

    def _linear(self, values: Floats, weights: Floats) -> Floats:
        return values * weights if self.is_unitwise else values @ weights


Step = Affine | Activation


def dense(weights: Floats, bias: Floats | None = None) -> Affine:
    """A matrix with a row per input, and a bias."""
    matrix = np.asarray(weights, dtype=np.float64)
    shift = np.zeros(matrix.shape[1]) if bias is None else np.asarray(bias, dtype=np.float64)
    return Affine(matrix, shift, np.abs(shift), len(matrix) + 1)


def unitwise(factor: Floats, shift: Floats, roundings: int) -> Affine:
    """A factor and a shift per unit."""
    factors, shifts = np.broadcast_arrays(np.asarray(factor, dtype=np.float64), np.asarray(shift, dtype=np.float64))
    return Affine(factors.copy(), shifts.copy(), np.abs(shifts), roundings)


def normalisation(mean: Floats, variance: Floats, factor: Floats, shift: Floats, epsilon: float) -> Affine:
    """``(inputs - mean) / sqrt(variance + epsilon) * factor + shift``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.asarray(factor, np.float64) / np.sqrt(np.asarray(variance, np.float64) + epsilon)
    moved = np.asarray(mean, np.float64) * scale
    return Affine(scale, shift - moved, np.abs(moved) + np.abs(shift), NORMALISING)


def leaky(slope: float) -> Activation:
    """A rectifier with a slope below zero; raises Unreadable unless it is from 0 to 1."""
    if not 0.0 <= slope <= 1.0:
        raise Unreadable(f"a leaky rectifier must have a slope from 0 to 1 below zero, got {slope!r}")
    return Activation("leaky", slope)


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """Layers, the unit of their arithmetic, and how far each of the last one's outputs may be off on top."""

    layers: tuple[Layer, ...]
    unit: float
    off: Floats

    def preference(self, coefficients: Floats, offset: float, error: float) -> Preference:
        """A margin over the outputs, its error with what the layers add."""
        total = error + float(np.abs(coefficients) @ self.off)
        if not np.isfinite(total):
            raise Unreadable("its weights are so large that its arithmetic overflows, or are no finite numbers")
        return Preference(coefficients, offset, total)


def body_of(steps: Sequence[Step], unit: float) -> Body:
    """The layers of these steps; the last one's activation is the identity."""
    pairs = _paired(_folded(steps))
    layers = tuple(Layer(affine.matrix, affine.bias, activation) for affine, activation in pairs)
    for layer, following in pairwise(layers):
        if len(layer.bias) != len(following.weights):
            raise Unreadable(f"its layers do not fit: {len(layer.bias)} units meet {len(following.weights)} weights")
    crowded = max(affine.roundings / (COVERED * (len(affine.weights) + 2)) for affine, _ in pairs)
    own = unit * max(1.0, crowded)
    return Body(layers, own, _off([affine for affine, _ in pairs], own))


def _folded(steps: Sequence[Step]) -> list[Step]:
    """The steps, factors and shifts per unit folded into the weights beside them; what does nothing is left out."""
    folded: list[Step] = []
    for step in steps:
        if isinstance(step, Activation) and step.kind == "identity":
            continue
        last = folded[-1] if folded else None
        if isinstance(step, Affine) and isinstance(last, Affine) and (step.is_unitwise or last.is_unitwise):
            folded[-1] = last.then(step)
        else:
            folded.append(step)
    return folded


def _paired(steps: Sequence[Step]) -> list[tuple[Affine, Activation]]:
    """Weights and the activation behind them; weights that change nothing where none came."""
    width = next((len(step.weights) for step in steps if isinstance(step, Affine)), 0)
    if width == 0:
        raise Unreadable("the network has no weights")
    pairs: list[tuple[Affine, Activation]] = []
    for step in steps:
        if isinstance(step, Affine):
            pairs.append((step, Activation()))
        elif pairs and pairs[-1][1].kind == "identity":
            pairs[-1] = (pairs[-1][0], step)
        else:
            pairs.append((_nothing(len(pairs[-1][0].bias) if pairs else width), step))
    if pairs[-1][1].kind != "identity":
        pairs.append((_nothing(len(pairs[-1][0].bias)), Activation()))
    return pairs


def _nothing(width: int) -> Affine:
    return unitwise(np.ones(width), np.zeros(width), 0)


def _off(affines: Sequence[Affine], unit: float) -> Floats:
    """How far the outputs may be off by constants that cancel, and by numbers too small for their type."""
    smallest = float(np.finfo(np.float32 if unit > HALFWAY else np.float64).tiny)
    off = np.full(len(affines[0].weights), smallest)
    with np.errstate(over="ignore", invalid="ignore"):
        for affine in affines:
            lost = 2.0 * affine.roundings * unit * np.maximum(affine.sizes - np.abs(affine.bias), 0.0)
            off = off @ np.abs(affine.matrix) + lost + (len(affine.weights) + 3) * smallest
    return off
