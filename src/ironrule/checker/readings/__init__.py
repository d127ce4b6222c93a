"""Second readings: how the checker itself reads the models of each library, apart from how the explainer reads them.

A reader gets an estimator and a question and gives a reading, or None if the estimator is not one of its own, or raises
Unreadable with a reason. Readers are loaded when a model of their library comes: a check loads what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ironrule.checker.readings.network_form import NetworkReading
from ironrule.checker.readings.normal_form import Question, SumReading, Unreadable

READERS: dict[str, tuple[tuple[str, str], ...]] = {  # by library: the modules and functions that read its models
    "sklearn": (
        ("sklearn_trees", "read_sklearn_trees"),
        ("sklearn_additive", "read_sklearn_additive"),
        ("sklearn_calibrated", "read_sklearn_calibrated"),
        ("sklearn_mlp", "read_sklearn_mlp"),
    ),
    "xgboost": (("xgboost_models", "read_xgboost"),),
    "lightgbm": (("lightgbm_models", "read_lightgbm"),),
    "catboost": (("catboost_models", "read_catboost"),),
    "ironrule": (("onnx_networks", "read_onnx"),),
}


def read_estimator(estimator: Any, question: Question) -> SumReading | NetworkReading:
    """Read an estimator; raises Unreadable, with the reason, if the checker has no reading of it."""
    library = type(estimator).__module__.split(".")[0]
    for module, function in READERS.get(library, ()):
        read = getattr(import_module(f"ironrule.checker.readings.{module}"), function)
        reading = read(estimator, question)
        if reading is not None:
            found: SumReading | NetworkReading = reading
            return found
    raise Unreadable(f"the checker has no reading of its own for {type(estimator).__name__}")
