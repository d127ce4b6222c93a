"""XGBoost's scikit-learn classes, read from the booster's own JSON.

XGBoost keeps leaves and thresholds as float32 (its JSON gives them exactly) and adds in float32, tree after tree. How
its decisions follow from the scores, and how the errors are bounded, is in :mod:`ironrule.model.readers.boosting`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.arrays import AnyArray, BoolArray
from ironrule.model.normal_form.network import SINGLE_ROUNDOFF
from ironrule.model.normal_form.splits import ThresholdSplits
from ironrule.model.normal_form.tree_sum import Tree, TreeSplit, TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers import boosting
from ironrule.model.readers.library_class import require_own_methods
from ironrule.model.readers.sklearn_additive import AdditiveScore, IdentityShape, ScoreThreshold, build_margin

CategoryLabels = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class XGBoostThresholdSplit:
    """XGBoost's numeric split: as float32, below the threshold goes left; missing goes where the tree says."""

    column: int
    threshold: float
    missing_left: bool
    missing: float | None = None  # a number that stands for missing, beside NaN

    @property
    def turns_once(self) -> bool:
        """Unless a number that stands for missing goes where its neighbours do not."""
        return self.missing is None or self.missing_left == (self.missing < self.threshold)

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        numbers, missing = _to_float32(values, self.missing)
        return np.asarray(np.where(missing, self.missing_left, numbers < np.float32(self.threshold)), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class XGBoostSplitFactory:
    """Makes numeric splits; their kind is 1 where missing goes left."""

    missing: float | None

    def __call__(self, column: int, threshold: float, missing_left: int) -> TreeSplit:
        return XGBoostThresholdSplit(column, threshold, bool(missing_left), self.missing)


@dataclass(frozen=True, slots=True)
class XGBoostCategorySplit:
    """XGBoost's categorical split: categories outside the chosen set go left; missing goes where the tree says.

    Where the model keeps the categories of a pandas column, their labels are the values, else category numbers.
    """

    column: int
    chosen: frozenset[int]
    missing_left: bool
    missing: float | None = None
    labels: CategoryLabels | None = None

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        codes = values if self.labels is None else encode_categories(values, self.labels, self.column)
        numbers, missing = _to_float32(codes, self.missing if self.labels is None else None)
        # a negative or huge number is no category: it is not chosen
        chosen = np.isin(np.trunc(numbers), np.array(sorted(self.chosen), dtype=np.float64)) & (numbers >= 0)
        return np.asarray(np.where(missing, self.missing_left, ~chosen), dtype=np.bool_)


def encode_categories(values: AnyArray, labels: CategoryLabels, column: int, unseen: float | None = None) -> Any:
    """The category numbers of labels, NaN where missing; an unknown label is ``unseen`` or refused."""
    code_by_label = {label: float(code) for code, label in enumerate(labels)}
    codes = np.empty(len(values))
    for row, value in enumerate(values.tolist()):
        code = math.nan if value is None or value != value else code_by_label.get(value, unseen)
        if code is None:
            reason = f"the value {value!r} of column {column} is none of the categories that the model was fitted on"
            raise Unreadable(reason)
        codes[row] = code
    return codes


def _to_float32(values: AnyArray, missing: float | None) -> tuple[npt.NDArray[np.float32], BoolArray]:
    """The values as float32, and which of them are missing."""
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
        alias = np.float32(math.nan if missing is None else missing)
    return numbers, np.isnan(numbers) | (numbers == alias)


IDENTITY_OBJECTIVES = (
    *("binary:logitraw", "reg:squarederror", "reg:linear", "reg:absoluteerror", "reg:pseudohubererror"),
    *("reg:quantileerror", "reg:squaredlogerror"),
)
RESPONSES = dict.fromkeys(IDENTITY_OBJECTIVES, boosting.IDENTITY_RESPONSE)
RESPONSES |= dict.fromkeys(("binary:logistic", "reg:logistic"), boosting.LOGISTIC_RESPONSE)
RESPONSES |= dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), boosting.EXPONENTIAL_RESPONSE)
RESPONSES["binary:hinge"] = boosting.STEP_RESPONSE  # 1 where the score is above 0, else 0


def read_xgboost(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of an XGBClassifier, XGBRFClassifier, XGBRegressor or XGBRFRegressor; None for anything else."""
    library = sys.modules.get("xgboost")
    if library is None or not isinstance(estimator, library.XGBModel):
        return None
    kinds = (library.XGBClassifier, library.XGBRegressor)
    if not isinstance(estimator, kinds) or isinstance(estimator, library.XGBRanker):
        raise Unreadable(f"{type(estimator).__name__} is neither a classifier nor a regressor")
    require_own_methods(estimator)
    booster = estimator.get_booster()
    learner = json.loads(booster.save_raw("json"))["learner"]
    objective = str(learner["objective"]["name"])
    if objective not in RESPONSES and objective not in ("multi:softprob", "multi:softmax"):
        raise Unreadable(f"XGBoost's objective {objective} is not a threshold on a sum of trees")
    if (estimator.objective == "multi:softmax") != (objective == "multi:softmax"):
        raise Unreadable(f"its objective was set to {estimator.objective!r} after it was fitted with {objective!r}")
    if learner["gradient_booster"]["name"] == "gblinear":
        return _read_linear(estimator, booster, learner, objective, desired=desired, threshold=threshold)
    scores = _read_scores(estimator, booster, learner, objective)
    if isinstance(estimator, library.XGBClassifier):
        return _read_classifier(estimator, scores, objective, desired, threshold)
    return boosting.read_prediction(scores, RESPONSES.get(objective), desired, threshold, SINGLE_ROUNDOFF)


def _read_classifier(
    estimator: Any,
    scores: list[boosting.BoostedScore],
    objective: str,
    desired: tuple[Any, ...],
    threshold: float | None,
) -> TreeSum:
    wanted = boosting.find_class_positions(estimator, desired)
    if len(scores) == 1 and len(estimator.classes_) <= 2 and objective in RESPONSES:
        return boosting.read_two_classes(scores[0], RESPONSES[objective], wanted, threshold, SINGLE_ROUNDOFF)
    if len(scores) != len(estimator.classes_) or len(scores) < 3:
        raise Unreadable(f"{len(scores)} outputs for {len(estimator.classes_)} classes are not one decision")
    return boosting.read_class_scores(scores, wanted, threshold, SINGLE_ROUNDOFF)


def _read_linear(
    estimator: Any,
    booster: Any,
    learner: dict[str, Any],
    objective: str,
    *,
    desired: tuple[Any, ...],
    threshold: float | None,
) -> TreeSum:
    """A linear booster (gblinear): a base, a bias and a weight per column, added up in float32."""
    classes = len(getattr(estimator, "classes_", ()))
    response = RESPONSES.get(objective)
    if response is None or classes > 2:
        raise Unreadable(
            "XGBoost's gblinear is read with two classes or as a regression; use gbtree for several classes"
        )
    require_readable(math.isnan(estimator.missing), "XGBoost's gblinear is read only if missing values are NaN")
    width = int(learner["learner_model_param"]["num_feature"])
    held = np.array(learner["gradient_booster"]["model"]["weights"], dtype=np.float32).astype(np.float64)
    require_readable(len(held) == width + 1, "XGBoost's gblinear has more than one output")
    blank = sys.modules["xgboost"].DMatrix(np.zeros((1, width), dtype=np.float32))
    asked = float(booster.predict(blank, output_margin=True, validate_features=False)[0])
    stored = np.float32(str(learner["learner_model_param"]["base_score"]).strip("[]"))
    base = min(_list_base_scores(stored, response), key=lambda one: abs(one + held[-1] - asked))
    error = 8 * SINGLE_ROUNDOFF * (abs(base) + abs(held[-1]) + abs(asked))
    if not abs(base + held[-1] - asked) <= error:
        raise Unreadable(f"the base score {stored:g} must explain XGBoost's own answer, but {asked:g} was given")
    parts = tuple((float(weight), IdentityShape()) for weight in held[:-1])
    score = AdditiveScore((base, float(held[-1])), parts, 2 * SINGLE_ROUNDOFF, error)
    first = False
    if classes:
        wanted = boosting.find_class_positions(estimator, desired)
        require_readable(len(wanted) == 1, "one of two classes must be desired")
        first, threshold = wanted == [0], 0.5 if threshold is None else threshold
    if threshold is None:
        raise Unreadable("a regressor is read where one prediction is compared with a threshold, which must be given")
    noise = boosting.bound_probability_error(SINGLE_ROUNDOFF)
    crossed = boosting.find_crossing(response, threshold, noise, first=first)
    if crossed is None:
        return boosting.build_constant_sum(threshold < response.minimum)
    cut = ScoreThreshold(-crossed[0] if first else crossed[0], crossed[1])
    return TreeSum(((build_margin((score.negate() if first else score,), cut),),))


def _read_scores(estimator: Any, booster: Any, learner: dict[str, Any], objective: str) -> list[boosting.BoostedScore]:
    """Per output group its score; the base is the one that the booster's own answer for a row of NaN confirms."""
    machine = learner["gradient_booster"]
    require_readable(machine["name"] in ("gbtree", "dart"), f"XGBoost's {machine['name']} booster has no trees")
    model = machine["gbtree"]["model"] if machine["name"] == "dart" else machine["model"]
    parameters = learner["learner_model_param"]
    outputs = max(int(parameters["num_class"]), 1)
    sizes = [int(tree["tree_param"]["size_leaf_vector"]) for tree in model["trees"]]
    if int(parameters.get("num_target", 1)) > 1 or max(sizes, default=0) > 1:
        raise Unreadable("XGBoost trees with several outputs per leaf are not read")
    rounds = int(booster.attr("best_iteration") or -1) + 1 or booster.num_boosted_rounds()
    count = model["iteration_indptr"][rounds] if model["trees"] else 0
    weights = np.array(machine.get("weight_drop", [1.0] * count), dtype=np.float32).astype(np.float64)
    missing = None if math.isnan(estimator.missing) else float(estimator.missing)
    labels = read_category_labels(learner)
    trees: list[list[Tree]] = [[] for _ in range(outputs)]
    for tree, weight, output in zip(model["trees"][:count], weights, model["tree_info"], strict=False):
        trees[output].append(_read_tree(tree, float(weight), missing, labels))
    blank = np.full((1, int(parameters["num_feature"])), np.nan, dtype=np.float32)
    probe = booster.inplace_predict(blank, iteration_range=(0, rounds), predict_type="margin", validate_features=False)
    stored = [float(x) for x in str(parameters["base_score"]).strip("[]").split(",")]
    stored = stored * outputs if len(stored) == 1 else stored
    dart = machine["name"] == "dart"
    asked = np.asarray(probe, dtype=np.float64).ravel()
    return [_read_score(*each, objective, blank, dart) for each in zip(stored, trees, asked.tolist(), strict=True)]


def _read_score(
    stored: float, trees: list[Tree], asked: float, objective: str, blank: npt.NDArray[np.float32], dart: bool
) -> boosting.BoostedScore:
    if not trees:
        return boosting.sum_trees(asked, (), SINGLE_ROUNDOFF)
    rest = asked - float(sum(tree.evaluate(blank)[0] for tree in trees))
    base = min(_list_base_scores(np.float32(stored), RESPONSES.get(objective)), key=lambda b: abs(b - rest))
    # Its logarithm is within 2 units. Dart multiplies each tree by its weight, with the base added and taken off again.
    extra = 4 * SINGLE_ROUNDOFF * abs(base)
    if dart:
        extra += 4 * SINGLE_ROUNDOFF * sum(abs(base) + float(np.abs(tree.value).max()) for tree in trees)
    score = boosting.sum_trees(base, trees, SINGLE_ROUNDOFF, extra)
    if not abs(base - rest) <= score.error:
        raise Unreadable(f"the base score {stored:g} must explain XGBoost's own answer, but {rest:g} is left")
    return score


def _list_base_scores(stored: np.float32, response: boosting.Response | None) -> list[float]:
    """What a stored base score may be as a raw score: as it is, or through the objective's link, in float32."""
    bases = [float(stored)]
    if response is boosting.LOGISTIC_RESPONSE:
        edge = np.float32(1e-6)
        held = np.clip(stored, edge, np.float32(1) - edge)
        bases.append(-math.log(float(np.float32(1) / held - np.float32(1))))
    if response is boosting.EXPONENTIAL_RESPONSE and stored > 0:
        bases.append(math.log(float(stored)))
    return bases


def read_category_labels(learner: dict[str, Any]) -> list[CategoryLabels | None]:
    """Per column the labels of its categories, where the model keeps them: texts as bytes with offsets, or numbers.

    XGBoost 3 counts offsets in characters but cuts bytes, so labels beyond ASCII are lost: () stands for that.
    """
    labels: list[CategoryLabels | None] = []
    machine = learner["gradient_booster"]
    model = machine["gbtree"]["model"] if machine["name"] == "dart" else machine["model"]
    for kept in (model.get("cats") or {}).get("enc", []):  # a column each, empty where it has no categories
        if "offsets" in kept:
            text = bytes(value % 256 for value in kept["values"])
            ends = kept["offsets"]
            kept_labels = tuple(text[a:b].decode() for a, b in pairwise(ends)) if text.isascii() else ()
            labels.append(kept_labels if text else None)
        else:
            labels.append(tuple(kept["values"]) or None)
    return labels


def _read_tree(tree: dict[str, Any], weight: float, missing: float | None, labels: list[CategoryLabels | None]) -> Tree:
    sides = (np.array(tree[name], dtype=np.int64) for name in ("left_children", "right_children"))
    order, left, right = boosting.order_parents_first(*sides)
    numbers = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)[order]
    names = ("default_left", "split_type", "split_indices")
    default, kind, column = (np.array(tree[name], dtype=np.int32)[order] for name in names)
    inner = left >= 0
    spans = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
    chosen = {node: frozenset(tree["categories"][start : start + size]) for node, start, size in spans}

    def outside(place: int) -> TreeSplit:
        own_column = int(column[place])
        kept = labels[own_column] if own_column < len(labels) else None
        require_readable(kept != (), f"XGBoost damages categories that are not plain ASCII, as in column {own_column}")
        return XGBoostCategorySplit(own_column, chosen[int(order[place])], bool(default[place]), missing, kept)

    others = {place: outside(place) for place in np.flatnonzero(inner & (kind != 0)).tolist()}
    numeric = np.where(inner & (kind == 0), column, -1)
    splits = ThresholdSplits(numeric, numbers, default, XGBoostSplitFactory(missing), others)
    return Tree(splits, left, right, np.where(inner, 0.0, numbers * weight))
