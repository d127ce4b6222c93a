"""Counterfactuals that several linear sums must allow at once, compared with the user's own estimators: on every point
of tiny spaces, and on fine grids of whole intervals.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ironrule
from ironrule import Cost, Counterfactuals, Explainer, Target

NAMES = ("a", "b", "c", "d")
COSTS: dict[str, Any] = {
    "fewest": "fewest",
    "l1": "l1",
    "l2": "l2",
    "linf": "linf",
    "prices": Cost("l1", prices={"a": {"up": 1, "down": 3}, "b": 2, "d": np.inf}),
    "steps": Cost("l1", steps={"b": 2}),
    "per_change": Cost("l1", per_change=0.2),
}
KINDS = ("band", "narrow band", "regression", "models", "models with a margin", "class", "classes")


class JointCase:
    """A model, further ones, what is to be reached, and which rows the estimators give it."""

    def __init__(self, seed: int, kind: str, whole: bool) -> None:
        self.rng = rng = np.random.default_rng(seed)
        a, b = (rng.integers(0, 6, 50), rng.integers(-3, 3, 50)) if whole else (rng.normal(size=50).round(1),) * 2
        b = b if whole else (rng.normal(size=50) * 10).round() + 0.5
        self.data = pd.DataFrame({"a": a, "b": b, "c": rng.integers(0, 4, 50), "d": rng.choice(["x", "y"], 50)})
        self.models: list[Any] = []
        self.own: dict[str, Any] = {"desired": "yes"}
        self.options: dict[str, Any] = {}
        self.is_good = self.build(kind)

    def score(self) -> pd.Series:
        data, weights = self.data, self.rng.normal(size=4)
        numbers = data[["a", "b", "c"]] / data[["a", "b", "c"]].std()
        noise = self.rng.normal(0, 0.3, len(data))
        return numbers @ weights[:3] + data["d"].map({"x": 0.0, "y": weights[3]}) + noise

    def fit(self, final: Any, labels: Any) -> Any:
        parts = [("d", OneHotEncoder(), ["d"]), ("numbers", StandardScaler(), ["a", "b", "c"])]
        self.models.append(make_pipeline(ColumnTransformer(parts), final).fit(self.data, labels))
        return self.models[-1]

    def build(self, kind: str) -> Callable[[pd.DataFrame], np.ndarray]:
        score, rng = self.score(), self.rng
        if kind == "regression":
            model, low = self.fit(Ridge(), score), float(rng.normal())
            self.own, self.options = (
                {"threshold": float(score.median())},
                {"target": Target(above=low, at_most=low + 0.2)},
            )
            return lambda rows: (model.predict(rows) > low) & (model.predict(rows) <= low + 0.2)
        if "band" in kind:
            model = self.fit(LogisticRegression(), np.where(score > score.median(), "yes", "no"))
            low = float(rng.uniform(0.05, 0.8))
            high = low + (0.02 if kind == "narrow band" else 0.15)
            self.options = {"target": Target(above=low, at_most=high)}
            return lambda rows: (lambda shares: (shares > low) & (shares <= high))(model.predict_proba(rows)[:, 1])
        if "models" in kind:
            margin = 0.1 if "margin" in kind else 0.0
            for other in (score, self.score(), score + rng.normal(0, 1, len(score))):
                self.fit(LogisticRegression(), np.where(other > other.quantile(0.6), "yes", "no"))
            self.options = {"models": self.models[1:], "margin": margin}
            return lambda rows: np.all(
                [(m.predict(rows) == "yes") & (m.predict_proba(rows)[:, 1] > 0.5 + margin) for m in self.models], axis=0
            )
        labels = np.array(["low", "mid", "high"])[np.digitize(score, np.quantile(score, [0.33, 0.66]))]
        model, wanted = self.fit(LogisticRegression(C=3), labels), ["mid"] if kind == "class" else ["mid", "high"]
        self.own, self.options = {"desired": "low"}, {"target": Target(wanted)}
        return lambda rows: np.isin(model.predict(rows), wanted)

    def list_points(self, steps: int | None) -> pd.DataFrame:
        """Every point of whole numbers, or a grid of so many steps that has the values seen too."""
        axes = list[Any]()
        for name in ("a", "b", "c"):
            low, high = self.data[name].min(), self.data[name].max()
            listed = np.arange(low, high + 1) if steps is None or name == "c" else np.linspace(low, high, steps)
            axes.append(np.unique([*self.data[name], *listed]) if steps and name != "c" else listed)
        points = pd.DataFrame(list(itertools.product(*axes, ["x", "y"])), columns=NAMES)
        return points.astype(self.data.dtypes.to_dict())

    def measure(self, rows: pd.DataFrame, own: pd.Series, cost: str) -> tuple[np.ndarray, np.ndarray]:
        """How many changes count before the distance, and the distance."""
        ranges = (self.data[["a", "b", "c"]].max() - self.data[["a", "b", "c"]].min()).to_numpy(dtype=float)
        apart = (
            np.abs(rows[["a", "b", "c"]].to_numpy(dtype=float) - own[["a", "b", "c"]].to_numpy(dtype=float)) / ranges
        )
        apart = np.column_stack([apart, (rows["d"] != own["d"]).to_numpy(dtype=float)])
        if cost == "prices":
            apart[rows["a"] < own["a"], 0] *= 3
            apart[:, 1] *= 2
            apart[apart[:, 3] > 0, 3] = np.inf
        if cost == "steps":
            steps = ((rows["b"] - own["b"]) / 2).to_numpy()
            apart[np.abs(steps - steps.round()) > 1e-9, 1] = np.inf
        changes = (apart > 0).sum(axis=1)
        if cost == "l2":
            return 0 * changes, np.sqrt((apart**2).sum(axis=1))
        if cost == "linf":
            return 0 * changes, apart.max(axis=1)
        total = apart.sum(axis=1) + (0.2 * changes if cost == "per_change" else 0.0)
        return (changes if cost == "fewest" else 0 * changes), total

    def check_nearest(self, found: Counterfactuals, own: pd.Series, points: pd.DataFrame, cost: str, k: int) -> None:
        """Each answer is desired, and if that is proven no point that is left is nearer by more than the resolution."""
        changes, costs = self.measure(points, own, cost)
        changed = (points != own).to_numpy()
        left = self.is_good(points) & np.isfinite(costs) & changed.any(axis=1)
        for one in found:
            row = pd.DataFrame([dict(one.values)])[list(NAMES)].astype(self.data.dtypes.to_dict())
            assert self.is_good(row)[0]
            (count,), (distance,) = self.measure(row, own, cost)
            if found.proven and left.any():
                assert count <= changes[left].min()
                same = costs[left & (changes == count)]
                allowed = found.resolution * max(count, 1) + 1e-7
                assert distance <= same.min(initial=np.inf) + allowed
            names = {change.feature for change in one.changes}
            left &= ~changed[:, [name in names for name in NAMES]].all(axis=1)
        assert not (found.proven and len(found) < k and left.any())


def explain_case(case: JointCase, points: pd.DataFrame, cost: str, k: int) -> Counterfactuals | None:
    """The counterfactuals of the first row that does not have what is to be reached, compared with all points."""
    denied = np.flatnonzero(~case.is_good(case.data))
    if not len(denied):
        return None
    explainer = Explainer(case.models[0], case.data, **case.own)
    found = explainer.counterfactuals(int(denied[0]), k=k, cost=COSTS[cost], **case.options)
    case.check_nearest(found, case.data.iloc[int(denied[0])], points, cost, k)
    return found


cases = {"seed": st.integers(0, 10_000), "cost": st.sampled_from(sorted(COSTS)), "k": st.integers(1, 3)}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None)
@given(**cases)
def test_of_whole_numbers_every_answer_is_the_nearest_of_all_points(kind: str, seed: int, cost: str, k: int) -> None:
    case = JointCase(seed, kind, whole=True)
    found = explain_case(case, case.list_points(None), cost, k)
    assert found is None or found.proven


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None)
@given(**cases)
def test_over_intervals_no_point_of_a_grid_is_nearer_than_the_resolution(
    kind: str, seed: int, cost: str, k: int
) -> None:
    case = JointCase(seed, kind, whole=False)
    explain_case(case, case.list_points(40), cost, k)


@pytest.mark.parametrize("kind", ["narrow band", "models with a margin", "class"])
@pytest.mark.parametrize("whole", [True, False])
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.sampled_from([{}, {"b": 2}]))
def test_minimal_sets_groups_and_restrictions_are_those_of_all_points(
    kind: str, whole: bool, seed: int, steps: dict[str, float]
) -> None:
    case = JointCase(seed, kind, whole=whole)
    points = case.list_points(None if whole else 40)
    denied = np.flatnonzero(~case.is_good(case.data))
    if not len(denied):
        return
    row = int(denied[0])
    own = case.data.iloc[row]
    permitted = np.ones(len(points), dtype=bool) if not steps else ((points["b"] - own["b"]) % 2 == 0).to_numpy()
    good = points[case.is_good(points) & permitted]
    sets = {frozenset(np.array(NAMES)[changed]) for changed in (good != own).to_numpy()}
    explainer = Explainer(case.models[0], case.data, **case.own)
    menu = explainer.change_menu(row, cost=Cost(steps=steps), **case.options)
    found = {frozenset(one.features) for one in menu}
    for one in menu:
        values = pd.DataFrame([dict(one.counterfactual.values)])[list(NAMES)].astype(case.data.dtypes.to_dict())
        assert case.is_good(values)[0]
        assert not steps or (values["b"][0] - own["b"]) % 2 == 0
        assert not (one.minimal and any(some < {*one.features} for some in sets))
    if menu.complete:
        assert all(any(one <= some for one in found) for some in sets)
    assert menu.complete or not whole
    assert found == {one for one in sets if not any(two < one for two in sets)} or not whole
    groups = explainer.group_changes(row, [["a"], ["b", "c"]], cost=Cost(steps=steps), **case.options)
    for group in groups:
        inside = any(some <= {*group.features} for some in sets)
        assert group.counterfactual is not None or not (group.proven and inside)
        assert group.proven or not whole
    why = explainer.find_forbidding_restrictions(row, features_to_vary=["a"], cost=Cost(steps=steps), **case.options)
    assert not (why.proven and frozenset("a") in sets)
    assert why.proven == (frozenset("a") not in sets) or not whole


@pytest.mark.parametrize(
    ("kind", "seed", "cost"), [("band", 1, "l1"), ("models", 2, "fewest"), ("regression", 3, "linf")]
)
def test_the_checker_proves_such_answers_too(kind: str, seed: int, cost: str) -> None:
    case = JointCase(seed, kind, whole=False)
    found = explain_case(case, case.list_points(40), cost, 2)
    assert found is not None
    assert found.proven
    check = ironrule.check(found, case.models[0], case.data, models=case.options.get("models", ()), **case.own)
    assert check.status == "proven"


@pytest.mark.parametrize("own", [0, 3])
def test_a_band_that_only_numbers_between_two_readable_ones_reach_is_reached(own: int) -> None:
    data = pd.DataFrame({"income": [-2.0, -1.0, 1.0, 2.0] * 5})
    model = LogisticRegression().fit(data, (data["income"] > 0).astype(int))
    low, high = model.predict_proba(pd.DataFrame({"income": [0.1234567, 0.1234569]}))[:, 1]
    found = Explainer(model, data).counterfactuals(own, k=1, target=Target(above=low, at_most=high), cost="l1")
    assert found.proven
    assert [0.1234566 < one.values["income"] < 0.123457 for one in found] == [True]
