"""Counterfactuals under any cost: what is called proven is compared with every point there is, by the user's own model.

Costs are computed here a second time, from their definitions alone.
"""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from ironrule import Cost, Explainer
from ironrule.errors import InputError, SpaceError

NAMES = ("age", "debt", "income")
FACTORIES = {
    "linear": lambda seed: LogisticRegression(),
    "stumps": lambda seed: GradientBoostingClassifier(n_estimators=6, max_depth=1, random_state=seed),
    "trees": lambda seed: GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=seed),
    "tree": lambda seed: DecisionTreeClassifier(max_depth=4, random_state=seed),
    "forest": lambda seed: RandomForestClassifier(n_estimators=5, max_depth=3, random_state=seed),
    "network": lambda seed: MLPClassifier((3,), max_iter=60, random_state=seed),
}


def make_explainer(kind: str, seed: int, domain: str) -> Explainer | None:
    """A small model on a small table; None if it decides the same of all rows."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "age": rng.integers(1, 6, 40),
            "debt": rng.integers(0, 5, 40) / 4,
            "income": rng.choice([1.0, 2.0, 4.0, 7.0, 30.0], 40),
        }
    )
    score = data["income"] / 8 - data["debt"] + data["age"] / 4 + rng.normal(0, 0.6, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FACTORIES[kind](seed).fit(data, (score > score.median()).astype(int))
    explainer = Explainer(model, data, domain=domain)
    return None if explainer.outcomes.all() or not explainer.outcomes.any() else explainer


class StatedCost:
    """A cost from its definition, over the columns of a table."""

    def __init__(self, cost: Cost, data: pd.DataFrame, row: np.ndarray) -> None:
        self.cost, self.data, self.row = cost, data, row

    def measure(self, points: np.ndarray) -> np.ndarray:
        """What each of some points costs: for "fewest" pairs of a count and a distance, as one number."""
        parts = np.stack([self._measure_feature(j, points[:, j]) for j in range(points.shape[1])], axis=1)
        changed = (points != self.row).sum(axis=1)
        if self.cost.norm == "l2":
            return np.sqrt((parts**2).sum(axis=1))
        if self.cost.norm == "linf":
            return parts.max(axis=1)
        total = parts.sum(axis=1) + self.cost.per_change * changed
        return total + 1e6 * changed if self.cost.norm == "fewest" else total

    def _measure_feature(self, j: int, values: np.ndarray) -> np.ndarray:
        name, own = NAMES[j], self.row[j]
        seen = self.data[name].to_numpy(dtype=float)
        scale = seen.max() - seen.min()
        apart = np.abs(values - own) / scale
        if self.cost.scale == "mad":
            spread = np.median(np.abs(seen - np.median(seen))) or np.mean(np.abs(seen - np.median(seen)))
            apart = np.abs(values - own) / spread
        if self.cost.scale == "percentile":
            apart = np.array([abs((seen < value).mean() - (seen < own).mean()) for value in values])
        price = self.cost.prices.get(name, 1.0)
        up, down = (price.get("up", 1.0), price.get("down", 1.0)) if isinstance(price, dict) else (price, price)
        each = np.where(values > own, up, down)
        with np.errstate(invalid="ignore"):
            costs = np.where(np.isinf(each), math.inf, apart * each)
        if name in self.cost.steps:
            steps = (values - own) / self.cost.steps[name]
            costs = np.where(np.abs(steps - np.round(steps)) > 1e-6, math.inf, costs)
        return np.where(values == own, 0.0, costs)


prices = st.sampled_from([0.0, 0.5, 1.0, 3.0, math.inf])
costs = st.builds(
    lambda norm, scale, price, steps, per_change: Cost(
        norm, scale, price, steps, per_change if norm == "l1" else 0.0
    ),
    st.sampled_from(["fewest", "l1", "l2", "linf"]),
    st.sampled_from(["range", "mad", "percentile"]),
    st.dictionaries(
        st.sampled_from(NAMES), prices | st.fixed_dictionaries({"up": prices, "down": prices}), max_size=2
    ),
    st.dictionaries(st.sampled_from(["age", "income"]), st.sampled_from([1.0, 2.0, 3.0]), max_size=1),
    st.sampled_from([0.0, 0.2]),
)


def check_claims(found, stated: StatedCost, points: np.ndarray, desired: np.ndarray) -> None:
    """No desired point among some is cheaper than what is claimed, and each answer is one."""
    open_points = points[desired]
    totals = stated.measure(open_points)
    open_points, totals = open_points[np.isfinite(totals)], totals[np.isfinite(totals)]
    for item in found:
        values = np.array([[float(item.values[name]) for name in NAMES]])
        cost = stated.measure(values)[0]
        assert math.isfinite(cost)
        if found.proven:
            least = totals.min(initial=math.inf)
            assert least >= cost - found.resolution - 1e-6, (str(item), cost, least)
        changed = values[0] != stated.row
        left = ~(open_points != stated.row)[:, changed].all(axis=1)
        open_points, totals = open_points[left], totals[left]
    if found.proven and len(found) < 3:
        assert not len(totals)


@pytest.mark.parametrize("kind", FACTORIES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 40), cost=costs)
def test_what_is_proven_holds_against_every_point_of_values_seen(kind, seed, cost):
    explainer = make_explainer(kind, seed, "seen")
    if explainer is None:
        return
    data = pd.DataFrame({name: explainer._context.table.column(name).values for name in NAMES})
    model = explainer._context.arguments.models[0]
    row = int(np.flatnonzero(~explainer.outcomes)[seed % (~explainer.outcomes).sum()])
    points = np.array(list(itertools.product(*(sorted(data[name].unique()) for name in NAMES))), dtype=float)
    desired = model.predict(pd.DataFrame(points, columns=NAMES)) == 1
    found = explainer.counterfactuals(row, k=3, cost=cost)
    check_claims(found, StatedCost(cost, data, data.iloc[row].to_numpy(dtype=float)), points, desired)
    if kind != "network":
        assert found.proven


@pytest.mark.parametrize("kind", FACTORIES)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 40), cost=costs, noise=st.integers(0, 1000))
def test_what_is_proven_holds_between_the_values_too(kind, seed, cost, noise):
    explainer = make_explainer(kind, seed, "auto")
    if explainer is None:
        return
    data = pd.DataFrame({name: explainer._context.table.column(name).values for name in NAMES})
    model = explainer._context.arguments.models[0]
    row = int(np.flatnonzero(~explainer.outcomes)[seed % (~explainer.outcomes).sum()])
    rng, axes = np.random.default_rng(noise), []
    for feature in explainer.space.features:
        values = np.array(feature.values, dtype=float)
        own = float(data[feature.name].iloc[row])
        step = cost.steps.get(feature.name, 1.0)
        many = np.concatenate([values, rng.uniform(values[0], values[-1], 6), own + step * np.arange(-30, 31)])
        many = np.round(many) if feature.has_only_integers else many
        axes.append(np.unique(many[(many >= values[0]) & (many <= values[-1])]))
    points = np.array(list(itertools.product(*axes)), dtype=float)
    points = points[rng.permutation(len(points))[:20_000]]
    frame = pd.DataFrame(points, columns=NAMES).astype({"age": data["age"].dtype})
    found = explainer.counterfactuals(row, k=3, cost=cost, budget=20)
    stated = StatedCost(cost, data, data.iloc[row].to_numpy(dtype=float))
    check_claims(found, stated, points, model.predict(frame) == 1)
