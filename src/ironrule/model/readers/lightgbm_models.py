"""LightGBM's scikit-learn classes, read from the booster's own text, which writes every number with 17 digits: exactly.

LightGBM works in float64 throughout: a value at most the threshold goes left, leaves are added in the order of trees
(a random forest's sum is divided by their number), and the objective turns scores into probabilities. A value within
1e-35 of zero is zero, and NaN is zero too unless the split was made with missing values. Only an array of integers is
made float32 first (:class:`~ironrule.model.model_input.InputConversion` says so); a table with columns of integers is
not.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.splits import ThresholdSplits
from ironrule.model.normal_form.tree_sum import Tree, TreeSplit, TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers import boosting
from ironrule.model.readers.library_class import require_own_methods, require_same_labels
from ironrule.model.readers.xgboost_models import CategoryLabels, encode_categories

ZERO_THRESHOLD = float(np.float32(1e-35))

IDENTITY_OBJECTIVES = ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "custom")
RESPONSES = dict.fromkeys(IDENTITY_OBJECTIVES, boosting.IDENTITY_RESPONSE)
RESPONSES |= dict.fromkeys(("poisson", "gamma", "tweedie"), boosting.EXPONENTIAL_RESPONSE)

MAX_SIGMOID_SCORE = 25.0  # beyond, a sigmoid in float64 cannot tell scores apart well enough


@dataclass(frozen=True, slots=True)
class LightGBMThresholdSplit:
    """LightGBM's numeric split: at most the threshold goes left; what counts as missing goes where the tree says."""

    column: int
    threshold: float
    missing_left: bool
    missing: int  # 0: nothing (NaN is zero), 1: zero and NaN, 2: NaN
    labels: CategoryLabels | None = None

    @property
    def turns_once(self) -> bool:
        """Unless zero is missing and goes where its neighbours do not."""
        return self.labels is None and (self.missing != 1 or self.missing_left == (self.threshold >= 0))

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        if self.labels is not None:
            return self._compare(encode_categories(values, self.labels, self.column, math.nan))
        left = self._compare(values.astype(np.float64))
        # compute_model_input gives floats; of other integers it is unknown whether an array or a table has them
        if values.dtype.kind in "iu" and (left != self._compare(values.astype(np.float32).astype(np.float64))).any():
            raise Unreadable(f"integers beyond 2^24 in column {self.column} lie between two float32 numbers at a split")
        return left

    def _compare(self, numbers: Float64Array) -> BoolArray:
        absent = np.isnan(numbers)
        zero = np.abs(numbers) <= ZERO_THRESHOLD
        if self.missing != 2:
            zero |= absent
            absent = zero if self.missing == 1 else np.zeros_like(zero)
        return np.asarray(np.where(absent, self.missing_left, np.where(zero, 0.0, numbers) <= self.threshold), np.bool_)


@dataclass(frozen=True, slots=True)
class LightGBMCategorySplit:
    """LightGBM's categorical split: the chosen categories go left, all others, unseen and missing ones too, right."""

    column: int
    chosen: frozenset[int]
    labels: CategoryLabels | None = None

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        if self.labels is None:
            numbers = values.astype(np.float64)
        else:
            numbers = encode_categories(values, self.labels, self.column, math.nan)
        # cut towards zero as C does, so -0.5 is category 0
        return np.isin(np.trunc(numbers), np.array(sorted(self.chosen), dtype=np.float64))


def read_lightgbm(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of an LGBMClassifier or LGBMRegressor; None for anything else."""
    library = sys.modules.get("lightgbm")
    if library is None or not isinstance(estimator, library.LGBMModel):
        return None
    if not isinstance(estimator, (library.LGBMClassifier, library.LGBMRegressor)):
        raise Unreadable(f"{type(estimator).__name__} is neither a classifier nor a regressor")
    require_own_methods(estimator)
    if estimator.get_params().get("pred_early_stop"):
        raise Unreadable("LightGBM with pred_early_stop does not add up all trees")
    booster = estimator.booster_
    best = booster.best_iteration
    head, trees = _parse_text(booster.model_to_string(num_iteration=best if best > 0 else -1))
    name, _, rest = head.get("objective", "custom").partition(" ")
    options = dict(option.split(":", 1) for option in rest.split() if ":" in option)
    slope = float(options.get("sigmoid", 1.0))
    scores = _read_scores(booster, head, trees)
    if isinstance(estimator, library.LGBMClassifier):
        return _read_classifier(estimator, scores, name, slope, desired=desired, threshold=threshold)
    response = None if "sqrt" in rest.split() else RESPONSES.get(name)
    reason = f"LightGBM's objective {name} {rest} is not a threshold on a sum of trees"
    return boosting.read_prediction(scores, response, desired, threshold, unit=DOUBLE_ROUNDOFF, no_response=reason)


def _read_classifier(
    estimator: Any,
    scores: list[boosting.BoostedScore],
    name: str,
    slope: float,
    desired: tuple[Any, ...],
    threshold: float | None,
) -> TreeSum:
    require_same_labels(estimator.classes_, estimator._le.classes_)
    wanted = boosting.find_class_positions(estimator, desired)
    count = len(estimator.classes_)
    if name == "binary" and len(scores) == 1 and count <= 2:
        return boosting.read_two_classes(
            scores[0], boosting.LOGISTIC_RESPONSE, wanted, threshold, unit=DOUBLE_ROUNDOFF, slope=slope
        )
    if name not in ("multiclass", "multiclassova") or len(scores) != count or count < 3:
        raise Unreadable(f"LightGBM's objective {name} with {len(scores)} outputs for {count} classes is not read")
    tie, own_sigmoids = boosting.bound_probability_error(DOUBLE_ROUNDOFF, count), name == "multiclassova"
    if own_sigmoids and threshold is None:
        tie = _bound_sigmoid_tie(scores, slope, tie)
    return boosting.read_class_scores(
        scores, wanted, threshold, DOUBLE_ROUNDOFF, tie, own_sigmoids=own_sigmoids, slope=slope
    )


def _bound_sigmoid_tie(scores: list[boosting.BoostedScore], slope: float, noise: float) -> float:
    """How far apart scores must be for the sigmoid that every class has of its own to keep their order."""
    # log sigmoid rises by slope / (1 + exp(slope s)) or more: probabilities with a relative error of noise keep the
    # order of scores that differ by more than this
    top = slope * max(score.size_bound for score in scores)
    if top > MAX_SIGMOID_SCORE:
        raise Unreadable(f"one-vs-all scores of up to {top:.0f} give probabilities too near 1 to be told apart")
    return 4 * noise * (1 + math.exp(top)) / slope


def _read_scores(booster: Any, head: dict[str, str], trees: list[dict[str, str]]) -> list[boosting.BoostedScore]:
    outputs = int(head["num_tree_per_iteration"])
    labels = _match_labels(booster, head)
    share = outputs / len(trees) if "average_output" in head and trees else 1.0
    sums: list[list[Tree]] = [[] for _ in range(outputs)]
    for index, tree in enumerate(trees):
        sums[index % outputs].append(_read_tree(tree, labels, share))
    # a forest's mean: the share, its product with every leaf, and LightGBM's own division are rounded
    extra = [4 * DOUBLE_ROUNDOFF * sum(float(np.abs(t.value).max()) for t in each) * (share != 1) for each in sums]
    return [boosting.sum_trees(0.0, each, DOUBLE_ROUNDOFF, more) for each, more in zip(sums, extra, strict=True)]


def read_category_labels(booster: Any) -> dict[int, CategoryLabels]:
    """Per column the labels of its pandas categories; raises Unreadable if the model does not say which they are."""
    return _match_labels(booster, _parse_text(booster.model_to_string())[0]) if booster.pandas_categorical else {}


def _match_labels(booster: Any, head: dict[str, str]) -> dict[int, CategoryLabels]:
    """Per column the labels of its categories, where it was a pandas one: the model keeps them by order alone."""
    kept = booster.pandas_categorical or []
    columns = [int(c) for c in head.get("categorical_feature", "").split(",") if c]
    if not kept:
        return {}
    if len(columns) != len(kept):
        reason = "LightGBM does not say which columns its pandas categories belong to (some are ordered, or numbers)"
        raise Unreadable(reason)
    return {column: tuple(labels) for column, labels in zip(sorted(columns), kept, strict=True)}


def _parse_text(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The head of a model's text with the categorical columns from its parameters, and its trees."""
    body, _, tail = text.partition("end of trees")
    head, *trees = body.split("\nTree=")
    named = dict(line.partition("=")[::2] for line in head.splitlines() if line)
    for line in tail.splitlines():
        if line.startswith("[categorical_feature: "):
            named["categorical_feature"] = line[len("[categorical_feature: ") : -1]
    return named, [dict(line.partition("=")[::2] for line in tree.splitlines()[1:] if line) for tree in trees]


def _read_tree(tree: dict[str, str], labels: dict[int, CategoryLabels], share: float) -> Tree:
    require_readable(
        tree.get("is_linear", "0") == "0",
        "LightGBM's linear trees have sums of columns at their leaves; fit it with linear_tree=False to have it read",
    )
    leaves = np.array(tree["leaf_value"].split(), dtype=np.float64)
    count = len(leaves) - 1
    if count == 0:
        return Tree((None,), np.array([-1], np.int32), np.array([-1], np.int32), leaves * share)
    columns, kinds, left, right = (
        np.array(tree[key].split()[:count], dtype=np.int64)
        for key in ("split_feature", "decision_type", "left_child", "right_child")
    )
    thresholds = np.array(tree["threshold"].split(), dtype=np.float64)
    bounds, words = ([int(x) for x in tree.get(key, "").split()] for key in ("cat_boundaries", "cat_threshold"))

    def asked(node: int) -> TreeSplit:
        column, kind = int(columns[node]), int(kinds[node])
        known = labels.get(column)
        if not kind & 1:
            return LightGBMThresholdSplit(column, float(thresholds[node]), bool(kind & 2), (kind >> 2) & 3, known)
        place = int(thresholds[node])
        return LightGBMCategorySplit(column, _list_set_bits(words[bounds[place] : bounds[place + 1]]), known)

    single = (kinds & 1 == 1) | np.isin(columns, list(labels))  # that are more than a comparison with a number
    below = [np.where(side < 0, count + ~side, side) for side in (left, right)]  # the leaves come after all nodes
    ends = np.full(len(leaves), -1)
    order, lefts, rights = boosting.order_parents_first(*(np.concatenate([side, ends]) for side in below))
    place = np.argsort(order)
    splits = ThresholdSplits(
        np.concatenate([np.where(single, -1, columns), ends])[order].astype(np.int32),
        np.concatenate([thresholds, ends])[order],
        np.concatenate([kinds >> 1, ends])[order].astype(np.int32),
        make_lightgbm_split,
        {int(place[node]): asked(node) for node in np.flatnonzero(single).tolist()},
    )
    return Tree(splits, lefts, rights, np.concatenate([np.zeros(count), leaves * share])[order])


def make_lightgbm_split(column: int, threshold: float, kind: int) -> TreeSplit:
    """LightGBM's numeric split, of a kind with its flag and what counts as missing."""
    return LightGBMThresholdSplit(column, threshold, bool(kind & 1), kind >> 1)


def _list_set_bits(words: list[int]) -> frozenset[int]:
    return frozenset(32 * i + bit for i, word in enumerate(words) for bit in range(32) if word >> bit & 1)
