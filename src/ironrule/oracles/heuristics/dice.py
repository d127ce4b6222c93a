"""DiCE (Mothilal, Sharma, Tan: "Explaining Machine Learning Classifiers through Diverse Counterfactual Explanations",
FAT* 2020): several counterfactuals that are near, and different from one another.

A set of counterfactuals is to be small in

    (mean shortfall of scores) + proximity_weight * (mean distance) - diversity_weight * (diversity),

where the distance is in units of the MAD and the diversity is the determinant of :mod:`.diversity`. There are three
ways to look for it, those of the authors' library:

* ``random``: values of one feature are drawn at random, then of two, and so on, until there are enough
  counterfactuals;
* ``genetic``: points that begin as past rows with the desired outcome, and at random, are crossed with one another;
  those that are counterfactuals, near and with few changes survive;
* ``gradient``: all of the set moves at once down that loss, by Adam, as in the paper. Between categories there is
  nothing, so afterwards numbers alone move, each point with its own categories.

From all counterfactuals that were seen, a diverse set is chosen one by one. Last, changes are undone that a
counterfactual does not need, the smallest first. The first two need answers alone, the third the gradient of
:mod:`.gradients`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from ironrule.arrays import Float64Array, Points
from ironrule.errors import InputError, describe_value
from ironrule.oracles.heuristics.asked_points import AskedPoints, draw_point
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.descent import Adam, PermittedRange
from ironrule.oracles.heuristics.diversity import MeanDistance, choose_diverse, compute_diversity
from ironrule.oracles.heuristics.gradients import ScoreGradient, build_score_gradient
from ironrule.oracles.heuristics.parameters import require_count, require_not_negative, require_positive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import Unrefuted, Verdict

DiceMethod = Literal["random", "genetic", "gradient"]
ASKED_EVERY = 10  # steps of a descent
ASKED_AT_ONCE = 10  # vectors on it
PATIENCE = 5  # generations without a better set, after which the genetic search ends
KEPT_SHARE = 0.4  # of the features that a child has from each parent; the others are drawn anew


@dataclass(frozen=True, slots=True)
class DiCE:
    """``samples`` points are drawn per number of features (random), or live at a time (genetic); the genetic search
    ends after ``generations``, the descent after ``steps`` with the learning rate ``learning_rate``.
    """

    method: DiceMethod = "random"
    proximity_weight: float = 0.5
    diversity_weight: float = 1.0
    sparsity_weight: float = 0.2
    samples: int = 1_000
    generations: int = 50
    steps: int = 300
    learning_rate: float = 0.02
    undo_changes: bool = True
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        if self.method not in get_args(DiceMethod):
            expected = f"method must be one of {', '.join(get_args(DiceMethod))}"
            raise InputError(expected=expected, got=describe_value(self.method))
        require_not_negative(
            proximity_weight=self.proximity_weight,
            diversity_weight=self.diversity_weight,
            sparsity_weight=self.sparsity_weight,
        )
        require_count(samples=self.samples, generations=self.generations, steps=self.steps)
        require_positive(learning_rate=self.learning_rate)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals that are near and differ, the nearest first; ``Unrefuted`` if none was found."""
        before, search = run.meter.evaluations, CandidateSearch.build(query, run)
        if search is None:
            return Unrefuted(tried=0, samples=0, confidence=0.0)
        asked, stopped = AskedPoints(search), None
        chosen: list[Points] = []
        try:
            if not asked.ask(search.start[None, :])[0] or query.k > 1:  # a box need not hold the instance
                {"random": self._draw, "genetic": self._breed, "gradient": self._descend}[self.method](asked)
            chosen = self._choose(asked)
            if self.undo_changes:
                undo_useless_changes(search, chosen)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            if not asked.found:
                raise
            stopped = name_stop(stop, run.meter)
            chosen = chosen or self._choose(asked)
        if not chosen:
            return Unrefuted(tried=run.meter.evaluations - before, samples=0, confidence=0.0)
        return replace(query.case.build_refuted(np.stack(chosen)), stopped=stopped)

    def _choose(self, asked: AskedPoints) -> list[Points]:
        """A diverse set of the counterfactuals that were seen."""
        if not asked.found:
            return []
        search = asked.search
        places = choose_diverse(
            MeanDistance.build(search),
            search.encoding.encode(np.stack(asked.found)),
            search.center,
            search.query.k,
            proximity_weight=self.proximity_weight,
            diversity_weight=self.diversity_weight,
        )
        return [asked.found[place] for place in places]

    def _draw(self, asked: AskedPoints) -> None:
        search, rng = asked.search, asked.run.rng
        free = np.flatnonzero([len(codes) > 1 for codes in search.codes])
        for count in range(1, len(free) + 1):
            points = np.repeat(search.start[None, :], self.samples, axis=0)
            # In every row so many features at random: those with the smallest of random numbers.
            order = rng.random((self.samples, len(free))).argpartition(count - 1, axis=1)[:, :count]
            drawn = draw_points(search, self.samples)
            rows = np.arange(self.samples)[:, None]
            points[rows, free[order]] = drawn[rows, free[order]]
            asked.ask(np.unique(points, axis=0))
            if len(asked.found) >= search.query.k:
                return

    def _breed(self, asked: AskedPoints) -> None:
        search, rng, distance = asked.search, asked.run.rng, MeanDistance.build(asked.search)
        # Half of the first generation are desired past rows, moved to what is permitted.
        past = asked.case.history.seeds
        if len(past) > self.samples // 2:
            past = past[np.sort(rng.choice(len(past), self.samples // 2, replace=False))]
        moved = search.encoding.decode_among(search.encoding.encode(past), search.codes)
        living = np.unique(np.concatenate([moved, draw_points(search, self.samples - len(past))]), axis=0)
        best, waited = np.inf, 0
        for _ in range(self.generations):
            losses = self._measure_losses(asked, distance, living)
            order = np.argsort(losses, kind="stable")[: max(self.samples // 2, 1)]
            living, top = living[order], float(losses[order][: search.query.k].sum())
            waited = 0 if top < best - 1e-9 else waited + 1
            best = min(best, top)
            if waited >= PATIENCE:
                return
            living = np.unique(np.concatenate([living, self._cross(search, living)]), axis=0)

    def _measure_losses(self, asked: AskedPoints, distance: MeanDistance, points: Points) -> Float64Array:
        """What points count in the genetic search: less is better, and no counterfactual is more than any."""
        search = asked.search
        losses = self.proximity_weight * distance.measure(search.encoding.encode(points), search.center)
        losses += self.sparsity_weight * (points != search.start).mean(axis=1)
        return np.where(asked.ask(points), losses, 1e9 + losses)

    def _cross(self, search: CandidateSearch, parents: Points) -> Points:
        """As many children as there may be: each feature is from either parent, or anew: drawn, or the instance's."""
        rng, count = search.run.rng, max(self.samples - len(parents), 1)
        first, second = (parents[rng.integers(len(parents), size=count)] for _ in range(2))
        fresh = np.where(rng.random((count, 1)) < 0.5, search.start[None, :], draw_points(search, count))
        kinds = rng.random((count, len(search.start)))
        return np.where(kinds < KEPT_SHARE, first, np.where(kinds < 2 * KEPT_SHARE, second, fresh)).astype(np.int32)

    def _descend(self, asked: AskedPoints) -> None:
        search, whole, distance = asked.search, PermittedRange.build(asked.search), MeanDistance.build(asked.search)
        gradient = build_score_gradient(search)
        if len(search.columns) == 0:
            return
        random = [search.encoding.encode(draw_point(search)[None, :])[0] for _ in range(search.query.k)]
        vectors = self._descend_within(asked, distance, gradient, np.stack(random), [whole] * len(random))
        ends = search.encoding.decode_among(vectors, search.codes)
        self._descend_within(asked, distance, gradient, vectors, [whole.fix_categories(search, end) for end in ends])

    def _descend_within(
        self,
        asked: AskedPoints,
        distance: MeanDistance,
        gradient: ScoreGradient,
        vectors: Float64Array,
        ranges: Sequence[PermittedRange],
    ) -> Float64Array:
        """Move all vectors down the loss, each within its range, and ask about some on the way; where they end."""
        ends = vectors

        def pass_by() -> Iterator[Float64Array]:
            nonlocal ends
            for step, ends in enumerate(self._move(asked, distance, gradient, vectors, ranges)):
                if step % ASKED_EVERY == 0 or step == self.steps:
                    yield from ends

        asked.ask_way(pass_by(), at_once=ASKED_AT_ONCE)
        return ends

    def _move(
        self,
        asked: AskedPoints,
        distance: MeanDistance,
        gradient: ScoreGradient,
        vectors: Float64Array,
        ranges: Sequence[PermittedRange],
    ) -> Iterator[Float64Array]:
        """All vectors before the first step down the loss, and after each."""
        center, count, adam = asked.search.center, len(vectors), Adam(self.learning_rate)
        low, high = np.stack([one.low for one in ranges]), np.stack([one.high for one in ranges])
        unit = abs(gradient.evaluate(center).score) or 1.0
        yield (vectors := np.clip(vectors, low, high))
        for _ in range(self.steps):
            asked.run.meter.check()
            slopes = self.proximity_weight / count * np.sign(vectors - center) * distance.weights
            slopes -= self.diversity_weight * compute_diversity(distance, vectors)[1]
            gradient.prepare(list(vectors))
            for place, vector in enumerate(vectors):
                score, slope = gradient.evaluate(vector)
                if score / unit < 1.0:  # a hinge: as far beyond the threshold as the row is before it
                    slopes[place] -= slope / unit / count
            yield (vectors := np.clip(adam.move(vectors, slopes), low, high))


def draw_points(search: CandidateSearch, count: int) -> Points:
    """Points of permitted codes at random."""
    drawn = [codes[search.run.rng.integers(len(codes), size=count)] for codes in search.codes]
    return np.stack(drawn, axis=1).astype(np.int32)


def undo_useless_changes(search: CandidateSearch, chosen: list[Points]) -> None:
    """Undo changes that counterfactuals do not need, in place; one that would become another stays as it is."""
    for place, point in enumerate(chosen):
        sparse = search.undo_changes(point)
        if not any(np.array_equal(sparse, other) for other in chosen):
            chosen[place] = sparse
