"""Why there is no counterfactual: proven by exhaustive search, and every restriction named is needed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn.tree import DecisionTreeClassifier
from small_models import AGES, DEBTS, JOBS, MODELS, list_points, make_case

import ironrule
from ironrule import Budget, Cost, Explainer, Infeasibility, Role, Target
from ironrule.errors import ConstraintError
from ironrule.results.changes.infeasibility import Restriction

ROLES: dict[str, Callable[[Any, Any], Any]] = {
    "immutable": lambda own, other: other == own,
    "rise": lambda own, other: other >= own,
}
CONSTRAINTS: dict[str, Callable[[Any, pd.DataFrame], Any]] = {
    "cf.age <= x.age + 1": lambda row, points: points["age"] <= row["age"] + 1,
    "cf.debt + cf.age <= 4": lambda _, points: points["debt"] + points["age"] <= 4,
    "cf.job == x.job": lambda row, points: points["job"] == row["job"],
}


def allow(one: Restriction, row: Any, points: pd.DataFrame, ranges: dict[str, Any], roles: dict[str, str]) -> Any:
    """Which points a restriction allows, by its own words."""
    if one.kind == "constraint":
        return next(rule for text, rule in CONSTRAINTS.items() if text.replace(" ", "") == one.text.replace(" ", ""))(
            row, points
        )
    assert one.feature is not None
    if one.kind == "fixed":
        return points[one.feature] == row[one.feature]
    if one.kind == "range":
        values = ranges[one.feature]
        return points[one.feature].isin(values) if one.feature == "job" else points[one.feature].between(*values)
    return ROLES[roles[one.feature]](row[one.feature], points[one.feature])


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "network"])
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_what_is_said_is_so_by_exhaustive_search(kind: str, data: st.DataObject) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, points = make_case(kind, data.draw(st.integers(0, 1_000)))
    roles = data.draw(st.fixed_dictionaries({}, optional={name: st.sampled_from([*ROLES]) for name in ("age", "debt")}))
    ranges = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "age": st.tuples(st.sampled_from(AGES), st.sampled_from(AGES)).map(sorted).map(list),
                "job": st.lists(st.sampled_from(JOBS), min_size=1, unique=True),
            },
        )
    )
    vary = data.draw(st.one_of(st.just("all"), st.lists(st.sampled_from(["age", "debt", "job"]), unique=True)))
    constraints = data.draw(st.lists(st.sampled_from([*CONSTRAINTS]), unique=True))
    declared = {name: role if role == "immutable" else {"direction": "rise"} for name, role in roles.items()}
    assume(len({*model.predict(points)}) == 2)
    explainer = Explainer(
        model, points, desired="yes",
        roles={name: Role(**one) if isinstance(one, dict) else one for name, one in declared.items()},
    )  # fmt: skip
    denied = explainer.row_numbers[~explainer.outcomes].tolist()
    row = points.iloc[data.draw(st.sampled_from(denied))]
    if vary != "all":
        vary = [name for name in vary if roles.get(name) != "immutable"]
    found = explainer.find_forbidding_restrictions(
        row.to_dict(), features_to_vary=vary, permitted_range=ranges, constraints=constraints
    )
    check(found, model, row, ranges, roles, vary, constraints)


def check(
    found: Infeasibility, model: Any, row: Any, ranges: Any, roles: Any, vary: Any, constraints: list[str]
) -> None:
    points = list_points()
    desired = model.predict(points) == "yes"
    allowed = np.ones(len(points), dtype=bool)
    every = [Restriction("role", "", name) for name in roles] + [Restriction("range", "", name) for name in ranges]
    every += [Restriction("constraint", text) for text in constraints]
    every += [Restriction("fixed", "", name) for name in ("age", "debt", "job") if vary != "all" and name not in vary]
    for one in every:
        allowed &= np.asarray(allow(one, row, points, ranges, roles))
    exists = bool((desired & allowed).any())
    assert (found.counterfactual is not None) == exists
    assert found.proven != exists
    if exists:
        assert found.restrictions == ()
        return
    assert found.minimal
    for left_out in [None, *found.needed]:
        allowed = np.ones(len(points), dtype=bool)
        for one in found.needed:
            if one is not left_out:
                allowed &= np.asarray(allow(one.restriction, row, points, ranges, roles))
        assert (desired & allowed).any() == (left_out is not None)
        if left_out is not None:
            assert left_out.counterfactual is not None
            values = pd.DataFrame([dict(left_out.counterfactual.values)])
            assert model.predict(values[["age", "debt", "job"]])[0] == "yes"
            same = (points[list(values.columns)] == values.iloc[0]).all(axis=1)
            assert (same & allowed).any()


def make_explainer(**more: Any) -> tuple[Explainer, dict[str, Any]]:
    table = pd.DataFrame({"age": [20, 30, 40, 50] * 6, "income": [1, 2, 3] * 8, "job": ["cook", "clerk"] * 12})

    class Lender:
        classes_ = ("no", "yes")

        def predict(self, rows: pd.DataFrame) -> Any:
            return np.where((rows["income"] >= 3) | (rows["age"] >= 50), "yes", "no")

    features = table[["age", "income"]]
    model = DecisionTreeClassifier(random_state=0).fit(features, Lender().predict(table))
    return Explainer(model, features, desired="yes", **more), {"age": 20, "income": 1}


def test_the_restrictions_are_told_in_words() -> None:
    explainer, row = make_explainer(roles={"age": "immutable"})
    found = explainer.find_forbidding_restrictions(row, permitted_range={"income": [1, 2]})
    assert [(one.kind, one.feature) for one in found.restrictions] == [("range", "income"), ("role", "age")]
    text = str(found)
    assert "there is no counterfactual, and that is proven" in text
    assert "- income: from 1 to 2 (nearest without it: income: 1 -> 3)" in text
    assert "- age: immutable (nearest without it: age: 20 -> 46)" in text
    assert found.to_dict()["needed"][0]["without_it"]["changes"][0]["after"] == 3


def test_a_counterfactual_that_exists_is_the_answer() -> None:
    explainer, row = make_explainer()
    found = explainer.find_forbidding_restrictions(row, features_to_vary=["income"])
    assert not found.proven
    assert found.counterfactual is not None
    assert "there is a counterfactual: income" in str(found)


def test_a_model_that_never_says_yes_needs_no_restriction() -> None:
    table = pd.DataFrame({"a": [0, 1, 2, 3] * 3, "b": [0, 1, 0] * 4})
    explainer = Explainer(lambda rows: rows["a"] / 10.0, table, threshold=0.5, domain="seen")
    found = explainer.find_forbidding_restrictions({"a": 0, "b": 0}, features_to_vary=["a"])
    assert found.proven  # enumerated
    assert found.restrictions == ()
    assert "whatever may change" in str(found)
    assert str(found).endswith("no point of the space has the desired outcome")
    higher = explainer.find_forbidding_restrictions({"a": 0, "b": 0}, target=Target(above=0.9))
    assert (higher.proven, higher.restrictions) == (True, ())
    assert str(higher).endswith("no point of the space has a score above 0.9")


def test_what_a_search_cannot_prove_is_not_called_proven() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 5)), columns=list("abcde"))
    explainer = Explainer(lambda rows: rows["a"] - 50.0, table, threshold=0.0)
    found = explainer.find_forbidding_restrictions(0, features_to_vary=list("bcde"), budget=Budget(evaluations=3_000))
    assert not found.proven
    assert found.restrictions == ()
    assert "not known" in str(found)


def test_constraints_that_nothing_satisfies_forbid_all() -> None:
    explainer, row = make_explainer(domain="seen")
    found = explainer.find_forbidding_restrictions(row, constraints=["cf.income >= 3", "cf.income <= 1", "cf.age > 20"])
    assert found.proven
    assert [one.text for one in found.restrictions] == ["cf.income >= 3", "cf.income <= 1"]
    with pytest.raises(ConstraintError):
        explainer.counterfactuals(row, constraints=["cf.income >= 3", "cf.income <= 1"])


def test_ends_of_ranges_that_no_row_has_are_proven_too() -> None:
    table = pd.DataFrame({"income": [float(x) for x in range(0, 400, 10)], "age": [20, 30, 40, 50] * 10})
    labels = np.where((table["income"] >= 200) | (table["age"] >= 50), "yes", "no")
    model = DecisionTreeClassifier(random_state=0).fit(table, labels)
    explainer = Explainer(model, table, desired="yes")
    row = {"income": 10.0, "age": 20}
    found = explainer.find_forbidding_restrictions(
        row, permitted_range={"income": [3.25, 171.5], "age": [20, 37]}, features_to_vary=["income", "age"]
    )
    assert found.proven
    assert found.minimal
    assert [one.feature for one in found.restrictions] == ["income", "age"]
    wider = explainer.find_forbidding_restrictions(row, permitted_range={"income": [3.25, 196.5]})
    assert wider.counterfactual is not None


@pytest.mark.parametrize("kind", ["tree", "boosting", "logistic"])
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1_000), robust=st.booleans(), vary=st.sampled_from([["age"], ["debt"], ["job"], []]))
def test_without_a_restriction_the_nearest_counterfactual_is_named(
    kind: str, seed: int, robust: bool, vary: list[str]
) -> None:
    """Of what is to be reached, by the cost that was asked for, as exhaustive search finds it."""
    model, points = make_case(kind, seed)
    scores = model.predict_proba(points)[:, 1]
    margin = 0.1 if robust else 0.0
    good = (model.predict(points) == "yes") & ((scores > 0.5 + margin) | (not robust))
    explainer = Explainer(model, points, desired="yes", domain="seen")
    row = points.iloc[int(explainer.row_numbers[~explainer.outcomes][0])]
    cost = Cost("l1", prices={"debt": {"up": 3, "down": 1}, "job": 2})
    found = explainer.find_forbidding_restrictions(
        row.to_dict(), features_to_vary=vary, constraints=["cf.age <= x.age + 1"], cost=cost, margin=margin
    )
    debt = (points["debt"] - row["debt"]) / (len(DEBTS) - 1)
    prices = (points["age"] - row["age"]).abs() / (len(AGES) - 1) + debt.where(debt < 0, 3 * debt).abs()
    prices += 2.0 * (points["job"] != row["job"])

    def list_allowed(left_out: Any) -> Any:
        allowed = good.copy()
        for one in found.needed:
            if one is not left_out:
                limit = "cf.age <= x.age + 1" if one.restriction.kind == "constraint" else None
                rule = CONSTRAINTS[limit](row, points) if limit else points[one.restriction.feature] == row[
                    one.restriction.feature]  # fmt: skip
                allowed &= np.asarray(rule)
        return allowed

    assert found.proven or found.counterfactual is not None
    for one in found.needed:
        assert one.nearest
        assert one.counterfactual is not None
        values = pd.Series(dict(one.counterfactual.values))
        same = (points[list(values.index)] == values).all(axis=1)
        allowed = list_allowed(one)
        assert (same & allowed).any()
        assert prices[same].iloc[0] == pytest.approx(prices[allowed].min())


def test_the_nearest_is_told_as_such() -> None:
    explainer, row = make_explainer(roles={"age": "immutable"})
    found = explainer.find_forbidding_restrictions(row, permitted_range={"income": [1, 2]})
    assert [one.nearest for one in found.needed] == [True, True]
    assert "(nearest without it: income: 1 -> 3)" in str(found)
    assert found.to_dict()["needed"][0]["nearest"]
    dear = explainer.find_forbidding_restrictions(row, cost=Cost(prices={"income": math.inf}))
    assert [one.restriction.kind for one in dear.needed] == ["price", "role"]


def test_steps_are_restrictions_too() -> None:
    explainer, row = make_explainer()
    own = int(explainer.counterfactuals(row, k=1).instance["income"])
    cost, limits = Cost(steps={"income": 4}), {"income": [own, 4]}
    options: dict[str, Any] = {"features_to_vary": ["income"], "permitted_range": limits, "cost": cost}
    assert not explainer.counterfactuals(row, k=1, **options)
    found = explainer.find_forbidding_restrictions(row, **options)
    assert (found.proven, found.minimal) == (True, True)
    told = {str(one.restriction): one.counterfactual for one in found.needed}
    assert 0 < told["income: whole steps of 4"].values["income"] - own < 4
    arguments = explainer._context.arguments
    check = ironrule.check(found.to_json(), arguments.models[0], explainer._context.table.native, desired="yes")
    assert check.status == "proven"
