"""All rules and all changes, through the public face."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from ironrule import Budget, ChangeSet, Explainer, InputError, Proven, RankedRule, Unrefuted
from ironrule.hitting.bits import list_members
from ironrule.rule.instance_components import build_instance_components

FEATURES = ["income", "accounts", "home", "age"]


def make_explainer(seed: int = 0, **settings: Any) -> tuple[Explainer, Any, pd.DataFrame]:
    """A small forest on four raw features, and its explainer."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.integers(0, 4, 150) * 100,
            "accounts": rng.integers(0, 4, 150),
            "home": rng.choice(["own", "rent", "free"], 150),
            "age": rng.integers(2, 5, 150) * 10,
        }
    )
    score = (
        table["income"] / 100
        - table["accounts"]
        + (table["home"] == "own")
        + table["age"] / 20
        + rng.normal(0, 0.7, 150)
    )
    forest = RandomForestClassifier(n_estimators=5, max_depth=4, random_state=seed)
    model = make_pipeline(OrdinalEncoder(), forest).fit(table, np.where(score > 2, "good", "bad"))
    return Explainer(model, table, desired="good", **settings), model, table


def everything(explainer: Explainer, model: Any) -> tuple[np.ndarray, np.ndarray]:
    """All points of the space, and which are desired by the model's own word."""
    points = np.array(list(itertools.product(*(range(size) for size in explainer.space.sizes))), dtype=np.int32)
    rows = pd.DataFrame([explainer.space.decode_row(point) for point in points])
    return points, np.asarray(model.predict(rows) == "good")


def irredundant(explainer: Explainer, model: Any, row: dict[str, Any]) -> list[str]:
    points, desired = everything(explainer, model)
    components = build_instance_components(explainer.space, explainer.space.encode_row(row))
    wrong = points[desired]
    fitting = {
        rule
        for rule in range(1 << 2 * len(explainer.space))
        if rule & ~components.usable == 0 and not components.box(rule).contains(wrong).any()
    }
    kept = [rule for rule in fitting if not any(rule & ~(1 << bit) in fitting for bit in list_members(rule))]
    return [str(components.rule(rule, "'bad'")) for rule in kept]


def rows_denied(explainer: Explainer, table: pd.DataFrame, count: int) -> list[dict[str, Any]]:
    places = np.flatnonzero(~explainer.outcomes)[:: max(1, int((~explainer.outcomes).sum()) // count)][:count]
    return [table.iloc[int(place)].to_dict() for place in places]


@pytest.mark.parametrize("seed", range(3))
def test_all_rules_come_shortest_first_and_the_first_are_the_minimum_ones(seed: int) -> None:
    explainer, model, table = make_explainer(seed)
    for row in rows_denied(explainer, table, 5):
        listing = explainer.rules(row, seed=seed)
        ranked = list(listing)
        assert (listing.complete, listing.stopped) == (True, None)
        assert sorted(str(one.rule) for one in ranked) == sorted(irredundant(explainer, model, row))
        order = [(one.rule.cardinality, -one.coverage) for one in ranked]
        assert order == sorted(order)
        assert all(isinstance(one.verdict, Proven) for one in ranked)
        assert all(int(one.rule.covers(table).sum()) == one.coverage for one in ranked)
        shortest = explainer.rules(row, minimum_only=True)
        minimum = list(shortest)
        assert minimum == [one for one in ranked if one.rule.cardinality == ranked[0].rule.cardinality]
        assert shortest.complete
        assert explainer.explain(row).coverage == minimum[0].coverage


@pytest.mark.parametrize("seed", range(3))
def test_all_minimal_changes_come_smallest_first_each_with_a_counterfactual(seed: int) -> None:
    explainer, model, table = make_explainer(seed)
    points, desired = everything(explainer, model)
    for row in rows_denied(explainer, table, 5):
        listing = explainer.change_sets(row)
        changes = list(listing)
        assert (listing.complete, listing.stopped) == (True, None)
        instance = explainer.space.encode_row(row)
        sets = {frozenset(np.flatnonzero(point != instance).tolist()) for point in points[desired]}
        expected = [one for one in sets if not any(other < one for other in sets)]
        names = explainer.space.names
        assert {frozenset(one.features) for one in changes} == {frozenset(names[j] for j in one) for one in expected}
        assert [len(one.features) for one in changes] == sorted(len(one.features) for one in changes)
        after = pd.DataFrame([dict(one.counterfactual.values) for one in changes])
        assert (model.predict(after[FEATURES]) == "good").all()
        assert all(one.minimal for one in changes)
        assert all(tuple(change.feature for change in one.counterfactual.changes) == one.features for one in changes)


def test_features_that_may_not_vary_keep_their_values() -> None:
    explainer, _, table = make_explainer()
    for row in rows_denied(explainer, table, 4):
        listing = explainer.change_sets(row, features_to_vary=["income", "home"])
        every = [one.features for one in explainer.change_sets(row)]
        assert sorted(one.features for one in listing) == sorted(one for one in every if "accounts" not in one)
        assert listing.complete


def test_changes_keep_to_the_constraints_on_what_may_change() -> None:
    explainer, _, table = make_explainer(constraints=["cf.income >= x.income", "cf.accounts == x.accounts"])
    seen = 0
    for row in rows_denied(explainer, table, 4):
        listing = explainer.change_sets(row)
        for one in listing:
            assert "accounts" not in one.features
            assert one.counterfactual.values["income"] >= row["income"]
            seen += 1
        assert listing.complete
    assert seen


def test_require_forbid_and_weights_narrow_the_rules() -> None:
    explainer, _, table = make_explainer()
    row = rows_denied(explainer, table, 1)[0]
    every = [one.rule for one in explainer.rules(row)]
    without = list(explainer.rules(row, forbid=["home"]))
    assert {one.rule for one in without} == {rule for rule in every if "home" not in rule.features}
    assert all("income" in one.rule.features for one in explainer.rules(row, require=["income"]))
    heavy = list(explainer.rules(row, weights={"income": 10}))
    assert {one.rule for one in heavy} == set(every)
    weights = [sum(10 if c.feature == "income" else 1 for c in one.rule.components) for one in heavy]
    assert weights == sorted(weights)


def test_answers_are_found_as_they_are_asked_for_and_a_limit_ends_them() -> None:
    explainer, _, table = make_explainer()
    row = max(rows_denied(explainer, table, 20), key=lambda row: len(list(explainer.rules(row))))
    whole = list(explainer.rules(row))
    assert len(whole) > 1
    listing = explainer.rules(row, limit=1)
    assert repr(listing) == "<Listing: 0 so far, not ended: iterate over it, or make a list of it>"
    assert list(listing) == whole[:1]
    assert (listing.complete, listing.stopped, listing.count) == (False, "limit", 1)
    assert repr(listing) == "<Listing: 1 so far, stopped: limit; there may be others>"
    assert isinstance(next(explainer.rules(row)), RankedRule)
    assert isinstance(next(explainer.change_sets(row)), ChangeSet)


def test_a_budget_ends_the_rules_of_a_model_that_is_only_asked_and_none_is_called_complete() -> None:
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 30, (300, 5)), columns=list("abcde"))
    explainer = Explainer(lambda rows: ((rows["a"] + rows["b"] > 30) | (rows["c"] > 25)).astype(float), table)
    row = {"a": 3, "b": 4, "c": 5, "d": 6, "e": 7}
    listing = explainer.rules(row, budget=Budget(evaluations=3_000))
    list(listing)
    assert (listing.complete, listing.stopped) == (False, "budget")
    free = explainer.rules(row, minimum_only=True, budget=Budget(evaluations=3_000_000))
    rules = list(free)
    assert rules
    assert all(isinstance(one.verdict, (Unrefuted, Proven)) for one in rules)
    assert free.complete == all(isinstance(one.verdict, Proven) for one in rules)


def test_time_between_two_answers_is_not_counted() -> None:
    explainer, _, table = make_explainer()
    listing = explainer.rules(rows_denied(explainer, table, 1)[0], budget=60.0)
    listing._left -= 1_000.0  # as if somebody had waited
    assert list(listing)
    assert listing.complete


def test_wrong_requests_are_refused_before_anything_is_searched() -> None:
    explainer, _, table = make_explainer()
    row = rows_denied(explainer, table, 1)[0]
    with pytest.raises(InputError, match="limit must be a positive integer or None, got 0"):
        explainer.rules(row, limit=0)
    with pytest.raises(InputError, match="limit must be a positive integer or None, got True"):
        explainer.change_sets(row, limit=True)
    with pytest.raises(InputError):
        explainer.rules(row, forbid=["nonsense"])
    with pytest.raises(InputError):
        explainer.change_sets(row, features_to_vary=["nonsense"])
