"""Random preparation of columns in front of an estimator, as users write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.fuzz.data import Column, Rng, Table


@dataclass(frozen=True, slots=True)
class Accepts:
    """What an estimator takes without preparation."""

    missing: bool = False
    text: bool = False
    positive: bool = False  # whole numbers from 0 alone, as counts of categories
    rising: bool = False  # mostly preparation that rises with the number, for whole intervals


def prepare(rng: Rng, table: Table, estimator: Any, accepts: Accepts) -> Any:
    """The estimator behind whatever its columns need, and now and then behind more than that."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    plain = all(_plain(column, accepts) for column in table.columns)
    if plain and rng.random() < 0.4:
        return estimator
    if plain and table.form != "polars" and rng.random() < 0.4:
        return Pipeline([("scale", _scaler(rng)), ("model", estimator)])
    parts = []
    for place, column in enumerate(table.columns):
        where = [place] if table.form == "numpy" else [column.name]
        parts.append((column.name, _steps(rng, column, accepts), where))
    return Pipeline([("columns", ColumnTransformer(parts, sparse_threshold=0.0)), ("model", estimator)])


def _plain(column: Column, accepts: Accepts) -> bool:
    if accepts.positive:
        return False
    if column.kind in ("text", "category"):
        return accepts.text and (accepts.missing or not column.missing)
    return accepts.missing or not column.missing


def _scaler(rng: Rng) -> Any:
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    kinds = (StandardScaler, MinMaxScaler, RobustScaler, MaxAbsScaler)
    return kinds[int(rng.integers(0, len(kinds)))]()


def _steps(rng: Rng, column: Column, accepts: Accepts) -> Any:
    """The preparation of one column: "passthrough", a transformer, or a pipeline of some."""
    from sklearn.pipeline import make_pipeline

    steps = list(_encoding(rng, column, accepts) if column.kind in ("text", "category") else ())
    if column.kind not in ("text", "category"):
        steps = list(_numbers(rng, column, accepts))
    if not steps:
        return "passthrough"
    return steps[0] if len(steps) == 1 else make_pipeline(*steps)


def _encoding(rng: Rng, column: Column, accepts: Accepts) -> list[Any]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder

    steps: list[Any] = []
    if column.missing and rng.random() < 0.6:
        kind = "most_frequent" if rng.random() < 0.5 else "constant"
        steps.append(SimpleImputer(strategy=kind, fill_value="none" if kind == "constant" else None))
    clean = bool(steps) or not column.missing
    if accepts.positive:
        return [*steps, OrdinalEncoder(encoded_missing_value=-1 if clean else 9)]
    draw = rng.random()
    if draw < 0.5:
        return [*steps, OneHotEncoder(handle_unknown="ignore", sparse_output=False)]
    if draw < 0.8 or not clean:
        return [*steps, OrdinalEncoder(encoded_missing_value=-1)]
    return [*steps, TargetEncoder(cv=2, random_state=0)]


def _numbers(rng: Rng, column: Column, accepts: Accepts) -> list[Any]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder

    steps: list[Any] = []
    if column.missing and (not accepts.missing or rng.random() < 0.5):
        kind = str(rng.choice(["mean", "median", "constant"]))
        steps.append(SimpleImputer(strategy=kind, fill_value=-1.5 if kind == "constant" else None))
    if accepts.positive:
        return [*steps, OrdinalEncoder()]
    draw, clean = rng.random(), bool(steps) or not column.missing
    if draw < 0.4 or column.kind == "bool":
        return steps
    if draw < 0.8 or not clean or (accepts.rising and draw < 0.93):  # encoded, a number keeps its values seen
        return [*steps, _scaler(rng)]
    if draw < 0.9 and len(column.domain) > 2 and not accepts.rising:
        encode = "ordinal" if rng.random() < 0.5 else "onehot-dense"
        return [
            *steps,
            KBinsDiscretizer(n_bins=2, encode=encode, strategy="uniform", subsample=None),
        ]
    return [*steps, OneHotEncoder(handle_unknown="ignore", sparse_output=False)]
