"""XGBoost, LightGBM and CatBoost models as they are read against their own decisions, on thresholds and beside them."""

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

from ironrule.model.decision import build_decision
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.catboost_models import CatBoostThresholdSplit, _hash_categories, read_catboost
from ironrule.model.readers.lightgbm_models import LightGBMThresholdSplit, read_lightgbm
from ironrule.model.readers.xgboost_models import XGBoostThresholdSplit, read_xgboost

# LightGBM fitted on a table warns, through scikit-learn, when it is asked about a plain array
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")

SPECIAL = [0.0, -0.0, 1e-36, -1e-36, 1e-35, 1e-40, 5e-324, 1e300, -1e300, 3.5e38, -3.5e38, 16777217.0, math.nan]
Read = Callable[[Any, tuple[Any, ...], float | None], TreeSum | None]


def data(seed: int, classes: int = 2, missing: float = 0.15, zeros: float = 0.1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(160, 4))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = rng.integers(-3, 4, 160)
    X[rng.random(X.shape) < zeros] = 0.0
    raw = X[:, 0] + X[:, 1] * np.sign(X[:, 2]) + rng.normal(size=160) * 0.7
    X[rng.random(X.shape) < missing] = np.nan
    y = np.digitize(raw, np.quantile(raw, np.arange(1, classes) / classes))
    return X, y


def list_splits(tree_sum: TreeSum) -> list[Any]:
    trees = [t for margins in tree_sum.alternatives for m in margins for g in m.groups for t in g.trees]
    return [split for tree in trees for split in tree.splits if split is not None]


def probes(tree_sum: TreeSum, X: Any, seed: int, rows: int = 900) -> Any:
    """Rows of what was seen, of all thresholds with their neighbours as float32 and float64, and of special values."""
    rng = np.random.default_rng(seed)
    columns = []
    for k in range(X.shape[1]):
        cuts = [getattr(t, "threshold", getattr(t, "border", None)) for t in list_splits(tree_sum) if t.column == k]
        cuts = sorted({c for c in cuts if c is not None and math.isfinite(c)})
        near = [float(n) for c in cuts for n in (np.nextafter(np.float32(c), s * np.float32(9)) for s in (-1, 1))]
        near += [float(np.nextafter(c, s * math.inf)) for c in cuts for s in (-1, 1)]
        halves = [(c + n) / 2 for c in cuts for n in (float(np.nextafter(np.float32(c), np.float32(-9))),)]
        pool = np.array([*cuts, *near, *halves, *SPECIAL, *X[:, k]])
        column = rng.choice(pool, rows)
        column[: len(pool)] = pool[:rows]
        columns.append(column)
    return np.stack([rng.permutation(c) if k else c for k, c in enumerate(columns)], axis=1)


def require_agreement(
    read: Read, model: Any, desired: Any, threshold: float | None, rows: Any, seen: Any = None
) -> None:
    """Where margins are outside their errors the sum of trees decides as the model does; elsewhere is rare."""
    wanted = tuple(desired) if isinstance(desired, (tuple, list)) else (() if desired is None else (desired,))
    tree_sum = read(model, wanted, threshold)
    assert tree_sum is not None
    seen = rows if seen is None else seen
    margins = tree_sum.margins(seen)
    errors = [max(margin.error for margin in margins) for margins in tree_sum.alternatives]
    surely = np.any([m > e for m, e in zip(margins, errors, strict=True)], axis=0)
    surely_not = np.all([m < -e for m, e in zip(margins, errors, strict=True)], axis=0)
    asked = model if wanted else model.predict  # a regressor is a function; CatBoost gives it a list of no classes
    own = build_decision(asked, list(wanted) or None, threshold)(rows, len(rows))
    assert own[surely].all()
    assert not own[surely_not].any()
    assert (~surely & ~surely_not).mean() < 0.02
    for margins_ in tree_sum.alternatives:
        assert all(m.error >= 0 and math.isfinite(m.error) for m in margins_)


def check(read: Read, model: Any, X: Any, classes: int, seed: int) -> None:
    first = read(model, (1,), None)
    assert first is not None
    rows = probes(first, X, seed)
    for threshold in (None, 0.3, 0.5, 0.9):
        wanted: list[Any] = [[0], [1]] if classes == 2 else [[0], [2], [0, 2], [1, 2]]
        for desired in wanted:
            require_agreement(read, model, desired, threshold, rows)


def xgb_model(seed: int, classes: int, **options: Any) -> Any:
    kind = options.pop("kind", xgb.XGBClassifier)
    zeros = options.pop("zeros", 0.1)
    X, y = data(seed, classes, zeros=zeros)
    return kind(**{"n_estimators": 12, "max_depth": 3, "n_jobs": 1, "random_state": seed} | options).fit(X, y), X


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"booster": "dart", "rate_drop": 0.4},
        {"booster": "dart", "rate_drop": 0.4, "normalize_type": "forest", "base_score": 0.9},
        {"kind": xgb.XGBRFClassifier},
        {"num_parallel_tree": 3, "n_estimators": 4, "subsample": 0.6},
        {"missing": 0.0, "zeros": 0.3},
        {"base_score": 0.2, "tree_method": "exact", "gamma": 1.0},
        {"max_depth": 0, "grow_policy": "lossguide", "max_leaves": 6},
        {"n_estimators": 0},
        {"n_estimators": 3, "gamma": 1e9},
    ],
    ids=str,
)
def test_an_xgboost_classifier_is_read_as_it_decides(options: dict[str, Any], classes: int) -> None:
    for seed in range(2):
        model, X = xgb_model(seed, classes, **options)
        constant = options.get("n_estimators") == 0 or options.get("gamma", 0) > 1e8
        if constant and not clear_of_thresholds(model, X):
            continue  # a tie by construction: every row is undecided
        check(read_xgboost, model, X, classes, seed)


def clear_of_thresholds(model: Any, X: Any) -> bool:
    """Whether a constant model's probabilities differ from each other and from what they are compared with."""
    p = model.predict_proba(X[:1])[0].astype(float)
    gaps = [abs(q - t) for q in (*p, *(1 - p)) for t in (0.3, 0.5, 0.9)] + [
        abs(a - b) for a in p for b in p if a is not b
    ]
    return len(p) == 2 and min(g for g in gaps) > 1e-3


@pytest.mark.parametrize("objective", ["binary:hinge", "binary:logitraw"])
def test_xgboost_objectives_without_probabilities_are_read(objective: str) -> None:
    for seed in range(3):
        model, X = xgb_model(seed, 2, objective=objective)
        check(read_xgboost, model, X, 2, seed)


def test_xgboost_softmax_labels_are_read() -> None:
    model, X = xgb_model(1, 3, objective="multi:softmax")
    check(read_xgboost, model, X, 3, 1)


def test_an_xgboost_classifier_stopped_early_is_read_up_to_its_best_iteration() -> None:
    for classes in (2, 3):
        X, y = data(1, classes)
        model = xgb.XGBClassifier(n_estimators=60, max_depth=4, early_stopping_rounds=3, n_jobs=1, learning_rate=0.6)
        model.fit(X[:80], y[:80], eval_set=[(X[80:], y[80:])], verbose=False)
        assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
        check(read_xgboost, model, X, classes, 1)


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:absoluteerror", "count:poisson", "reg:logistic"])
def test_an_xgboost_regressor_is_read_against_its_threshold(objective: str) -> None:
    X, y = data(3)
    model = xgb.XGBRegressor(n_estimators=20, max_depth=3, objective=objective, n_jobs=1).fit(X, y)
    tree_sum = read_xgboost(model, (), 0.4)
    assert tree_sum is not None
    for threshold in (0.21, 0.4, 0.77):
        require_agreement(read_xgboost, model, None, threshold, probes(tree_sum, X, 3))


def table(seed: int, *, ordered: bool = False, green: str = "green") -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=300)
    letters = rng.choice(["red", green, "blue", "pink", "grey", "teal"], 300)
    tens = rng.choice([10, 20, 30, 40], 300)
    y = ((a > 0.3) ^ np.isin(letters, ["red", "teal"]) ^ (tens == 30)).astype(int)
    blank = rng.random(300) < 0.1
    order = ["teal", "red", green, "pink", "grey", "blue"]
    frame = pd.DataFrame(
        {
            "a": np.where(rng.random(300) < 0.1, np.nan, a),
            "letter": pd.Categorical(np.where(blank, None, letters.astype(object)), categories=order, ordered=ordered),
        }
    )
    frame["ten"] = pd.Categorical(tens, categories=[20, 40, 10, 30])
    return frame, y


def objects(frame: Any) -> Any:
    return np.stack([frame[c].astype(object).to_numpy() for c in frame.columns], axis=1)


@pytest.mark.parametrize("to_onehot", [1, 10])
def test_xgboost_splits_on_pandas_categories_are_read_by_their_labels(to_onehot: int) -> None:
    for seed in range(3):
        frame, y = table(seed)
        model = xgb.XGBClassifier(
            n_estimators=15, max_depth=3, enable_categorical=True, max_cat_to_onehot=to_onehot, n_jobs=1
        ).fit(frame, y)
        for threshold in (None, 0.3, 0.9):
            require_agreement(read_xgboost, model, 1, threshold, frame, objects(frame))


def test_xgboost_categories_beyond_ascii_which_it_damages_are_refused() -> None:
    frame, y = table(0, green="grün")
    with pytest.raises(Unreadable, match="ASCII"):
        read_xgboost(xgb.XGBClassifier(n_estimators=15, enable_categorical=True, n_jobs=1).fit(frame, y), (1,), None)


def test_xgboost_splits_on_category_numbers_are_read() -> None:
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(size=300), rng.integers(0, 8, 300)], axis=1)
    X[:20, 1] = np.nan
    y = (np.isin(X[:, 1], [1, 4, 6]) ^ (X[:, 0] > 0)).astype(int)
    model = xgb.XGBClassifier(n_estimators=15, feature_types=["q", "c"], enable_categorical=True, n_jobs=1).fit(X, y)
    more = np.concatenate([X, np.stack([rng.normal(size=60), rng.choice([9, 40, 1000, 5], 60)], axis=1)])
    require_agreement(read_xgboost, model, 1, None, more)


def test_what_xgboost_cannot_say_as_a_sum_of_trees_is_refused() -> None:
    X, y = data(0, 3)
    linear = xgb.XGBClassifier(booster="gblinear", n_estimators=2, n_jobs=1).fit(np.nan_to_num(X), y)
    vector = xgb.XGBClassifier(multi_strategy="multi_output_tree", n_estimators=2, n_jobs=1).fit(X, y)
    for model in (linear, vector):
        with pytest.raises(Unreadable):
            read_xgboost(model, (1,), None)
    with pytest.raises(Unreadable):
        read_xgboost(xgb.XGBRegressor(n_estimators=2).fit(X, y), (), None)
    X, y = data(0, 4)
    with pytest.raises(Unreadable, match="several"):
        read_xgboost(xgb.XGBClassifier(n_estimators=2).fit(X, y), (0, 1), 0.5)


def lgb_model(seed: int, classes: int, **options: Any) -> Any:
    X, y = data(seed, classes, missing=options.pop("holes", 0.15))
    base = {
        "n_estimators": 12,
        "num_leaves": 7,
        "min_child_samples": 5,
        "n_jobs": 1,
        "verbose": -1,
        "random_state": seed,
    }
    return lgb.LGBMClassifier(**base | options).fit(X, y), X


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"holes": 0.0},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"boosting_type": "dart", "drop_rate": 0.5},
        {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
        {"extra_trees": True, "sigmoid": 2.0},
        {"n_estimators": 1, "num_leaves": 2},
    ],
    ids=str,
)
def test_a_lightgbm_classifier_is_read_as_it_decides(options: dict[str, Any], classes: int) -> None:
    for seed in range(2):
        model, X = lgb_model(seed, classes, **options)
        check(read_lightgbm, model, X, classes, seed)


def test_lightgbm_one_against_all_is_read() -> None:
    for seed in range(3):
        model, X = lgb_model(seed, 3, objective="multiclassova", sigmoid=1.5)
        check(read_lightgbm, model, X, 3, seed)


def test_a_lightgbm_classifier_stopped_early_is_read_up_to_its_best_iteration() -> None:
    X, y = data(1)
    model = lgb.LGBMClassifier(n_estimators=200, learning_rate=0.5, min_child_samples=5, n_jobs=1, verbose=-1)
    model.fit(X[:80], y[:80], eval_X=X[80:], eval_y=y[80:], callbacks=[lgb.early_stopping(3, verbose=False)])
    assert 0 < model.best_iteration_ < 200
    check(read_lightgbm, model, X, 2, 1)


def test_a_lightgbm_model_of_single_leaves_is_read() -> None:
    X, y = data(2)
    y = (np.arange(len(y)) % 4 == 0).astype(int)
    model = lgb.LGBMClassifier(n_estimators=3, min_child_samples=1000, n_jobs=1, verbose=-1).fit(X, y)
    check(read_lightgbm, model, X, 2, 2)


@pytest.mark.parametrize("objective", ["regression", "regression_l1", "poisson"])
def test_a_lightgbm_regressor_is_read_against_its_threshold(objective: str) -> None:
    X, y = data(3)
    model = lgb.LGBMRegressor(n_estimators=20, objective=objective, n_jobs=1, verbose=-1).fit(X, y)
    tree_sum = read_lightgbm(model, (), 0.4)
    assert tree_sum is not None
    for threshold in (0.21, 0.4, 0.77):
        require_agreement(read_lightgbm, model, None, threshold, probes(tree_sum, X, 3))


def test_lightgbm_splits_on_pandas_categories_are_read_by_their_labels() -> None:
    for seed in range(3):
        frame, y = table(seed)
        model = lgb.LGBMClassifier(
            n_estimators=15, num_leaves=7, min_child_samples=5, min_data_per_group=5, cat_smooth=1, n_jobs=1, verbose=-1
        ).fit(frame, y)
        for threshold in (None, 0.3, 0.9):
            require_agreement(read_lightgbm, model, 1, threshold, frame, objects(frame))
        strange = frame.assign(letter=pd.Categorical(np.where(y, "never", "red"), categories=["never", "red"]))
        require_agreement(read_lightgbm, model, 1, None, strange, objects(strange))


def test_lightgbm_splits_on_category_numbers_are_read() -> None:
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(size=300), rng.integers(0, 40, 300)], axis=1)
    y = (np.isin(X[:, 1] % 7, [1, 4, 6]) ^ (X[:, 0] > 0)).astype(int)
    model = lgb.LGBMClassifier(n_estimators=9, min_child_samples=3, min_data_per_group=3, n_jobs=1, verbose=-1)
    model.fit(X, y, categorical_feature=[1])
    odd = rng.choice([41, 1e6, -1, -0.5, 3.7, math.nan, 1e12, -1e12], 300)
    require_agreement(read_lightgbm, model, 1, None, np.concatenate([X, np.stack([rng.normal(size=300), odd], axis=1)]))


def test_lightgbm_categories_of_unknown_columns_and_linear_trees_are_refused() -> None:
    frame, y = table(0, ordered=True)
    with pytest.raises(Unreadable, match="which columns"):
        read_lightgbm(lgb.LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1).fit(frame, y), (1,), None)
    X, y = data(0)
    with pytest.raises(Unreadable, match="linear"):
        read_lightgbm(lgb.LGBMClassifier(n_estimators=2, linear_tree=True, n_jobs=1, verbose=-1).fit(X, y), (1,), None)


def test_integers_that_lightgbm_may_round_differently_are_refused_at_a_split() -> None:
    at = LightGBMThresholdSplit(0, 16777216.5, False, 0)
    assert at.goes_left(np.array([16777216, 16777220])).tolist() == [True, False]
    with pytest.raises(Unreadable, match="float32"):
        at.goes_left(np.array([16777217]))


def cb_model(seed: int, classes: int, **options: Any) -> Any:
    X, y = data(seed, classes, missing=options.pop("holes", 0.15))
    base = {"iterations": 12, "depth": 3, "thread_count": 1, "verbose": 0, "random_seed": seed}
    return cb.CatBoostClassifier(allow_writing_files=False, **base | options).fit(X, y), X


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"holes": 0.0},
        {"nan_mode": "Max"},
        {"grow_policy": "Depthwise"},
        {"grow_policy": "Lossguide", "max_leaves": 6},
        {"iterations": 30, "learning_rate": 0.4, "model_shrink_rate": 0.1},
        {"iterations": 1, "depth": 1},
    ],
    ids=str,
)
def test_a_catboost_classifier_is_read_as_it_decides(options: dict[str, Any], classes: int) -> None:
    for seed in range(2):
        model, X = cb_model(seed, classes, **options)
        check(read_catboost, model, X, classes, seed)


def test_catboost_one_against_all_is_read() -> None:
    model, X = cb_model(1, 3, loss_function="MultiClassOneVsAll")
    check(read_catboost, model, X, 3, 1)


def test_catboost_decides_labels_by_the_probability_threshold_that_was_set() -> None:
    model, X = cb_model(1, 2)
    model.set_probability_threshold(0.3)
    check(read_catboost, model, X, 2, 1)


def test_a_catboost_classifier_stopped_early_is_read() -> None:
    X, y = data(1)
    model = cb.CatBoostClassifier(
        iterations=300, learning_rate=0.1, early_stopping_rounds=9, verbose=0, allow_writing_files=False, thread_count=1
    ).fit(X[:80], y[:80], eval_set=(X[80:], y[80:]))
    assert model.tree_count_ < 300
    check(read_catboost, model, X, 2, 1)


@pytest.mark.parametrize("loss", ["RMSE", "MAE", "Poisson"])
def test_a_catboost_regressor_is_read_against_its_threshold(loss: str) -> None:
    X, y = data(3)
    model = cb.CatBoostRegressor(
        iterations=20, depth=4, loss_function=loss, verbose=0, allow_writing_files=False, thread_count=1
    ).fit(X, y)
    tree_sum = read_catboost(model, (), 0.4)
    assert tree_sum is not None
    for threshold in (0.21, 0.4, 0.77):
        require_agreement(read_catboost, model, None, threshold, probes(tree_sum, X, 3))


def test_catboost_one_hot_splits_are_read_and_unseen_categories_too() -> None:
    for seed in range(3):
        frame, y = table(seed, green="grün")
        frame = frame.assign(letter=frame["letter"].astype(object).where(frame["letter"].notna(), "none"))
        frame["ten"] = frame["ten"].astype(int)
        model = cb.CatBoostClassifier(
            iterations=15,
            depth=3,
            one_hot_max_size=20,
            cat_features=["letter", "ten"],
            verbose=0,
            allow_writing_files=False,
        ).fit(frame, y)
        strange = frame.assign(letter=np.where(y, "never", "red"), ten=7)
        for rows in (frame, strange):
            for threshold in (None, 0.3, 0.9):
                require_agreement(read_catboost, model, 1, threshold, rows, objects(rows))


def test_catboost_statistics_of_categories_are_refused() -> None:
    frame, y = table(0)
    frame = frame.assign(letter=frame["letter"].astype(object).where(frame["letter"].notna(), "none"))
    model = cb.CatBoostClassifier(
        iterations=15, one_hot_max_size=2, cat_features=["letter", "ten"], verbose=0, allow_writing_files=False
    ).fit(frame, y)
    with pytest.raises(Unreadable, match="one_hot_max_size"):
        read_catboost(model, (1,), None)


def test_catboost_hashes_are_its_own_for_any_text() -> None:
    assert _hash_categories(("p", "10"))["p"] == 759035679
    assert set(_hash_categories(("", "ü", "x" * 200))) >= {"", "ü", "x" * 200}


def test_catboost_leaves_and_bias_are_written_exactly() -> None:
    X, y = data(5)
    model = cb.CatBoostRegressor(iterations=10, depth=3, verbose=0, allow_writing_files=False).fit(X, y)
    tree_sum = read_catboost(model, (), 0.0)
    assert tree_sum is not None
    margin = tree_sum.alternatives[0][0]
    leaves = np.concatenate([t.value[t.left < 0] for t in margin.groups[0].trees])
    assert leaves.tolist() == model.get_leaf_values().tolist()
    assert margin.offset == model.get_scale_and_bias()[1]


@pytest.mark.parametrize("read", [read_xgboost, read_lightgbm, read_catboost])
def test_other_models_are_left_to_other_readers(read: Read) -> None:
    assert read(object(), (1,), None) is None


def test_probability_thresholds_outside_0_to_1_decide_for_everybody() -> None:
    model, X = xgb_model(0, 3)
    binary, _ = xgb_model(0, 2)
    for threshold in (-0.1, 1.1):
        require_agreement(read_xgboost, model, [0, 1], threshold, X)
        require_agreement(read_xgboost, binary, 0, threshold, X)


def test_numeric_tests_round_to_float32_first() -> None:
    up = np.nextafter(0.1, 1)
    assert XGBoostThresholdSplit(0, float(np.float32(0.1)), False).goes_left(np.array([0.1, up, 0.0])).tolist() == [
        False,
        False,
        True,
    ]
    assert CatBoostThresholdSplit(0, float(np.float32(0.1)), True).goes_left(np.array([0.1, 0.2, np.nan])).tolist() == [
        True,
        False,
        True,
    ]
