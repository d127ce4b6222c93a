"""What a scikit-learn estimator computes before it decides, and the decision that follows.

Every reader of this library first gives the scores of an estimator and says what becomes of them (``Outputs``), so that
votes and calibrations can be read with their members. ``decide`` turns scores into the margins of a question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from ironrule.checker.readings.cuts import DOUBLE
from ironrule.checker.readings.decisions import (
    TINY,
    Score,
    exponential_above,
    logistic_above,
    softmax_above,
    subtract,
)
from ironrule.checker.readings.normal_form import (
    ALWAYS,
    NEVER,
    Link,
    Margin,
    Part,
    Question,
    SumReading,
    Tree,
    Unreadable,
)

FINEST = 2.0**-20  # the finest grid that is looked for


Kind = Literal["number", "exponential", "logistic", "huber", "softmax", "shares", "labels"]


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """The scores of an estimator and what becomes of them.

    ``number``, ``exponential``: a regression predicts the score, or exp(score).
    ``logistic``, ``huber``: one score; the second class's probability is the logistic function of slope * score, or
    (score + 1) / 2 between 0 and 1. ``softmax``: a score per class. ``shares``: the scores are the probabilities.
    ``labels``: there are scores (one, or one per class) and no probabilities.

    Numbers and shares are the scores divided by ``total``. Where ``grid`` is positive, all scores are multiples of it
    and the library adds them up without rounding. ``noise`` is the relative error of the function.
    """

    kind: Kind
    scores: tuple[Score, ...]
    noise: float = 8 * DOUBLE
    slope: float = 1.0
    total: float = 1.0
    grid: float = 0.0

    @property
    def classes(self) -> int:
        """The number of classes."""
        return max(2, len(self.scores))

    def mean(self, place: int = 0) -> Score:
        """A score divided by the total."""
        return self.scores[place] if self.total == 1.0 else self.scores[place].scale(1.0 / self.total)


def find_grid(values: Iterable[float], total: float) -> float:
    """A power of two of which all values are multiples, so that sums up to the total are exact; 0.0 without one.

    >>> find_grid([0.0, 1.0, 0.25], 100.0), find_grid([0.1], 1.0)
    (0.25, 0.0)
    """
    numbers = np.unique(np.fromiter(values, np.float64))
    grid = 1.0
    while grid >= FINEST:
        if np.all(numbers / grid == np.floor(numbers / grid)):
            return grid if total / grid < 2.0**50 else 0.0
        grid /= 2.0
    return 0.0


def decide(outputs: Outputs, question: Question) -> SumReading:
    """When the answer to the question is the desired one."""
    if question.wanted and question.threshold is None:
        return _decide_label(outputs, question)
    threshold = question.threshold
    if threshold is None or not math.isfinite(threshold):
        raise Unreadable(f"a finite threshold is expected, got {threshold!r}")
    match outputs.kind:
        case "number":
            return SumReading(((_quotient_above(outputs, outputs.scores[0], threshold),),))
        case "exponential":
            return exponential_above(outputs.scores[0], threshold, outputs.noise)
        case "logistic":
            first = question.wanted[0] == 0
            return logistic_above(outputs.scores[0], threshold, outputs.noise, outputs.slope, first=first)
        case "huber":
            return _huber_above(outputs, question.wanted[0], threshold)
        case "softmax":
            return softmax_above(outputs.scores, question.wanted, threshold, outputs.noise)
        case "shares":
            chosen = [outputs.scores[place] for place in question.wanted]
            return SumReading(((_quotient_above(outputs, add(chosen), threshold, len(chosen)),),))
    raise Unreadable("it has no probabilities that a threshold could be held against")


def add(scores: Sequence[Score]) -> Score:
    """The sum of scores."""
    return reduce(lambda total, score: subtract(total, score.negate()), scores)


def gap(outputs: Outputs, good: int, bad: int) -> Score:
    """A score that is positive where one class is preferred to another; at exact ties the first class is."""
    if len(outputs.scores) == 1:
        return outputs.scores[0] if good else outputs.scores[0].negate()
    difference = subtract(outputs.scores[good], outputs.scores[bad])
    if outputs.grid:  # sums on a grid are exact, and quotients of different ones differ: only equal ones tie
        lead = outputs.grid / 2 if good < bad else -outputs.grid / 2
        return Score(lead, difference.trees, (), outputs.grid / 4, 0.0, difference.reach)
    # dividing by the total rounds each share once, so that shares may tie whose sums do not
    error = difference.error + (4 * DOUBLE * outputs.total if outputs.kind == "shares" else 0.0)
    return Score(difference.offset, difference.trees, difference.terms, error, difference.relative, difference.reach)


def _decide_label(outputs: Outputs, question: Question) -> SumReading:
    others = [place for place in range(outputs.classes) if place not in question.wanted]
    return SumReading(
        tuple(tuple(gap(outputs, good, bad).margin_above(0.0, TINY) for bad in others) for good in question.wanted)
    )


def _quotient_above(outputs: Outputs, score: Score, threshold: float, addends: int = 1) -> Margin:
    """The margin by which score / total is above the threshold."""
    total, grid = outputs.total, outputs.grid
    if grid and addends == 1 and abs(threshold) * total / grid < 2.0**50:
        # the library's quotient rises with the sum, so it passes the threshold between two neighbours on the grid
        step = math.floor(threshold * total / grid) - 2
        while not step * grid / total > threshold:
            step += 1
        return Margin(-(step - 0.5) * grid, (Part(score.trees),), grid / 4)
    # the quotient is rounded, and so is every sum of quotients
    error = 4 * (addends + 1) * DOUBLE * abs(threshold) * total + TINY * total
    return score.margin_above(threshold * total, error)


def _huber_above(outputs: Outputs, wanted: int, threshold: float) -> SumReading:
    if threshold < 0.0 or threshold >= 1.0:
        return ALWAYS if threshold < 0.0 else NEVER
    score = outputs.scores[0] if wanted else outputs.scores[0].negate()
    # clip(s, -1, 1) + 1, its half and one less that are rounded once each, at numbers of at most 2
    return SumReading(((score.margin_above(2.0 * threshold - 1.0, 4 * outputs.noise),),))


def decide_leaves(tree: Tree, shares: Sequence[Sequence[float]], question: Question) -> SumReading:
    """What one tree decides, given the values of every node (class probabilities, or one predicted number).

    Every leaf has one decision, which is known exactly: 1.0 or -1.0, or 0.0 where the order in which three or more
    probabilities are added up could matter.
    """
    decisions = np.zeros(len(tree.left))
    for node in np.flatnonzero(tree.left < 0).tolist():
        decisions[node] = _decide_leaf(shares[node], question)
    leaves = decisions[tree.left < 0]
    error = 0.5 if np.any(leaves == 0.0) else 0.0
    return SumReading(((Margin(0.0, (Part((Tree(tree.splits, tree.left, tree.right, decisions),)),), error),),))


def _decide_leaf(shares: Sequence[float], question: Question) -> float:
    if question.threshold is None:
        return 1.0 if int(np.argmax(shares)) in question.wanted else -1.0
    chosen = [float(shares[place]) for place in question.wanted or (0,)]
    lead = math.fsum(chosen) - question.threshold
    if len(chosen) > 2 and abs(lead) <= 4 * len(chosen) * DOUBLE * (1.0 + abs(question.threshold)):
        return 0.0
    return 1.0 if sum(chosen) > question.threshold else -1.0


def mix_above(members: Sequence[tuple[float, Outputs]], place: int, threshold: float, rounding: float) -> SumReading:
    """Desired where the weighted mean of the members' probabilities of one of two classes is above the threshold; the
    mean itself is rounded by at most ``rounding``.
    """
    weight = math.fsum(share for share, _ in members)
    if threshold < -rounding or threshold > 1.0 + rounding:
        return ALWAYS if threshold < 0.0 else NEVER
    parts: list[Part] = []
    offset, error, relative = -threshold * weight, weight * (rounding + 8 * DOUBLE), 0.0
    for share, outputs in members:
        if outputs.kind == "shares":
            score = outputs.mean(place).scale(share)
            parts.append(Part(score.trees, score.terms))
            offset, error, relative = offset + score.offset, error + score.error, max(relative, score.relative)
        elif outputs.kind == "logistic" or (outputs.kind == "softmax" and outputs.classes == 2):
            score = gap(outputs, place, 1 - place)
            slope = outputs.slope
            parts.append(Part(score.trees, score.terms, Link("logistic", share, slope, slope * score.offset)))
            # a logistic function is nowhere steeper than a quarter of its slope
            steep = share * slope / 4
            sizes = abs(score.offset) + sum(float(np.abs(tree.value).max()) for tree in score.trees)
            error += steep * (score.error + (score.relative + 4 * DOUBLE) * sizes) + 2 * share * outputs.noise
            relative = max(relative, steep * (score.relative + 4 * DOUBLE))
        else:
            raise Unreadable(f"probabilities of the kind {outputs.kind!r} cannot be averaged in this form")
    return SumReading(((Margin(offset, tuple(parts), error, relative),),))
