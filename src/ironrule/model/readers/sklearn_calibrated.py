"""Calibrated classifiers of scikit-learn with two classes: the mean of a monotone function of each fold's score.

With one fold the calibrator only moves the threshold: its function is inverted. With several, Platt's sigmoid makes a
sum of logistic functions of the folds' scores, which is a sum of trees behind links; a step function per fold is not,
unless the fold's model is a single tree: then each leaf has a probability, which the calibrator makes another one.

The normal form of a base model must give its score itself, not only its decision. That is taken from how its offset
moves with the threshold, and checked against the scores that the base gives for random rows.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray
from ironrule.model.decision import list_labels
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Reader, Term, Tree, TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods
from ironrule.model.readers.sklearn_trees import read_second_class

PROBE_ROWS = 256
MIN_TIE = 1e-290  # keeps exact ties undecided
LOW_THRESHOLD, HIGH_THRESHOLD = 0.25, 0.75


def read_calibrated(
    estimator: Any, desired: tuple[Any, ...], threshold: float | None, read_base: Reader
) -> TreeSum | None:
    """The normal form of a CalibratedClassifierCV over bases that ``read_base`` reads; None for anything else."""
    if get_library_class_name(estimator, "sklearn") != "CalibratedClassifierCV":
        return None
    require_own_methods(estimator)
    classes = list_labels(estimator.classes_)
    folds = [_read_fold(fold, classes) for fold in estimator.calibrated_classifiers_]
    positive = desired == (classes[1],)
    level = 0.5 if threshold is None else float(threshold)
    if not 1e-5 < level < 1 - 1e-5:
        raise Unreadable(f"a threshold of {level!r} on a calibrated probability decides nothing, or too closely")
    if len(folds) == 1:
        return TreeSum(((_read_single_fold(folds[0], positive, level, read_base),),))
    return TreeSum(((_average_folds(folds, positive, level, read_base),),))


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationFold:
    """A base model and what makes its scores probabilities."""

    base: Any
    calibrator: Any
    classes: list[Any]

    @property
    def is_sigmoid(self) -> bool:
        """Whether the calibrator is Platt's sigmoid; a step function otherwise."""
        return hasattr(self.calibrator, "a_")

    @property
    def has_decision_function(self) -> bool:
        """Whether the score is the base's decision function; its second probability otherwise."""
        return hasattr(self.base, "decision_function")

    def compute_scores(self, seen: AnyArray) -> AnyArray:
        """The base's scores, as the calibrator gets them."""
        asked = self.base.decision_function(seen) if self.has_decision_function else self.base.predict_proba(seen)[:, 1]
        return np.asarray(asked)


def _read_fold(fold: Any, classes: list[Any]) -> CalibrationFold:
    frozen = get_library_class_name(fold.estimator, "sklearn") == "FrozenEstimator"
    base = fold.estimator.estimator if frozen else fold.estimator
    if len(classes) != 2 or list_labels(base.classes_) != classes:
        raise Unreadable("a calibrated classifier can be read only with two classes that every fold knows")
    if fold.method not in ("sigmoid", "isotonic") or len(fold.calibrators) != 1:
        raise Unreadable(f"calibration by {fold.method!r} cannot be read; sigmoid and isotonic can")
    if hasattr(base, "steps"):
        raise Unreadable("every fold has a preprocessing of its own; put the calibrated classifier inside the Pipeline")
    return CalibrationFold(base, fold.calibrators[0], classes)


def _read_base_margin(fold: CalibrationFold, positive: bool, threshold: float | None, read_base: Reader) -> Margin:
    normal_form = read_base(fold.base, (fold.classes[positive],), threshold)
    if normal_form is None:
        raise Unreadable(f"the calibrated {type(fold.base).__name__} is not one of the models that can be read")
    if len(normal_form.alternatives) != 1 or len(normal_form.alternatives[0]) != 1:
        raise Unreadable(f"the calibrated {type(fold.base).__name__} has no single score")
    return normal_form.alternatives[0][0]


@dataclass(frozen=True, slots=True, eq=False)
class BaseScore:
    """A base's score, or its negative, as (sum - constant) / scale; the errors are the sum's, as in Margin."""

    trees: tuple[Tree, ...]
    terms: tuple[Term, ...]
    constant: float
    scale: float
    error: float
    relative_error: float


def _read_base_score(fold: CalibrationFold, rising: bool, read_base: Reader) -> BaseScore:
    """The base's score (its negative where it is not to rise), checked on random rows."""
    if fold.has_decision_function:
        margin, scale = _read_base_margin(fold, rising, None, read_base), 1.0
        constant = -margin.offset
    else:
        margin, other = (_read_base_margin(fold, rising, level, read_base) for level in (LOW_THRESHOLD, HIGH_THRESHOLD))
        scale = (margin.offset - other.offset) / (HIGH_THRESHOLD - LOW_THRESHOLD)
        constant = -margin.offset - LOW_THRESHOLD * scale + (0.0 if rising else scale)
        margin = replace(margin, error=max(margin.error, other.error))
    name = type(fold.base).__name__
    if not (math.isfinite(scale) and scale > 0) or any(group.link != Link() for group in margin.groups):
        raise Unreadable(f"the score of the calibrated {name} is no plain sum; fit it with ensemble=False")
    trees = tuple(tree for group in margin.groups for tree in group.trees)
    terms = tuple(term for group in margin.groups for term in group.terms)
    error = margin.error + margin.relative_error * abs(margin.offset)
    raw = BaseScore(trees, terms, constant, scale=scale, error=error, relative_error=margin.relative_error)
    _check_base_score(raw, fold, rising)
    return raw


def _check_base_score(raw: BaseScore, fold: CalibrationFold, rising: bool) -> None:
    rng = np.random.default_rng(0)
    shape = (PROBE_ROWS, int(fold.base.n_features_in_))
    probes = (rng.normal(size=shape) * 10.0 ** rng.integers(-1, 3, size=shape)).astype(np.float32)
    sums = Margin(-raw.constant, (LinkedGroup(raw.trees, terms=raw.terms),), raw.error, raw.relative_error)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the probes have no names of columns, which a base may miss
            scores = fold.compute_scores(probes).astype(np.float64) * (1 if rising else -1)
        ours = sums.evaluate(probes) / raw.scale
    except Exception as error:  # whatever the base model raises on numbers that it does not know
        reason = f"the scores of the calibrated {type(fold.base).__name__} cannot be checked: {error}"
        raise Unreadable(reason) from error
    allowed = sums.bound_error(probes) / raw.scale + 1e-5 * (1 + np.abs(scores))
    if not (np.abs(scores - ours) <= allowed).all():
        name = type(fold.base).__name__
        raise Unreadable(f"the score of the calibrated {name} is no plain sum; fit it with ensemble=False")


def _find_epsilon(fold: CalibrationFold) -> float:
    """The epsilon of the numbers that the calibrator gets, at their least precise."""
    held = [getattr(fold.base, name, None) for name in ("coef_", "theta_")]
    held.append(getattr(fold.calibrator, "X_thresholds_", None))
    own = type(fold.base).__module__.startswith("sklearn.")
    return 2.0**-52 if own and all(array is None or array.dtype == np.float64 for array in held) else 2.0**-23


def _average_folds(folds: list[CalibrationFold], positive: bool, level: float, read_base: Reader) -> Margin:
    """The mean of the folds' sigmoids: the second class's is logistic in -(a score + b), the first's in a score + b."""
    groups: list[LinkedGroup] = []
    offset, error, relative = -level, 0.0, 0.0
    for fold in folds:  # each adds its share of the mean: a tree, a linked group, or a constant where its slope is 0
        sign, share, epsilon = (1 if positive else -1), 1 / len(folds), _find_epsilon(fold)
        if (tree := _calibrate_tree(fold, positive)) is not None:
            groups.append(LinkedGroup((replace(tree, value=share * tree.value),)))
            error += share * 32 * epsilon
            continue
        if not fold.is_sigmoid:
            raise Unreadable(
                f"isotonic calibration of a {type(fold.base).__name__} over several folds is a mean of step functions, "
                f"not a sum of trees; fit it with ensemble=False or method='sigmoid' to have it read"
            )
        a, b = float(fold.calibrator.a_), float(fold.calibrator.b_)
        error += share * epsilon * (32 + 2 * abs(b))
        if a == 0.0:
            offset += share / (1 + math.exp(sign * b))
            continue
        raw = _read_base_score(fold, sign * a < 0, read_base)
        slope = abs(a) / raw.scale
        shift = -slope * raw.constant - sign * b
        groups.append(LinkedGroup(raw.trees, Link("logistic", share, slope, shift), raw.terms))
        error += share * slope / 4 * (raw.error + 8 * epsilon * abs(raw.constant))
        relative = max(relative, share * slope / 4 * raw.relative_error)
    return Margin(offset, tuple(groups), error, relative)


def _calibrate_tree(fold: CalibrationFold, positive: bool) -> Tree | None:
    """A fold whose model is a single tree, with a calibrated probability at every leaf; None for other models."""
    tree = None if fold.has_decision_function else read_second_class(fold.base)
    if tree is None:
        return None
    leaves = np.flatnonzero(tree.left < 0)
    chances = np.asarray(fold.calibrator.predict(tree.value[leaves]), dtype=np.float64)
    require_readable(bool(np.isfinite(chances).all()), "a calibrated probability is no number")
    values = np.zeros_like(tree.value)
    values[leaves] = chances if positive else 1 - chances
    return replace(tree, value=values)


def _read_single_fold(fold: CalibrationFold, positive: bool, level: float, read_base: Reader) -> Margin:
    """With one fold, the place where its calibrator passes the threshold is a threshold on the score."""
    low, high, rises = _bracket_score(fold, level if positive else 1 - level)
    up = positive == rises
    if not fold.has_decision_function:  # any normal form by threshold will do, whatever its scale
        wide = 16 * _find_epsilon(fold)
        ends = (low - wide, high + wide) if up else (1 - high - wide, 1 - low + wide)
        return _merge_margins(*(_read_base_margin(fold, up, end, read_base) for end in ends))
    raw = _read_base_score(fold, up, read_base)
    middle = (low + high) / 2 if up else -(low + high) / 2
    return _cut_score(raw, middle, (high - low) / 2, _find_epsilon(fold))


def _cut_score(raw: BaseScore, middle: float, wide: float, epsilon: float) -> Margin:
    """The margin by which a score is above a place that is known up to ``wide``."""
    offset = -raw.constant - raw.scale * middle
    error = raw.error + raw.scale * (wide + 4 * epsilon * abs(middle))
    error += 4 * epsilon * (abs(raw.constant) + abs(offset))
    return Margin(offset, (LinkedGroup(raw.trees, terms=raw.terms),), error, raw.relative_error)


def read_score_threshold(base: Any, classes: list[Any], positive: Any, level: float, read_base: Reader) -> Margin:
    """The margin by which the decision function of one of two classes is at least a level; a tie is left to the model.

    The first class's decision function is the negative of the second's.
    """
    fold = CalibrationFold(base, None, classes)
    return _cut_score(_read_base_score(fold, positive == classes[1], read_base), level, MIN_TIE, _find_epsilon(fold))


def _merge_margins(low: Margin, high: Margin) -> Margin:
    """A margin that is sure to be positive where the margin by the higher threshold is, and negative where the one by
    the lower threshold is. Two sums differ by their offsets alone; a single tree's leaves say the decision themselves.
    """
    trees, others = (tuple(tree for group in margin.groups for tree in group.trees) for margin in (low, high))
    alike = len(trees) == len(others) and len(low.groups) == len(high.groups)
    if alike and all(np.array_equal(tree.value, other.value) for tree, other in zip(trees, others, strict=True)):
        half = (low.offset - high.offset) / 2
        error = max(m.error + m.relative_error * abs(m.offset) for m in (low, high)) + half
        return Margin(high.offset + half, low.groups, error, max(low.relative_error, high.relative_error))
    decides = len(trees) == len(others) == 1 and low.offset == high.offset == low.error == high.error == 0.0
    if not decides or any(set(np.unique(tree.value)) - {-1.0, 0.0, 1.0} for tree in (*trees, *others)):
        raise Unreadable("the calibrated probability passes the threshold where the base's own is at its end")
    tree = replace(trees[0], value=(trees[0].value + others[0].value) / 2)  # 0 at a leaf that only the model can decide
    return Margin(0.0, (LinkedGroup((tree,)),), 0.5)


def _bracket_score(fold: CalibrationFold, level: float) -> tuple[float, float, bool]:
    """Scores outside which the calibrated probability is certainly on one side of the level, and whether it rises."""
    unsure = 32 * _find_epsilon(fold)
    low, high, rises = (_bracket_sigmoid if fold.is_sigmoid else _bracket_isotonic)(fold.calibrator, level, unsure)
    wide = unsure * max(abs(low), abs(high))
    return low - wide, high + wide, rises


def _bracket_sigmoid(calibrator: Any, level: float, unsure: float) -> tuple[float, float, bool]:
    a, b = float(calibrator.a_), float(calibrator.b_)
    require_readable(a != 0.0, "the calibrated probability is the same everywhere")
    places = [math.log(p / (1 - p)) for p in (level - unsure, level + unsure)]
    wide = unsure * (1 + 2 * abs(b) + max(map(abs, places)))
    ends = (-(places[0] - wide + b) / a, -(places[1] + wide + b) / a)
    return min(ends), max(ends), a < 0


def _bracket_isotonic(calibrator: Any, level: float, unsure: float) -> tuple[float, float, bool]:
    """The piecewise linear function inverted on both sides of the level."""
    x = np.asarray(calibrator.X_thresholds_, dtype=np.float64)
    y = np.asarray(calibrator.y_thresholds_, dtype=np.float64)
    below, above = np.flatnonzero(y <= level - unsure), np.flatnonzero(y >= level + unsure)
    if not len(below) or not len(above) or not calibrator.increasing_:
        raise Unreadable(f"the isotonic probability does not pass {level:g}; pass another threshold=")
    i, j = int(below[-1]), int(above[0])
    if j - i > 2:
        raise Unreadable(
            f"the isotonic probability is exactly {level:g} over an interval of scores, where rounding decides; "
            f"pass another threshold="
        )
    low = x[i] + (level - unsure - y[i]) / (y[i + 1] - y[i]) * (x[i + 1] - x[i])
    high = x[j - 1] + (level + unsure - y[j - 1]) / (y[j] - y[j - 1]) * (x[j] - x[j - 1])
    return float(min(low, high)), float(max(low, high)), True
