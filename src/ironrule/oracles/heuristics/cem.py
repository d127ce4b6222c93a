"""CEM, the contrastive explanation method (Dhurandhar, Chen, Luss, Tu, Ting, Shanmugam, Das: "Explanations Based on the
Missing: Towards Contrastive Explanations with Pertinent Negatives", NeurIPS 2018): pertinent negatives.

The smallest change is sought that gives the desired outcome. It minimises

    c * max(0, kappa - score) + beta * (sum of absolute changes) + (sum of squared changes),

an elastic net, by FISTA. The constant c is sought as in the paper: it grows tenfold until the change gives the desired
outcome, and is then halved in between. The paper's autoencoder, which keeps changes near past rows, is optional there
and left out here. The corner of the first term is rounded off over half of kappa, so that the way down settles.

The score is in units of how far the row is from the threshold. Its gradient is that of :mod:`.gradients`: a model must
have been read as a network or as a linear or additive model, or it must give scores. Where no vector stands for a
counterfactual, since it lies between categories, numbers alone change, with the categories at the end of that way.
Steps are as long as the loss falls as its slope promises. If that leads to nothing, as on trees, whose score has jumps
and no slopes, their lengths are set beforehand, as in the authors' program. If that leads to nothing either, while the
score did not change near a point in some features but did in others, each feature takes the shortest step that shows a
change, so that a slope which leads nowhere does not hide a jump in another feature that is farther off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from ironrule.arrays import Float64Array, Points
from ironrule.oracles.heuristics.asked_points import AskedPoints, MeasureDistance, answer_query
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.descent import (
    ChangePenalty,
    Descent,
    PermittedRange,
    build_score_loss,
    descend,
    descend_by_fixed_steps,
)
from ironrule.oracles.heuristics.gradients import DifferenceGradient, ScoreGradient, build_score_gradient
from ironrule.oracles.heuristics.parameters import require_count, require_not_negative, require_positive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.verdict import Verdict


@dataclass(frozen=True, slots=True)
class CEM:
    """``beta`` weighs absolute changes against squared ones; ``kappa``, a share of the row's distance from the
    threshold, is how far beyond it the score is to come.

    ``c`` is the first constant; ``searches`` constants are tried, each with up to ``steps`` steps.
    """

    beta: float = 0.1
    kappa: float = 0.1
    c: float = 1.0
    searches: int = 9
    steps: int = 100
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        require_not_negative(beta=self.beta)
        require_positive(kappa=self.kappa, c=self.c)
        require_count(searches=self.searches, steps=self.steps)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals, those of the smallest changes first; ``Unrefuted`` if no constant has led to one."""
        return answer_query(query, run, self._look, self._build_distance)

    def _build_distance(self, search: CandidateSearch) -> MeasureDistance:
        """The elastic net of points."""

        def measure(points: Points) -> Float64Array:
            changes = search.encoding.encode(points) - search.center
            return np.asarray(self.beta * np.abs(changes).sum(axis=1) + (changes**2).sum(axis=1))

        return measure

    def _look(self, asked: AskedPoints) -> None:
        search = asked.search
        gradient = build_score_gradient(search)
        if asked.is_settled():
            return
        whole = PermittedRange.build(search)
        self._search_numbers_too(asked, gradient, whole, partial(descend, prepare=gradient.prepare))
        if not asked.found:  # the score may have jumps, as that of trees
            self._search_numbers_too(asked, gradient, whole, descend_by_fixed_steps)
        if not asked.found and isinstance(gradient, DifferenceGradient) and gradient.has_flat_columns:
            each = replace(gradient, each_column=True, known={})
            self._search_numbers_too(asked, each, whole, descend_by_fixed_steps)

    def _search_numbers_too(
        self, asked: AskedPoints, gradient: ScoreGradient, permitted: PermittedRange, way: Descent
    ) -> None:
        """Try constants, and where none has led to a counterfactual try them again while numbers alone change."""
        last, search = self._search_constant(asked, gradient, permitted, way), asked.search
        if not asked.found:
            end = search.encoding.decode_among(last[None, :], search.codes)[0]
            self._search_constant(asked, gradient, permitted.fix_categories(search, end), way)

    def _search_constant(
        self, asked: AskedPoints, gradient: ScoreGradient, permitted: PermittedRange, way: Descent
    ) -> Float64Array:
        """Ask about all that is on the ways with several constants; the vector where the last of them ends."""
        constant, too_small, large_enough = self.c, 0.0, np.inf
        last = asked.search.center
        for _ in range(self.searches):
            end = asked.ask_way(self.descend_with(constant, gradient, asked, permitted, way))
            last = last if end is None else end.vector
            if end is not None and end.reached:
                large_enough = constant
            else:
                too_small = constant
            constant = 10.0 * constant if np.isinf(large_enough) else (too_small + large_enough) / 2.0
        return last

    def descend_with(
        self,
        constant: float,
        gradient: ScoreGradient,
        asked: AskedPoints,
        permitted: PermittedRange,
        way: Descent = descend,
    ) -> Iterator[Float64Array]:
        """The vectors on the way to the least loss with a given constant."""
        search, rounded = asked.search, self.kappa / 2.0

        def fall_short(score: float) -> tuple[float, float]:
            missed = max(self.kappa - score, 0.0)
            share = min(missed / rounded, 1.0)  # of the slope that the term has away from its corner
            loss = missed - rounded / 2.0 if missed > rounded else share * missed / 2.0
            return constant * loss, -constant * share

        loss = build_score_loss(search, gradient, fall_short, square_weight=1.0)
        penalty = ChangePenalty(search.center, np.full(search.encoding.width, self.beta), permitted)
        return way(loss, penalty, search.center, self.steps)
