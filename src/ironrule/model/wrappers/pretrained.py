"""What estimators around a file or a module have in common: the model is already trained.

A :class:`PretrainedModel` has the methods that scikit-learn expects of an estimator, and nothing in it can be fitted or
searched. Where a file does more than its last step, the steps before it are a :class:`ModelPreparation`: they are run
as they are, column by column, like the transformers of a ``Pipeline``, and what is read is the last step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from ironrule.arrays import AnyArray
from ironrule.errors import InputError, describe_value


class PretrainedModel(ABC):
    """An estimator that was trained elsewhere."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_classifier(self) -> bool:
        """Whether it answers labels; numbers otherwise."""

    @abstractmethod
    def predict(self, table: Any) -> AnyArray:
        """The class of every row, or its number."""

    def fit(self, table: Any, labels: Any = None) -> Self:  # noqa: ARG002  # scikit-learn calls it with both
        """The model itself: it is trained already. So a Pipeline that ends in it fits its other steps alone."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier" if self.is_classifier else "regressor",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if self.is_classifier else None,
            regressor_tags=None if self.is_classifier else RegressorTags(),
            input_tags=InputTags(sparse=True),
            requires_fit=False,
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  # scikit-learn passes it
        """Nothing that a search could set: the model is as it is."""
        return {}


class ModelPreparation(ABC):
    """The steps of a file that come before the one that is read: a table in, the columns of that step out."""

    __slots__ = ()
    runs_user_function: ClassVar[bool] = False

    @abstractmethod
    def transform(self, table: Any) -> AnyArray:
        """What the last step sees of a table, a row per row."""

    @abstractmethod
    def find_unordered(self, width: int) -> dict[int, str]:
        """The columns of a table of this width, by position, that may not rise or fall all the way, with the reason."""


class ModelWithPreparation(PretrainedModel):
    """A model whose file may have steps before its last one."""

    __slots__ = ()

    @property
    @abstractmethod
    def preparation(self) -> ModelPreparation | None:
        """The steps before the last one; None if there are none."""

    @property
    @abstractmethod
    def final(self) -> Any:
        """The last step alone, an estimator on what the preparation gives; the model itself without a preparation."""


def require_distinct_classes(classes: Sequence[Any] | None) -> None:
    """Raise InputError unless these are at least two distinct labels, or None."""
    if classes is not None and (isinstance(classes, str) or len(classes) < 2 or len(set(classes)) < len(classes)):
        raise InputError(
            expected="classes must be at least two distinct labels in the order of the network's outputs, or None for "
            "a regression",
            got=describe_value(classes),
        )


def require_model_path(source: Any, what: str) -> Path:
    """The path of a model file; raises InputError unless it is there."""
    try:
        path = Path(source)
        found = path.is_file()
    except (TypeError, ValueError):  # no path, or one that no file can have
        found = False
    if not found:
        rule = f"{what} must be given by the path of a file, or by its bytes"
        raise InputError(expected=rule, got=describe_value(source), hint="check the path", code="file-not-found")
    return path
