"""Wachter (Wachter, Mittelstadt, Russell: "Counterfactual Explanations without Opening the Black Box", Harvard Journal
of Law and Technology 2018).

A vector is sought that minimises

    weight * (score - target)^2 + distance,

where the distance is the sum of all changes, each in units of the feature's median absolute deviation (MAD). The weight
grows until the vector stands for a counterfactual. The paper leaves the way down open; here it is FISTA, since the
distance has a corner at the row's own values: changes that are not worth their distance stay exactly 0. For a linear
model the only change is thus in the feature whose slope, times its MAD, is largest.

The score is in units of how far the row is from the threshold, so that weights mean the same for every model. The
gradient is that of :mod:`.gradients`: a model must have been read as a network or as a linear or additive model, or it
must give scores. Where scores are constant between jumps, as those of trees, there are few slopes to follow.

Between categories there is nothing, and half of each may have the score that is sought. As in the paper, descents are
then repeated with all categories fixed, so that numbers alone change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ironrule.arrays import Float64Array
from ironrule.errors import InputError, describe_value
from ironrule.oracles.heuristics.asked_points import AskedPoints, answer_query, draw_point
from ironrule.oracles.heuristics.descent import ChangePenalty, PermittedRange, build_score_loss, descend
from ironrule.oracles.heuristics.distances import MadDistance
from ironrule.oracles.heuristics.gradients import ScoreGradient, build_score_gradient
from ironrule.oracles.heuristics.parameters import require_count, require_positive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Wachter:
    """``target`` is a share of the row's distance from the threshold: so far beyond it the score is to come.

    The weight begins at ``weight`` and grows by the factor ``growth``, ``rounds`` times at the most; each time up to
    ``steps`` steps are made. Where that finds too few counterfactuals, there are ``starts`` more attempts in which
    categories stay as they are: the first with those at the end of the way so far, the others from random points.
    """

    target: float = 0.1
    weight: float = 0.1
    growth: float = 4.0
    rounds: int = 10
    steps: int = 100
    starts: int = 5
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        require_positive(target=self.target, weight=self.weight, growth=self.growth)
        require_count(rounds=self.rounds, steps=self.steps, starts=self.starts)
        if self.growth <= 1.0:
            raise InputError(expected="growth must be a number greater than 1", got=describe_value(self.growth))

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals, nearest first; ``Unrefuted`` if no vector on the way stands for one."""
        return answer_query(query, run, self._look, MadDistance.build)

    def _look(self, asked: AskedPoints) -> None:
        search = asked.search
        gradient = build_score_gradient(search)
        if asked.is_settled():
            return
        whole = PermittedRange.build(search)
        weights = [self.weight * self.growth**turn for turn in range(self.rounds)]
        last = self._follow(asked, gradient, whole, search.center, weights)
        for start in range(self.starts):
            if len(asked.found) >= search.query.k:
                return
            point = draw_point(search) if start else search.encoding.decode_among(last[None, :], search.codes)[0]
            numbers = whole.fix_categories(search, point)
            if start:  # from far away, where the weight falls as long as the way ends at a counterfactual
                away = search.encoding.encode(point[None, :])[0]
                self._follow(asked, gradient, numbers, away, weights[::-1])
            else:
                self._follow(asked, gradient, numbers, search.center, weights)

    def _follow(
        self,
        asked: AskedPoints,
        gradient: ScoreGradient,
        permitted: PermittedRange,
        start: Float64Array,
        weights: Sequence[float],
    ) -> Float64Array:
        """Go on with one weight after another: growing ones until counterfactuals are found, falling ones as long as
        the way ends at one; the vector where that ends.
        """
        is_falling = weights[-1] < weights[0]
        for weight in weights:
            before = len(asked.found)
            end = asked.ask_way(self.descend_with(weight, gradient, asked, permitted, start))
            start = start if end is None else end.vector  # the next weight goes on from here
            if is_falling and (end is None or not end.reached):
                break
            if not is_falling and len(asked.found) > before:
                break
        return start

    def descend_with(
        self,
        weight: float,
        gradient: ScoreGradient,
        asked: AskedPoints,
        permitted: PermittedRange,
        start: Float64Array,
    ) -> Iterator[Float64Array]:
        """The vectors on the way to the least loss with a given weight."""
        search = asked.search

        def miss_target(score: float) -> tuple[float, float]:
            missed = score - self.target
            return weight * missed**2, 2.0 * weight * missed

        loss = build_score_loss(search, gradient, miss_target)
        penalty = ChangePenalty(search.center, MadDistance.build(search).weights, permitted)
        return descend(loss, penalty, start, self.steps, gradient.prepare)
