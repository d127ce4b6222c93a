"""The checker's readings of XGBoost, LightGBM and CatBoost against the models' own decisions.

For every model: where it decides for the desired outcome the reading must find that possible; where the reading is
sure, the model must agree; and the reading must be sure nearly everywhere but next to the threshold. Rows are drawn so
that their values lie on the thresholds of splits and next to them, in float32 and in float64.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from reading_values import decide, margin_values

from ironrule.checker.readers.boosted_trees import Float32Split
from ironrule.checker.readers.catboost_models import hash_category, read_catboost
from ironrule.checker.readers.lightgbm_models import _LightGBMThresholdSplit, read_lightgbm
from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading, SumForm
from ironrule.checker.readers.xgboost_models import read_xgboost

SEED = 20
ROWS = 160
READERS = {"xgboost": read_xgboost, "lightgbm": read_lightgbm, "catboost": read_catboost}


def read(model: Any, question: EstimatorTarget) -> SumForm:
    """The reading of whichever library the model is of; the other readers must not take it for theirs."""
    library = type(model).__module__.split(".")[0]
    for name, reader in READERS.items():
        assert name == library or reader(model, question) is None
    reading = READERS[library](model, question)
    assert reading is not None
    return reading


def make_table(rng: np.random.Generator, rows: int = ROWS, *, plain: bool = False) -> pd.DataFrame:
    """Columns of float64 with missing values, int64 around zero, float32, large int64, and two of categories."""
    table = pd.DataFrame(
        {
            "a number": rng.normal(size=rows),
            "whole": rng.integers(-3, 4, rows),
            "single": rng.normal(size=rows).astype(np.float32),
            "large": rng.integers(0, 2**22, rows) * 4,
        }
    )
    table.loc[rng.random(rows) < 0.15, "a number"] = np.nan
    if not plain:
        table["text"] = pd.Categorical(rng.choice(["red", "a longer category", "blue", "x"], rows))
        table["class"] = pd.Categorical(rng.choice([10, 20, 30, 1], rows))
        table.loc[rng.random(rows) < 0.1, "text"] = None
    return table


def add_up(table: pd.DataFrame) -> np.ndarray:
    """A number to be learned that every column has a part in."""
    total = table["a number"].fillna(1.5) + table["whole"] + table["single"] + table["large"] / 2**23
    if "text" in table:
        total = total + 2.0 * table["text"].astype(object).isin(["red", "x"]) + (table["class"].astype(int) == 20)
    return total.to_numpy(dtype=float)


def for_catboost(table: pd.DataFrame) -> pd.DataFrame:
    """Categories as CatBoost takes them: text without missing values, and whole numbers."""
    if "text" not in table:
        return table
    return table.assign(text=table["text"].astype(object).fillna("none"), **{"class": table["class"].astype("int64")})


def to_columns(table: pd.DataFrame) -> list[np.ndarray]:
    """The columns as they reach the estimator: categories as objects, all others in their own type."""
    return [
        column.astype(object).to_numpy() if isinstance(column.dtype, pd.CategoricalDtype) else column.to_numpy()
        for _, column in table.items()
    ]


def split_numbers(reading: SumForm) -> dict[int, list[float]]:
    """The numbers that the splits of each column compare with."""
    found: dict[int, set[float]] = {}
    for margin in (margin for margins in reading.alternatives for margin in margins):
        for tree in (tree for part in margin.parts for tree in part.trees):
            for split in tree.splits:
                number = getattr(split, "number", getattr(split, "border", None))
                if number is not None:
                    found.setdefault(split.column, set()).add(number)
    return {column: sorted(numbers) for column, numbers in found.items()}


def with_neighbours(table: pd.DataFrame, reading: SumForm, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of a table with values on the thresholds of splits, next to them, at zero, and far away."""
    table = table.copy()
    for column, numbers in split_numbers(reading).items():
        name, kind = table.columns[column], table.dtypes.iloc[column]
        exact = np.array(numbers)
        near = [exact, np.nextafter(exact, -np.inf), np.nextafter(exact, np.inf)]
        single = exact.astype(np.float32)
        with np.errstate(over="ignore"):  # CatBoost has a border at the end of float32
            near += [np.nextafter(single, np.float32(end)).astype(float) for end in (-np.inf, np.inf)]
        near += [np.array([0.0, -0.0, 1e-36, -1e-36, 1e-34, 1e30, -1e30])]
        values = np.concatenate(near)
        if kind.kind == "i":
            values = np.clip(np.concatenate([np.floor(values), np.ceil(values)]), -(2**24), 2**24)
        chosen = rng.random(len(table)) < 0.6
        table.loc[chosen, name] = rng.choice(values.astype(kind), chosen.sum())
    return table


def own_decision(model: Any, table: Any, question: EstimatorTarget) -> np.ndarray:
    """What the model itself decides."""
    if not question.desired_classes:
        return np.asarray(model.predict(table) > question.threshold)
    wanted = list(question.desired_classes)
    if question.threshold is None:
        return np.isin(np.asarray(model.predict(table)).ravel(), np.asarray(model.classes_)[wanted])
    return np.asarray(model.predict_proba(table)[:, wanted].sum(axis=1) > question.threshold)


def compare(model: Any, table: pd.DataFrame, question: EstimatorTarget, rng: np.random.Generator) -> tuple[int, int]:
    """Check the reading on a table and on neighbours of thresholds; how many rows of the table, and undecided ones."""
    reading = read(model, question)
    undecided = []
    for rows in (table, with_neighbours(table, reading, rng)):
        desired = own_decision(model, rows, question)
        possible, sure = decide(reading, to_columns(rows))
        assert not (desired & ~possible).any()
        assert not (sure & ~desired).any()
        undecided.append(int((possible & ~sure).sum()))
    return len(table), undecided[0]


QUIET: dict[str, dict[str, Any]] = {
    "xgb": {"n_estimators": 8, "max_depth": 3, "n_jobs": 1},
    "lgb": {"n_estimators": 8, "num_leaves": 6, "min_child_samples": 4, "verbose": -1, "n_jobs": 1},
    "cat": {"iterations": 8, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1},
}
GROUPS = {"enable_categorical": True}
SMALL_GROUPS = {"min_data_per_group": 5, "cat_smooth": 1.0}
ONE_HOT = {"one_hot_max_size": 10, "cat_features": ["text", "class"]}
FOREST = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}


def xgb(kind: str = "XGBClassifier", **settings: Any) -> Any:
    return getattr(xgboost, kind)(**QUIET["xgb"], **settings)


def lgb(kind: str = "LGBMClassifier", **settings: Any) -> Any:
    return getattr(lightgbm, kind)(**QUIET["lgb"], **settings)


def cat(kind: str = "CatBoostClassifier", **settings: Any) -> Any:
    return getattr(catboost, kind)(**QUIET["cat"], **settings)


TWO_CLASSES: dict[str, Callable[[], Any]] = {
    "xgboost": lambda: xgb(**GROUPS),
    "xgboost, groups of categories": lambda: xgb(**GROUPS, max_cat_to_onehot=2, base_score=0.3),
    "xgboost, exact": lambda: xgb(tree_method="exact", gamma=0.5),
    "xgboost, dart": lambda: xgb(**GROUPS, booster="dart", rate_drop=0.6, learning_rate=0.7),
    "xgboost, forest": lambda: xgb("XGBRFClassifier", **GROUPS),
    "lightgbm": lambda: lgb(**SMALL_GROUPS, sigmoid=1.5),
    "lightgbm, one category": lambda: lgb(max_cat_to_onehot=10),
    "lightgbm, forest": lambda: lgb(**FOREST, **SMALL_GROUPS),
    "lightgbm, dart": lambda: lgb(boosting_type="dart", drop_rate=0.5),
    "lightgbm, zero as missing": lambda: lgb(zero_as_missing=True),
    "lightgbm, nothing missing": lambda: lgb(use_missing=False),
    "lightgbm, cross entropy": lambda: lgb(objective="cross_entropy"),
    "catboost": lambda: cat(**ONE_HOT),
    "catboost, depthwise": lambda: cat(**ONE_HOT, grow_policy="Depthwise"),
    "catboost, lossguide": lambda: cat(**ONE_HOT, grow_policy="Lossguide", nan_mode="Max"),
    "catboost, cross entropy": lambda: cat(loss_function="CrossEntropy", nan_mode="Max"),
}
SEVERAL_CLASSES: dict[str, Callable[[], Any]] = {
    "xgboost": lambda: xgb(**GROUPS),
    "xgboost, softmax": lambda: xgb(**GROUPS, objective="multi:softmax"),
    "xgboost, dart": lambda: xgb(**GROUPS, booster="dart", rate_drop=0.5),
    "xgboost, forest": lambda: xgb("XGBRFClassifier", **GROUPS),
    "lightgbm": lambda: lgb(**SMALL_GROUPS),
    "lightgbm, one against all": lambda: lgb(objective="multiclassova", sigmoid=0.75),
    "lightgbm, forest": lambda: lgb(**FOREST),
    "catboost": lambda: cat(**ONE_HOT),
    "catboost, lossguide": lambda: cat(**ONE_HOT, grow_policy="Lossguide"),
    "catboost, one against all": lambda: cat(**ONE_HOT, loss_function="MultiClassOneVsAll"),
}
NUMBERS: dict[str, Callable[[], Any]] = {
    **{
        f"xgboost, {objective}": lambda objective=objective: xgb("XGBRegressor", objective=objective, **GROUPS)
        for objective in (
            "reg:squarederror",
            "reg:absoluteerror",
            "reg:pseudohubererror",
            "reg:squaredlogerror",
            "count:poisson",
            "reg:gamma",
            "reg:tweedie",
        )
    },
    "xgboost, quantile": lambda: xgb("XGBRegressor", objective="reg:quantileerror", quantile_alpha=0.4, **GROUPS),
    "xgboost, forest": lambda: xgb("XGBRFRegressor", **GROUPS),
    **{
        f"lightgbm, {objective}": lambda objective=objective: lgb("LGBMRegressor", objective=objective)
        for objective in ("l2", "l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie")
    },
    "lightgbm, forest": lambda: lgb("LGBMRegressor", **FOREST),
    **{
        f"catboost, {loss}": lambda loss=loss: cat("CatBoostRegressor", loss_function=loss, **ONE_HOT)
        for loss in ("RMSE", "MAE", "Quantile:alpha=0.3", "Huber:delta=1", "Poisson", "Tweedie:variance_power=1.5")
    },
}


def fit(model: Any, table: pd.DataFrame, target: np.ndarray) -> tuple[Any, pd.DataFrame]:
    """The fitted model, and the table as it takes it."""
    module = type(model).__module__
    if module.startswith("catboost"):
        table = for_catboost(table)
        if "cat_features" not in model.get_params() and "text" in table:
            table = table.drop(columns=["text", "class"])
    elif module.startswith("xgboost") and not model.enable_categorical:
        table = table.drop(columns=["text", "class"])
    return model.fit(table, target), table


@pytest.mark.parametrize("name", TWO_CLASSES)
def test_two_classes(name: str) -> None:
    rng = np.random.default_rng(SEED)
    table = make_table(rng)
    model, table = fit(TWO_CLASSES[name](), table, (add_up(table) > 0.5).astype(int))
    probability = model.predict_proba(table)[:, 1]
    for wanted in ((1,), (0,)):
        seen = [float(p) for p in rng.choice(probability if wanted == (1,) else 1 - probability, 2)]
        thresholds = [None, 0.5, 0.3, *seen, float(np.nextafter(seen[0], 0)), float(np.nextafter(seen[1], 1))]
        total = [compare(model, table, EstimatorTarget(wanted, threshold), rng) for threshold in thresholds[:3]]
        assert sum(undecided for _, undecided in total) <= 0.01 * sum(rows for rows, _ in total)
        for threshold in thresholds[3:]:  # at a threshold that is a probability of the model all may be undecided
            compare(model, table, EstimatorTarget(wanted, threshold), rng)
        always, never = EstimatorTarget(wanted, -0.25), EstimatorTarget(wanted, 1.0)
        assert decide(read(model, always), to_columns(table))[1].all()
        assert not decide(read(model, never), to_columns(table))[0].any()


@pytest.mark.parametrize("name", SEVERAL_CLASSES)
def test_several_classes(name: str) -> None:
    rng = np.random.default_rng(SEED + 1)
    table = make_table(rng)
    target = np.digitize(add_up(table), [-1.0, 1.0, 3.0])
    if "catboost" in name:
        target = np.array(["d", "a", "c", "b"])[target]
    model, table = fit(SEVERAL_CLASSES[name](), table, target)
    probabilities = model.predict_proba(table)
    for wanted in ((2,), (0, 3), (0, 1, 2)):
        total = [compare(model, table, EstimatorTarget(wanted, None), rng)]
        for threshold in (0.4, float(probabilities[7, list(wanted)].sum())):
            if len(wanted) == 2 and "against" not in name:
                with pytest.raises(NoReading, match="against several others"):
                    read(model, EstimatorTarget(wanted, threshold))
            else:
                total.append(compare(model, table, EstimatorTarget(wanted, threshold), rng))
        assert sum(undecided for _, undecided in total[:2]) <= 0.01 * sum(rows for rows, _ in total[:2])


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str) -> None:
    rng = np.random.default_rng(SEED + 2)
    table = make_table(rng)
    model, table = fit(NUMBERS[name](), table, np.exp(add_up(table) / 3))
    predicted = model.predict(table)
    middle = float(np.median(predicted)) * 1.0009
    rows, undecided = compare(model, table, EstimatorTarget((), middle), rng)
    assert undecided <= 0.01 * rows
    for threshold in (float(predicted[3]), float(np.nextafter(predicted[4], 0)), -1.0):
        compare(model, table, EstimatorTarget((), threshold), rng)


def test_logistic_regression_of_xgboost() -> None:
    rng = np.random.default_rng(SEED + 3)
    table = make_table(rng)
    target = 1.0 / (1.0 + np.exp(-add_up(table)))
    model, table = fit(xgb("XGBRegressor", objective="reg:logistic", **GROUPS), table, target)
    for threshold in (0.4, float(model.predict(table)[0])):
        compare(model, table, EstimatorTarget((), threshold), rng)


@pytest.mark.parametrize("seed", range(12))
def test_random_models_on_arrays(seed: int) -> None:
    """Many small models on arrays of one type, with missing values, steep leaves and several seeds."""
    rng = np.random.default_rng([SEED, seed])
    kind = [np.float64, np.float32, np.int64][seed % 3]
    values = (rng.normal(size=(80, 3)) * 10.0 ** rng.integers(-2, 4)).astype(kind)
    if kind != np.int64:
        values[rng.random(values.shape) < 0.2] = np.nan
    target = (np.nan_to_num(values.astype(float)) @ rng.normal(size=3) > 0).astype(int)
    target[:2] = 0, 1
    for model in (
        xgb(learning_rate=float(rng.uniform(0.1, 3.0)), max_bin=16),
        lgb(learning_rate=float(rng.uniform(0.1, 1.0))),
        cat(learning_rate=float(rng.uniform(0.1, 1.0)), random_seed=seed),
    ):
        model.fit(values, target)
        for question in (EstimatorTarget((1,), None), EstimatorTarget((0,), 0.4)):
            reading = read(model, question)
            probes = with_neighbours(pd.DataFrame(np.tile(values, (3, 1))), reading, rng).to_numpy(dtype=kind)
            desired = own_decision(model, probes, question)
            possible, sure = decide(reading, list(probes.T))
            assert not (desired & ~possible).any()
            assert not (sure & ~desired).any()
            assert (possible & ~sure).mean() < 0.05


def test_early_stopping_is_followed() -> None:
    rng = np.random.default_rng(SEED + 4)
    table = make_table(rng, 300, plain=True)
    target = (add_up(table) + rng.normal(size=300) * 3 > 0).astype(int)
    first, last = slice(0, 150), slice(150, 300)
    pairs = [(table[last], target[last])]
    forest = xgboost.XGBClassifier(n_estimators=60, learning_rate=0.8, early_stopping_rounds=5, n_jobs=1)
    forest.fit(table[first], target[first], eval_set=pairs, verbose=False)
    leaves = lgb(learning_rate=0.8).set_params(n_estimators=60)
    stop = lightgbm.early_stopping(5, verbose=False)
    leaves.fit(table[first], target[first], eval_X=table[last], eval_y=target[last], callbacks=[stop])
    levels = cat(learning_rate=0.8, early_stopping_rounds=5).set_params(iterations=60)
    levels.fit(table[first], target[first], eval_set=pairs[0])
    assert forest.best_iteration < forest.get_booster().num_boosted_rounds() - 1
    assert leaves.best_iteration_ == leaves.booster_.current_iteration() < 60
    assert levels.tree_count_ < 60
    earlier = lgb().fit(table, target)
    earlier.booster_.best_iteration = 2
    for model in (forest, leaves, levels, earlier):
        compare(model, table, EstimatorTarget((1,), None), rng)


@pytest.mark.parametrize(
    "model",
    [
        xgboost.XGBRegressor(n_estimators=120, base_score=0.0, learning_rate=0.5, n_jobs=1),
        xgboost.XGBRegressor(n_estimators=60, base_score=50.0, booster="dart", rate_drop=0.2, n_jobs=1),
        lightgbm.LGBMRegressor(n_estimators=120, learning_rate=0.5, min_child_samples=2, verbose=-1, n_jobs=1),
        catboost.CatBoostRegressor(**{**QUIET["cat"], "iterations": 120}, learning_rate=0.5),
    ],
    ids=["xgboost", "xgboost, dart", "lightgbm", "catboost"],
)
def test_sums_are_within_their_bound(model: Any) -> None:
    """The library's own sum is not the sum of the trees, but within the error of the reading; the error is not vast."""
    rng = np.random.default_rng(SEED + 11)
    values = rng.normal(size=(200, 4))
    model.fit(values, 100 * values[:, 0] * values[:, 1])
    [[margin]] = read(model, EstimatorTarget((), 0.0)).alternatives
    sums, error = margin_values(margin, list(values.T))
    off = np.abs(model.predict(values).astype(np.float64) - sums).max()
    assert error / 1000 < off <= error


def test_scores_that_softmax_does_not_tell_apart() -> None:
    """Probabilities in float32 are equal though the scores are not: the first class wins, not the largest score."""
    values = np.arange(30.0).reshape(-1, 1)
    model = xgb().fit(values, np.arange(30) % 3)
    document = json.loads(bytes(model.get_booster().save_raw("json")))
    document["learner"]["learner_model_param"]["base_score"] = "[0E0,2E-8,-2E-8]"
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        leaves = [child < 0 for child in tree["left_children"]]
        tree["split_conditions"] = [
            0.0 if leaf else number for leaf, number in zip(leaves, tree["split_conditions"], strict=True)
        ]
    model.load_model(bytearray(json.dumps(document).encode()))
    assert (model.predict(values) == 0).all()
    for wanted in ((0,), (1,), (2,), (0, 2)):
        possible, sure = decide(read(model, EstimatorTarget(wanted, None)), [values[:, 0]])
        assert possible.all()
        assert not sure.any()


def test_catboost_threshold_scale_and_bias() -> None:
    rng = np.random.default_rng(SEED + 5)
    table = make_table(rng)
    model, table = fit(cat(**ONE_HOT), table, (add_up(table) > 0.5).astype(int))
    plain = model.predict(table).sum()
    model.set_scale_and_bias(1.75, -0.4)
    model.set_probability_threshold(0.8)
    assert model.predict(table).sum() != plain
    for question in (EstimatorTarget((1,), None), EstimatorTarget((0,), None), EstimatorTarget((0,), 0.35)):
        rows, undecided = compare(model, table, question, rng)
        assert undecided <= 0.01 * rows


def test_catboost_hashes_of_every_length() -> None:
    """Each category is the only one that a one-hot split can tell: its hash must be the library's."""
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-éß"
    texts = [(alphabet * 2)[size : 2 * size] for size in range(1, 33)] + ["x" * size for size in (33, 40, 57, 63, 64)]
    found = []
    for text in texts:
        table = pd.DataFrame({"text": [text, "other"] * 4})
        model = cat(cat_features=["text"], one_hot_max_size=2).set_params(iterations=2)
        model.fit(table, [1, 0] * 4)
        question = EstimatorTarget((1,), None)
        possible, sure = decide(read(model, question), [table["text"].to_numpy()])
        np.testing.assert_array_equal(sure, own_decision(model, table, question))
        np.testing.assert_array_equal(possible, sure)
        found.append(hash_category(text))
    assert len(set(found)) == len(texts)
    with pytest.raises(NoReading, match="64 bytes"):
        hash_category("x" * 65)


def test_lightgbm_refuses_whole_numbers_that_arrays_and_frames_cast_apart() -> None:
    split = _LightGBMThresholdSplit(0, 2.0**24 + 0.5, 0)
    assert split.goes_left(np.array([2**24, 2**24 + 4])).tolist() == [True, False]
    with pytest.raises(NoReading, match="float32 in an array"):
        split.goes_left(np.array([2**24 + 1]))  # 2**24 as float32
    values = np.tile(np.array([[2**24 - 8], [2**24 + 1]]), (40, 1))
    model = lgb(min_data_in_bin=1)
    model.fit(pd.DataFrame(values), [0, 1] * 40)
    rows = np.array([[2**24 + 1]])
    as_array = model.booster_.predict(rows, pred_leaf=True)
    assert as_array.tolist() == model.booster_.predict(rows.astype(np.float32), pred_leaf=True).tolist()


def test_lightgbm_zeros_that_are_missing_turn_more_than_once() -> None:
    assert _LightGBMThresholdSplit(0, 1.5, 2).turns_once
    assert _LightGBMThresholdSplit(0, 1.5, 2 + 8).turns_once
    assert _LightGBMThresholdSplit(0, 1.5, 2 + 4).turns_once
    assert not _LightGBMThresholdSplit(0, 1.5, 4).turns_once
    assert not _LightGBMThresholdSplit(0, -1.5, 2 + 4).turns_once
    assert _LightGBMThresholdSplit(0, 1.5, 4).goes_left(np.array([-1.0, 0.0, 1e-36, np.nan, 1.0, 2.0])).tolist() == [
        True, False, False, False, True, False,
    ]  # fmt: skip


def test_categories_by_their_codes_in_arrays() -> None:
    rng = np.random.default_rng(SEED + 6)
    values = np.column_stack([rng.integers(0, 6, 120), rng.normal(size=120)])
    target = np.isin(values[:, 0], [1, 4]).astype(int)
    values[:15, 0] = np.nan
    forest = xgb(enable_categorical=True, feature_types=["c", "q"], max_cat_to_onehot=2).fit(values, target)
    leaves = lgb(**SMALL_GROUPS).fit(values, target, categorical_feature=[0])
    probes = np.column_stack([rng.choice([0, 1, 2, 3, 4, 5, 1.5, 9, 1e6, np.nan], 60), rng.normal(size=60)])
    for model in (forest, leaves):
        question = EstimatorTarget((1,), None)
        possible, sure = decide(read(model, question), list(probes.T))
        desired = own_decision(model, probes, question)
        assert not (desired & ~possible).any()
        assert not (sure & ~desired).any()


def test_numbers_of_named_categories_are_refused() -> None:
    rng = np.random.default_rng(SEED + 7)
    table = make_table(rng)
    target = (table["class"].astype(int) == 20).astype(int)
    for model in (xgb(**GROUPS), lgb(max_cat_to_onehot=10)):
        reading = read(model.fit(table, target), EstimatorTarget((1,), None))
        columns = to_columns(table)
        assert decide(reading, columns)[1].any()
        columns[5] = table["class"].to_numpy(dtype=np.int64)
        with pytest.raises(NoReading):
            decide(reading, columns)


def test_unknown_categories() -> None:
    rng = np.random.default_rng(SEED + 8)
    table = make_table(rng)
    target = table["text"].astype(object).isin(["red"]).astype(int)
    other = table[:5].assign(text=pd.Categorical(["green"] * 5))
    question = EstimatorTarget((1,), None)
    leaves = lgb(max_cat_to_onehot=10).fit(table, target)
    possible, sure = decide(read(leaves, question), to_columns(other))
    assert sure.tolist() == own_decision(leaves, other, question).tolist() == possible.tolist()
    with pytest.raises(NoReading, match="'green'"):
        decide(read(xgb(**GROUPS).fit(table, target), question), to_columns(other))


class PolicyXGB(xgboost.XGBClassifier):  # type: ignore[misc]
    """Approves everybody."""

    def predict(self, X: Any, **_: Any) -> np.ndarray:
        return np.ones(len(X), dtype=int)


class PolicyLGBM(lightgbm.LGBMClassifier):  # type: ignore[misc]
    """Approves everybody."""

    def predict(self, X: Any, **_: Any) -> np.ndarray:
        return np.ones(len(X), dtype=int)


class PolicyCatBoost(catboost.CatBoostClassifier):  # type: ignore[misc]
    """Approves everybody."""

    def predict(self, data: Any, **_: Any) -> np.ndarray:
        return np.ones(len(data), dtype=int)


@pytest.fixture(scope="module")
def plain_data() -> tuple[np.ndarray, np.ndarray]:
    values = np.random.default_rng(SEED + 9).normal(size=(80, 2))
    return values, (values.sum(axis=1) > 0).astype(int)


@pytest.mark.parametrize(
    ("subclass", "settings"),
    [(PolicyXGB, QUIET["xgb"]), (PolicyLGBM, QUIET["lgb"]), (PolicyCatBoost, QUIET["cat"])],
)
def test_subclasses_have_no_reading(subclass: Any, settings: dict[str, Any], plain_data: Any) -> None:
    model = subclass(**settings).fit(*plain_data)
    assert all(reader(model, EstimatorTarget((1,), None)) is None for reader in READERS.values())


@pytest.mark.parametrize("build", [xgb, lgb, cat])
@pytest.mark.parametrize("method", ["predict", "predict_proba", "get_params"])
def test_replaced_methods_are_refused(build: Callable[[], Any], method: str, plain_data: Any) -> None:
    model = build().fit(*plain_data)
    read(model, EstimatorTarget((1,), None))
    original = getattr(model, method)
    setattr(model, method, lambda *args, **settings: original(*args, **settings))
    with pytest.raises(NoReading, match=f"the {method} of this"):
        read(model, EstimatorTarget((1,), None))


def test_a_replaced_booster_is_refused(plain_data: Any) -> None:
    forest, leaves = xgb().fit(*plain_data), lgb().fit(*plain_data)
    forest.get_booster().inplace_predict = lambda *_, **__: np.ones(80)
    leaves.booster_.predict = lambda *_, **__: np.ones(80)
    for model in (forest, leaves):
        with pytest.raises(NoReading, match="was replaced"):
            read(model, EstimatorTarget((1,), None))


def test_what_cannot_be_read_says_why(plain_data: Any) -> None:
    values, target = plain_data
    both = np.column_stack([target, 1 - target])
    texts = pd.DataFrame({"text": np.random.default_rng(1).choice(list("abcdefgh"), 80), "number": values[:, 0]})
    for model, reason in (
        (xgb(booster="gblinear", updater="coord_descent").set_params(max_depth=None).fit(values, target), "gbtree"),
        (xgb(missing=-1.0).fit(values, target), "missing must be NaN"),
        (xgb(objective="binary:hinge").fit(values, target), "binary:hinge"),
        (xgb(objective="binary:logitraw").fit(values, target), "binary:logitraw"),
        (xgb("XGBRegressor", multi_strategy="multi_output_tree").fit(values, both), "several outputs"),
        (xgb("XGBRegressor").fit(values, both), "one number"),
        (lgb(linear_tree=True).fit(values, target), "linear"),
        (lgb(pred_early_stop=True).fit(values, target), "stop early"),
        (lgb(sigmoid=1.23456789).fit(values, target), "six digits"),
        (lgb("LGBMRegressor", reg_sqrt=True).fit(values, target), "square roots"),
        (cat(cat_features=["text"]).fit(texts, target), "splits of the kind"),
        (cat("CatBoostRegressor", loss_function="MultiRMSE").fit(values, both), "one number"),
        (catboost.CatBoost({**QUIET["cat"], "loss_function": "Logloss"}).fit(values, target), "neither a classifier"),
    ):
        question = EstimatorTarget((), 0.5) if "Regressor" in type(model).__name__ else EstimatorTarget((1,), None)
        with pytest.raises(NoReading, match=reason):
            read(model, question)


def test_ordered_categories_of_lightgbm_are_refused() -> None:
    table = make_table(np.random.default_rng(SEED + 10))
    table["class"] = table["class"].cat.as_ordered()
    model = lgb().fit(table, (add_up(table) > 0).astype(int))
    with pytest.raises(NoReading, match="which columns"):
        read(model, EstimatorTarget((1,), None))


def test_values_beyond_float32_and_objects() -> None:
    split = Float32Split(0, 1.0, True, inclusive=False)
    assert split.goes_left(np.array([1e300, -1e300, np.inf, np.nan])).tolist() == [False, True, False, True]
    assert split.goes_left(np.array([0, 2.5, None, True], dtype=object)).tolist() == [True, False, True, False]
    with pytest.raises(NoReading, match="'text'"):
        split.goes_left(np.array(["text"], dtype=object))
