"""Trees of scikit-learn: single ones, forests, gradient boosting and histogram gradient boosting.

A plain tree casts a value to single precision and goes left where it is at most the threshold; a histogram tree does so
in double precision. Missing values go where the node says, if the estimator takes them at all. A forest is the mean of
its trees; boosting is the sum of its trees and a first guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array
from ironrule.checker.readers import normal_form, sklearn_outputs
from ironrule.checker.readers.decisions import UNDERFLOW, ScoreSum, measure_tree
from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading, RegressionTree, Split, SumForm
from ironrule.checker.readers.registry import identify_class
from ironrule.checker.readers.sklearn_outputs import OutputKind, SklearnOutputs
from ironrule.checker.space.table import is_missing

SINGLE_TREES = ("DecisionTreeClassifier", "ExtraTreeClassifier", "DecisionTreeRegressor", "ExtraTreeRegressor")
FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier", "RandomForestRegressor", "ExtraTreesRegressor")
GRADIENT_BOOSTING = ("GradientBoostingClassifier", "GradientBoostingRegressor")
HISTOGRAM_BOOSTING = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
CONSTANT_STRATEGIES = ("prior", "most_frequent", "constant", "uniform", "mean", "median", "quantile")
_LINKS: dict[str, tuple[OutputKind, float]] = {
    "IdentityLink": ("number", 1.0),
    "LogLink": ("exponential", 1.0),
    "LogitLink": ("logistic", 1.0),
    "HalfLogitLink": ("logistic", 2.0),
    "MultinomialLogit": ("softmax", 1.0),
}


@dataclass(frozen=True, slots=True)
class _SklearnThresholdSplit:
    """Left where the number is at most the threshold; ``missing_left`` is None where missing values are refused."""

    column: int
    threshold: float
    missing_left: bool | None
    single: bool
    turns_once: bool = True  # a cast never turns the order of two numbers round

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values go left."""
        numbers = normal_form.round_to_float32(values) if self.single else normal_form.to_float64(values)
        if self.single and np.isinf(numbers).any():
            raise NoReading("scikit-learn's trees refuse numbers too large for single precision")
        missing = np.isnan(numbers)
        if self.missing_left is None and missing.any():
            raise NoReading("this estimator refuses missing values")
        left: BoolArray = (numbers <= self.threshold) | (missing if self.missing_left else False)
        return left


@dataclass(frozen=True, slots=True)
class _SklearnCategorySplit:
    """Left for some categories, right for others; unknown ones go where missing ones go."""

    column: int
    left: frozenset[Any]
    right: frozenset[Any]
    missing_left: bool
    turns_once: bool = False  # categories that are numbers may go left and right in turns

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values go left."""
        return np.array([self._goes_left(value) for value in values.tolist()], dtype=bool)

    def _goes_left(self, value: Any) -> bool:
        if is_missing(value):
            return self.missing_left
        try:
            return value in self.left or (value not in self.right and self.missing_left)
        except TypeError:
            raise NoReading(f"a category must be hashable, got {value!r}") from None


@dataclass(frozen=True, slots=True, eq=False)
class SklearnTree:
    """The structure of one plain tree, and the values of its nodes: one per class, or one number."""

    tree: RegressionTree
    values: Float64Array

    def with_values(self, values: Float64Array) -> RegressionTree:
        """The same structure with other values; what inner nodes hold counts for nothing."""
        return replace(self.tree, value=np.where(self.tree.left < 0, values, 0.0))

    def build_vote_trees(self, classes: int) -> list[RegressionTree]:
        """For every class, a tree that is 1.0 where the class is predicted, and 0.0 elsewhere."""
        choice = np.argmax(self.values, axis=1)
        return [self.with_values((choice == place).astype(np.float64)) for place in range(classes)]


def read_sklearn_trees(estimator: Any, target: EstimatorTarget) -> SumForm | None:
    """The reading of a tree, a forest or a boosted sum of trees; None for everything else."""
    name = identify_class("sklearn", estimator)
    if name in SINGLE_TREES:
        plain = read_single_tree(estimator)
        return sklearn_outputs.decide_leaves(plain.tree, plain.values.tolist(), target)
    outputs = read_tree_outputs(estimator)
    return None if outputs is None else sklearn_outputs.decide_outputs(outputs, target)


def read_tree_outputs(estimator: Any) -> SklearnOutputs | None:
    """What a tree, a forest or boosting computes; None for everything else."""
    name = identify_class("sklearn", estimator)
    if name in SINGLE_TREES:
        return average_trees([read_single_tree(estimator)])
    if name in FORESTS:
        if estimator.n_outputs_ != 1:
            raise NoReading("it predicts several outputs at once")
        return average_trees([read_single_tree(member) for member in estimator.estimators_])
    if name in GRADIENT_BOOSTING:
        return _read_boosting(estimator, name)
    if name in HISTOGRAM_BOOSTING:
        return _read_histogram(estimator)
    return None


def read_single_tree(estimator: Any, columns: list[int] | None = None, *, refuses_missing: bool = False) -> SklearnTree:
    """A single tree; ``columns`` says which of the columns the tree sees are which of the estimator around it."""
    if identify_class("sklearn", estimator) not in SINGLE_TREES:
        raise NoReading(f"a member of the class {type(estimator).__name__} is not a plain tree of scikit-learn")
    found = estimator.tree_
    if (type(found).__module__, type(found).__name__) != ("sklearn.tree._tree", "Tree"):
        raise NoReading(f"the tree of a {type(estimator).__name__} must be scikit-learn's, got {type(found).__name__}")
    if estimator.n_outputs_ != 1:
        raise NoReading("it predicts several outputs at once")
    nodes = found.__getstate__()["nodes"]
    places = np.arange(found.n_features) if columns is None else np.asarray(columns)
    takes_missing = not refuses_missing and estimator._support_missing_values(np.zeros((1, found.n_features)))
    takes_missing = takes_missing and "missing_go_to_left" in nodes.dtype.names
    splits: list[Split | None] = [None] * len(nodes)
    for place in np.flatnonzero(nodes["left_child"] >= 0).tolist():
        column, threshold = int(places[nodes[place]["feature"]]), float(nodes[place]["threshold"])
        missing_left = bool(nodes[place]["missing_go_to_left"]) if takes_missing else None
        splits[place] = _SklearnThresholdSplit(column, threshold, missing_left, single=True)
    values: Float64Array = found.value[:, 0, :]
    if hasattr(estimator, "classes_"):
        values = values[:, : len(estimator.classes_)]
        if np.abs(values.sum(axis=1) - 1.0).max() > 1e-9:
            raise NoReading("its leaves hold no class probabilities")
    tree = _build_tree(splits, nodes["left_child"], nodes["right_child"], np.zeros(len(nodes)))
    return SklearnTree(tree, values)


def average_trees(trees: Sequence[SklearnTree]) -> SklearnOutputs:
    """The mean of trees, as forests take it."""
    width = trees[0].values.shape[1]
    if any(plain.values.shape[1] != width for plain in trees):
        raise NoReading("its trees know different numbers of classes")
    columns = [[plain.with_values(plain.values[:, place]) for plain in trees] for place in range(width)]
    scores = tuple(_build_sum_score(0.0, column) for column in columns)
    leaves = np.concatenate([plain.values[plain.tree.left < 0].ravel() for plain in trees])
    grid = sklearn_outputs.find_grid(leaves, max(score.size_bound for score in scores))
    return SklearnOutputs("shares" if width > 1 else "number", scores, total=float(len(trees)), grid=grid)


def _build_sum_score(offset: float, trees: Sequence[RegressionTree]) -> ScoreSum:
    """The sum of an offset and trees that the library adds up in double precision.

    With n addends, whatever the order, the sum is off by at most (n - 1) u / (1 - (n - 1) u) times the sum of their
    sizes (u: the unit of rounding). One more for a factor of each addend leaves room to spare with n + 4.
    """
    sizes = abs(offset) + sum(map(measure_tree, trees))
    if not np.isfinite(sizes):
        raise NoReading("a leaf has a value that is not finite")
    error = (len(trees) + 4) * normal_form.DOUBLE_ROUNDOFF * sizes + UNDERFLOW
    return ScoreSum(offset, tuple(trees), error=error, size_bound=1.001 * sizes + UNDERFLOW)


def _build_tree(splits: list[Split | None], left: Any, right: Any, value: Float64Array) -> RegressionTree:
    """A tree whose children come after their parents, which is how scikit-learn numbers nodes."""
    inner = np.array([split is not None for split in splits])
    left = np.where(inner, np.asarray(left, dtype=np.int64), -1).astype(np.intp)
    right = np.where(inner, np.asarray(right, dtype=np.int64), -1).astype(np.intp)
    here = np.arange(len(inner))
    if np.any(inner & ((left <= here) | (right <= here) | (left >= len(inner)) | (right >= len(inner)))):
        raise NoReading("its nodes are not in the order that is expected: children after their parents")
    return RegressionTree(splits, left, right, np.where(inner, 0.0, value))


def _read_boosting(estimator: Any, name: str) -> SklearnOutputs:
    """Boosting adds the learning rate times a leaf's value to the first guess, tree after tree."""
    guess = estimator.init_
    kind = "" if isinstance(guess, str) else identify_class("sklearn", guess)
    constant = kind in ("DummyClassifier", "DummyRegressor") and guess.strategy in CONSTANT_STRATEGIES
    if guess != "zero" and not constant:
        raise NoReading(f"its first guess, a {type(guess).__name__}, is not a constant")
    # a constant guess is the same for every row, so the library's own number at one row is exact
    start = np.asarray(estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), dtype=np.float32)))[0]
    rate = float(estimator.learning_rate)
    scores = []
    for place, offset in enumerate(start.tolist()):
        # boosting refuses missing values before its trees see them
        members = [read_single_tree(member, refuses_missing=True) for member in estimator.estimators_[:, place]]
        scores.append(_build_sum_score(offset, [plain.with_values(rate * plain.values[:, 0]) for plain in members]))
    return _apply_link(estimator, tuple(scores), regression=name == "GradientBoostingRegressor")


def _apply_link(estimator: Any, scores: tuple[ScoreSum, ...], *, regression: bool) -> SklearnOutputs:
    """The scores with the function that the loss applies; plain boosting applies none in a regression."""
    found = _LINKS.get(type(estimator._loss.link).__name__)
    if found is None:
        raise NoReading(f"its link {type(estimator._loss.link).__name__} is not known")
    kind, slope = _LINKS["IdentityLink"] if regression else found
    # exponentials and quotients are right to a few units, a sum of n exponentials to n more
    return SklearnOutputs(kind, scores, noise=(len(scores) + 16) * normal_form.DOUBLE_ROUNDOFF, slope=slope)


def _read_histogram(estimator: Any) -> SklearnOutputs:
    start = np.asarray(estimator._baseline_prediction)
    if start.dtype != np.float64:
        raise NoReading(f"its first guess must be in double precision, got {start.dtype}")
    categories = _read_categories(estimator)
    scores = []
    for place, offset in enumerate(start.ravel().tolist()):
        trees = [_read_predictor(stage[place], categories) for stage in estimator._predictors]
        scores.append(_build_sum_score(offset, trees))
    return _apply_link(estimator, tuple(scores), regression=False)


@dataclass(frozen=True, slots=True, eq=False)
class _HistogramColumns:
    """Which column a histogram tree's feature is, and the categories of those that have some."""

    order: list[int]
    categories: dict[int, list[Any]]
    known: dict[int, frozenset[int]]


def _read_categories(estimator: Any) -> _HistogramColumns:
    """Categories are numbered in the order of the model's own encoder, and their columns stand before the others."""
    mask = getattr(estimator, "is_categorical_", None)
    if mask is None:
        return _HistogramColumns(list(range(estimator.n_features_in_)), {}, {})
    preprocessor: Any = getattr(estimator, "_preprocessor", None)
    known_kind = identify_class("sklearn", preprocessor) == "ColumnTransformer"
    encoder: Any = preprocessor.named_transformers_["encoder"] if known_kind else None
    if identify_class("sklearn", encoder) != "OrdinalEncoder":
        raise NoReading("its encoder of categories is not known")
    order = np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)]).tolist()
    bits, rows = estimator._bin_mapper.make_known_categories_bitsets()
    categories, known = {}, {}
    for feature, found in enumerate(encoder.categories_):
        categories[feature] = np.asarray(found, dtype=object).tolist()
        known[feature] = _list_bitset_members(bits[rows[feature]])
    return _HistogramColumns(order, categories, known)


def _list_bitset_members(bits: Any) -> frozenset[int]:
    """The numbers in a set that is kept as eight words of 32 bits."""
    return frozenset(number for number in range(256) if int(bits[number // 32]) >> (number % 32) & 1)


def _read_predictor(predictor: Any, columns: _HistogramColumns) -> RegressionTree:
    if identify_class("sklearn", predictor) != "TreePredictor":
        raise NoReading(f"a histogram tree must be scikit-learn's, got a {type(predictor).__name__}")
    nodes = predictor.nodes
    splits: list[Split | None] = []
    for node in nodes:
        feature, missing_left = int(node["feature_idx"]), bool(node["missing_go_to_left"])
        if node["is_leaf"]:
            splits.append(None)
        elif node["is_categorical"]:
            left = _list_bitset_members(predictor.raw_left_cat_bitsets[node["bitset_idx"]])
            sides = (left, columns.known[feature] - left)
            named = [(place, value) for place, value in enumerate(columns.categories[feature]) if not is_missing(value)]
            lefts, rights = (frozenset(value for place, value in named if place in side) for side in sides)
            splits.append(_SklearnCategorySplit(columns.order[feature], lefts, rights, missing_left))
        else:
            column, threshold = columns.order[feature], float(node["num_threshold"])
            splits.append(_SklearnThresholdSplit(column, threshold, missing_left, single=False))
    return _build_tree(splits, nodes["left"], nodes["right"], nodes["value"].astype(np.float64))
