"""How the checker reads XGBoost's scikit-learn classes: from the model's JSON document.

The format is described by XGBoost's model schema (doc/model.schema). What predict does with it:

- values are cast to float32; a split sends a value left where it is smaller than the split's number, and a missing one
  the default way; a split on categories sends the listed ones right;
- the base score and the leaves of the trees are added in float32, in the order of the trees, then go through the
  objective's function in float32, and are compared in float32, the threshold included (NumPy's rule for an array
  of float32 and a Python number).
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array
from ironrule.checker.readers import boosted_trees, decisions, normal_form
from ironrule.checker.readers.decisions import ScoreSum
from ironrule.checker.readers.normal_form import SINGLE_ROUNDOFF, EstimatorTarget, NoReading, RegressionTree, SumForm

CLASSIFIERS = ("XGBClassifier", "XGBRFClassifier")
REGRESSIONS = ("XGBRegressor", "XGBRFRegressor")
UNSUPPORTED = ("XGBModel", "XGBRanker")
LOGISTIC = ("binary:logistic", "reg:logistic")
SOFTMAX = ("multi:softprob", "multi:softmax")
EXPONENTIAL = ("count:poisson", "reg:gamma", "reg:tweedie")
IDENTITY = ("reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "reg:quantileerror")
# A probability in float32, u being SINGLE_ROUNDOFF: expf is right to 4 units (glibc: 1), which moves p by as much as
# 8 u p; adding 1, dividing, one minus it and casting the threshold add u (p or 1) each, 4 together. This is doubled.
PROBABILITY_ERROR = 16 * SINGLE_ROUNDOFF
# Two float32 probabilities of one softmax are in the order of their scores, or equal, but for expf's error of
# 8 u and one rounding of each quotient: scores that differ by more than that are told apart.
TIE_ERROR = 16 * SINGLE_ROUNDOFF
CATEGORY_LIMIT = 2.0**24  # what is not below it is never one of the listed categories


@dataclass(frozen=True, slots=True)
class _XGBoostCategorySplit:
    """A category that is not listed goes left; ``names`` are the categories of the data frame that it was fitted on."""

    column: int
    listed: frozenset[int]
    names: tuple[Hashable, ...]
    missing_left: bool
    turns_once: bool = False

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values go left."""
        return boosted_trees.apply_to_categories(values, self.names, None, self._codes_go_left)

    def _codes_go_left(self, codes: Float64Array) -> BoolArray:
        numbers = normal_form.round_to_float32(codes)
        inside = (numbers >= 0) & (numbers < CATEGORY_LIMIT)
        whole = np.where(inside, numbers, -1.0).astype(np.int64)
        return np.where(np.isnan(numbers), self.missing_left, ~np.isin(whole, list(self.listed)))


def read_xgboost(estimator: Any, target: EstimatorTarget) -> SumForm | None:
    """What one of XGBoost's scikit-learn classes decides; None if it is not one, NoReading if it cannot be read."""
    name = boosted_trees.identify_listed_class("xgboost", estimator, CLASSIFIERS + REGRESSIONS, UNSUPPORTED)
    if not name:
        return None
    booster = estimator.get_booster()
    if not boosted_trees.identify_listed_class("xgboost", booster, ("Booster",)):
        raise NoReading("its booster is not XGBoost's own")
    if not (isinstance(estimator.missing, float) and math.isnan(estimator.missing)):
        raise NoReading(f"missing must be NaN to be read, got {estimator.missing!r}")
    learner = json.loads(bytes(booster.save_raw("json")))
    version, learner = learner["version"], learner["learner"]
    objective = learner["objective"]["name"]
    if estimator.objective not in (None, objective):
        raise NoReading(f"the objective {estimator.objective!r} is not the one that the model has, {objective!r}")
    if estimator.booster == "gblinear" or learner["gradient_booster"]["name"] not in ("gbtree", "dart"):
        raise NoReading("only XGBoost's boosters gbtree and dart are read")
    scores = _read_scores(learner, objective, version)
    if name in CLASSIFIERS:
        return _decide_class(scores, objective, int(estimator.n_classes_), target)
    return _decide_number(scores, objective, target)


def _decide_class(scores: list[ScoreSum], objective: str, classes: int, target: EstimatorTarget) -> SumForm:
    if len(scores) == 1 and classes == 2 and objective in LOGISTIC:  # predict: the second class where p > 0.5
        threshold = 0.5 if target.threshold is None else target.threshold
        return decisions.decide_logistic(scores[0], threshold, PROBABILITY_ERROR, first=target.desired_classes == (0,))
    if len(scores) != classes or classes < 3 or objective not in SOFTMAX:
        raise NoReading(f"{classes} classes with the objective {objective} and {len(scores)} scores are not read")
    if target.threshold is None:
        return decisions.decide_largest(scores, target.desired_classes, TIE_ERROR)
    # a softmax subtracts the largest score in float32, which moves each exponent, and adds several probabilities
    shifted = [replace(score, error=score.error + 2 * SINGLE_ROUNDOFF * score.size_bound) for score in scores]
    noise = PROBABILITY_ERROR + classes * SINGLE_ROUNDOFF
    return decisions.decide_softmax(shifted, target.desired_classes, target.threshold, noise)


def _decide_number(scores: list[ScoreSum], objective: str, target: EstimatorTarget) -> SumForm:
    if len(scores) != 1 or target.threshold is None:
        raise NoReading("only regressions of one number with a threshold are read")
    threshold = target.threshold
    if objective in IDENTITY:
        return decisions.decide_number(scores[0], threshold, 2 * SINGLE_ROUNDOFF)
    if objective in LOGISTIC:
        return decisions.decide_logistic(scores[0], threshold, PROBABILITY_ERROR)
    if objective in EXPONENTIAL:
        if not (threshold < 0.0 or 1e-30 < threshold < 1e30):  # exponentials in float32 have no relative error there
            raise NoReading(f"a threshold of {threshold!r} is outside of what float32 tells apart")
        return decisions.decide_exponential(scores[0], threshold, PROBABILITY_ERROR)
    raise NoReading(f"the objective {objective} is not read")


def _read_scores(learner: dict[str, Any], objective: str, version: list[int]) -> list[ScoreSum]:
    """The raw score of every group of trees."""
    booster, settings = learner["gradient_booster"], learner["learner_model_param"]
    is_dart = booster["name"] == "dart"
    model = booster["gbtree"]["model"] if is_dart else booster["model"]
    groups = max(1, int(settings["num_class"]), int(settings.get("num_target", 1)))
    used = len(model["trees"])
    if "best_iteration" in learner["attributes"]:  # predict stops after it
        ends = model["iteration_indptr"]
        used = ends[min(int(learner["attributes"]["best_iteration"]) + 1, len(ends) - 1)]
    names = _read_category_names(model.get("cats", {}).get("enc", []))
    trees: list[list[RegressionTree]] = [[] for _ in range(groups)]
    for position in range(used):
        weight = float(np.float32(booster["weight_drop"][position])) if is_dart else 1.0
        tree = _read_tree(model["trees"][position], names, version)
        trees[model["tree_info"][position]].append(tree.scale(weight))
    bases = [float(np.float32(base)) for base in settings["base_score"].strip("[]").split(",")]
    starts = [_compute_base_margin(base, objective) for base in (bases if len(bases) == groups else bases * groups)]
    # dart adds the base score to each tree, takes it off, and weighs the rest: three more roundings
    blur = 4 * SINGLE_ROUNDOFF * max([1.0, *map(abs, booster["weight_drop"])]) if is_dart else 0.0
    scores = []
    for start, members in zip(starts, trees, strict=True):
        score = boosted_trees.sum_in_order(start, members, SINGLE_ROUNDOFF, blur)
        extra = 8 * SINGLE_ROUNDOFF * abs(start) + 2.0**-120  # of the logarithm that made the start, and of underflow
        scores.append(replace(score, error=score.error + extra, size_bound=score.size_bound + extra))
    return scores


def _compute_base_margin(base: float, objective: str) -> float:
    """The base score before the objective's function; XGBoost computes it in float32, with its own logarithm."""
    if objective in LOGISTIC:
        if not 1e-5 < base < 1.0 - 1e-5:
            raise NoReading(f"a base score of {base!r} is so near 0 or 1 that XGBoost may change it")
        return -math.log(float(np.float32(1.0) / np.float32(base) - np.float32(1.0)))
    if objective in EXPONENTIAL and not base > 1e-30:
        raise NoReading(f"its base score must be positive, got {base!r}")
    return math.log(base) if objective in EXPONENTIAL else base


def _read_category_names(encodings: list[dict[str, Any]]) -> list[tuple[Hashable, ...]]:
    """The categories of every column, in the order of their codes."""
    names: list[tuple[Hashable, ...]] = []
    for encoding in encodings:
        if "offsets" in encoding:
            ends, letters = encoding["offsets"], encoding["values"]
            if any(letter < 0 for letter in letters):  # offsets count letters, values count bytes: they no longer fit
                raise NoReading("XGBoost does not keep categories with letters outside of ASCII apart")
            names.append(tuple(bytes(letters[a:b]).decode() for a, b in pairwise(ends)))
        else:
            names.append(tuple(encoding["values"]))
    return names


def _read_tree(document: dict[str, Any], names: list[tuple[Hashable, ...]], version: list[int]) -> RegressionTree:
    if int(document["tree_param"]["size_leaf_vector"]) > 1:
        raise NoReading("trees with several outputs are not read")
    lists = (document[f"categories_{part}"] for part in ("nodes", "segments", "sizes"))
    listed: dict[int, frozenset[int]] = {}
    for node, start, size in zip(*lists, strict=True):
        listed[node] = frozenset(document["categories"][start : start + size])
    if listed and version < [3, 1]:
        raise NoReading("models of XGBoost before 3.1 do not keep the names of categories")

    def look(node: int) -> boosted_trees.InnerNode[int] | float:
        left, right = document["left_children"][node], document["right_children"][node]
        number = float(np.float32(document["split_conditions"][node]))
        if left < 0:
            return number  # a leaf keeps its value there
        column, missing_left = document["split_indices"][node], bool(document["default_left"][node])
        if not document["split_type"][node]:
            return boosted_trees.Float32Split(column, number, missing_left, inclusive=False), left, right
        known = names[column] if column < len(names) else ()
        return _XGBoostCategorySplit(column, listed[node], known, missing_left), left, right

    return boosted_trees.build_tree(0, look)
