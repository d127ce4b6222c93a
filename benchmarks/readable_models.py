"""Models that explain well: how long rules are, and how many past rows they cover, beside how good the model is.

``python -m benchmarks.readable_models`` trains every model on seven tenths of the bundled German credit data (no other
data is needed), and explains rows of the rest that all of them deny, each to a minimum rule. As the costs that come
with these data say (a bad loan costs five times what a good one brings), a loan is approved if the model gives it a
probability above 5/6 of being good. AUC is the mean of a
ten-fold cross-validation on all rows. Lengths are those of proven rules; coverage is that of the rule with its bounds
as wide as proven, among all rows. XGBoost must be installed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from xgboost import XGBClassifier

from benchmarks.report import machine, parser, show, store
from ironrule import Explainer, Proven
from ironrule.data import load_german

ROWS, QUICK_ROWS = 36, 3
SECONDS = 20.0
THRESHOLD = 5 / 6
YEARS = ("unemployed", "... < 1 year", "1 <= ... < 4 years", "4 <= ... < 7 years", "... >= 7 years")
EMPLOYMENT = "present_employment_since"
DIRECTIONS = {  # 1: the more, the better
    "duration_in_month": -1,
    "credit_amount": -1,
    "installment_rate_in_percentage_of_disposable_income": -1,
    "age_in_years": 1,
    EMPLOYMENT: 1,
}
RARE = 30  # rows: categories with fewer are merged
CAPPED_SHARE = 0.02  # of rows, at either end


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model, the table that it was trained on a part of, and the name under which it is shown."""

    name: str
    pipeline: Pipeline
    table: pd.DataFrame


def read_table() -> tuple[pd.DataFrame, pd.Series[int]]:
    """The features, with the years of employment in their order, and 1 for good."""
    table, target = load_german()
    table[EMPLOYMENT] = pd.Categorical(table[EMPLOYMENT], categories=YEARS, ordered=True)
    return table, (target == "good").astype(int)


def cap_and_merge(table: pd.DataFrame) -> pd.DataFrame:
    """The table with numbers capped at both ends, and its rare categories merged into one."""
    prepared = table.copy()
    for name in table.columns:
        column = table[name]
        if pd.api.types.is_numeric_dtype(column):
            ends = column.quantile([CAPPED_SHARE, 1 - CAPPED_SHARE], interpolation="nearest")
            prepared[name] = column.clip(*ends)
        elif name != EMPLOYMENT:
            counts = column.value_counts()
            rare = counts.index[counts < RARE]
            prepared[name] = column.where(~column.isin(rare), "any other") if len(rare) > 1 else column
    return prepared


def build_pipeline(table: pd.DataFrame, model: Any, directions: Mapping[str, int] | None = None) -> Pipeline:
    """Numbers as they are, the ordered category by its place, the others one-hot encoded; then the model."""
    numbers = [name for name in table.columns if pd.api.types.is_numeric_dtype(table[name])]
    nominal = [name for name in table.columns if name not in (*numbers, EMPLOYMENT)]
    encoder = ColumnTransformer(
        [
            ("numbers", "passthrough", numbers),
            ("years", OrdinalEncoder(categories=[list(YEARS)]), [EMPLOYMENT]),
            ("nominal", OneHotEncoder(handle_unknown="ignore"), nominal),
        ],
        sparse_threshold=0.0,
    )
    if directions is not None:
        width = sum(table[name].nunique() for name in nominal)
        signs = [directions.get(name, 0) for name in (*numbers, EMPLOYMENT)] + [0] * width
        model = clone(model).set_params(monotone_constraints=tuple(signs))
    return make_pipeline(encoder, model)


def build_models(table: pd.DataFrame) -> list[TrainedModel]:
    """The models that are compared, not fitted yet."""
    deep = XGBClassifier(n_estimators=100, max_depth=6, learning_rate=0.1, n_jobs=1, random_state=0)
    shallow = clone(deep).set_params(max_depth=2)
    prepared = cap_and_merge(table)
    forest = RandomForestClassifier(100, n_jobs=1, random_state=0)
    leaves = clone(forest).set_params(min_samples_leaf=20)
    return [
        TrainedModel("XGBoost, depth 6", build_pipeline(table, deep), table),
        TrainedModel("XGBoost, depth 6, monotone", build_pipeline(table, deep, DIRECTIONS), table),
        TrainedModel("XGBoost, depth 2", build_pipeline(table, shallow), table),
        TrainedModel("XGBoost, depth 2, monotone", build_pipeline(table, shallow, DIRECTIONS), table),
        TrainedModel("the same, capped and merged", build_pipeline(prepared, shallow, DIRECTIONS), prepared),
        TrainedModel("forest, leaves of 1 row", build_pipeline(table, forest), table),
        TrainedModel("forest, leaves of 20 rows", build_pipeline(table, leaves), table),
    ]


def find_common_denied(models: list[TrainedModel], target: pd.Series[int], most: int) -> list[int]:
    """Fit every model on seven tenths of the rows, and list rows of the rest that all of them deny."""
    rows = np.arange(len(target))
    train, rest = train_test_split(rows, test_size=0.3, stratify=target, random_state=0)
    denied = np.ones(len(rest), dtype=np.bool_)
    for model in models:
        model.pipeline.fit(model.table.iloc[train], target.iloc[train])
        denied &= model.pipeline.predict_proba(model.table.iloc[rest])[:, 1] <= THRESHOLD
    common: list[int] = np.sort(rest[denied])[:most].tolist()
    return common


def measure(model: TrainedModel, target: pd.Series[int], rows: list[int], seconds: float) -> dict[str, Any]:
    """How good a model is, and what its explanations are like."""
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    auc = cross_val_score(clone(model.pipeline), model.table, target, cv=folds, scoring="roc_auc").mean()
    explainer = Explainer(model.pipeline, model.table, desired=1, threshold=THRESHOLD, progress=False)
    explainer.explain(rows[0], budget=seconds)  # compiles
    began = time.perf_counter()
    explanations = [explainer.explain(row, budget=seconds, progress=False) for row in rows]
    wall = time.perf_counter() - began
    proven = [one for one in explanations if isinstance(one.verdict, Proven)]
    return {
        "model": model.name,
        "AUC": round(float(auc), 3),
        "rows": len(rows),
        "proven": len(proven),
        "minimum": sum(one.minimum for one in explanations),
        "components": round(float(np.mean([one.cardinality for one in proven])), 2) if proven else None,
        "past rows covered": round(float(np.mean([one.shown.coverage for one in proven])), 1) if proven else None,
        "covers one row": sum(one.shown.coverage <= 1 for one in proven),
        "s per row": round(wall / len(rows), 2),
    }


def main() -> None:
    """Train, explain, print one table."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=ROWS, help="denied rows that every model explains")
    options.add_argument("--seconds", type=float, default=SECONDS, help="budget of every row")
    given = options.parse_args()
    table, target = read_table()
    models = build_models(table)
    rows = find_common_denied(models, target, QUICK_ROWS if given.quick else given.rows)
    figures = []
    for model in models:
        figures.append(measure(model, target, rows, given.seconds))
        print(figures[-1], flush=True)
    show(f"German credit, {len(rows)} rows that all models deny; {machine()['processor']}", figures)
    store(given.json, "readable_models", figures)


if __name__ == "__main__":
    main()
