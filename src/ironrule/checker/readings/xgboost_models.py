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
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ironrule.checker.readings import boosted_sums, decisions
from ironrule.checker.readings.cuts import SINGLE
from ironrule.checker.readings.decisions import Score
from ironrule.checker.readings.normal_form import Floats, Mask, Question, SumReading, Tree, Unreadable, Values

CLASSIFIERS = ("XGBClassifier", "XGBRFClassifier")
REGRESSIONS = ("XGBRegressor", "XGBRFRegressor")
OTHERS = ("XGBModel", "XGBRanker")
LOGISTIC = ("binary:logistic", "reg:logistic")
SOFTMAX = ("multi:softprob", "multi:softmax")
EXPONENTIAL = ("count:poisson", "reg:gamma", "reg:tweedie")
IDENTITY = (
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:pseudohubererror",
    "reg:absoluteerror",
    "reg:quantileerror",
)
# A probability in float32: expf is right to 4 units (glibc: 1), which moves p by as much as 8 * SINGLE * p; adding 1,
# dividing, one minus it and casting the threshold add SINGLE * (p or 1) each, 4 together. decisions.py doubles this.
NOISE = 16 * SINGLE
# Two float32 probabilities of one softmax are in the order of their scores, or equal, but for expf's error of
# 8 * SINGLE and one rounding of each quotient: scores that differ by more than that are told apart.
TIE = 16 * SINGLE
LAST_CATEGORY = 2.0**24  # what is not below it is never one of the listed categories


@dataclass(frozen=True, slots=True)
class Below:
    """A float32 below a number goes left."""

    column: int
    number: float
    missing_left: bool
    turns_once: bool = True  # casting to float32 never falls

    def goes_left(self, values: Values) -> Mask:
        """Which of these values go left."""
        numbers = boosted_sums.as_singles(values)
        return np.where(np.isnan(numbers), self.missing_left, numbers < np.float32(self.number))


@dataclass(frozen=True, slots=True)
class NotListed:
    """A category that is not listed goes left; ``names`` are the categories of the data frame that it was fitted on."""

    column: int
    listed: frozenset[int]
    names: tuple[Hashable, ...]
    missing_left: bool
    turns_once: bool = False

    def goes_left(self, values: Values) -> Mask:
        """Which of these values go left."""
        return boosted_sums.ask_about_categories(values, self.names, None, self._codes_go_left)

    def _codes_go_left(self, codes: Floats) -> Mask:
        numbers = boosted_sums.as_singles(codes)
        inside = (numbers >= 0) & (numbers < LAST_CATEGORY)
        whole = np.where(inside, numbers, -1.0).astype(np.int64)
        return np.where(np.isnan(numbers), self.missing_left, ~np.isin(whole, list(self.listed)))


def read_xgboost(estimator: Any, question: Question) -> SumReading | None:
    """What one of XGBoost's scikit-learn classes decides; None if it is not one, Unreadable if it cannot be read."""
    name = boosted_sums.check_methods("xgboost", estimator, CLASSIFIERS + REGRESSIONS + OTHERS)
    if not name:
        return None
    if name in OTHERS:
        raise Unreadable(f"{name} is neither a classifier nor a regression")
    booster = estimator.get_booster()
    if not boosted_sums.check_methods("xgboost", booster, ("Booster",)):
        raise Unreadable("its booster is not XGBoost's own")
    if not (isinstance(estimator.missing, float) and math.isnan(estimator.missing)):
        raise Unreadable(f"missing must be NaN to be read, got {estimator.missing!r}")
    learner = json.loads(bytes(booster.save_raw("json")))
    version, learner = learner["version"], learner["learner"]
    objective = learner["objective"]["name"]
    if estimator.objective not in (None, objective):
        raise Unreadable(f"the objective {estimator.objective!r} is not the one that the model has, {objective!r}")
    if estimator.booster == "gblinear" or learner["gradient_booster"]["name"] not in ("gbtree", "dart"):
        raise Unreadable("only XGBoost's boosters gbtree and dart are read")
    scores = _read_scores(learner, objective, version)
    if name in CLASSIFIERS:
        return _decide_class(scores, objective, int(estimator.n_classes_), question)
    return _decide_number(scores, objective, question)


def _decide_class(scores: list[Score], objective: str, classes: int, question: Question) -> SumReading:
    if len(scores) == 1 and classes == 2 and objective in LOGISTIC:  # predict: the second class where p > 0.5
        threshold = 0.5 if question.threshold is None else question.threshold
        return decisions.logistic_above(scores[0], threshold, NOISE, first=question.wanted == (0,))
    if len(scores) != classes or classes < 3 or objective not in SOFTMAX:
        raise Unreadable(f"{classes} classes with the objective {objective} and {len(scores)} scores are not read")
    if question.threshold is None:
        return decisions.largest(scores, question.wanted, TIE)
    # a softmax subtracts the largest score in float32, which moves each exponent, and adds several probabilities
    shifted = [
        Score(score.offset, score.trees, (), score.error + 2 * SINGLE * score.reach, 0.0, score.reach)
        for score in scores
    ]
    return decisions.softmax_above(shifted, question.wanted, question.threshold, NOISE + classes * SINGLE)


def _decide_number(scores: list[Score], objective: str, question: Question) -> SumReading:
    if len(scores) != 1 or question.threshold is None:
        raise Unreadable("only regressions of one number with a threshold are read")
    threshold = question.threshold
    if objective in IDENTITY:
        return decisions.number_above(scores[0], threshold, 2 * SINGLE)
    if objective in LOGISTIC:
        return decisions.logistic_above(scores[0], threshold, NOISE)
    if objective in EXPONENTIAL:
        if not (threshold < 0.0 or 1e-30 < threshold < 1e30):  # exponentials in float32 have no relative error there
            raise Unreadable(f"a threshold of {threshold!r} is outside of what float32 tells apart")
        return decisions.exponential_above(scores[0], threshold, NOISE)
    raise Unreadable(f"the objective {objective} is not read")


def _read_scores(learner: dict[str, Any], objective: str, version: list[int]) -> list[Score]:
    """The raw score of every group of trees."""
    booster, settings = learner["gradient_booster"], learner["learner_model_param"]
    is_dart = booster["name"] == "dart"
    model = booster["gbtree"]["model"] if is_dart else booster["model"]
    groups = max(1, int(settings["num_class"]), int(settings.get("num_target", 1)))
    used = len(model["trees"])
    if "best_iteration" in learner["attributes"]:  # predict stops after it
        ends = model["iteration_indptr"]
        used = ends[min(int(learner["attributes"]["best_iteration"]) + 1, len(ends) - 1)]
    names = _read_names(model.get("cats", {}).get("enc", []))
    trees: list[list[Tree]] = [[] for _ in range(groups)]
    for position in range(used):
        weight = float(np.float32(booster["weight_drop"][position])) if is_dart else 1.0
        tree = _read_tree(model["trees"][position], names, version)
        trees[model["tree_info"][position]].append(tree.scale(weight))
    bases = [float(np.float32(base)) for base in settings["base_score"].strip("[]").split(",")]
    starts = [_to_margin(base, objective) for base in (bases if len(bases) == groups else bases * groups)]
    # dart adds the base score to each tree, takes it off, and weighs the rest: three more roundings
    blur = 4 * SINGLE * max([1.0, *map(abs, booster["weight_drop"])]) if is_dart else 0.0
    scores = []
    for start, members in zip(starts, trees, strict=True):
        score = boosted_sums.add_in_order(start, members, SINGLE, blur)
        extra = 8 * SINGLE * abs(start) + 2.0**-120  # of the logarithm that made the start, and of underflow
        scores.append(Score(start, score.trees, (), score.error + extra, 0.0, score.reach + extra))
    return scores


def _to_margin(base: float, objective: str) -> float:
    """The base score before the objective's function; XGBoost computes it in float32, with its own logarithm."""
    if objective in LOGISTIC:
        if not 1e-5 < base < 1.0 - 1e-5:
            raise Unreadable(f"a base score of {base!r} is so near 0 or 1 that XGBoost may change it")
        return -math.log(float(np.float32(1.0) / np.float32(base) - np.float32(1.0)))
    if objective in EXPONENTIAL and not base > 1e-30:
        raise Unreadable(f"its base score must be positive, got {base!r}")
    return math.log(base) if objective in EXPONENTIAL else base


def _read_names(encodings: list[dict[str, Any]]) -> list[tuple[Hashable, ...]]:
    """The categories of every column, in the order of their codes."""
    names: list[tuple[Hashable, ...]] = []
    for encoding in encodings:
        if "offsets" in encoding:
            ends, letters = encoding["offsets"], encoding["values"]
            if any(letter < 0 for letter in letters):  # offsets count letters, values count bytes: they no longer fit
                raise Unreadable("XGBoost does not keep categories with letters outside of ASCII apart")
            names.append(tuple(bytes(letters[a:b]).decode() for a, b in pairwise(ends)))
        else:
            names.append(tuple(encoding["values"]))
    return names


def _read_tree(document: dict[str, Any], names: list[tuple[Hashable, ...]], version: list[int]) -> Tree:
    if int(document["tree_param"]["size_leaf_vector"]) > 1:
        raise Unreadable("trees with several outputs are not read")
    listed: dict[int, frozenset[int]] = {}
    for node, start, size in zip(
        document["categories_nodes"], document["categories_segments"], document["categories_sizes"], strict=True
    ):
        listed[node] = frozenset(document["categories"][start : start + size])
    if listed and version < [3, 1]:
        raise Unreadable("models of XGBoost before 3.1 do not keep the names of categories")

    def look(node: int) -> boosted_sums.Place[int] | float:
        left, right = document["left_children"][node], document["right_children"][node]
        number = float(np.float32(document["split_conditions"][node]))
        if left < 0:
            return number  # a leaf keeps its value there
        column, missing_left = document["split_indices"][node], bool(document["default_left"][node])
        if not document["split_type"][node]:
            return Below(column, number, missing_left), left, right
        known = names[column] if column < len(names) else ()
        return NotListed(column, listed[node], known, missing_left), left, right

    return boosted_sums.grow_tree(0, look)
