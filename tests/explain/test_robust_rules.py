"""Rules that hold although scores may move, and for several models at once: by looking at every point."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from test_exact_explanations import fitted, loans

from ironrule import Explainer, InputError, OutcomeError, Proven, check

MODELS = [
    RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0),
    GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0),
    LogisticRegression(),
]


def everyone(explainer: Explainer) -> pd.DataFrame:
    space = explainer.space
    points = itertools.product(*(range(size) for size in space.sizes))
    return pd.DataFrame([space.decode_row(np.array(point, dtype=np.int32)) for point in points])


def scores(model: Any, table: pd.DataFrame) -> Any:
    return model.predict_proba(table)[:, list(model.classes_).index("good")]


@pytest.mark.parametrize("margin", [0.05, 0.2])
@pytest.mark.parametrize("estimator", MODELS, ids=lambda model: type(model).__name__)
def test_with_a_margin_nobody_covered_comes_near_the_threshold(estimator: Any, margin: float) -> None:
    model, table = fitted(estimator, 0)
    explainer = Explainer(model, table, desired="good", margin=margin)
    plain = Explainer(model, table, desired="good")
    whole = everyone(explainer)
    for row in np.flatnonzero(scores(model, table) < 0.5 - margin)[:3].tolist():
        explanation = explainer.explain(row)
        assert isinstance(explanation.verdict, Proven)
        assert explanation.minimum
        for rule in (explanation.rule, explanation.wider.rule):
            assert (scores(model, whole)[rule.covers(whole)] <= 0.5 - margin + 1e-9).all()
        assert explanation.cardinality >= plain.explain(row).cardinality
        shown = [pd.DataFrame([{**explanation.instance, **changed(item)}]) for item in explanation.counterfactuals]
        assert all(model.predict(one)[0] == "good" for one in shown)
        assert f"moved by {margin:g}" in str(explanation)


def changed(counterfactual: Any) -> dict[str, Any]:
    return {change.feature: change.after for change in counterfactual.changes}


def test_a_row_within_the_margin_is_refused() -> None:
    model, table = fitted(MODELS[0], 0)
    score = scores(model, table)
    near = int(np.flatnonzero((score <= 0.5) & (score > 0.3))[0])
    with pytest.raises(OutcomeError, match="within the margin"):
        Explainer(model, table, desired="good", margin=0.2).explain(near)


def test_outcomes_are_those_of_the_model_itself() -> None:
    model, table = fitted(MODELS[0], 0)
    explainer = Explainer(model, table, desired="good", margin=0.2)
    assert (explainer.outcomes == (model.predict(table) == "good")).all()


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf"), "much", True])
def test_a_margin_must_be_a_number(margin: Any) -> None:
    model, table = fitted(MODELS[0], 0)
    with pytest.raises(InputError, match="margin"):
        Explainer(model, table, desired="good", margin=margin)


def test_a_margin_needs_a_score() -> None:
    model, table = fitted(LinearSVC(), 0)
    with pytest.raises(OutcomeError, match="margin needs a score"):
        Explainer(model, table, desired="good", margin=0.1)


def test_a_regression_with_a_threshold_takes_a_margin() -> None:
    table, outcome = loans(0)
    numbers = table[["income", "accounts"]]
    model = RandomForestRegressor(n_estimators=4, max_depth=3, random_state=0).fit(numbers, outcome == "good")
    explainer = Explainer(model, numbers, threshold=0.6, margin=0.1)
    whole = everyone(explainer)
    explanation = explainer.explain(int(np.argmin(model.predict(numbers))))
    assert explanation.minimum
    assert (model.predict(whole)[explanation.wider.rule.covers(whole)] <= 0.5 + 1e-9).all()


@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_one_rule_holds_for_several_models_at_once(margin: float) -> None:
    versions = [fitted(estimator, 0)[0] for estimator in MODELS]
    table = fitted(MODELS[0], 0)[1]
    explainer = Explainer(versions[0], table, desired="good", models=versions[1:], margin=margin)
    single = Explainer(versions[0], table, desired="good")
    whole = everyone(explainer)
    worst = np.max([scores(model, table) for model in versions], axis=0)
    for row in np.flatnonzero(worst < 0.5 - margin)[:3].tolist():
        explanation = explainer.explain(row)
        assert explanation.minimum
        assert explanation.cardinality >= single.explain(row).cardinality
        for model in versions:
            assert (scores(model, whole)[explanation.wider.rule.covers(whole)] <= 0.5 - margin + 1e-9).all()
        assert explanation.model != single.explain(row).model


class LabelsBesideProbabilities:
    """A classifier whose labels desire more than its probabilities do, as those of SVC(probability=True) may."""

    classes_ = np.array([0, 1])

    def __init__(self, largest_denied: int) -> None:
        self.largest_denied = largest_denied

    def predict(self, rows: Any) -> Any:
        return ((np.asarray(rows)[:, 0] > 3) | (np.asarray(rows)[:, 1] > self.largest_denied)).astype(int)

    def predict_proba(self, rows: Any) -> Any:
        probability = np.where(np.asarray(rows)[:, 0] > 3, 0.9, 0.1)
        return np.stack([1 - probability, probability], axis=1)


@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_with_a_margin_the_labels_of_every_model_count(margin: float) -> None:
    first, second = LabelsBesideProbabilities(9), LabelsBesideProbabilities(2)
    past = np.array([[left, right] for left in range(6) for right in range(4)])
    explanation = Explainer(first, past, desired=1, models=[second], margin=margin).explain(0)
    covered = past[explanation.rule.covers(pd.DataFrame(past, columns=["x0", "x1"]))]
    assert not first.predict(covered).any()
    assert not second.predict(covered).any()
    assert check(explanation.to_json(), first, past, desired=1, models=[second], margin=margin).status == "proven"
