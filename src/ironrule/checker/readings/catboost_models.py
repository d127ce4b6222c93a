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

from ironrule.checker.readings import boosted_sums, decisions
from ironrule.checker.readings.cuts import DOUBLE
from ironrule.checker.readings.decisions import Score
from ironrule.checker.readings.normal_form import Mask, Question, Split, SumReading, Tree, Unreadable, Values

OTHERS = ("CatBoost", "CatBoostRanker")
LOGISTIC = ("Logloss", "CrossEntropy")
RAW = ("RMSE", "MAE", "Quantile", "MAPE", "Lq", "Huber", "Expectile", "LogCosh", "RMSPE", "LogLinQuantile")
EXPONENTIAL = ("Poisson", "Tweedie")
WORD = 2**64 - 1
K0, K1, K2, K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557


@dataclass(frozen=True, slots=True)
class NotAbove:
    """A float32 that is not above a border goes left."""

    column: int
    border: float
    missing_left: bool
    turns_once: bool = True  # casting to float32 never falls

    def goes_left(self, values: Values) -> Mask:
        """Which of these values go left."""
        numbers = boosted_sums.as_singles(values)
        return np.where(np.isnan(numbers), self.missing_left, ~(numbers > np.float32(self.border)))


@dataclass(frozen=True, slots=True)
class OtherHash:
    """A category with another hash goes left."""

    column: int
    hashed: int
    turns_once: bool = False

    def goes_left(self, values: Values) -> Mask:
        """Which of these values go left."""
        return np.array([hash_category(_to_text(value)) != self.hashed for value in values.tolist()], dtype=bool)


def _to_text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (str, int, np.integer)):
        raise Unreadable(f"a category must be a string or an integer, got {value!r}")
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
        raise Unreadable("categories of more than 64 bytes are not read")
    if size > 32:
        first = _mix_half(load(0) + (size + load(size - 16)) * K0, load(8), load(16), load(24))
        second = _mix_half(load(16) + load(size - 32), load(size - 24), load(size - 16), load(size - 8))
        mixed = _fold((first[0] + second[1]) * K2 + (second[0] + first[1]) * K0)
        hashed = _fold(mixed * K0 + first[1]) * K2
    elif size > 16:
        a, b, c, d = load(0) * K1, load(8), load(size - 8) * K2, load(size - 16) * K0
        hashed = _join(_turn(a - b, 43) + _turn(c, 30) + d, a + _turn(b ^ K3, 20) - c + size)
    elif size > 8:
        hashed = _join(load(0), _turn(load(size - 8) + size, size)) ^ load(size - 8)
    elif size >= 4:
        hashed = _join(size + (load(0, 4) << 3), load(size - 4, 4))
    elif size:
        low, high = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
        hashed = _fold((low * K2 ^ high * K3) & WORD) * K2
    else:
        hashed = K2
    return (hashed + 2**31) % 2**32 - 2**31


def _turn(word: int, bits: int) -> int:
    return ((word & WORD) >> bits | (word & WORD) << (64 - bits)) & WORD


def _fold(word: int) -> int:
    return (word & WORD) ^ (word & WORD) >> 47


def _join(low: int, high: int) -> int:
    factor = 0x9DDFEA08EB382D69
    mixed = _fold((low ^ high & WORD) * factor)
    return _fold((high ^ mixed) * factor) * factor & WORD


def _mix_half(a: int, second: int, third: int, z: int) -> tuple[int, int]:
    b, c = _turn(a + z, 52), _turn(a, 37)
    c += _turn(a + second, 7)
    a += second + third
    return a + z, b + _turn(a, 31) + c


def read_catboost(estimator: Any, question: Question) -> SumReading | None:
    """What one of CatBoost's scikit-learn classes decides; None if it is not one, Unreadable if it cannot be read."""
    name = boosted_sums.check_methods("catboost", estimator, ("CatBoostClassifier", "CatBoostRegressor", *OTHERS))
    if not name:
        return None
    if name in OTHERS:
        raise Unreadable(f"{name} is neither a classifier nor a regression")
    if not estimator.is_fitted():
        raise Unreadable("it is not fitted")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        estimator.save_model(str(path), format="json")
        document = json.loads(path.read_text())
    scores = _read_scores(document)
    loss = document["model_info"]["params"]["loss_function"]["type"]
    if name == "CatBoostClassifier":
        return _decide_class(scores, loss, estimator, question)
    if len(scores) != 1 or question.threshold is None:
        raise Unreadable("only regressions of one number with a threshold are read")
    kind = estimator._get_default_prediction_type()  # of the estimator's parameters, not of the model
    if loss in RAW and kind == "RawFormulaVal":
        return decisions.number_above(scores[0], question.threshold)
    if loss in EXPONENTIAL and kind == "Exponent":
        return decisions.exponential_above(scores[0], question.threshold, _noise(scores))
    raise Unreadable(f"the loss {loss} is not read")


def _noise(scores: list[Score]) -> float:
    """A probability's error: CatBoost's own exp writes x as a multiple of log 2 / 2048, as rounded, and a rest; that
    moves x by DOUBLE * |x|, and the rest is right to some units. Sums, quotients and one minus it add one each.
    """
    return DOUBLE * (16 + len(scores) + 4 * max(score.reach for score in scores))


def _decide_class(scores: list[Score], loss: str, estimator: Any, question: Question) -> SumReading:
    wanted, threshold, noise = question.wanted, question.threshold, _noise(scores)
    if len(scores) == 1 and len(estimator.classes_) == 2 and loss in LOGISTIC:
        first = wanted == (0,)
        if threshold is None:  # predict: the second class where the sum is above the logit of this probability
            border = estimator.get_probability_threshold()
            if not 0.0 < border < 1.0:
                raise Unreadable(f"its probability threshold must be between 0 and 1, got {border!r}")
            threshold = 1.0 - border if first else border
        return decisions.logistic_above(scores[0], threshold, noise, first=first)
    if len(scores) != len(estimator.classes_) or loss not in ("MultiClass", "MultiClassOneVsAll"):
        raise Unreadable(f"the loss {loss} with {len(scores)} scores is not read")
    if threshold is None:
        return decisions.largest(scores, wanted, 0.0)  # predict compares the sums themselves
    return (decisions.softmax_above if loss == "MultiClass" else decisions.sigmoids_above)(
        scores, wanted, threshold, noise
    )


def _read_scores(document: dict[str, Any]) -> list[Score]:
    """The raw score of every dimension."""
    features = document["features_info"]
    numbers = {feature["feature_index"]: feature for feature in features.get("float_features", [])}
    texts = {feature["feature_index"]: feature for feature in features.get("categorical_features", [])}

    def read_split(split: dict[str, Any]) -> Split:
        if split["split_type"] == "FloatFeature":
            feature = numbers[split["float_feature_index"]]
            missing_right = feature["has_nans"] and feature["nan_value_treatment"] == "AsTrue"
            return NotAbove(feature["flat_feature_index"], float(np.float32(split["border"])), not missing_right)
        if split["split_type"] == "OneHotFeature":
            return OtherHash(texts[split["cat_feature_index"]]["flat_feature_index"], split["value"])
        raise Unreadable(f"splits of the kind {split['split_type']} are not read")

    scale, biases = document["scale_and_bias"]
    scores = []
    for dimension, bias in enumerate(biases):
        trees = [_read_nested(tree, read_split, dimension) for tree in document.get("trees", [])]
        trees += [
            _read_levels(tree, read_split, dimension, len(biases)) for tree in document.get("oblivious_trees", [])
        ]
        score = boosted_sums.add_in_any_order(trees, DOUBLE)
        scores.append(score if (scale, bias) == (1, 0) else boosted_sums.scale_and_shift(score, scale, bias))
    return scores


def _read_nested(tree: dict[str, Any], read_split: Any, dimension: int) -> Tree:
    def look(node: dict[str, Any]) -> boosted_sums.Place[dict[str, Any]] | float:
        if "split" in node:
            return read_split(node["split"]), node["left"], node["right"]
        return float(node["value"][dimension] if isinstance(node["value"], list) else node["value"])

    return boosted_sums.grow_tree(tree, look)


def _read_levels(tree: dict[str, Any], read_split: Any, dimension: int, dimensions: int) -> Tree:
    splits = [read_split(split) for split in tree.get("splits") or []]

    def look(node: tuple[int, int]) -> boosted_sums.Place[tuple[int, int]] | float:
        level, leaf = node
        if level == len(splits):
            return float(tree["leaf_values"][leaf * dimensions + dimension])
        return splits[level], (level + 1, leaf), (level + 1, leaf + 2**level)

    return boosted_sums.grow_tree((0, 0), look)
