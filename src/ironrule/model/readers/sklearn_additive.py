"""Additive models of scikit-learn: every column adds something by itself, whatever the others are.

Linear classifiers and regressions, discriminant analysis and naive Bayes all decide by sums with one part per column.
A margin between two classes keeps the parts of both apart, because the model rounds each class's sum for itself: the
bound on its rounding is a share of all parts' sizes (Higham, "Accuracy and Stability of Numerical Algorithms", chapter
3: n numbers summed in any order err by about n units of rounding of the sum of their sizes; we allow four times that).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.model.decision import list_labels, split_classes
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Term, TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods

Shape = Callable[[AnyArray], Float64Array]


def as_floats(values: AnyArray) -> AnyArray:
    """Values as floating-point numbers; those that are so already keep their precision."""
    return values if values.dtype.kind == "f" else values.astype(np.float64)


@dataclass(frozen=True, slots=True)
class IdentityShape:
    """The value."""

    def __call__(self, values: AnyArray) -> Float64Array:
        return as_floats(values).astype(np.float64)


@dataclass(frozen=True, slots=True)
class PresentNumberShape:
    """The value, and 0 where it is missing: where what is added does not count."""

    def __call__(self, values: AnyArray) -> Float64Array:
        numbers = as_floats(values).astype(np.float64)
        return np.where(np.isnan(numbers), 0.0, numbers)


STRAIGHT_SHAPES = (IdentityShape, PresentNumberShape)  # that rise with the number


@dataclass(frozen=True, slots=True)
class UnitIntervalShape:
    """The value, which must lie between 0 and 1."""

    def __call__(self, values: AnyArray) -> Float64Array:
        shares = as_floats(values).astype(np.float64)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise Unreadable("a naive Bayes model of chances can be read only where its columns lie between 0 and 1")
        return shares


@dataclass(frozen=True, slots=True)
class SquaredDistanceShape:
    """The squared distance from a centre."""

    centre: float

    def __call__(self, values: AnyArray) -> Float64Array:
        with np.errstate(over="ignore"):
            return np.asarray((as_floats(values).astype(np.float64) - self.centre) ** 2)


@dataclass(frozen=True, slots=True)
class StepShape:
    """1 above a threshold, compared in the precision of the values, as NumPy does; 0 elsewhere."""

    threshold: float

    def __call__(self, values: AnyArray) -> Float64Array:
        numbers = as_floats(values)
        return np.where(np.isfinite(numbers), np.asarray(numbers > self.threshold, dtype=np.float64), np.nan)


@dataclass(frozen=True, slots=True)
class TableShape:
    """The entry of a list at the value's whole part."""

    entries: tuple[float, ...]

    def __call__(self, values: AnyArray) -> Float64Array:
        numbers = as_floats(values)
        if not (np.isfinite(numbers) & (numbers >= 0) & (numbers < len(self.entries))).all():
            raise Unreadable(f"the model knows only the categories 0 to {len(self.entries) - 1} of a column")
        return np.array(self.entries)[numbers.astype(np.intp)]


@dataclass(frozen=True, slots=True)
class ScaledShape:
    """A factor times a shape; raises Unreadable beyond the limit, where the model's arithmetic could break down."""

    factor: float
    shape: Shape
    limit: float

    def __call__(self, values: AnyArray) -> Float64Array:
        with np.errstate(over="ignore"):
            each = self.factor * self.shape(values)
        if not (np.abs(each) <= self.limit).all():
            reason = "an additive model cannot take missing or infinite numbers, or ones too large for its precision"
            raise Unreadable(reason)
        return each

    def negate(self) -> ScaledShape:
        """The same with the other sign."""
        return ScaledShape(-self.factor, self.shape, self.limit)


@dataclass(frozen=True, slots=True)
class AdditiveScore:
    """What a model computes for one class: a sum of constants, and a factor times a shape of each column."""

    constants: tuple[float, ...]
    parts: tuple[tuple[float, Shape], ...]  # one per column
    epsilon: float  # of the model's numbers: the distance from 1 to the next one
    constants_error: float = 0.0  # how far the constants given here may be from the model's

    def negate(self) -> AdditiveScore:
        """The same with the other sign."""
        parts = tuple((-factor, shape) for factor, shape in self.parts)
        return AdditiveScore(tuple(-constant for constant in self.constants), parts, self.epsilon, self.constants_error)

    @property
    def relative_rounding(self) -> float:
        """How much of the sizes of its parts the sum may be off, ours included."""
        return 2 * (len(self.parts) + len(self.constants) + 8) * self.epsilon


@dataclass(frozen=True, slots=True)
class ScoreThreshold:
    """A sum of scores is positive above ``value``, give or take ``error`` and ``spread`` times the scores' rounding."""

    value: float = 0.0
    error: float = 0.0
    spread: float = 0.0


def build_margin(scores: tuple[AdditiveScore, ...], cut: ScoreThreshold) -> Margin:
    """The margin by which the sum of the scores is above the cut."""
    constants = [constant for score in scores for constant in score.constants] + [-cut.value]
    size = math.fsum(map(abs, constants))
    require_readable(math.isfinite(size), "a constant of the model is not a finite number")
    relative = max(score.relative_rounding for score in scores) * (1 + cut.spread)
    epsilon = max(score.epsilon for score in scores)
    limit = _find_limit(scores, relative, size, cut)
    terms = tuple(
        Term(column, ScaledShape(factor, shape, limit))
        for score in scores
        for column, (factor, shape) in enumerate(score.parts)
        if factor != 0.0
    )
    smallest = float(np.finfo(np.float32 if epsilon > 1e-10 else np.float64).tiny)
    error = cut.error + relative * size + sum((1 + cut.spread) * score.constants_error for score in scores)
    error += (len(terms) + len(constants)) * smallest  # what underflow can take
    return Margin(math.fsum(constants), (LinkedGroup((), terms=terms),), error, relative)


def _find_limit(scores: tuple[AdditiveScore, ...], relative: float, size: float, cut: ScoreThreshold) -> float:
    """The largest contribution for which the bounds hold: no overflow, and small errors where a cut spreads them."""
    if not cut.spread:
        return 1e30 if scores[0].epsilon > 1e-10 else 1e200
    count = 1 + sum(len(score.parts) for score in scores)
    limit = 0.25 / (relative * count)
    if size > limit or sum(score.constants_error for score in scores) * cut.spread > 0.25:
        raise Unreadable("the constants of the model are too large for its probabilities to be exact")
    return limit


def find_logit_threshold(threshold: float, epsilon: float, spread: bool = False) -> ScoreThreshold:
    """Where a logistic probability, computed to within 16 units of rounding, passes a threshold, in log odds.

    With ``spread`` the probability comes from two separately rounded scores, as in naive Bayes: a relative error d of
    the probability, d at most (1 - t) / 2, moves the log odds at which it passes t by at most 2 d / (1 - t).
    """
    unsure = 16 * epsilon
    if not 2 * unsure < threshold < 1 - 2 * unsure:
        raise Unreadable(f"a threshold of {threshold!r} on a probability decides nothing, or too closely")
    places = [math.log(t) - math.log1p(-t) for t in (threshold - unsure, threshold, threshold + unsure)]
    size = 1 + abs(math.log(threshold)) + abs(math.log1p(-threshold))
    error = max(places[2] - places[1], places[1] - places[0]) + 16 * epsilon * size
    nearest = min(threshold, 1 - threshold)
    if spread:
        return ScoreThreshold(places[1], error + 64 * epsilon * size / nearest, 6 / nearest)
    return ScoreThreshold(places[1], error)


def read_additive(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of an additive model of scikit-learn; None for anything else.

    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> (read_additive(model, (1,), None).margins(np.array([[0.5], [2.5]]))[0] > 0).tolist()
    [False, True]
    """
    name = get_library_class_name(estimator, "sklearn")
    if name in LINEAR_REGRESSIONS | LINEAR_CLASSIFIERS | NAIVE_BAYES.keys() | SUPPORT_VECTOR_MACHINES:
        require_own_methods(estimator)
    if name in LINEAR_REGRESSIONS:
        return _read_regression(estimator, desired, threshold)
    if name in LINEAR_CLASSIFIERS:
        scores, cut = _read_linear_scores(estimator), _find_linear_threshold(estimator, name, threshold)
        return _read_classifier(scores, estimator, desired, cut)
    if name in NAIVE_BAYES:
        scores = NAIVE_BAYES[name](estimator)
        cut = ScoreThreshold() if threshold is None else find_logit_threshold(threshold, scores[0].epsilon, spread=True)
        return _read_classifier(scores, estimator, desired, cut)
    if name in SUPPORT_VECTOR_MACHINES and estimator.kernel == "linear":
        return _read_support_vectors(estimator, desired, threshold)
    return None


SUPPORT_VECTOR_MACHINES = frozenset({"SVC", "NuSVC", "SVR", "NuSVR"})
LINEAR_REGRESSIONS = frozenset(
    {"LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "SGDRegressor"}
    | {"Lars", "LarsCV", "LassoLars", "LassoLarsCV", "LassoLarsIC", "OrthogonalMatchingPursuit", "HuberRegressor"}
    | {"TheilSenRegressor", "PassiveAggressiveRegressor", "LinearSVR"}
)
LINEAR_CLASSIFIERS = frozenset(
    {"LogisticRegression", "LogisticRegressionCV", "LinearSVC", "SGDClassifier", "RidgeClassifier"}
    | {"RidgeClassifierCV", "Perceptron", "PassiveAggressiveClassifier", "LinearDiscriminantAnalysis"}
)


def _read_regression(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum:
    scores = _read_linear_scores(estimator)
    if threshold is None or desired:
        raise Unreadable("a regression is read with a threshold alone: desired is a prediction above it")
    require_readable(len(scores) == 1, f"the regression predicts {len(scores)} numbers at once")
    # NumPy may round it to the predictions' precision
    cut = ScoreThreshold(threshold, 4 * scores[0].epsilon * abs(threshold))
    return TreeSum(((build_margin(scores, cut),),))


def _read_classifier(
    scores: tuple[AdditiveScore, ...], estimator: Any, desired: tuple[Any, ...], cut: ScoreThreshold
) -> TreeSum:
    """The normal form of a classifier with one score for its second class, or with one for every class."""
    classes = list_labels(estimator.classes_)
    wanted, others = split_classes(classes, desired)
    if not wanted or not others:
        raise Unreadable("some class must be desired and some undesired")
    if len(scores) == 1 and len(classes) == 2:
        return TreeSum(((build_margin((scores[0] if wanted == [1] else scores[0].negate(),), cut),),))
    require_readable(len(scores) == len(classes), f"the model has {len(scores)} scores for {len(classes)} classes")
    if cut != ScoreThreshold() and len(classes) > 2:
        raise Unreadable("a threshold on the probabilities of more than two classes is no cut of a sum")
    return TreeSum(tuple(tuple(build_margin((scores[d], scores[u].negate()), cut) for u in others) for d in wanted))


def _read_linear_scores(estimator: Any) -> tuple[AdditiveScore, ...]:
    if getattr(getattr(estimator, "_label_binarizer", None), "y_type_", "").startswith("multilabel"):
        raise Unreadable("the model gives several labels at once")
    raw = estimator.coef_.toarray() if hasattr(estimator.coef_, "toarray") else np.asarray(estimator.coef_)
    start = np.asarray(estimator.intercept_)
    slopes = np.atleast_2d(raw).astype(np.float64)
    starts = np.broadcast_to(start.astype(np.float64).ravel(), len(slopes))
    require_readable(bool(np.isfinite(slopes).all()), "a coefficient of the model is not a finite number")
    epsilon = _find_epsilon(raw, start)
    return tuple(
        AdditiveScore((float(constant),), tuple((float(slope), IdentityShape()) for slope in row), epsilon)
        for row, constant in zip(slopes, starts, strict=True)
    )


def _read_support_vectors(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum:
    """A support vector machine with a linear kernel, which multiplies a row with every support vector and adds up.

    What these products add to a column may cancel, but each is rounded for itself. So a column has two terms, one of
    all that is added and one of all that is taken off; the sizes of both bound the rounding.
    """
    sign, cut = 1.0, threshold
    if hasattr(estimator, "classes_"):
        classes = list_labels(estimator.classes_)
        wanted, others = split_classes(classes, desired)
        require_readable(bool(wanted and others), "some class must be desired and some undesired")
        require_readable(len(classes) == 2, "its classes are chosen by votes between every two of them")
        require_readable(threshold is None, "the probabilities of a support vector machine are no cut of its score")
        sign, cut = (1.0 if wanted == [1] else -1.0), 0.0
    if cut is None or (desired and not hasattr(estimator, "classes_")):
        raise Unreadable("a regression is read with a threshold alone: desired is a prediction above it")
    raw, vectors = np.asarray(estimator.dual_coef_), estimator.support_vectors_
    require_readable(not hasattr(raw, "tocoo") and not hasattr(vectors, "tocoo"), "it was fitted on a sparse matrix")
    products = sign * raw.ravel().astype(np.float64)[:, None] * np.asarray(vectors, dtype=np.float64)
    start = sign * float(np.asarray(estimator.intercept_).ravel()[0])
    require_readable(bool(np.isfinite(products).all() and math.isfinite(start)), "a coefficient is not a finite number")
    relative = 4 * (sum(products.shape) + 8) * float(np.finfo(np.float64).eps)
    terms = tuple(
        Term(column, ScaledShape(float(slope), IdentityShape(), 1e200))
        for side in (np.maximum(products, 0.0), np.minimum(products, 0.0))
        for column, slope in enumerate(side.sum(axis=0))
        if slope != 0.0
    )
    error = relative * (abs(start) + abs(cut)) + len(terms) * float(np.finfo(np.float64).tiny)
    return TreeSum(((Margin(start - sign * cut, (LinkedGroup((), terms=terms),), error, relative),),))


def _find_epsilon(*arrays: AnyArray) -> float:
    """The epsilon of the least precise floating-point type: a model computes in it if its input comes in it too."""
    return max(float(np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).eps) for array in arrays)


def _find_linear_threshold(estimator: Any, name: str, threshold: float | None) -> ScoreThreshold:
    """Where the score passes a threshold on the probability."""
    if threshold is None:
        return ScoreThreshold()
    epsilon = _find_epsilon(np.asarray(estimator.intercept_), np.zeros(0, estimator.coef_.dtype))
    loss = getattr(estimator, "loss", None) if name == "SGDClassifier" else None
    if len(estimator.classes_) > 2:
        raise Unreadable("a threshold on the probabilities of more than two classes is no cut of a sum")
    if loss == "modified_huber" and 0 < threshold < 1:
        return ScoreThreshold(2 * threshold - 1, 16 * epsilon)
    logistic = name.startswith("LogisticRegression") or name == "LinearDiscriminantAnalysis" or loss == "log_loss"
    if not logistic or getattr(estimator, "multi_class", None) == "multinomial":
        raise Unreadable(f"the probabilities of this {name} cannot be cut at {threshold!r}")
    return find_logit_threshold(threshold, epsilon)


def _read_gaussian_scores(estimator: Any) -> tuple[AdditiveScore, ...]:
    spreads, centres = np.asarray(estimator.var_), np.asarray(estimator.theta_)
    epsilon = _find_epsilon(spreads, centres, np.asarray(estimator.class_prior_))
    with np.errstate(divide="ignore"):
        priors = np.log(np.asarray(estimator.class_prior_, dtype=np.float64))
        logs = -0.5 * np.log(2.0 * np.pi * spreads.astype(np.float64))
        factors = -0.5 / spreads.astype(np.float64)
    scores = []
    for prior, log, factor, centre in zip(priors, logs, factors, centres.astype(np.float64), strict=True):
        parts = tuple((float(f), SquaredDistanceShape(float(c))) for f, c in zip(factor, centre, strict=True))
        unsure = 8 * epsilon * (len(log) + 1)  # of the logarithms' arguments
        scores.append(AdditiveScore((float(prior), *map(float, log)), parts, epsilon, unsure))
    return tuple(scores)


def _read_bernoulli_scores(estimator: Any) -> tuple[AdditiveScore, ...]:
    """As the library sums: the chance of a 0 for every column, and what a 1 changes about it."""
    ones = np.asarray(estimator.feature_log_prob_, dtype=np.float64)
    with np.errstate(divide="ignore"):
        zeros = np.log(1 - np.exp(ones))
    require_readable(bool(np.isfinite(zeros - ones).all()), "the model has chances of exactly 0 or 1")
    shape: Shape = UnitIntervalShape() if estimator.binarize is None else StepShape(estimator.binarize)
    epsilon = _find_epsilon(np.asarray(estimator.feature_log_prob_))
    unsure = 16 * epsilon * (1 / -np.expm1(ones) + np.abs(zeros)).sum(axis=1)
    return tuple(
        AdditiveScore(
            (float(prior), *map(float, zero)), tuple((float(f), shape) for f in one - zero), epsilon, float(off)
        )
        for prior, zero, one, off in zip(estimator.class_log_prior_, zeros, ones, unsure, strict=True)
    )


def _read_categorical_scores(estimator: Any) -> tuple[AdditiveScore, ...]:
    chances = [np.asarray(table, dtype=np.float64) for table in estimator.feature_log_prob_]
    require_readable(bool(all(np.isfinite(table).all() for table in chances)), "the model has chances of exactly 0")
    return tuple(
        AdditiveScore(
            (float(prior),),
            tuple((1.0, TableShape(tuple(map(float, table[k])))) for table in chances),
            _find_epsilon(chances[0]),
        )
        for k, prior in enumerate(estimator.class_log_prior_)
    )


NAIVE_BAYES: dict[str, Callable[[Any], tuple[AdditiveScore, ...]]] = {
    "GaussianNB": _read_gaussian_scores,
    "BernoulliNB": _read_bernoulli_scores,
    "CategoricalNB": _read_categorical_scores,
}
