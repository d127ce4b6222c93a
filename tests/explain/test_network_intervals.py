"""Networks over whole intervals: proven rules hold for any number, the checker agrees, and doubt is said."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer, Explanation, Proven, check
from waiting import PATIENCE


def measured(rows: int = 80) -> tuple[pd.DataFrame, Any]:
    """Three numbers, one of them whole."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "income": np.round(rng.gamma(3.0, 300.0, rows), 1),
            "debt": rng.choice([0.0, 0.1, 0.25, 0.7, 1.9], rows),
            "accounts": rng.choice([0, 1, 4, 9], rows),
        }
    )
    score = table["income"] / 500 - table["debt"] - table["accounts"] / 5
    return table, (score + rng.normal(0, 0.4, rows) > 0.5).astype(int).to_numpy()


def fitted(activation: str, table: pd.DataFrame, outcome: Any, *steps: Any) -> Any:
    network = MLPClassifier((5, 3), activation=activation, solver="lbfgs", max_iter=300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(*steps, StandardScaler(), network).fit(table, outcome)


def anybody(explainer: Explainer, table: pd.DataFrame, rows: int = 6000) -> pd.DataFrame:
    """Any numbers between the extremes, values of the domains, and the floating-point neighbours of these."""
    rng, columns = np.random.default_rng(0), dict[str, Any]()
    for name in table.columns:
        values = np.array(explainer.space[name].values)
        if values.dtype.kind == "i":
            columns[name] = rng.integers(values[0], values[-1], rows, endpoint=True)
            continue
        near = np.concatenate([np.nextafter(values, -np.inf), np.nextafter(values, np.inf), values])
        numbers = np.where(rng.random(rows) < 0.5, rng.uniform(values[0], values[-1], rows), rng.choice(near, rows))
        columns[name] = numbers.clip(values[0], values[-1])
    return pd.DataFrame(columns)


def assert_checked(explanation: Explanation, models: Any, table: pd.DataFrame) -> None:
    result = check(explanation, models, table)
    assert {finding.status for finding in result.findings} == {"holds"}, result.findings


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
def test_no_number_between_the_extremes_is_an_exception(activation: str) -> None:
    table, outcome = measured()
    model = fitted(activation, table, outcome)
    explainer = Explainer(model, table, desired=1, domain="interval")
    everybody = anybody(explainer, table)
    desired = model.predict(everybody) == 1
    assert desired.any()
    for row in np.flatnonzero(~explainer.outcomes)[:6].tolist():
        explanation = explainer.explain(row)
        assert isinstance(explanation.verdict, Proven)
        assert explanation.minimum
        for rule in (explanation.rule, explanation.wider.rule):
            assert not desired[rule.covers(everybody)].any()
        assert_checked(explanation, model, table)


def test_whole_numbers_are_listed_and_others_get_a_grid() -> None:
    table, outcome = measured()
    space = Explainer(fitted("relu", table, outcome), table, desired=1).space
    assert space["accounts"].values == tuple(range(10))
    assert np.diff(space["debt"].values).max() <= 1.1 * 1.9 / 256
    assert {*table["debt"]} <= {*space["debt"].values}


def tent_model(at: float, width: float) -> tuple[Any, pd.DataFrame]:
    """A network that desires only what lies within so much of a number, between values that were seen."""
    table = pd.DataFrame({"x": np.arange(11.0), "y": np.tile([0.0, 1.0], 6)[:11]})
    model = fitted("relu", table, np.arange(11) % 2)
    scaler, network = model[0], model[-1]
    scale, mean = scaler.scale_[0], scaler.mean_[0]
    first = np.zeros((2, 5))
    first[0, :3] = scale
    network.coefs_ = [first, np.zeros((5, 3)), np.array([[1.0], [0.0], [0.0]])]
    network.intercepts_ = [
        np.concatenate([mean - np.array([at - width, at, at + width]), np.zeros(2)]),
        np.zeros(3),
        np.array([-0.5]),
    ]
    network.coefs_[1][:3, 0] = np.array([1.0, -2.0, 1.0]) / width
    return model, table


@pytest.mark.parametrize("width", [0.3, 1e-3, 1e-5])
def test_a_spike_between_two_values_is_never_proven_away(width: float) -> None:
    model, table = tent_model(4.6234567, width)
    assert model.predict(pd.DataFrame({"x": [4.6234567], "y": [0.0]})).tolist() == [1]
    seen = Explainer(model, table, desired=1, domain="seen").explain(2)
    assert isinstance(seen.verdict, Proven)
    explainer = Explainer(model, table, desired=1, domain="interval")
    explanation = explainer.explain(2, budget=PATIENCE)
    people = pd.DataFrame({"x": np.concatenate([[4.6234567], np.linspace(0, 10, 500)]), "y": 0.5})
    desired = model.predict(people) == 1
    assert isinstance(explanation.verdict, Proven)
    for proven in (explanation, *([] if explanation.wider is None else [explanation.wider])):
        assert not desired[proven.rule.covers(people)].any()
    for rule in (["x <= 10"], ["x <= 10", "y == 0"]):  # the second has so few values that all can be asked about
        assert not isinstance(explainer.judge(2, rule, budget=2).verdict, Proven)


def test_the_checker_finds_out_a_search_that_overlooks_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    model, table = tent_model(4.1234567, 1e-5)
    explainer = Explainer(model, table, desired=1, domain="interval")
    with monkeypatch.context() as patch:
        nothing = "ironrule.backends.network.compile.find_open_gaps"
        patch.setattr(nothing, lambda feature: np.zeros(max(len(feature.values) - 1, 0), dtype=np.bool_))
        wrong = Explainer(model, table, desired=1, domain="interval").explain(2)
    assert (wrong.cardinality, isinstance(wrong.verdict, Proven)) == (0, True)
    statuses = {finding.claim: finding.status for finding in check(wrong, model, table).findings}
    assert statuses["rule: verdict"] != "holds"
    assert_checked(explainer.explain(2, budget=PATIENCE), model, table)


def test_a_row_with_unseen_numbers_is_explained_and_checked() -> None:
    table, outcome = measured()
    model = fitted("tanh", table, outcome)
    explainer = Explainer(model, table, desired=1)
    everybody = anybody(explainer, table)
    desired = model.predict(everybody) == 1
    for row in (
        {"income": 312.3456, "debt": 0.4321, "accounts": 5},
        {"income": 100.0, "debt": 2.5, "accounts": 12},  # beyond the extremes
    ):
        explanation = explainer.explain(row)
        assert isinstance(explanation.verdict, Proven)
        assert not desired[explanation.rule.covers(everybody)].any()
        assert not desired[explanation.wider.rule.covers(everybody)].any()
        assert_checked(explanation, model, table)


def test_claims_that_need_the_exact_place_say_how_exactly_it_is_known() -> None:
    table, outcome = measured()
    model = fitted("relu", table, outcome)
    explainer = Explainer(model, table, desired=1)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    found = explainer.counterfactuals(row, features_to_vary=["income"], budget=PATIENCE)
    assert found.proven
    assert 0 < found.resolution < 0.01
    incomes = np.linspace(table.income.min(), table.income.max(), 50_001)
    points = table.iloc[[row] * len(incomes)].assign(income=incomes)
    least = np.abs(incomes[model.predict(points) == 1] - table.income.iloc[row]).min()
    span = np.ptp(table.income)
    assert abs(found[0].values["income"] - table.income.iloc[row]) <= least + found.resolution * span
    assert explainer.counterfactuals(row, features_to_vary=["accounts"]).proven  # all its values are listed


def test_a_narrow_range_of_numbers_is_not_missed_between_two_values() -> None:
    model, table = tent_model(4.1234567, 1e-3)
    seen = Explainer(model, table, desired=1, domain="seen").counterfactuals(2, budget=PATIENCE)
    assert (len(seen), seen.proven) == (0, True)
    found = Explainer(model, table, desired=1, domain="interval").counterfactuals(2, budget=PATIENCE)
    assert (len(found), found.proven) == (1, True)
    assert abs(found[0].values["x"] - 4.1229567) <= found.resolution * np.ptp(table.x)
    model, table = tent_model(20.0, 1e-3)  # beyond the range
    none = Explainer(model, table, desired=1, domain="interval").counterfactuals(2, budget=PATIENCE)
    assert (len(none), none.proven) == (0, True)


def test_missing_numbers_are_a_value_of_their_own() -> None:
    table, outcome = measured()
    table.loc[::7, "income"] = np.nan
    for indicator in (False, True):
        model = fitted("relu", table, outcome, SimpleImputer(add_indicator=indicator))
        explainer = Explainer(model, table, desired=1, domain="interval")
        everybody = anybody(explainer, table)
        everybody.loc[::5, "income"] = np.nan
        desired = model.predict(everybody) == 1
        for row in np.flatnonzero(~explainer.outcomes)[:4].tolist():
            explanation = explainer.explain(row, budget=PATIENCE)
            assert isinstance(explanation.verdict, Proven)
            assert not desired[explanation.rule.covers(everybody)].any()
            assert_checked(explanation, model, table)


def test_several_models_of_different_kinds() -> None:
    table, outcome = measured()
    models = [fitted("relu", table, outcome), DecisionTreeClassifier(max_depth=4, random_state=0).fit(table, outcome)]
    explainer = Explainer(models[0], table, desired=1, models=models[1:])
    everybody = anybody(explainer, table)
    desired = np.any([model.predict(everybody) == 1 for model in models], axis=0)
    undesired = np.all([model.predict(table) == 0 for model in models], axis=0)
    for row in np.flatnonzero(undesired)[:4].tolist():
        explanation = explainer.explain(row)
        assert isinstance(explanation.verdict, Proven)
        assert not desired[explanation.rule.covers(everybody)].any()
        result = check(explanation, models[0], table, models=models[1:])
        assert {finding.status for finding in result.findings} == {"holds"}


def test_constraints_on_numbers() -> None:
    table, outcome = measured()
    model, limit = fitted("relu", table, outcome), "cf.income <= 700.05 or cf.accounts >= 4"
    with pytest.warns(UserWarning, match="break the constraints"):
        explainer = Explainer(model, table, desired=1, constraints=[limit])
    everybody = anybody(explainer, table)
    everybody = everybody[(everybody["income"] <= 700.05) | (everybody["accounts"] >= 4)]
    desired = model.predict(everybody) == 1
    permitted = (table["income"] <= 700.05) | (table["accounts"] >= 4)
    for row in np.flatnonzero((model.predict(table) == 0) & permitted)[:4].tolist():
        explanation = explainer.explain(row)
        assert isinstance(explanation.verdict, Proven)
        assert not desired[explanation.rule.covers(everybody)].any()
        result = check(explanation, model, table, constraints=[limit])
        assert {finding.status for finding in result.findings} == {"holds"}
