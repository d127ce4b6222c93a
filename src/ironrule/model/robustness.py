"""What a rule must withstand: several versions of a model at once, and scores that may move.

A rule that must hold for several models holds where none of them gives the desired outcome: together they desire what
any of them desires. A rule that must hold although every score may move by a margin holds where no score comes within
the margin of the threshold: that is the same model with a lower threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.model.blackbox import BlackBox, build_black_box
from ironrule.model.decision import DecisionTarget, require_probability_threshold
from ironrule.space.codes import EncodedTable
from ironrule.space.space import Space
from ironrule.space.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class ModelSet:
    """Models that are asked together; ``primary`` is the first one as it is, whose decision is explained."""

    primary: BlackBox
    black_boxes: tuple[BlackBox, ...]
    model_count: int = 1  # how many models there are; one of them may be asked in two ways

    def desired(self, points: Points) -> BoolArray:
        """Which points some version desires, its threshold lowered by the margin."""
        return np.asarray(np.any([box.desired(points) for box in self.black_boxes], axis=0), dtype=np.bool_)

    def compute_outcomes(self, codes: EncodedTable, progress: bool | None = None) -> BoolArray:
        """Which rows of a history some version desires."""
        return np.asarray(
            np.any([box.compute_outcomes(codes, progress) for box in self.black_boxes], axis=0), dtype=np.bool_
        )


def build_model_set(models: Sequence[Any], table: Table, space: Space, target: DecisionTarget) -> ModelSet:
    """The models, checked, as they are asked."""
    require_probability_threshold(models[0], target.threshold)  # as it was given: a margin may move it anywhere
    own = build_black_box(models[0], table, space, target)
    if len(models) == 1 and target.margin == 0:
        return ModelSet(own, (own,))
    boxes = tuple(build_black_box(model, table, space, each) for model, each in list_targets(models, target))
    return ModelSet(own, boxes, len(models))


def list_targets(models: Sequence[Any], target: DecisionTarget) -> list[tuple[Any, DecisionTarget]]:
    """The models with the targets that they must withstand, the margin taken off the threshold. Classifiers that
    decide by their labels are asked for these too: labels need not be those of the largest probability.
    """
    lowered = [(model, DecisionTarget(target.desired, target.lower_threshold(model))) for model in models]
    labels_decide = target.margin and target.threshold is None
    by_labels = [(model, DecisionTarget(target.desired)) for model in models] if labels_decide else []
    return [*by_labels, *lowered]
