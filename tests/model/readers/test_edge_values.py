"""The edges of models: thresholds and their neighbours, zeros, missing and unseen values, models of next to nothing.

Every space is so small that the model is asked about all of its points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from exhaustive_checks import assert_shortest, get_compiled_model, measure_undecided_share
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from ironrule import Explainer, Feature, ModelError, OutcomeError, Space
from ironrule.model.readers.registry import read_estimator

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")

XGB = {"n_estimators": 5, "max_depth": 2, "n_jobs": 1, "random_state": 0}
LGB = {"n_estimators": 5, "num_leaves": 4, "min_child_samples": 3, "min_data_per_group": 3, "n_jobs": 1, "verbose": -1}
CB = {"iterations": 5, "depth": 2, "thread_count": 1, "verbose": 0, "random_seed": 0, "allow_writing_files": False}
HIST = {"max_iter": 5, "max_leaf_nodes": 4, "min_samples_leaf": 3, "random_state": 0}
KINDS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(5, max_depth=3, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingClassifier(**HIST),
    "xgboost": lambda: xgb.XGBClassifier(**XGB),
    "lightgbm": lambda: lgb.LGBMClassifier(**LGB),
    "lightgbm, zero is missing": lambda: lgb.LGBMClassifier(**LGB, zero_as_missing=True),
    "catboost": lambda: cb.CatBoostClassifier(**CB),
    "catboost, missing is high": lambda: cb.CatBoostClassifier(**CB, nan_mode="Max"),
}
SETTLED = ("tree", "histogram boosting")


def data(seed: int, holes: float = 0.15, rows: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    """Two columns of hard numbers, some of them missing."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.choice([0.0, 0.1, 0.3, -0.2, 7.0], rows)})
    y = (table["a"] + table["b"] * np.sign(table["a"]) + rng.normal(0, 0.4, rows) > 0.2).to_numpy().astype(int)
    return table.mask(rng.random(table.shape) < holes), y


def cuts(model: Any, column: int) -> list[float]:
    """Some thresholds that a model compares a column with."""
    trees = [tree for m in read_estimator(model, 1, None).alternatives[0] for group in m.groups for tree in group.trees]
    splits = [split for tree in trees for split in tree.splits if split is not None and split.column == column]
    found = {float(getattr(split, "threshold", getattr(split, "border", math.nan))) for split in splits}
    return sorted(cut for cut in found if math.isfinite(cut))[:3]


def around(values: list[float]) -> list[float]:
    """The values, their neighbours as doubles and as singles, and what lies between singles."""
    near: set[float] = set()
    for value in values:
        single = np.float32(value)
        with np.errstate(over="ignore"):  # CatBoost has a threshold at the largest single
            sides = [float(np.nextafter(single, np.float32(side))) for side in (-np.inf, np.inf)]
        doubles = [float(np.nextafter(value, side)) for side in (-math.inf, math.inf)]
        near |= {value, float(single), *sides, *doubles, (value + sides[0]) / 2, (value + sides[1]) / 2}
    return sorted(value for value in near if math.isfinite(value))


def over(columns: dict[str, list[float]], missing: bool = True, seed: int = 0) -> tuple[Space, pd.DataFrame]:
    """A space with these values, and a history of random rows of it."""
    rng = np.random.default_rng(seed)
    features = [Feature(name, tuple(values), ordered=True, missing=missing) for name, values in columns.items()]
    absent = [np.nan] if missing else []
    table = pd.DataFrame({name: rng.choice([*values, *absent], 60) for name, values in columns.items()})
    return Space(tuple(features)), table


@pytest.mark.parametrize("kind", KINDS)
def test_values_on_thresholds_and_next_to_them_are_decided_as_the_model_does(kind: str) -> None:
    train, y = data(0)
    model = KINDS[kind]().fit(train, y)
    space, table = over({"a": around(cuts(model, 0)), "b": around(cuts(model, 1))})
    explainer = Explainer(model, table, desired=1, space=space)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) <= (0.0 if kind in SETTLED else 0.1)
    assert_shortest(explainer, rows=2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_of_both_signs_and_numbers_next_to_them_are_decided_as_the_model_does(kind: str, zero: float) -> None:
    train, _ = data(0, holes=0.0)
    train["b"] = np.random.default_rng(1).choice([-1e-30, 0.0, -0.0, 1e-30, 1.0], len(train))
    model = KINDS[kind]().fit(train, (train["b"] > 0).to_numpy().astype(int) ^ (train["a"] > 1))
    small = [-1e-30, -1e-36, -5e-324, zero, 5e-324, 1e-45, 1e-36, 1e-35, 1e-30, 1.0]
    space, table = over({"a": [-1.0, zero, 1.5], "b": small}, missing=False)
    explainer = Explainer(model, table, desired=1, space=space)
    assert explainer.unreadable_reason is None
    measure_undecided_share(explainer)
    assert_shortest(explainer, rows=2)


@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")  # scikit-learn's own sum of a column
@pytest.mark.parametrize("kind", KINDS)
def test_huge_numbers_and_missing_ones_that_training_never_saw_are_decided_as_the_model_does(kind: str) -> None:
    train, y = data(2, holes=0.0)
    model = KINDS[kind]().fit(train, y)
    large = [-1e300, -3.5e38, -1.0, 0.5, 3.4028235e38, 3.5e38, 1e300]
    if kind in ("tree", "forest"):  # which refuse what is no finite float32
        large = [-3.4e38, -1.0, 0.5, 3.4028235e38]
    space, table = over({"a": large, "b": [-0.2, 0.1, 16777217.0]}, missing=True)
    explainer = Explainer(model, table, desired=1, space=space)
    assert explainer.unreadable_reason is None
    measure_undecided_share(explainer)
    assert_shortest(explainer, rows=2)


HOMES = ["own", "rent", "free", "never"]


def homes(rows: int = 200, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    home = rng.choice(np.array(HOMES[:3], dtype=object), rows)
    table = pd.DataFrame({"home": pd.Categorical(home, categories=HOMES), "b": rng.integers(0, 3, rows)})
    return table, ((home == "own") ^ (table["b"] > 1)).to_numpy().astype(int)


@pytest.mark.parametrize(
    "model",
    [
        xgb.XGBClassifier(**XGB, enable_categorical=True, max_cat_to_onehot=1),
        xgb.XGBClassifier(**XGB, enable_categorical=True, max_cat_to_onehot=9),
        lgb.LGBMClassifier(**LGB, cat_smooth=1),
        HistGradientBoostingClassifier(**HIST, categorical_features="from_dtype"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_category_that_training_never_saw_is_decided_as_the_model_does(model: Any) -> None:
    table, y = homes()
    model.fit(table, y)
    space = Space((Feature("home", tuple(HOMES), ordered=False, missing=True), Feature("b", (0, 1, 2), ordered=True)))
    explainer = Explainer(model, table, desired=1, space=space)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
    assert assert_shortest(explainer, rows=6) > 3


def test_a_text_that_catboost_never_saw_is_decided_as_the_model_does() -> None:
    table, y = homes()
    table["home"] = table["home"].astype(object)
    model = cb.CatBoostClassifier(**CB, cat_features=["home"], one_hot_max_size=9).fit(table, y)
    space = Space((Feature("home", tuple(HOMES), ordered=False), Feature("b", (0, 1, 2), ordered=True)))
    explainer = Explainer(model, table, desired=1, space=space)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
    assert_shortest(explainer)


STUMPS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=1),
    "AdaBoost": lambda: AdaBoostClassifier(n_estimators=1),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=1, max_depth=1),
    "histogram boosting": lambda: HistGradientBoostingClassifier(max_iter=1, max_leaf_nodes=2, min_samples_leaf=3),
    "xgboost": lambda: xgb.XGBClassifier(n_estimators=1, max_depth=1, n_jobs=1),
    "lightgbm": lambda: lgb.LGBMClassifier(n_estimators=1, num_leaves=2, n_jobs=1, verbose=-1),
    "catboost": lambda: cb.CatBoostClassifier(**CB | {"iterations": 1, "depth": 1}),
}


@pytest.mark.parametrize("kind", STUMPS)
def test_a_stump_is_explained_by_its_one_threshold(kind: str) -> None:
    train, _ = data(0, holes=0.0)
    model = STUMPS[kind]().fit(train, (train["a"] > 0.3).to_numpy().astype(int))
    space, table = over({"a": [-1.0, 0.1, *around(cuts(model, 0)), 1.0], "b": [0.0, 7.0]}, missing=False)
    explainer = Explainer(model, table, threshold=0.5, desired=1, space=space)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
    assert_shortest(explainer)
    assert [c.feature for c in explainer.explain({"a": -1.0, "b": 7.0}).rule.components] in (["a"], [])


def test_thresholds_that_no_value_separates_leave_one_cell() -> None:
    train, y = data(0)
    model = RandomForestClassifier(5, random_state=0).fit(train, y)
    space, table = over({"a": [0.4], "b": [0.1]}, missing=False)
    explainer = Explainer(model, table, desired=1, space=space)
    assert np.diff(get_compiled_model(explainer).alternatives[0].cells.cell_starts).tolist() == [1]
    assert explainer.unused_features == ("a", "b")
    assert all(np.diff(forest.leaf_starts).tolist() == [1] * 5 for forest in get_compiled_model(explainer).alternatives)
    measure_undecided_share(explainer)


def constant_models() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Models that decide for everybody alike, and how they are asked."""
    train, y = data(0, holes=0.0)
    y = (np.arange(len(y)) % 3 == 0).astype(int)
    flat = np.zeros_like(train)
    yes: dict[str, Any] = {"desired": 1}
    number = {"threshold": 0.4}
    zero_weight = VotingClassifier(
        [("a", DecisionTreeClassifier(max_depth=2)), ("b", DecisionTreeClassifier(max_depth=1))],
        voting="soft",
        weights=[0, 1],
    )
    return {
        "xgboost without trees": (xgb.XGBClassifier(n_estimators=0).fit(train, y), yes),
        "xgboost of single leaves": (xgb.XGBClassifier(**XGB, gamma=1e9).fit(train, y), yes),
        "xgboost of weight zero": (xgb.XGBClassifier(**XGB, learning_rate=0.0).fit(train, y), yes),
        "xgboost regression without trees": (xgb.XGBRegressor(n_estimators=0).fit(train, y), number),
        "lightgbm of single leaves": (lgb.LGBMClassifier(**LGB | {"min_child_samples": 999}).fit(train, y), yes),
        "lightgbm regression": (lgb.LGBMRegressor(**LGB | {"min_child_samples": 999}).fit(train, y), number),
        "tree of one leaf": (DecisionTreeClassifier().fit(flat, y), yes),
        "regression tree of one leaf": (DecisionTreeRegressor().fit(flat, y), number),
        "forest of single leaves": (RandomForestClassifier(3, random_state=0).fit(flat, y), yes),
        "boosting of single leaves": (GradientBoostingClassifier(n_estimators=2).fit(flat, y), yes),
        "boosting of weight zero": (GradientBoostingRegressor(n_estimators=2, learning_rate=0.0).fit(train, y), number),
        "histogram boosting": (HistGradientBoostingRegressor(**HIST).fit(flat, y), number),
        "catboost of single leaves": (
            cb.CatBoostClassifier(**CB, min_data_in_leaf=999, grow_policy="Depthwise").fit(train, y),
            yes,
        ),
        "voting of weight zero": (zero_weight.fit(train, y), yes),
    }


def test_models_of_next_to_nothing_are_read() -> None:
    for name, (model, options) in constant_models().items():
        space, table = over({"a": [-1.0, 0.0, 1.0], "b": [0.0, 0.3]}, missing=False)
        explainer = Explainer(model, table, **options, space=space)
        assert explainer.unreadable_reason is None, name
        measure_undecided_share(explainer)
        assert_shortest(explainer, rows=1)


def test_an_xgboost_model_that_stops_at_its_first_tree_is_read() -> None:
    train, y = data(0)
    model = xgb.XGBClassifier(**XGB | {"n_estimators": 40, "learning_rate": 0.5}, early_stopping_rounds=2)
    model.fit(train, y, eval_set=[(train, 1 - y)], verbose=False)
    assert model.best_iteration == 0
    space, table = over({"a": around(cuts(model, 0))[:9], "b": [0.0, 0.1, 7.0]})
    explainer = Explainer(model, table, desired=1, space=space)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0


@pytest.mark.parametrize("kind", ["tree", "forest", "lightgbm"])
def test_a_model_that_knows_a_single_class_has_no_undesired_outcome_to_explain(kind: str) -> None:
    train, y = data(0)
    model = KINDS[kind]().fit(train, np.zeros_like(y))
    with pytest.raises(OutcomeError, match="undesired"):
        Explainer(model, train, desired=0)


def test_whole_intervals_are_refused_where_zero_is_missing_and_goes_another_way() -> None:
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"a": rng.choice([-2.0, -1.0, 0.0, 1.0, 2.0], 300)})
    y = (train["a"] != 0).to_numpy().astype(int)
    model = lgb.LGBMClassifier(**LGB, zero_as_missing=True).fit(train, y)
    shown = train[train["a"] != 0].reset_index(drop=True)
    with pytest.raises(ModelError, match="'a': the model tells single values of it apart"):
        Explainer(model, shown, desired=1, domain="interval")
    alias = xgb.XGBClassifier(**XGB, missing=1.0).fit(train, (train["a"] != 1).to_numpy().astype(int))
    with pytest.raises(ModelError, match="'a': the model tells single values of it apart"):
        Explainer(alias, train[train["a"] != 1].reset_index(drop=True), desired=1, domain="interval")


def test_a_tree_of_hundreds_of_levels_is_read_and_explained() -> None:
    table = pd.DataFrame({"a": np.arange(600.0), "b": np.arange(600) % 2})
    weights = 1 / (1.0 + np.arange(600)) ** 4  # which make the tree cut off one row after the other
    model = DecisionTreeClassifier(random_state=0).fit(table[["a"]], np.arange(600) % 2, sample_weight=weights)
    assert model.get_depth() > 300
    explainer = Explainer(model, table[["a"]], desired=1)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
    assert_shortest(explainer, rows=4)
