"""XGBoost's linear booster against its own decisions; and boosted or calibrated models whose reason says what to do."""

from __future__ import annotations

from typing import Any

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from exhaustive_checks import assert_shortest, measure_undecided_share
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier

from ironrule import Explainer, check
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.registry import read_estimator

LINEAR = {"booster": "gblinear", "n_estimators": 20, "n_jobs": 1, "updater": "coord_descent"}


def people(count: int = 120) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "income": rng.choice([1.0, 2.5, 4.1, 7.3], count),
            "accounts": rng.integers(0, 4, count),
            "late": rng.choice([0.0, 0.5, 3.0], count),
        }
    )
    score = 0.4 * table["income"] - 0.5 * table["accounts"] - 0.6 * table["late"] + rng.normal(0, 0.4, count)
    return table, score.to_numpy()


def require_right(model: Any, table: pd.DataFrame, **wanted: Any) -> None:
    # A threshold that is a prediction: over whole intervals rounding would decide next to it.
    explainer = Explainer(model, table, **wanted, domain="seen" if "threshold" in wanted else "auto")
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) < 0.1
    assert assert_shortest(explainer, rows=3) > 0
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    found = check(explainer.explain(row), model, table, **({"desired": 1} | wanted))
    assert found.status == "proven", str(found)
    assert found.reading == "shared"


@pytest.mark.parametrize("desired", [0, 1])
@pytest.mark.parametrize("base", [None, 0.25])
@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw", "binary:hinge"])
def test_a_linear_classifier(objective: str, base: float | None, desired: int) -> None:
    table, score = people()
    model = xgb.XGBClassifier(**LINEAR, objective=objective, base_score=base).fit(table, score > np.median(score))
    if objective == "binary:logistic":
        require_right(model, table, desired=desired)
        probabilities = np.sort(np.unique(model.predict_proba(table)[:, desired]))
        require_right(model, table, desired=desired, threshold=float(probabilities[len(probabilities) // 2]))
    else:
        explainer = Explainer(model, table, desired=desired)
        if explainer.unreadable_reason is None:
            measure_undecided_share(explainer)


@pytest.mark.parametrize("objective", ["reg:squarederror", "count:poisson"])
def test_a_linear_regression(objective: str) -> None:
    table, score = people()
    model = xgb.XGBRegressor(**LINEAR, objective=objective).fit(table, score - score.min() + 0.1)
    predictions = np.sort(np.unique(model.predict(table)))
    threshold = float(predictions[len(predictions) // 2])
    for desired in ("above", "below"):
        require_right(model, table, desired=desired, threshold=threshold)


def test_what_a_linear_booster_does_not_say() -> None:
    table, score = people()
    several = xgb.XGBClassifier(**LINEAR).fit(table, np.digitize(score, np.quantile(score, [0.3, 0.6])))
    with pytest.raises(Unreadable, match="two classes or as a regression; use gbtree"):
        read_estimator(several, 1, None)
    numbered = xgb.XGBClassifier(**LINEAR, missing=0.0).fit(table, score > 0)
    with pytest.raises(Unreadable, match="only if missing values are NaN"):
        read_estimator(numbered, 1, None)


def test_what_is_not_read_says_what_to_do() -> None:
    table, score = people()
    labels = (score > np.median(score)).astype(int)
    linear_trees = lgb.LGBMClassifier(n_estimators=2, linear_tree=True, n_jobs=1, verbose=-1).fit(table, labels)
    named = table.assign(accounts=table["accounts"].astype(str))
    quiet = {"iterations": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    statistics = cb.CatBoostClassifier(**quiet, cat_features=["accounts"], one_hot_max_size=1).fit(named, labels)
    forest = RandomForestClassifier(3, max_depth=2, random_state=0)
    isotonic = CalibratedClassifierCV(forest, method="isotonic", cv=3).fit(table, labels)
    for model, data, reason in (
        (linear_trees, table, "fit it with linear_tree=False"),
        (statistics, named, "one_hot_max_size above the number of categories avoids them"),
        (isotonic, table, "fit it with ensemble=False or method='sigmoid'"),
    ):
        explainer = Explainer(model, data)
        assert reason in str(explainer.unreadable_reason)
        assert explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0])).rule.components
