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
from hypothesis import given, settings, strategies as st
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from ironrule import Cost, Explainer
from ironrule.backends.network import cheapest
from ironrule.errors import InputError, SpaceError

NAMES = ("age", "debt", "income")
FACTORIES = {
    "linear": lambda seed: LogisticRegression(random_state=seed),
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
    lambda norm, scale, price, steps, per_change: Cost(norm, scale, price, steps, per_change if norm == "l1" else 0.0),
    st.sampled_from(["fewest", "l1", "l2", "linf"]),
    st.sampled_from(["range", "mad", "percentile"]),
    st.dictionaries(st.sampled_from(NAMES), prices | st.fixed_dictionaries({"up": prices, "down": prices}), max_size=2),
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
@settings(max_examples=15, deadline=None)
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
    found = explainer.counterfactuals(row, k=3, cost=cost, budget=None)
    check_claims(found, StatedCost(cost, data, data.iloc[row].to_numpy(dtype=float)), points, desired)
    if kind != "network":
        assert found.proven


def list_nearer_points(found, row: np.ndarray) -> np.ndarray:
    """Points a little nearer to the row than each answer, in one number or in several."""
    points = []
    for item in found:
        values = np.array([float(item.values[name]) for name in NAMES])
        for shares in itertools.product([0.0, 1e-5, 1e-4, 3e-4, 1e-3, 1e-2, 0.1], repeat=len(NAMES)):
            point = values + (row - values) * np.array(shares)
            point[0] = np.round(point[0])  # a whole number
            points.append(point)
    return np.array(points).reshape(-1, len(NAMES))


@pytest.mark.parametrize("kind", FACTORIES)
@settings(max_examples=6, deadline=None)
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
    found = explainer.counterfactuals(row, k=3, cost=cost, budget=20)
    stated = StatedCost(cost, data, data.iloc[row].to_numpy(dtype=float))
    points = np.concatenate([points, list_nearer_points(found, stated.row)])
    frame = pd.DataFrame(points, columns=NAMES).astype({"age": data["age"].dtype})
    check_claims(found, stated, points, model.predict(frame) == 1)


TABLE = pd.DataFrame(
    {
        "job": ["clerk", "cook", "clerk", "smith"] * 10,
        "income": np.arange(40) * 10.0,
        "amount": np.tile([100, 137, 300, 655], 10),
    }
)


def score(table: pd.DataFrame) -> np.ndarray:
    """Desired above 0.5: much income, or a small amount."""
    return (np.asarray(table["income"], dtype=float) > 305).astype(float) + (np.asarray(table["amount"]) < 50)


@pytest.fixture(scope="module")
def fitted() -> Explainer:
    frame = TABLE.drop(columns="job")
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(frame, (frame["income"] > 305).astype(int))
    return Explainer(model, frame)


def test_a_step_leads_to_numbers_that_no_past_row_has(fitted):
    row = {"income": 137.5, "amount": 300}
    found = fitted.counterfactuals(row, cost=Cost(steps={"income": 50}))
    assert found.proven
    assert [dict(item.values) for item in found] == [{"income": 337.5, "amount": 300}]
    assert not fitted.counterfactuals(row, cost=Cost(steps={"income": 300})), "the next step is beyond the domain"


def test_a_price_of_infinity_forbids_a_direction(fitted):
    row = {"income": 137.5, "amount": 300}
    assert fitted.counterfactuals(row, cost=Cost(prices={"income": {"down": math.inf}}))
    for price in (math.inf, {"up": math.inf}):
        for norm in ("fewest", "l1", "linf"):
            none = fitted.counterfactuals(row, cost=Cost(norm, prices={"income": price}))
            assert (len(none), none.proven) == (0, True)


def test_what_is_only_searched_for_comes_cheapest_first_and_respects_prices():
    explainer = Explainer(score, TABLE, threshold=0.5)
    cost = Cost("l1", scale="percentile", prices={"income": 2, "job": math.inf})
    found = explainer.counterfactuals(0, k=4, cost=cost)
    measured = [one.cost for one in found.measure()]
    assert len(found)
    assert measured == sorted(measured)
    assert not found.proven
    assert all(item.values["job"] == "clerk" for item in found)


def test_the_cost_is_part_of_the_result(fitted):
    found = fitted.counterfactuals(3, cost=Cost("l1", scale="mad", prices={"amount": math.inf}))
    assert found.cost.norm == "l1"
    assert found.to_dict()["cost"] == {"norm": "l1", "scale": "mad", "prices": {"amount": "inf"}}
    assert type(found).from_json(found.to_json()) == found
    assert "cost" not in fitted.counterfactuals(3).to_dict()


@pytest.mark.parametrize(
    ("cost", "error", "words"),
    [
        (Cost(prices={"wage": 2}), SpaceError, "wage"),
        (Cost(steps={"job": 2}), InputError, "ordered number"),
        (Cost(prices={"job": {"up": 2}}), InputError, "must be one number"),
        (Cost("l1", steps={"income": 1e-6}), InputError, "at most 5,000 values"),
        ("distance", InputError, "must be one of"),
    ],
)
def test_a_cost_that_does_not_fit_is_refused(cost, error, words):
    frame = TABLE.assign(job=TABLE["job"].astype("category"))
    model = DecisionTreeClassifier(random_state=0).fit(frame[["income", "amount"]], frame["income"] > 305)
    explainer = (
        Explainer(score, TABLE, threshold=0.5)
        if "job" in str(cost)
        else Explainer(model, frame[["income", "amount"]], desired=True)
    )
    with pytest.raises(error, match=words):
        explainer.counterfactuals(0, cost=cost)


def test_a_search_that_ends_early_claims_nothing(monkeypatch):
    explainer = make_explainer("network", 3, "auto")
    row = int(np.flatnonzero(~explainer.outcomes)[0])

    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cheapest, "bound_parts_on_cores", interrupt)
    found = explainer.counterfactuals(row, cost="l1")
    assert (found.proven, found.statistics.stopped) == (False, "interrupted")


def test_a_batch_uses_the_cost(fitted):
    cost = Cost("l1", steps={"income": 20}, prices={"amount": math.inf})
    batch = fitted.counterfactuals_many([3, 5, 7], cost=cost, k=1, workers=1)
    alone = [fitted.counterfactuals(row, 1, cost=cost) for row in (3, 5, 7)]
    assert [each.items for each in batch] == [each.items for each in alone]


@pytest.mark.parametrize("seed", range(6))
def test_a_cost_is_that_of_the_number_which_a_column_of_float32_holds(seed):
    """-0.4 is held as a number a little below -0.4: past rows that have it are not passed by a change to it."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.normal(size=(40, 2)).round(1).astype(np.float32), columns=["income", "debt"])
    model = LogisticRegression().fit(data, (data["income"] > data["debt"]).astype(int))
    explainer = Explainer(model, data, desired=1)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    found = explainer.counterfactuals(row, k=2, cost=Cost("l1", scale="percentile"))
    assert len(found)
    for item, measured in zip(found, found.measure(), strict=True):
        after = {change.feature: np.float32(change.after) for change in item.changes}
        moved = [np.mean(data[name] < value) - np.mean(data[name] < data[name][row]) for name, value in after.items()]
        assert measured.cost == pytest.approx(np.abs(moved).sum())


@pytest.mark.parametrize("norm", ["fewest", "l1", "l2", "linf"])
@pytest.mark.parametrize(
    "model", [DecisionTreeClassifier(max_depth=3, random_state=0), RandomForestClassifier(5, random_state=0)]
)
def test_a_cost_that_is_small_beside_a_large_price_is_not_rounded_away(model, norm):
    """Of changes of income alone the least is the nearest, whatever debt costs; or it is not claimed to be."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame(rng.normal(size=(60, 2)).round(1), columns=["income", "debt"])
    fitted = model.fit(data, (2 * data["income"] + data["debt"] > 0.6).astype(int))
    explainer = Explainer(fitted, data, desired=1, domain="seen")
    incomes, span = data["income"].unique(), data["income"].max() - data["income"].min()
    for row in np.flatnonzero(~explainer.outcomes)[:20].tolist():
        found = explainer.counterfactuals(row, k=1, cost=Cost(norm, prices={"debt": 1e12}))
        good = fitted.predict(pd.DataFrame({"income": incomes, "debt": data["debt"][row]})) == 1
        if good.any() and found.proven:
            least = np.abs(incomes[good] - data["income"][row]).min() / span
            assert found.measure()[0].cost <= least + found.resolution + 1e-9


@pytest.mark.parametrize("price", [1e200, 1e-300, {"up": 1e13}])
def test_a_price_that_numbers_cannot_tell_apart_is_refused(price):
    with pytest.raises(InputError, match=r"must be from 1e-09 to 1e\+12"):
        Cost("l2", prices={"income": price})
