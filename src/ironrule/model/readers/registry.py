"""The registry of readers: which one reads an estimator.

A new reader is one new file and one line in :data:`TREE_SUM_READERS`, or in :data:`NETWORK_READERS`. A reader gets a
fitted estimator, the desired labels and the threshold (None: the estimator's own decision), and gives a
:class:`~ironrule.model.normal_form.tree_sum.TreeSum` or a :class:`~ironrule.model.normal_form.network.Network` over
the columns that the estimator sees, raises :class:`~ironrule.model.protocol.Unreadable` with a reason for the user,
or says by None that the estimator is not one of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ironrule.model.decision import as_labels, list_labels, resolve_desired_labels
from ironrule.model.model_input import DEFAULT_CONVERSION, InputConversion
from ironrule.model.normal_form.network import Network
from ironrule.model.normal_form.tree_sum import Reader, TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.catboost_models import read_catboost
from ironrule.model.readers.handwritten_models import read_handwritten_model
from ironrule.model.readers.interpret_models import read_ebm
from ironrule.model.readers.library_class import get_library_class_name
from ironrule.model.readers.lightgbm_models import read_lightgbm
from ironrule.model.readers.onnx_networks import read_onnx
from ironrule.model.readers.pygam_models import read_gam
from ironrule.model.readers.sklearn_additive import read_additive
from ironrule.model.readers.sklearn_calibrated import read_calibrated
from ironrule.model.readers.sklearn_mlp import read_mlp
from ironrule.model.readers.sklearn_trees import read_sklearn_trees
from ironrule.model.readers.torch_networks import read_torch
from ironrule.model.readers.xgboost_models import read_xgboost

TREE_SUM_READERS: tuple[Reader, ...] = (
    read_sklearn_trees,
    read_additive,
    read_xgboost,
    read_lightgbm,
    read_catboost,
    read_ebm,
    read_gam,
    read_handwritten_model,
)

NETWORK_READERS: tuple[Callable[[Any, tuple[Any, ...], float | None], Network | None], ...] = (
    read_mlp,
    read_torch,
    read_onnx,
)


def read_estimator(estimator: Any, desired: Any, threshold: float | None) -> TreeSum | Network:
    """Read an estimator by the first reader that knows it; raises Unreadable if none does."""
    wanted = list_desired_labels(estimator, desired)
    calibrated = read_calibrated(estimator, wanted, threshold, read_tree_sum)
    tree_sum = calibrated if calibrated is not None else read_tree_sum(estimator, wanted, threshold)
    found = tree_sum if tree_sum is not None else read_network(estimator, wanted, threshold)
    if found is None:
        raise Unreadable(f"{type(estimator).__name__} is not one of the models that can be read")
    return found


def get_input_conversion(estimator: Any) -> InputConversion:
    """What the estimator's library makes of tables of whole numbers and of sparse ones."""
    if get_library_class_name(estimator, "sklearn") == "CalibratedClassifierCV":
        return next(
            (get_input_conversion(one.estimator) for one in estimator.calibrated_classifiers_), DEFAULT_CONVERSION
        )
    if get_library_class_name(estimator, "sklearn") == "FrozenEstimator":
        return get_input_conversion(estimator.estimator)
    if get_library_class_name(estimator, "lightgbm"):
        return InputConversion(integers_as_float32=True)
    return (
        InputConversion(unstored_is_missing=True)
        if get_library_class_name(estimator, "xgboost")
        else DEFAULT_CONVERSION
    )


def read_tree_sum(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The sum of trees of the first reader that knows the estimator."""
    return next(
        (found for reader in TREE_SUM_READERS if (found := reader(estimator, desired, threshold)) is not None), None
    )


def read_network(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Network | None:
    """The network of the first reader that knows the estimator."""
    networks = (reader(estimator, desired, threshold) for reader in NETWORK_READERS)
    return next((found for found in networks if found is not None), None)


def list_desired_labels(estimator: Any, desired: Any) -> tuple[Any, ...]:
    """The desired labels, checked where a classifier lists its classes; none for a regression with a threshold."""
    labels = list_labels(getattr(estimator, "classes_", ()))
    if labels:
        return resolve_desired_labels(desired, labels)
    return () if desired is None else as_labels(desired)
