"""CLUE (Antoran, Bhatt, Adel, Weller, Hernandez-Lobato: "Getting a CLUE: A Method for Explaining Uncertainty
Estimates", ICLR 2021).

CLUE asks what would make the model certain, not what would change its mind. A latent vector of a variational
autoencoder is sought whose row minimises

    entropy of the prediction + distance_weight * distance,

where the distance is the sum of all changes from the instance, as shares of ranges. The row that it leads to is often
more certainly undesired than the instance. Only what the model gives the desired outcome is an answer here, so expect
none for most rows: it counts as a counterfactual system because comparisons of such systems include it.

The prediction is the probability 1 / (1 + exp(-score / scale)). A scale of 1 is right for scores that are log-odds; by
default it is the root of the mean squared score of past rows, so that scores of any kind will do. The model must give
scores or have been read as a network, or as a linear or additive model (:mod:`ironrule.oracles.heuristics.gradients`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ironrule.arrays import Float64Array, Points
from ironrule.oracles.heuristics.asked_points import AskedPoints, MeasureDistance, answer_query
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.descent import PermittedRange
from ironrule.oracles.heuristics.gradients import ScorePoints, build_point_score, build_score_gradient
from ironrule.oracles.heuristics.parameters import require_count, require_not_negative, require_positive
from ironrule.oracles.latent.autoencoder import Autoencoder, prepare_autoencoder
from ironrule.oracles.latent.dense_network import AutoencoderTraining, apply_logistic
from ironrule.oracles.latent.latent_descent import LatentLoss
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.verdict import Verdict

SCALE_ROWS = 200  # past rows whose scores say what the scale is


@dataclass(frozen=True, slots=True)
class CLUE:
    """Makes ``steps`` steps of at most ``rate``. An ``autoencoder`` takes the place of one that learns past rows."""

    distance_weight: float = 0.05
    steps: int = 300
    rate: float = 0.1
    scale: float | None = None
    training: AutoencoderTraining = field(default_factory=AutoencoderTraining)
    autoencoder: Autoencoder | None = None
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        require_not_negative(distance_weight=self.distance_weight)
        require_count(steps=self.steps)
        require_positive(rate=self.rate, **({} if self.scale is None else {"scale": self.scale}))

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k rows on the way that are counterfactuals, those of the least loss first; else ``Unrefuted``."""
        losses: dict[bytes, float] = {}

        def look(asked: AskedPoints) -> None:
            for points, passed in self.build_loss(asked.search).descend_and_ask(asked, self.steps, self.rate):
                for point, loss in zip(points, passed, strict=True):
                    losses[point.tobytes()] = min(loss, losses.get(point.tobytes(), loss))

        return answer_query(query, run, look, lambda _: _look_up_losses(losses))

    def build_loss(self, search: CandidateSearch) -> LatentLoss:
        """What is minimised for one query."""
        gradient = build_score_gradient(search)
        scale = self.scale or measure_scale(search, build_point_score(search.query.case, search.run))
        autoencoder = prepare_autoencoder(self.autoencoder, self.training, search, "CLUE")

        def measure(score: float) -> tuple[float, float]:
            entropy, slope = measure_entropy(score / scale)
            return entropy, slope / scale

        return LatentLoss(
            search,
            autoencoder,
            gradient,
            measure,
            distance_weight=self.distance_weight,
            permitted=PermittedRange.build(search),
        )


def _look_up_losses(losses: dict[bytes, float]) -> MeasureDistance:
    return lambda points: np.array([losses[point.tobytes()] for point in points])


def measure_entropy(log_odds: float) -> tuple[float, float]:
    """The entropy of a decision with these log-odds, in nats, and its derivative.

    >>> round(measure_entropy(0.0)[0], 4), round(measure_entropy(40.0)[0], 4)
    (0.6931, 0.0)
    """
    share = float(apply_logistic(np.array(log_odds)))
    return float(np.logaddexp(0.0, log_odds)) - share * log_odds, -share * (1.0 - share) * log_odds


def measure_scale(search: CandidateSearch, score_points: ScorePoints) -> float:
    """The root of the mean squared score of past rows that are feasible; 1 if there are none."""
    query, history = search.query, search.query.case.history
    places = np.unique(np.linspace(0, max(0, len(history) - 1), min(len(history), SCALE_ROWS)).astype(np.int64))
    rows: Points = history.codes.points(places)
    feasible = rows[query.box.contains(rows) & query.case.feasible.admits(rows)]
    scores: Float64Array = score_points(feasible) if len(feasible) else np.ones(1)
    return float(np.sqrt(np.mean(scores**2))) or 1.0
