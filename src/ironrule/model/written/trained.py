"""What scikit-learn and Ironrule expect of an estimator, for networks that were trained elsewhere.

A network answers a row of numbers with one or several outputs. With classes these are scores or probabilities:

- one output for two classes: a score decides by its sign for the second class, a probability by being above one half;
- one output per class: the largest wins, the first one in a tie.

Probabilities of scores are their logistic function or their softmax, computed in double precision. Without classes the
network is a regression, and its output is the prediction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ironrule.counting import counted
from ironrule.errors import InputError, ModelError
from ironrule.model.seen import as_matrix

Floats = npt.NDArray[np.float64]


class TrainedNetwork(ABC):
    """A network with the face of a fitted estimator; not frozen, because scikit-learn sets attributes of estimators."""

    classes: Sequence[Any] | None

    @property
    @abstractmethod
    def gives_probabilities(self) -> bool:
        """Whether the outputs are probabilities; scores otherwise."""

    @abstractmethod
    def run(self, rows: Floats) -> npt.NDArray[Any]:
        """The network's outputs for rows of numbers, in its own arithmetic."""

    def outputs(self, table: Any) -> Floats:
        """What the network answers, a row of outputs per row of the table, in double precision."""
        rows = np.array(as_matrix(table), dtype=np.float64)
        answers = np.asarray(self.run(rows), dtype=np.float64).reshape(len(rows), -1)
        if not np.isfinite(answers).all():
            wrong = int((~np.isfinite(answers)).any(axis=1).sum())
            raise ModelError(
                expected="the network's outputs must be finite",
                got=f"NaN or infinity for {wrong} of {counted(len(rows), 'row')}",
                hint="check its weights and its inputs",
            )
        return answers

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels."""
        if self.classes is None:
            raise AttributeError("a network without classes predicts numbers")
        return np.array(self.classes)

    @property
    def predict_proba(self) -> Callable[[Any], Floats]:
        """The probabilities of all classes, for a table."""
        if self.classes is None:
            raise AttributeError("a network without classes predicts numbers, not probabilities")
        return self._chances

    def _chances(self, table: Any) -> Floats:
        answers = self._fitting(self.outputs(table))
        if not self.gives_probabilities:
            return _of_one_score(answers[:, 0]) if answers.shape[1] == 1 else _softmax(answers)
        return np.hstack([1.0 - answers, answers]) if answers.shape[1] == 1 else answers

    def predict(self, table: Any) -> npt.NDArray[Any]:
        """The class of every row, or its number."""
        answers = self.outputs(table)
        if self.classes is None:
            return answers[:, 0] if answers.shape[1] == 1 else answers
        answers = self._fitting(answers)
        if answers.shape[1] > 1:
            return np.asarray(self.classes_[answers.argmax(axis=1)])
        second = answers[:, 0] > (0.5 if self.gives_probabilities else 0.0)
        return np.asarray(self.classes_[second.astype(np.intp)])

    def _fitting(self, answers: Floats) -> Floats:
        """The answers, if they are as many as the classes ask for."""
        count = 0 if self.classes is None else len(self.classes)
        if answers.shape[1] != count and not (answers.shape[1] == 1 and count == 2):
            raise InputError(
                expected="the network must have one output per class, or one for two classes",
                got=f"{counted(answers.shape[1], 'output')} for {count} classes",
                hint="pass classes=[...]",
                code="network-classes",
            )
        return answers

    def fit(self, table: Any, labels: Any = None) -> Self:  # noqa: ARG002  # scikit-learn calls it with both
        """The network itself: it is trained already. So a Pipeline that ends in it fits its other steps alone."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        classifies = self.classes is not None
        return Tags(
            estimator_type="classifier" if classifies else "regressor",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if classifies else None,
            regressor_tags=None if classifies else RegressorTags(),
            input_tags=InputTags(sparse=True),
            requires_fit=False,
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  # scikit-learn passes it
        """Nothing that a search could set: the network is as it is."""
        return {}


def check_classes(classes: Sequence[Any] | None) -> None:
    """Raise InputError unless these are at least two distinct labels, or None."""
    if classes is not None and (isinstance(classes, str) or len(classes) < 2 or len(set(classes)) < len(classes)):
        raise InputError(
            expected="classes must be at least two distinct labels in the order of the network's outputs, or None for "
            "a regression",
            got=repr(classes),
        )


def _of_one_score(scores: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.stack([1.0 / (1.0 + np.exp(scores)), 1.0 / (1.0 + np.exp(-scores))], axis=1)


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
