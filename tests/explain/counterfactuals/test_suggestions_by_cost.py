"""Suggested changes by a cost that is chosen when the explainer explains, against exhaustive search."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st
from small_models import AGES, DEBTS, make_case

from ironrule import Cost, Explainer, Explanation, Role
from ironrule.errors import InputError, SpaceError

COST = Cost("l1", prices={"debt": {"up": math.inf, "down": 2}, "job": 3})


def price(own: Any, point: Any) -> float:
    """What a change costs by hand."""
    return float(
        abs(point["age"] - own["age"]) / (len(AGES) - 1)
        + 2 * (own["debt"] - point["debt"]) / (len(DEBTS) - 1)
        + 3.0 * (point["job"] != own["job"])
    )


@pytest.mark.parametrize("kind", ["tree", "boosting", "logistic"])
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1_000))
def test_the_first_suggestion_is_the_cheapest_that_roles_permit(kind: str, seed: int) -> None:
    model, points = make_case(kind, seed)
    explainer = Explainer(
        model, points, desired="yes", domain="seen", roles={"age": Role(direction="rise")}, guess_roles=False
    )
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    own = points.iloc[row]
    allowed = (model.predict(points) == "yes") & (points["age"] >= own["age"]) & (points["debt"] <= own["debt"])
    assume(len({*model.predict(points)}) == 2)
    changes = explainer.explain(row, k=2, change_cost=COST, progress=False).changes
    assert changes.proven
    assert changes.cost == COST
    assert bool(len(changes)) == bool(allowed.any())
    if len(changes):
        least = min(price(own, point) for _, point in points[allowed].iterrows())
        assert price(own, changes[0].values) == pytest.approx(least)
        assert "cheapest by the cost asked for" in changes.note
    assert type(changes).from_dict(changes.to_dict()) == changes


@pytest.mark.parametrize("kind", ["tree", "boosting", "logistic"])
@pytest.mark.parametrize("seed", range(3))
def test_a_price_of_infinity_alone_forbids_a_change_too(kind: str, seed: int) -> None:
    model, points = make_case(kind, seed)
    explainer = Explainer(model, points, desired="yes", domain="seen", guess_roles=False)
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    usual = explainer.explain(row, k=3, progress=False).changes
    first = usual[0].changes[0].feature
    cost = Cost(prices={first: math.inf})
    changes = explainer.explain(row, k=3, change_cost=cost, progress=False).changes
    assert changes.cost == cost
    assert all(change.feature != first for one in changes for change in one.changes)
    own, allowed = (
        points.iloc[row],
        points[(model.predict(points) == "yes") & (points[first] == points.iloc[row][first])],
    )
    assert changes.proven
    assert bool(len(changes)) == bool(len(allowed))
    if len(changes):
        assert len(changes[0].changes) == min((allowed != own).sum(axis=1))
    assert type(changes).from_dict(changes.to_dict()) == changes


def test_a_stored_explanation_keeps_the_cost_of_its_suggestions() -> None:
    model, points = make_case("boosting", 2)
    explainer = Explainer(model, points, desired="yes", guess_roles=False)
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    explanation = explainer.explain(row, change_cost="l1", progress=False)
    assert Explanation.from_json(explanation.to_json()).changes.cost == Cost("l1")
    assert explainer.add_changes(explanation).changes.cost.is_usual
    assert "cost" not in explainer.explain(row, progress=False).changes.to_dict()


def test_a_cost_that_cannot_be_used_is_refused() -> None:
    model, points = make_case("boosting", 2)
    explainer = Explainer(model, points, desired="yes")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    with pytest.raises(InputError):
        explainer.explain(row, change_cost="cheap", progress=False)
    with pytest.raises(SpaceError):
        explainer.explain(row, change_cost=Cost(prices={"wage": 2}), progress=False)
