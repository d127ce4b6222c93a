"""Counterfactuals that differ in their values, and past rows as counterfactuals, by exhaustive search."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st
from small_models import AGES, DEBTS, list_points, make_case

from ironrule import Explainer
from ironrule.errors import InputError

RANGES = {"age": len(AGES) - 1, "debt": len(DEBTS) - 1}


def measure(own: Any, point: Any) -> float:
    numbers = sum(abs(point[name] - own[name]) / width for name, width in RANGES.items())
    return float(numbers + (point["job"] != own["job"]))


def is_apart(point: Any, earlier: Any, own: Any, spread: float) -> bool:
    """Whether a point is far enough from an earlier one in a feature that the earlier one changes."""
    for name in ("age", "debt", "job"):
        if earlier[name] == own[name]:
            continue
        if point[name] == own[name]:
            return True
        if name == "job" and point[name] != earlier[name]:
            return True
        if name != "job" and abs(point[name] - earlier[name]) >= spread * RANGES[name] - 1e-12:
            return True
    return False


def count_changes(own: Any, point: Any) -> int:
    return sum(point[name] != own[name] for name in ("age", "debt", "job"))


@pytest.mark.parametrize("kind", ["tree", "boosting", "logistic"])
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1_000), spread=st.sampled_from([0.25, 0.5, 1.0]))
def test_each_is_the_nearest_that_is_far_enough_from_the_earlier_ones(kind: str, seed: int, spread: float) -> None:
    model, points = make_case(kind, seed)
    assume(len({*model.predict(points)}) == 2)
    explainer = Explainer(model, points, desired="yes", domain="seen")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    own = points.iloc[row]
    found = explainer.diverse_counterfactuals(row, k=4, spread=spread)
    assert found.proven
    desired = [point for _, point in points[model.predict(points) == "yes"].iterrows()]
    earlier: list[Any] = []
    for item in found:
        left = [point for point in desired if all(is_apart(point, one, own, spread) for one in earlier)]
        best = min((count_changes(own, point), round(measure(own, point), 9)) for point in left)
        assert (len(item.changes), round(measure(own, item.values), 9)) == best
        earlier.append(item.values)
    if len(found) < 4:
        assert not any(all(is_apart(point, one, own, spread) for one in earlier) for point in desired)
    assert {change.feature for item in found for change in item.changes} >= {*found.domains}


def test_the_options_hold_and_a_spent_budget_is_no_proof() -> None:
    model, points = make_case("boosting", 2)
    explainer = Explainer(model, points, desired="yes")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    found = explainer.diverse_counterfactuals(row, k=3, features_to_vary=["age", "debt"])
    assert all(item.values["job"] == points.iloc[row]["job"] for item in found)
    stopped = explainer.diverse_counterfactuals(row, k=3, budget=1e-9)
    assert not stopped.proven


@pytest.mark.parametrize("spread", [0, -1, 2, None, "wide", float("nan"), True])
def test_a_spread_that_is_no_share_is_refused(spread: Any) -> None:
    model, points = make_case("tree", 1)
    explainer = Explainer(model, points, desired="yes")
    with pytest.raises(InputError, match="spread must be"):
        explainer.diverse_counterfactuals(0, spread=spread)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1_000), limited=st.booleans())
def test_past_rows_are_the_nearest_desired_ones(seed: int, limited: bool) -> None:
    model, points = make_case("boosting", seed)
    assume(len({*model.predict(points)}) == 2)
    past = points.sample(30, random_state=seed).reset_index(drop=True)
    assume(len({*model.predict(past)}) == 2)
    explainer = Explainer(model, past, desired="yes")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    own = past.iloc[row]
    more: dict[str, Any] = {"features_to_vary": ["age", "debt"], "constraints": ["cf.age >= x.age"]} if limited else {}
    found = explainer.past_counterfactuals(row, k=5, **more)
    desired = past[model.predict(past) == "yes"].drop_duplicates()
    if limited:
        desired = desired[(desired["job"] == own["job"]) & (desired["age"] >= own["age"])]
    distances = sorted(measure(own, point) for _, point in desired.iterrows())
    assert [measure(own, item.values) for item in found] == pytest.approx(distances[:5])
    rows = {tuple(point) for point in desired.itertuples(index=False)}
    assert all(tuple(item.values[name] for name in past.columns) in rows for item in found)
    assert len({str(item) for item in found}) == len(found)
    assert not found.proven


def test_past_rows_have_their_values_of_features_that_the_model_does_not_use() -> None:
    table = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0], "room": ["a", "b", "c", "d"]})
    explainer = Explainer(lambda rows: rows["income"], table, threshold=2.5)
    found = explainer.past_counterfactuals(0, k=2)
    assert [dict(item.values) for item in found] == [{"income": 3.0, "room": "c"}, {"income": 4.0, "room": "d"}]


def test_all_points_are_listed_once() -> None:
    assert len(list_points().drop_duplicates()) == len(AGES) * len(DEBTS) * 3
