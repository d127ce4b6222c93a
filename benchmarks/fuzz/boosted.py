"""Families of other libraries: XGBoost, LightGBM, CatBoost, interpret, pyGAM."""

from __future__ import annotations

from typing import Any

from benchmarks.fuzz.data import Rng, Table, Wish
from benchmarks.fuzz.pipelines import Accepts
from benchmarks.fuzz.recipes import Recipe, pick, seed_of

ALL = ("binary", "binary", "three", "regression")
NAN = Accepts(missing=True)
CATEGORIES = Wish(kinds=("int", "float", "category", "category"), missing=True, forms=("pandas",))
NUMBERS = Wish(kinds=("int", "float", "close", "flag"), forms=("numpy",))


def _xgboost(rng: Rng, task: str, _table: Table) -> Any:
    import xgboost

    kinds = {"regression": xgboost.XGBRegressor}
    kind = kinds.get(task, xgboost.XGBClassifier)
    return kind(
        n_estimators=int(rng.integers(1, 7)),
        max_depth=int(rng.integers(1, 4)),
        learning_rate=float(rng.choice([0.1, 0.3, 1.0])),
        min_child_weight=0.1,
        booster=pick(rng, "gbtree", "gbtree", "dart"),
        tree_method=pick(rng, "hist", "exact"),
        n_jobs=1,
        random_state=seed_of(rng),
    )


def _xgboost_forest(rng: Rng, task: str, _table: Table) -> Any:
    import xgboost

    kind = xgboost.XGBRFRegressor if task == "regression" else xgboost.XGBRFClassifier
    return kind(n_estimators=int(rng.integers(1, 6)), max_depth=3, n_jobs=1, random_state=seed_of(rng))


def _xgboost_categories(rng: Rng, task: str, _table: Table) -> Any:
    import xgboost

    kind = xgboost.XGBRegressor if task == "regression" else xgboost.XGBClassifier
    return kind(
        n_estimators=int(rng.integers(1, 6)),
        max_depth=3,
        min_child_weight=0.1,
        enable_categorical=True,
        max_cat_to_onehot=pick(rng, 1, 4, 16),
        n_jobs=1,
        random_state=seed_of(rng),
    )


def _lightgbm(rng: Rng, task: str, _table: Table) -> Any:
    import lightgbm

    kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    boosting = pick(rng, "gbdt", "gbdt", "dart", "rf")
    bagging: dict[str, Any] = {"bagging_freq": 1, "bagging_fraction": 0.8} if boosting == "rf" else {}
    return kind(
        n_estimators=int(rng.integers(1, 7)),
        num_leaves=int(rng.integers(2, 9)),
        min_child_samples=1,
        min_data_in_bin=1,
        boosting_type=boosting,
        verbose=-1,
        n_jobs=1,
        random_state=seed_of(rng),
        **bagging,
    )


def _catboost(rng: Rng, task: str, table: Table) -> Any:
    import catboost  # type: ignore[import-untyped]

    kind = catboost.CatBoostRegressor if task == "regression" else catboost.CatBoostClassifier
    texts = [column.name for column in table.columns if column.kind == "text"]
    return kind(
        iterations=int(rng.integers(1, 7)),
        depth=int(rng.integers(1, 4)),
        one_hot_max_size=20,
        cat_features=texts,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
        random_seed=seed_of(rng),
    )


def _ebm(rng: Rng, task: str, _table: Table) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor  # type: ignore[import-untyped]

    kind = ExplainableBoostingRegressor if task == "regression" else ExplainableBoostingClassifier
    return kind(
        max_rounds=8,
        outer_bags=1,
        interactions=0 if task == "three" else int(rng.integers(0, 3)),
        max_bins=8,
        min_samples_leaf=1,
        n_jobs=1,
        random_state=seed_of(rng),
    )


def _gam(rng: Rng, task: str, _table: Table) -> Any:
    from pygam import LinearGAM, LogisticGAM  # type: ignore[import-untyped]

    kind = LinearGAM if task == "regression" else LogisticGAM
    return kind(n_splines=int(rng.integers(4, 7)), max_iter=15)


XGBOOST, LIGHTGBM, CATBOOST = ("xgboost",), ("lightgbm",), ("catboost",)
RECIPES = (
    Recipe("xgboost", _xgboost, ALL, accepts=NAN, numbered=True, threshold_of_three=True, libraries=XGBOOST),
    Recipe("xgboost forest", _xgboost_forest, ALL, accepts=NAN, numbered=True, libraries=XGBOOST),
    Recipe(
        "xgboost with categories",
        _xgboost_categories,
        ALL,
        CATEGORIES,
        NAN,
        numbered=True,
        bare=True,
        threshold_of_three=True,
        libraries=XGBOOST,
    ),
    Recipe("lightgbm", _lightgbm, ALL, accepts=NAN, threshold_of_three=True, libraries=LIGHTGBM),
    Recipe(
        "lightgbm with categories", _lightgbm, ALL, CATEGORIES, NAN, bare=True, threshold_of_three=True,
        libraries=LIGHTGBM,
    ),
    Recipe(
        "catboost",
        _catboost,
        ALL,
        Wish(kinds=("int", "float", "close", "flag", "text"), forms=("pandas",)),
        bare=True,
        threshold_of_three=True,
        libraries=CATBOOST,
    ),
    Recipe(
        "explainable boosting",
        _ebm,
        ALL,
        Wish(kinds=("int", "float", "close", "text"), missing=True, forms=("pandas",)),
        bare=True,
        threshold_of_three=True,
        libraries=("interpret",),
        every=3,
    ),
    Recipe(
        "pygam", _gam, ("binary", "regression"), NUMBERS, bare=True, numbered=True, threshold=False,
        libraries=("pygam",), every=3,
    ),
)  # fmt: skip
"""The families of other libraries."""
