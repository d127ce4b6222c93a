"""Which reader reads an estimator, and whether an object is exactly a class of a library.

A reader gets an estimator and a target and gives a reading, or None if the estimator is not one of its own, or raises
NoReading with a reason. A reader is loaded when a model of its kind comes, so that a check loads only what it needs.

A reading tells what the library's own code decides. A subclass, or an object whose ``predict`` was replaced, may decide
otherwise, so it has no reading.
"""

from __future__ import annotations

import inspect
import math
import sys
from copy import copy
from importlib import import_module
from typing import Any

from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading, Reading

ENSEMBLES = ("AdaBoost", "Bagging", "Voting")
TREES = ("DecisionTree", "ExtraTree", "RandomForest", "GradientBoosting", "HistGradient")
THRESHOLD_WRAPPERS = ("FixedThreshold", "TunedThreshold")
READERS = (  # the library, what the class's name begins with, and the module and function that read it
    ("sklearn", ("MLP",), "sklearn_mlp.read_sklearn_mlp"),
    ("sklearn", ("Calibrated",), "sklearn_calibrated.read_sklearn_calibrated"),
    ("sklearn", THRESHOLD_WRAPPERS, "sklearn_thresholds.read_sklearn_thresholds"),
    ("sklearn", ENSEMBLES, "sklearn_ensembles.read_sklearn_ensembles"),
    ("sklearn", TREES, "sklearn_trees.read_sklearn_trees"),
    ("sklearn", ("",), "sklearn_additive.read_sklearn_additive"),
    ("xgboost", ("",), "xgboost_models.read_xgboost"),
    ("lightgbm", ("",), "lightgbm_models.read_lightgbm"),
    ("catboost", ("",), "catboost_models.read_catboost"),
    ("ironrule", ("OnnxNetwork",), "onnx_networks.read_onnx"),
    ("ironrule", ("OnnxModel",), "onnx_trees.read_onnx_trees"),
    ("ironrule", ("PmmlModel",), "pmml.models.read_pmml"),
    ("ironrule", ("SavedFileForm",), "saved_files.read_saved_form"),
)
ABSENT_VALUES = {"xgboost": math.nan}  # what libraries take an entry for that a sparse matrix does not store; others: 0


def find_absent_value(estimator: Any) -> float | None:
    """What an estimator takes an entry for that a sparse matrix does not store; None if its members disagree."""
    while type(estimator).__module__.startswith("sklearn.") and type(estimator).__name__.startswith(THRESHOLD_WRAPPERS):
        estimator = get_estimator_inside(estimator)
    name, members = type(estimator).__name__, getattr(estimator, "estimators_", None)
    if type(estimator).__module__.startswith("sklearn.") and name.startswith(("Voting", "Stacking")) and members:
        values = [find_absent_value(member) for member in members]
        return values[0] if len(set(map(repr, values))) == 1 else None
    return ABSENT_VALUES.get(type(estimator).__module__.split(".")[0], 0.0)


def get_estimator_inside(wrapper: Any) -> Any:
    """The fitted model whose threshold another one moves."""
    return wrapper.estimator_ if hasattr(wrapper, "estimator_") else wrapper.estimator


def replace_estimator_inside(wrapper: Any, estimator: Any) -> Any:
    """What moves a threshold, around another fitted model."""
    replaced = copy(wrapper)
    replaced.estimator_ = estimator
    return replaced


def read_estimator(estimator: Any, target: EstimatorTarget) -> Reading:
    """Read an estimator; raises NoReading, with the reason, if the checker has no reading of it.

    What is below a threshold is what is not above the next smaller number.
    """
    if target.direction == "below":
        if target.threshold is None:
            raise NoReading("scores are below a threshold only where there is one")
        smaller = math.nextafter(target.threshold, -math.inf)
        return read_estimator(estimator, EstimatorTarget(target.desired_classes, smaller)).negate()
    kind = type(estimator)
    for library, beginnings, reader in READERS:
        if kind.__module__.split(".")[0] == library and kind.__name__.startswith(beginnings):
            found: Reading | None = load_reader(reader)(estimator, target)
            if found is not None:
                return found
            break
    raise NoReading(f"the checker has no reading of its own for {kind.__name__}")


def load_reader(reader: str) -> Any:
    """A function of one of the modules here, by both names."""
    module, function = reader.rsplit(".", 1)
    return getattr(import_module(f"ironrule.checker.readers.{module}"), function)


DECISION_METHODS = ("predict", "predict_proba", "decision_function", "predict_log_proba", "transform", "score_samples")
WRAPPED_ATTRIBUTES = ("fn", "__wrapped__", "__func__", "fget")
MAX_WRAPPERS = 8  # wrappers to look through


def identify_class(library: str, instance: Any) -> str:
    """The class's name if it is exactly a class of the library, or an empty text; raises NoReading if one of the
    methods that decide was replaced.

    >>> identify_class("builtins", 3), identify_class("numpy", 3)
    ('int', '')
    """
    kind = type(instance)
    if kind.__module__.split(".")[0] != library or not _is_importable(kind):
        return ""
    for method in DECISION_METHODS:
        if method in getattr(instance, "__dict__", {}) or not _is_library_method(kind, method, library):
            replaced = f"the {method} of this {kind.__name__} was replaced"
            raise NoReading(f"{replaced}, so its structure does not tell what it decides")
    return kind.__name__


def _is_importable(kind: type) -> bool:
    """Whether the module that a class names really has this very class."""
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind


def _is_library_method(kind: type, method: str, library: str) -> bool:
    """Whether a method, where there is one, was written by the library. A function is known by the module of its global
    names, which no wrapper can copy; descriptors and wrappers keep what they wrap under one of a few names.
    """
    found = inspect.getattr_static(kind, method, None)
    for _ in range(MAX_WRAPPERS):
        if found is None:
            return True
        written_in = getattr(found, "__globals__", {}).get("__name__")
        home = written_in or getattr(found, "__module__", None) or type(found).__module__
        if home.split(".")[0] not in ({library} if written_in else {library, "builtins", "functools"}):
            return False
        found = next((getattr(found, name) for name in WRAPPED_ATTRIBUTES if hasattr(found, name)), None)
    return False
