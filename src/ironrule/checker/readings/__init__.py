"""Second readings: how the checker itself reads the models of each library, apart from how the explainer reads them.

A reader gets an estimator and a question and gives a reading, or None if the estimator is not one of its own, or raises
Unreadable with a reason. A reader is loaded when a model of its kind comes, so that a check loads what it needs.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ironrule.checker.readings.normal_form import Question, SumReading, Unreadable

if TYPE_CHECKING:
    from ironrule.checker.readings.network_form import NetworkReading

READERS = (  # the library, what the class's name begins with, and the module and function that read it
    ("sklearn", ("MLP",), "sklearn_mlp.read_sklearn_mlp"),
    ("sklearn", ("Calibrated",), "sklearn_calibrated.read_sklearn_calibrated"),
    ("sklearn", ("AdaBoost", "Bagging", "Voting"), "sklearn_ensembles.read_sklearn_ensembles"),
    (
        "sklearn",
        ("DecisionTree", "ExtraTree", "RandomForest", "GradientBoosting", "HistGradient"),
        "sklearn_trees.read_sklearn_trees",
    ),
    ("sklearn", ("",), "sklearn_additive.read_sklearn_additive"),
    ("xgboost", ("",), "xgboost_models.read_xgboost"),
    ("lightgbm", ("",), "lightgbm_models.read_lightgbm"),
    ("catboost", ("",), "catboost_models.read_catboost"),
    ("ironrule", ("OnnxNetwork",), "onnx_networks.read_onnx"),
)

ABSENT = {"xgboost": math.nan}  # what libraries take an entry for that a sparse matrix does not store; others: 0


def find_absent(estimator: Any) -> float:
    """What an estimator takes an entry for that a sparse matrix does not store."""
    return ABSENT.get(type(estimator).__module__.split(".")[0], 0.0)


def read_estimator(estimator: Any, question: Question) -> SumReading | NetworkReading:
    """Read an estimator; raises Unreadable, with the reason, if the checker has no reading of it."""
    kind = type(estimator)
    for library, beginnings, reader in READERS:
        if kind.__module__.split(".")[0] == library and kind.__name__.startswith(beginnings):
            module, function = reader.split(".")
            read = getattr(import_module(f"ironrule.checker.readings.{module}"), function)
            found: SumReading | NetworkReading | None = read(estimator, question)
            if found is not None:
                return found
            break
    raise Unreadable(f"the checker has no reading of its own for {kind.__name__}")
