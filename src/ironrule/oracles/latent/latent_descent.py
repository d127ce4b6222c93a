"""The way down a loss among latent vectors: what searches by gradients in the latent space of an autoencoder share.

The loss at a latent vector is that of the row which it is decoded to: a function of the model's score there, plus the
weighted sum of all changes from the instance. The row is kept within what is permitted: features that may not change
stay as they are, numbers stay within their range, and the gradient goes no further there. Adam's steps become shorter
towards the end, so that the corners of the distance, where a change is 0, are met closely.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ironrule.arrays import Float64Array, Points
from ironrule.oracles.heuristics.asked_points import BATCH_VECTORS, AskedPoints, round_outwards
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.descent import Adam, PermittedRange
from ironrule.oracles.heuristics.gradients import ScoreGradient, SlopedScore
from ironrule.oracles.latent.autoencoder import Autoencoder

ScoreLoss = Callable[[float], tuple[float, float]]  # of a score: the loss, and its derivative


@dataclass(frozen=True, slots=True, eq=False)
class LatentLoss:
    """The loss of latent vectors for one query."""

    search: CandidateSearch
    autoencoder: Autoencoder
    gradient: ScoreGradient
    score_loss: ScoreLoss
    distance_weight: float
    permitted: PermittedRange

    def evaluate(self, latent: Float64Array) -> tuple[Float64Array, SlopedScore]:
        """The row that a latent vector stands for, its loss, and the gradient of that at the latent vector."""
        decoded = self.autoencoder.decode(latent[None, :])[0]
        vector, low, high = self.permitted.clip(decoded), self.permitted.low, self.permitted.high
        score, slope = self.gradient.evaluate(vector)
        loss, derivative = self.score_loss(score)
        change = vector - self.search.center
        down = derivative * slope + self.distance_weight * np.sign(change)
        # What would lead out of the range leads nowhere.
        leaves = ((decoded >= high) & (down < 0.0)) | ((decoded <= low) & (down > 0.0)) | (low == high)
        gradients = np.where(leaves, 0.0, down)[None, :]
        total = loss + self.distance_weight * float(np.abs(change).sum())
        return vector, SlopedScore(total, self.autoencoder.backpropagate(latent[None, :], gradients)[0])

    def descend_and_ask(self, asked: AskedPoints, steps: int, rate: float) -> Iterator[tuple[Points, list[float]]]:
        """The points on the way down, many at a time, with their losses; about each the model has been asked.

        Numbers are rounded to the nearest, and away from the instance: the nearest may fall short of where a row is.
        """
        way = self.descend(steps, rate)
        # A pipeline takes as long for one point as for many.
        while passed := list(itertools.islice(way, BATCH_VECTORS)):
            vectors = np.stack([vector for vector, _ in passed])
            nearest = self.search.encoding.decode_among(vectors, self.search.codes)
            pairs = zip(vectors, nearest, strict=True)
            points = np.concatenate([nearest, [round_outwards(self.search, *pair) for pair in pairs]])
            asked.ask(points)
            yield points, 2 * [loss for _, loss in passed]

    def descend(self, steps: int, rate: float) -> Iterator[tuple[Float64Array, float]]:
        """The rows on the way down from the instance's own latent vector, with their losses."""
        latent = self.autoencoder.encode(self.search.center[None, :])[0]
        adam = Adam(rate)
        for step in range(steps):
            self.search.run.meter.check()
            vector, here = self.evaluate(latent)
            yield vector, here.score
            adam.learning_rate = rate * (1.0 - step / steps)
            latent = adam.move(latent, here.gradient)
