"""Counterfactuals by themselves: what may change, what comes back, and that no change is useless."""

import datetime
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.tree import DecisionTreeClassifier

from applications import DENIED, GRADES, decide, past, score, wide
from ironrule import Budget, Explainer
from ironrule.backends.forest import compile as forest_compile
from ironrule.errors import BudgetError, ConstraintError, InputError, SpaceError

PAST = past()
JANUARY, APRIL, JULY = (datetime.date(2024, month, 1) for month in (1, 4, 7))


@pytest.fixture(scope="module")
def explainer():
    return Explainer(decide, PAST, desired="good")


def outcome(values):
    return decide(pd.DataFrame([values]))[0]


def check(found, allowed=bool):
    """Every counterfactual is desired and allowed, and undoing any one change breaks one of the two."""
    assert len({str(item) for item in found}) == len(found)
    for item in found:
        values = dict(item.values)
        assert outcome(values) == "good"
        assert allowed(values)
        assert {c.feature: c.after for c in item.changes} == {k: v for k, v in values.items() if v != DENIED[k]}
        for change in item.changes:
            undone = values | {change.feature: change.before}
            assert outcome(undone) == "bad" or not allowed(undone), f"{change} is useless"


def test_counterfactuals_are_desired_distinct_and_without_useless_changes(explainer):
    found = explainer.counterfactuals(DENIED, k=4)
    assert 1 < len(found) <= 4
    check(found)
    assert list(found) == [found[place] for place in range(len(found))]
    assert dict(found.instance) == DENIED


def test_only_the_features_named_vary(explainer):
    found = explainer.counterfactuals(DENIED, features_to_vary=["income", "job"])
    assert len(found) > 0
    check(found, lambda values: all(values[name] == DENIED[name] for name in DENIED if name not in ("income", "job")))
    single = explainer.counterfactuals(DENIED, features_to_vary="grade")
    assert [str(item) for item in single] == ["grade: 'low' -> 'high'"]
    assert len(explainer.counterfactuals(DENIED, features_to_vary=["since"])) == 0
    assert len(explainer.counterfactuals(DENIED, features_to_vary=[])) == 0


@pytest.mark.parametrize(
    ("ranges", "allowed"),
    [
        ({"income": [1, 3]}, lambda v: v["income"] <= 3),
        ({"income": (2, 4)}, lambda v: v["income"] >= 2),
        ({"income": np.array([4, 4])}, lambda v: v["income"] == 4),
        ({"income": [2.5, 100]}, lambda v: v["income"] >= 3),
        ({"job": ["clerk"]}, lambda v: v["job"] == "clerk"),
        ({"job": ["judge's aide", "cook"]}, lambda v: v["job"] != "clerk"),
        ({"grade": ["low", "middle"]}, lambda v: v["grade"] != "high"),
        ({"grade": ["middle", "high"]}, lambda v: v["grade"] != "low"),
        ({"since": [APRIL, JULY]}, lambda v: v["since"] >= APRIL),
        ({"since": ["2024-04-01", "2024-06-30"]}, lambda v: v["since"] == APRIL),
        ({"income": [1, 2], "grade": ["low", "high"]}, lambda v: v["income"] <= 2),
        ({"income": [2, 4], "job": ["clerk"], "since": [JULY, JULY]},
         lambda v: v["income"] >= 2 and v["job"] == "clerk" and v["since"] == JULY),
    ],
)  # fmt: skip
def test_permitted_ranges_are_kept_even_where_the_instance_is_outside(explainer, ranges, allowed):
    found = explainer.counterfactuals(DENIED, permitted_range=ranges)
    assert len(found) > 0
    check(found, allowed)


def test_odd_names_and_values_may_be_permitted():
    table = pd.DataFrame({'naïve "x" \\ y': ["it's", 'a "b"', "\\", None] * 5, "n": [1, 2, 3, 4] * 5})
    name = table.columns[0]
    explainer = Explainer(lambda rows: (rows[name] != "it's").to_numpy() & (rows["n"] > 1), table)
    row = {name: "it's", "n": 2}
    for value in ('a "b"', "\\", None):
        found = explainer.counterfactuals(row, permitted_range={name: [value]})
        assert [item.values[name] for item in found] == [value]


@pytest.mark.parametrize(
    ("ranges", "error", "message"),
    [
        ({"incme": [1, 2]}, SpaceError, r"did you mean 'income'\?"),
        ({"income": [1]}, InputError, r"permitted range of 'income' must be \[lowest, highest\], got \[1\]"),
        ({"income": 3}, InputError, "permitted range of 'income' must be a non-empty list, got 3"),
        ({"job": "clerk"}, InputError, "permitted range of 'job' must be a non-empty list, got 'clerk'"),
        ({"job": []}, InputError, r"permitted range of 'job' must be a non-empty list, got \[\]"),
        ({"job": ["baker"]}, ConstraintError, "must be one of 'clerk', 'cook'"),
        ({"income": ["a", "b"]}, ConstraintError, "expected a number, got"),
        ({"income": [4, 1]}, ConstraintError, "no point of the space satisfies the constraints"),
        ({"income": [50, 60]}, ConstraintError, "no point of the space satisfies the constraints"),
        ({"since": ["soon", "later"]}, ConstraintError, "a date must look like"),
    ],
    ids=str,
)
def test_ranges_that_make_no_sense_are_refused(explainer, ranges, error, message):
    with pytest.raises(error, match=message):
        explainer.counterfactuals(DENIED, permitted_range=ranges)


def test_unknown_features_to_vary_are_refused(explainer):
    with pytest.raises(SpaceError, match="unknown feature 'incme'"):
        explainer.counterfactuals(DENIED, features_to_vary=["incme"])


def test_constraints_may_speak_of_the_instance(explainer):
    texts = ["cf.since >= x.since", "cf.grade == x.grade", "if cf.income > x.income then cf.since > x.since"]

    def allowed(values):
        later = values["since"] > DENIED["since"]
        return values["since"] >= DENIED["since"] and values["grade"] == "low" and (values["income"] <= 1 or later)

    found = explainer.counterfactuals(DENIED, constraints=texts)
    assert len(found) > 0
    check(found, allowed)
    assert all(item.values["since"] > JANUARY for item in found)


def test_constraints_of_the_explainer_and_of_the_call_come_together():
    explainer = Explainer(decide, PAST, desired="good", constraints=["cf.income <= x.income + 2", "cf.job == x.job"])
    assert explainer.space.constraints == ()
    found = explainer.counterfactuals(DENIED, constraints="cf.grade == 'low'")
    check(found, lambda v: v["income"] <= 3 and v["job"] == "cook" and v["grade"] == "low")
    assert str(found[0]) == "income: 1 -> 3, accounts: 3 -> 1"
    rule = explainer.explain(DENIED).rule
    free = Explainer(decide, PAST, desired="good").explain(DENIED).rule
    assert rule == free, "what a counterfactual may change says nothing about whom a rule must hold for"


def test_constraints_that_nothing_satisfies_are_refused(explainer):
    with pytest.raises(ConstraintError, match="no point of the space satisfies the constraints"):
        explainer.counterfactuals(DENIED, constraints=["cf.income < x.income"])


def test_counterfactuals_that_do_not_exist_are_not_found(explainer):
    found = explainer.counterfactuals(DENIED, constraints=["cf.income == 1", "cf.grade != 'high'"])
    assert len(found) == 0
    assert str(found) == "no counterfactual was found"
    assert found.statistics.stopped is None


@given(st.integers(1, 4), st.integers(0, 3), st.sampled_from(GRADES), st.sampled_from([JANUARY, APRIL, JULY]))
@settings(max_examples=25, deadline=None)
def test_a_counterfactual_is_found_whenever_one_is_permitted(explainer, income, accounts, grade, since):
    ranges = {
        "income": [1, income],
        "accounts": [accounts, 3],
        "grade": ["low", grade],
        "since": [since, JULY],
    }

    def allowed(v):
        low_enough = GRADES.index(v["grade"]) <= GRADES.index(grade)
        return v["income"] <= income and v["accounts"] >= accounts and low_enough and v["since"] >= since

    found = explainer.counterfactuals(DENIED, permitted_range=ranges)
    check(found, allowed)
    assert bool(found) == (grade == "high" or income >= 3)


def test_k_limits_how_many_come(explainer):
    assert len(explainer.counterfactuals(DENIED, k=1)) == 1
    with pytest.raises(InputError, match="k must be a positive integer"):
        explainer.counterfactuals(DENIED, k=0)


def test_the_same_seed_gives_the_same_counterfactuals():
    explainer = Explainer(score, wide())
    row = {f"f{j}": 2 for j in range(8)}
    first, second = (explainer.counterfactuals(row, seed=5) for _ in range(2))
    assert first.items == second.items
    assert first.statistics.evaluations == second.statistics.evaluations


@pytest.mark.parametrize("evaluations", [1, 10, 100, 1000])
def test_a_budget_is_kept_and_told(evaluations):
    explainer = Explainer(score, wide())
    row = {f"f{j}": 0 for j in range(8)}
    found = explainer.counterfactuals(row, budget=Budget(evaluations=evaluations))
    assert found.statistics.evaluations <= evaluations
    for item in found:
        assert score(pd.DataFrame([dict(item.values)]))[0] > 0.5
    with pytest.raises(BudgetError):
        explainer.counterfactuals(row, budget=0)


def test_counterfactuals_come_as_plain_data_text_and_html(explainer):
    found = explainer.counterfactuals(DENIED, k=2)
    data = found.to_dict()
    assert [entry["changes"] for entry in data["counterfactuals"]]
    assert data["instance"]["since"] == {"date": "2024-01-01"}
    assert str(found).startswith("1. ")
    assert found._repr_html_().count("<tr>") == 1 + sum(len(item.changes) for item in found)


@pytest.mark.parametrize("features", ["all", ["f0", "f1"]])
def test_counterfactuals_come_nearest_first_also_where_some_differ_only_in_how_much_they_change(features):
    data = wide()
    explainer = Explainer(score, data)
    for row in np.flatnonzero(~explainer.outcomes)[:8].tolist():
        found = explainer.counterfactuals(row, k=5, features_to_vary=features)
        ranges = {feature.name: feature.values[-1] - feature.values[0] for feature in explainer.space.features}
        apart = [[abs(one.after - one.before) / ranges[one.feature] for one in item.changes] for item in found]
        measured = [(len(each), round(sum(each), 9)) for each in apart]
        assert measured == sorted(measured)


@pytest.mark.parametrize("evaluations", [30, 60, 90])
def test_a_budget_that_ends_after_something_was_found_gives_it_and_says_so(evaluations):
    data = wide()
    row = {f"f{j}": value for j, value in enumerate([2, 3, 4, 5, 5, 5, 5, 5])}
    found = Explainer(score, data).counterfactuals(row, k=3, budget=Budget(evaluations=evaluations))
    assert 1 <= len(found) <= 3
    assert found.statistics.stopped == "budget"
    assert found.to_dict()["stopped"] == "budget"
    assert found.statistics.evaluations <= evaluations
    assert all(score(pd.DataFrame([dict(item.values)]))[0] > 0.5 for item in found)


def test_a_search_that_ends_by_itself_was_not_stopped(explainer):
    assert explainer.counterfactuals(DENIED).statistics.stopped is None


def test_constraints_that_cannot_be_read_are_searched_unless_exactness_is_insisted_on(monkeypatch) -> None:
    table = pd.DataFrame({"income": [1, 2, 3, 4], "debt": [4, 3, 2, 1]})
    model = DecisionTreeClassifier(random_state=0).fit(table, [0, 0, 1, 1])
    explainer = Explainer(model, table, desired=1)
    limits = ["cf.debt + cf.income >= x.income"]
    assert explainer.counterfactuals(0, constraints=limits).proven
    monkeypatch.setattr(forest_compile, "MAX_COMBINATIONS", 3)
    assert not explainer.counterfactuals(0, constraints=limits).proven
    with pytest.raises(InputError, match="are not available here") as refused:
        explainer.counterfactuals(0, algorithm="exact", constraints=limits)
    assert (refused.value.code, refused.value.hint) == ("exact-counterfactuals-unavailable", "use algorithm='geco'")


@pytest.mark.parametrize(
    ("ends", "plain"), [((2, math.inf), (2, 99)), ((-math.inf, 3), (-99, 3)), ((-math.inf, math.inf), (-99, 99))]
)
def test_an_end_of_a_permitted_range_may_be_infinite(ends, plain):
    data = pd.DataFrame({"age": [1, 2, 3, 4, 5, 6] * 4, "debt": [0, 1, 2, 3] * 6})
    explainer = Explainer(lambda table: np.asarray(table["age"] > table["debt"] + 2), data, desired=True)
    found = [explainer.counterfactuals(0, k=3, permitted_range={"age": list(one)}).items for one in (ends, plain)]
    assert found[0] == found[1]


@pytest.mark.parametrize("ends", [[math.inf, math.inf], [1, -math.inf], [math.nan, 1], [None, 1]])
def test_a_permitted_range_without_numbers_is_refused(explainer, ends):
    with pytest.raises(InputError, match=r"must be \[lowest, highest\]"):
        explainer.counterfactuals(DENIED, permitted_range={"income": ends})
