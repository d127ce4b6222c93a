"""A scikit-learn Pipeline taken apart: what prepares the user's table, and the model that sees the result.

Only transformers that work column by column are let through, by their class: that is what makes their result a table
over one feature's codes (see :mod:`ironrule.model.tabulate`, which also checks it on points).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.model.readers.library_class import library_name, require_own_methods
from ironrule.model.reading import Unreadable
from ironrule.space.feature import is_missing

COLUMN_BY_COLUMN = frozenset(
    (
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "Binarizer",
        "KBinsDiscretizer",
        "OneHotEncoder",
        "OrdinalEncoder",
        "TargetEncoder",
        "SimpleImputer",
        "MissingIndicator",
        "PowerTransformer",
        "QuantileTransformer",
        "SplineTransformer",
        "VarianceThreshold",
        "SelectKBest",
        "SelectPercentile",
        "SelectFpr",
        "SelectFdr",
        "SelectFwe",
        "GenericUnivariateSelect",
        "SelectFromModel",
        "SequentialFeatureSelector",
        "RFE",
        "RFECV",
    )
)
SEARCHES = frozenset(
    (
        "GridSearchCV",
        "RandomizedSearchCV",
        "HalvingGridSearchCV",
        "HalvingRandomSearchCV",
    )
)
THRESHOLDS = frozenset(
    (
        "FixedThresholdClassifier",
        "TunedThresholdClassifierCV",
    )
)
NOTHING = (None, "passthrough", "drop")
ENCODERS = frozenset(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"))
IMPUTERS = frozenset(("SimpleImputer", "MissingIndicator"))
RISING = frozenset(
    (
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "Binarizer",
        "VarianceThreshold",
    )
)
IMPUTERS = frozenset(("SimpleImputer", "MissingIndicator"))
WAVERING = frozenset(("PowerTransformer", "QuantileTransformer"))


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Fitted transformers, one after the other."""

    parts: tuple[Any, ...]

    def __call__(self, table: Any) -> Any:
        for part in self.parts:
            table = part.transform(table)
        return table


def split_steps(model: Any) -> tuple[Steps | None, Any]:
    """What prepares a table for the final estimator (None: nothing), and that estimator; raises Unreadable."""
    parts: list[Any] = []
    while True:
        name = library_name(model, "sklearn")
        if name in SEARCHES | {"FrozenEstimator", "Pipeline"}:
            require_own_methods(model, deep=False)
        if name in THRESHOLDS:
            raise Unreadable(
                f"a {name} moves the threshold of another model; pass that model and the threshold instead"
            )
        if name in SEARCHES and not hasattr(model, "best_estimator_"):
            raise Unreadable(f"the {name} keeps no best model (refit=False)")
        if name in SEARCHES:
            model = model.best_estimator_
        elif name == "FrozenEstimator":
            model = model.estimator
        elif name == "Pipeline":
            *before, (_, model) = model.steps
            for label, step in before:
                _require_columnwise(step, label)
            parts += [step for _, step in before if not _is_nothing(step)]
        else:
            break
    if _is_nothing(model):
        raise Unreadable("the last step of the Pipeline is not a model")
    return (Steps(tuple(parts)) if parts else None), model


def _is_nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step in NOTHING)


def _require_columnwise(step: Any, label: str) -> None:
    if _is_nothing(step):
        return
    name = library_name(step, "sklearn")
    if name in COLUMN_BY_COLUMN or name in INNER or name == "FunctionTransformer":
        require_own_methods(step, deep=name not in INNER)
    inner = INNER.get(name)
    if inner is not None:
        for part_label, part in inner(step):
            _require_columnwise(part, f"{label}.{part_label}")
    elif name == "FunctionTransformer":
        if not (step.func is None or (isinstance(step.func, np.ufunc) and step.func.nin == 1)):
            raise Unreadable(f"step {label!r} (FunctionTransformer) runs a function that may mix columns")
    elif name not in COLUMN_BY_COLUMN:
        raise Unreadable(f"step {label!r} ({type(step).__name__}) mixes columns, or may")


def require_monotone(steps: Steps | None) -> None:
    """Raise Unreadable unless every step lets its columns rise or fall all the way with the numbers that it gets."""
    for step in () if steps is None else steps.parts:
        _require_rising(step)


def _require_rising(step: Any) -> None:
    name = library_name(step, "sklearn")
    if name in INNER:
        for _, part in INNER[name](step):
            _require_rising(part)
    elif name in ENCODERS:
        if any(_is_number(kind) for kinds in step.categories_ for kind in np.asarray(kinds).tolist()):
            raise Unreadable(f"its {name} tells single numbers apart")
    elif name in IMPUTERS:
        if _is_number(step.missing_values):
            raise Unreadable(
                f"its {name} takes the single number {step.missing_values!r} for missing, so it tells that from its "
                f"neighbours; put NaN in its place in the data, or leave intervals out"
            )
    elif name in WAVERING:
        raise Unreadable(
            f"its {name} does not rise all the way: in floating-point numbers it falls between some neighbours; use a "
            f"StandardScaler, MinMaxScaler or RobustScaler, or leave intervals out"
        )
    elif name not in RISING and not _is_nothing(step) and not _passes(step):
        raise Unreadable(f"its {type(step).__name__} may tell single numbers apart")


def _is_number(value: Any) -> bool:
    """Whether a value is a number that a column of numbers can hold; NaN is none."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and not is_missing(value)


def _passes(step: Any) -> bool:
    """Whether a step hands on what it gets, as scikit-learn makes it of "passthrough"."""
    return library_name(step, "sklearn") == "FunctionTransformer" and step.func is None


def _of_pipeline(step: Any) -> Iterator[tuple[str, Any]]:
    yield from step.steps


def _of_union(step: Any) -> Iterator[tuple[str, Any]]:
    yield from step.transformer_list


def _of_columns(step: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, part) for name, part, _ in step.transformers_)


INNER: dict[str, Callable[[Any], Iterator[tuple[str, Any]]]] = {
    "Pipeline": _of_pipeline,
    "FeatureUnion": _of_union,
    "ColumnTransformer": _of_columns,
}
