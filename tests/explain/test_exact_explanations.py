"""Models that can be read, through the public face: what is called proven and minimum is, by looking at every point."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ironrule import Budget, Explainer, Proven, Refuted, Unrefuted
from ironrule.rule.instance_components import build_instance_components
from ironrule.search.algorithms import ALGORITHMS

MODELS = [
    DecisionTreeClassifier(random_state=0),
    RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0),
    ExtraTreesClassifier(n_estimators=4, max_depth=3, random_state=0),
    GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0),
    HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=3, random_state=0),
    AdaBoostClassifier(n_estimators=4, random_state=0),
    LogisticRegression(),
]


def loans(seed: int, rows: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    """Raw applications of four small features, and outcomes that depend on all of them, with noise."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.integers(0, 4, rows) * 100.5,
            "accounts": rng.integers(0, 3, rows),
            "home": rng.choice(["own", "rent", "free"], rows),
            "job": rng.choice(["cook", "clerk"], rows),
        }
    )
    score = table["income"] / 100 - table["accounts"] + (table["home"] == "own") + rng.normal(0, 0.7, rows)
    return table, np.where(score > 1, "good", "bad")


def fitted(estimator: Any, seed: int) -> tuple[Any, pd.DataFrame]:
    table, outcome = loans(seed)
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["home", "job"]), (StandardScaler(), ["income", "accounts"])
    )
    return make_pipeline(encode, estimator).fit(table, outcome), table


def shortest_by_looking(explainer: Explainer, model: Any, row: dict[str, Any]) -> int:
    """The least number of components that excludes every desired point, by asking the model about all points."""
    space = explainer.space
    points = np.array(list(itertools.product(*(range(size) for size in space.sizes))), dtype=np.int32)
    everyone = pd.DataFrame([space.decode_row(point) for point in points])
    desired = points[model.predict(everyone) == "good"]
    components = build_instance_components(space, space.encode_row(row))
    for count in range(len(components.usable_numbers) + 1):
        for chosen in itertools.combinations(components.usable_numbers, count):
            if not components.box(sum(1 << bit for bit in chosen)).contains(desired).any():
                return count
    raise AssertionError("the row itself is desired")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("estimator", MODELS, ids=lambda model: type(model).__name__)
def test_rules_of_readable_models_are_proven_and_minimum(estimator: Any, seed: int) -> None:
    model, table = fitted(estimator, seed)
    explainer = Explainer(model, table, desired="good")
    assert explainer.unreadable_reason is None
    denied = np.flatnonzero(~explainer.outcomes)[:6]
    for place in denied.tolist():
        explanation = explainer.explain(place, seed=seed)
        row = explainer.space.decode_row(explainer.space.encode(table).points()[place])
        assert isinstance(explanation.verdict, Proven)
        assert explanation.minimum
        assert explanation.statistics.algorithm == "Minimum"
        assert explanation.cardinality == explanation.lower_bound == shortest_by_looking(explainer, model, row)
        assert model.predict(table[explanation.rule.covers(table)]).tolist() == ["bad"] * explanation.coverage


@pytest.mark.parametrize("algorithm", ["greedy_cf", "genetic_cf"])
def test_the_papers_algorithms_prove_their_rules_on_readable_models(algorithm: str) -> None:
    model, table = fitted(MODELS[1], 0)
    explainer = Explainer(model, table, desired="good")
    denied = int(np.flatnonzero(~explainer.outcomes)[0])
    explanation = explainer.explain(denied, algorithm)
    assert isinstance(explanation.verdict, Proven)
    assert not explanation.minimum


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("estimator", [MODELS[0], MODELS[3]], ids=lambda model: type(model).__name__)
def test_on_a_readable_model_every_algorithms_rule_is_proven_or_refuted_whatever_its_size(
    estimator: Any, algorithm: str
) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 60, (150, 6)), columns=list("abcdef"))
    model = estimator.fit(table, np.where(table["a"] + table["b"] - table["c"] > 40, "good", "bad"))
    explainer = Explainer(model, table, desired="good")
    assert explainer.unreadable_reason is None
    for place in np.flatnonzero(~explainer.outcomes)[:4].tolist():
        for ranked in explainer.explain(place, algorithm).ranked:
            assert isinstance(ranked.verdict, Proven | Refuted)
            if isinstance(ranked.verdict, Refuted):
                exception = pd.DataFrame([dict(ranked.verdict.counterfactual.values)])
                assert ranked.rule.covers(exception).all()
                assert model.predict(exception).tolist() == ["good"]


def test_a_plain_function_is_only_asked_and_says_why() -> None:
    model, table = fitted(MODELS[0], 0)
    explainer = Explainer(model.predict, table, desired="good")
    reason = "Pipeline.predict is a function, which can only be asked, not read; pass the Pipeline itself"
    assert explainer.unreadable_reason == reason
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    assert explanation.statistics.algorithm == "GreedyRuleCF"
    assert explanation.unreadable_reason == explainer.unreadable_reason


def test_preprocessing_that_mixes_columns_is_not_read() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 4, (80, 3)), columns=["a", "b", "c"])
    model = make_pipeline(PCA(2), DecisionTreeClassifier(random_state=0)).fit(table, table["a"] + table["b"] > 3)
    explainer = Explainer(model, table, desired=True)
    assert explainer.unreadable_reason is not None
    assert "PCA" in explainer.unreadable_reason
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]), budget=Budget(evaluations=100))
    assert not isinstance(explanation.verdict, Proven)
    assert f"could only be asked, not read: {explainer.unreadable_reason}." in str(explanation)


def test_the_minimum_of_a_model_that_is_only_asked_is_never_called_proven_without_enumeration() -> None:
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 30, (300, 6)), columns=list("abcdef"))
    explainer = Explainer(lambda rows: (rows["a"] + rows["b"] > 30).astype(float), table)
    denied = int(np.flatnonzero(~explainer.outcomes)[0])
    explanation = explainer.explain(denied, "minimum", budget=Budget(evaluations=400_000))
    assert isinstance(explanation.verdict, Unrefuted)
    assert not explanation.minimum
    assert explanation.lower_bound <= explanation.cardinality


def test_a_model_that_is_too_large_to_read_is_asked_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("ironrule.model.read_model"), "MAX_NODES", 10)
    model, table = fitted(MODELS[1], 0)
    explainer = Explainer(model, table, desired="good")
    assert explainer.unreadable_reason is not None
    assert "nodes" in explainer.unreadable_reason


@pytest.mark.parametrize("restrictions", [{"require": ["job"]}, {"weights": {"income": 7}}, {"forbid": ["income"]}])
def test_nothing_is_said_of_rules_that_were_not_permitted(restrictions: dict[str, Any]) -> None:
    model, table = fitted(MODELS[0], 0)
    explainer = Explainer(model, table, desired="good")
    denied = int(np.flatnonzero(~explainer.outcomes)[0])
    free, bound = explainer.explain(denied), explainer.explain(denied, **restrictions)
    assert free.minimum
    assert "no shorter rule holds" in str(free)
    assert not bound.minimum
    assert "no shorter rule holds" not in str(bound)
    if isinstance(bound.verdict, Proven):
        assert bound.minimum_among_permitted
        assert bound.cardinality >= free.cardinality
