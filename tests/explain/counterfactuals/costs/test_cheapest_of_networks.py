"""The cheapest counterfactuals of networks through the public face: closed forms, all points, numbers drawn."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

import ironrule
from ironrule import Cost, Counterfactuals, Explainer
from ironrule.rule.cost import CostNorm

COLUMNS = list("abc")
NORMS: tuple[CostNorm, ...] = ("l1", "l2", "linf")


def build_network(
    table: pd.DataFrame, before: list[Any], hidden: tuple[int, ...], activation: str, rng: np.random.Generator
) -> Any:
    """A network with weights drawn at random, that desires about a quarter of the past rows."""
    network = MLPClassifier(hidden, activation=activation, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model = make_pipeline(*before, network).fit(table, np.arange(len(table)) % 2)
    for weights in (*network.coefs_, *network.intercepts_):
        weights[:] = 1.5 * rng.normal(size=weights.shape)
    chance = np.quantile(model.predict_proba(table)[:, 1], 0.75)
    network.intercepts_[-1] -= np.log(chance / (1.0 - chance)) + 1e-3
    return model


def list_changed(answer: Counterfactuals) -> list[set[str]]:
    return [{change.feature for change in one.changes} for one in answer]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("price", [1.0, 3.0])
def test_a_single_straight_unit_has_a_closed_form(norm: CostNorm, price: float) -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.uniform(-1.0, 1.0, (80, 3)) * [1.0, 1e6, 1e-6], columns=COLUMNS)
    model = build_network(table, [StandardScaler()], (1,), "identity", rng)
    network, scaler = model[-1], model[0]
    network.coefs_, network.intercepts_ = (
        [np.array([[1.0], [-0.6], [0.3]]), np.ones((1, 1))],
        [np.zeros(1), -np.ones(1)],
    )
    row = table.mean()
    reach = (table.max() - table.min()).to_numpy()
    # What a whole range of every feature, times what is paid for one unit of cost, adds to the score.
    gains = abs(network.coefs_[0][:, 0] / scaler.scale_ * reach) / np.array([price, 1.0, 1.0])
    # The score of the mean is 1 below the threshold.
    least = {"l1": 1.0 / gains.max(), "l2": 1.0 / np.hypot.reduce(gains), "linf": 1.0 / gains.sum()}[norm]
    answer = Explainer(model, table, desired=1).counterfactuals(row, k=1, cost=Cost(norm, prices={"a": price}))
    assert answer.proven
    cost = answer.measure()[0].cost
    assert least * (1.0 - 1e-9) <= cost <= least * 1.05
    assert cost - answer.resolution <= least * (1.0 + 1e-9)


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
@pytest.mark.parametrize(
    "cost",
    [
        Cost("l1", prices={"a": 3.0, "b": {"up": 1.0, "down": np.inf}}, per_change=0.25),
        Cost("l2", scale="mad", prices={"c": 0.0}),
        Cost("linf", scale="percentile", prices={"b": 0.1}),
        Cost("fewest", prices={"a": 2.0}),
    ],
    ids=lambda cost: cost.norm,
)
def test_each_is_the_cheapest_of_all_whole_numbers(activation: str, cost: Cost) -> None:
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.integers(0, 6, (60, 3)), columns=COLUMNS)
    model = build_network(table, [MinMaxScaler()], (4, 3), activation, rng)
    explainer = Explainer(model, table, desired=1)
    every = pd.DataFrame(list(itertools.product(range(6), repeat=3)), columns=COLUMNS)
    every = every[(model.predict(every) == 1) & (every["a"] + 1 >= every["b"])]
    for row in np.flatnonzero(~explainer.outcomes)[:3].tolist():
        answer = explainer.counterfactuals(row, k=3, cost=cost, constraints=["cf.a + 1 >= cf.b"])
        assert answer.proven
        own, left = table.iloc[row], every
        for item, measured in zip(answer, answer.measure(), strict=True):
            costs = measure_rows(table, own, left, cost)
            changes = len(item.changes) if cost.norm == "fewest" else 0
            assert 1e6 * changes + measured.cost == pytest.approx(costs.min(), abs=answer.resolution + 1e-6)
            changed = [change.feature for change in item.changes]
            left = left[~(left[changed] != own[changed]).all(axis=1)]
        assert len(answer) == 3 or not np.isfinite(measure_rows(table, own, left, cost)).any()


def measure_rows(table: pd.DataFrame, own: pd.Series[Any], rows: pd.DataFrame, cost: Cost) -> Any:
    """What rows cost by the definition; with "fewest" a million for every change besides."""
    distances = np.zeros((len(rows), 3))
    for j, name in enumerate(COLUMNS):
        seen, price = np.sort(table[name].to_numpy()), cost.get_price(name)
        scaled = rows[name].to_numpy(), np.array([own[name]])
        if cost.scale == "percentile":
            moved = np.subtract(*(np.searchsorted(seen, numbers) / len(seen) for numbers in scaled))
        else:
            unit = np.ptp(seen) if cost.scale == "range" else np.median(abs(seen - np.median(seen)))
            moved = np.subtract(*scaled) / unit
        with np.errstate(invalid="ignore"):
            distances[:, j] = np.where(moved == 0, 0.0, np.where(moved > 0, moved * price.up, -moved * price.down))
    changes = (rows[COLUMNS] != own).sum(axis=1).to_numpy()
    if cost.norm == "linf":
        return distances.max(axis=1, initial=0.0)
    if cost.norm == "l2":
        return np.hypot.reduce(distances, axis=1)
    return distances.sum(axis=1) + changes * (1e6 if cost.norm == "fewest" else cost.per_change)


def draw_cheaper(model: Any, table: pd.DataFrame, own: Any, found: Any, rng: np.random.Generator, norm: str) -> float:
    """What the cheapest costs of many desired rows, beginning at some random ones and at one that was found."""
    low, high = table.min().to_numpy(), table.max().to_numpy()

    def measure(points: Any) -> Any:
        distances = abs(points - own) / (high - low)
        costs = {"l1": distances.sum(axis=1), "l2": np.hypot.reduce(distances, axis=1)}.get(norm, distances.max(axis=1))
        return np.where(model.predict(pd.DataFrame(points, columns=COLUMNS)) == 1, costs, np.inf)

    points = np.concatenate([found[None, :], low + (high - low) * rng.random((1_000, 3))])
    costs = measure(points)
    for _ in range(15):
        best = np.argsort(costs)[:40]
        again = np.repeat(best, 8)
        size = 10.0 ** rng.uniform(-5.0, 0.0, (len(again), 1))
        towards = points[again] + (own - points[again]) * size * (rng.random((len(again), 3)) < 0.6)
        around = towards + (high - low) * size * rng.normal(size=towards.shape) * (rng.random((len(again), 1)) < 0.5)
        points = np.concatenate([points[best], np.clip(around, low, high)])
        costs = measure(points)
    return float(costs.min())


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("before", "hidden", "activation"),
    [([RobustScaler()], (6,), "relu"), ([MinMaxScaler()], (3, 3), "tanh"), ([], (4, 4), "relu")],
    ids=["robust", "range", "none"],
)
def test_no_row_between_the_values_is_cheaper(
    norm: CostNorm, before: list[Any], hidden: tuple[int, ...], activation: str
) -> None:
    rng = np.random.default_rng(7)
    table = pd.DataFrame(rng.normal(size=(50, 3)), columns=COLUMNS)
    model = build_network(table, before, hidden, activation, rng)
    explainer = Explainer(model, table, desired=1)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    answer = explainer.counterfactuals(row, k=1, cost=norm)
    assert answer.proven
    found = np.array([answer[0].values[name] for name in COLUMNS], dtype=float)
    least = draw_cheaper(model, table, table.iloc[row].to_numpy(), found, rng, norm)
    cost = answer.measure()[0].cost
    assert cost - answer.resolution - 1e-9 <= least <= cost + 1e-9
    assert "refuted" not in str(ironrule.check(answer, model, table)).lower()


@pytest.mark.parametrize("norm", [*NORMS, "fewest"])
def test_a_column_that_says_what_is_missing_ends_no_search_early_or_late(norm: CostNorm) -> None:
    rng = np.random.default_rng(11)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=COLUMNS)
    table.loc[::7, "b"] = np.nan
    model = build_network(table, [SimpleImputer(add_indicator=True), StandardScaler()], (4,), "relu", rng)
    explainer = Explainer(model, table, desired=1)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    answer = explainer.counterfactuals(row, k=2, cost=Cost(norm, prices={"a": 2.0}))
    assert len(answer) == 2
    assert answer.statistics.stopped is None
    given = pd.DataFrame([dict(item.values) for item in answer], columns=COLUMNS).astype(float)
    assert (model.predict(given) == 1).all()


def test_rows_at_the_threshold_are_asked_about() -> None:
    """Where a network's score is the same for many rows, and just at the threshold, the model is asked."""
    rng = np.random.default_rng(13)
    table = pd.DataFrame(rng.integers(0, 4, (40, 3)), columns=COLUMNS)
    model = build_network(table, [], (2,), "relu", rng)
    # Nothing but a = 3 lifts the score above 0, where it is for all other rows.
    model[-1].coefs_ = [np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), np.array([[1.0], [0.0]])]
    model[-1].intercepts_ = [np.array([-2.0, 0.0]), np.zeros(1)]
    explainer = Explainer(model, table, desired=1)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    answer = explainer.counterfactuals(row, k=2, cost="l1")
    assert answer.proven
    assert [item.values["a"] for item in answer] == [3]
    assert list_changed(answer) == [{"a"}]


def test_a_change_that_costs_nothing_is_made_only_where_it_is_needed() -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {"age": rng.integers(1, 9, 60), "debt": rng.integers(0, 7, 60), "income": rng.integers(0, 9, 60)}
    )
    labels = data["income"] + data["age"] > 8 + data["debt"]
    model = MLPClassifier((6,), solver="lbfgs", max_iter=4_000, random_state=0).fit(data, labels)
    explainer = Explainer(model, data, desired=True)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    cost = Cost("l1", prices=dict.fromkeys(data.columns, 0.0))
    found = explainer.counterfactuals(row, k=2, cost=cost, progress=False)
    assert found.proven
    for one in found:
        values = dict(one.values)
        for change in one.changes:  # with any of them undone it is none
            undone = pd.DataFrame([values | {change.feature: data[change.feature][row]}])[list(data.columns)]
            assert not model.predict(undone)[0]


def test_what_is_printed_says_what_is_not_proven() -> None:
    found = Explainer(lambda rows: rows["income"] > 3, pd.DataFrame({"income": range(8)})).counterfactuals(0, k=1)
    assert str(found).splitlines()[-1] == "Not proven to be the nearest."
    partly = replace(found, items=found.items * 2, partly_proven=1)
    assert str(partly).splitlines()[-1] == "Only the first is proven to be the nearest."
    assert "proven" not in str(replace(found, proven=True))
