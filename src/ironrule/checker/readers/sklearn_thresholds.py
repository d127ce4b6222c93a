"""Classifiers of scikit-learn that hold the score of another one against a threshold of their own.

The positive class is predicted where the score is the threshold or more. That is where the negative class's condition,
a score below the threshold, does not hold.
"""

from __future__ import annotations

import math
from typing import Any

from ironrule.checker.readers.decisions import UNDERFLOW
from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading, Reading, SumForm
from ironrule.checker.readers.registry import get_estimator_inside, identify_class, read_estimator
from ironrule.checker.readers.sklearn_outputs import read_outputs


def read_sklearn_thresholds(estimator: Any, target: EstimatorTarget) -> Reading | None:
    """The reading of a classifier with a threshold of its own; None for everything else."""
    kind = identify_class("sklearn", estimator)
    if kind not in ("FixedThresholdClassifier", "TunedThresholdClassifierCV"):
        return None
    inside = get_estimator_inside(estimator)
    if target.threshold is not None:  # its probabilities are those of the model inside
        return read_estimator(inside, target)
    if len(inside.classes_) != 2:
        raise NoReading(f"a {kind} must have two classes")
    automatic = estimator.response_method == "auto"
    asked = ["predict_proba", "decision_function"] if automatic else [str(estimator.response_method)]
    method = next((name for name in asked if hasattr(inside, name)), None)
    if kind.startswith("Tuned"):
        scorer = estimator._curve_scorer
        if identify_class("sklearn", scorer) != "_CurveScorer":
            raise NoReading(f"its scorer must be scikit-learn's, got {type(scorer).__name__}")
        level, label = float(estimator.best_threshold_), scorer._get_pos_label()
    else:
        level = {"predict_proba": 0.5}.get(str(method), 0.0) if estimator.threshold == "auto" else estimator.threshold
        label = estimator.pos_label
    positive = 1 if label is None else [bool(one == label) for one in inside.classes_].index(True)
    if method == "predict_proba":
        below = read_estimator(inside, EstimatorTarget((positive,), float(level), "below"))
    else:
        below = _read_low_score(inside, positive, float(level))
    return below if target.desired_classes == (1 - positive,) else below.negate()


def _read_low_score(inside: Any, positive: int, level: float) -> SumForm:
    """Where the decision function of one of two classes is below a level; ties stay undecided."""
    outputs = read_outputs(inside)
    if outputs.kind not in ("logistic", "huber", "labels") or len(outputs.scores) != 1 or not math.isfinite(level):
        raise NoReading("the decision function inside is not a sum of trees and columns")
    score = outputs.scores[0] if positive else outputs.scores[0].negate()
    return SumForm(((score.negate().build_margin_above(-level, UNDERFLOW + outputs.noise * abs(level)),),))
