"""Menus: all minimal sets and the cheapest change of each, by exhaustive search; groups of features."""

from __future__ import annotations

import math
import warnings
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from small_models import AGES, DEBTS, MODELS, list_points, make_case

import ironrule
from ironrule import Budget, ChangeMenu, Cost, Explainer, Target
from ironrule.errors import InputError, SpaceError
from ironrule.rule.cost import COST_NORMS

FEATURES = ("age", "debt", "job")
REACHED = ("target", "margin", "models")


def measure(own: Any, point: Any) -> float:
    """The distance by hand: shares of the ranges, and 1 for another job."""
    numbers = abs(point["age"] - own["age"]) / (len(AGES) - 1) + abs(point["debt"] - own["debt"]) / (len(DEBTS) - 1)
    return float(numbers + (point["job"] != own["job"]))


def find_best(model: Any, own: Any, allowed: Any) -> dict[frozenset[str], float]:
    """By the set of features that change, the least distance of a desired point."""
    points = list_points()
    desired = points[(model.predict(points) == "yes") & allowed(points)]
    best: dict[frozenset[str], float] = {}
    for _, point in desired.iterrows():
        changed = frozenset(name for name in FEATURES if point[name] != own[name])
        best[changed] = min(best.get(changed, 9.0), measure(own, point))
    return best


def check_order(menu: ChangeMenu) -> None:
    costs = [(len(one.counterfactual.changes), one.distance) for one in menu if one.counterfactual is not None]
    assert costs == sorted(costs)
    assert all(one.counterfactual is None for one in menu[len(costs) :])


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 1_000), limited=st.booleans())
def test_a_menu_has_every_minimal_set_with_its_cheapest_change(kind: str, seed: int, limited: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, points = make_case(kind, seed)
    assume(len({*model.predict(points)}) == 2)
    explainer = Explainer(model, points, desired="yes")
    denied = explainer.row_numbers[~explainer.outcomes]
    row = int(denied[seed % len(denied)])
    own = points.iloc[row]
    more: dict[str, Any] = {"permitted_range": {"age": [1, 4]}, "constraints": ["cf.debt <= x.debt"]} if limited else {}

    def allowed(some: pd.DataFrame) -> Any:
        return (some["age"].between(1, 4) & (some["debt"] <= own["debt"])) | (not limited)

    best = find_best(model, own, allowed)
    minimal = {one: cost for one, cost in best.items() if not any(other < one for other in best)}
    menu = explainer.change_menu(row, **more)
    assert menu.complete or kind == "network"
    assert {frozenset(one.features) for one in menu} == set(minimal)
    for one in menu:
        assert one.minimal or kind == "network"
        assert one.counterfactual is not None
        if one.proven:
            assert one.distance == pytest.approx(minimal[frozenset(one.features)])
    assert all(one.proven for one in menu) or kind == "network"
    check_order(menu)


@pytest.mark.parametrize("kind", ["tree", "boosting", "logistic"])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 1_000))
def test_groups_have_the_cheapest_change_within_them_or_none(kind: str, seed: int) -> None:
    model, points = make_case(kind, seed)
    explainer = Explainer(model, points, desired="yes")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    groups = {" and ".join(some): list(some) for size in (1, 2, 3) for some in combinations(FEATURES, size)}
    best = find_best(model, points.iloc[row], lambda some: some["age"] >= 0)
    menu = explainer.group_changes(row, groups)
    assert menu.complete
    assert {one.name for one in menu} == {*groups}
    for one in menu:
        inside = [(len(some), cost) for some, cost in best.items() if some <= {*groups[one.name]}]
        assert one.proven
        assert (one.counterfactual is None) == (not inside)
        if one.counterfactual is not None:
            assert (len(one.counterfactual.changes), one.distance) == pytest.approx(min(inside))
    check_order(menu)


def price(own: Any, point: Any, norm: str) -> float:
    """What a change costs by hand: debt costs 3 a range upwards and 1 downwards, another job 2."""
    debt = (point["debt"] - own["debt"]) / (len(DEBTS) - 1)
    parts = [
        abs(point["age"] - own["age"]) / (len(AGES) - 1),
        3 * debt if debt > 0 else -debt,
        2.0 * (point["job"] != own["job"]),
    ]
    return {"fewest": sum, "l1": sum, "l2": lambda some: math.hypot(*some), "linf": max}[norm](parts)


@pytest.mark.parametrize("kind", ["tree", "boosting", "logistic"])
@pytest.mark.parametrize("norm", COST_NORMS)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 1_000), forbidden=st.booleans())
def test_menus_and_groups_have_the_cheapest_change_by_any_cost(
    kind: str, norm: str, seed: int, forbidden: bool
) -> None:
    model, points = make_case(kind, seed)
    explainer = Explainer(model, points, desired="yes", domain="seen")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    own = points.iloc[row]
    age = {"up": math.inf, "down": 1} if forbidden else 1
    cost = Cost(norm, prices={"debt": {"up": 3, "down": 1}, "job": 2, "age": age})
    desired = points[(model.predict(points) == "yes") & ((points["age"] <= own["age"]) | (not forbidden))]
    best: dict[frozenset[str], tuple[int, float]] = {}
    for _, point in desired.iterrows():
        changed = frozenset(name for name in FEATURES if point[name] != own[name])
        rank = (len(changed) if norm == "fewest" else 0, price(own, point, norm))
        best[changed] = min(best.get(changed, (9, 99.0)), rank)
    minimal = {one: rank for one, rank in best.items() if not any(other < one for other in best)}
    menu = explainer.change_menu(row, cost=cost)
    assert menu.complete
    assert {frozenset(one.features) for one in menu} == set(minimal)
    for one in menu:
        assert one.proven
        assert one.cost == pytest.approx(minimal[frozenset(one.features)][1])
    groups = explainer.group_changes(
        row, [list(some) for size in (1, 2, 3) for some in combinations(FEATURES, size)], cost=cost
    )
    for one in groups:
        inside = [rank for some, rank in best.items() if some <= {*one.features}]
        assert one.proven
        assert one.cost == (pytest.approx(min(inside)[1]) if inside else None)
    for listed in (menu, groups):
        ranks = [
            (len(one.counterfactual.changes) if norm == "fewest" else 0, one.cost)
            for one in listed
            if one.counterfactual is not None
        ]
        assert ranks == sorted(ranks)


def reach(model: Any, points: pd.DataFrame, kind: str) -> tuple[dict[str, Any], Any]:
    """What is to be reached, as options, and which points reach it; some row is left that does not."""
    scores = model.predict_proba(points)[:, 1]
    desired = model.predict(points) == "yes"
    if kind == "target":
        above = float(np.quantile(scores, 0.6)) + 1e-6
        return {"target": Target(above=above)}, scores > above
    if kind == "margin":
        return {"margin": 0.2}, desired & (scores > 0.7)
    second, _ = make_case("tree", 3)
    return {"models": [second]}, desired & (second.predict(points) == "yes")


@pytest.mark.parametrize(("kind", "reached"), [*product(["tree", "forest"], REACHED), ("logistic", "target")])
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 1_000))
def test_menus_groups_and_change_sets_are_about_what_is_to_be_reached(kind: str, reached: str, seed: int) -> None:
    model, points = make_case(kind, seed)
    options, good = reach(model, points, reached)
    assume(good.any())
    explainer = Explainer(model, points, desired="yes", domain="seen")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    own, cost = points.iloc[row], Cost("l1", prices={"debt": {"up": 3, "down": 1}, "job": 2})
    assume(not good[row])
    best: dict[frozenset[str], float] = {}
    for _, point in points[good].iterrows():
        changed = frozenset(name for name in FEATURES if point[name] != own[name])
        best[changed] = min(best.get(changed, 99.0), price(own, point, "l1"))
    minimal = {one: least for one, least in best.items() if not any(other < one for other in best)}
    menu = explainer.change_menu(row, cost=cost, **options)
    listing = explainer.change_sets(row, cost=cost, **options)
    listed = list(listing)
    for entries, complete in ((menu, menu.complete), (listed, listing.complete)):
        assert complete
        assert {frozenset(one.features) for one in entries} == set(minimal)
        for one in entries:
            assert one.proven
            assert one.minimal
            assert one.cost == pytest.approx(minimal[frozenset(one.features)])
            values = dict(one.counterfactual.values)
            assert good[(points[list(FEATURES)] == pd.Series(values)[list(FEATURES)]).all(axis=1)].all()
    for one in explainer.group_changes(row, [["age", "debt"], ["job"], list(FEATURES)], cost=cost, **options):
        inside = [least for some, least in best.items() if some <= {*one.features}]
        assert one.proven
        assert one.cost == (pytest.approx(min(inside)) if inside else None)


def test_a_menu_for_what_lies_between_values_is_searched_and_proven_there() -> None:
    """A band of a linear model's scores that no value of ``a`` has, but numbers between two of them."""
    table = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0, 4.0] * 4, "b": [0.0, 1.0] * 10})
    model = LogisticRegression().fit(table, table["a"] + table["b"] > 2.5)
    explainer = Explainer(model, table, desired=True)
    low, high = model.predict_proba(pd.DataFrame({"a": [1.3, 1.6], "b": [0.0, 0.0]}))[:, 1]
    band = Target(above=low, at_most=high)
    row = {"a": 0.0, "b": 0.0}
    menu = explainer.change_menu(row, target=band)
    assert menu.complete
    assert [(one.features, one.proven, one.minimal) for one in menu] == [(("a",), True, True)]
    assert 1.3 < menu[0].counterfactual.values["a"] < 1.31
    assert [one.features for one in explainer.change_sets(row, target=band)] == [("a",)]
    assert not explainer.find_forbidding_restrictions(row, features_to_vary=["a"], target=band).restrictions
    why = explainer.find_forbidding_restrictions(row, features_to_vary=["b"], target=band)
    assert (why.proven, why.minimal, [one.feature for one in why.restrictions]) == (True, True, ["a"])


def test_what_is_reached_is_told_with_the_menu() -> None:
    explainer, row, menu = make_menu()
    assert not {"target", "margin"} & set(menu.to_dict())
    told = explainer.change_menu(row, target=Target(above=0.55), margin=0.01).to_dict()
    assert (told["target"], told["margin"]) == (Target(above=0.55).to_dict(), 0.01)
    plain = list(explainer.change_sets(row))
    assert all(one.proven is None and one.cost is None for one in plain)


def test_a_cost_is_shown_with_the_menu() -> None:
    explainer, row, menu = make_menu()
    cost = Cost("l1", prices={"job": 2})
    priced = explainer.change_menu(row, cost=cost)
    assert all("(cost " in str(one) for one in priced)
    assert "(distance " in str(menu[0])
    assert list(priced.to_frame()["cost"]) == [one.cost for one in priced]
    assert "cost" not in menu.to_frame()
    assert priced.to_dict()["cost"] == cost.to_dict()


@pytest.mark.parametrize("kind", ["boosting", "logistic", "network"])
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 1_000), step=st.sampled_from([2, 3]))
def test_sets_of_changes_by_steps_are_those_that_the_steps_allow(kind: str, seed: int, step: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, points = make_case(kind, seed)
    assume(len({*model.predict(points)}) == 2)
    explainer = Explainer(model, points, desired="yes", domain="seen")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    own = points.iloc[row]
    cost = Cost(steps={"age": step, "debt": 2})
    best = find_best(
        model, own, lambda some: ((some["age"] - own["age"]) % step == 0) & ((some["debt"] - own["debt"]) % 2 == 0)
    )
    minimal = {one: least for one, least in best.items() if not any(other < one for other in best)}
    menu = explainer.change_menu(row, cost=cost)
    assert menu.complete
    assert {frozenset(one.features): one.distance for one in menu} == pytest.approx(minimal)
    assert all(one.minimal and one.proven for one in menu)
    assert {frozenset(one.features) for one in explainer.change_sets(row, cost=cost)} == set(minimal)


def test_steps_go_to_numbers_that_no_past_row_has_and_names_are_checked() -> None:
    explainer, row, _ = make_menu()
    with pytest.raises(SpaceError):
        explainer.change_menu(row, cost=Cost(prices={"wage": 2}))
    table = pd.DataFrame({"income": [0.0, 1.0, 2.0, 3.0, 4.0] * 4, "b": [0.0, 1.0] * 10})
    model = DecisionTreeClassifier(max_depth=1).fit(table, table["income"] > 2.2)
    menu = Explainer(model, table, desired=True).change_menu(
        {"income": 0.2, "b": 0.0}, cost=Cost(steps={"income": 0.8})
    )
    assert menu.complete
    assert [one.counterfactual.values["income"] for one in menu] == [pytest.approx(2.6)]
    assert ironrule.check(menu.to_json(), model, table, desired=True).status == "proven"


def make_menu() -> tuple[Explainer, int, ChangeMenu]:
    model, points = make_case("boosting", 2)
    explainer = Explainer(model, points, desired="yes")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    return explainer, row, explainer.change_menu(row)


def test_a_menu_is_a_table_and_a_text_and_data() -> None:
    _, _, menu = make_menu()
    frame = menu.to_frame()
    assert list(frame["name"]) == [one.name for one in menu]
    assert list(frame["distance"]) == [one.distance for one in menu]
    assert str(menu).startswith("1. ")
    assert len(str(menu).splitlines()) == len(menu)
    assert menu.to_dict()["entries"][0]["features"] == list(menu[0].features)


def test_a_limit_and_a_budget_leave_a_menu_incomplete() -> None:
    explainer, row, menu = make_menu()
    short = explainer.change_menu(row, limit=1)
    assert len(short) == 1
    assert not short.complete
    assert "there may be others" in str(short)
    stopped = explainer.change_menu(row, budget=Budget(seconds=1e-9))
    assert not stopped.complete
    assert len(stopped) <= len(menu)
    groups = explainer.group_changes(row, [["age"], ["debt", "job"]], budget=Budget(seconds=1e-9))
    assert [one.proven for one in groups] == [False, False]
    assert {one.name for one in groups} == {"age", "debt + job"}
    assert "none was found" in str(groups)


@pytest.mark.parametrize("groups", [[], {}, "age", 3, {"money": ["incom"]}, {1: ["age"]}, [["age"], 3]])
def test_what_are_no_groups_is_refused(groups: Any) -> None:
    explainer, row, _ = make_menu()
    with pytest.raises(InputError):
        explainer.group_changes(row, groups)


def test_a_menu_can_be_drawn() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from ironrule.report.plots.changes import draw_menu

    explainer, row, menu = make_menu()
    groups = explainer.group_changes(row, {"nothing": [], "all": list(FEATURES)})
    for each in (menu, groups):
        drawing = draw_menu(each)
        assert [text.get_text() for text in each.plot().texts] == list(drawing.texts)
    assert "there is none" in draw_menu(groups).texts
    assert draw_menu(ChangeMenu({}, (), True)).texts[-1] == "there is no change"
    plt.close("all")


def test_a_missing_value_may_become_a_number_between_those_seen() -> None:
    data = pd.DataFrame({"a": [0.0, 1.0, 4.0, 5.0, None, 0.0, 5.0, None], "b": [0, 1, 0, 1, 0, 0, 1, 1]})
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(data, data["a"].fillna(0.0) > 2.0)
    chance = model.predict_proba(pd.DataFrame({"a": [1.75], "b": [0]}))[0, 1]
    target = Target(above=chance - 0.001, at_most=chance + 0.001)
    explainer = Explainer(model, data, desired=True)
    menu = explainer.change_menu(4, target=target, features_to_vary=["a"])
    assert [(entry.features, entry.distance, entry.proven) for entry in menu] == [(("a",), 1.0, True)]
    assert 1.0 < menu[0].counterfactual.values["a"] < 4.0
    assert explainer.group_changes(4, {"only a": ["a"]}, target=target)[0].distance == 1.0
