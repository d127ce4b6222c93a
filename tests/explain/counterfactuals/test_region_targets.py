"""Regions in which every point reaches a target, by a margin and for several models, compared with the user's own
estimators: every point of a region reaches it, and every larger region has one that does not.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from small_models import JOBS, MODELS, list_larger, list_points

from ironrule import CounterfactualRegion, Explainer, Target
from ironrule.errors import InputError
from ironrule.verdict.verdict import Unrefuted

ESTIMATORS = {
    **MODELS,
    "mixture": VotingClassifier(
        [("a", LogisticRegression()), ("b", RandomForestClassifier(3, max_depth=3, random_state=0))], voting="soft"
    ),
}


def fit(kind: str, seed: int, table: pd.DataFrame, classes: tuple[str, ...] = ("no", "yes")) -> Any:
    """A model of a kind that gives these classes, the last one for the highest scores."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=len(table))
    for name in table.columns:
        if name == "job":
            score += table["job"].map(dict(zip(JOBS, rng.normal(size=3) * 2, strict=True))).to_numpy()
        else:
            score += rng.normal() * table[name].to_numpy()
    ranks = np.argsort(np.argsort(score)) * len(classes) // len(table)
    encoder = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    steps = [encoder] if "job" in table else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that have not converged
        return make_pipeline(*steps, clone(ESTIMATORS[kind])).fit(table, np.array(classes)[ranks])


def get_shares(model: Any, table: Any, label: str = "yes") -> np.ndarray:
    """The probability of a label for every row."""
    return np.asarray(model.predict_proba(table)[:, list(model.classes_).index(label)])


def reach(models: list[Any], table: Any, target: Any, margin: float) -> np.ndarray:
    """Which rows reach a target for all models, also when their scores move by the margin."""
    good = np.ones(len(table), dtype=bool)
    for model in models:
        if not isinstance(target, Target):
            good &= np.isin(model.predict(table), ["yes"] if target is None else target)
            good &= get_shares(model, table) > 0.5 + margin if margin else True
            continue
        shares = get_shares(model, table, "yes" if target.desired is None else target.desired[0])
        good &= shares > (-np.inf if target.above is None else target.above + margin)
        good &= ~(shares > (np.inf if target.at_most is None else target.at_most - margin))
    return good


def check_seen(region: CounterfactualRegion, points: pd.DataFrame, good: np.ndarray) -> None:
    """What a region claims, by what the models say of all points."""
    inside = region.rule.covers(points)
    own = pd.Series(dict(region.counterfactual.values))
    assert (points[inside][own.index] == own).all(axis=1).any()
    assert region.proven
    assert good[inside].all()
    if region.maximal:
        for values in list_larger(region):
            wider = np.all([points[name].isin(some) for name, some in values.items()], axis=0)
            assert not good[wider].all(), values


def draw_target(data: st.DataObject, shares: np.ndarray, between: bool) -> Any:
    """A target at scores that points have, so that some lie exactly on the thresholds; or between two of them, for
    models whose last bits are others for one row than for many.
    """
    known = sorted(set(shares.tolist()))
    if between:
        known = [(low + high) / 2 for low, high in itertools.pairwise(known) if high - low > 1e-9]
    kind = data.draw(st.sampled_from(["own", "class", "above", "at most", "band"]))
    if kind == "own":
        return None
    if kind == "class":
        return data.draw(st.sampled_from([["yes"], ["no"]]))
    assume(len(known) > 1)
    low, high = sorted(data.draw(st.lists(st.sampled_from(known), min_size=2, max_size=2, unique=True)))
    return {
        "above": Target(above=low),
        "at most": Target(at_most=high),
        "band": Target(above=low, at_most=high),
    }[kind]


def assume_reachable(target: Any, margin: float, others: list[str]) -> None:
    """That a band is not empty, and that a target is no score that other models never have."""
    if not isinstance(target, Target):
        return
    above = None if target.above is None else target.above + margin
    at_most = None if target.at_most is None else target.at_most - margin
    assume(above is None or at_most is None or above < at_most)
    assume(not others or all(end is None or 0.0 < end < 1.0 for end in (above, at_most)))


@pytest.mark.parametrize("kind", ESTIMATORS)
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    others=st.lists(st.sampled_from(["tree", "boosting", "logistic", "network"]), max_size=2),
    margin=st.sampled_from([0.0, 0.0, 0.05, 0.125]),
    features=st.sampled_from(["changed", "all", ["age", "job"]]),
    data=st.data(),
)
def test_every_point_reaches_the_target_and_no_larger_region_does(
    kind: str, seed: int, others: list[str], margin: float, features: Any, data: st.DataObject
) -> None:
    points = list_points()
    models = [fit(one, seed + place, points) for place, one in enumerate([kind, *others])]
    target = draw_target(data, get_shares(models[0], points), kind == "network")
    if isinstance(target, list):
        margin = 0.0  # a class of its own has no threshold that the test could repeat
    assume_reachable(target, margin, others)
    good = reach(models, points, target, margin)
    assume(good.any() and not good.all() and len({*models[0].predict(points)}) == 2)
    explainer = Explainer(models[0], points, desired="yes", domain="seen")
    denied, further = np.flatnonzero(~good).tolist(), {"models": models[1:]} if others else {}
    for row in denied[:: max(1, len(denied) // 2)]:
        for found in explainer.counterfactuals(row, k=1, target=target, margin=margin, **further):
            region = explainer.counterfactual_region(found, features, **further)
            assert (region.margin, region.further_models) == (margin, len(others))
            check_seen(region, points, good)
            assert region.maximal or "network" in (kind, *others)
            assert CounterfactualRegion.from_json(region.to_json()) == region


@pytest.mark.parametrize("kind", ["tree", "forest", "boosting", "logistic", "network", "mixture"])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000), target=st.sampled_from([["B"], ["A", "C"], ["yes", "B"], ["A"]]), data=st.data())
def test_one_of_several_classes(kind: str, seed: int, target: list[str], data: st.DataObject) -> None:
    points = list_points()
    classes = ("A", "B", "C", "yes")
    models = [
        fit(one, seed + place, points, classes)
        for place, one in enumerate([kind, data.draw(st.sampled_from(["tree", "logistic"]))])
    ]
    models = models[: data.draw(st.integers(1, 2))]
    good = reach(models, points, target, 0.0)
    assume(good.any() and not good.all())
    explainer = Explainer(models[0], points, desired="yes", domain="seen")
    for found in explainer.counterfactuals(int(np.flatnonzero(~good)[0]), k=1, target=target, models=models[1:]):
        region = explainer.counterfactual_region(found, "all", models=models[1:])
        check_seen(region, points, good)


def make_numbers(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"a": rng.normal(size=40).round(1), "b": rng.uniform(0, 9, 40).round(1), "c": rng.integers(0, 4, 40)}
    )


def list_numbers(
    region: CounterfactualRegion, explainer: Explainer, table: pd.DataFrame, rng: np.random.Generator | None = None
) -> dict[str, list[Any]]:
    """For each feature numbers of the region: its ends, and where the model may turn; with ``rng`` numbers beside these
    and others, too, where the explainer speaks of all numbers.
    """
    breakpoints: Mapping[str, Any] = (region.scope and region.scope.breakpoints) or {}
    found = {name: [value] for name, value in region.fixed.items()}
    for one in region.ranges:
        low, high = (one.first, one.last) if one.any_value else (one.low, one.high)
        known = {low, high, *table[one.feature].tolist(), *breakpoints.get(one.feature, ())}
        if explainer.space[one.feature].interval and one.feature != "c" and rng is not None:
            known |= {float(np.nextafter(number, end)) for number in known for end in (-np.inf, np.inf)}
            known |= set(rng.uniform(low, high, 8).tolist())
        found[one.feature] = sorted(number for number in known if low <= number <= high)
    return found


def draw_points(numbers: dict[str, list[Any]], rng: np.random.Generator, count: int = 4000) -> pd.DataFrame:
    """Every combination of numbers, or some of them."""
    if np.prod([len(some) for some in numbers.values()]) <= count:
        return pd.DataFrame(itertools.product(*numbers.values()), columns=[*numbers])
    return pd.DataFrame({name: rng.choice(some, count) for name, some in numbers.items()})


@pytest.mark.parametrize("kind", ESTIMATORS)
@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    others=st.lists(st.sampled_from(["tree", "logistic", "network"]), max_size=1),
    margin=st.sampled_from([0.0, 0.05]),
    data=st.data(),
)
def test_every_number_of_whole_intervals_reaches_the_target(
    kind: str, seed: int, others: list[str], margin: float, data: st.DataObject
) -> None:
    table, rng = make_numbers(seed), np.random.default_rng(seed)
    models = [fit(one, seed + place, table) for place, one in enumerate([kind, *others])]
    target = draw_target(data, get_shares(models[0], table), kind == "network")
    if isinstance(target, list):
        margin = 0.0
    assume_reachable(target, margin, others)
    good = reach(models, table, target, margin)
    assume(good.any() and not good.all())
    explainer = Explainer(models[0], table, desired="yes")
    row = int(np.flatnonzero(~good)[0])
    for found in explainer.counterfactuals(row, k=1, target=target, margin=margin, models=models[1:]):
        region = explainer.counterfactual_region(found, "all", models=models[1:])
        assert region.proven
        numbers = list_numbers(region, explainer, table, rng)
        inside = draw_points(numbers, rng)[[*table.columns]]
        assert region.rule.covers(inside).all()
        assert reach(models, inside, target, margin).all()
        if not region.maximal:
            continue
        for part in region.rule.components:
            value: Any = part.value
            step = 1 if part.op == "<=" else -1
            beyond = value + step if part.feature == "c" else float(np.nextafter(value, step * np.inf))
            wider = draw_points({**list_numbers(region, explainer, table), part.feature: [beyond]}, rng, 50_000)
            wider = wider[[*table.columns]]
            assert not reach(models, wider, target, margin).all(), part


@pytest.mark.parametrize("kind", ["logistic", "network", "mixture", "forest"])
@pytest.mark.parametrize("target", [["B"], ["A", "C"], ["yes", "A"]])
def test_classes_over_whole_intervals(kind: str, target: list[str]) -> None:
    classes, regions = ("A", "B", "C", "yes"), 0
    for seed in range(4):
        table, rng = make_numbers(seed), np.random.default_rng(seed)
        model = fit(kind, seed, table, classes)
        explainer = Explainer(model, table, desired=["yes", "C", "B"])
        good = reach([model], table, target, 0.0)
        for row in np.flatnonzero(~good)[:2].tolist():
            for found in explainer.counterfactuals(row, k=1, target=target):
                region = explainer.counterfactual_region(found, "all")
                inside = draw_points(list_numbers(region, explainer, table, rng), rng)[[*table.columns]]
                assert not region.proven or reach([model], inside, target, 0.0).all()
                regions += region.proven
    assert regions > 2


@pytest.fixture(name="asked", scope="module")
def build_asked() -> tuple[Explainer, Any, int]:
    """An explainer, a further model, and a row that both deny."""
    points = list_points()
    model, second = fit("boosting", 1, points), fit("forest", 1, points)
    row = int(np.flatnonzero((model.predict(points) == "no") & (second.predict(points) == "no"))[0])
    return Explainer(model, points, desired="yes", domain="seen"), second, row


def test_a_region_is_of_what_its_counterfactual_was_found_for(asked: tuple[Explainer, Any, int]) -> None:
    explainer, _, row = asked
    target = Target(above=0.6)
    found = explainer.counterfactuals(row, k=1, target=target, margin=0.05)
    region = explainer.counterfactual_region(found[0])
    assert (region.target, region.margin) == (target, 0.05)
    assert region.rule == explainer.counterfactual_region(found[0], target=target, margin=0.05).rule
    assert "every such point has a score above 0.6, even if every score moves by 0.05, proven" in str(region)
    assert region.rule.outcome == "a score above 0.6, even if every score moves by 0.05"
    read = type(found).from_json(found.to_json())
    assert explainer.counterfactual_region(read[0]).rule == region.rule
    wider = explainer.counterfactual_region(found[0], target="yes", margin=0)
    assert (wider.margin, wider.rule.outcome) == (0.0, "the outcome 'yes'")
    values = dict(found[0].values)
    plain = explainer.counterfactual_region(values, [change.feature for change in found[0].changes])
    assert (plain.target, plain.rule.outcome) == (None, "the desired outcome")
    for menu in (explainer.change_menu(row, target=target), explainer.change_sets(row, target=target)):
        assert explainer.counterfactual_region(next(iter(menu)).counterfactual).target == target


def test_further_models_must_be_given_again(asked: tuple[Explainer, Any, int]) -> None:
    explainer, second, row = asked
    found = explainer.counterfactuals(row, k=1, models=[second])
    with pytest.raises(InputError, match="with 1 further model, and no models") as caught:
        explainer.counterfactual_region(found[0])
    assert caught.value.code == "models-required"
    assert explainer.counterfactual_region(found[0], models=[second]).further_models == 1
    assert explainer.counterfactual_region(found[0], models=[]).further_models == 0


def test_what_does_not_reach_the_target_robustly_is_refused(asked: tuple[Explainer, Any, int]) -> None:
    explainer, second, row = asked
    found = explainer.counterfactuals(row, k=1)[0]
    score = float(get_shares(explainer._context.arguments.models[0], pd.DataFrame([dict(found.values)]))[0])
    assert explainer.counterfactual_region(found, target=Target(at_most=score)).proven
    goals: list[dict[str, Any]] = [
        {"target": "no"},
        {"target": Target(above=score)},  # a score that is equal does not reach it
        {"margin": score - 0.5 + 1e-9},
        {"target": Target(above=0.99), "models": [second]},
    ]
    for goal in goals:
        with pytest.raises(InputError, match="got a row that does not") as caught:
            explainer.counterfactual_region(found, **goal)
        assert caught.value.code == "goal-not-reached"


def test_of_what_cannot_be_read_nothing_is_proven() -> None:
    table = make_numbers(0)
    model = fit("logistic", 0, table, ("A", "B", "yes"))
    explainer = Explainer(model, table, desired=["yes", "B"])
    target = Target("yes", above=0.4)
    row = int(np.flatnonzero(get_shares(model, table) < 0.3)[0])
    found = explainer.counterfactuals(row, k=1, target=target)[0]
    region = explainer.counterfactual_region(found, "all")
    assert (region.proven, region.maximal) == (False, False)
    assert isinstance(region.verdict, Unrefuted)
    assert "not proven that every such point has a score for 'yes' above 0.4" in str(region)
