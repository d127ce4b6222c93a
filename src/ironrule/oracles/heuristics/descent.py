"""Ways down a loss over vectors of the numeric encoding, within the permitted values.

FISTA (Beck and Teboulle, "A Fast Iterative Shrinkage-Thresholding Algorithm", SIAM Journal on Imaging Sciences 2009) is
for a smooth loss plus a weighted sum of absolute changes: a gradient step on the loss, then every change is shrunk
towards 0, so that many changes stay exactly 0. Steps are halved until the loss falls as much as its slope promises;
momentum is dropped where it leads astray (O'Donoghue and Candes, "Adaptive Restart for Accelerated Gradient Schemes",
2015). Adam (Kingma and Ba, ICLR 2015) is for losses that are smooth, or nearly so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ironrule.arrays import Float64Array, Points
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.gradients import ScoreGradient, SlopedScore

MAX_HALVINGS = 60
PREPARED_HALVINGS = 3  # steps that are prepared together where the first was too long
PLAIN_RATE = 0.1  # of a step whose length is not sought
SETTLED = 1e-6  # a step shorter than this, in every column, is the last

Loss = Callable[[Float64Array], SlopedScore]
Prepare = Callable[[Sequence[Float64Array]], None]  # what is to be known of vectors, all together
ScoreTerm = Callable[[float], tuple[float, float]]  # of a score: a term of the loss, and its derivative


def build_score_loss(
    search: CandidateSearch, gradient: ScoreGradient, term: ScoreTerm, square_weight: float = 0.0
) -> Loss:
    """A term of the score, in units of how far the row's own score is from the threshold, plus the weighted sum of
    squared changes.
    """
    unit = abs(gradient.evaluate(search.center).score) or 1.0

    def measure(vector: Float64Array) -> SlopedScore:
        search.run.meter.check()
        score, slope = gradient.evaluate(vector)
        (value, derivative), change = term(score / unit), vector - search.center
        total = value + square_weight * float(change @ change)
        return SlopedScore(total, derivative / unit * slope + 2.0 * square_weight * change)

    return measure


@dataclass(frozen=True, slots=True, eq=False)
class PermittedRange:
    """For every column the smallest and the largest permitted number; features that may not change have one."""

    low: Float64Array
    high: Float64Array

    @classmethod
    def build(cls, search: CandidateSearch) -> PermittedRange:
        """The range of one query."""
        tables = [table[codes] for table, codes in zip(search.encoding.tables, search.codes, strict=True)]
        low, high = (np.concatenate([end(table, axis=0) for table in tables]) for end in (np.min, np.max))
        return cls(low, high)

    def clip(self, vector: Float64Array) -> Float64Array:
        """The nearest vector in the range."""
        return np.asarray(np.clip(vector, self.low, self.high))

    def fix_categories(self, search: CandidateSearch, point: Points) -> PermittedRange:
        """The range in which only numbers change; categories, and what is missing, are as in a point."""
        encoding, own = search.encoding, search.encoding.encode(point[None, :])[0]
        low, high = self.low.copy(), self.high.copy()
        for j, (start, end) in enumerate(pairwise(encoding.starts.tolist())):
            # A missing number stays missing; of one that is there, the first column may change.
            is_number = encoding.ordered[j] and (end - start == 1 or own[start + 1] == 0.0)
            low[start + is_number : end] = high[start + is_number : end] = own[start + is_number : end]
        return PermittedRange(low, high)


@dataclass(frozen=True, slots=True, eq=False)
class ChangePenalty:
    """A weighted sum of absolute changes from a vector, within a range."""

    center: Float64Array
    weights: Float64Array
    permitted: PermittedRange

    def shrink(self, vector: Float64Array, step: float) -> Float64Array:
        """The vector that minimises the penalty, times the step, plus half the squared distance from this one."""
        change = vector - self.center
        shorter = np.sign(change) * np.maximum(np.abs(change) - step * self.weights, 0.0)
        return self.permitted.clip(self.center + shorter)


def ignore(_: Sequence[Float64Array]) -> None:
    """Nothing is to be prepared for a loss that does not ask the model."""


Descent = Callable[[Loss, ChangePenalty, Float64Array, int], Iterator[Float64Array]]


def descend(
    loss: Loss, penalty: ChangePenalty, start: Float64Array, steps: int, prepare: Prepare = ignore
) -> Iterator[Float64Array]:
    """The vectors that FISTA comes by from a start, until it settles or has made so many steps.

    ``prepare`` is told of vectors that the loss is likely to be asked about next: where a step ends together with where
    the next one begins, and several halved steps together.
    """
    step, momentum = 1.0, 1.0
    last = ahead = penalty.permitted.clip(start)
    for _ in range(steps):
        here = loss(ahead)
        for turn in range(MAX_HALVINGS):
            new = penalty.shrink(ahead - step * here.gradient, step)
            if turn == 0:
                prepare([new, _look_ahead(new, last, momentum, penalty)[0]])
            elif turn % PREPARED_HALVINGS == 1:
                halved = (step / 2.0**more for more in range(PREPARED_HALVINGS))
                prepare([penalty.shrink(ahead - each * here.gradient, each) for each in halved])
            moved = new - ahead
            promised = here.score + float(here.gradient @ moved) + float(moved @ moved) / (2.0 * step)
            if loss(new).score <= promised + 1e-12 * abs(promised):
                break
            step /= 2.0
        else:  # the loss falls nowhere near as its gradient says
            return
        yield new
        if np.abs(new - last).max(initial=0.0) <= SETTLED and np.abs(moved).max(initial=0.0) <= SETTLED:
            return
        if float((ahead - new) @ (new - last)) > 0.0:
            momentum = 1.0
        ahead, momentum = _look_ahead(new, last, momentum, penalty)
        last = new


def _look_ahead(
    new: Float64Array, last: Float64Array, momentum: float, penalty: ChangePenalty
) -> tuple[Float64Array, float]:
    """Where the next step begins: beyond the end of this one, by the momentum; and the momentum after it."""
    following = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
    return penalty.permitted.clip(new + (momentum - 1.0) / following * (new - last)), following


def descend_by_fixed_steps(
    loss: Loss, penalty: ChangePenalty, start: Float64Array, steps: int, rate: float = PLAIN_RATE
) -> Iterator[Float64Array]:
    """The vectors that FISTA comes by with steps of a length that is set beforehand and shrinks as a square root, as in
    the program of CEM's authors.

    A loss with jumps promises nothing by its slope, so that no step is short enough for :func:`descend`; this goes on.
    """
    last = ahead = penalty.permitted.clip(start)
    for turn in range(steps):
        length = rate * math.sqrt(1.0 - turn / steps)
        new = penalty.shrink(ahead - length * loss(ahead).gradient, length)
        yield new
        ahead, last = penalty.permitted.clip(new + turn / (turn + 3.0) * (new - last)), new


@dataclass(slots=True, eq=False)
class Adam:
    """The state of Adam: averages of past gradients and of their squares."""

    learning_rate: float
    mean: Float64Array = field(default_factory=lambda: np.zeros(()))
    square: Float64Array = field(default_factory=lambda: np.zeros(()))
    steps: int = 0

    def move(self, vector: Float64Array, gradient: Float64Array) -> Float64Array:
        """The vector after one step against a gradient."""
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean, square = self.mean / (1.0 - 0.9**self.steps), self.square / (1.0 - 0.999**self.steps)
        return np.asarray(vector - self.learning_rate * mean / (np.sqrt(square) + 1e-8))
