"""scikit-learn's classifiers that move the threshold of another one: FixedThresholdClassifier and
TunedThresholdClassifierCV.

Such a classifier predicts its positive class where the score of the model inside is *at least* the threshold, that is
above the largest double below it. The score is a probability, or the decision function where the model inside has no
probabilities or the user asked for it. Its own ``predict_proba`` is that of the model inside.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from ironrule.model.decision import list_labels
from ironrule.model.normal_form.tree_sum import Reader, TreeSum
from ironrule.model.protocol import NormalForm, Unreadable, require_readable
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods
from ironrule.model.readers.sklearn_calibrated import read_score_threshold

THRESHOLD_WRAPPERS = frozenset(("FixedThresholdClassifier", "TunedThresholdClassifierCV"))


def is_threshold_wrapper(estimator: Any) -> bool:
    """Whether an estimator only moves the threshold of another one."""
    return get_library_class_name(estimator, "sklearn") in THRESHOLD_WRAPPERS


def get_wrapped_estimator(wrapper: Any) -> Any:
    """The fitted model whose threshold is moved."""
    return getattr(wrapper, "estimator_", wrapper.estimator)


def wrap_estimator(wrapper: Any, inner: Any) -> Any:
    """The same wrapper around another fitted model, such as the last step of the pipeline that it had."""
    moved = copy.copy(wrapper)
    moved.estimator_ = inner
    return moved


def read_moved_threshold(
    estimator: Any,
    desired: tuple[Any, ...],
    threshold: float | None,
    read_inner: Callable[[Any, tuple[Any, ...], float | None], NormalForm],
    read_base: Reader,
) -> NormalForm | None:
    """The normal form of a classifier that moves a threshold; None for anything else."""
    if not is_threshold_wrapper(estimator):
        return None
    require_own_methods(estimator, deep=False)
    inner = get_wrapped_estimator(estimator)
    if threshold is not None:
        return read_inner(inner, desired, threshold)
    classes = list_labels(inner.classes_)
    require_readable(len(classes) == 2, "a moved threshold needs two classes")
    by_probability, level, positive = _find_threshold(estimator, inner, classes)
    if by_probability:
        normal_form = read_inner(inner, (positive,), math.nextafter(level, -math.inf))
    else:
        normal_form = TreeSum(((read_score_threshold(inner, classes, positive, level, read_base),),))
    return normal_form if desired == (positive,) else normal_form.negate()


def find_moved_probability(model: Any) -> tuple[float, Any] | None:
    """The probability that a classifier with a moved threshold asks for, and of which class; None for anything else."""
    while isinstance(steps := getattr(model, "steps", None), list) and steps:
        model = steps[-1][1]
    if not is_threshold_wrapper(model):
        return None
    try:
        inner = get_wrapped_estimator(model)
        by_probability, level, positive = _find_threshold(model, inner, list_labels(inner.classes_))
    except Unreadable:
        return None
    return (level, positive) if by_probability else None


def _find_threshold(estimator: Any, inner: Any, classes: list[Any]) -> tuple[bool, float, Any]:
    """Whether a probability is compared (the decision function otherwise), with what, and for which class."""
    methods = estimator._get_response_method()
    order = [methods] if isinstance(methods, str) else list(methods)
    method = next((name for name in order if hasattr(inner, name)), "")
    require_readable(method in ("predict_proba", "decision_function"), "the model inside has no scores")
    by_probability = method == "predict_proba"
    if get_library_class_name(estimator, "sklearn") == "TunedThresholdClassifierCV":
        require_own_methods(estimator._curve_scorer, deep=False)
        level, named = estimator.best_threshold_, estimator._curve_scorer._get_pos_label()
    else:
        automatic = 0.5 if by_probability else 0.0
        level, named = (automatic if estimator.threshold == "auto" else estimator.threshold), estimator.pos_label
    require_readable(math.isfinite(level), f"its threshold is {level!r}")
    if named is None:
        return by_probability, float(level), classes[1]
    place = next((place for place, label in enumerate(classes) if label == named), None)
    require_readable(place is not None, f"its positive class {named!r} is none of {classes}")
    return by_probability, float(level), classes[place or 0]
