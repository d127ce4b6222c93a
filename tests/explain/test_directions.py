"""Scores below a threshold are desired: by looking at every point, with scores exactly on the threshold."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from ironrule import Explainer, Explanation, OutcomeError, Proven, check
from ironrule.errors import InputError
from ironrule.model.decision import DecisionTarget
from ironrule.server.served_model import ServedModel

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
XGB = {"n_estimators": 5, "max_depth": 2, "n_jobs": 1, "random_state": 0}
LGB = {"n_estimators": 5, "num_leaves": 4, "min_child_samples": 3, "n_jobs": 1, "verbose": -1}

REGRESSORS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeRegressor(max_depth=3, random_state=0),
    "forest": lambda: RandomForestRegressor(4, max_depth=3, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=4, min_samples_leaf=3),
    "exponential": lambda: HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3, loss="poisson"),
    "least squares": LinearRegression,
    "xgboost": lambda: xgb.XGBRegressor(**XGB),
    "lightgbm": lambda: lgb.LGBMRegressor(**LGB),
    "network": lambda: MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=200, random_state=0),
}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": lambda: RandomForestClassifier(4, max_depth=3, random_state=0),
    "forest of pure leaves": lambda: RandomForestClassifier(8, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0),
    "AdaBoost": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=4, random_state=0),
    "vote": lambda: VotingClassifier(
        [("a", DecisionTreeClassifier(max_depth=2)), ("b", GradientBoostingClassifier(n_estimators=3))], voting="soft"
    ),
    "logistic regression": LogisticRegression,
    "naive Bayes": GaussianNB,
    "calibrated": lambda: CalibratedClassifierCV(RandomForestClassifier(3, max_depth=2, random_state=0), cv=2),
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "xgboost": lambda: xgb.XGBClassifier(**XGB),
    "lightgbm": lambda: lgb.LGBMClassifier(**LGB),
    "network": lambda: MLPClassifier(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=200, random_state=0),
}


def people(seed: int = 0, count: int = 90) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.choice([1.0, 2.5, 4.0, 7.5], count),
            "accounts": rng.integers(0, 4, count).astype(float),
            "late": rng.choice([0.0, 0.5, 3.0], count),
        }
    )
    risk = 3 - 0.4 * table["income"] + 0.5 * table["accounts"] + 0.6 * table["late"] + rng.normal(0, 0.4, count)
    return table, risk.clip(lower=0.05).to_numpy()


def everyone(explainer: Explainer) -> tuple[Any, pd.DataFrame]:
    points = np.array(list(itertools.product(*(range(size) for size in explainer.space.sizes))), dtype=np.int32)
    return points, pd.DataFrame([explainer.space.decode_row(point) for point in points])


def require_right(explainer: Explainer, scores: Any, threshold: float, checked: dict[str, Any]) -> None:
    """Every point is decided by its score, and denied rows are explained without an exception."""
    points, table = everyone(explainer)
    desired = scores(table) < threshold
    assert (explainer._context.model.desired(points) == desired).all()
    assert explainer.unreadable_reason is None
    for row in np.flatnonzero(~explainer.outcomes)[:2].tolist():
        explanation = explainer.explain(row)
        assert isinstance(explanation.verdict, Proven)
        assert explanation.minimum
        for rule in (explanation.rule, explanation.wider.rule):
            assert not desired[rule.covers(table)].any()
        assert f"at least {threshold!r}" in explanation.rule.outcome
        for counterfactual in explanation.counterfactuals:
            changes = {change.feature: change.after for change in counterfactual.changes}
            assert scores(pd.DataFrame([{**explanation.instance, **changes}]))[0] < threshold
        found = check(json.loads(explanation.to_json()), **checked)
        assert found.status == "proven", str(found)


def choose_domain(name: str) -> Any:
    """Values seen for networks: next to a score on the threshold, rounding decides between two values."""
    return "seen" if name == "network" else "auto"


@pytest.mark.parametrize("on_tie", [True, False])
@pytest.mark.parametrize("name", REGRESSORS)
def test_low_predictions_are_desired(name: str, on_tie: bool) -> None:
    table, risk = people()
    model = REGRESSORS[name]().fit(table, risk)
    predictions = np.sort(np.unique(model.predict(table)))
    middle = float(predictions[len(predictions) // 2])
    threshold = middle if on_tie else float(np.nextafter(middle, np.inf, dtype=predictions.dtype))
    explainer = Explainer(model, table, desired="below", threshold=threshold, domain=choose_domain(name))
    checked = {"model": model, "data": table, "desired": "below", "threshold": threshold}
    require_right(explainer, lambda rows: model.predict(rows[list(table)]), threshold, checked)


@pytest.mark.parametrize("on_tie", [True, False])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_low_probabilities_are_desired(name: str, on_tie: bool) -> None:
    table, risk = people(1)
    model = CLASSIFIERS[name]().fit(table, (risk > np.median(risk)).astype(int))
    probabilities = np.sort(np.unique(model.predict_proba(table)[:, 1]))
    middle = float(probabilities[len(probabilities) // 2])
    threshold = middle if on_tie else float(np.nextafter(middle, np.inf, dtype=probabilities.dtype))
    explainer = Explainer(model, table, desired="below", threshold=threshold, domain=choose_domain(name))
    checked = {"model": model, "data": table, "desired": "below", "threshold": threshold}
    require_right(explainer, lambda rows: model.predict_proba(rows[list(table)])[:, 1], threshold, checked)


def score_rows(table: pd.DataFrame) -> Any:
    return (table["accounts"] / 4 + table["late"] / 8).to_numpy()


def test_a_function_is_desired_strictly_below() -> None:
    table, _ = people()
    explainer = Explainer(score_rows, table, desired="below", threshold=0.5)
    ties = score_rows(table) == 0.5
    assert ties.any()
    assert (explainer.outcomes == (score_rows(table) < 0.5)).all()
    explanation = explainer.explain(int(np.flatnonzero(ties)[0]))
    assert "gets: a score of at least 0.5" in str(explanation)
    document = json.loads(explanation.to_json())
    assert document["decision"] == {"desired": None, "threshold": 0.5, "margin": 0.0, "direction": "below"}
    assert Explanation.from_json(explanation.to_json()).decision == explanation.decision
    found = check(document, score_rows, table, desired="below", threshold=0.5)
    assert found.status == "proven"
    assert "desired is a score below 0.5" in str(found)


def test_above_is_what_a_threshold_means_by_itself() -> None:
    table, _ = people()
    named = Explainer(score_rows, table, desired="above", threshold=0.5)
    plain = Explainer(score_rows, table, threshold=0.5)
    assert (named.outcomes == plain.outcomes).all()
    assert named.explain(int(np.flatnonzero(~named.outcomes)[0])).decision == DecisionTarget(None, 0.5)


def test_the_checker_tells_the_directions_apart() -> None:
    table, _ = people()
    explainer = Explainer(score_rows, table, desired="below", threshold=0.5)
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    for desired in (None, "above"):
        assert check(explanation, score_rows, table, desired=desired, threshold=0.5).status == "refuted"
    turned = json.loads(explanation.to_json())
    del turned["decision"]["direction"]
    assert check(turned, score_rows, table).status != "proven"


@pytest.mark.parametrize("margin", [0.125, 0.25])
def test_a_margin_raises_the_threshold(margin: float) -> None:
    table, risk = people(2)
    model = RandomForestRegressor(4, max_depth=3, random_state=0).fit(table, risk)
    threshold = float(np.quantile(model.predict(table), 0.4))
    explainer = Explainer(model, table, desired="below", threshold=threshold, margin=margin)
    _, whole = everyone(explainer)
    scores = model.predict(whole[list(table)])
    for row in np.flatnonzero(model.predict(table) >= threshold + margin)[:3].tolist():
        explanation = explainer.explain(row)
        assert isinstance(explanation.verdict, Proven)
        assert not (scores[explanation.wider.rule.covers(whole)] < threshold + margin).any()
        found = check(explanation, model, table, desired="below", threshold=threshold, margin=margin)
        assert found.status == "proven"
    near = np.flatnonzero((model.predict(table) >= threshold) & (model.predict(table) < threshold + margin))
    with pytest.raises(OutcomeError, match="within the margin"):
        explainer.explain(int(near[0]))


def test_rules_hold_for_every_version_of_a_model() -> None:
    table, risk = people(3)
    first = RandomForestRegressor(3, max_depth=2, random_state=0).fit(table, risk)
    second = LinearRegression().fit(table, risk)
    threshold = float(np.median(first.predict(table)))
    explainer = Explainer(first, table, desired="below", threshold=threshold, models=[second])
    _, whole = everyone(explainer)
    desired = (first.predict(whole[list(table)]) < threshold) | (second.predict(whole[list(table)]) < threshold)
    row = int(np.flatnonzero((first.predict(table) >= threshold) & (second.predict(table) >= threshold))[0])
    explanation = explainer.explain(row)
    assert isinstance(explanation.verdict, Proven)
    assert not desired[explanation.rule.covers(whole)].any()
    found = check(explanation, first, table, models=[second], desired="below", threshold=threshold)
    assert found.status == "proven"


@pytest.mark.parametrize("name", ["forest", "least squares"])
def test_whole_intervals_below_a_threshold(name: str) -> None:
    table, risk = people(4)
    model = REGRESSORS[name]().fit(table, risk)
    threshold = float(np.quantile(model.predict(table), 0.2))
    explainer = Explainer(model, table, desired="below", threshold=threshold, domain="interval")
    explanation = explainer.explain(int(np.argmax(model.predict(table))))
    assert isinstance(explanation.verdict, Proven)
    rng = np.random.default_rng(0)
    between = pd.DataFrame({column: rng.uniform(table[column].min(), table[column].max(), 5000) for column in table})
    between = between.mask(rng.random(between.shape) < 0.6, pd.Series(explanation.instance), axis=1)
    covered = explanation.wider.rule.covers(between)
    assert covered.any()
    assert not (model.predict(between)[covered] < threshold).any()
    found = check(explanation, model, table, desired="below", threshold=threshold, intervals=True)
    assert found.status == "proven", str(found)


def test_a_served_model_checks_in_its_direction() -> None:
    table, _ = people()
    served = ServedModel.from_model(score_rows, table, "risks", desired="below", threshold=0.5)
    explanation = served.explainer.explain(int(np.flatnonzero(~served.explainer.outcomes)[0]))
    assert served.check(json.loads(explanation.to_json())).status == "proven"


def test_a_class_of_that_name_wins() -> None:
    table, risk = people()
    model = LogisticRegression().fit(table, np.where(risk > np.median(risk), "above", "below"))
    explainer = Explainer(model, table, desired="below", threshold=0.25)
    assert (explainer.outcomes == (model.predict_proba(table)[:, 1] > 0.25)).all()
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    assert "at most 0.25 for 'below'" in explanation.rule.outcome
    assert check(explanation, model, table, desired="below", threshold=0.25).status == "proven"
    by_label = Explainer(model, table, desired="below")
    assert (by_label.outcomes == (model.predict(table) == "below")).all()


def test_labels_of_a_function_may_have_these_names() -> None:
    table, _ = people()

    def name_side(rows: pd.DataFrame) -> Any:
        return np.where(score_rows(rows) < 0.5, "below", "above")

    assert (Explainer(name_side, table, desired="below").outcomes == (score_rows(table) < 0.5)).all()


def test_what_is_refused() -> None:
    table, risk = people()
    named = LogisticRegression().fit(table, np.where(risk > np.median(risk), "bad", "good"))
    with pytest.raises(OutcomeError, match="desired class must be one of"):
        Explainer(named, table, desired="below", threshold=0.3)
    with pytest.raises(OutcomeError, match="pass threshold"):
        Explainer(named, table, desired="below")
    with pytest.raises(OutcomeError, match="pass threshold"):
        Explainer(score_rows, table, desired="below")
    with pytest.raises(InputError, match="direction"):
        DecisionTarget.from_dict({"desired": None, "threshold": None, "margin": 0.0, "direction": "below"})
