"""Adapters: how the models of each library are read.

A new adapter is one new file and one line in :data:`READERS`, or in :data:`NETWORK_READERS`. A reader gets a fitted
estimator, the desired labels and the threshold (None: the estimator's own decision), and gives a
:class:`~ironrule.model.reading.Reading` or a :class:`~ironrule.model.network.Network` over the columns that the
estimator sees, raises :class:`~ironrule.model.reading.Unreadable` with a reason for the user, or says by None that the
estimator is not one of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ironrule.model.decision import as_labels, wanted_among
from ironrule.model.network import Network
from ironrule.model.readers.additive import read_additive
from ironrule.model.readers.calibrated import read_calibrated
from ironrule.model.readers.catboost_models import read_catboost
from ironrule.model.readers.ebm import read_ebm
from ironrule.model.readers.gam import read_gam
from ironrule.model.readers.lgbm import read_lightgbm
from ironrule.model.readers.library_class import library_name
from ironrule.model.readers.mlp import read_mlp
from ironrule.model.readers.onnx_models import read_onnx
from ironrule.model.readers.sklearn_trees import read_sklearn_trees
from ironrule.model.readers.torch_models import read_torch
from ironrule.model.readers.written import read_written
from ironrule.model.readers.xgb import read_xgboost
from ironrule.model.reading import Reader, Reading, Unreadable
from ironrule.model.seen import PLAIN, Intake
from ironrule.space.table import as_python

READERS: tuple[Reader, ...] = (
    read_sklearn_trees,
    read_additive,
    read_xgboost,
    read_lightgbm,
    read_catboost,
    read_ebm,
    read_gam,
    read_written,
)
NETWORK_READERS: tuple[Callable[[Any, tuple[Any, ...], float | None], Network | None], ...] = (
    read_mlp,
    read_torch,
    read_onnx,
)


def read(estimator: Any, desired: Any, threshold: float | None) -> Reading | Network:
    """Read an estimator by the first reader that knows it; raises Unreadable if none does."""
    wanted = wanted_labels(estimator, desired)
    calibrated = read_calibrated(estimator, wanted, threshold, read_one)
    reading = calibrated if calibrated is not None else read_one(estimator, wanted, threshold)
    found = reading if reading is not None else read_network(estimator, wanted, threshold)
    if found is None:
        raise Unreadable(f"{type(estimator).__name__} is not one of the models that can be read")
    return found


def intake_of(estimator: Any) -> Intake:
    """What the estimator's library makes of tables of whole numbers and of sparse ones."""
    if library_name(estimator, "sklearn") == "CalibratedClassifierCV":
        return next((intake_of(one.estimator) for one in estimator.calibrated_classifiers_), PLAIN)
    if library_name(estimator, "sklearn") == "FrozenEstimator":
        return intake_of(estimator.estimator)
    if library_name(estimator, "lightgbm"):
        return Intake(single_integers=True)
    return Intake(absent_is_missing=True) if library_name(estimator, "xgboost") else PLAIN


def read_one(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Reading | None:
    """The reading of the first reader that knows the estimator."""
    return next((found for reader in READERS if (found := reader(estimator, desired, threshold)) is not None), None)


def read_network(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Network | None:
    """The network of the first reader that knows the estimator."""
    readings = (reader(estimator, desired, threshold) for reader in NETWORK_READERS)
    return next((found for found in readings if found is not None), None)


def wanted_labels(estimator: Any, desired: Any) -> tuple[Any, ...]:
    """The desired labels, checked where a classifier lists its classes; none for a regression with a threshold."""
    labels = [as_python(label) for label in np.asarray(getattr(estimator, "classes_", ())).ravel()]
    if labels:
        return wanted_among(desired, labels)
    return () if desired is None else as_labels(desired)
