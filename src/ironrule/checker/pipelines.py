"""A scikit-learn pipeline taken apart: the steps that prepare the user's table, and the estimator that sees the result.

Only transformers that work column by column are let through, by their exact class: that makes what they give a table
over one feature's codes (:mod:`ironrule.checker.columns`, which also checks it). For claims about whole intervals they
must moreover rise or fall all the way with a number, in floating point: a sum, a difference, a product or a quotient
with one constant does, since a correctly rounded operation never changes the order of two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.checker.readings.library_class import name_in
from ironrule.checker.readings.normal_form import Unreadable

SELECTORS = frozenset(
    (
        "VarianceThreshold", "SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe",
        "GenericUnivariateSelect", "SelectFromModel", "SequentialFeatureSelector", "RFE", "RFECV",
    )
)  # fmt: skip
MONOTONE = frozenset(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Binarizer"))
IMPUTERS = frozenset(("SimpleImputer", "MissingIndicator"))
ENCODERS = frozenset(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"))
COLUMNWISE = SELECTORS | MONOTONE | ENCODERS | IMPUTERS | frozenset(
    ("KBinsDiscretizer", "PowerTransformer", "QuantileTransformer", "SplineTransformer")
)  # fmt: skip
SEARCHES = frozenset(("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV"))


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """Fitted transformers, one after the other."""

    steps: tuple[Any, ...]

    def __call__(self, table: Any) -> Any:
        for step in self.steps:
            table = step.transform(table)
        return table

    def require_monotone(self) -> None:
        """Raise Unreadable unless every step lets its columns rise or fall all the way with the numbers it gets."""
        for step in self.steps:
            _require_monotone(step)


def take_apart(model: Any) -> tuple[Preparation, Any]:
    """What prepares a table for the final estimator, and that estimator; raises Unreadable."""
    steps: list[Any] = []
    while True:
        name = name_in("sklearn", model)
        if name in SEARCHES:
            if not hasattr(model, "best_estimator_"):
                raise Unreadable(f"the {name} keeps no best model (refit=False)")
            model = model.best_estimator_
        elif name == "FrozenEstimator":
            model = model.estimator
        elif name == "Pipeline":
            *before, (_, model) = model.steps
            for _, step in before:
                _require_columnwise(step)
            steps += [step for _, step in before if not _does_nothing(step)]
        else:
            return Preparation(tuple(steps)), model


def _does_nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step in ("passthrough", "drop"))


def _require_columnwise(step: Any) -> None:
    if _does_nothing(step):
        return
    name = name_in("sklearn", step)
    if name in INNER:
        for part in INNER[name](step):
            _require_columnwise(part)
    elif name == "FunctionTransformer":
        if not (step.func is None or (isinstance(step.func, np.ufunc) and step.func.nin == 1)):
            raise Unreadable("a FunctionTransformer runs a function that may mix columns")
    elif name not in COLUMNWISE:
        raise Unreadable(f"the step {type(step).__name__} mixes columns, or may")


def _require_monotone(step: Any) -> None:
    if _does_nothing(step):
        return
    name = name_in("sklearn", step)
    if name in INNER:
        for part in INNER[name](step):
            _require_monotone(part)
    elif name in ENCODERS:
        categories = [one for kinds in step.categories_ for one in np.asarray(kinds).tolist()]
        if any(isinstance(one, (int, float)) and one == one for one in categories):
            raise Unreadable(f"a {name} tells single numbers apart")
    elif name in IMPUTERS:
        if not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
            raise Unreadable(f"a {name} for a value other than NaN tells single numbers apart")
    elif not (name in MONOTONE | {"VarianceThreshold"} or (name == "FunctionTransformer" and step.func is None)):
        raise Unreadable(
            f"a {type(step).__name__} may fall between two neighbouring numbers, or tell single ones apart"
        )


def _parts_of_pipeline(step: Any) -> Iterator[Any]:
    yield from (part for _, part in step.steps)


def _parts_of_union(step: Any) -> Iterator[Any]:
    yield from (part for _, part in step.transformer_list)


def _parts_of_columns(step: Any) -> Iterator[Any]:
    yield from (part for _, part, _ in step.transformers_)


INNER: dict[str, Callable[[Any], Iterator[Any]]] = {
    "Pipeline": _parts_of_pipeline,
    "FeatureUnion": _parts_of_union,
    "ColumnTransformer": _parts_of_columns,
}
