"""Rules over whole intervals: no number between the extremes is an exception, next to thresholds neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from ironrule import Explainer, ModelError, check
from ironrule.model.protocol import Unreadable
from waiting import PATIENCE

MODELS = [
    DecisionTreeClassifier(random_state=0),
    RandomForestClassifier(n_estimators=4, max_depth=4, random_state=0),
    GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0),
    HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=5, random_state=0),
    XGBClassifier(n_estimators=8, max_depth=3, random_state=0),
    LogisticRegression(),
    MLPClassifier((3,), solver="lbfgs", random_state=0),
]


def measured(rows: int = 90) -> tuple[pd.DataFrame, Any]:
    """Few distinct values of two numbers, so that thresholds lie between them; one whole number; one category."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "income": np.round(rng.gamma(3.0, 300.0, rows), 1),
            "debt": rng.choice([0.0, 0.1, 0.25, 0.7, 1.9], rows),
            "accounts": rng.choice([0, 1, 4, 9], rows),
            "home": rng.choice(["own", "rent"], rows),
        }
    )
    score = table["income"] / 500 - table["debt"] - table["accounts"] / 5 + (table["home"] == "own")
    return table, (score + rng.normal(0, 0.4, rows) > 1).astype(int).to_numpy()


def fitted(estimator: Any) -> tuple[Any, pd.DataFrame]:
    table, outcome = measured()
    scaled = (StandardScaler(), ["income", "debt", "accounts"])
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["home"]), scaled)
    return make_pipeline(encode, estimator).fit(table, outcome), table


def anybody(explainer: Explainer, table: pd.DataFrame, rows: int = 4000) -> pd.DataFrame:
    """Rows of any numbers between the extremes, and of the numbers next to every value of the refined domains."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"home": rng.choice(["own", "rent"], rows)}
    for name in ("income", "debt", "accounts"):
        low, high = table[name].min(), table[name].max()
        values = np.array(explainer.space[name].values, dtype=np.float64)
        if name == "accounts":
            columns[name] = rng.integers(low, high + 1, rows)
            continue
        near = np.clip(np.concatenate([np.nextafter(values, -np.inf), np.nextafter(values, np.inf), values]), low, high)
        columns[name] = np.where(rng.random(rows) < 0.5, rng.uniform(low, high, rows), rng.choice(near, rows))
    return pd.DataFrame(columns)[list(table.columns)]


@pytest.mark.parametrize("estimator", MODELS, ids=lambda model: type(model).__name__)
def test_no_number_between_the_extremes_is_an_exception(estimator: Any) -> None:
    model, table = fitted(estimator)
    explainer = Explainer(model, table, desired=1, domain="interval")
    listed = Explainer(model, table, desired=1, domain="seen")
    everybody = anybody(explainer, table)
    desired = model.predict(everybody) == 1
    for row in np.flatnonzero(~explainer.outcomes)[:6].tolist():
        explanation = explainer.explain(row)
        assert explanation.minimum
        assert explanation.cardinality >= listed.explain(row).cardinality
        for rule in (explanation.rule, explanation.wider.rule):
            assert not desired[rule.covers(everybody)].any()


@pytest.mark.parametrize("estimator", MODELS[:5], ids=lambda model: type(model).__name__)
def test_every_number_is_decided_like_a_neighbour_in_the_domain(estimator: Any) -> None:
    model, table = fitted(estimator)
    explainer = Explainer(model, table, desired=1, domain="interval")
    space, everybody = explainer.space, anybody(explainer, table, 2000)
    for name in ("income", "debt", "accounts"):
        values = np.array(space[name].values, dtype=np.float64)
        below = np.maximum(np.searchsorted(values, everybody[name], "right") - 1, 0)
        above = np.minimum(np.searchsorted(values, everybody[name], "left"), len(values) - 1)
        lower, upper = (
            everybody.assign(**{name: pd.Series(values[p]).astype(table[name].dtype)}) for p in (below, above)
        )
        scores, low, high = (model.predict_proba(one)[:, 1] for one in (everybody, lower, upper))
        assert (np.isclose(scores, low, atol=1e-6) | np.isclose(scores, high, atol=1e-6)).all()


def test_columns_may_be_passed_on_as_they_are() -> None:
    table, outcome = measured()
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["home"]), remainder="passthrough")
    model = make_pipeline(encode, DecisionTreeClassifier(random_state=0)).fit(table, outcome)
    explainer = Explainer(model, table, desired=1, domain="interval")
    assert len(explainer.space["income"].values) > table["income"].nunique()


def test_whole_numbers_stay_whole() -> None:
    model, table = fitted(MODELS[0])
    space = Explainer(model, table, desired=1, domain="interval").space
    assert all(isinstance(value, int) for value in space["accounts"].values)
    assert len(space["income"].values) > table["income"].nunique()


def test_a_model_that_may_be_higher_in_between_is_refused() -> None:
    model, table = fitted(GaussianNB())
    with pytest.raises(ModelError, match="between two values"):
        Explainer(model, table, desired=1, domain="interval")


def test_preparation_that_tells_single_numbers_apart_is_refused() -> None:
    table, outcome = measured()
    encode = make_column_transformer((OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["debt", "home"]))
    model = make_pipeline(encode, DecisionTreeClassifier(random_state=0)).fit(table[["debt", "home"]], outcome)
    with pytest.raises(ModelError, match="single numbers"):
        Explainer(model, table, desired=1, domain="interval")


@pytest.mark.parametrize(
    "encode",
    [
        make_column_transformer(
            (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["home", "accounts"]),
            (StandardScaler(), ["income", "debt"]),
        ),
        make_column_transformer(
            (make_pipeline(OrdinalEncoder(), MinMaxScaler()), [3, 2]), remainder=make_pipeline(StandardScaler())
        ),
        FeatureUnion(
            [
                ("one", make_column_transformer((KBinsDiscretizer(3, quantile_method="linear"), ["accounts"]))),
                ("two", make_column_transformer(("passthrough", slice("income", "debt")))),
            ]
        ),
    ],
    ids=["one-hot", "ordinal by position", "bins in a union"],
)
@pytest.mark.parametrize("estimator", [MODELS[1], LogisticRegression(max_iter=2000)], ids=["forest", "logistic"])
def test_a_step_that_tells_single_numbers_apart_costs_only_the_intervals_of_its_own_columns(
    encode: Any, estimator: Any
) -> None:
    table, outcome = measured()
    model = make_pipeline(encode, estimator).fit(table, outcome)
    explainer = Explainer(model, table, desired=1)
    assert list(explainer.obstacles) == ["accounts"]
    assert "apart" in explainer.obstacles["accounts"]
    everybody = anybody(explainer, table)
    everybody["accounts"] = np.random.default_rng(1).choice([0, 1, 4, 9], len(everybody))
    desired = model.predict(everybody) == 1
    for row in np.flatnonzero(~explainer.outcomes)[:4].tolist():
        explanation = explainer.explain(row)
        assert explanation.minimum
        assert not desired[explanation.wider.rule.covers(everybody)].any()
        assert check(explanation.to_json(), model, table).status == "proven"


@pytest.mark.parametrize("estimator", MODELS, ids=lambda model: type(model).__name__)
def test_columns_of_float32_are_intervals_of_the_numbers_that_they_hold(estimator: Any) -> None:
    table, outcome = measured()
    numbers = ["income", "debt"]
    short = table.astype(dict.fromkeys(numbers, np.float32))
    scaled = (StandardScaler(), [*numbers, "accounts"])
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["home"]), scaled)
    model = make_pipeline(encode, estimator).fit(short, outcome)
    explainer = Explainer(model, short, desired=1, domain="interval")
    everybody = anybody(explainer, short)
    for name in numbers:  # beside every number of the domains, as the column holds it
        near = np.array(explainer.space[name].values, dtype=np.float32)
        near = np.concatenate([np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)])
        drawn = np.random.default_rng(2).choice(near, len(everybody))
        mixed = np.where(np.arange(len(everybody)) % 2, drawn, everybody[name].astype(np.float32))
        everybody[name] = np.clip(mixed, short[name].min(), short[name].max())
    desired = model.predict(everybody) == 1
    past = short.iloc[int(np.flatnonzero(~explainer.outcomes)[0])].to_dict()
    for row in (*np.flatnonzero(~explainer.outcomes)[:3].tolist(), {**past, "debt": 0.3777}):
        explanation = explainer.explain(row)
        assert explanation.minimum
        for rule in (explanation.rule, explanation.wider.rule):
            assert not desired[rule.covers(everybody)].any()
        assert check(explanation.to_json(), model, short).status == "proven"


def test_a_model_that_can_only_be_asked_is_refused() -> None:
    table, _ = measured()
    with pytest.raises(
        ModelError, match="whole intervals are not available for this model: a plain function can only be asked"
    ) as refused:
        Explainer(lambda rows: (rows["income"] > 700).to_numpy().astype(float), table, domain="interval")
    assert refused.value.code == "intervals-unavailable"


def test_a_model_that_cannot_be_compiled_over_its_intervals_keeps_the_values_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only values can be asked about then: a list of answers proves nothing of the numbers between them."""
    model, table = fitted(MODELS[0])

    def refuse(*_: Any, **__: Any) -> Any:
        raise Unreadable("it is too large")

    monkeypatch.setattr("ironrule.explain.prepare.reading.compile_models", refuse)
    explainer = Explainer(model, table, desired=1)
    assert not any(feature.interval for feature in explainer.space.features)
    assert set(explainer.obstacles) == {"income", "debt", "accounts"}
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    assert explanation.breakpoints is None
    assert explanation.domains["income"].kind == "seen"
    with pytest.raises(ModelError, match="it is too large"):
        Explainer(model, table, desired=1, domain="interval")


def test_rounding_that_decides_between_two_values_leaves_a_wider_rule_unproven() -> None:
    """Scores of exactly zero: the model's word on the values says nothing of the numbers between them."""
    grid = np.array([[a, b, c] for a in range(4) for b in range(3) for c in range(3)], dtype=np.float64)
    model = LogisticRegression().fit(grid, grid[:, 2] > 1)
    model.coef_, model.intercept_ = np.array([[0.5, -0.5, 1.0]]), np.array([-1.0])
    explainer = Explainer(model, grid, desired=True)
    for row in np.flatnonzero(~explainer.outcomes).tolist():
        assert check(explainer.explain(row, budget=PATIENCE), model, grid, desired=True).status == "proven"


def test_stated_bounds_are_judged_as_they_are() -> None:
    table = pd.DataFrame({"income": [0.0, 10.0, 20.0, 30.0, 40.0] * 4, "age": [20.0, 30.0, 40.0, 50.0] * 5})
    model = LogisticRegression().fit(table, table["income"] >= 25)
    explainer = Explainer(model, table, desired=True)
    turn = float(-(model.intercept_[0] + model.coef_[0][1] * 30.0) / model.coef_[0][0])
    row = {"income": 10.0, "age": 30.0}
    fixed = ["age <= 30", "age >= 30"]
    assert explainer.judge(row, [f"income <= {turn - 0.01}", *fixed]).quality.name != "FAILED_GLOBAL"
    judged = explainer.judge(row, [f"income <= {turn + 0.01}", *fixed])
    assert judged.quality.name == "FAILED_GLOBAL"
    assert judged.rule.components[0].value == turn + 0.01
