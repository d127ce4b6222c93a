"""scikit-learn's trees and everything that adds trees up: forests, boosting, bagging, voting; regressors too.

What the models add up and compare, and how rounding is bounded, is told in :mod:`ironrule.model.readers.tree_scores`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ironrule.model.readers.library_class import library_name, require_own_methods, require_same_labels
from ironrule.model.readers.tree_scores import (
    LINK_ERROR,
    Binary,
    Bush,
    Classes,
    Linked,
    Model,
    Number,
    Scores,
    added,
    constant,
    doubt,
    logistic,
    mapped,
    read_binary,
    read_classes,
    reading,
    require,
    require_fitted,
    rounding,
    scaled,
    single,
)
from ironrule.model.reading import Floats, Group, Margin, Mask, Reading, Test, Tree, Unreadable
from ironrule.model.thresholds import Thresholds
from ironrule.space.table import as_python


@dataclass(frozen=True, slots=True)
class AtMost:
    """``x <= threshold``, as float32 in scikit-learn's plain trees and as float64 in its histogram trees."""

    column: int
    threshold: float
    missing_left: bool
    single: bool
    changes_once: ClassVar[bool] = True

    def goes_left(self, values: npt.NDArray[Any]) -> Mask:
        """Which values are at most the threshold; a missing one goes where the tree says."""
        with np.errstate(over="ignore"):
            numbers = np.asarray(values).astype(np.float32 if self.single else np.float64).astype(np.float64)
        return np.where(np.isnan(numbers), self.missing_left, numbers <= self.threshold)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A histogram tree's question about a category; one never seen in training counts as missing."""

    column: int
    left: frozenset[Any]
    right: frozenset[Any]
    missing_left: bool

    def goes_left(self, values: npt.NDArray[Any]) -> Mask:
        """Which values are among the categories on the left."""
        return np.array(
            [v in self.left or (self.missing_left and v not in self.right) for v in np.asarray(values).tolist()],
            np.bool_,
        )


def _at_most_as_single(column: int, threshold: float, missing_left: int) -> Test:
    return AtMost(column, threshold, bool(missing_left), single=True)


def _at_most(column: int, threshold: float, missing_left: int) -> Test:
    return AtMost(column, threshold, bool(missing_left), single=False)


def read_sklearn_trees(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Reading | None:
    """The reading of a fitted scikit-learn model made of trees; None if it is not one."""
    if _kind(estimator) not in BUILDERS:
        return None
    require_own_methods(estimator)
    require_fitted(estimator)
    require(getattr(estimator, "n_outputs_", 1) == 1, "it answers several questions at once (multi-output)")
    if not hasattr(estimator, "classes_"):
        return _read_number(estimator, threshold)
    known = [as_python(label) for label in np.asarray(estimator.classes_).ravel()]
    wanted = [place for place, label in enumerate(known) if label in desired]
    if len(known) == 1 or len(wanted) in (0, len(known)):
        return _read_certain(estimator, len(known), len(wanted), threshold)
    if _is_tree(estimator) and (threshold is None or len(wanted) == 1):
        return _read_tree(estimator, wanted, threshold)
    require(threshold is None or hasattr(estimator, "predict_proba"), "it has no probabilities to pass a threshold")
    model = _model(estimator)
    return (
        read_binary(model, wanted, threshold) if isinstance(model, Binary) else read_classes(model, wanted, threshold)
    )


def _read_certain(estimator: Any, known: int, wanted: int, threshold: float | None) -> Reading:
    """Nothing or everything is desired, or there is a single class."""
    if threshold is None:
        return constant(wanted == known)
    require(wanted == 0 or not _kind(estimator).startswith("Hist"), "it knows a single class")
    require(wanted < 2, "all its classes are desired, and probabilities add up to 1 only up to rounding")
    return constant(float(wanted) > threshold)


def _read_tree(estimator: Any, wanted: Sequence[int], threshold: float | None) -> Reading:
    """A single tree decides at its leaves, exactly."""
    bush = _bush(estimator.tree_)
    if threshold is None:
        chosen = np.isin(np.argmax(bush.values, axis=1), wanted)
    else:
        chosen = bush.values[:, wanted[0]] > threshold
    value = np.where(bush.left < 0, np.where(chosen, 1.0, -1.0), 0.0)
    return Reading(((Margin(0.0, (Group((Tree(bush.tests, bush.left, bush.right, value),)),)),),))


def _read_number(estimator: Any, threshold: float | None) -> Reading:
    if threshold is None:
        raise Unreadable("a regression is read only with a threshold")
    if _is_tree(estimator):
        return _read_tree(estimator, [0], threshold)
    model = _model(estimator)
    assert isinstance(model, Number)
    limit, slack = float(threshold), 0.0
    if model.exponential:
        if limit < 0:
            return constant(True)
        require(limit > 1e-200, "its predictions are exponentials and the threshold is almost 0")
        limit, slack = log(limit), 2 * LINK_ERROR
    limit *= model.divisor
    error = model.scores.error + slack + rounding(4, model.scores.size + abs(limit))
    return reading(model.scores, [[(np.ones(1), -limit, error)]])


def _of_features(scores: Scores, features: Sequence[int]) -> Scores:
    """The same scores where the model sees only some features of the whole."""

    def moved(test: Test) -> Test:
        assert isinstance(test, AtMost | OneOf)
        return replace(test, column=int(features[test.column]))

    bushes = tuple(replace(bush, tests=bush.tests.moved(features, moved)) for bush in scores.bushes)
    linked = tuple(replace(part, raw=_of_features(part.raw, features)) for part in scores.linked)
    return replace(scores, bushes=bushes, linked=linked)


def _probabilities(estimator: Any, columns: int) -> Scores:
    """A classifier's probabilities, or a regressor's prediction, as columns of a larger sum."""
    model = _model(estimator)
    require(isinstance(model, Number) or hasattr(estimator, "predict_proba"), "a member has no probabilities")
    if isinstance(model, Binary):
        return logistic(model, columns)
    require(not (isinstance(model, Classes) and model.softmax), "a member's softmax of several classes is not a sum")
    require(not (isinstance(model, Number) and model.exponential), "a member's predictions are exponentials")
    assert not isinstance(model, Binary)
    require(len(model.scores.offset) == columns, "its members know different classes")
    return scaled(model.scores, 1.0 / model.divisor)


def _votes(estimator: Any, columns: int) -> Scores:
    """A one for the class that a member predicts, a zero for the others."""
    if _is_tree(estimator):
        require(len(estimator.classes_) == columns, "its members know different classes")
        bush = _bush(estimator.tree_)
        return single(replace(bush, values=_one_hot(bush)))
    model = _model(estimator)
    require(columns == 2, f"a vote of {_kind(estimator)} among several classes is not a sum")
    raw, blur = doubt(model)
    require(not raw.linked, "a member's score goes through two links")
    part = Linked(raw, "step", 1.0, np.array([-1.0, 1.0]), blur)
    return Scores(np.array([1.0, 0.0]), (), (part,), 0.0, 2.0, exact=True)


def _one_hot(bush: Bush) -> Floats:
    chosen = np.eye(bush.values.shape[1])[np.argmax(bush.values, axis=1)]
    return np.where(bush.left[:, None] < 0, chosen, 0.0)


def _kind(estimator: Any) -> str:
    """The name of scikit-learn's own class; a subclass may decide otherwise and is no such class."""
    return library_name(estimator, "sklearn")


def _is_tree(estimator: Any) -> bool:
    return _kind(estimator).removesuffix("Classifier").removesuffix("Regressor") in ("DecisionTree", "ExtraTree")


def _model(estimator: Any) -> Model:
    name = type(estimator).__name__
    require(_kind(estimator) in BUILDERS, f"a member is a {name}, which is not among scikit-learn's trees")
    require(getattr(estimator, "n_outputs_", 1) == 1, "a member answers several questions at once (multi-output)")
    return BUILDERS[_kind(estimator)](estimator)


def _ordered(bush: Bush) -> Bush:
    inner = np.flatnonzero(bush.left >= 0)
    later = (bush.left[inner] > inner) & (bush.right[inner] > inner)
    require(bool(later.all()), "a tree's children must come after their parents")
    require(bool(np.isfinite(bush.values).all()), "a tree's values must be finite")
    return bush


def _bush(tree: Any, factor: float = 1.0) -> Bush:
    """A plain tree: float32 columns against float64 thresholds, a row of float64 values at each leaf."""
    left, right = (np.asarray(side, dtype=np.int32) for side in (tree.children_left, tree.children_right))
    column = np.where(left < 0, -1, tree.feature).astype(np.int32)
    tests = Thresholds(column, tree.threshold, tree.missing_go_to_left.astype(np.int32), _at_most_as_single)
    return _ordered(Bush(tests, left, right, np.where(left[:, None] < 0, factor * tree.value[:, 0, :], 0.0)))


def _tree_model(estimator: Any) -> Model:
    scores = single(_bush(estimator.tree_))
    return Classes(scores) if hasattr(estimator, "classes_") else Number(scores)


def _forest_model(estimator: Any) -> Model:
    columns = len(estimator.classes_) if hasattr(estimator, "classes_") else 1
    require(all(map(_is_tree, estimator.estimators_)), "a member of the forest is not one of scikit-learn's trees")
    scores = added([single(_bush(member.tree_)) for member in estimator.estimators_], columns)
    divisor = float(len(estimator.estimators_))
    return Classes(scores, divisor) if hasattr(estimator, "classes_") else Number(scores, divisor)


def _boosted(start: Floats, rounds: Sequence[Sequence[Bush]]) -> Scores:
    """Raw scores: a start plus trees, in every round one per column."""
    columns = len(start)
    first = Scores(start, size=float(np.abs(start).max()))
    trees = [mapped(single(bush), np.eye(columns)[[column]]) for bushes in rounds for column, bush in enumerate(bushes)]
    return added([first, *trees], columns)


def _boosted_model(estimator: Any, scores: Scores, slope: float) -> Model:
    if not hasattr(estimator, "classes_"):
        return Number(scores)
    return Binary(scores, slope) if len(scores.offset) == 1 else Classes(scores, softmax=True)


def _gradient_model(estimator: Any) -> Model:
    init = estimator.init_
    constant = _kind(init) in ("DummyClassifier", "DummyRegressor") and getattr(init, "strategy", "") != "stratified"
    require(init == "zero" or constant, "it starts from predictions of another model (init=...)")
    start = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), dtype=np.float32))[0]
    rate = float(estimator.learning_rate)
    rounds = [[_bush(member.tree_, rate) for member in members] for members in estimator.estimators_]
    slope = 2.0 if type(estimator._loss).__name__ == "ExponentialLoss" else 1.0  # its parameter may have been set since
    return _boosted_model(estimator, _boosted(np.asarray(start, dtype=np.float64), rounds), slope)


def _histogram_model(estimator: Any) -> Model:
    start = np.asarray(estimator._baseline_prediction).ravel()
    require(start.dtype == np.float64, "its raw scores must be doubles")
    categorical = estimator.is_categorical_
    if hasattr(estimator, "classes_"):
        require(len(estimator.classes_) > 1, "it knows a single class")
    require(
        categorical is None or estimator._preprocessor is not None, "categories must be encoded by the model (>= 1.4)"
    )
    encoding = _no_encoding if categorical is None else _encoding(estimator)
    rounds = [[_histogram_bush(tree, *encoding) for tree in trees] for trees in estimator._predictors]
    model = _boosted_model(estimator, _boosted(start, rounds), 1.0)
    if isinstance(model, Number):
        link = type(estimator._loss.link).__name__
        require(link in ("IdentityLink", "LogLink"), f"its link is {link}")
        return replace(model, exponential=link == "LogLink")
    return model


Encoding = tuple[Callable[[int], int], Callable[[int], tuple[list[Any], npt.NDArray[Any]]]]


_no_encoding: Encoding = (lambda column: column, lambda _: ([], np.zeros(8, dtype=np.uint32)))


def _encoding(estimator: Any) -> Encoding:
    """Where the trees' columns come from (categories were moved to the front), and a column's categories by code."""
    categorical = np.asarray(estimator.is_categorical_, dtype=np.bool_)
    order = [*np.flatnonzero(categorical).tolist(), *np.flatnonzero(~categorical).tolist()]
    categories = estimator._preprocessor.named_transformers_["encoder"].categories_
    known, rows = estimator._bin_mapper.make_known_categories_bitsets()
    return order.__getitem__, lambda column: (categories[column].tolist(), known[rows[column]])


def _histogram_bush(
    tree: Any, origin: Callable[[int], int], categories: Callable[[int], tuple[list[Any], npt.NDArray[Any]]]
) -> Bush:
    """A histogram tree: float64 columns, or sets of categories."""
    nodes, leaf = tree.nodes, tree.nodes["is_leaf"].astype(np.bool_)
    categorical = nodes["is_categorical"].astype(np.bool_) & ~leaf

    def test(node: Any) -> Test:
        column = int(node["feature_idx"])
        labels, known = categories(column)
        left = _members(labels, tree.raw_left_cat_bitsets[node["bitset_idx"]])
        return OneOf(origin(column), left, _members(labels, known) - left, bool(node["missing_go_to_left"]))

    column = [
        -1 if skip else origin(k) for k, skip in zip(nodes["feature_idx"].tolist(), leaf | categorical, strict=True)
    ]
    tests = Thresholds(
        np.array(column, dtype=np.int32),
        nodes["num_threshold"].astype(np.float64),
        nodes["missing_go_to_left"].astype(np.int32),
        _at_most,
        {int(place): test(nodes[place]) for place in np.flatnonzero(categorical)},
    )
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int32)).astype(np.int32) for side in ("left", "right"))
    return _ordered(Bush(tests, left, right, np.where(leaf, nodes["value"], 0.0)[:, None]))


def _members(labels: list[Any], bits: npt.NDArray[Any]) -> frozenset[Any]:
    return frozenset(label for code, label in enumerate(labels) if int(bits[code // 32]) >> (code % 32) & 1)


def _bagging_model(estimator: Any) -> Model:
    classifier = hasattr(estimator, "classes_")
    columns = len(estimator.classes_) if classifier else 1
    count = len(estimator.estimators_)
    require(estimator.n_estimators == count, "n_estimators was changed after fitting")
    parts = []
    for member, features in zip(estimator.estimators_, estimator.estimators_features_, strict=True):
        places = [int(label) for label in member.classes_] if classifier else [0]
        scores = mapped(_probabilities(member, len(places)), np.eye(columns)[places])
        parts.append(_of_features(scores, features))
    total = added(parts, columns)
    return Classes(total, float(count)) if classifier else Number(total, float(count))


def _adaboost_model(estimator: Any) -> Model:
    require(getattr(estimator, "algorithm", "SAMME") != "SAMME.R", "AdaBoost is read as SAMME, and this one is SAMME.R")
    labels, total = estimator.classes_.tolist(), float(estimator.estimator_weights_.sum())
    count = len(labels)
    require(total > 0 and count > 1, "its weights must add up to more than 0, over several classes")
    parts = [
        _ballot(member, float(weight), labels)
        for member, weight in zip(estimator.estimators_, estimator.estimator_weights_, strict=False)
    ]
    scores = added(parts, count)
    if count > 2:
        return Classes(scores, total, softmax=True)
    return Binary(mapped(scores, np.array([[-1.0], [1.0]])), 1.0 / total)


def _ballot(member: Any, weight: float, labels: list[Any]) -> Scores:
    """A weighted tree of AdaBoost: the weight for the class that it predicts, the same spread against the others."""
    require(_is_tree(member), f"a boosted member is a {type(member).__name__}, and only single trees are read")
    bush = _bush(member.tree_)
    places = [labels.index(label) for label in member.classes_.tolist()]
    won = _one_hot(bush) @ np.eye(len(labels))[places]
    spread = np.where(won > 0, weight, -1 / (len(labels) - 1) * weight)
    return single(replace(bush, values=np.where(bush.left[:, None] < 0, spread, 0.0)))


def _voting_model(estimator: Any) -> Model:
    classifier, given = hasattr(estimator, "classes_"), estimator._weights_not_none
    if classifier:
        require_same_labels(estimator.classes_, estimator.le_.classes_)
    weights = [1.0] * len(estimator.estimators_) if given is None else [float(weight) for weight in given]
    require(min(weights, default=0.0) >= 0 and sum(weights) > 0, "votes must have positive weights")
    columns = len(estimator.classes_) if classifier else 1
    hard = classifier and estimator.voting == "hard"
    parts = [_votes(m, columns) if hard else _probabilities(m, columns) for m in estimator.estimators_]
    total = added([scaled(part, weight) for part, weight in zip(parts, weights, strict=True)], columns)
    return Classes(total, sum(weights)) if classifier else Number(total, sum(weights))


BUILDERS: dict[str, Callable[[Any], Model]] = {
    "DecisionTreeClassifier": _tree_model,
    "DecisionTreeRegressor": _tree_model,
    "ExtraTreeClassifier": _tree_model,
    "ExtraTreeRegressor": _tree_model,
    "RandomForestClassifier": _forest_model,
    "RandomForestRegressor": _forest_model,
    "ExtraTreesClassifier": _forest_model,
    "ExtraTreesRegressor": _forest_model,
    "GradientBoostingClassifier": _gradient_model,
    "GradientBoostingRegressor": _gradient_model,
    "HistGradientBoostingClassifier": _histogram_model,
    "HistGradientBoostingRegressor": _histogram_model,
    "BaggingClassifier": _bagging_model,
    "BaggingRegressor": _bagging_model,
    "AdaBoostClassifier": _adaboost_model,
    "VotingClassifier": _voting_model,
    "VotingRegressor": _voting_model,
}
