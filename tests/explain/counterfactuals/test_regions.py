"""Regions: every point has the desired outcome, and none of them can be made larger, by exhaustive search."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings, strategies as st
from sklearn.tree import DecisionTreeClassifier
from small_models import MODELS, list_larger, list_points, make_case

from ironrule import Budget, Checker, Counterfactual, CounterfactualRegion, Explainer
from ironrule.errors import InputError
from ironrule.verdict.budget import BudgetExhausted, Meter
from ironrule.verdict.verdict import Unrefuted


def select(region: CounterfactualRegion, points: pd.DataFrame) -> pd.DataFrame:
    """The points of a region: its rule alone tells them, what stays as it is included."""
    return points[region.rule.covers(points)]


def check(region: CounterfactualRegion, model: Any) -> None:
    """What a region claims, by asking the model about all points."""
    points = list_points()
    inside = select(region, points)
    assert len(inside) > 0
    own = pd.Series(dict(region.counterfactual.values))
    assert (inside[own.index] == own).all(axis=1).any()
    assert region.proven
    assert (model.predict(inside) == "yes").all()
    if region.maximal:
        for values in list_larger(region):
            wider = points[np.all([points[name].isin(some) for name, some in values.items()], axis=0)]
            assert (model.predict(wider) != "yes").any(), values


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), features=st.sampled_from(["changed", "all", ["age", "job"]]))
def test_every_point_is_desired_and_no_larger_region_is(kind: str, seed: int, features: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that have not converged
        model, points = make_case(kind, seed)
    assume(len({*model.predict(points)}) == 2)
    explainer = Explainer(model, points, desired="yes")
    denied = explainer.row_numbers[~explainer.outcomes].tolist()
    for row in denied[:: max(1, len(denied) // 3)]:
        for found in explainer.counterfactuals(row, k=2):
            region = explainer.counterfactual_region(found, features)
            check(region, model)
            assert region.maximal or kind == "network"


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
@example(seed=0)
def test_points_on_the_threshold_are_not_in_a_region(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.integers(0, 3, size=(5, 4)) / 2.0  # half of the points are 0.5, which is not above the threshold
    points = list_points()
    labels = shares[points["age"], points["debt"]]
    twice = pd.concat([points, points], ignore_index=True)[["age", "debt"]]
    model = DecisionTreeClassifier(random_state=0).fit(twice, np.concatenate([labels >= 0.5, labels > 0.5]))
    scores = model.predict_proba(twice)
    if scores.shape[1] == 1 or (scores[:, 1] > 0.5).all() or (scores[:, 1] <= 0.5).all():
        return
    explainer = Explainer(model, twice, desired=True, threshold=0.5)
    denied = explainer.row_numbers[~explainer.outcomes].tolist()
    for found in explainer.counterfactuals(denied[0], k=2):
        region = explainer.counterfactual_region(found, "all")
        inside = twice[region.rule.covers(twice)]
        assert (model.predict_proba(inside)[:, 1] > 0.5).all()
        assert region.proven


def test_roles_and_constraints_on_one_feature_limit_a_region() -> None:
    model, points = make_case("boosting", 3)
    free = Explainer(model, points, desired="yes")
    denied = free.row_numbers[~free.outcomes].tolist()
    for row in denied[:8]:
        held = Explainer(model, points, desired="yes", roles={"age": "immutable"}, constraints=["cf.debt >= x.debt"])
        for found in held.counterfactuals(row, k=2):
            region = held.counterfactual_region(found, "all")
            inside = select(region, points)
            assert (inside["age"] == points["age"][row]).all()
            assert (inside["debt"] >= points["debt"][row]).all()
            assert (model.predict(inside) == "yes").all()


def test_missing_is_in_a_region_only_where_it_is_proven() -> None:
    points = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0, None] * 8, "debt": [0.0, 1.0] * 20})

    class Lender:
        classes_ = ("no", "yes")

        def predict(self, table: pd.DataFrame) -> Any:
            return np.where((table["income"] >= 2.5) | (table["income"].isna() & (table["debt"] < 0.5)), "yes", "no")

    explainer = Explainer(Lender(), points, desired="yes", domain="seen")
    found = explainer.counterfactuals(0, k=1)[0]
    region = explainer.counterfactual_region(found, "all", budget=Budget(evaluations=50_000))
    inside = points[region.rule.covers(points)]
    assert (Lender().predict(inside) == "yes").all()
    assert region.proven  # enumerated
    assert inside["income"].notna().all()


def test_of_a_model_that_can_only_be_asked_a_region_is_not_proven() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))

    def score(rows: pd.DataFrame) -> Any:
        return rows["a"] + rows["b"] - rows["c"] * rows["d"]

    explainer = Explainer(score, table, threshold=1.0)
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    found = explainer.counterfactuals(row, k=1, budget=Budget(evaluations=20_000))[0]
    region = explainer.counterfactual_region(found, "all", budget=Budget(evaluations=400_000))
    assert isinstance(region.verdict, Unrefuted)
    assert not region.proven
    assert not region.maximal
    assert region.verdict.samples > 0
    assert "not proven" in str(region)
    again = explainer.counterfactual_region(found, "all", budget=Budget(evaluations=400_000))
    assert again.rule == region.rule


def test_a_tiny_budget_gives_a_smaller_region_and_no_false_claim() -> None:
    model, points = make_case("forest", 5)
    explainer = Explainer(model, points, desired="yes")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    found = explainer.counterfactuals(row, k=1)[0]
    region = explainer.counterfactual_region(found, "all", budget=Budget(seconds=1e-9))
    assert not region.maximal
    assert not region.proven
    assert len(select(region, points)) == 1
    checks, whole = 0, explainer.counterfactual_region(found, "all")
    for most in range(1, 40):
        meter, Meter.check = Meter.check, _stop_after(most)
        try:
            region = explainer.counterfactual_region(found, "all")
        finally:
            Meter.check = meter
        inside = select(region, points)
        assert (model.predict(inside) == "yes").all()
        assert not region.maximal or region.rule == whole.rule
        checks += region.proven
    assert checks > 10


def _stop_after(count: int) -> Any:
    """A check of the meter that ends the budget after so many calls."""
    left, check = [count], Meter.check

    def stop(self: Meter, *given: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise BudgetExhausted
        check(self, *given)

    return stop


def test_a_region_is_told_in_words_and_as_data() -> None:
    table = pd.DataFrame({"income": [float(x) for x in range(40)], "accounts": [0, 1, 2, 3] * 10})
    labels = np.where((table["income"] >= 12) & (table["income"] <= 30) & (table["accounts"] <= 2), "yes", "no")
    model = DecisionTreeClassifier(random_state=0).fit(table, labels)
    explainer = Explainer(model, table, desired="yes")
    found = Counterfactual.from_values({"income": 3.0, "accounts": 3}, {"income": 20.0, "accounts": 1})
    region = explainer.counterfactual_region(found)
    assert region.conditions == ("income: from 11.51 to 30.5", "accounts: 2 or less")
    assert region.free == ()
    assert "every such point has the desired outcome, proven, and no bound can move further" in str(region)
    data = region.to_dict()
    assert data["verdict"]["kind"] == "proven"
    assert [one["feature"] for one in data["ranges"]] == ["income", "accounts"]
    inside = table[region.rounded.covers(table)]
    assert len(inside) == len(table[labels == "yes"])
    by_row = explainer.counterfactual_region({"income": 20.0, "accounts": 1}, "all")
    assert by_row.rule == region.rule


def test_what_is_no_counterfactual_is_refused() -> None:
    model, points = make_case("tree", 1)
    explainer = Explainer(model, points, desired="yes")
    denied = points.iloc[int(explainer.row_numbers[~explainer.outcomes][0])].to_dict()
    desired = points.iloc[int(explainer.row_numbers[explainer.outcomes][0])].to_dict()
    with pytest.raises(InputError, match="which has the desired outcome"):
        explainer.counterfactual_region(denied, "all")
    with pytest.raises(InputError, match="must change a feature"):
        explainer.counterfactual_region(desired)
    with pytest.raises(InputError, match="ages"):
        explainer.counterfactual_region(desired, ["ages"])


def test_a_feature_that_is_always_missing_takes_any_value_in_a_region() -> None:
    table = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0], "empty": [np.nan] * 4})
    model = DecisionTreeClassifier(random_state=0).fit(table, [0, 0, 1, 1])
    explainer = Explainer(model, table, desired=1)
    region = explainer.counterfactual_region(explainer.counterfactuals(0, k=1)[0], "all")
    assert region.conditions == ("income: 2.501 or more", "empty: any value")
    assert (region.proven, region.maximal) == (True, True)
    assert Checker(model, table).check(region).status == "proven"
    assert CounterfactualRegion.from_json(region.to_json()) == region
