"""Calibrated classifiers of scikit-learn with two classes: a rising function of another model's score.

With the method "sigmoid" the second class's probability is the mean over the folds of logistic(-(a score + b)). With
"isotonic" and one fold it interpolates between points; the threshold is turned back into the scores at which the
interpolation may, and certainly does, pass it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.checker.readers import normal_form
from ironrule.checker.readers.decisions import UNDERFLOW, ScoreSum, decide_logistic
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, EstimatorTarget, NoReading, SumForm, SumMargin
from ironrule.checker.readers.registry import identify_class
from ironrule.checker.readers.sklearn_outputs import SklearnOutputs, decide_mixture, read_outputs

UNDECIDED_MARGIN = SumMargin(0.0, (), 1.0)  # possible everywhere and sure nowhere


def read_sklearn_calibrated(estimator: Any, target: EstimatorTarget) -> SumForm | None:
    """The reading of a CalibratedClassifierCV; None for everything else."""
    if identify_class("sklearn", estimator) != "CalibratedClassifierCV":
        return None
    if len(estimator.classes_) != 2:
        raise NoReading("a calibrated classifier is read with two classes only")
    folds = estimator.calibrated_classifiers_
    for fold in folds:
        if identify_class("sklearn", fold) != "_CalibratedClassifier" or len(fold.calibrators) != 1:
            raise NoReading("a fold of a calibrated classifier must be scikit-learn's, with one calibrator")
    wanted = target.desired_classes[0]
    # of two probabilities that add up to one the larger is above a half; that is rounded a few times
    threshold = 0.5 if target.threshold is None else target.threshold
    methods = {fold.method for fold in folds}
    if methods == {"sigmoid"}:
        members = [_read_sigmoid(fold) for fold in folds]
        if len(members) == 1:
            return decide_logistic(members[0].scores[0], threshold, 2 * members[0].noise, first=wanted == 0)
        rounding = (len(members) + 8) * DOUBLE_ROUNDOFF
        return decide_mixture([(1.0, outputs) for outputs in members], wanted, threshold, rounding)
    if methods == {"isotonic"} and len(folds) == 1:
        return _read_isotonic(folds[0], wanted, threshold)
    raise NoReading(f"calibration by {sorted(methods)} with {len(folds)} folds is not read")


def _read_base_score(fold: Any) -> tuple[ScoreSum, float]:
    """What a calibrator gets, the decision function or else the second class's probability, and its relative error."""
    base = fold.estimator
    if identify_class("sklearn", base) == "FrozenEstimator":
        base = base.estimator
    outputs = read_outputs(base)
    if not np.array_equal(base.classes_, fold.classes):
        raise NoReading("the calibrated model must know the same classes as the calibration")
    if outputs.kind == "shares":
        return outputs.get_mean_score(1), outputs.noise
    if outputs.kind in ("logistic", "huber", "labels"):
        return outputs.scores[0], outputs.noise
    raise NoReading("the score of the calibrated model is not a sum of trees and columns")


def _read_sigmoid(fold: Any) -> SklearnOutputs:
    calibrator = fold.calibrators[0]
    if identify_class("sklearn", calibrator) != "_SigmoidCalibration":
        raise NoReading(f"a calibrator must be scikit-learn's, got {type(calibrator).__name__}")
    score, noise = _read_base_score(fold)
    slope, shift = -float(calibrator.a_), -float(calibrator.b_)
    if not (math.isfinite(slope) and math.isfinite(shift)):
        raise NoReading("the calibration is not finite")
    scaled = (score if slope >= 0.0 else score.negate()).scale(abs(slope)) if slope else ScoreSum(0.0, size_bound=0.0)
    # a product and a sum, rounded in the precision of the score
    error = scaled.error + 4 * noise * (abs(shift) + scaled.size) + UNDERFLOW
    offset, relative, reach = scaled.offset + shift, scaled.relative_error + 4 * noise, scaled.size_bound + abs(shift)
    shifted = replace(scaled, offset=offset, error=error, relative_error=relative, size_bound=reach)
    return SklearnOutputs("logistic", (shifted,), noise=noise)


def _read_isotonic(fold: Any, wanted: int, threshold: float) -> SumForm:
    calibrator = fold.calibrators[0]
    if identify_class("sklearn", calibrator) != "IsotonicRegression":
        raise NoReading(f"a calibrator must be scikit-learn's, got {type(calibrator).__name__}")
    places, levels = np.asarray(calibrator.X_thresholds_), np.asarray(calibrator.y_thresholds_)
    if places.dtype != np.float64 or calibrator.out_of_bounds != "clip":
        raise NoReading("an isotonic calibration must be in double precision and clip what lies outside")
    if np.any(np.diff(levels) < 0.0) or np.any(np.diff(places) < 1e-200):
        raise NoReading("an isotonic calibration must rise")
    score, noise = _read_base_score(fold)
    # a line through two points, with numbers of at most 1: a dozen roundings, and the other class's 1 - p
    blur = 32 * max(noise, DOUBLE_ROUNDOFF)
    if wanted == 0:  # 1 - p > t where the mirrored calibration of the score with the other sign is above t
        score, places, levels = score.negate(), -places[::-1], (1.0 - levels)[::-1]
    if threshold + blur < levels[0]:
        return normal_form.ALWAYS_DESIRED
    if threshold - blur > levels[-1] or threshold >= 1.0:  # the library cuts off what rounding puts above 1
        return normal_form.NEVER_DESIRED
    own = 16 * DOUBLE_ROUNDOFF * float(np.abs(places).max()) + UNDERFLOW  # of the places where lines are cut here
    low, high = (_find_passing_score(places, levels, level) for level in (threshold - blur, threshold + blur))
    if low == -math.inf:  # below every point the probability is within the error of the threshold
        return SumForm(((UNDECIDED_MARGIN,),))
    if high == math.inf:  # it never certainly passes the threshold
        return SumForm(((score.build_margin_above(low, own), UNDECIDED_MARGIN),))
    middle = low / 2 + high / 2
    return SumForm(((score.build_margin_above(middle, (high - low) / 2 + own),),))


def _find_passing_score(places: Any, levels: Any, level: float) -> float:
    """The score above which the interpolation is above a level: -inf below the first point, inf if there is none."""
    if levels[0] > level:
        return -math.inf
    if not levels[-1] > level:
        return math.inf
    after = int(np.argmax(levels > level))  # the first point above; the one before it is not
    share = (level - levels[after - 1]) / (levels[after] - levels[after - 1])
    return float(places[after - 1] + min(1.0, max(0.0, share)) * (places[after] - places[after - 1]))
