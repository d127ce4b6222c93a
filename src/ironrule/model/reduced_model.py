"""Models between a space and the part of it that searches work in."""

from __future__ import annotations

from dataclasses import dataclass

from ironrule.arrays import BoolArray, Points
from ironrule.model.protocol import Model
from ironrule.space.reduced import ReducedSpace


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedModel:
    """Decides points of a reduced space by a model of the whole one; all other features are as in ``others``."""

    model: Model
    reduced: ReducedSpace
    others: Points

    def desired(self, points: Points) -> BoolArray:
        """Which points have the desired outcome."""
        return self.model.desired(self.reduced.embed(points, self.others))


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
    return model if reduced.is_whole else EmbeddedModel(model, reduced, others)


def lift_model(model: Model, reduced: ReducedSpace) -> Model:
    """A model of the reduced space for points of the whole one."""
    return model if reduced.is_whole else ReducedModel(model, reduced)
