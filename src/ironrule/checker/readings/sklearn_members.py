"""What a member of a scikit-learn ensemble computes before it decides, whatever reads it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ironrule.checker.readings.normal_form import Unreadable
from ironrule.checker.readings.sklearn_outputs import Outputs

READERS = (  # what the class's name begins with, and the module and function that give its outputs
    (("AdaBoost", "Bagging", "Voting"), "sklearn_ensembles.read_ensemble_outputs"),
    (
        ("DecisionTree", "ExtraTree", "RandomForest", "GradientBoosting", "HistGradient"),
        "sklearn_trees.read_tree_outputs",
    ),
    (("",), "sklearn_additive.read_additive_outputs"),
)


def read_outputs(estimator: Any) -> Outputs:
    """The outputs of an estimator or an ensemble; raises Unreadable where nothing is known of it."""
    reader = next(reader for beginnings, reader in READERS if type(estimator).__name__.startswith(beginnings))
    module, function = reader.split(".")
    outputs: Outputs | None = getattr(import_module(f"ironrule.checker.readings.{module}"), function)(estimator)
    if outputs is None:
        raise Unreadable(f"a member of the class {type(estimator).__name__} cannot be read")
    return outputs
