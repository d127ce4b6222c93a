"""Counterfactuals that stay desired by a margin and under further models, compared with the user's own estimators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from small_models import MODELS, list_points, make_case

from ironrule import Counterfactuals, Explainer, Target
from ironrule.errors import InputError, OutcomeError

TREES = ("tree", "boosting", "forest")


def get_shares(model: Any, table: Any) -> np.ndarray:
    """The probability of "yes" of every row."""
    return np.asarray(model.predict_proba(table)[:, list(model.classes_).index("yes")])


def agree(models: list[Any], table: Any, margin: float) -> np.ndarray:
    """Which rows all models desire, also when their probabilities fall by the margin."""
    good = np.all([model.predict(table) == "yes" for model in models], axis=0)
    if margin:
        good &= np.all([get_shares(model, table) > 0.5 + margin for model in models], axis=0)
    return np.asarray(good)


def check_nearest(found: Counterfactuals, own: pd.Series, points: pd.DataFrame, good: np.ndarray) -> None:
    """What was found is among the good points, and none of them has fewer changes if that is proven."""
    changes = (points[good] != own).sum(axis=1)
    if not found:
        assert not found.proven or not len(changes)
        return
    values = pd.Series(dict(found[0].values))[list(points.columns)]
    match = (points == values).all(axis=1)
    assert match.sum() == 1
    assert good[match].all()
    assert not found.proven or len(found[0].changes) == changes.min()


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 500),
    others=st.lists(st.sampled_from([*TREES, "logistic"]), max_size=2),
    margin=st.sampled_from([0.0, 0.1, 0.25, 0.4]),
)
def test_robust_counterfactuals_are_desired_by_every_model(
    kind: str, seed: int, others: list[str], margin: float
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that learns for a short time
        model, points = make_case(kind, seed)
    further = [make_case(one, seed + place + 1)[0] for place, one in enumerate(others)]
    good = agree([model, *further], points, margin)
    assume(not good.all() and 0 < (model.predict(points) == "yes").sum() < len(points))
    explainer = Explainer(model, points, desired="yes", domain="seen")
    for row in np.flatnonzero(~good)[:: max(1, (~good).sum() // 3)].tolist():
        found = explainer.counterfactuals(row, k=1, margin=margin, models=further)
        check_nearest(found, points.iloc[row], points, good)
        assert (found.margin, found.further_models) == (margin, len(further))
        assert found.proven or (kind == "network" and not others)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 500), margin=st.sampled_from([0.125, 0.25, 0.375]))
def test_a_score_that_only_comes_up_to_the_moved_threshold_is_not_enough(seed: int, margin: float) -> None:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"a": np.repeat(np.arange(4), 8), "b": rng.integers(0, 3, 32)})
    labels = np.concatenate([np.arange(8) < count for count in rng.permutation([0, 5, 6, 7])])  # shares of eighths
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(data[["a"]].assign(b=0), labels)
    explainer = Explainer(model, data, desired=True, domain="seen")
    shares = model.predict_proba(data)[:, 1]
    good = (shares > 0.5 + margin) & model.predict(data)
    row = int(np.flatnonzero(~good)[0])
    found = explainer.counterfactuals(row, k=1, margin=margin)
    assert found.proven
    assert bool(found) == bool(good.any())
    for one in found:
        assert model.predict_proba(pd.DataFrame([dict(one.values)])[["a", "b"]])[0, 1] > 0.5 + margin


@pytest.mark.parametrize("desired", ["above", "below"])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 500), margin=st.sampled_from([0.0, 0.2, 0.5]))
def test_scores_of_regressions_stay_on_the_desired_side(desired: str, seed: int, margin: float) -> None:
    rng = np.random.default_rng(seed)
    points = list_points()[["age", "debt"]].drop_duplicates().reset_index(drop=True)
    score = points["age"] / 2 - points["debt"] + rng.normal(0, 0.5, len(points))
    models = [
        DecisionTreeRegressor(max_depth=3, random_state=0).fit(points, score),
        GradientBoostingRegressor(n_estimators=4, learning_rate=0.5, max_depth=2, random_state=0).fit(points, score),
    ]
    sign = 1 if desired == "above" else -1
    good = np.all([sign * (model.predict(points) - 0.1) > margin for model in models], axis=0)
    own = sign * (models[0].predict(points) - 0.1) > 0
    assume(own.any() and not own.all())
    explainer = Explainer(models[0], points, threshold=0.1, desired=desired, domain="seen")
    row = int(np.flatnonzero(~good)[0])
    found = explainer.counterfactuals(row, k=1, margin=margin, models=models[1:])
    assert found.proven or not margin
    check_nearest(found, points.iloc[row], points, good)


def test_between_the_values_seen_all_models_agree_too() -> None:
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200), "c": rng.normal(size=200)})
    labels = (data["a"] + data["b"] + rng.normal(0, 0.3, 200) > 0).map({True: "yes", False: "no"})
    first = RandomForestClassifier(n_estimators=8, max_depth=4, random_state=0).fit(data, labels)
    second = RandomForestClassifier(n_estimators=8, max_depth=4, random_state=1).fit(data[["c", "b", "a"]], labels)
    third = DecisionTreeClassifier(max_depth=4, random_state=0).fit(data.to_numpy(), labels)
    explainer = Explainer(first, data, desired="yes")
    new = {"a": -0.90210, "b": -0.51230, "c": 0.1}
    found = explainer.counterfactuals(new, k=2, margin=0.15, models=[second, third])
    assert found.proven
    for one in found:
        row = pd.DataFrame([dict(one.values)])[["a", "b", "c"]]
        assert get_shares(first, row)[0] > 0.65
        assert get_shares(second, row[["c", "b", "a"]])[0] > 0.65
        assert get_shares(third, row.to_numpy())[0] > 0.65
    plain = explainer.counterfactuals(new, k=1)
    assert plain.margin == 0
    assert len(plain[0].changes) <= len(found[0].changes)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 500), margin=st.sampled_from([0.0, 0.1, 0.3]))
def test_nothing_nearer_lies_between_the_values_seen(seed: int, margin: float) -> None:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"a": rng.normal(size=40).round(2), "b": rng.normal(size=40).round(2)})
    models = [
        DecisionTreeClassifier(max_depth=3, random_state=0).fit(
            data, np.where(data["a"] + weight * data["b"] + rng.normal(0, 0.5, 40) > 0, "yes", "no")
        )
        for weight in (0.3, -0.5)
    ]
    # all cells of both trees at once: every threshold, with a point on it, and one a little above
    cuts = [
        np.concatenate([tree.tree_.threshold[tree.tree_.feature == column] for tree in models]) for column in (0, 1)
    ]
    grid = [np.unique([*data[name], *own, *(own + 1e-9)]) for name, own in zip(data, cuts, strict=True)]
    inside = [one[(one >= data[name].min()) & (one <= data[name].max())] for name, one in zip(data, grid, strict=True)]
    points = pd.DataFrame([(a, b) for a in inside[0] for b in inside[1]], columns=["a", "b"])
    good = agree(models, points, margin)
    denied = np.flatnonzero(~agree(models, data, margin))
    assume(len({*models[0].predict(data)}) == 2 and len(denied))
    own, reach = data.iloc[int(denied[0])], data.max() - data.min()
    found = Explainer(models[0], data, desired="yes").counterfactuals(
        int(denied[0]), k=1, margin=margin, models=models[1:]
    )
    assert found.proven
    assert bool(found) == bool(good.any())
    for one in found:
        row = pd.DataFrame([dict(one.values)])[["a", "b"]]
        assert agree(models, row, margin)[0]
        changes = (points[good] != own).sum(axis=1)
        assert len(one.changes) == changes.min()
        distances = ((points[good] - own).abs() / reach).sum(axis=1)[changes == changes.min()]
        distance = float(((row.iloc[0] - own).abs() / reach).sum())
        assert distance <= distances.min() + found.resolution * len(one.changes) + 1e-6


def test_an_approved_row_may_lack_the_margin() -> None:
    model, points = make_case("forest", 3)
    explainer = Explainer(model, points, desired="yes", domain="seen")
    shares = get_shares(model, points)
    close = int(np.flatnonzero((model.predict(points) == "yes") & (shares <= 0.7))[0])
    with pytest.raises(OutcomeError):
        explainer.counterfactuals(close, k=1)
    found = explainer.counterfactuals(close, k=1, margin=0.2)
    assert found.proven
    assert len(found) == 1


def test_a_margin_that_no_score_has_leaves_none() -> None:
    model, points = make_case("forest", 3)
    explainer = Explainer(model, points, desired="yes", domain="seen")
    found = explainer.counterfactuals(0, k=1, margin=0.9)
    assert len(found) == 0
    assert found.proven


def test_a_band_is_narrowed_on_both_sides() -> None:
    model, points = make_case("forest", 4)
    shares = get_shares(model, points)
    explainer = Explainer(model, points, desired="yes", domain="seen")
    target = Target(above=0.3, at_most=0.8)
    good = (shares > 0.3 + 0.1) & (shares <= 0.8 - 0.1)
    row = int(np.flatnonzero(~good)[0])
    found = explainer.counterfactuals(row, k=1, target=target, margin=0.1)
    assert found.proven
    check_nearest(found, points.iloc[row], points, good)
    with pytest.raises(InputError, match="twice the margin"):
        explainer.counterfactuals(row, k=1, target=target, margin=0.25)


def test_functions_are_asked_together() -> None:
    points = list_points()[["age", "debt"]].drop_duplicates().reset_index(drop=True)

    def score(table: Any) -> Any:
        return np.asarray(table["age"]) / 4 - np.asarray(table["debt"]) / 4

    def stricter(table: Any) -> Any:
        return np.asarray(table["age"]) / 4 - np.asarray(table["debt"]) / 2

    explainer = Explainer(score, points, threshold=0.2, domain="seen")
    good = (score(points) > 0.4) & (stricter(points) > 0.4)
    row = int(np.flatnonzero(~good)[0])
    for algorithm in ("auto", "geco"):
        found = explainer.counterfactuals(row, k=1, algorithm=algorithm, margin=0.2, models=[stricter])
        assert len(found) == 1
        assert not found.proven
        check_nearest(found, points.iloc[row], points, good)
    with pytest.raises(InputError, match="can be read"):
        explainer.counterfactuals(row, k=1, algorithm="exact", models=[stricter])


def test_many_rows_get_what_each_gets_alone(tmp_path) -> None:
    model, points = make_case("boosting", 6)
    further = [make_case("forest", 8)[0]]
    explainer = Explainer(model, points, desired="yes", domain="seen")
    options = {"margin": 0.1, "models": further}
    batch = explainer.counterfactuals_many(output=tmp_path / "rows", workers=1, **options)
    good = agree([model, *further], points, 0.1)
    assert len(batch) == (~good).sum()
    frame = batch.to_frame()
    row = int(np.flatnonzero(~good)[0])
    alone = explainer.counterfactuals(row, k=1, **options)
    assert dict(alone[0].values).items() <= frame.iloc[0].to_dict().items()
    again = explainer.counterfactuals_many(output=tmp_path / "rows", workers=1, **options)
    assert again.to_frame().equals(frame)
    with pytest.raises(InputError):
        explainer.counterfactuals_many(output=tmp_path / "rows", workers=1, margin=0.2, models=further)


def test_documents_keep_the_margin() -> None:
    model, points = make_case("tree", 1)
    explainer = Explainer(model, points, desired="yes", domain="seen")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    found = explainer.counterfactuals(row, k=1, margin=0.1, models=[make_case("forest", 2)[0]])
    again = Counterfactuals.from_json(found.to_json())
    assert (again.margin, again.further_models) == (0.1, 1)
    assert "margin" not in explainer.counterfactuals(row, k=1).to_dict()


@pytest.mark.parametrize("wrong", [{"margin": -0.1}, {"margin": "much"}, {"margin": True}, {"models": "forest"}])
def test_what_is_no_margin_and_no_models_is_refused(wrong: dict[str, Any]) -> None:
    model, points = make_case("tree", 1)
    explainer = Explainer(model, points, desired="yes", domain="seen")
    with pytest.raises(InputError):
        explainer.counterfactuals(0, k=1, **wrong)


def test_a_single_model_without_scores_has_no_margin() -> None:
    points = list_points()[["age", "debt"]]
    labels = np.digitize(points["age"], [2, 4])
    model = LogisticRegression().fit(points, labels)
    with pytest.raises(OutcomeError, match="threshold"):
        Explainer(model, points, desired=2, domain="seen").counterfactuals(0, k=1, margin=0.1)
