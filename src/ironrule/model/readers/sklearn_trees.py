"""scikit-learn's trees and everything that adds trees up: forests, boosting, bagging, voting; regressors too.

What the models add up and compare, and how rounding is bounded, is said in :mod:`ironrule.model.readers.tree_scores`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any, ClassVar

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array
from ironrule.model.decision import list_labels, split_classes
from ironrule.model.normal_form.splits import ThresholdSplits
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSplit, TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.boosting import build_constant_sum
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods, require_same_labels
from ironrule.model.readers.tree_scores import (
    LINK_ERROR,
    BinaryScore,
    ClassScores,
    LinkedScore,
    NumberScore,
    ScoreColumns,
    ScoredModel,
    VectorTree,
    add_scores,
    apply_logistic,
    bound_rounding,
    build_tree_sum,
    find_deciding_score,
    map_scores,
    read_binary,
    read_classes,
    require_fitted,
    scale_scores,
    score_tree,
)


@dataclass(frozen=True, slots=True)
class SklearnThresholdSplit:
    """``x <= threshold``, as float32 in scikit-learn's plain trees and as float64 in its histogram trees."""

    column: int
    threshold: float
    missing_left: bool
    as_float32: bool
    turns_once: ClassVar[bool] = True

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which values are at most the threshold; a missing one goes where the tree says."""
        with np.errstate(over="ignore"):
            numbers = np.asarray(values).astype(np.float32 if self.as_float32 else np.float64).astype(np.float64)
        return np.where(np.isnan(numbers), self.missing_left, numbers <= self.threshold)


@dataclass(frozen=True, slots=True)
class SklearnCategorySplit:
    """A histogram tree's split by category; one never seen in training counts as missing."""

    column: int
    left: frozenset[Any]
    right: frozenset[Any]
    missing_left: bool

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which values are among the categories on the left."""
        seen = np.asarray(values).tolist()
        return np.array([v in self.left or (self.missing_left and v not in self.right) for v in seen], np.bool_)


def make_float32_split(column: int, threshold: float, missing_left: int) -> TreeSplit:
    """The split of scikit-learn's plain trees."""
    return SklearnThresholdSplit(column, threshold, bool(missing_left), as_float32=True)


def make_float64_split(column: int, threshold: float, missing_left: int) -> TreeSplit:
    """The split of scikit-learn's histogram trees."""
    return SklearnThresholdSplit(column, threshold, bool(missing_left), as_float32=False)


def read_sklearn_trees(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of a scikit-learn model made of trees; None for anything else."""
    if _get_class_name(estimator) not in MODEL_BUILDERS:
        return None
    require_own_methods(estimator)
    require_fitted(estimator)
    require_readable(getattr(estimator, "n_outputs_", 1) == 1, "it answers several questions at once (multi-output)")
    if not hasattr(estimator, "classes_"):
        return _read_number(estimator, threshold)
    labels = list_labels(estimator.classes_)
    wanted, _ = split_classes(labels, desired)
    if len(labels) == 1 or len(wanted) in (0, len(labels)):
        return _read_constant(estimator, len(labels), len(wanted), threshold)
    if _is_tree(estimator) and (threshold is None or len(wanted) == 1):
        return _read_tree(estimator, wanted, threshold)
    has_probabilities = hasattr(estimator, "predict_proba")
    require_readable(threshold is None or has_probabilities, "it has no probabilities to pass a threshold")
    model = _build_model(estimator)
    if isinstance(model, BinaryScore):
        return read_binary(model, wanted, threshold)
    return read_classes(model, wanted, threshold)


def _read_constant(estimator: Any, classes: int, wanted: int, threshold: float | None) -> TreeSum:
    """Nothing or everything is desired, or there is a single class."""
    if threshold is None:
        return build_constant_sum(wanted == classes)
    require_readable(wanted == 0 or not _get_class_name(estimator).startswith("Hist"), "it knows a single class")
    require_readable(wanted < 2, "all its classes are desired, and probabilities add up to 1 only up to rounding")
    return build_constant_sum(float(wanted) > threshold)


def _read_tree(estimator: Any, wanted: Sequence[int], threshold: float | None) -> TreeSum:
    """A single tree decides at its leaves, exactly."""
    tree = _read_vector_tree(estimator.tree_)
    if threshold is None:
        chosen = np.isin(np.argmax(tree.values, axis=1), wanted)
    else:
        chosen = tree.values[:, wanted[0]] > threshold
    value = np.where(tree.left < 0, np.where(chosen, 1.0, -1.0), 0.0)
    return TreeSum(((Margin(0.0, (LinkedGroup((Tree(tree.splits, tree.left, tree.right, value),)),)),),))


def _read_number(estimator: Any, threshold: float | None) -> TreeSum:
    if threshold is None:
        raise Unreadable("a regression is read only with a threshold")
    if _is_tree(estimator):
        return _read_tree(estimator, [0], threshold)
    model = _build_model(estimator)
    assert isinstance(model, NumberScore)
    limit, slack = float(threshold), 0.0
    if model.exponential:
        if limit < 0:
            return build_constant_sum(True)
        require_readable(limit > 1e-200, "its predictions are exponentials and the threshold is almost 0")
        limit, slack = log(limit), 2 * LINK_ERROR
    limit *= model.divisor
    error = model.scores.error + slack + bound_rounding(4, model.scores.size + abs(limit))
    return build_tree_sum(model.scores, [[(np.ones(1), -limit, error)]])


def _move_columns(scores: ScoreColumns, features: Sequence[int]) -> ScoreColumns:
    """The same scores where the model sees only some features of the whole."""

    def moved(split: TreeSplit) -> TreeSplit:
        assert isinstance(split, SklearnThresholdSplit | SklearnCategorySplit)
        return replace(split, column=int(features[split.column]))

    trees = tuple(replace(tree, splits=tree.splits.move_columns(features, moved)) for tree in scores.trees)
    linked = tuple(replace(part, raw=_move_columns(part.raw, features)) for part in scores.linked)
    return replace(scores, trees=trees, linked=linked)


def score_member(estimator: Any, columns: int) -> ScoreColumns:
    """A classifier's probabilities, or a regressor's prediction, as columns of a larger sum."""
    model = _build_model(estimator)
    has_probabilities = isinstance(model, NumberScore) or hasattr(estimator, "predict_proba")
    require_readable(has_probabilities, "a member has no probabilities")
    if isinstance(model, BinaryScore):
        return apply_logistic(model, columns)
    softmax = isinstance(model, ClassScores) and model.softmax
    require_readable(not softmax, "a member's softmax of several classes is not a sum")
    exponential = isinstance(model, NumberScore) and model.exponential
    require_readable(not exponential, "a member's predictions are exponentials")
    require_readable(len(model.scores.offset) == columns, "its members know different classes")
    return scale_scores(model.scores, 1.0 / model.divisor)


def _score_votes(estimator: Any, columns: int) -> ScoreColumns:
    """A one for the class that a member predicts, a zero for the others."""
    if _is_tree(estimator):
        require_readable(len(estimator.classes_) == columns, "its members know different classes")
        tree = _read_vector_tree(estimator.tree_)
        return score_tree(replace(tree, values=_encode_one_hot(tree)))
    model = _build_model(estimator)
    require_readable(columns == 2, f"a vote of {_get_class_name(estimator)} among several classes is not a sum")
    raw, uncertainty = find_deciding_score(model)
    require_readable(not raw.linked, "a member's score goes through two links")
    part = LinkedScore(raw, "step", 1.0, np.array([-1.0, 1.0]), uncertainty)
    return ScoreColumns(np.array([1.0, 0.0]), (), (part,), 0.0, 2.0, exact=True)


def _encode_one_hot(tree: VectorTree) -> Float64Array:
    chosen = np.eye(tree.values.shape[1])[np.argmax(tree.values, axis=1)]
    return np.where(tree.left[:, None] < 0, chosen, 0.0)


def _get_class_name(estimator: Any) -> str:
    """The name of scikit-learn's own class; a subclass may decide otherwise and is no such class."""
    return get_library_class_name(estimator, "sklearn")


def is_tree_model(estimator: Any) -> bool:
    """Whether an estimator is one of scikit-learn's models made of trees, all its members included."""
    members = getattr(estimator, "estimators_", ()) if _get_class_name(estimator).startswith("Voting") else ()
    return _get_class_name(estimator) in MODEL_BUILDERS and all(map(is_tree_model, members))


def _is_tree(estimator: Any) -> bool:
    family = _get_class_name(estimator).removesuffix("Classifier").removesuffix("Regressor")
    return family in ("DecisionTree", "ExtraTree")


def read_second_class(estimator: Any) -> Tree | None:
    """A classification tree of two classes with the second one's probability at its leaves; None for anything else."""
    if not _is_tree(estimator) or len(getattr(estimator, "classes_", ())) != 2 or estimator.n_outputs_ != 1:
        return None
    tree = _read_vector_tree(estimator.tree_)
    return Tree(tree.splits, tree.left, tree.right, np.ascontiguousarray(tree.values[:, 1]))


def _build_model(estimator: Any) -> ScoredModel:
    build = MODEL_BUILDERS.get(_get_class_name(estimator))
    if build is None:
        raise Unreadable(f"a member is a {type(estimator).__name__}, which is not among scikit-learn's trees")
    outputs = getattr(estimator, "n_outputs_", 1)
    require_readable(outputs == 1, "a member answers several questions at once (multi-output)")
    return build(estimator)


def _require_ordered(tree: VectorTree) -> VectorTree:
    inner = np.flatnonzero(tree.left >= 0)
    later = (tree.left[inner] > inner) & (tree.right[inner] > inner)
    require_readable(bool(later.all()), "a tree's children must come after their parents")
    require_readable(bool(np.isfinite(tree.values).all()), "a tree's values must be finite")
    return tree


def _read_vector_tree(tree: Any, factor: float = 1.0) -> VectorTree:
    """A plain tree: float32 columns against float64 thresholds, a row of float64 values at each leaf."""
    left, right = (np.asarray(side, dtype=np.int32) for side in (tree.children_left, tree.children_right))
    column = np.where(left < 0, -1, tree.feature).astype(np.int32)
    splits = ThresholdSplits(column, tree.threshold, tree.missing_go_to_left.astype(np.int32), make_float32_split)
    values = np.where(left[:, None] < 0, factor * tree.value[:, 0, :], 0.0)
    return _require_ordered(VectorTree(splits, left, right, values))


def _build_tree_model(estimator: Any) -> ScoredModel:
    scores = score_tree(_read_vector_tree(estimator.tree_))
    return ClassScores(scores) if hasattr(estimator, "classes_") else NumberScore(scores)


def _build_forest_model(estimator: Any) -> ScoredModel:
    columns = len(estimator.classes_) if hasattr(estimator, "classes_") else 1
    only_trees = all(map(_is_tree, estimator.estimators_))
    require_readable(only_trees, "a member of the forest is not one of scikit-learn's trees")
    scores = add_scores([score_tree(_read_vector_tree(member.tree_)) for member in estimator.estimators_], columns)
    divisor = float(len(estimator.estimators_))
    return ClassScores(scores, divisor) if hasattr(estimator, "classes_") else NumberScore(scores, divisor)


def _add_rounds(start: Float64Array, rounds: Sequence[Sequence[VectorTree]]) -> ScoreColumns:
    """Raw scores: a start plus trees, in every round one per column."""
    units, first = np.eye(len(start)), ScoreColumns(start, size=float(np.abs(start).max()))
    trees = [map_scores(score_tree(tree), units[[column]]) for row in rounds for column, tree in enumerate(row)]
    return add_scores([first, *trees], len(start))


def _build_boosted_model(estimator: Any, scores: ScoreColumns, slope: float) -> ScoredModel:
    if not hasattr(estimator, "classes_"):
        return NumberScore(scores)
    return BinaryScore(scores, slope) if len(scores.offset) == 1 else ClassScores(scores, softmax=True)


def _build_gradient_boosting(estimator: Any) -> ScoredModel:
    init = estimator.init_
    dummy = _get_class_name(init) in ("DummyClassifier", "DummyRegressor")
    constant = dummy and getattr(init, "strategy", "") != "stratified"
    require_readable(init == "zero" or constant, "it starts from predictions of another model (init=...)")
    start = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), dtype=np.float32))[0]
    rate = float(estimator.learning_rate)
    rounds = [[_read_vector_tree(member.tree_, rate) for member in members] for members in estimator.estimators_]
    slope = 2.0 if type(estimator._loss).__name__ == "ExponentialLoss" else 1.0  # its parameter may have been set since
    return _build_boosted_model(estimator, _add_rounds(np.asarray(start, dtype=np.float64), rounds), slope)


def _build_histogram_boosting(estimator: Any) -> ScoredModel:
    start = np.asarray(estimator._baseline_prediction).ravel()
    require_readable(start.dtype == np.float64, "its raw scores must be doubles")
    categorical = estimator.is_categorical_
    if hasattr(estimator, "classes_"):
        require_readable(len(estimator.classes_) > 1, "it knows a single class")
    encoded = categorical is None or estimator._preprocessor is not None
    require_readable(encoded, "categories must be encoded by the model (>= 1.4)")
    encoding = _NO_ENCODING if categorical is None else _read_encoding(estimator)
    rounds = [[_read_histogram_tree(tree, encoding) for tree in trees] for trees in estimator._predictors]
    model = _build_boosted_model(estimator, _add_rounds(start, rounds), 1.0)
    if isinstance(model, NumberScore):
        link = type(estimator._loss.link).__name__
        require_readable(link in ("IdentityLink", "LogLink"), f"its link is {link}")
        return replace(model, exponential=link == "LogLink")
    return model


CategoryEncoding = tuple[Callable[[int], int], Callable[[int], tuple[list[Any], AnyArray]]]
_NO_ENCODING: CategoryEncoding = (lambda column: column, lambda _: ([], np.zeros(8, dtype=np.uint32)))


def _read_encoding(estimator: Any) -> CategoryEncoding:
    """Where the trees' columns come from (categories were moved to the front), and a column's categories by code."""
    categorical = np.asarray(estimator.is_categorical_, dtype=np.bool_)
    order = [*np.flatnonzero(categorical).tolist(), *np.flatnonzero(~categorical).tolist()]
    categories = estimator._preprocessor.named_transformers_["encoder"].categories_
    bitsets, rows = estimator._bin_mapper.make_known_categories_bitsets()
    return order.__getitem__, lambda column: (categories[column].tolist(), bitsets[rows[column]])


def _read_histogram_tree(tree: Any, encoding: CategoryEncoding) -> VectorTree:
    """A histogram tree: float64 columns, or sets of categories."""
    origin, categories = encoding
    nodes, leaf = tree.nodes, tree.nodes["is_leaf"].astype(np.bool_)
    categorical = nodes["is_categorical"].astype(np.bool_) & ~leaf

    def read_split(node: Any) -> TreeSplit:
        column = int(node["feature_idx"])
        labels, known = categories(column)
        left = _list_categories(labels, tree.raw_left_cat_bitsets[node["bitset_idx"]])
        right = _list_categories(labels, known) - left
        return SklearnCategorySplit(origin(column), left, right, bool(node["missing_go_to_left"]))

    skipped = zip(nodes["feature_idx"].tolist(), leaf | categorical, strict=True)
    column = [-1 if skip else origin(k) for k, skip in skipped]
    splits = ThresholdSplits(
        np.array(column, dtype=np.int32),
        nodes["num_threshold"].astype(np.float64),
        nodes["missing_go_to_left"].astype(np.int32),
        make_float64_split,
        {int(place): read_split(nodes[place]) for place in np.flatnonzero(categorical)},
    )
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int32)).astype(np.int32) for side in ("left", "right"))
    return _require_ordered(VectorTree(splits, left, right, np.where(leaf, nodes["value"], 0.0)[:, None]))


def _list_categories(labels: list[Any], bits: AnyArray) -> frozenset[Any]:
    return frozenset(label for code, label in enumerate(labels) if int(bits[code // 32]) >> (code % 32) & 1)


def _build_bagging(estimator: Any) -> ScoredModel:
    classifier = hasattr(estimator, "classes_")
    columns = len(estimator.classes_) if classifier else 1
    count = len(estimator.estimators_)
    require_readable(estimator.n_estimators == count, "n_estimators was changed after fitting")
    parts = []
    # A member sees some of the columns, and may know some of the classes: both are put in their places.
    for member, features in zip(estimator.estimators_, estimator.estimators_features_, strict=True):
        places = [int(label) for label in member.classes_] if classifier else [0]
        scores = map_scores(score_member(member, len(places)), np.eye(columns)[places])
        parts.append(_move_columns(scores, features))
    total = add_scores(parts, columns)
    return ClassScores(total, float(count)) if classifier else NumberScore(total, float(count))


def _build_adaboost(estimator: Any) -> ScoredModel:
    algorithm = getattr(estimator, "algorithm", "SAMME")
    require_readable(algorithm != "SAMME.R", "AdaBoost is read as SAMME, and this one is SAMME.R")
    labels, total = estimator.classes_.tolist(), float(estimator.estimator_weights_.sum())
    count = len(labels)
    require_readable(total > 0 and count > 1, "its weights must add up to more than 0, over several classes")
    parts = [
        _score_boosted_tree(member, float(weight), labels)
        for member, weight in zip(estimator.estimators_, estimator.estimator_weights_, strict=False)
    ]
    scores = add_scores(parts, count)
    if count > 2:
        return ClassScores(scores, total, softmax=True)
    return BinaryScore(map_scores(scores, np.array([[-1.0], [1.0]])), 1.0 / total)


def _score_boosted_tree(member: Any, weight: float, labels: list[Any]) -> ScoreColumns:
    """A weighted tree of AdaBoost: the weight for the class that it predicts, the same spread against the others."""
    require_readable(_is_tree(member), f"a boosted member is a {type(member).__name__}, and only single trees are read")
    tree = _read_vector_tree(member.tree_)
    places = [labels.index(label) for label in member.classes_.tolist()]
    won = _encode_one_hot(tree) @ np.eye(len(labels))[places]
    spread = np.where(won > 0, weight, -1 / (len(labels) - 1) * weight)
    return score_tree(replace(tree, values=np.where(tree.left[:, None] < 0, spread, 0.0)))


def _build_voting(estimator: Any) -> ScoredModel:
    classifier, own_weights = hasattr(estimator, "classes_"), estimator._weights_not_none
    if classifier:
        require_same_labels(estimator.classes_, estimator.le_.classes_)
    weights = [1.0] * len(estimator.estimators_) if own_weights is None else [float(weight) for weight in own_weights]
    require_readable(min(weights, default=0.0) >= 0 and sum(weights) > 0, "votes must have positive weights")
    columns = len(estimator.classes_) if classifier else 1
    hard = classifier and estimator.voting == "hard"
    parts = [_score_votes(m, columns) if hard else score_member(m, columns) for m in estimator.estimators_]
    total = add_scores([scale_scores(part, weight) for part, weight in zip(parts, weights, strict=True)], columns)
    return ClassScores(total, sum(weights)) if classifier else NumberScore(total, sum(weights))


def _with_regressor(family: str) -> tuple[str, str]:
    return f"{family}Classifier", f"{family}Regressor"


MODEL_BUILDERS: dict[str, Callable[[Any], ScoredModel]] = {
    name: build
    for build, names in (
        (_build_tree_model, (*_with_regressor("DecisionTree"), *_with_regressor("ExtraTree"))),
        (_build_forest_model, (*_with_regressor("RandomForest"), *_with_regressor("ExtraTrees"))),
        (_build_gradient_boosting, _with_regressor("GradientBoosting")),
        (_build_histogram_boosting, _with_regressor("HistGradientBoosting")),
        (_build_bagging, _with_regressor("Bagging")),
        (_build_adaboost, ("AdaBoostClassifier",)),
        (_build_voting, _with_regressor("Voting")),
    )
    for name in names
}
