"""Whole numbers that floating-point numbers cannot hold: libraries round them in several ways, so they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from catboost import CatBoostClassifier, CatBoostRegressor
from exhaustive_checks import measure_undecided_share
from lightgbm import LGBMClassifier, LGBMRegressor
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier, XGBRegressor

from ironrule import Budget, Explainer, Feature, ModelError, Proven, Space
from ironrule.model.model_input import InputConversion, compute_model_input, is_exact_in_float64
from ironrule.model.protocol import Unreadable

TIE = 2**60 + 2**37 + 2**36 - 1  # as float32 another number than as float32 of its float64
KINDS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(5, random_state=0),
    "forest regressor": lambda: RandomForestRegressor(5, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(5, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=3),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2),
    "xgboost": lambda: XGBClassifier(n_estimators=3),
    "xgboost regressor": lambda: XGBRegressor(n_estimators=3),
    "lightgbm": lambda: LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1),
    "lightgbm regressor": lambda: LGBMRegressor(n_estimators=3, min_child_samples=2, verbose=-1),
    "catboost": lambda: CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False),
    "catboost regressor": lambda: CatBoostRegressor(iterations=3, verbose=0, allow_writing_files=False),
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "ridge": Ridge,
    "network": lambda: MLPClassifier((2,), solver="lbfgs", max_iter=20, random_state=0, tol=1.0),
}
FORMS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "array": lambda a, b: np.stack([a, b.astype(a.dtype)], axis=1),
    "whole numbers": lambda a, b: pd.DataFrame({"x0": a, "x1": b.astype(a.dtype)}),
    "mixed": lambda a, b: pd.DataFrame({"x0": a, "x1": b.astype(float)}),
    "with singles": lambda a, b: pd.DataFrame({"x0": a, "x1": b.astype(np.float32)}),
}


def around(centre: int, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two columns, of numbers around a large one and of small ones, and labels."""
    rng = np.random.default_rng(0)
    first = centre + step * rng.integers(-3, 4, 120)
    second = rng.integers(0, 4, 120)
    return first, second, ((first > centre) ^ (second == 3)).astype(int)


def wanted(model: Any) -> dict[str, Any]:
    return {"desired": 1} if len(getattr(model, "classes_", ())) else {"threshold": 0.5}


def test_what_float64_holds_exactly() -> None:
    for number in (0, 2**53, -(2**53), 2**60, 2**63, 3 * 2**62, -(2**63), 2**100):
        assert is_exact_in_float64(number)
    for number in (2**53 + 1, -(2**53) - 1, TIE, 2**63 - 1, 2**64 - 1, 10**400):
        assert not is_exact_in_float64(number)


def test_a_tree_whose_float32_numbers_differ_is_not_proven_about() -> None:
    # Only the point with TIE and eight fives is approved, and the search is unlikely to meet it by chance. As float64,
    # and then float32, TIE is the larger number: read that way, nobody is approved, and everybody's denial is "proven".
    high = 2**60 + 2**38
    names = list("bcdefghi")
    rng = np.random.default_rng(0)
    usual = pd.DataFrame(rng.integers(0, 6, (300, 8)), columns=names)
    usual.insert(0, "a", rng.choice([TIE, high], 300))
    special = pd.DataFrame(5, index=range(60), columns=names)
    special.insert(0, "a", [TIE] * 30 + [high] * 30)
    near = [special.assign(**{name: value}) for name in names for value in range(5)]
    data = pd.concat([usual, special, *near], ignore_index=True)
    approved = (data[names] == 5).all(axis=1) & (data["a"] == TIE)
    model = DecisionTreeClassifier(random_state=0).fit(data, approved.astype(int))
    exception = special.head(1)
    assert model.predict(exception) == [1]

    explainer = Explainer(model, usual[~(usual[names] == 5).all(axis=1)], desired=1)
    explanation = explainer.explain(0, budget=Budget(seconds=10))
    assert not isinstance(explanation.verdict, Proven)
    assert "column 'a' holds whole numbers beyond 2**53" in str(explainer.unreadable_reason)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_that_float64_cannot_hold_are_refused_by_name(kind: str, form: str) -> None:
    first, second, labels = around(TIE, 1)
    data = FORMS[form](first, second)
    model = KINDS[kind]().fit(FORMS[form](first - TIE, second) if kind == "network" else data, labels)
    assert "column 'x0' holds whole numbers beyond 2**53" in str(
        Explainer(model, data, **wanted(model)).unreadable_reason
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("centre", [2**60, 2**63])
def test_large_numbers_that_float64_holds_are_read(centre: int, form: str) -> None:
    first, second, labels = around(0, 2**38)
    whole = np.array([centre + value for value in first.tolist()], dtype=np.uint64 if centre == 2**63 else np.int64)
    data = FORMS[form](whole, second)
    model = RandomForestClassifier(5, random_state=0).fit(data, labels)
    explainer = Explainer(model, data, desired=1)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0


@pytest.mark.parametrize("kind", ["lightgbm", "lightgbm regressor"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("centre", [2**24, 2**30, 2**40 + 3])
def test_lightgbm_takes_arrays_of_whole_numbers_as_float32(centre: int, form: str, kind: str) -> None:
    step = max(centre >> 24, 1)
    first, second, _ = around(centre, step)
    # a split next to a number that float32 rounds up
    labels = ((first > centre + 2 * step) ^ (second == 3)).astype(int)
    data = FORMS[form](first, second)
    model = KINDS[kind]().fit(data, labels)
    some = sorted({centre + place for place in range(-9, 10)} | set(first.tolist()))
    features = (Feature("x0", tuple(some), ordered=True), Feature("x1", (0, 1, 2, 3), ordered=True))
    explainer = Explainer(model, data, space=Space(features), **wanted(model))
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) <= 0.1
    points = np.array([(a, b) for a in some for b in range(4)])
    table = FORMS[form](points[:, 0], points[:, 1])
    own = np.asarray(model.predict(table)).ravel() > 0.5
    for point in points[~own][:4].tolist():
        explanation = explainer.explain(dict(zip(("x0", "x1"), point, strict=True)))
        assert isinstance(explanation.verdict, Proven)
        covered = explanation.rule.covers(pd.DataFrame({"x0": points[:, 0], "x1": points[:, 1]}))
        assert not (own & covered).any()


@pytest.mark.parametrize(
    "table",
    [
        np.array([[TIE], [1]]),
        np.array([[TIE], [1]], dtype=np.uint64),
        np.array([[TIE], [None]], dtype=object),
        csr_matrix(np.array([[TIE], [0]])),
        pd.DataFrame({"0": pd.array([TIE, None], "Int64")}),
        pd.DataFrame({"0": pd.Series([TIE, 1], dtype=object)}),
        pl.DataFrame({"0": [TIE, None]}),
        pa.table({"0": [TIE, None]}),
    ],
    ids=["integers", "unsigned", "objects", "sparse", "nullable pandas", "pandas objects", "polars", "arrow"],
)
def test_every_kind_of_table_is_looked_at(table: Any) -> None:
    with pytest.raises(Unreadable, match=r"column '0' holds whole numbers beyond 2\*\*53"):
        compute_model_input(None, table)


def test_preprocessing_may_take_large_numbers_but_not_hand_them_on() -> None:
    first, second, labels = around(TIE, 2**40)
    data = pd.DataFrame({"account": first, "b": second})
    scaled = make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)).fit(data, labels)
    assert Explainer(scaled, data, desired=1).unreadable_reason is None
    passed = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough", sparse_threshold=0)
    )
    passed.steps.append(("model", RandomForestClassifier(3, random_state=0)))
    passed.steps[0][1].set_params(onehotencoder__dtype=np.int64)
    passed.fit(data, labels)
    assert "column 'account' holds" in str(Explainer(passed, data, desired=1).unreadable_reason)


def test_whole_intervals_are_refused_beyond_what_float64_holds() -> None:
    first, second, labels = around(2**60, 2**38)
    data = pd.DataFrame({"a": first, "b": second})
    model = RandomForestClassifier(3, random_state=0).fit(data, labels)
    assert Explainer(model, data, desired=1).unreadable_reason is None
    with pytest.raises(ModelError, match="'a': it has whole numbers beyond"):
        Explainer(model, data, desired=1, domain="interval")


def test_what_a_sparse_matrix_leaves_out_is_missing_for_xgboost() -> None:
    matrix = csr_matrix(np.array([[1.0, 0.0], [0.0, 2.0]]))
    assert np.isnan(compute_model_input(None, matrix, InputConversion(unstored_is_missing=True))).tolist() == [
        [False, True],
        [True, False],
    ]
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"home": rng.choice(["rent", "own", "other"], 300), "n": rng.integers(0, 5, 300)})
    labels = ((data["home"] == "own") | (data["n"] > 2)) ^ (rng.random(300) < 0.1)
    prepare = make_column_transformer((OneHotEncoder(), ["home"]), remainder="passthrough", sparse_threshold=1.0)
    model = make_pipeline(prepare, XGBClassifier(n_estimators=5, max_depth=3)).fit(data, labels.astype(int))
    explainer = Explainer(model, data, desired=1)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
