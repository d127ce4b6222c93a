"""Models of scikit-learn that add up what single columns give: linear models and naive Bayes.

A linear score is a dot product and an intercept. It is computed in the larger of the precisions of the coefficients and
of the columns; whole numbers count as double precision. So coefficients in double precision mean double precision, and
coefficients in single precision may mean either; then the larger error of single precision is assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, Float64Array
from ironrule.checker.readers import normal_form
from ironrule.checker.readers.decisions import UNDERFLOW, LinearContribution, ScoreSum
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, ColumnTerm, EstimatorTarget, NoReading, SumForm
from ironrule.checker.readers.registry import identify_class
from ironrule.checker.readers.sklearn_outputs import OutputKind, SklearnOutputs, decide_outputs

LOGISTIC_CLASSIFIERS = ("LogisticRegression", "LogisticRegressionCV", "LinearDiscriminantAnalysis")
LABEL_CLASSIFIERS = ("LinearSVC", "RidgeClassifier", "RidgeClassifierCV", "Perceptron", "PassiveAggressiveClassifier")
REGRESSIONS = (
    "LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "SGDRegressor", "Lars",
    "LarsCV", "LassoLars", "LassoLarsCV", "LassoLarsIC", "OrthogonalMatchingPursuit", "OrthogonalMatchingPursuitCV",
    "HuberRegressor", "TheilSenRegressor", "PassiveAggressiveRegressor", "LinearSVR",
)  # fmt: skip


def read_sklearn_additive(estimator: Any, target: EstimatorTarget) -> SumForm | None:
    """The reading of a linear model or of naive Bayes; None for everything else."""
    outputs = read_additive_outputs(estimator)
    return None if outputs is None else decide_outputs(outputs, target)


def read_additive_outputs(estimator: Any) -> SklearnOutputs | None:
    """What a linear model or naive Bayes computes; None for everything else."""
    name = identify_class("sklearn", estimator)
    if name in LOGISTIC_CLASSIFIERS:
        return _read_linear(estimator, "logistic")
    if name in LABEL_CLASSIFIERS:
        return _read_linear(estimator, "labels")
    if name == "SGDClassifier":
        kinds: dict[str, OutputKind] = {"log_loss": "logistic", "modified_huber": "huber"}
        return _read_linear(estimator, kinds.get(estimator.loss, "labels"))
    if name in REGRESSIONS:
        scores, roundoff = _read_linear_scores(estimator)
        if len(scores) != 1 or np.ndim(estimator.coef_) != 1:
            raise NoReading("it predicts several outputs at once")
        return SklearnOutputs("number", scores, noise=4 * roundoff)
    if name == "GaussianNB":
        return _read_gaussian(estimator)
    if name == "BernoulliNB":
        return _read_bernoulli(estimator)
    if name == "CategoricalNB":
        return _read_categorical(estimator)
    return None


def _is_one_against_rest(estimator: Any) -> bool:
    """Whether several classes' probabilities are logistic functions divided by their sum, rather than a softmax."""
    if identify_class("sklearn", estimator) == "SGDClassifier":
        return True
    multi_class = getattr(estimator, "multi_class", "auto")
    return multi_class == "ovr" or (multi_class != "multinomial" and getattr(estimator, "solver", "") == "liblinear")


def _read_linear(estimator: Any, kind: OutputKind) -> SklearnOutputs:
    scores, roundoff = _read_linear_scores(estimator)
    count = len(estimator.classes_)
    if len(scores) != (1 if count == 2 else count):
        raise NoReading(f"{count} classes need {1 if count == 2 else count} rows of coefficients, got {len(scores)}")
    if count == 2:
        if kind == "logistic" and getattr(estimator, "multi_class", "auto") == "multinomial":
            raise NoReading("two classes fitted as multinomial are not read")
        return SklearnOutputs(kind, scores, noise=8 * roundoff)
    # logistic functions divided by their sum are no sum of columns, so there only labels are read; a softmax adds one
    # exponential per class
    softmax = kind == "logistic" and not _is_one_against_rest(estimator)
    return SklearnOutputs("softmax" if softmax else "labels", scores, noise=(count + 16) * roundoff)


def _read_linear_scores(estimator: Any) -> tuple[tuple[ScoreSum, ...], float]:
    """The linear scores, and the unit of rounding that they are computed with at the worst.

    A dot product of n numbers in any order, fused or not, is off by at most n u / (1 - n u) times the sum of the sizes
    of its products; the intercept is one more addend, and our own products are rounded once, too.
    """
    coefficients, intercepts = estimator.coef_, estimator.intercept_
    if not isinstance(coefficients, np.ndarray):
        raise NoReading(f"coefficients must be an array, got {type(coefficients).__name__}; call densify()")
    if coefficients.dtype not in (np.float32, np.float64):
        raise NoReading(f"coefficients must be in single or double precision, got {coefficients.dtype}")
    single = coefficients.dtype == np.float32
    roundoff, limit = (normal_form.SINGLE_ROUNDOFF, 2.0**100) if single else (DOUBLE_ROUNDOFF, 2.0**1000)
    rows = np.atleast_2d(coefficients).astype(np.float64)
    starts = np.broadcast_to(np.asarray(intercepts, dtype=np.float64).ravel(), (len(rows),))
    if not (np.isfinite(rows).all() and np.isfinite(starts).all()):
        raise NoReading("a coefficient is not finite")
    relative = (rows.shape[1] + 6) * roundoff
    # where products are too small for normal numbers
    lost = rows.shape[1] * (2.0**-126 if single else UNDERFLOW)
    scores = []
    for row, start in zip(rows, starts, strict=True):
        lines = enumerate(LinearContribution(float(weight), limit) for weight in row)
        terms = tuple(ColumnTerm(place, line, monotone=True) for place, line in lines)
        scores.append(ScoreSum(float(start), (), terms, lost, relative))
    return tuple(scores), roundoff


@dataclass(frozen=True, slots=True)
class _LogNormalDensity:
    """The logarithm of a normal density but for its constant."""

    mean: float
    variance: float
    limit: float

    def __call__(self, values: AnyArray) -> Float64Array:
        numbers = normal_form.to_float64(values)
        if not np.isfinite(numbers).all():
            raise NoReading("naive Bayes refuses missing and infinite numbers")
        with np.errstate(over="ignore"):
            result: Float64Array = -0.5 * (numbers - self.mean) ** 2 / self.variance
        if np.any(np.abs(result) > self.limit) or np.any(np.abs(numbers) > self.limit):
            raise NoReading("a number is so large that naive Bayes may overflow")
        return result


def _read_gaussian(estimator: Any) -> SklearnOutputs:
    """Terms -(x - mean)^2 / (2 variance), and logarithms of priors and variances as constants."""
    means, variances = np.asarray(estimator.theta_), np.asarray(estimator.var_)
    single = np.float32 in (means.dtype, variances.dtype, np.asarray(estimator.class_prior_).dtype)
    roundoff, limit = (normal_form.SINGLE_ROUNDOFF, 2.0**50) if single else (DOUBLE_ROUNDOFF, 2.0**500)
    if not (np.isfinite(means).all() and np.all(variances > 2.0**-60) and np.all(estimator.class_prior_ > 0.0)):
        raise NoReading("a variance or a prior of this naive Bayes is too near zero")
    columns = means.shape[1]
    scores = []
    for place in range(len(means)):
        logarithms = np.log(2.0 * np.pi * variances[place].astype(np.float64))
        prior = float(np.log(float(estimator.class_prior_[place])))
        # rounding a variance times 2 pi moves its logarithm by a unit or two; n of them are added up
        error = (columns + 16) * roundoff * (abs(prior) + float(np.abs(logarithms).sum()) + columns)
        normals = zip(means[place].tolist(), variances[place].tolist(), strict=True)
        densities = enumerate(_LogNormalDensity(mean, variance, limit) for mean, variance in normals)
        terms = tuple(ColumnTerm(column, density) for column, density in densities)
        scores.append(ScoreSum(prior - 0.5 * float(logarithms.sum()), (), terms, error, (columns + 24) * roundoff))
    return _build_bayes_outputs(scores, roundoff)


def _build_bayes_outputs(scores: list[ScoreSum], roundoff: float = DOUBLE_ROUNDOFF) -> SklearnOutputs:
    """The probability is exp(s - log(sum of exp)): both logarithms are rounded in proportion to their size, which the
    scores' own relative error has room for.
    """
    if len(scores) < 2:
        raise NoReading("it knows one class only")
    return SklearnOutputs("softmax", tuple(scores), noise=(len(scores) + 16) * roundoff)


@dataclass(frozen=True, slots=True)
class _StepContribution:
    """An amount where the number is above a threshold, else nothing."""

    threshold: float
    amount: float

    def __call__(self, values: AnyArray) -> Float64Array:
        numbers = normal_form.to_float64(values)
        if not np.isfinite(numbers).all():
            raise NoReading("naive Bayes refuses missing and infinite numbers")
        nearest = float(np.float32(self.threshold))
        coarse = values.dtype.kind == "f" and values.dtype.itemsize < 8 and nearest != self.threshold
        # whether the comparison is in single precision depends on the other columns' types
        if coarse and (np.any(numbers == nearest) or values.dtype.itemsize < 4):
            raise NoReading(f"a number in single precision is too near the threshold {self.threshold!r}")
        return np.where(numbers > self.threshold, self.amount, 0.0)


def _read_bernoulli(estimator: Any) -> SklearnOutputs:
    present = np.asarray(estimator.feature_log_prob_)
    with np.errstate(divide="ignore"):
        absent = np.log(1 - np.exp(present))  # the library's own expression
    weights, starts = present - absent, np.asarray(estimator.class_log_prior_) + absent.sum(axis=1)
    if not (np.isfinite(weights).all() and np.isfinite(starts).all() and weights.dtype == np.float64):
        raise NoReading("a probability of this naive Bayes is 0 or 1")

    def make(weight: float) -> Callable[[AnyArray], Float64Array]:
        if estimator.binarize is None:
            return LinearContribution(weight, 2.0**500)
        return _StepContribution(float(estimator.binarize), weight)

    scores = []
    for place, row in enumerate(weights.tolist()):
        terms = tuple(ColumnTerm(column, make(weight), monotone=True) for column, weight in enumerate(row))
        sizes = abs(float(estimator.class_log_prior_[place])) + float(np.abs(absent[place]).sum())
        error = 16 * DOUBLE_ROUNDOFF * sizes + UNDERFLOW
        scores.append(ScoreSum(float(starts[place]), (), terms, error, (len(row) + 24) * DOUBLE_ROUNDOFF))
    return _build_bayes_outputs(scores)


@dataclass(frozen=True, slots=True)
class _CategoryContribution:
    """What each of the categories 0, 1, 2, ... adds."""

    amounts: tuple[float, ...]

    def __call__(self, values: AnyArray) -> Float64Array:
        numbers = np.trunc(normal_form.to_float64(values))  # the library casts to whole numbers
        if not np.all((numbers >= 0) & (numbers < len(self.amounts))):
            raise NoReading(f"a category must be an integer from 0 to {len(self.amounts) - 1}")
        return np.asarray(self.amounts)[numbers.astype(np.intp)]


def _read_categorical(estimator: Any) -> SklearnOutputs:
    tables = [np.asarray(table) for table in estimator.feature_log_prob_]
    starts = np.asarray(estimator.class_log_prior_)
    if not (np.isfinite(starts).all() and all(np.isfinite(table).all() for table in tables)):
        raise NoReading("a probability of this naive Bayes is zero")
    scores = []
    for place, start in enumerate(starts.tolist()):
        amounts = enumerate(_CategoryContribution(tuple(table[place].tolist())) for table in tables)
        terms = tuple(ColumnTerm(column, add) for column, add in amounts)
        scores.append(ScoreSum(start, (), terms, UNDERFLOW, (len(tables) + 24) * DOUBLE_ROUNDOFF))
    return _build_bayes_outputs(scores)
