"""CatBoost's scikit-learn classes, read from the JSON that CatBoost writes of a model, in which numbers are exact.

A number goes right if as float32 it is above the border, a category if its hash is the one asked for (one-hot). Most
CatBoost trees are oblivious: all nodes of a level ask the same. Leaves are added in float64, then scaled and shifted.
Statistics of categories (ctr), texts and embeddings mix what was seen in training and are refused.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, IntpArray
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.splits import ThresholdSplits, TreeBuilder
from ironrule.model.normal_form.tree_sum import Tree, TreeSplit, TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.model.readers import boosting
from ironrule.model.readers.library_class import require_own_methods

# of probabilities: CatBoost's own vector exponential is less exact than the C library's
PROBABILITY_ROUNDOFF = 2.0**-44

IDENTITY_LOSSES = ("RMSE", "MAE", "Quantile", "Huber", "LogCosh", "Lq", "Expectile", "MAPE", "SMAPE")
RESPONSES = dict.fromkeys(IDENTITY_LOSSES, boosting.IDENTITY_RESPONSE)
RESPONSES |= dict.fromkeys(("Poisson", "Tweedie"), boosting.EXPONENTIAL_RESPONSE)


@dataclass(frozen=True, slots=True)
class CatBoostThresholdSplit:
    """CatBoost's numeric split: as float32, at most the border goes left; NaN goes where the column says."""

    column: int
    border: float
    nan_left: bool
    turns_once: ClassVar[bool] = True

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        with np.errstate(over="ignore"):
            numbers = values.astype(np.float32)
        return np.asarray(np.where(np.isnan(numbers), self.nan_left, ~(numbers > np.float32(self.border))), np.bool_)


@dataclass(frozen=True, slots=True)
class CatBoostCategorySplit:
    """CatBoost's one-hot split: every category but the one with this hash goes left."""

    column: int
    hash: int

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        texts = [_format_category(value, self.column) for value in values.tolist()]
        hash_by_text = _hash_categories(tuple(sorted(set(texts))))
        return np.array([hash_by_text[text] != self.hash for text in texts], dtype=np.bool_)


def _format_category(value: Any, column: int) -> str:
    """What CatBoost hashes of a category: the text, or the integer's digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    raise Unreadable(f"a category must be a string or an integer, got {value!r} in column {column}")


@lru_cache(maxsize=64)
def _hash_categories(texts: tuple[str, ...]) -> dict[str, int]:
    """CatBoost's own hashes of categories, written beside a throw-away model that is fitted on them."""
    library = sys.modules["catboost"]
    fitted = [*texts, "a", "b"]
    labels = [float(place) for place in range(len(fitted))]
    pool = library.Pool([[text] for text in fitted], label=labels, cat_features=[0])
    model = library.CatBoostRegressor(iterations=1, depth=1, one_hot_max_size=255, verbose=0, allow_writing_files=False)
    content = _export_json(model.fit(pool), pool)
    return {kept["value"]: int(kept["hash"]) for kept in content["features_info"]["cat_features_hash"]}


def _export_json(model: Any, pool: Any = None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        content: dict[str, Any] = json.loads(path.read_text())
    return content


def read_catboost(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of a CatBoostClassifier or CatBoostRegressor; None for anything else."""
    library = sys.modules.get("catboost")
    if library is None or not isinstance(estimator, (library.CatBoostClassifier, library.CatBoostRegressor)):
        return None
    require_own_methods(estimator)
    if estimator.get_text_feature_indices() or estimator.get_embedding_feature_indices():
        raise Unreadable("CatBoost's text and embedding features are not read; leave these columns out to have it read")
    content = _export_json(estimator)
    loss = str(content["model_info"]["params"]["loss_function"]["type"])
    scores = _read_scores(content)
    if isinstance(estimator, library.CatBoostClassifier):
        return _read_classifier(estimator, scores, loss, desired, threshold)
    why = f"CatBoost's loss {loss} is not a threshold on a sum of trees"
    return boosting.read_prediction(
        scores, RESPONSES.get(loss), desired, threshold, unit=PROBABILITY_ROUNDOFF, no_response=why
    )


def _read_classifier(
    estimator: Any, scores: list[boosting.BoostedScore], loss: str, desired: tuple[Any, ...], threshold: float | None
) -> TreeSum:
    wanted = boosting.find_class_positions(estimator, desired)
    count = len(estimator.classes_)
    if loss in ("Logloss", "CrossEntropy") and len(scores) == 1 and count == 2 and len(wanted) == 1:
        level = float(estimator.get_probability_threshold())  # of labels: 0.5 unless the user has set another
        asked = threshold if threshold is not None else level if wanted == [1] else 1 - level
        return boosting.read_two_classes(scores[0], boosting.LOGISTIC_RESPONSE, wanted, asked, PROBABILITY_ROUNDOFF)
    if loss not in ("MultiClass", "MultiClassOneVsAll") or len(scores) != count:
        raise Unreadable(f"CatBoost's loss {loss} with {len(scores)} outputs for {count} classes is not read")
    return boosting.read_class_scores(
        scores, wanted, threshold, PROBABILITY_ROUNDOFF, own_sigmoids=loss != "MultiClass"
    )


def _read_scores(content: dict[str, Any]) -> list[boosting.BoostedScore]:
    """Per output its score: scale * (sum of leaves) + bias."""
    scale, biases = content["scale_and_bias"]
    biases = biases if isinstance(biases, list) else [biases]
    split = _make_split_reader(content["features_info"])
    sums: list[list[Tree]] = [[] for _ in biases]
    for tree in content.get("oblivious_trees", []):  # a leaf has a value per output: a tree each
        asked = [split(asked) for asked in tree["splits"] or []]
        leaves = np.array(tree["leaf_values"], dtype=np.float64).reshape(-1, len(biases)) * scale
        for output, each in enumerate(sums):
            each.append(_build_oblivious_tree(asked, leaves[:, output]))
    for tree in content.get("trees", []):
        for output, each in enumerate(sums):
            each.append(_build_free_tree(tree, split, output, scale))
    # Every rounding happens once more where the scale is not 1. CatBoost starts again for blocks of trees: any order.
    whole = [sum(float(np.abs(tree.value).max()) for tree in each) for each in sums]
    return [
        boosting.sum_trees(float(bias), each, DOUBLE_ROUNDOFF, DOUBLE_ROUNDOFF * (len(each) + 4) * (size + abs(bias)))
        for bias, each, size in zip(biases, sums, whole, strict=True)
    ]


def _make_split_reader(information: dict[str, Any]) -> Callable[[dict[str, Any]], TreeSplit]:
    numbers = {feature["feature_index"]: feature for feature in information.get("float_features", [])}
    categories = {feature["feature_index"]: feature for feature in information.get("categorical_features", [])}

    def split(asked: dict[str, Any]) -> TreeSplit:
        if asked["split_type"] == "FloatFeature":
            feature = numbers[asked["float_feature_index"]]
            nan_left = feature["nan_value_treatment"] != "AsTrue"  # a comparison with NaN is false by itself
            return CatBoostThresholdSplit(int(feature["flat_feature_index"]), float(asked["border"]), nan_left)
        if asked["split_type"] == "OneHotFeature":
            column = categories[asked["cat_feature_index"]]["flat_feature_index"]
            return CatBoostCategorySplit(int(column), int(asked["value"]) % 2**32)
        raise Unreadable(
            "CatBoost splits on statistics of categories (ctr), which are not read; "
            "one_hot_max_size above the number of categories avoids them"
        )

    return split


def _build_oblivious_tree(splits: Sequence[TreeSplit], leaves: Float64Array) -> Tree:
    """A full tree in the order of a heap; split k is bit k of the leaf's number, so the last split is asked first."""
    inner = len(leaves) - 1
    levels = np.repeat(np.arange(len(splits))[::-1], 2 ** np.arange(len(splits)))  # the split that each node asks
    left = np.full(2 * inner + 1, -1, dtype=np.int32)
    left[:inner] = 2 * np.arange(inner) + 1
    right = np.where(left < 0, left, left + 1).astype(np.int32)
    return Tree(_build_splits(splits, levels, len(leaves)), left, right, np.concatenate([np.zeros(inner), leaves]))


def _build_splits(splits: Sequence[TreeSplit], levels: IntpArray, leaves: int) -> ThresholdSplits:
    """The splits of nodes that ask the ones at these levels, and of so many leaves after them."""
    none = CatBoostThresholdSplit(-1, 0.0, False)
    numeric = [split if isinstance(split, CatBoostThresholdSplit) else none for split in splits]
    column, kind = (
        np.array([getattr(split, name) for split in numeric] + [-1], np.int32) for name in ("column", "nan_left")
    )
    border = np.array([np.float32(split.border) for split in numeric] + [0.0], dtype=np.float64)
    asked = np.concatenate([levels, np.full(leaves, len(splits))])
    others = {node: splits[k] for node, k in enumerate(levels.tolist()) if numeric[k] is not splits[k]}
    return ThresholdSplits(column[asked], border[asked], kind[asked], make_catboost_split, others)


def make_catboost_split(column: int, border: float, nan_left: int) -> TreeSplit:
    """CatBoost's numeric split."""
    return CatBoostThresholdSplit(column, border, bool(nan_left))


def _build_free_tree(
    tree: dict[str, Any], split: Callable[[dict[str, Any]], TreeSplit], output: int, scale: float
) -> Tree:
    """A tree whose nodes ask what they like; at most 16 levels, as CatBoost grows them."""
    builder = TreeBuilder()

    def add(node: dict[str, Any]) -> int:
        if "split" not in node:
            value = node["value"]
            return builder.add(None, scale * float(value[output] if isinstance(value, list) else value))
        place = builder.add(split(node["split"]))
        builder.left[place], builder.right[place] = add(node["left"]), add(node["right"])
        return place

    add(tree)
    return builder.build()
