"""The perturbation distribution of Anchor, and what is estimated from it: coverage and precision.

As in the authors' program and in alibi, a point is a past row, drawn at random, in which every feature that breaks the
rule gets a value drawn from the past values that do not. Where no past value does, it is the instance's own.

Under constraints, points that cannot occur are drawn again. If that fails too often, the point is drawn uniformly from
what can occur in the rule's box, and if even that fails it is the instance itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.oracles.protocol import Case
from ironrule.rule.bits import pack
from ironrule.rule.duals import distinct_duals, uncovered_counts
from ironrule.search.problem import Problem
from ironrule.space import Points

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
ROUNDS = 20  # how often a point that cannot occur is drawn again


@dataclass(slots=True, eq=False)
class Perturbation:
    """Draws points of rules' boxes for one case."""

    case: Case
    before: list[Places] = field(init=False)  # per feature and code, how many past rows have a lower one

    def __post_init__(self) -> None:
        self.before = [np.append(0, np.cumsum(counts)) for counts in self.case.history.frequencies]

    def draw(self, rng: np.random.Generator, rules: Sequence[int], each: int) -> Points:
        """``each`` points for every rule, rule by rule."""
        boxes = [self.case.relevant.box(rule) for rule in rules]
        low = np.repeat(np.stack([box.low for box in boxes]), each, axis=0)
        high = np.repeat(np.stack([box.high for box in boxes]), each, axis=0)
        points, left = np.empty_like(low), np.arange(len(low))
        for _ in range(ROUNDS):
            proposed = self._proposed(rng, low[left], high[left])
            occurring = self.case.feasible.admits(proposed)
            points[left[occurring]] = proposed[occurring]
            left = left[~occurring]
            if len(left) == 0:
                return points
        for place in np.unique(left // each):
            missing = left[left // each == place]
            points[missing] = self._anything(rng, boxes[place].low, boxes[place].high, len(missing))
        return points

    def _proposed(self, rng: np.random.Generator, low: Points, high: Points) -> Points:
        history = self.case.history
        points = history.codes.points(rng.integers(len(history), size=len(low)))
        outside = (points < low) | (points > high)
        for j in np.flatnonzero(outside.any(axis=0)).tolist():
            rows = np.flatnonzero(outside[:, j])
            points[rows, j] = self._values(rng, j, low[rows, j], high[rows, j])
        return points

    def _values(self, rng: np.random.Generator, j: int, low: Points, high: Points) -> Places:
        """Past values of a feature between bounds, each as often as it occurs."""
        before = self.before[j]
        first, end = before[low], before[high + 1]
        ranks = rng.integers(first, np.maximum(end, first + 1))
        codes = np.searchsorted(before, ranks, side="right") - 1
        return np.where(end > first, codes, self.case.instance[j])

    def _anything(self, rng: np.random.Generator, low: Points, high: Points, count: int) -> Points:
        uniform = self.case.feasible.draw(rng, low, high, count)
        return np.concatenate([uniform, np.repeat(self.case.instance[None, :], count - len(uniform), axis=0)])


@dataclass(slots=True, eq=False)
class Precisions:
    """How many points were drawn for every rule of one search, and how many of them were undesired."""

    problem: Problem
    perturbation: Perturbation = field(init=False)
    drawn: Counter[int] = field(default_factory=Counter)
    held: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.perturbation = Perturbation(self.problem.case)

    def draw(self, rules: Sequence[int], each: int) -> None:
        """Draw ``each`` points for every rule and ask the model about all of them at once."""
        if not rules:
            return
        problem = self.problem
        problem.meter.check(each * len(rules))
        points = self.perturbation.draw(problem.rng, rules, each)
        undesired = ~problem.meter.desired(problem.case.model, points)
        for rule, held in zip(rules, undesired.reshape(len(rules), each).sum(axis=1).tolist(), strict=True):
            self.drawn[rule] += each
            self.held[rule] += held

    def sizes(self, rules: Sequence[int]) -> Floats:
        """How many points were drawn for each."""
        return np.array([self.drawn[rule] for rule in rules], dtype=np.float64)

    def means(self, rules: Sequence[int]) -> Floats:
        """The share of undesired points of each, which must have been drawn for."""
        return np.array([self.held[rule] for rule in rules]) / self.sizes(rules)


@dataclass(slots=True, eq=False)
class Coverage:
    """The share of past rows that rules cover, estimated on a sample of them."""

    problem: Problem
    samples: int
    bits: npt.NDArray[np.uint64] = field(init=False)
    counts: Places = field(init=False)

    def __post_init__(self) -> None:
        case, rng = self.problem.case, self.problem.rng
        rows = case.history.codes.take(rng.integers(len(case.history), size=self.samples))
        past = distinct_duals(rows.columns, case.relevant.low, case.relevant.high)
        self.bits, self.counts = past.bits, past.counts

    def of(self, rules: Sequence[int]) -> list[float]:
        """The share that each covers."""
        covered = uncovered_counts(pack(rules, self.problem.n), self.bits, self.counts)
        shares: list[float] = (covered / self.samples).tolist()
        return shares
