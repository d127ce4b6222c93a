"""Counterfactuals that reach another class, a score, a band or a grade, compared with the user's own model."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

import ironrule
from ironrule import Explainer, Target
from ironrule.errors import InputError, OutcomeError
from ironrule.model.target import parse_target

NAMES = ("age", "debt", "income")
CLASSIFIERS = {
    "linear": LogisticRegression(),
    "trees": GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0),
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0),
    "network": MLPClassifier((3,), max_iter=150, random_state=0),
}


def make_data(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of few values and a score of every row."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "age": rng.integers(1, 5, 60),
            "debt": rng.integers(0, 4, 60) / 4,
            "income": rng.choice([1.0, 2.0, 4.0, 7.0], 60),
        }
    )
    return data, np.asarray(data["income"] / 4 - data["debt"] + data["age"] / 4 + rng.normal(0, 0.3, 60))


def list_points(data: pd.DataFrame) -> pd.DataFrame:
    """Every combination of values."""
    points = itertools.product(*(sorted(data[name].unique()) for name in NAMES))
    return pd.DataFrame(list(points), columns=NAMES).astype(data.dtypes.to_dict())


def check_fewest(found, row: pd.Series, points: pd.DataFrame, reached: np.ndarray) -> None:
    """As many changes as needed: no point that reaches the target has fewer than the first answer."""
    changes = (points[reached] != row).sum(axis=1)
    if not len(found):
        assert not len(changes) or not found.proven
        return
    values = points.merge(pd.DataFrame([dict(found[0].values)]).astype(points.dtypes.to_dict()))
    assert len(values) == 1
    match = (points == values.iloc[0]).all(axis=1)
    assert reached[match].all()
    if found.proven:
        assert len(found[0].changes) == changes.min()


targets = st.one_of(
    st.sampled_from(["low", "mid", "high"]).map(Target),
    st.sampled_from([("low", "mid"), ("mid", "high")]).map(lambda two: Target(list(two))),
    st.tuples(st.sampled_from([None, "mid"]), st.floats(0.05, 0.9)).map(lambda one: Target(one[0], above=one[1])),
    st.tuples(st.sampled_from([None, "mid"]), st.floats(0.05, 0.9)).map(lambda one: Target(one[0], at_most=one[1])),
    st.tuples(st.sampled_from([None, "mid"]), st.floats(0.05, 0.5), st.floats(0.05, 0.4)).map(
        lambda one: Target(one[0], above=one[1], at_most=one[1] + one[2])
    ),
)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@settings(max_examples=10, deadline=None)
@given(target=targets, number=st.integers(0, 59), seed=st.integers(0, 3))
def test_a_target_is_reached_with_the_fewest_changes(kind, target, number, seed):
    data, scores = make_data(seed)
    classes = np.array(["low", "mid", "high"])[np.digitize(scores, [0.4, 1.2])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that learns for a short time
        model = CLASSIFIERS[kind].fit(data, classes)
    explainer = Explainer(model, data, desired="high", domain="seen")
    points = list_points(data)

    def reaches(table: pd.DataFrame) -> np.ndarray:
        labels, shares = model.predict(table), model.predict_proba(table)
        if target.above is None and target.at_most is None:
            return np.isin(labels, target.desired)
        wanted = target.desired or ("high",)
        share = shares[:, [list(model.classes_).index(one) for one in wanted]].sum(axis=1)
        good = np.ones(len(table), dtype=np.bool_) if target.above is None else share > target.above
        return good if target.at_most is None else good & (share <= target.at_most)

    row = data.iloc[number]
    if reaches(data.iloc[[number]])[0]:
        with pytest.raises(OutcomeError):
            explainer.counterfactuals(number, k=1, target=target)
        return
    found = explainer.counterfactuals(number, k=1, target=target)
    assert found.target == target
    check_fewest(found, row, points, reaches(points))
    if kind in ("tree", "forest", "trees") and target.above is None and target.at_most is None:
        assert found.proven


@pytest.mark.parametrize("model", [RandomForestRegressor(n_estimators=4, max_depth=3, random_state=0), "function"])
def test_a_grade_is_a_band_of_scores(model):
    data, scores = make_data(1)
    fitted = model.fit(data, scores) if model != "function" else None

    def score(table):
        return np.asarray(table["income"]) / 4 - np.asarray(table["debt"])

    explainer = Explainer(fitted or score, data, threshold=1.0, domain="seen")
    ask = fitted.predict if fitted else score
    grades = {"C": -math.inf, "B": 0.6, "A": 1.0}
    points = list_points(data)
    row = int(np.flatnonzero(ask(data) <= 0.6)[0])
    for name, low, high in (("B", 0.6, 1.0), ("A", 1.0, math.inf)):
        found = explainer.counterfactuals(row, k=2, target=Target.grade(name, grades))
        reached = (ask(points) > low) & (ask(points) <= high)
        assert len(found)
        assert found.proven == (fitted is not None)
        check_fewest(found, data.iloc[row], points, reached)
    accepted = int(np.flatnonzero(ask(data) > 1.0)[0])
    down = explainer.counterfactuals(accepted, k=1, target=Target.grade("C", grades))
    assert len(down), "a row with the desired outcome can be asked about another one"


def test_a_score_at_the_upper_end_of_a_band_is_in_it_and_at_the_lower_end_is_not():
    data = pd.DataFrame({"points": [0.0, 1.0, 2.0, 3.0]})
    explainer = Explainer(lambda table: np.asarray(table["points"]), data, threshold=1.5)
    found = explainer.counterfactuals(0, k=1, target=Target(above=1.0, at_most=2.0))
    assert [item.values["points"] for item in found] == [2.0]


def test_a_binary_classifier_is_asked_for_a_higher_score():
    data, scores = make_data(2)
    model = LogisticRegression().fit(data, (scores > 0.8).astype(int))
    explainer = Explainer(model, data)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    near, far = (explainer.counterfactuals(row, k=1, cost="l1", target=target) for target in (None, Target(above=0.8)))
    shares = [model.predict_proba(pd.DataFrame([dict(found[0].values)]))[0, 1] for found in (near, far)]
    assert near.proven
    assert far.proven
    assert 0.5 < shares[0] < 0.8 < shares[1]
    assert near.measure()[0].cost < far.measure()[0].cost


def test_a_batch_reaches_the_target():
    data, scores = make_data(2)
    model = DecisionTreeClassifier(max_depth=3, random_state=0)
    model.fit(data, np.array(["low", "mid", "high"])[np.digitize(scores, [0.4, 1.2])])
    explainer = Explainer(model, data, desired="high")
    batch = explainer.counterfactuals_many(target="mid", k=1, workers=1)
    assert batch.counts["desired"] == (model.predict(data) == "mid").sum()
    rows = pd.DataFrame([dict(item.values) for found in batch for item in found])[list(NAMES)]
    assert (model.predict(rows) == "mid").all()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("medium", "must be one of"),
        (Target(above=1.5), "from 0 to 1"),
        (["low", "mid", "high"], "at least one class must be undesired"),
    ],
)
def test_a_target_that_the_model_cannot_have_is_refused(target, words):
    data, scores = make_data(0)
    model = DecisionTreeClassifier(max_depth=3, random_state=0)
    model.fit(data, np.array(["low", "mid", "high"])[np.digitize(scores, [0.4, 1.2])])
    with pytest.raises(OutcomeError, match=words):
        Explainer(model, data, desired="high").counterfactuals(0, target=target)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Target(),
        lambda: Target(above="0.8"),
        lambda: Target(above=math.nan),
        lambda: Target(above=0.8, at_most=0.8),
        lambda: Target.grade("D", {"A": 0.8}),
        lambda: Target.grade("A", [0.8]),
        lambda: Target.grade("A", {"A": "high"}),
        lambda: Target.from_dict({"below": 3}),
        lambda: parse_target({"above": 0.8}),
    ],
)
def test_what_is_no_target_is_refused(build):
    with pytest.raises(InputError):
        build()


@pytest.mark.parametrize("target", [Target("a"), Target(["a", 3]), Target(above=0.2), Target("b", 0.1, 0.3)])
def test_a_target_survives_json(target):
    assert Target.from_dict(target.to_dict()) == target


def test_a_band_between_the_values_seen_of_a_linear_model_is_reached_there():
    """No seen value has a score between 0.5 and 0.7; numbers between them do."""
    data = pd.DataFrame({"income": np.repeat([-2.0, -1.0, 1.0, 2.0], 5)})
    model = LogisticRegression().fit(data, (data["income"] > 0).astype(int))
    between = model.predict_proba(pd.DataFrame({"income": [0.1]}))[0, 1]
    target = Target(above=0.5, at_most=0.7)
    assert 0.5 < between <= 0.7
    explainer = Explainer(model, data)
    assert not explainer.obstacles
    found = explainer.counterfactuals(0, k=1, target=target)
    assert found.proven
    (row,) = [pd.DataFrame([dict(one.values)]) for one in found]
    assert 0.5 < model.predict_proba(row)[0, 1] <= 0.7
    batch = explainer.counterfactuals_many([0], target=target, workers=1)
    assert [dict(one[0].values) for one in batch] == [dict(found[0].values)]
    assert ironrule.check(found, model, data).status == "proven"
    seen = Explainer(model, data, domain="seen").counterfactuals(0, k=1, target=target)
    assert seen.proven
    assert not seen
