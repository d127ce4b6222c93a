"""Explanations of trained models of many kinds, on data of many kinds: explained, written, and confirmed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from applications import DENIED, decide, past, score, wide
from ironrule import Budget, Check, Checker, Explainer, ModelError, check
from ironrule.checker.bounds.sum_bounds import SumBounds
from ironrule.search.algorithms import ALGORITHMS
from ironrule.verdict.digest import add_digest

FOREST = RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0)
BOOSTING = GradientBoostingClassifier(n_estimators=12, max_depth=3, random_state=0)
MODELS = {
    "tree": DecisionTreeClassifier(random_state=0),
    "forest": FOREST,
    "boosting": BOOSTING,
    "stages": AdaBoostClassifier(n_estimators=4, random_state=0),
    "linear": LogisticRegression(),
    "naive": GaussianNB(),
    "votes": VotingClassifier([("a", FOREST), ("b", DecisionTreeClassifier(max_depth=2)), ("c", BOOSTING)]),
    "calibrated": CalibratedClassifierCV(LogisticRegression(), cv=3),
}


def loans(rows: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    """Raw applications, and three outcomes that depend on all columns, with noise."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "income": rng.integers(0, 7, rows) * 100.5,
            "accounts": rng.integers(0, 4, rows),
            "home": rng.choice(["own", "rent", "free"], rows),
            "age": rng.integers(20, 40, rows),
        }
    )
    value = table["income"] / 100 - table["accounts"] + (table["home"] == "own") + rng.normal(0, 0.7, rows)
    return table, np.select([value > 3, value > 1], ["good", "fair"], "bad")


def pipeline(model: Any, table: pd.DataFrame, target: Any) -> Any:
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["home"]), (StandardScaler(), ["income", "accounts", "age"])
    )
    return make_pipeline(encode, model).fit(table, target)


def explained(explainer: Explainer, count: int = 2, at: Any = None) -> list[Any]:
    rows = np.flatnonzero(~explainer.outcomes) if at is None else at
    return [explainer.explain(int(row)) for row in rows[:count]]


def firmly_denied(model: Any, other: Any, table: pd.DataFrame) -> Any:
    """Rows that both models deny by far."""
    worst = np.max([one.predict_proba(table)[:, list(one.classes_).index("good")] for one in (model, other)], axis=0)
    return np.flatnonzero(worst < 0.3)


def assert_proven(found: Check) -> None:
    assert found.status == "proven", str(found)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_proven_of_a_model_that_can_be_read_is_confirmed(name: str) -> None:
    table, outcome = loans()
    model = pipeline(MODELS[name], table, np.where(outcome == "good", "good", "bad"))
    checker = Checker(model, table)
    explainer = Explainer(model, table, desired="good")
    assert explainer.unreadable_reason is None
    for explanation in explained(explainer):
        assert explanation.minimum
        assert_proven(checker.check(explanation.to_json()))


@pytest.mark.parametrize("desired", ["good", ["good", "fair"]], ids=str)
@pytest.mark.parametrize("name", ["forest", "boosting", "linear"])
def test_models_of_several_classes_are_confirmed(name: str, desired: Any) -> None:
    table, outcome = loans()
    model = pipeline(MODELS[name], table, outcome)
    checker = Checker(model, table)
    for explanation in explained(Explainer(model, table, desired=desired), 2):
        assert_proven(checker.check(explanation))


@pytest.mark.parametrize("library", ["xgboost.XGBClassifier", "lightgbm.LGBMClassifier", "catboost.CatBoostClassifier"])
def test_models_of_other_libraries_are_confirmed(library: str) -> None:
    package, kind = library.split(".")
    table, outcome = loans()
    quiet = {"lightgbm": {"verbose": -1}, "catboost": {"verbose": False, "allow_writing_files": False}}.get(package, {})
    made = getattr(importlib.import_module(package), kind)(n_estimators=10, max_depth=3, **quiet)
    numbers = table.drop(columns="home").to_numpy()
    model = made.fit(numbers, (outcome == "good").astype(int))
    checker = Checker(model, numbers)
    for explanation in explained(Explainer(model, numbers), 3):
        assert_proven(checker.check(explanation))


def test_a_regression_under_a_threshold_is_confirmed() -> None:
    table, outcome = loans()
    model = pipeline(GradientBoostingRegressor(n_estimators=8, random_state=0), table, (outcome == "good") * 2.5)
    explanation = explained(Explainer(model, table, threshold=1.25), 1)[0]
    assert_proven(check(explanation, model, table))
    assert check(explanation, model, table.iloc[:-1]).status != "proven"


@pytest.mark.parametrize("name", ["boosting", "forest"])
def test_rules_that_withstand_a_margin_and_other_versions_are_confirmed(name: str) -> None:
    table, outcome = loans()
    target = np.where(outcome == "good", "good", "bad")
    model, other = (pipeline(clone(MODELS[name]).set_params(random_state=seed), table, target) for seed in (0, 1))
    wanted = {"desired": "good", "margin": 0.05, "models": [other]}
    explanation = explained(Explainer(model, table, **wanted), 1, at=firmly_denied(model, other, table))[0]
    assert_proven(check(explanation, model, table, models=[other]))
    assert check(explanation, model, table).status != "proven"  # of one model alone it does not speak


def test_rules_over_whole_intervals_are_confirmed() -> None:
    table, outcome = loans()
    model = pipeline(MODELS["boosting"], table, np.where(outcome == "good", "good", "bad"))
    explanation = explained(Explainer(model, table, desired="good", domain="interval"), 1)[0]
    assert_proven(check(explanation, model, table, intervals=True))
    assert_proven(check(explanation, model, table))


def test_wider_rules_are_confirmed_to_be_the_widest() -> None:
    table, outcome = loans()
    model = pipeline(MODELS["boosting"], table, np.where(outcome == "good", "good", "bad"))
    explanation = explained(Explainer(model, table, desired="good"), 1)[0]
    assert explanation.wider is not None
    assert explanation.wider_is_maximal
    found = check(explanation, model, table)
    assert_proven(found)
    assert {"wider rule: verdict", "widest"} <= {finding.claim for finding in found.findings}


def test_every_kind_of_column_is_understood() -> None:
    table = past()
    explainer = Explainer(decide, table, desired="good")
    checker = Checker(decide, table)
    for row in (DENIED, 3, 5):
        if isinstance(row, dict) or not explainer.outcomes[row]:
            assert_proven(checker.check(explainer.explain(row, k=3).to_json()))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_explanations_of_every_algorithm_are_confirmed(algorithm: str) -> None:
    explanation = Explainer(decide, past(), desired="good").explain(DENIED, algorithm)
    found = check(explanation, decide, past())
    assert not found.failures, str(found)
    assert found.status in ("proven", "undecided")


def test_what_is_not_proven_is_not_confirmed_as_proven() -> None:
    table = wide()
    explanation = Explainer(score, table).explain({f"f{j}": 2 for j in range(8)})
    found = check(explanation, score, table)
    assert found.status == "undecided"
    assert {finding.status for finding in found.findings} == {"holds"}
    stopped = Explainer(score, table).explain({f"f{j}": 2 for j in range(8)}, budget=Budget(evaluations=20))
    assert check(stopped, score, table).status in ("undecided", "refuted")


@pytest.mark.parametrize(
    "change", [{"exception_bound": 0.0001}, {"samples": 10**9}, {"confidence": 0.5}, {"confidence": 1.0}]
)
def test_the_bound_on_exceptions_must_follow_from_the_search(change: dict[str, float]) -> None:
    table = wide()
    data = Explainer(score, table).explain({f"f{j}": 2 for j in range(8)}).to_dict()
    data["rules"][0]["verdict"] |= change
    assert "rule: verdict" in [failure.claim for failure in check(add_digest(data), score, table).failures]


def test_an_unrefuted_rule_with_a_known_exception_is_refuted() -> None:
    table = wide()
    data = Explainer(score, table).explain({f"f{j}": 2 for j in range(8)}).to_dict()
    data["rules"][0]["rule"]["components"].clear()
    data["rules"][0]["coverage"], data["weight"] = len(table), 0.0
    failures = [failure for failure in check(data, score, table).failures if failure.claim == "rule: verdict"]
    assert failures
    assert "there is an exception" in failures[0].sentence


def test_constraints_and_declared_columns_are_those_of_the_explainer() -> None:
    table, outcome = loans()
    model = pipeline(FOREST, table, np.where(outcome == "good", "good", "bad"))
    constraints = ["if cf.home == 'own' then cf.age >= 25", "cf.income >= x.income"]
    kept = table[(table["home"] != "own") | (table["age"] >= 25)]
    explanation = explained(Explainer(model, kept, desired="good", constraints=constraints), 1)[0]
    assert_proven(check(explanation, model, kept, constraints=constraints))
    assert_proven(check(explanation, model, kept, constraints=constraints[0]))
    assert check(explanation, model, kept).status == "undecided"

    def asked(rows: pd.DataFrame) -> Any:
        return (rows["income"] > 300).astype(float)

    explanation = explained(Explainer(asked, table, columns=["income", "home"]), 1)[0]
    assert_proven(check(explanation, asked, table, columns=["income", "home"]))
    assert check(explanation, asked, table).status == "undecided"


def test_a_reading_that_decides_otherwise_than_the_model_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table, outcome = loans()
    model = pipeline(MODELS["tree"], table, np.where(outcome == "good", "good", "bad"))
    explanation = explained(Explainer(model, table, desired="good"), 1)[0]
    monkeypatch.setattr(SumBounds, "decide", lambda _, points: (np.zeros(len(points), bool),) * 2)
    found = check(explanation, model, table)
    assert found.status == "undecided"
    assert "decides otherwise than the model" in str(found)


def test_a_model_that_fails_is_told() -> None:
    explanation = Explainer(decide, past(), desired="good").explain(DENIED)

    def broken(_: Any) -> Any:
        raise ValueError("no licence")

    with pytest.raises(ModelError, match="no licence"):
        check(explanation, broken, past())


def test_a_checker_prepares_a_model_once() -> None:
    table, outcome = loans()
    model = pipeline(MODELS["tree"], table, np.where(outcome == "good", "good", "bad"))
    first, second = explained(Explainer(model, table, desired="good"), 2)
    checker = Checker(model, table)
    assert_proven(checker.check(first))
    read = [scope.models_with_bounds for scope in checker._scopes.values()]
    assert_proven(checker.check(second))
    assert [scope.models_with_bounds for scope in checker._scopes.values()] == read
