"""Models between a space and the part of it that searches work in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Points
from ironrule.model.protocol import Model, ScoringModel
from ironrule.space.reduced import ReducedSpace

MAX_EMBEDDED_CODES = 1 << 25  # that are laid out for the model at once


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedModel:
    """Decides points of a reduced space by a model of the whole one; all other features are as in ``others``."""

    model: Model
    reduced: ReducedSpace
    others: Points

    def desired(self, points: Points) -> BoolArray:
        """Which points have the desired outcome."""
        return np.concatenate([self.model.desired(part) for part in _embed_parts(points, self.reduced, self.others)])


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedScores:
    """The scores of points of a reduced space by a model of the whole one; all other features are as in ``others``."""

    model: ScoringModel
    reduced: ReducedSpace
    others: Points

    def scores(self, points: Points) -> Float64Array:
        """How close points are to the desired outcome."""
        return np.concatenate([self.model.scores(part) for part in _embed_parts(points, self.reduced, self.others)])


def _embed_parts(points: Points, reduced: ReducedSpace, others: Points) -> Iterator[Points]:
    """The points in the whole space, some at a time."""
    rows = max(1, MAX_EMBEDDED_CODES // len(reduced.whole))
    for start in range(0, max(1, len(points)), rows):
        yield reduced.embed(points[start : start + rows], others)


@dataclass(frozen=True, slots=True, eq=False)
class ReducedModel:
    """Decides points of a space by a model that sees some of their features alone."""

    model: Model
    reduced: ReducedSpace

    def desired(self, points: Points) -> BoolArray:
        """Which points have the desired outcome."""
        return self.model.desired(self.reduced.reduce(points))


def embed_model(model: Model, reduced: ReducedSpace, others: Points) -> Model:
    """The model for points of the reduced space."""
    if isinstance(model, ReducedModel) and model.reduced is reduced:
        return model.model
    return model if reduced.is_whole else EmbeddedModel(model, reduced, others)


def lift_model(model: Model, reduced: ReducedSpace) -> Model:
    """A model of the reduced space for points of the whole one."""
    return model if reduced.is_whole else ReducedModel(model, reduced)
