"""The registry of readers, and the contract that every reader keeps.

A reader is a function ``read_yours(estimator, desired, threshold)`` in a file of this folder, and one line in
:data:`TREE_SUM_READERS` or :data:`OTHER_READERS`. It gets a fitted estimator, the desired labels (empty for a
regression) and the threshold (None: the estimator's own decision), and does the same steps in the same order:

1. It gives None unless the estimator is of a class that it reads, so that the next reader is asked.
2. It calls :func:`~ironrule.model.readers.library_class.require_own_methods`: what was fitted says what the model
   decides only if the library's own code uses it.
3. It raises :class:`~ironrule.model.protocol.Unreadable`, with a reason for the user, for what it cannot read.
4. It gives a :class:`~ironrule.model.normal_form.tree_sum.TreeSum`, a
   :class:`~ironrule.model.normal_form.network.Network` or another normal form that a backend accepts, over the columns
   that the estimator sees. Its margins are exact in real arithmetic, and their errors are proven bounds on the
   rounding of the library.

What several readers need is shared: decisions by scores of boosted trees and tables in :mod:`.boosting`, sums of
trees of scikit-learn in :mod:`.tree_scores`, steps and outputs of networks in :mod:`.network_steps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ironrule.model.decision import Direction, as_labels, list_labels, resolve_desired_labels
from ironrule.model.model_input import DEFAULT_CONVERSION, InputConversion
from ironrule.model.normal_form.tree_sum import Reader, TreeSum
from ironrule.model.protocol import NormalForm, Unreadable, require_readable
from ironrule.model.readers.library_class import get_library_class_name
from ironrule.model.readers.sklearn_calibrated import read_calibrated
from ironrule.model.readers.sklearn_mixtures import read_mixture
from ironrule.model.readers.sklearn_thresholds import (
    get_wrapped_estimator,
    is_threshold_wrapper,
    read_moved_threshold,
)


@dataclass(frozen=True, slots=True)
class RegisteredReader:
    """A reader by its name. It is loaded for the first estimator whose class comes from ``home`` or derives from one
    that does, so that explaining a decision tree loads nothing that reads PMML.
    """

    home: str  # a package, or a module
    module: str
    function: str

    def __call__(self, estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Any:
        """What the reader gives; None for an estimator from elsewhere."""
        if not any(f"{kind.__module__}.".startswith(f"{self.home}.") for kind in estimator.__class__.__mro__):
            return None
        return getattr(import_module(f"{__package__}.{self.module}"), self.function)(estimator, desired, threshold)


WRAPPERS = "ironrule.model.wrappers"

TREE_SUM_READERS: tuple[Reader, ...] = (
    RegisteredReader("sklearn", "sklearn_trees", "read_sklearn_trees"),
    RegisteredReader("sklearn", "sklearn_additive", "read_additive"),
    RegisteredReader("xgboost", "xgboost_models", "read_xgboost"),
    RegisteredReader("lightgbm", "lightgbm_models", "read_lightgbm"),
    RegisteredReader("catboost", "catboost_models", "read_catboost"),
    RegisteredReader("interpret", "interpret_models", "read_ebm"),
    RegisteredReader("pygam", "pygam_models", "read_gam"),
    RegisteredReader(f"{WRAPPERS}.handwritten_models", "handwritten_models", "read_handwritten_model"),
    RegisteredReader(f"{WRAPPERS}.onnx_models", "file_formats.onnx_trees", "read_onnx_model"),
    RegisteredReader(f"{WRAPPERS}.pmml_models", "file_formats.pmml_models", "read_pmml"),
)

OTHER_READERS: tuple[Callable[[Any, tuple[Any, ...], float | None], NormalForm | None], ...] = (
    RegisteredReader("sklearn", "sklearn_mlp", "read_mlp"),
    RegisteredReader(f"{WRAPPERS}.networks", "torch_networks", "read_torch"),
    RegisteredReader(f"{WRAPPERS}.networks", "onnx_networks", "read_onnx"),
)


def read_estimator(estimator: Any, desired: Any, threshold: float | None, direction: Direction = "above") -> NormalForm:
    """Read an estimator by the first reader that knows it; raises Unreadable if none does.

    Readers know what is above a threshold. A score is below a threshold where it is not above the largest double below
    it; where scores are in single precision, readers leave both to the model.
    """
    if direction == "below":
        require_readable(threshold is not None, "scores are below a threshold only where there is one")
        return read_estimator(estimator, desired, math.nextafter(float(threshold or 0.0), -math.inf)).negate()
    wanted = list_desired_labels(estimator, desired)
    normal_form: NormalForm | None = read_moved_threshold(estimator, wanted, threshold, read_estimator, read_tree_sum)
    if normal_form is None:
        normal_form = read_calibrated(estimator, wanted, threshold, read_tree_sum)
    if normal_form is None:
        normal_form = read_mixture(estimator, wanted, threshold, read_tree_sum)
    for reader in (*TREE_SUM_READERS, *OTHER_READERS):
        if normal_form is None:
            normal_form = reader(estimator, wanted, threshold)
    if normal_form is None:
        raise Unreadable(f"{type(estimator).__name__} is not one of the models that can be read")
    return normal_form


def get_input_conversion(estimator: Any) -> InputConversion:
    """What the estimator's library makes of tables of whole numbers and of sparse ones."""
    name = get_library_class_name(estimator, "sklearn")
    if name == "CalibratedClassifierCV":  # all folds are of one kind
        folds = estimator.calibrated_classifiers_
        return get_input_conversion(folds[0].estimator) if folds else DEFAULT_CONVERSION
    if is_threshold_wrapper(estimator):
        return get_input_conversion(get_wrapped_estimator(estimator))
    if name in ("VotingClassifier", "StackingClassifier"):
        conversions = {get_input_conversion(member) for member in getattr(estimator, "estimators_", ())}
        return next(iter(conversions)) if len(conversions) == 1 else InputConversion(members_differ=True)
    if name == "FrozenEstimator":
        return get_input_conversion(estimator.estimator)
    if get_library_class_name(estimator, "lightgbm"):
        return InputConversion(integers_as_float32=True)
    if get_library_class_name(estimator, "xgboost"):
        return InputConversion(unstored_is_missing=True)
    return DEFAULT_CONVERSION


def read_tree_sum(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The sum of trees of the first reader that knows the estimator."""
    tree_sums = (reader(estimator, desired, threshold) for reader in TREE_SUM_READERS)
    return next((tree_sum for tree_sum in tree_sums if tree_sum is not None), None)


def list_desired_labels(estimator: Any, desired: Any) -> tuple[Any, ...]:
    """The desired labels, checked where a classifier lists its classes; none for a regression with a threshold."""
    labels = list_labels(getattr(estimator, "classes_", ()))
    if labels:
        return resolve_desired_labels(desired, labels)
    return () if desired is None else as_labels(desired)
