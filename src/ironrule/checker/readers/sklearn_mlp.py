"""Second reading of scikit-learn's multi-layer perceptrons, from its source (``sklearn.neural_network``).

``predict`` and ``predict_proba`` go through ``_forward_pass_fast``: every hidden layer is ``activation(x W + b)``, the
last one ``out_activation_(x W + b)``. Two classes have one output, the logistic function of the score, and the second
class is predicted where it is above one half (``LabelBinarizer.inverse_transform``). Several classes have a softmax,
and the first of the largest is predicted. A regression gives the last sum, or its exponential with a Poisson loss.

What comes in is not cast by the estimator. NumPy multiplies in single precision only where rows and weights both are,
so with weights in single precision either precision is possible, and the coarser one is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.checker.readers import network_form
from ironrule.checker.readers.network_form import ActivationFunction, Layers, NetworkForm, NetworkLayer
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, SINGLE_ROUNDOFF, EstimatorTarget, NoReading
from ironrule.checker.readers.registry import identify_class

HIDDEN_ACTIVATIONS = ("identity", "relu", "tanh", "logistic")
INNER_METHODS = ("_predict", "_forward_pass_fast")  # those that predict and predict_proba call


def read_sklearn_mlp(estimator: Any, target: EstimatorTarget) -> NetworkForm | None:
    """Read an MLPClassifier or an MLPRegressor; None for anything else, NoReading for what has no reading."""
    name = identify_class("sklearn", estimator)
    if name not in ("MLPClassifier", "MLPRegressor"):
        return None
    replaced = [method for method in INNER_METHODS if method in vars(estimator)]
    if replaced:
        raise NoReading(f"the {replaced[0]} of this {name} was replaced")
    if not hasattr(estimator, "coefs_"):
        raise NoReading(f"a fitted {name} is expected, but this one is not fitted")
    layers, roundoff = _read_layers(estimator)
    if name == "MLPRegressor":
        return _read_regressor(estimator, layers, roundoff, target)
    return _read_classifier(estimator, layers, roundoff, target)


def _read_layers(estimator: Any) -> tuple[Layers, float]:
    """The layers, the last one without its activation, and the unit roundoff."""
    weights, biases = list(estimator.coefs_), list(estimator.intercepts_)
    if not len(weights) == len(biases) == estimator.n_layers_ - 1 > 0 or estimator.activation not in HIDDEN_ACTIVATIONS:
        raise NoReading("the perceptron's layers and its activation do not fit together")
    types = {np.asarray(array).dtype for array in (*weights, *biases)}
    if not types <= {np.dtype(np.float64), np.dtype(np.float32)}:
        raise NoReading(f"weights in single or double precision are expected, got {sorted(map(str, types))}")
    activations = [ActivationFunction(estimator.activation)] * (len(weights) - 1) + [ActivationFunction()]
    layers = tuple(
        NetworkLayer(np.asarray(one, np.float64), np.asarray(bias, np.float64), activation)
        for one, bias, activation in zip(weights, biases, activations, strict=True)
    )
    return layers, DOUBLE_ROUNDOFF if types == {np.dtype(np.float64)} else SINGLE_ROUNDOFF


def _read_regressor(estimator: Any, layers: Layers, roundoff: float, target: EstimatorTarget) -> NetworkForm:
    if len(layers[-1].bias) != 1 or target.threshold is None:
        raise NoReading("a regression must have one output and a threshold")
    match estimator.out_activation_:
        case "identity":
            return network_form.decide_number(layers, target.threshold, roundoff)
        case "exp":
            return network_form.decide_exponential(layers, target.threshold, roundoff)
        case other:
            raise NoReading(f"the output of an MLPRegressor must be 'identity' or 'exp', got {other!r}")


def _read_classifier(estimator: Any, layers: Layers, roundoff: float, target: EstimatorTarget) -> NetworkForm:
    labels = estimator._label_binarizer
    if identify_class("sklearn", labels) != "LabelBinarizer" or "inverse_transform" in vars(labels):
        raise NoReading("the perceptron's labels are decoded by something that is not scikit-learn's own")
    outputs, classes = len(layers[-1].bias), len(estimator.classes_)
    if estimator.n_outputs_ != outputs or not np.array_equal(labels.classes_, estimator.classes_):
        raise NoReading("the perceptron's outputs, its classes and those of its label binarizer do not fit together")
    match labels.y_type_, estimator.out_activation_:
        case "binary", "logistic" if outputs == 1 and classes == 2 and labels.pos_label + labels.neg_label == 1:
            return network_form.decide_logistic(layers, target, roundoff, roundoff)
        case "multiclass", "softmax" if outputs == classes > 1:
            return network_form.decide_softmax(layers, target, roundoff, roundoff)
        case kind, output:
            raise NoReading(f"two or more classes, one for every row, are expected, got {kind} targets with {output}")
