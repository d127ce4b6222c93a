"""Calibrated classifiers of scikit-learn with two classes: a rising function of another model's score.

With the method "sigmoid" the second class's probability is the mean over the folds of logistic(-(a score + b)). With
"isotonic" and one fold it interpolates between points; the threshold is turned back into the scores at which the
interpolation may, and certainly does, pass it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ironrule.checker.readings.cuts import DOUBLE
from ironrule.checker.readings.decisions import TINY, Score, logistic_above
from ironrule.checker.readings.library_class import name_in
from ironrule.checker.readings.normal_form import ALWAYS, NEVER, Margin, Question, SumReading, Unreadable
from ironrule.checker.readings.sklearn_members import read_outputs
from ironrule.checker.readings.sklearn_outputs import Outputs, mix_above

UNDECIDED = Margin(0.0, (), 1.0)
"""A margin that is possible everywhere and sure nowhere."""


def read_sklearn_calibrated(estimator: Any, question: Question) -> SumReading | None:
    """The reading of a CalibratedClassifierCV; None for everything else."""
    if name_in("sklearn", estimator) != "CalibratedClassifierCV":
        return None
    if len(estimator.classes_) != 2:
        raise Unreadable("a calibrated classifier is read with two classes only")
    folds = estimator.calibrated_classifiers_
    for fold in folds:
        if name_in("sklearn", fold) != "_CalibratedClassifier" or len(fold.calibrators) != 1:
            raise Unreadable("a fold of a calibrated classifier must be scikit-learn's, with one calibrator")
    wanted = question.wanted[0]
    # of two probabilities that add up to one the larger is above a half; that is rounded a few times
    threshold = 0.5 if question.threshold is None else question.threshold
    methods = {fold.method for fold in folds}
    if methods == {"sigmoid"}:
        members = [_read_sigmoid(fold) for fold in folds]
        if len(members) == 1:
            return logistic_above(members[0].scores[0], threshold, 2 * members[0].noise, first=wanted == 0)
        rounding = (len(members) + 8) * DOUBLE
        return mix_above([(1.0, outputs) for outputs in members], wanted, threshold, rounding)
    if methods == {"isotonic"} and len(folds) == 1:
        return _read_isotonic(folds[0], wanted, threshold)
    raise Unreadable(f"calibration by {sorted(methods)} with {len(folds)} folds is not read")


def _read_base(fold: Any) -> tuple[Score, float]:
    """The number that a calibrator gets: the decision function, or else the second class's probability; and the
    relative error of numbers in its precision.
    """
    base = fold.estimator
    if name_in("sklearn", base) == "FrozenEstimator":
        base = base.estimator
    outputs = read_outputs(base)
    if not np.array_equal(base.classes_, fold.classes):
        raise Unreadable("the calibrated model must know the same classes as the calibration")
    if outputs.kind == "shares":
        return outputs.mean(1), outputs.noise
    if outputs.kind in ("logistic", "huber", "labels"):
        return outputs.scores[0], outputs.noise
    raise Unreadable("the score of the calibrated model is not a sum of trees and columns")


def _read_sigmoid(fold: Any) -> Outputs:
    calibrator = fold.calibrators[0]
    if name_in("sklearn", calibrator) != "_SigmoidCalibration":
        raise Unreadable(f"a calibrator must be scikit-learn's, got {type(calibrator).__name__}")
    score, noise = _read_base(fold)
    slope, shift = -float(calibrator.a_), -float(calibrator.b_)
    if not (math.isfinite(slope) and math.isfinite(shift)):
        raise Unreadable("the calibration is not finite")
    scaled = (score if slope >= 0.0 else score.negate()).scale(abs(slope)) if slope else Score(0.0, reach=0.0)
    # a product and a sum, rounded in the precision of the score
    error = scaled.error + 4 * noise * (abs(shift) + abs(scaled.offset) + _sizes(scaled)) + TINY
    offset, relative, reach = scaled.offset + shift, scaled.relative + 4 * noise, scaled.reach + abs(shift)
    return Outputs("logistic", (Score(offset, scaled.trees, scaled.terms, error, relative, reach),), noise=noise)


def _sizes(score: Score) -> float:
    return math.fsum(float(np.abs(tree.value).max()) for tree in score.trees)


def _read_isotonic(fold: Any, wanted: int, threshold: float) -> SumReading:
    calibrator = fold.calibrators[0]
    if name_in("sklearn", calibrator) != "IsotonicRegression":
        raise Unreadable(f"a calibrator must be scikit-learn's, got {type(calibrator).__name__}")
    places, levels = np.asarray(calibrator.X_thresholds_), np.asarray(calibrator.y_thresholds_)
    if places.dtype != np.float64 or calibrator.out_of_bounds != "clip":
        raise Unreadable("an isotonic calibration must be in double precision and clip what lies outside")
    if np.any(np.diff(levels) < 0.0) or np.any(np.diff(places) < 1e-200):
        raise Unreadable("an isotonic calibration must rise")
    score, noise = _read_base(fold)
    # a line through two points, with numbers of at most 1: a dozen roundings, and the other class's 1 - p
    blur = 32 * max(noise, DOUBLE)
    if wanted == 0:  # 1 - p > t where the mirrored calibration of the score with the other sign is above t
        score, places, levels = score.negate(), -places[::-1], (1.0 - levels)[::-1]
    if threshold + blur < levels[0]:
        return ALWAYS
    if threshold - blur > levels[-1] or threshold >= 1.0:  # the library cuts off what rounding puts above 1
        return NEVER
    own = 16 * DOUBLE * float(np.abs(places).max()) + TINY  # of the places where lines are cut here
    low, high = _pass(places, levels, threshold - blur), _pass(places, levels, threshold + blur)
    if low == -math.inf:  # below every point the probability is within the error of the threshold
        return SumReading(((UNDECIDED,),))
    if high == math.inf:  # it never certainly passes the threshold
        return SumReading(((score.margin_above(low, own), UNDECIDED),))
    middle = low / 2 + high / 2
    return SumReading(((score.margin_above(middle, (high - low) / 2 + own),),))


def _pass(places: Any, levels: Any, level: float) -> float:
    """The score above which the interpolation is above a level: -inf below the first point, inf if there is none."""
    if levels[0] > level:
        return -math.inf
    if not levels[-1] > level:
        return math.inf
    after = int(np.argmax(levels > level))  # the first point above; the one before it is not
    share = (level - levels[after - 1]) / (levels[after] - levels[after - 1])
    return float(places[after - 1] + min(1.0, max(0.0, share)) * (places[after] - places[after - 1]))
