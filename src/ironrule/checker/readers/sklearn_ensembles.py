"""Ensembles of scikit-learn over other estimators: AdaBoost and bagging of trees, and votes over what can be read."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.checker.readers import normal_form, sklearn_outputs
from ironrule.checker.readers.decisions import UNDERFLOW, ScoreSum, measure_tree
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, EstimatorTarget, NoReading, SumForm, SumMargin
from ironrule.checker.readers.registry import identify_class
from ironrule.checker.readers.sklearn_outputs import SklearnOutputs, decide_outputs, read_outputs
from ironrule.checker.readers.sklearn_trees import SINGLE_TREES, SklearnTree, average_trees, read_single_tree


def read_sklearn_ensembles(estimator: Any, target: EstimatorTarget) -> SumForm | None:
    """The reading of AdaBoost, bagging or a vote; None for everything else."""
    if identify_class("sklearn", estimator) == "VotingClassifier":
        return _read_vote(estimator, target)
    outputs = read_ensemble_outputs(estimator)
    return None if outputs is None else decide_outputs(outputs, target)


def read_ensemble_outputs(estimator: Any) -> SklearnOutputs | None:
    """What an ensemble computes before it decides; None for everything else."""
    match identify_class("sklearn", estimator):
        case "AdaBoostClassifier":
            return _read_adaboost(estimator)
        case "BaggingClassifier" | "BaggingRegressor":
            return _read_bagging(estimator)
        case "VotingRegressor":
            return _read_voting_regressor(estimator)
    return None


def _read_adaboost(estimator: Any) -> SklearnOutputs:
    """A tree adds its weight to the class that it predicts and takes weight / (classes - 1) from every other."""
    if getattr(estimator, "algorithm", "SAMME") == "SAMME.R":
        raise NoReading("AdaBoost adds logarithms of probabilities with SAMME.R, which is not read")
    count = len(estimator.classes_)
    weights = np.asarray(estimator.estimator_weights_, dtype=np.float64)[: len(estimator.estimators_)]
    # the library divides by the sum of all weights, those behind the last tree included (they are 0.0)
    total = float(np.asarray(estimator.estimator_weights_).sum())
    if not (total > 0.0 and np.isfinite(total) and np.all(weights >= 0.0)):
        raise NoReading("its trees' weights must not be negative, and their sum must be positive")
    trees: list[list[Any]] = [[] for _ in range(count)]
    for member, weight in zip(estimator.estimators_, weights.tolist(), strict=True):
        if not np.array_equal(member.classes_, estimator.classes_):
            raise NoReading("one of its trees does not know all classes")
        # AdaBoost refuses missing values before its trees see them
        plain = read_single_tree(member, refuses_missing=True)
        for place, vote in enumerate(plain.build_vote_trees(count)):
            trees[place].append(plain.with_values(np.where(vote.value > 0.0, weight, -weight / (count - 1))))
    if count == 2:  # the second class's sum less the first one's, which is its negative
        trees = [[tree.scale(2.0) for tree in trees[1]]]
    factor = 1.0 if count == 2 else 1.0 / (count - 1)
    scores = []
    for found in trees:
        sizes = sum(map(measure_tree, found))
        # additions in a row, two factors of every addend, and two quotients
        error = (len(found) + 8) * DOUBLE_ROUNDOFF * sizes + UNDERFLOW
        scores.append(ScoreSum(0.0, tuple(found), error=error, size_bound=1.001 * sizes).scale(factor / total))
    # softmax of (-s / 2, s / 2) is the logistic function of s
    return SklearnOutputs("logistic" if count == 2 else "softmax", tuple(scores), noise=(count + 16) * DOUBLE_ROUNDOFF)


def _read_bagging(estimator: Any) -> SklearnOutputs:
    """The mean of trees that see some of the columns each."""
    if estimator.n_estimators != len(estimator.estimators_):
        raise NoReading("its n_estimators was changed after it was fitted")
    count = len(estimator.classes_) if hasattr(estimator, "classes_") else 1
    members = []
    for member, columns in zip(estimator.estimators_, estimator.estimators_features_, strict=True):
        plain = read_single_tree(member, np.asarray(columns).tolist())
        if plain.values.shape[1] != count:  # a member that has not seen every class; its classes are positions
            values = np.zeros((len(plain.values), count))
            values[:, np.asarray(member.classes_, dtype=np.intp)] = plain.values
            plain = SklearnTree(plain.tree, values)
        members.append(plain)
    return average_trees(members)


def _read_weights(estimator: Any) -> list[float]:
    """The weights of the members of a vote, those that were dropped left out."""
    if estimator.weights is None:
        return [1.0] * len(estimator.estimators_)
    pairs = zip(estimator.estimators, estimator.weights, strict=True)
    weights = [float(weight) for (_, member), weight in pairs if not isinstance(member, str)]
    if len(weights) != len(estimator.estimators_) or min(weights) < 0.0 or not 0.0 < math.fsum(weights) < math.inf:
        raise NoReading(f"a vote's weights must not be negative, and their sum must be positive; got {weights}")
    return weights


def _read_voting_regressor(estimator: Any) -> SklearnOutputs:
    weights = _read_weights(estimator)
    members = [read_outputs(member) for member in estimator.estimators_]
    if any(outputs.kind != "number" for outputs in members):
        raise NoReading("one of its members predicts the exponential of a score")
    pairs = zip(members, weights, strict=True)
    score = sklearn_outputs.add_scores([own.get_mean_score().scale(weight) for own, weight in pairs if weight])
    share = (len(weights) + 4) * DOUBLE_ROUNDOFF  # the mean of n numbers, whatever the order of its additions
    summed = replace(score, error=score.error + share * score.size, relative_error=score.relative_error + share)
    return SklearnOutputs("number", (summed,), total=math.fsum(weights))


def _read_vote(estimator: Any, target: EstimatorTarget) -> SumForm:
    count = len(estimator.classes_)
    for member in estimator.estimators_:
        if not np.array_equal(member.classes_, np.arange(count)):
            raise NoReading("the members of a vote must all know all classes")
    weights = _read_weights(estimator)
    if estimator.voting == "soft":
        return _read_soft_vote(estimator, weights, target)
    if target.threshold is not None:
        raise NoReading("a hard vote has no probabilities that a threshold could be held against")
    return _read_hard_vote(estimator, weights, target)


def _read_soft_vote(estimator: Any, weights: list[float], target: EstimatorTarget) -> SumForm:
    """The class with the largest weighted mean of the members' probabilities."""
    members = [(weight, read_outputs(member)) for weight, member in zip(weights, estimator.estimators_, strict=True)]
    members = [(weight, outputs) for weight, outputs in members if weight]
    rounding = (len(members) + 8) * DOUBLE_ROUNDOFF  # of products, sums and a quotient, all of at most 1
    count = len(estimator.classes_)
    if all(outputs.kind == "shares" for _, outputs in members):
        scores = []
        for place in range(count):
            shares = [outputs.get_mean_score(place).scale(weight) for weight, outputs in members]
            score = sklearn_outputs.add_scores(shares)
            error = score.error + (rounding + score.relative_error) * math.fsum(weights)
            scores.append(ScoreSum(score.offset, score.trees, error=error, size_bound=score.size_bound))
        return decide_outputs(SklearnOutputs("shares", tuple(scores), total=math.fsum(weights)), target)
    if count > 2:
        raise NoReading("a soft vote over several classes is a sum of trees only if all its members are forests")
    # of two classes the one whose mean is above a half; that both add up to one is rounded, too
    threshold = 0.5 if target.threshold is None else target.threshold
    rounding = 2 * rounding + _measure_gap_to_one(members)
    return sklearn_outputs.decide_mixture(members, target.desired_classes[0], threshold, rounding)


def _measure_gap_to_one(members: list[tuple[float, SklearnOutputs]]) -> float:
    """How far the two probabilities of a leaf are from adding up to one, at the most."""
    worst = 0.0
    for _, outputs in members:
        if outputs.kind == "shares":
            for first, second in zip(outputs.scores[0].trees, outputs.scores[1].trees, strict=True):
                leaves = first.left < 0
                worst = max(worst, float(np.abs(first.value[leaves] + second.value[leaves] - 1.0).max()))
    return worst


def _read_hard_vote(estimator: Any, weights: list[float], target: EstimatorTarget) -> SumForm:
    """The class that members with the largest weights together predict, at ties the first.

    A member that is one tree votes exactly. Another member votes by the sign of a score that is known up to an error.
    In the first margin of a pair every such member votes for the desired class wherever it may, so the margin is never
    too small; in the second one only where it certainly does. The second one is raised by its own error, which is
    larger than all weights: it is always possible, and sure exactly if the votes that are certain suffice.
    """
    count = len(estimator.classes_)
    total = math.fsum(weights)
    grid = sklearn_outputs.find_grid(weights, total)
    error = grid / 4 if grid else (len(weights) + 4) * DOUBLE_ROUNDOFF * total + UNDERFLOW
    votes = [_read_votes(member, count) for member in estimator.estimators_]
    others = [place for place in range(count) if place not in target.desired_classes]
    alternatives = []
    for good in target.desired_classes:
        margins = []
        for bad in others:
            lead = (grid / 2 if good < bad else -grid / 2) if grid else 0.0
            offsets, certain = [], True
            for sign in (1.0, -1.0):
                offset, parts = lead, []
                for weight, vote in zip(weights, votes, strict=True):
                    if isinstance(vote, SklearnTree):
                        trees = vote.build_vote_trees(count)
                        value = weight * (trees[good].value - trees[bad].value)
                        parts.append(normal_form.MarginPart((vote.with_values(value),)))
                    else:  # two classes: weight where the member votes for the one, -weight for the other
                        certain = False
                        score = sklearn_outputs.build_preference_score(vote, good, bad).bound_by_error(sign)
                        offset -= weight
                        step = normal_form.LinkFunction("step", 2.0 * weight, 1.0, -score.offset)
                        parts.append(normal_form.MarginPart(score.trees, score.terms, step))
                offsets.append((offset, tuple(parts)))
            (offset, parts_up), (low, parts_down) = offsets
            margins.append(SumMargin(offset, parts_up, error))
            if not certain:
                room = 4.0 * total
                margins.append(SumMargin(low + room, parts_down, room + error))
        alternatives.append(tuple(margins))
    return SumForm(tuple(alternatives))


def _read_votes(member: Any, count: int) -> SklearnTree | SklearnOutputs:
    """How a member votes: by the leaves of one tree, or by the sign of a score."""
    if identify_class("sklearn", member) in SINGLE_TREES:
        return read_single_tree(member)
    outputs = read_outputs(member)
    if count > 2:
        raise NoReading("a hard vote over several classes is a sum of trees only if every member is one tree")
    return outputs
