"""How the checker reads CatBoost's scikit-learn classes: from the model's JSON document.

What predict does with it (libs/model/cpu of CatBoost):

- numbers become float32; a split on a number is true where it is above a border, and one on a category where its hash
  is the split's; a tree of one split for each level has a leaf for every row of answers, the first answer being the
  lowest bit; other trees go right where the split is true;
- the leaves are added in float64 in an order that depends on the machine, times the scale, plus the bias;
- predict compares the sum with the logit of the probability threshold, or takes the first class of the largest sum.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray
from ironrule.checker.readers import boosted_trees, decisions, normal_form
from ironrule.checker.readers.decisions import ScoreSum
from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading, RegressionTree, Split, SumForm

SUPPORTED, UNSUPPORTED = ("CatBoostClassifier", "CatBoostRegressor"), ("CatBoost", "CatBoostRanker")
LOGISTIC = ("Logloss", "CrossEntropy")
IDENTITY = ("RMSE", "MAE", "Quantile", "MAPE", "Lq", "Huber", "Expectile", "LogCosh", "RMSPE", "LogLinQuantile")
EXPONENTIAL = ("Poisson", "Tweedie")
WORD_MASK = 2**64 - 1
K0, K1, K2, K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557


@dataclass(frozen=True, slots=True)
class _CatBoostCategorySplit:
    """A category with another hash goes left."""

    column: int
    hashed: int
    turns_once: bool = False

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values go left."""
        hashes = [hash_category(_to_category_text(value)) for value in values.tolist()]
        return np.array([found != self.hashed for found in hashes], dtype=bool)


def _to_category_text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (str, int, np.integer)):
        raise NoReading(f"a category must be a string or an integer, got {value!r}")
    return str(value)


@lru_cache(maxsize=4096)
def hash_category(text: str) -> int:
    """CatBoost's hash of a category: the lower half of CityHash64 (version 1), as a signed number.

    >>> hash_category("y"), hash_category("20")
    (253272131, 1183230456)
    """
    data = text.encode()
    size = len(data)

    def load(start: int, count: int = 8) -> int:
        return int.from_bytes(data[start : start + count], "little")

    if size > 64:
        raise NoReading("categories of more than 64 bytes are not read")
    if size > 32:
        first = _hash_32_bytes(load(0) + (size + load(size - 16)) * K0, load(8), load(16), load(24))
        second = _hash_32_bytes(load(16) + load(size - 32), load(size - 24), load(size - 16), load(size - 8))
        mixed = _shift_mix((first[0] + second[1]) * K2 + (second[0] + first[1]) * K0)
        hashed = _shift_mix(mixed * K0 + first[1]) * K2
    elif size > 16:
        a, b, c, d = load(0) * K1, load(8), load(size - 8) * K2, load(size - 16) * K0
        low = _rotate_right(a - b, 43) + _rotate_right(c, 30) + d
        hashed = _hash_pair(low, a + _rotate_right(b ^ K3, 20) - c + size)
    elif size > 8:
        hashed = _hash_pair(load(0), _rotate_right(load(size - 8) + size, size)) ^ load(size - 8)
    elif size >= 4:
        hashed = _hash_pair(size + (load(0, 4) << 3), load(size - 4, 4))
    elif size:
        low, high = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
        hashed = _shift_mix((low * K2 ^ high * K3) & WORD_MASK) * K2
    else:
        hashed = K2
    return (hashed + 2**31) % 2**32 - 2**31


def _rotate_right(word: int, bits: int) -> int:
    return ((word & WORD_MASK) >> bits | (word & WORD_MASK) << (64 - bits)) & WORD_MASK


def _shift_mix(word: int) -> int:
    return (word & WORD_MASK) ^ (word & WORD_MASK) >> 47


def _hash_pair(low: int, high: int) -> int:
    factor = 0x9DDFEA08EB382D69
    mixed = _shift_mix((low ^ high & WORD_MASK) * factor)
    return _shift_mix((high ^ mixed) * factor) * factor & WORD_MASK


def _hash_32_bytes(a: int, second: int, third: int, z: int) -> tuple[int, int]:
    b, c = _rotate_right(a + z, 52), _rotate_right(a, 37)
    c += _rotate_right(a + second, 7)
    a += second + third
    return a + z, b + _rotate_right(a, 31) + c


def read_catboost(estimator: Any, target: EstimatorTarget) -> SumForm | None:
    """What one of CatBoost's scikit-learn classes decides; None if it is not one, NoReading if it cannot be read."""
    name = boosted_trees.identify_listed_class("catboost", estimator, SUPPORTED, UNSUPPORTED)
    if not name:
        return None
    if not estimator.is_fitted():
        raise NoReading("it is not fitted")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        estimator.save_model(str(path), format="json")
        document = json.loads(path.read_text())
    scores = _read_scores(document)
    loss = document["model_info"]["params"]["loss_function"]["type"]
    if name == "CatBoostClassifier":
        return _decide_class(scores, loss, estimator, target)
    if len(scores) != 1 or target.threshold is None:
        raise NoReading("only regressions of one number with a threshold are read")
    kind = estimator._get_default_prediction_type()  # of the estimator's parameters, not of the model
    if loss in IDENTITY and kind == "RawFormulaVal":
        return decisions.decide_number(scores[0], target.threshold)
    if loss in EXPONENTIAL and kind == "Exponent":
        return decisions.decide_exponential(scores[0], target.threshold, _compute_probability_error(scores))
    raise NoReading(f"the loss {loss} is not read")


def _compute_probability_error(scores: list[ScoreSum]) -> float:
    """A probability's error: CatBoost's own exp writes x as a multiple of log 2 / 2048, as rounded, and a rest; that
    moves x by DOUBLE_ROUNDOFF * |x|, and the rest is right to some units. Sums, quotients and one minus it add one.
    """
    return normal_form.DOUBLE_ROUNDOFF * (16 + len(scores) + 4 * max(score.size_bound for score in scores))


def _decide_class(scores: list[ScoreSum], loss: str, estimator: Any, target: EstimatorTarget) -> SumForm:
    wanted, threshold, noise = target.desired_classes, target.threshold, _compute_probability_error(scores)
    if len(scores) == 1 and len(estimator.classes_) == 2 and loss in LOGISTIC:
        first = wanted == (0,)
        if threshold is None:  # predict: the second class where the sum is above the logit of this probability
            border = estimator.get_probability_threshold()
            if not 0.0 < border < 1.0:
                raise NoReading(f"its probability threshold must be between 0 and 1, got {border!r}")
            threshold = 1.0 - border if first else border
        return decisions.decide_logistic(scores[0], threshold, noise, first=first)
    if len(scores) != len(estimator.classes_) or loss not in ("MultiClass", "MultiClassOneVsAll"):
        raise NoReading(f"the loss {loss} with {len(scores)} scores is not read")
    if threshold is None:
        return decisions.decide_largest(scores, wanted, 0.0)  # predict compares the sums themselves
    decide = decisions.decide_softmax if loss == "MultiClass" else decisions.decide_sigmoids
    return decide(scores, wanted, threshold, noise)


def _read_scores(document: dict[str, Any]) -> list[ScoreSum]:
    """The raw score of every dimension."""
    features = document["features_info"]
    numbers = {feature["feature_index"]: feature for feature in features.get("float_features", [])}
    texts = {feature["feature_index"]: feature for feature in features.get("categorical_features", [])}

    def read_split(split: dict[str, Any]) -> Split:
        if split["split_type"] == "FloatFeature":
            feature = numbers[split["float_feature_index"]]
            missing_right = feature["has_nans"] and feature["nan_value_treatment"] == "AsTrue"
            column, border = feature["flat_feature_index"], float(np.float32(split["border"]))
            return boosted_trees.Float32Split(column, border, not missing_right, inclusive=True)
        if split["split_type"] == "OneHotFeature":
            return _CatBoostCategorySplit(texts[split["cat_feature_index"]]["flat_feature_index"], split["value"])
        raise NoReading(f"splits of the kind {split['split_type']} are not read")

    scale, biases = document["scale_and_bias"]
    scores = []
    for dimension, bias in enumerate(biases):
        nested, oblivious = document.get("trees", []), document.get("oblivious_trees", [])
        trees = [_read_nested_tree(tree, read_split, dimension) for tree in nested]
        trees += [_read_oblivious_tree(tree, read_split, dimension, len(biases)) for tree in oblivious]
        score = boosted_trees.sum_in_any_order(trees, normal_form.DOUBLE_ROUNDOFF)
        scores.append(score if (scale, bias) == (1, 0) else boosted_trees.scale_and_shift(score, scale, bias))
    return scores


def _read_nested_tree(tree: dict[str, Any], read_split: Any, dimension: int) -> RegressionTree:
    def look(node: dict[str, Any]) -> boosted_trees.InnerNode[dict[str, Any]] | float:
        if "split" in node:
            return read_split(node["split"]), node["left"], node["right"]
        return float(node["value"][dimension] if isinstance(node["value"], list) else node["value"])

    return boosted_trees.build_tree(tree, look)


def _read_oblivious_tree(tree: dict[str, Any], read_split: Any, dimension: int, dimensions: int) -> RegressionTree:
    splits = [read_split(split) for split in tree.get("splits") or []]

    def look(node: tuple[int, int]) -> boosted_trees.InnerNode[tuple[int, int]] | float:
        level, leaf = node
        if level == len(splits):
            return float(tree["leaf_values"][leaf * dimensions + dimension])
        return splits[level], (level + 1, leaf), (level + 1, leaf + 2**level)

    return boosted_trees.build_tree((0, 0), look)
