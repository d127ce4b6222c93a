"""Counterfactuals for models that no single normal form holds: networks with others, and sums that pull both ways,
compared with the user's own estimators at every point, or on grids of whole intervals.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings, strategies as st
from interpret.glassbox import ExplainableBoostingClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

import ironrule
from ironrule import Cost, Explainer, Target
from ironrule.errors import InputError

NAMES = ["a", "b", "c"]
MODELS: dict[str, Any] = {
    "network": MLPClassifier((4,), activation="tanh", solver="lbfgs", max_iter=80, random_state=0),
    "deeper network": MLPClassifier((3, 3), solver="lbfgs", max_iter=80, random_state=1),
    "linear": LogisticRegression(C=10),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": RandomForestClassifier(4, max_depth=3, random_state=0),
    "vote": VotingClassifier(
        [("a", LogisticRegression()), ("b", RandomForestClassifier(3, max_depth=2, random_state=0))], voting="soft"
    ),
}
COMBINATIONS = (
    ("network", "forest"),
    ("network", "deeper network"),
    ("network", "linear", "tree"),
    ("linear", "forest", "linear"),
    ("vote", "network"),
)


class SeveralModels:
    """Past rows with a real, a whole and a small feature, and models of kinds, each with a score of its own."""

    def __init__(self, seed: int, kinds: tuple[str, ...]) -> None:
        self.rng = np.random.default_rng(seed)
        rows = 40
        self.data = pd.DataFrame(
            {
                "a": self.rng.normal(size=rows).round(1),
                "b": self.rng.integers(0, 5, rows),
                "c": self.rng.integers(0, 3, rows),
            }
        )
        self.models = [self.fit(MODELS[kind]) for kind in kinds]

    def fit(self, model: Any) -> Any:
        from sklearn.base import clone

        score = (self.data / self.data.std()) @ self.rng.normal(size=3) + self.rng.normal(0, 0.4, len(self.data))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return clone(model).fit(self.data, np.where(score > score.quantile(0.5), "yes", "no"))

    def get_shares(self, rows: pd.DataFrame) -> list[np.ndarray]:
        return [model.predict_proba(rows)[:, list(model.classes_).index("yes")] for model in self.models]

    def agree(self, rows: pd.DataFrame, margin: float) -> np.ndarray:
        good = np.all([model.predict(rows) == "yes" for model in self.models], axis=0)
        return good & np.all([shares > 0.5 + margin for shares in self.get_shares(rows)], axis=0) if margin else good

    def list_points(self, domain: str) -> pd.DataFrame:
        real = np.unique(self.data["a"])
        real = real if domain == "seen" else np.unique([*real, *np.linspace(real[0], real[-1], 60)])
        listed = itertools.product(real, np.unique(self.data["b"]), np.unique(self.data["c"]))
        return pd.DataFrame(list(listed), columns=NAMES).astype(self.data.dtypes.to_dict())

    def check(self, found: Any, own: pd.Series, points: pd.DataFrame, is_good: Callable[[Any], Any], norm: str) -> None:
        """Each answer is good, and if that is proven no good point left is nearer by more than the resolution."""
        reach = (self.data.max() - self.data.min()).to_numpy(dtype=float)
        apart = np.abs((points - own).to_numpy(dtype=float)) / reach
        costs = apart.max(axis=1) if norm == "linf" else apart.sum(axis=1)
        changed = (points != own).to_numpy()
        left = is_good(points) & changed.any(axis=1)
        for one in found:
            row = pd.DataFrame([dict(one.values)])[NAMES].astype(self.data.dtypes.to_dict())
            assert is_good(row)[0]
            distances = np.abs((row.iloc[0] - own).to_numpy(dtype=float)) / reach
            cost, count = distances.max() if norm == "linf" else distances.sum(), (distances > 0).sum()
            near = left & (changed.sum(axis=1) == count) if norm == "fewest" else left
            if found.proven:
                assert norm != "fewest" or not left.any() or count <= changed[left].sum(axis=1).min()
                assert cost <= costs[near].min(initial=np.inf) + found.resolution * count + 1e-7
            names = {change.feature for change in one.changes}
            left &= ~changed[:, [name in names for name in NAMES]].all(axis=1)
        assert not (found.proven and len(found) < 2 and left.any())


@pytest.mark.parametrize("domain", ["seen", "auto"])
@pytest.mark.parametrize("kinds", COMBINATIONS, ids=" and ".join)
@settings(max_examples=1, deadline=None)
@given(seed=st.integers(0, 500), norm=st.sampled_from(["fewest", "l1", "linf"]), margin=st.sampled_from([0.0, 0.1]))
def test_no_point_that_all_models_desire_is_nearer(
    kinds: tuple[str, ...], domain: Any, seed: int, norm: Any, margin: float
) -> None:
    case = SeveralModels(seed, kinds)
    denied = np.flatnonzero(~case.agree(case.data, margin))
    explainer = Explainer(case.models[0], case.data, desired="yes", domain=domain)
    row = int(denied[0])
    found = explainer.counterfactuals(row, k=2, cost=norm, models=case.models[1:], margin=margin)
    case.check(found, case.data.iloc[row], case.list_points(domain), lambda rows: case.agree(rows, margin), norm)
    assert found.statistics.algorithm == "Nearest"
    assert found.proven or domain == "auto"


@settings(max_examples=1, deadline=None)
@given(seed=st.integers(0, 500), low=st.sampled_from([0.3, 0.45, 0.6]), norm=st.sampled_from(["fewest", "l1"]))
@example(seed=1, low=0.45, norm="l1")
def test_a_band_of_trees_and_sums_together_is_proven_between_values(seed: int, low: float, norm: Any) -> None:
    case, high = SeveralModels(seed, ("vote",)), low + 0.05

    def is_good(rows: pd.DataFrame) -> np.ndarray:
        (shares,) = case.get_shares(rows)
        return (shares > low) & (shares <= high)

    row = int(np.flatnonzero(~is_good(case.data))[0])
    explainer = Explainer(case.models[0], case.data, desired="yes")
    found = explainer.counterfactuals(row, k=2, cost=norm, target=Target(above=low, at_most=high))
    case.check(found, case.data.iloc[row], case.list_points("auto"), is_good, norm)


def test_a_menu_and_what_forbids_every_change_are_about_all_models_and_can_be_checked() -> None:
    case = SeveralModels(3, ("network", "forest", "linear"))
    explainer = Explainer(case.models[0], case.data, desired="yes", domain="seen")
    points, options = case.list_points("seen"), {"models": case.models[1:]}
    good = points[case.agree(points, 0.0)]
    row = int(np.flatnonzero(~case.agree(case.data, 0.0))[0])
    sets = {frozenset(np.array(NAMES)[changed]) for changed in (good != case.data.iloc[row]).to_numpy()}
    menu = explainer.change_menu(row, **options)
    assert menu.complete
    assert {frozenset(one.features) for one in menu} == {one for one in sets if not any(two < one for two in sets)}
    assert all(one.proven and one.minimal for one in menu)
    assert ironrule.check(menu.to_json(), *case.models[:1], case.data, desired="yes", **options).status == "proven"
    fixed = [name for name in NAMES if name not in menu[0].features]
    why = explainer.find_forbidding_restrictions(row, features_to_vary=fixed, cost=Cost(), **options)
    assert why.proven
    assert bool(why.counterfactual) == any(one <= {*fixed} for one in sets)
    assert why.counterfactual or any(one.feature in menu[0].features for one in why.restrictions)


def test_an_additive_model_whose_features_interact_is_read_with_others() -> None:
    case = SeveralModels(2, ("linear", "tree"))
    interacting = ExplainableBoostingClassifier(interactions=[(0, 1)], outer_bags=1, max_rounds=30, n_jobs=1)
    case.models.insert(1, case.fit(interacting))
    row = int(np.flatnonzero(~case.agree(case.data, 0.0))[0])
    explainer = Explainer(case.models[0], case.data, desired="yes", domain="seen")
    found = explainer.counterfactuals(row, k=2, cost="l1", models=case.models[1:])
    assert found.proven
    case.check(found, case.data.iloc[row], case.list_points("seen"), lambda rows: case.agree(rows, 0.0), "l1")


def test_a_network_is_searched_with_trees_that_turn_between_zero_and_the_next_number() -> None:
    case = SeveralModels(4, ("network",))
    case.data["a"] = case.rng.choice([-1.0, -0.5, 0.5, 1.0], len(case.data))
    labels = np.where(case.data["a"] > 0, "yes", "no")
    case.models.append(HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2).fit(case.data, labels))
    row = int(np.flatnonzero(~case.agree(case.data, 0.0))[0])
    found = Explainer(case.models[1], case.data, desired="yes").counterfactuals(row, k=2, models=case.models[:1])
    case.check(found, case.data.iloc[row], case.list_points("auto"), lambda rows: case.agree(rows, 0.0), "fewest")


def test_a_network_that_desires_nothing_leaves_no_counterfactual() -> None:
    case = SeveralModels(5, ("network", "tree"))
    explainer = Explainer(case.models[1], case.data, desired="yes", domain="seen")
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    never = case.models[0]
    never.intercepts_[-1] = never.intercepts_[-1] - 1e6  # the logit of "yes"
    found = explainer.counterfactuals(row, k=1, models=[never])
    assert (len(found), found.proven) == (0, True)


def test_a_model_that_can_only_be_asked_leaves_all_unproven() -> None:
    case = SeveralModels(5, ("network", "tree"))
    explainer = Explainer(case.models[0], case.data, desired="yes", domain="seen")
    row = int(np.flatnonzero(~case.agree(case.data, 0.0))[0])

    def ask(rows: Any) -> Any:
        return case.models[1].predict(pd.DataFrame(np.asarray(rows), columns=NAMES))

    assert not explainer.counterfactuals(row, k=1, models=[ask]).proven
    with pytest.raises(InputError, match="can be read"):
        explainer.counterfactuals(row, k=1, algorithm="exact", models=[ask])


@pytest.mark.parametrize("outcome", ["yes", "no"])
def test_a_further_model_may_have_trees_of_a_single_leaf(outcome: str) -> None:
    case = SeveralModels(0, ("forest",))
    data, own = case.data, case.models[0]
    often = (
        np.where(np.arange(len(data)) % 3 == 0, "no", "yes")
        if outcome == "yes"
        else np.array(["yes", "no", "no", "no"] * 10)
    )
    leaf = DecisionTreeClassifier(min_samples_split=1000).fit(data, often)
    assert (leaf.predict(data) == outcome).all()
    explainer = Explainer(own, data, desired="yes")
    row = int(np.flatnonzero(own.predict(data) == "no")[0])
    alone, both = explainer.counterfactuals(row, k=2), explainer.counterfactuals(row, k=2, models=[leaf])
    assert both.proven
    assert [one.values for one in both] == ([one.values for one in alone] if outcome == "yes" else [])
