"""REVISE (Joshi, Koyejo, Vijitbenjaronk, Kim, Ghosh: "Towards Realistic Individual Recourse and Actionable Explanations
in Black-Box Decision Making Systems", 2019).

Wachter's search in the latent space of a variational autoencoder: a latent vector is sought whose row minimises

    weight * (score - target)^2 + distance,

where the distance is the sum of all changes from the instance, as shares of ranges. The way goes down the gradient,
through the decoder, so that it passes rows that resemble past ones. The weight grows until a row on the way is a
counterfactual. The score is in units of how far the instance is from the threshold, so that weights mean the same for
every model.

With an autoencoder that changes nothing this is Wachter's search among the rows themselves. The model must give scores
or have been read as a network, or as a linear or additive model (:mod:`ironrule.oracles.heuristics.gradients`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ironrule.errors import InputError, describe_value
from ironrule.oracles.heuristics.asked_points import AskedPoints, MeasureDistance, answer_query
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.descent import PermittedRange
from ironrule.oracles.heuristics.gradients import build_score_gradient
from ironrule.oracles.heuristics.parameters import require_count, require_positive
from ironrule.oracles.latent.autoencoder import Autoencoder, prepare_autoencoder
from ironrule.oracles.latent.dense_network import AutoencoderTraining
from ironrule.oracles.latent.latent_descent import LatentLoss
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.verdict import Verdict


@dataclass(frozen=True, slots=True)
class REVISE:
    """``target`` is a share of the row's distance from the threshold: so far beyond it the score is to come.

    The weight begins at ``weight`` and grows by the factor ``growth``, ``rounds`` times at the most; each time so many
    ``steps`` of at most ``rate`` are made. An ``autoencoder`` takes the place of one that learns the past rows.
    """

    target: float = 0.1
    weight: float = 1.0
    growth: float = 4.0
    rounds: int = 5
    steps: int = 150
    rate: float = 0.1
    training: AutoencoderTraining = field(default_factory=AutoencoderTraining)
    autoencoder: Autoencoder | None = None
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        require_positive(target=self.target, weight=self.weight, growth=self.growth, rate=self.rate)
        require_count(rounds=self.rounds, steps=self.steps)
        if self.growth <= 1.0:
            raise InputError(expected="growth must be a number greater than 1", got=describe_value(self.growth))

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals, nearest first; ``Unrefuted`` if no row on the way is one."""
        return answer_query(query, run, self._look, measure_change)

    def _look(self, asked: AskedPoints) -> None:
        search = asked.search
        gradient = build_score_gradient(search)
        unit = abs(gradient.evaluate(search.center).score) or 1.0
        if asked.is_settled():
            return
        autoencoder = prepare_autoencoder(self.autoencoder, self.training, search, "REVISE")
        for weight in (self.weight * self.growth**turn for turn in range(self.rounds)):

            def measure(score: float, weight: float = weight) -> tuple[float, float]:
                missed = score / unit - self.target
                return weight * missed**2, 2.0 * weight * missed / unit

            loss = LatentLoss(
                search, autoencoder, gradient, measure, distance_weight=1.0, permitted=PermittedRange.build(search)
            )
            for _ in loss.descend_and_ask(asked, self.steps, self.rate):
                pass  # all that is found counts
            if len(asked.found) >= search.query.k:
                return


def measure_change(search: CandidateSearch) -> MeasureDistance:
    """The sum of all changes from the instance, as shares of ranges."""
    return lambda points: np.abs(search.encoding.encode(points) - search.center).sum(axis=1)
