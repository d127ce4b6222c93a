"""Networks under the checker: covers of the search, false ones, and whole explanations of scikit-learn's networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from altered_certificates import accepted, confirm, corrupted, covers, has_exception
from hypothesis import given, settings, strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tiny_settings import Setting, scope_of_reading

from ironrule import Budget, Checker, Explainer, check
from ironrule.backends.network.compile import compile_network
from ironrule.backends.network.engine import BoundEngine, CpuEngine
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.oracles.protocol import BoxQuery
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.digest import add_digest
from ironrule.verdict.verdict import Proven
from random_networks import network_models
from tiny_cases import rules_of, run_of
from waiting import PATIENCE


@st.composite
def network_settings(draw: st.DrawFn) -> Setting:
    """A case whose model is a network, and the checker's scope of it."""
    case, read = draw(network_models())
    return Setting(case, read.normal_form, read.columns, scope_of_reading(case, read, case.instance[None, :]))


def certificate_of(made: Setting, data: st.DataObject, engine: BoundEngine | None = None) -> Certificate | None:
    """What the exact oracle hands out for a rule, if it proves it."""
    box = made.case.components.box(data.draw(rules_of(made.case)))
    oracle = NetworkOracle(compile_network(made.reading, made.columns, made.case.space), engine=engine or CpuEngine())
    with pytest.MonkeyPatch.context() as patch:  # what is found by climbing needs no cover
        patch.setattr("ironrule.backends.network.ascent.AscentSearch._climb_from", lambda *_: None)
        verdict = oracle.find(BoxQuery(made.case, box), run_of())
    return verdict.certificate.with_built_covers() if isinstance(verdict, Proven) else None


def close_at_once(patch: pytest.MonkeyPatch) -> None:
    """No piece is halved further, and only points by themselves are asked about."""
    patch.setattr("ironrule.checker.certificates.MAX_COMBINATIONS_PER_PIECE", 1)
    patch.setattr("ironrule.checker.certificates.MAX_HALVINGS", 0)
    patch.setattr("ironrule.checker.bounds.network_bounds.MAX_HALVINGS", 0)


@settings(deadline=None, max_examples=300)
@given(network_settings(), st.data())
def test_what_the_exact_oracle_closes_the_checker_closes_at_once(made: Setting, data: st.DataObject) -> None:
    certificate = certificate_of(made, data)
    if certificate is None:
        return
    assert not has_exception(made, certificate)
    with pytest.MonkeyPatch.context() as patch:
        close_at_once(patch)
        confirm(made, certificate)


@settings(deadline=None, max_examples=150)
@given(network_settings(), st.data())
def test_what_torch_closes_the_checker_closes_at_once(made: Setting, data: st.DataObject) -> None:
    pytest.importorskip("torch")
    from ironrule.backends.network.gpu.engine import TorchEngine

    certificate = certificate_of(made, data, TorchEngine("cpu", min_boxes=0))
    if certificate is None:
        return
    assert not has_exception(made, certificate)
    with pytest.MonkeyPatch.context() as patch:
        close_at_once(patch)
        confirm(made, certificate)


@settings(deadline=None, max_examples=150)
@given(network_settings(), st.data())
def test_no_cover_of_a_box_with_an_exception_is_ever_accepted(made: Setting, data: st.DataObject) -> None:
    box = made.case.components.box(data.draw(rules_of(made.case)))
    sizes = made.case.space.sizes.tolist()
    some = tuple(data.draw(covers(sizes)) for _ in made.reading.alternatives)
    low, high = (tuple(codes.tolist()) for codes in (box.low, box.high))
    certificate = Certificate("cover", sum(cover.pieces for cover in some), "", "", low, high, some)
    if has_exception(made, certificate):
        assert not accepted(made, certificate)


@settings(deadline=None, max_examples=150)
@given(network_settings(), st.data())
def test_a_corrupted_certificate_is_accepted_only_if_it_is_still_true(made: Setting, data: st.DataObject) -> None:
    certificate = certificate_of(made, data)
    if certificate is not None:
        altered = corrupted(data.draw, certificate, made.case.space.sizes.tolist())
        if accepted(made, altered):
            assert not has_exception(made, altered)


def loans(rows: int = 300) -> tuple[pd.DataFrame, Any]:
    """Raw applications with missing values, and three outcomes that depend on all columns, with noise."""
    rng = np.random.default_rng(5)
    debt = rng.integers(0, 5, rows).astype(float)
    debt[rng.random(rows) < 0.2] = np.nan
    table = pd.DataFrame(
        {
            "income": rng.integers(0, 9, rows) * 100.5,
            "accounts": rng.integers(0, 4, rows),
            "home": rng.choice(["own", "rent", "free"], rows),
            "debt": debt,
        }
    )
    value = table["income"] / 100 - table["accounts"] + 2 * (table["home"] == "own") - table["debt"].fillna(3)
    value += rng.normal(0, 0.7, rows)
    return table, np.select([value > 3, value > 0], ["good", "fair"], "bad")


def fitted(model: Any, table: pd.DataFrame, target: Any) -> Any:
    """The model behind scaling, one-hot coding and imputing that says what was missing."""
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["home"]),
        (StandardScaler(), ["income", "accounts"]),
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["debt"]),
    )
    return make_pipeline(encode, model).fit(table, target)


def network(activation: str = "relu", kind: Any = MLPClassifier) -> Any:
    given = {"solver": "lbfgs", "alpha": 1.0, "max_iter": 2000, "max_fun": 20_000, "random_state": 0}
    return kind(hidden_layer_sizes=(6, 5), activation=activation, **given)


def explained(explainer: Explainer, count: int = 2) -> list[Any]:
    assert explainer.unreadable_reason is None
    return [explainer.explain(int(row)) for row in np.flatnonzero(~explainer.outcomes)[:count]]


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
def test_what_is_proven_of_a_network_in_a_pipeline_is_confirmed(activation: str) -> None:
    table, outcome = loans()
    model = fitted(network(activation), table, np.where(outcome == "good", "good", "bad"))
    checker = Checker(model, table)
    for explanation in explained(Explainer(model, table, desired="good")):
        found = checker.check(explanation.to_json())
        assert (found.status, found.reading) == ("proven", "own"), str(found)
        document = explanation.to_dict()
        document["rules"][0]["rule"]["components"].pop()
        assert checker.check(add_digest(document)).status == "refuted"


@pytest.mark.parametrize("desired", ["good", ["good", "fair"]], ids=str)
def test_networks_of_several_classes_are_confirmed(desired: Any) -> None:
    table, outcome = loans()
    model = fitted(network(), table, outcome)
    checker = Checker(model, table)
    for explanation in explained(Explainer(model, table, desired=desired)):
        found = checker.check(explanation.to_json())
        assert (found.status, found.reading) == ("proven", "own"), str(found)


def test_networks_under_constraints_thresholds_and_margins_are_confirmed() -> None:
    table, outcome = loans()
    table = table[(table["accounts"] <= 2) | (table["income"] >= 300)].reset_index(drop=True)
    outcome = outcome[: len(table)]
    given = {"constraints": ["if cf.accounts >= 3 then cf.income >= 300"]}
    model = fitted(network("tanh"), table, (outcome == "good").astype(int))
    explainer = Explainer(model, table, threshold=0.6, margin=0.05, **given)
    sure = np.flatnonzero(model.predict_proba(table)[:, 1] < 0.3)
    found = check(explainer.explain(int(sure[0])).to_json(), model, table, **given)
    assert (found.status, found.reading) == ("proven", "own"), str(found)


def test_a_network_that_gives_numbers_is_confirmed() -> None:
    table, outcome = loans()
    model = fitted(network(kind=MLPRegressor), table, (outcome == "good") * 2.5)
    (explanation,) = explained(Explainer(model, table, threshold=1.25), 1)
    found = check(explanation.to_json(), model, table)
    assert (found.status, found.reading) == ("proven", "own"), str(found)


def test_a_network_beside_a_forest_is_confirmed() -> None:
    table, outcome = loans()
    target = (outcome == "good").astype(int)
    model = fitted(network(), table, target)
    other = fitted(RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0), table, target)
    explainer = Explainer(model, table, models=[other])
    both = np.flatnonzero((model.predict(table) == 0) & (other.predict(table) == 0))
    explanation = explainer.explain(int(both[0]), budget=Budget(seconds=PATIENCE))
    found = check(explanation.to_json(), model, table, models=[other])
    assert (found.status, found.reading) == ("proven", "own"), str(found)
    assert check(explanation.to_json(), model, table).status == "undecided"
