"""Multi-layer perceptrons of scikit-learn: MLPClassifier and MLPRegressor.

With two classes there is one output, and the second class is predicted where its logistic function is above one half;
with more, the largest of a softmax wins, the first one in a tie. The probability of the first of two classes is one
less that of the second. How the rounding of all this is bounded is in :mod:`ironrule.model.readers.network_steps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.model.decision import list_labels
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF, SINGLE_ROUNDOFF, Activation, Network
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods, require_same_labels
from ironrule.model.readers.network_steps import LibraryNetwork, OutputKind, Step, make_dense, read_outputs

OUTPUT_KINDS = {
    "logistic": OutputKind.LOGISTIC,
    "softmax": OutputKind.SOFTMAX,
    "identity": OutputKind.SCORES,
    "exp": OutputKind.EXPONENTIAL,
}
ACTIVATIONS = {
    "identity": Activation("identity"),
    "relu": Activation("relu"),
    "tanh": Activation("tanh"),
    "logistic": Activation("logistic"),
}
ROUNDOFFS = {np.dtype(np.float32): SINGLE_ROUNDOFF, np.dtype(np.float64): DOUBLE_ROUNDOFF}


def read_mlp(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Network | None:
    """The normal form of a multi-layer perceptron of scikit-learn; None for anything else.

    >>> from sklearn.neural_network import MLPClassifier
    >>> model = MLPClassifier((2,), solver="lbfgs", random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> (read_mlp(model, (1,), None).margins(np.array([[0.5], [2.5]]))[0] > 0).tolist()
    [False, True]
    """
    name = get_library_class_name(estimator, "sklearn")
    if name not in ("MLPClassifier", "MLPRegressor"):
        return None
    require_own_methods(estimator)
    require_readable(hasattr(estimator, "coefs_"), f"the {name} is not fitted")
    if getattr(getattr(estimator, "_label_binarizer", None), "y_type_", "").startswith("multilabel"):
        raise Unreadable("the network gives several labels at once")
    if name == "MLPClassifier":
        require_same_labels(estimator.classes_, estimator._label_binarizer.classes_)
    classes = list_labels(estimator.classes_) if name == "MLPClassifier" else None
    network = LibraryNetwork(_list_steps(estimator), OUTPUT_KINDS[estimator.out_activation_], _find_roundoff(estimator))
    return read_outputs(network, classes, desired, threshold)


def _list_steps(estimator: Any) -> tuple[Step, ...]:
    steps: list[Step] = []
    for weights, bias in zip(estimator.coefs_, estimator.intercepts_, strict=True):
        steps += [make_dense(weights, bias), ACTIVATIONS[estimator.activation]]
    return tuple(steps[:-1])


def _find_roundoff(estimator: Any) -> float:
    """The unit of the least precise weights: the model computes in it if its input comes in it too."""
    kinds = {np.asarray(part).dtype for part in (*estimator.coefs_, *estimator.intercepts_)}
    if not kinds <= set(ROUNDOFFS):
        raise Unreadable(f"its weights must be float32 or float64, got {', '.join(sorted(map(str, kinds)))}")
    return max(ROUNDOFFS[kind] for kind in kinds)
