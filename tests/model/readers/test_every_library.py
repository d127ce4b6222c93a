"""Models of every library through the explainer, on spaces so small that every point can be looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from exhaustive_checks import assert_shortest, measure_undecided_share
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from ironrule import Explainer

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")

Make = Callable[..., Any]
XGB = {"n_estimators": 6, "max_depth": 2, "n_jobs": 1, "random_state": 0}
LGB = {"n_estimators": 6, "num_leaves": 4, "min_child_samples": 3, "min_data_per_group": 3, "n_jobs": 1, "verbose": -1}
CB = {"iterations": 6, "depth": 2, "thread_count": 1, "verbose": 0, "random_seed": 0, "allow_writing_files": False}
HIST = {"max_iter": 6, "max_leaf_nodes": 4, "min_samples_leaf": 3, "random_state": 0}


def rows(seed: int, missing: bool, count: int = 160) -> tuple[pd.DataFrame, np.ndarray]:
    """Three numbers of few values each, some missing, and a score that depends on all of them."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.choice([100.5, 200.25, 0.1, -0.0, 1e-36], count),
            "accounts": rng.integers(0, 4, count).astype(float),
            "age": rng.choice([18.0, 30.0, 16777217.0], count),
        }
    )
    score = table["income"] / 100 - table["accounts"] + (table["age"] > 20) + rng.normal(0, 0.6, count)
    if missing:
        table = table.mask(rng.random(table.shape) < 0.15)
    return table, score.to_numpy()


REGRESSORS: dict[str, Make] = {
    "tree": lambda: DecisionTreeRegressor(max_depth=3, random_state=0),
    "forest": lambda: RandomForestRegressor(4, max_depth=3, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(4, max_depth=3, random_state=0),
    "gradient boosting": lambda: GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingRegressor(**HIST),
    "least squares": LinearRegression,
    "ridge": Ridge,
    "xgboost": lambda: xgb.XGBRegressor(**XGB),
    "xgboost dart": lambda: xgb.XGBRegressor(**XGB, booster="dart", rate_drop=0.3),
    "xgboost forest": lambda: xgb.XGBRFRegressor(**XGB),
    "lightgbm": lambda: lgb.LGBMRegressor(**LGB),
    "lightgbm dart": lambda: lgb.LGBMRegressor(**LGB, boosting_type="dart", drop_rate=0.5),
    "lightgbm forest": lambda: lgb.LGBMRegressor(**LGB, boosting_type="rf", bagging_freq=1, bagging_fraction=0.6),
    "catboost": lambda: cb.CatBoostRegressor(**CB),
}
CLASSIFIERS: dict[str, Make] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(4, max_depth=3, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingClassifier(**HIST),
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "xgboost": lambda: xgb.XGBClassifier(**XGB),
    "xgboost dart": lambda: xgb.XGBClassifier(**XGB, booster="dart", rate_drop=0.3),
    "lightgbm": lambda: lgb.LGBMClassifier(**LGB),
    "lightgbm dart": lambda: lgb.LGBMClassifier(**LGB, boosting_type="dart", drop_rate=0.5),
    "catboost": lambda: cb.CatBoostClassifier(**CB),
}
WITHOUT_MISSING = ("least squares", "ridge", "logistic", "gradient boosting")


@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_regressor_is_read_against_its_threshold(kind: str) -> None:
    table, score = rows(0, missing=kind not in WITHOUT_MISSING)
    model = REGRESSORS[kind]().fit(table, score)
    predicted = np.sort(np.asarray(model.predict(table), dtype=np.float64))
    for threshold in (0.123, float(predicted[len(predicted) // 2])):  # the second is a prediction, and so a tie
        explainer = Explainer(model, table, threshold=threshold, domain="auto" if threshold == 0.123 else "seen")
        assert explainer.unreadable_reason is None
        assert measure_undecided_share(explainer) < (0.01 if threshold == 0.123 else 0.5)
        assert_shortest(explainer, rows=2)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_classifier_of_several_classes_is_read(kind: str) -> None:
    table, score = rows(1, missing=kind not in WITHOUT_MISSING)
    if kind == "logistic":
        table["age"] = table["age"].clip(upper=40)
    model = CLASSIFIERS[kind]().fit(table, np.digitize(score, [-1.5, 0.5]))
    for desired in (2, [0, 1]):
        explainer = Explainer(model, table, desired=desired)
        assert explainer.unreadable_reason is None
        measure_undecided_share(explainer)
        assert_shortest(explainer, rows=2)


def with_categories(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    table, _ = rows(seed, missing=True)
    home = rng.choice(np.array(["own", "rent", "free", "lodge"], dtype=object), len(table))
    y = (np.isin(home, ["own", "lodge"]) ^ (table["accounts"] > 1)).to_numpy().astype(int)
    home[rng.random(len(table)) < 0.1] = None
    levels = ["rent", "own", "free", "lodge", "never"]
    return table.drop(columns="age").assign(home=pd.Categorical(home, categories=levels)), y


CATEGORICAL: dict[str, Make] = {
    "xgboost": lambda: xgb.XGBClassifier(**XGB, enable_categorical=True, max_cat_to_onehot=1),
    "xgboost one-hot": lambda: xgb.XGBClassifier(**XGB, enable_categorical=True, max_cat_to_onehot=9),
    "lightgbm": lambda: lgb.LGBMClassifier(**LGB, cat_smooth=1),
    "histogram boosting": lambda: HistGradientBoostingClassifier(**HIST, categorical_features="from_dtype"),
}


@pytest.mark.parametrize("kind", CATEGORICAL)
def test_splits_on_categories_are_read_missing_and_never_seen_ones_too(kind: str) -> None:
    table, y = with_categories(0)
    explainer = Explainer(CATEGORICAL[kind]().fit(table, y), table, desired=1)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
    assert_shortest(explainer)


def test_catboost_splits_on_categories_are_read() -> None:
    table, y = with_categories(0)
    table["home"] = table["home"].astype(object).where(table["home"].notna(), "unknown")
    model = cb.CatBoostClassifier(**CB, cat_features=["home"], one_hot_max_size=9).fit(table, y)
    explainer = Explainer(model, table, desired=1)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
    assert_shortest(explainer)
