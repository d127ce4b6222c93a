"""What a scikit-learn estimator computes before it decides, and the decision that follows.

Every reader of this library first gives the scores of an estimator and says what becomes of them (SklearnOutputs), so
that votes and calibrations can be read with their members, whatever reader reads those (read_outputs). decide_outputs
turns scores into the margins of a target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

import numpy as np

from ironrule.checker.readers import decisions, normal_form, registry
from ironrule.checker.readers.decisions import UNDERFLOW, ScoreSum, subtract_scores
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, EstimatorTarget, NoReading, SumForm, SumMargin

FINEST_GRID = 2.0**-20  # the finest grid that is looked for
OutputKind = Literal["number", "exponential", "logistic", "huber", "softmax", "shares", "labels"]


@dataclass(frozen=True, slots=True, eq=False)
class SklearnOutputs:
    """The scores of an estimator and what becomes of them.

    ``number``, ``exponential``: a regression predicts the score, or exp(score).
    ``logistic``, ``huber``: one score; the second class's probability is the logistic function of slope * score, or
    (score + 1) / 2 between 0 and 1. ``softmax``: a score per class. ``shares``: the scores are the probabilities.
    ``labels``: there are scores (one, or one per class) and no probabilities.

    Numbers and shares are the scores divided by ``total``. Where ``grid`` is positive, all scores are multiples of it
    and the library adds them up without rounding. ``noise`` is the relative error of the function.
    """

    kind: OutputKind
    scores: tuple[ScoreSum, ...]
    noise: float = 8 * DOUBLE_ROUNDOFF
    slope: float = 1.0
    total: float = 1.0
    grid: float = 0.0

    @property
    def classes(self) -> int:
        """The number of classes."""
        return max(2, len(self.scores))

    def get_mean_score(self, place: int = 0) -> ScoreSum:
        """A score divided by the total."""
        return self.scores[place] if self.total == 1.0 else self.scores[place].scale(1.0 / self.total)


def find_grid(values: Iterable[float], total: float) -> float:
    """A power of two of which all values are multiples, so that sums up to the total are exact; 0.0 without one.

    >>> find_grid([0.0, 1.0, 0.25], 100.0), find_grid([0.1], 1.0)
    (0.25, 0.0)
    """
    numbers = np.unique(np.fromiter(values, np.float64))
    grid = 1.0
    while grid >= FINEST_GRID:
        if np.all(numbers / grid == np.floor(numbers / grid)):
            return grid if total / grid < 2.0**50 else 0.0
        grid /= 2.0
    return 0.0


def decide_outputs(outputs: SklearnOutputs, target: EstimatorTarget) -> SumForm:
    """When the estimator's answer is the desired one."""
    if target.desired_classes and target.threshold is None:
        return _decide_label(outputs, target)
    threshold = target.threshold
    if threshold is None or not math.isfinite(threshold):
        raise NoReading(f"a finite threshold is expected, got {threshold!r}")
    match outputs.kind:
        case "number":
            return SumForm(((_build_quotient_margin(outputs, outputs.scores[0], threshold),),))
        case "exponential":
            return decisions.decide_exponential(outputs.scores[0], threshold, outputs.noise)
        case "logistic":
            first = target.desired_classes[0] == 0
            return decisions.decide_logistic(outputs.scores[0], threshold, outputs.noise, outputs.slope, first=first)
        case "huber":
            return _decide_huber(outputs, target.desired_classes[0], threshold)
        case "softmax":
            return decisions.decide_softmax(outputs.scores, target.desired_classes, threshold, outputs.noise)
        case "shares":
            chosen = [outputs.scores[place] for place in target.desired_classes]
            return SumForm(((_build_quotient_margin(outputs, add_scores(chosen), threshold, len(chosen)),),))
    raise NoReading("it has no probabilities that a threshold could be held against")


def add_scores(scores: Sequence[ScoreSum]) -> ScoreSum:
    """The sum of scores."""
    return reduce(lambda total, score: subtract_scores(total, score.negate()), scores)


def build_preference_score(outputs: SklearnOutputs, good: int, bad: int) -> ScoreSum:
    """A score that is positive where one class is preferred to another; at exact ties the first class is."""
    if len(outputs.scores) == 1:
        return outputs.scores[0] if good else outputs.scores[0].negate()
    difference = subtract_scores(outputs.scores[good], outputs.scores[bad])
    if outputs.grid:  # sums on a grid are exact, and quotients of different ones differ: only equal ones tie
        lead = outputs.grid / 2 if good < bad else -outputs.grid / 2
        return ScoreSum(lead, difference.trees, error=outputs.grid / 4, size_bound=difference.size_bound)
    # dividing by the total rounds each share once, so that shares may tie whose sums do not
    error = difference.error + (4 * DOUBLE_ROUNDOFF * outputs.total if outputs.kind == "shares" else 0.0)
    return replace(difference, error=error)


def _decide_label(outputs: SklearnOutputs, target: EstimatorTarget) -> SumForm:
    def lead(good: int, bad: int) -> SumMargin:
        return build_preference_score(outputs, good, bad).build_margin_above(0.0, UNDERFLOW)

    return SumForm(normal_form.compare_classes(lead, target.desired_classes, outputs.classes))


def _build_quotient_margin(outputs: SklearnOutputs, score: ScoreSum, threshold: float, addends: int = 1) -> SumMargin:
    """The margin by which score / total is above the threshold."""
    total, grid = outputs.total, outputs.grid
    if grid and addends == 1 and abs(threshold) * total / grid < 2.0**50:
        # the library's quotient rises with the sum, so it passes the threshold between two neighbours on the grid
        step = math.floor(threshold * total / grid) - 2
        while not step * grid / total > threshold:
            step += 1
        return SumMargin(-(step - 0.5) * grid, (normal_form.MarginPart(score.trees),), grid / 4)
    # the quotient is rounded, and so is every sum of quotients
    error = 4 * (addends + 1) * DOUBLE_ROUNDOFF * abs(threshold) * total + UNDERFLOW * total
    return score.build_margin_above(threshold * total, error)


def _decide_huber(outputs: SklearnOutputs, wanted: int, threshold: float) -> SumForm:
    if threshold < 0.0 or threshold >= 1.0:
        return normal_form.ALWAYS_DESIRED if threshold < 0.0 else normal_form.NEVER_DESIRED
    score = outputs.scores[0] if wanted else outputs.scores[0].negate()
    # clip(s, -1, 1) + 1, its half and one less that are rounded once each, at numbers of at most 2
    return SumForm(((score.build_margin_above(2.0 * threshold - 1.0, 4 * outputs.noise),),))


def decide_leaves(tree: normal_form.RegressionTree, shares: list[list[float]], target: EstimatorTarget) -> SumForm:
    """What one tree decides, given the values of every node (class probabilities, or one predicted number).

    Every leaf has one decision, which is known exactly: 1.0 or -1.0, or 0.0 where the order in which three or more
    probabilities are added up could matter.
    """
    leaves = np.flatnonzero(tree.left < 0)
    outcomes = np.zeros(len(tree.left))
    outcomes[leaves] = [_decide_leaf(shares[node], target) for node in leaves.tolist()]
    error = 0.5 if np.any(outcomes[leaves] == 0.0) else 0.0
    return SumForm(((SumMargin(0.0, (normal_form.MarginPart((replace(tree, value=outcomes),)),), error),),))


def _decide_leaf(shares: Sequence[float], target: EstimatorTarget) -> float:
    if target.threshold is None:
        return 1.0 if int(np.argmax(shares)) in target.desired_classes else -1.0
    chosen = [float(shares[place]) for place in target.desired_classes or (0,)]
    lead = math.fsum(chosen) - target.threshold
    if len(chosen) > 2 and abs(lead) <= 4 * len(chosen) * DOUBLE_ROUNDOFF * (1.0 + abs(target.threshold)):
        return 0.0
    return 1.0 if sum(chosen) > target.threshold else -1.0


def decide_mixture(
    members: Sequence[tuple[float, SklearnOutputs]], place: int, threshold: float, rounding: float
) -> SumForm:
    """Desired where the weighted mean of the members' probabilities of one of two classes is above the threshold; the
    mean itself is rounded by at most ``rounding``.
    """
    weight = math.fsum(share for share, _ in members)
    if threshold < -rounding or threshold > 1.0 + rounding:
        return normal_form.ALWAYS_DESIRED if threshold < 0.0 else normal_form.NEVER_DESIRED
    parts: list[normal_form.MarginPart] = []
    offset, error, relative = -threshold * weight, weight * (rounding + 8 * DOUBLE_ROUNDOFF), 0.0
    for share, outputs in members:
        if outputs.kind == "shares":
            score = outputs.get_mean_score(place).scale(share)
            parts.append(normal_form.MarginPart(score.trees, score.terms))
            offset, error, relative = offset + score.offset, error + score.error, max(relative, score.relative_error)
        elif outputs.kind == "logistic" or (outputs.kind == "softmax" and outputs.classes == 2):
            score = build_preference_score(outputs, place, 1 - place)
            slope = outputs.slope
            link = normal_form.LinkFunction("logistic", share, slope, slope * score.offset)
            parts.append(normal_form.MarginPart(score.trees, score.terms, link))
            # a logistic function is nowhere steeper than a quarter of its slope
            steep, own = share * slope / 4, score.relative_error + 4 * DOUBLE_ROUNDOFF
            error += steep * (score.error + own * score.size) + 2 * share * outputs.noise
            relative = max(relative, steep * own)
        else:
            raise NoReading(f"probabilities of the kind {outputs.kind!r} cannot be averaged in this form")
    return SumForm(((SumMargin(offset, tuple(parts), error, relative),),))


OUTPUT_READERS = (  # what the class's name begins with, and the module and function that give its outputs
    (registry.ENSEMBLES, "sklearn_ensembles.read_ensemble_outputs"),
    (registry.TREES, "sklearn_trees.read_tree_outputs"),
    (("",), "sklearn_additive.read_additive_outputs"),
)


def read_outputs(estimator: Any) -> SklearnOutputs:
    """The outputs of an estimator or an ensemble; raises NoReading where nothing is known of it."""
    reader = next(reader for beginnings, reader in OUTPUT_READERS if type(estimator).__name__.startswith(beginnings))
    outputs: SklearnOutputs | None = registry.load_reader(reader)(estimator)
    if outputs is None:
        raise NoReading(f"a member of the class {type(estimator).__name__} cannot be read")
    return outputs
