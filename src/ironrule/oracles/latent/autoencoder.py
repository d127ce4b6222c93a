"""Variational autoencoders (Kingma and Welling: "Auto-Encoding Variational Bayes", ICLR 2014) of past rows.

An encoder turns a row into a few latent numbers, a decoder turns these back, and both are fitted so that rows come back
much as they were while latent numbers are spread like standard normal ones. So a walk among latent numbers passes rows
that resemble past ones. Features whose role is immutable or protected are *conditions* (Sohn, Lee, Yan, NeurIPS 2015):
encoder and decoder are told them, and what is decoded keeps them.

Rows are vectors of the numeric encoding. Columns of 0 and 1 are decoded as probabilities, others as numbers.
An autoencoder is fitted when the first search needs it, and kept for later ones: what decides is what it learned.
A row with a value that was not seen before extends its domain, but past rows, and so the autoencoder, stay the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, IntpArray
from ironrule.oracles.heuristics.candidates import CandidateSearch, require_past_rows
from ironrule.oracles.latent.dense_network import (
    AutoencoderTraining,
    DenseNetwork,
    Gradients,
    ParameterDescent,
    apply_logistic,
    fit_in_batches,
    measure_divergence,
    measure_fit,
)
from ironrule.verdict.budget import Meter


class Autoencoder(Protocol):
    """From vectors of the numeric encoding to latent ones and back; a user may pass one."""

    def encode(self, vectors: Float64Array) -> Float64Array:
        """The latent vector of every row."""

    def decode(self, latents: Float64Array) -> Float64Array:
        """The row that every latent vector stands for."""

    def backpropagate(self, latents: Float64Array, gradients: Float64Array) -> Float64Array:
        """From the gradients of a loss at the decoded rows those at the latent vectors; only searches by gradients ask
        for them.
        """


@dataclass(frozen=True, slots=True, eq=False)
class VariationalAutoencoder:
    """A fitted encoder and decoder. ``free`` are the columns that are decoded, ``conditions`` those that are kept."""

    encoder: DenseNetwork
    decoder: DenseNetwork
    free: IntpArray
    conditions: IntpArray
    binary: BoolArray  # which of the free columns are decoded as probabilities
    deviation: float

    def compute_loss(self, vectors: Float64Array, noise: Float64Array) -> tuple[float, Gradients]:
        """The mean loss of some rows, with this noise on their latent numbers, and the gradients of all parameters."""
        count, width = noise.shape
        encoded = self.encoder.forward(vectors)
        means, log_variances = encoded.outputs[:, :width], encoded.outputs[:, width:]
        deviations = np.exp(0.5 * log_variances)
        latents = means + deviations * noise
        decoded = self.decoder.forward(np.hstack([latents, vectors[:, self.conditions]]))
        fit, fit_gradient = measure_fit(decoded.outputs, vectors[:, self.free], self.binary, self.deviation)
        divergence, mean_gradient, variance_gradient = measure_divergence(means, log_variances)
        decoder_gradients, input_gradient = self.decoder.backward(decoded, fit_gradient / count)
        latent_gradient = input_gradient[:, :width]
        mean_gradient = mean_gradient / count + latent_gradient
        variance_gradient = variance_gradient / count + latent_gradient * noise * 0.5 * deviations
        encoder_gradients, _ = self.encoder.backward(encoded, np.hstack([mean_gradient, variance_gradient]))
        return (fit + divergence) / count, [*encoder_gradients, *decoder_gradients]

    def bind(self, vector: Float64Array) -> BoundAutoencoder:
        """The same for one instance, whose conditions are kept."""
        return BoundAutoencoder(self, vector)


@dataclass(frozen=True, slots=True, eq=False)
class BoundAutoencoder:
    """An autoencoder for rows that have the conditions of one vector."""

    fitted: VariationalAutoencoder
    vector: Float64Array

    def encode(self, vectors: Float64Array) -> Float64Array:
        """The most likely latent vector of every row."""
        outputs = self.fitted.encoder.forward(vectors).outputs
        return outputs[:, : outputs.shape[1] // 2]

    def decode(self, latents: Float64Array) -> Float64Array:
        """The most likely row of every latent vector."""
        outputs = self.fitted.decoder.forward(self._add_conditions(latents)).outputs
        return fill_in(self.vector, self.fitted.free, np.where(self.fitted.binary, apply_logistic(outputs), outputs))

    def backpropagate(self, latents: Float64Array, gradients: Float64Array) -> Float64Array:
        """The gradients at the latent vectors of a loss with these gradients at the decoded rows."""
        decoded = self.fitted.decoder.forward(self._add_conditions(latents))
        shares = apply_logistic(decoded.outputs)
        slopes = np.where(self.fitted.binary, shares * (1.0 - shares), 1.0)
        _, inputs = self.fitted.decoder.backward(decoded, gradients[:, self.fitted.free] * slopes)
        return inputs[:, : latents.shape[1]]

    def _add_conditions(self, latents: Float64Array) -> Float64Array:
        own = self.vector[self.fitted.conditions]
        return np.hstack([latents, np.repeat(own[None, :], len(latents), axis=0)])


def fill_in(vector: Float64Array, columns: IntpArray, values: Float64Array) -> Float64Array:
    """A vector many times over, with other values in some of its columns."""
    vectors = np.repeat(vector[None, :], len(values), axis=0)
    vectors[:, columns] = values
    return vectors


def fit_autoencoder(
    vectors: Float64Array, binary: BoolArray, conditions: IntpArray, training: AutoencoderTraining, meter: Meter
) -> VariationalAutoencoder:
    """Learn rows; raises BudgetExhausted where the budget does not allow it."""
    rng = np.random.default_rng(training.seed)
    free = np.setdiff1d(np.arange(vectors.shape[1]), conditions)
    fitted = VariationalAutoencoder(
        DenseNetwork.draw(rng, vectors.shape[1], training.hidden, 2 * training.latent),
        DenseNetwork.draw(rng, training.latent + len(conditions), training.hidden, len(free)),
        free,
        conditions,
        binary=binary[free],
        deviation=training.deviation,
    )
    descent = ParameterDescent((fitted.encoder, fitted.decoder), training.rate)

    def take_step(rows: IntpArray) -> None:
        noise = rng.standard_normal((len(rows), training.latent))
        descent.step(fitted.compute_loss(vectors[rows], noise)[1])

    fit_in_batches(len(vectors), training, meter, take_step)
    return fitted


def prepare_autoencoder(
    given: Autoencoder | None, training: AutoencoderTraining, search: CandidateSearch, system: str
) -> Autoencoder:
    """The autoencoder that was given, or one that knows the past rows, for the instance at hand; raises InputError if
    there are none.
    """
    return fit_to_past_rows(search, training, system).bind(search.center) if given is None else given


def fit_to_past_rows(search: CandidateSearch, training: AutoencoderTraining, system: str) -> VariationalAutoencoder:
    """The autoencoder of a history, fitted if it was not before; raises InputError if there are no past rows."""
    require_past_rows(search.query.case, system)
    history, conditions, binary = search.query.case.history, list_condition_columns(search), search.encoding.binary
    rows = search.encoding.encode(history.codes.points(choose_past_rows(len(history), training)))
    return keep_fitted(
        ("variational", training, rows, conditions, binary),
        lambda: fit_autoencoder(rows, binary, conditions, training, search.run.meter),
    )


def list_condition_columns(search: CandidateSearch) -> IntpArray:
    """The columns of the features that must not change by their declared role."""
    roles = [feature.role for feature in search.query.case.space.features]
    return search.encoding.list_columns(
        np.flatnonzero([role is not None and role.kind != "actionable" for role in roles])
    )


def choose_past_rows(count: int, training: AutoencoderTraining) -> IntpArray:
    """The places of at most so many past rows, drawn at random."""
    if count <= training.rows:
        return np.arange(count)
    return np.sort(np.random.default_rng(training.seed).choice(count, training.rows, replace=False))


T = TypeVar("T")
MAX_FITTED = 8  # autoencoders that are kept, the latest ones
_FITTED: dict[str, Any] = {}


def keep_fitted(learned: Iterable[object], fit: Callable[[], T]) -> T:
    """What ``fit`` gives, called once for what is learned: arrays, and values whose text says all."""
    digest = hashlib.sha256()
    for one in learned:
        if isinstance(one, np.ndarray):
            digest.update(f"{one.shape} {one.dtype}".encode())
            digest.update(np.ascontiguousarray(one).data)
        else:
            digest.update(repr(one).encode())
    key = digest.hexdigest()
    if key not in _FITTED:
        fitted = fit()
        while len(_FITTED) >= MAX_FITTED:
            _FITTED.pop(next(iter(_FITTED)))
        _FITTED[key] = fitted
        return fitted
    return cast("T", _FITTED[key])
