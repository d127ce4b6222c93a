"""A network with one hidden layer, its gradients, and how it is fitted: what the autoencoders are made of.

Everything is NumPy: the networks are small, and so are the tables that they learn from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, IntpArray
from ironrule.errors import InputError, describe_value
from ironrule.oracles.heuristics.descent import Adam
from ironrule.oracles.heuristics.parameters import require_count, require_positive
from ironrule.verdict.budget import Meter

Gradients = list[Float64Array]


@dataclass(frozen=True, slots=True)
class AutoencoderTraining:
    """How a variational autoencoder learns past rows: its size, and how long it is fitted.

    ``latent`` numbers describe a row; encoder and decoder have ``hidden`` units each. Adam takes ``epochs`` passes over
    at most ``rows`` past rows, drawn with ``seed``, ``batch`` at a time, with steps of ``rate``. ``deviation`` is how
    far a number may be from what the decoder says, as a share of its range (one standard deviation).
    """

    latent: int = 8
    hidden: int = 32
    epochs: int = 40
    rows: int = 10_000
    batch: int = 64
    rate: float = 5e-3
    deviation: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        counts = ("latent", "hidden", "epochs", "rows", "batch")
        require_count(**{name: getattr(self, name) for name in counts})
        require_positive(rate=self.rate, deviation=self.deviation)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InputError(expected="seed must be 0 or a positive integer", got=describe_value(self.seed))


class ForwardPass(NamedTuple):
    """What a network answers for some inputs, and what its gradients need."""

    outputs: Float64Array
    inputs: Float64Array
    hidden: Float64Array


@dataclass(frozen=True, slots=True, eq=False)
class DenseNetwork:
    """Inputs, a hidden layer of rectified linear units, outputs."""

    parameters: tuple[Float64Array, Float64Array, Float64Array, Float64Array]

    @classmethod
    def draw(cls, rng: np.random.Generator, inputs: int, hidden: int, outputs: int) -> DenseNetwork:
        """One with random weights, such that signals neither grow nor shrink (He and others, 2015)."""
        first = rng.normal(0.0, math.sqrt(2.0 / max(1, inputs)), (inputs, hidden))
        second = rng.normal(0.0, math.sqrt(1.0 / hidden), (hidden, outputs))
        return cls((first, np.zeros(hidden), second, np.zeros(outputs)))

    def forward(self, inputs: Float64Array) -> ForwardPass:
        """The outputs for every row of inputs."""
        first, first_bias, second, second_bias = self.parameters
        hidden = np.maximum(inputs @ first + first_bias, 0.0)
        return ForwardPass(hidden @ second + second_bias, inputs, hidden)

    def backward(self, done: ForwardPass, gradient: Float64Array) -> tuple[Gradients, Float64Array]:
        """From the gradient of a loss with respect to the outputs those with respect to parameters and inputs."""
        first, _, second, _ = self.parameters
        hidden_gradient = (gradient @ second.T) * (done.hidden > 0.0)
        own = [
            done.inputs.T @ hidden_gradient,
            hidden_gradient.sum(axis=0),
            done.hidden.T @ gradient,
            gradient.sum(axis=0),
        ]
        return own, hidden_gradient @ first.T


class ParameterDescent:
    """Adam for all parameters of some networks."""

    __slots__ = ("_parameters", "_states")

    def __init__(self, networks: Iterable[DenseNetwork], rate: float) -> None:
        self._parameters = [one for network in networks for one in network.parameters]
        self._states = [Adam(rate) for _ in self._parameters]

    def step(self, gradients: Gradients) -> None:
        """Change the parameters, in place, against their gradients."""
        for state, one, gradient in zip(self._states, self._parameters, gradients, strict=True):
            one[...] = state.move(one, gradient)


def fit_in_batches(
    count: int, training: AutoencoderTraining, meter: Meter, take_step: Callable[[IntpArray], None]
) -> None:
    """Give ``take_step`` all of ``count`` rows in every epoch, some at a time; raises BudgetExhausted."""
    rng = np.random.default_rng(training.seed + 1)
    for _ in range(training.epochs):
        order = rng.permutation(count)
        for first in range(0, count, training.batch):
            meter.check()
            take_step(order[first : first + training.batch])


def measure_fit(
    outputs: Float64Array, targets: Float64Array, binary: BoolArray, deviation: float
) -> tuple[float, Float64Array]:
    """Minus the log-likelihood of targets, and its gradient: normal ones, and binary ones of which outputs are logits.

    Of normal ones constants are left out.
    """
    misses = (outputs - targets) / deviation
    losses = np.where(binary, np.logaddexp(0.0, outputs) - targets * outputs, 0.5 * misses**2)
    return float(losses.sum()), np.where(binary, apply_logistic(outputs) - targets, misses / deviation)


def apply_logistic(logits: Float64Array) -> Float64Array:
    """1 / (1 + exp(-logit)), for logits of any size."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))


def measure_divergence(
    means: Float64Array, log_variances: Float64Array, prior_means: Float64Array | float = 0.0
) -> tuple[float, Float64Array, Float64Array]:
    """The Kullback-Leibler divergence of normal distributions from ones of variance 1, and its gradients."""
    variances, away = np.exp(log_variances), means - prior_means
    loss = 0.5 * float((away**2 + variances - 1.0 - log_variances).sum())
    return loss, away, 0.5 * (variances - 1.0)
