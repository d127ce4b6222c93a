"""Models that fail on a table: what their libraries say becomes what was expected, what came, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from ironrule.errors import ModelError
from ironrule.model.decision import ask_model

ROWS = pd.DataFrame({"age": np.arange(60) % 30 + 20, "job": ["cook", "clerk", "judge"] * 20})
OLD = (ROWS["age"] > 30).astype(int)
CATEGORIES = ROWS.astype({"job": "category"})


def fit_lightgbm() -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(verbose=-1, n_estimators=2).fit(CATEGORIES, OLD)


def fit_xgboost() -> Any:
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBClassifier(n_estimators=2, enable_categorical=True).fit(CATEGORIES, OLD)


def fit_booster() -> Any:
    return fit_xgboost().get_booster()


def fit_catboost() -> Any:
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(iterations=2, verbose=0, cat_features=["job"], allow_writing_files=False)
    return model.fit(ROWS, OLD)


def fit_pipeline() -> Any:
    encoder = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    return make_pipeline(encoder, LogisticRegression()).fit(ROWS, OLD)


def fit_tree() -> Any:
    return DecisionTreeClassifier().fit(ROWS[["age"]].to_numpy(), OLD)


FAILURES: dict[str, tuple[Callable[[], Any], Any, str, str, str]] = {
    "LightGBM without its categories": (
        fit_lightgbm, ROWS, "model-categories", "must be categories now", "job (",
    ),
    "XGBoost with text": (fit_xgboost, ROWS, "model-categories", "numbers, truth values or categories", "job"),
    "XGBoost, another name": (
        fit_xgboost, CATEGORIES.rename(columns={"age": "AGE"}), "model-columns", "'age', 'job'", "'AGE', 'job'",
    ),
    "XGBoost, a column more": (fit_xgboost, CATEGORIES.assign(z=1), "model-columns", "'age', 'job'", "'z'"),
    "a Booster of XGBoost": (fit_booster, CATEGORIES, "model-input", "must take tables", "which takes a DMatrix"),
    "a pipeline with a new category": (
        fit_pipeline, ROWS.assign(job="mayor"), "model-unknown-category", "its encoder|it was fitted on", "mayor",
    ),
    "a pipeline without a column": (fit_pipeline, ROWS[["age"]], "model-columns", "all columns", "without 'job'"),
    "a pipeline with missing values": (
        fit_pipeline, ROWS.assign(age=np.nan), "model-missing-values", "no missing values", "some in the data",
    ),
    "a tree with a column more": (fit_tree, np.zeros((60, 2)), "model-columns", "its 1 columns", "2 columns"),
    "a tree with text": (fit_tree, ROWS[["job"]].to_numpy(), "model-text", "must be given numbers", "'cook'"),
    "CatBoost with broken numbers as categories": (
        fit_catboost, ROWS.assign(job=1.5), "model-categories", "whole numbers or text", "1.5",
    ),
    "CatBoost with text for a number": (fit_catboost, ROWS.assign(age="x"), "model-text", "must hold numbers", '"x"'),
    "CatBoost, another name": (
        fit_catboost, ROWS.rename(columns={"age": "AGE"}), "model-columns", "must be age", "AGE",
    ),
    "CatBoost without a column": (fit_catboost, ROWS[["age"]], "model-columns", "all columns", "1 of them"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_what_a_library_says_is_explained(case: str) -> None:
    fit, table, code, expected, got = FAILURES[case]
    model = fit()
    with pytest.raises(ModelError) as caught:
        ask_model(model.predict, table, len(table))
    error = caught.value
    assert error.code == code
    assert any(part in str(error.expected) for part in expected.split("|"))
    assert got in str(error.got)
    assert error.hint
    assert "the model said: " in str(error.got)  # what to search the web for
    assert "Stack trace" not in str(error)
    assert error.__cause__ is not None


def test_what_is_not_known_stays_as_the_model_said_it() -> None:
    def fail(_: Any) -> Any:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(ModelError, match="the model failed on a table of 60 rows: ZeroDivisionError: division by zero"):
        ask_model(fail, ROWS, 60)
