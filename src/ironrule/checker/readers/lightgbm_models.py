"""How the checker reads LightGBM's scikit-learn classes: from the model's text.

The text has every number with the digits that float64 needs. What predict does with it (Tree::Decision of LightGBM):

- numbers become float64, those within 1e-35 of zero become zero; a split sends a number left where it is at most the
  split's; bits of the split's type say whether it asks for categories, where missing values go, and what is missing:
  nothing (NaN counts as zero), zeros, or NaN;
- trees are added in float64 in their order, divided by their number in a random forest, and go through the objective's
  function; predict takes the first class of the largest probability.

Whole numbers become float64 in a data frame but float32 in an array. A split does not know which it was, so it refuses
whole numbers for which that makes a difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array
from ironrule.checker.readers import boosted_trees, decisions, normal_form
from ironrule.checker.readers.decisions import ScoreSum
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, EstimatorTarget, NoReading, RegressionTree, SumForm

SUPPORTED, UNSUPPORTED = ("LGBMClassifier", "LGBMRegressor"), ("LGBMModel", "LGBMRanker")
LOGISTIC = ("binary", "cross_entropy")
EXPONENTIAL = ("poisson", "gamma", "tweedie")
IDENTITY = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
ZERO_LIMIT = float(np.float32(1e-35))
IS_CATEGORICAL, MISSING_LEFT, ZERO_MISSING, NAN_MISSING = 1, 2, 4, 8
# exp is right to 1 unit of float64, 2 u with u the roundoff; a product, a sum, a quotient and one minus it add u each
PROBABILITY_ERROR = 16 * DOUBLE_ROUNDOFF
Scores = list[ScoreSum]


@dataclass(frozen=True, slots=True)
class _LightGBMThresholdSplit:
    """A number that is at most another goes left."""

    column: int
    number: float
    kind: int

    @property
    def turns_once(self) -> bool:
        """False where zeros count as missing and go another way than the numbers around them."""
        return not self.kind & ZERO_MISSING or bool(self.kind & MISSING_LEFT) == (self.number >= 0.0)

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values go left."""
        if values.dtype == object:  # of which LightGBM takes categories only
            raise NoReading("a column of numbers is expected, got one of objects")
        return _apply_to_both_casts(values, self._go_left)

    def _go_left(self, numbers: Float64Array) -> BoolArray:
        numbers = np.where(np.abs(numbers) <= ZERO_LIMIT, 0.0, numbers)
        if not self.kind & NAN_MISSING:
            numbers = np.where(np.isnan(numbers), 0.0, numbers)
        missing = numbers == 0.0 if self.kind & ZERO_MISSING else np.isnan(numbers)
        return np.where(missing, bool(self.kind & MISSING_LEFT), numbers <= self.number)


@dataclass(frozen=True, slots=True)
class _LightGBMCategorySplit:
    """A listed category goes left; missing and unknown ones go right. ``names`` are the categories of a data frame."""

    column: int
    listed: frozenset[int]
    names: tuple[Hashable, ...]
    turns_once: bool = False

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values go left."""
        if values.dtype.kind in "iu" and not self.names:
            return _apply_to_both_casts(values, self._go_left)
        return boosted_trees.apply_to_categories(values, self.names, -1, self._go_left)

    def _go_left(self, codes: Float64Array) -> BoolArray:
        inside = np.abs(codes) < 2.0**31  # false for NaN
        whole = np.where(inside, codes, -1.0).astype(np.int64)  # cut off towards zero, as C does
        return np.isin(whole, list(self.listed))


def _apply_to_both_casts(values: AnyArray, ask: Callable[[Float64Array], BoolArray]) -> BoolArray:
    answer = ask(normal_form.to_float64(values))
    if values.dtype.kind in "iu" and (answer != ask(normal_form.round_to_float32(values))).any():
        raise NoReading("LightGBM takes whole numbers as float64 in a data frame and as float32 in an array; here the"
                         " two differ")  # fmt: skip
    return answer


def read_lightgbm(estimator: Any, target: EstimatorTarget) -> SumForm | None:
    """What one of LightGBM's scikit-learn classes decides; None if it is not one, NoReading if it cannot be read."""
    name = boosted_trees.identify_listed_class("lightgbm", estimator, SUPPORTED, UNSUPPORTED)
    if not name:
        return None
    booster = estimator.booster_
    if not boosted_trees.identify_listed_class("lightgbm", booster, ("Booster",)):
        raise NoReading("its booster is not LightGBM's own")
    settings = estimator.get_params()
    if any(setting.startswith("pred_early_stop") for setting in settings):
        raise NoReading("predictions that stop early are not read")
    text = booster.model_to_string(num_iteration=booster.best_iteration)  # as many trees as predict takes
    header, *blocks = text.split("\nend of trees")[0].split("\nTree=")
    facts = _parse_fields(header)
    objective, *options = facts.get("objective", "unknown").split()
    slope = next((float(option[8:]) for option in options if option.startswith("sigmoid:")), 1.0)
    if slope != settings.get("sigmoid", 1.0):  # the text has six digits of it
        raise NoReading("the slope of its logistic function (sigmoid) must have at most six digits")
    if callable(estimator.objective_) or "sqrt" in options:
        raise NoReading("objectives of one's own and of square roots are not read")
    names = _read_category_names(text, booster.pandas_categorical or [])
    groups = int(facts["num_tree_per_iteration"])
    trees = [_read_tree(_parse_fields(block), names) for block in blocks]
    scores = [boosted_trees.sum_in_order(0.0, trees[group::groups], DOUBLE_ROUNDOFF) for group in range(groups)]
    if "average_output" in facts:
        scores = [boosted_trees.scale_and_shift(score, 1.0 / len(score.trees), 0.0) for score in scores]
    if name == "LGBMClassifier":
        return _decide_class(scores, objective, slope, int(estimator.n_classes_), target)
    return _decide_number(scores, objective, slope, target)


def _decide_class(scores: Scores, objective: str, slope: float, classes: int, target: EstimatorTarget) -> SumForm:
    wanted, threshold = target.desired_classes, target.threshold
    noise = PROBABILITY_ERROR + classes * DOUBLE_ROUNDOFF
    if len(scores) == 1 and classes == 2 and objective in LOGISTIC:  # predict: the second class where p > 1 - p
        level = 0.5 if threshold is None else threshold
        return decisions.decide_logistic(scores[0], level, noise, slope, first=wanted == (0,))
    if len(scores) != classes:
        raise NoReading(f"{classes} classes with {len(scores)} scores are not read")
    if objective == "multiclass" and threshold is not None:
        return decisions.decide_softmax(scores, wanted, threshold, noise)
    if objective == "multiclass":
        # probabilities are in the order of the scores, or equal, but for the rounding of exp and of each quotient
        return decisions.decide_largest(scores, wanted, PROBABILITY_ERROR)
    if objective != "multiclassova":
        raise NoReading(f"the objective {objective} is not read for several classes")
    if threshold is not None:
        return decisions.decide_sigmoids(scores, wanted, threshold, noise, slope)
    # p rises by slope * p * (1 - p) for each unit of the score and is off by e * p / 2, with e the probability's error:
    # scores that differ by less than e / (slope * (1 - p)) may have the same p, which matters where p is near 1
    top = slope * max(score.size_bound for score in scores)
    if not 0.0 < top < 25.0:
        raise NoReading("its scores are so large that the probabilities of two classes may become equal")
    return decisions.decide_largest(scores, wanted, 2 * PROBABILITY_ERROR * (1.0 + math.exp(top)) / slope)


def _decide_number(scores: Scores, objective: str, slope: float, target: EstimatorTarget) -> SumForm:
    if len(scores) != 1 or target.threshold is None:
        raise NoReading("only regressions of one number with a threshold are read")
    if objective in IDENTITY:
        return decisions.decide_number(scores[0], target.threshold)
    if objective in EXPONENTIAL:
        return decisions.decide_exponential(scores[0], target.threshold, PROBABILITY_ERROR)
    if objective in LOGISTIC:
        return decisions.decide_logistic(scores[0], target.threshold, PROBABILITY_ERROR, slope)
    raise NoReading(f"the objective {objective} is not read")


def _parse_fields(block: str) -> dict[str, str]:
    lines = (line.partition("=") for line in block.splitlines())
    return {key: value for key, _, value in lines}


def _read_category_names(text: str, categories: list[list[Hashable]]) -> dict[int, tuple[Hashable, ...]]:
    """The categories of the columns of a data frame, in the order of their codes; they are kept without the columns."""
    lines: Iterator[str] = (line for line in text.splitlines() if line.startswith("[categorical_feature: "))
    columns = next(lines, "[: ]").partition(": ")[2].rstrip("]").split(",")
    if categories and len(columns) != len(categories):  # an ordered category is kept, but is a number for the model
        raise NoReading("it is not known which columns of the data frame its lists of categories belong to")
    return {int(column): tuple(names) for column, names in zip(columns, categories, strict=False)}


def _read_tree(facts: dict[str, str], names: dict[int, tuple[Hashable, ...]]) -> RegressionTree:
    def read(key: str) -> list[float]:
        return [float(word) for word in facts.get(key, "").split()]

    if facts.get("is_linear", "0") != "0":
        raise NoReading("trees with linear leaves are not read")
    keys = ("split_feature", "decision_type", "left_child", "right_child", "cat_boundaries", "cat_threshold")
    columns, kinds, left, right, ends, words = ([int(word) for word in read(key)] for key in keys)
    numbers, values = read("threshold"), read("leaf_value")

    def look(node: int) -> boosted_trees.InnerNode[int] | float:
        if node < 0:
            return values[~node]
        column, children = columns[node], (left[node], right[node])
        if not kinds[node] & IS_CATEGORICAL:
            return _LightGBMThresholdSplit(column, numbers[node], kinds[node]), *children
        start, end = ends[int(numbers[node])], ends[int(numbers[node]) + 1]
        own = enumerate(words[start:end])
        listed = frozenset(32 * i + bit for i, word in own for bit in range(32) if word >> bit & 1)
        return _LightGBMCategorySplit(column, listed, names.get(column, ())), *children

    return boosted_trees.build_tree(0 if columns else -1, look)
