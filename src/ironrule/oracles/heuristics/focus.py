"""FOCUS (Lucic, Oosterhuis, Haned, de Rijke: "FOCUS: Flexible Optimizable Counterfactual Explanations for Tree
Ensembles", AAAI 2022).

Trees have no gradient, so they are made smooth: each split becomes a sigmoid, each vote of a tree a logistic function
(:mod:`.smooth_trees`). Adam goes down the loss

    (the smooth score's shortfall, as long as the outcome is undesired) + beta * (Euclidean distance),

in which the first term counts only as long as the true model denies the point that stands for the vector. So the way
leads across the threshold, and then back and forth; the nearest counterfactual on it is the answer. A model must have
been read as a sum of trees. The score is in units of how far the row's smooth score is from the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ironrule.model.protocol import Unreadable
from ironrule.oracles.heuristics.asked_points import AskedPoints, answer_query
from ironrule.oracles.heuristics.descent import Adam, PermittedRange
from ironrule.oracles.heuristics.feature_sums import raise_unsuitable, require_tree_sum
from ironrule.oracles.heuristics.feature_tweak import build_euclidean_distance
from ironrule.oracles.heuristics.parameters import require_count, require_not_negative, require_positive
from ironrule.oracles.heuristics.smooth_trees import SmoothSum, build_smooth_sum
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.verdict import Verdict


@dataclass(frozen=True, slots=True)
class FOCUS:
    """``sharpness`` is how steep the sigmoids of splits are, over a feature's range, and ``vote_steepness`` those of
    votes. Adam makes ``steps`` steps with the learning rate ``learning_rate``; ``beta`` weighs the distance.
    """

    sharpness: float = 10.0
    vote_steepness: float = 5.0
    beta: float = 0.1
    learning_rate: float = 0.01
    steps: int = 500
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        require_positive(sharpness=self.sharpness, vote_steepness=self.vote_steepness, learning_rate=self.learning_rate)
        require_not_negative(beta=self.beta)
        require_count(steps=self.steps)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals on the way, nearest first; ``Unrefuted`` if it leads to none."""
        return answer_query(query, run, self._look, build_euclidean_distance)

    def _look(self, asked: AskedPoints) -> None:
        search, permitted = asked.search, PermittedRange.build(asked.search)
        smooth = self._build_smooth_sum(asked)
        unit = abs(smooth.evaluate(search.center).score) or 1.0
        vector, adam = search.center, Adam(self.learning_rate)
        for _ in range(self.steps):
            away = vector - search.center
            gradient = self.beta * away / (float(np.linalg.norm(away)) or 1.0)
            if not asked.ask_vector(vector):
                gradient = gradient - smooth.evaluate(vector).gradient / unit
            vector = permitted.clip(adam.move(vector, gradient))

    def _build_smooth_sum(self, asked: AskedPoints) -> SmoothSum:
        form, read = require_tree_sum(asked.case, "FOCUS")
        if not any(group.trees for group in form.groups):
            raise_unsuitable("FOCUS", "a sum without trees", "trees")
        try:
            return build_smooth_sum(form, read, asked.search.encoding, self.sharpness, self.vote_steepness)
        except Unreadable as reason:
            raise_unsuitable("FOCUS", str(reason), "trees")
