"""Conditional subspace autoencoders (Klys, Snell, Zemel: "Learning Latent Subspaces in Variational Autoencoders",
NeurIPS 2018), for one attribute: the outcome.

What is latent has two parts. The *subspace* holds all that has to do with the outcome: it is spread around one place
for undesired rows and around another for desired ones. The *rest* holds all else. An adversary learns to tell the
outcome from the rest, and the encoder of the rest is fitted so that it stays as uncertain as can be. So a
row with another place in the subspace and the same rest is much the same row with what makes for another outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, IntpArray
from ironrule.oracles.heuristics.candidates import CandidateSearch, require_past_rows
from ironrule.oracles.latent.autoencoder import choose_past_rows, fill_in, keep_fitted, list_condition_columns
from ironrule.oracles.latent.dense_network import (
    AutoencoderTraining,
    DenseNetwork,
    ForwardPass,
    Gradients,
    ParameterDescent,
    apply_logistic,
    fit_in_batches,
    measure_divergence,
    measure_fit,
)
from ironrule.verdict.budget import Meter

DESIRED_PLACE = 3.0  # in every direction of the subspace; undesired rows are spread around 0, both with variance 1
ENTROPY_WEIGHT = 10.0  # of the adversary's uncertainty in the loss


class LatentDraw(NamedTuple):
    """Latent numbers that were drawn for some rows, and what their gradients need."""

    values: Float64Array
    encoded: ForwardPass
    means: Float64Array
    log_variances: Float64Array
    noise: Float64Array

    def pass_back(self, gradient: Float64Array, means: Float64Array, log_variances: Float64Array) -> Float64Array:
        """The gradient at the encoder's outputs: through the latent numbers, and of a loss of the outputs alone."""
        deviations = np.exp(0.5 * self.log_variances)
        return np.hstack([gradient + means, gradient * self.noise * 0.5 * deviations + log_variances])


def draw_latent(encoder: DenseNetwork, inputs: Float64Array, noise: Float64Array) -> LatentDraw:
    """Latent numbers as the encoder spreads them, with this noise."""
    encoded, width = encoder.forward(inputs), noise.shape[1]
    means, log_variances = encoded.outputs[:, :width], encoded.outputs[:, width:]
    return LatentDraw(means + np.exp(0.5 * log_variances) * noise, encoded, means, log_variances, noise)


@dataclass(frozen=True, slots=True, eq=False)
class SubspaceAutoencoder:
    """Encoders of the rest and of the subspace, a decoder of both, and the adversary, which sees the rest alone."""

    rest_encoder: DenseNetwork
    subspace_encoder: DenseNetwork
    decoder: DenseNetwork
    adversary: DenseNetwork
    free: IntpArray  # the columns that are decoded
    conditions: IntpArray  # those that are kept
    binary: BoolArray  # which of the free columns are decoded as probabilities
    deviation: float

    def compute_loss(
        self, vectors: Float64Array, desired: Float64Array, rest_noise: Float64Array, subspace_noise: Float64Array
    ) -> tuple[float, Gradients]:
        """The mean loss of rows with these outcomes, 0 or 1, and the gradients of encoders and decoder."""
        count, width = rest_noise.shape
        outcomes = desired[:, None]
        rest = draw_latent(self.rest_encoder, vectors, rest_noise)
        subspace = draw_latent(self.subspace_encoder, np.hstack([vectors, outcomes]), subspace_noise)
        decoded = self.decoder.forward(np.hstack([rest.values, subspace.values, vectors[:, self.conditions]]))
        told = self.adversary.forward(rest.values)
        fit, fit_gradient = measure_fit(decoded.outputs, vectors[:, self.free], self.binary, self.deviation)
        rest_loss, *rest_gradients = measure_divergence(rest.means, rest.log_variances)
        own_loss, *own_gradients = measure_divergence(subspace.means, subspace.log_variances, DESIRED_PLACE * outcomes)
        # Minus the entropy of what the adversary says: p * t - log(1 + exp(t)), whose derivative is p * (1 - p) * t.
        logits = told.outputs
        shares = apply_logistic(logits)
        certainty = float((shares * logits - np.logaddexp(0.0, logits)).sum())
        loss = (fit + rest_loss + own_loss + ENTROPY_WEIGHT * certainty) / count

        decoder_gradients, latent_gradient = self.decoder.backward(decoded, fit_gradient / count)
        certainty_gradient = ENTROPY_WEIGHT * shares * (1.0 - shares) * logits / count
        _, from_adversary = self.adversary.backward(told, certainty_gradient)
        rest_gradient = rest.pass_back(
            latent_gradient[:, :width] + from_adversary, *(one / count for one in rest_gradients)
        )
        own_end = width + subspace_noise.shape[1]
        own_gradient = subspace.pass_back(latent_gradient[:, width:own_end], *(one / count for one in own_gradients))
        rest_parameters, _ = self.rest_encoder.backward(rest.encoded, rest_gradient)
        own_parameters, _ = self.subspace_encoder.backward(subspace.encoded, own_gradient)
        return loss, [*rest_parameters, *own_parameters, *decoder_gradients]

    def compute_adversary_loss(
        self, vectors: Float64Array, desired: Float64Array, rest_noise: Float64Array
    ) -> tuple[float, Gradients]:
        """How badly the adversary tells the outcomes from the rest, and the gradients of its parameters."""
        told = self.adversary.forward(draw_latent(self.rest_encoder, vectors, rest_noise).values)
        outcomes = desired[:, None]
        loss, gradient = measure_fit(told.outputs, outcomes, np.ones(1, dtype=np.bool_), 1.0)
        return loss / len(vectors), self.adversary.backward(told, gradient / len(vectors))[0]

    def decode_desired(self, vector: Float64Array, places: Float64Array) -> Float64Array:
        """The rows with the rest of this vector, and its conditions, at places of the subspace."""
        outputs = self.rest_encoder.forward(vector[None, :]).outputs
        kept = np.append(outputs[0, : outputs.shape[1] // 2], vector[self.conditions])
        width = outputs.shape[1] // 2
        repeated = np.repeat(kept[None, :], len(places), axis=0)
        inputs = np.hstack([repeated[:, :width], places, repeated[:, width:]])
        decoded = self.decoder.forward(inputs).outputs
        return fill_in(vector, self.free, np.where(self.binary, apply_logistic(decoded), decoded))


def fit_subspace_autoencoder(
    vectors: Float64Array,
    desired: BoolArray,
    binary: BoolArray,
    conditions: IntpArray,
    *,
    subspace: int,
    training: AutoencoderTraining,
    meter: Meter,
) -> SubspaceAutoencoder:
    """Learn rows and their outcomes; raises BudgetExhausted where the budget does not allow it."""
    rng, width = np.random.default_rng(training.seed), vectors.shape[1]
    free, outcomes = np.setdiff1d(np.arange(width), conditions), desired.astype(np.float64)
    fitted = SubspaceAutoencoder(
        DenseNetwork.draw(rng, width, training.hidden, 2 * training.latent),
        DenseNetwork.draw(rng, width + 1, training.hidden, 2 * subspace),
        DenseNetwork.draw(rng, training.latent + subspace + len(conditions), training.hidden, len(free)),
        DenseNetwork.draw(rng, training.latent, training.hidden, 1),
        free=free,
        conditions=conditions,
        binary=binary[free],
        deviation=training.deviation,
    )
    parts = fitted.rest_encoder, fitted.subspace_encoder, fitted.decoder
    descent = ParameterDescent(parts, training.rate)
    adversary_descent = ParameterDescent((fitted.adversary,), training.rate)

    def take_step(rows: IntpArray) -> None:
        rest_noise = rng.standard_normal((len(rows), training.latent))
        own_noise = rng.standard_normal((len(rows), subspace))
        adversary_descent.step(fitted.compute_adversary_loss(vectors[rows], outcomes[rows], rest_noise)[1])
        descent.step(fitted.compute_loss(vectors[rows], outcomes[rows], rest_noise, own_noise)[1])

    fit_in_batches(len(vectors), training, meter, take_step)
    return fitted


def fit_to_past_outcomes(
    search: CandidateSearch, training: AutoencoderTraining, subspace: int, system: str
) -> SubspaceAutoencoder:
    """The subspace autoencoder of a history, fitted if it was not before; raises InputError without past rows."""
    require_past_rows(search.query.case, system)
    history, conditions, binary = search.query.case.history, list_condition_columns(search), search.encoding.binary
    places = choose_past_rows(len(history), training)
    rows, desired = search.encoding.encode(history.codes.points(places)), history.outcomes[places]

    def fit() -> SubspaceAutoencoder:
        return fit_subspace_autoencoder(
            rows, desired, binary, conditions, subspace=subspace, training=training, meter=search.run.meter
        )

    return keep_fitted(("subspace", subspace, training, rows, desired, conditions, binary), fit)
