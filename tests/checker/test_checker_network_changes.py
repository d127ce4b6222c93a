"""That nothing costs less in a network, where costs are added up or the largest counts; and what forgeries say."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
from change_examples import rewrite, write_changes
from hypothesis import given, settings, strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ironrule import Checker, Cost, Explainer
from ironrule.checker.bounds.piece_columns import ColumnTangents, fill_knapsack

COLUMNS = st.lists(
    st.lists(
        st.tuples(st.floats(-4, 4), st.sampled_from([0.0, 0.125, 0.5, 1.0, 1.0, 2.5, math.inf])), min_size=1, max_size=6
    ),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, max_examples=200)
@given(COLUMNS, st.floats(0.1, 4), st.data())
def test_columns_never_add_more_than_the_bound_for_what_can_be_paid(
    columns: list[list[tuple[float, float]]], limit: float, data: st.DataObject
) -> None:
    slopes = [data.draw(st.floats(-3, 3)) for _ in columns]
    bases, lengths, rates, choices = 0.0, list[Any](), list[Any](), list[Any]()
    for column, slope in zip(columns, slopes, strict=True):
        values, costs = np.array(column).T
        own = data.draw(st.integers(0, len(values) - 1))
        costs[own] = 0.0
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(values) - 1)] * 2)))
        tangents = ColumnTangents.build(values, costs, float(values[own]), limit)
        with np.errstate(invalid="ignore"):  # of codes that may not be chosen nothing is concluded
            base, length, rate = tangents.find_segments(np.array([first]), np.array([last]), np.array([slope]))
        bases, lengths, rates = bases + base[0], [*lengths, length], [*rates, rate]
        choices.append([(slope * values[code], costs[code]) for code in range(first, last + 1)])
    with np.errstate(invalid="ignore"):
        most = bases + fill_knapsack(np.concatenate(lengths, axis=1), np.concatenate(rates, axis=1), np.array([limit]))
    paid = [some for some in itertools.product(*choices) if sum(cost for _, cost in some) < limit]
    best = max((sum(adds for adds, _ in some) for some in paid), default=-math.inf)
    assert not np.isfinite(most[0]) or best <= most[0] + 1e-9 * (1 + abs(most[0]))
    if len(columns) == 1 and paid and np.isfinite(most[0]):  # and not much more than one column can be at most
        assert most[0] <= max(adds for some in paid for adds, _ in some) + 1e-9 + max(
            abs(slopes[0]) * abs(a[0] - b[0]) for a, b in itertools.product(columns[0], repeat=2)
        )


NETWORKS: dict[str, tuple[tuple[int, ...], Any]] = {
    "relu": ((6,), "relu"), "two layers": ((5, 4), "relu"), "tanh": ((4,), "tanh"), "logistic": ((4,), "logistic")
}  # fmt: skip


def build_network(name: str, width: int, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """A network behind a scaler, its data, and a row that it denies."""
    rng = np.random.default_rng(seed)
    table = np.round(rng.normal(size=(80, width)) * rng.uniform(0.5, 20, size=width), 2)
    scores = (table / table.std(axis=0)) @ rng.normal(size=width) + rng.normal(size=80) / 3
    sizes, activation = NETWORKS[name]
    network = MLPClassifier(sizes, activation=activation, solver="lbfgs", max_iter=60, alpha=1.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any network will do
        model = make_pipeline(StandardScaler(), network).fit(table, (scores > 0.5).astype(int))
    denied = table[model.predict(table) == 0]
    nearest = np.argsort(-model.predict_proba(denied)[:, 1])
    return model, table, denied[nearest[4]]


@pytest.mark.parametrize(
    ("name", "norm"), [("relu", "l1"), ("relu", "linf"), ("two layers", "l2"), ("tanh", "l1"), ("logistic", "linf")]
)
def test_what_is_nearest_is_confirmed_and_what_is_dearer_never_is(name: str, norm: Any) -> None:
    """Dense samples by the user's own estimator say what is nearer."""
    model, table, row = build_network(name, 3, 5)
    cost, checker, rng = Cost(norm), Checker(model, table), np.random.default_rng(0)
    found = Explainer(model, table).counterfactuals(row, k=1, cost=cost, progress=False, budget=2_000)
    document, lengths = json.loads(found.to_json()), np.ptp(table, axis=0)
    point = np.array(list(document["counterfactuals"][0]["values"].values()))

    def measure(points: np.ndarray) -> np.ndarray:
        return np.linalg.norm((points - row) / lengths, {"l1": 1, "l2": 2, "linf": math.inf}[norm], axis=1)

    claimed = measure(point[None, :])[0]
    resolution = max(found.resolution, 0.04 * claimed)  # the search may not have come to an end; it need not
    document = rewrite(document, proven=True, resolution=resolution)
    told = checker.check(document)
    assert (told.status != "undecided", told.reading) == (True, "own"), str(told)
    near = row + rng.uniform(-1.5, 1.5, size=(40_000, 3)) * claimed * lengths * rng.integers(0, 2, size=(40_000, 3))
    near = np.clip(near, table.min(axis=0), table.max(axis=0))
    good = near[model.predict(near) == 1]
    assert told.status == "refuted" or (measure(good) >= claimed - resolution - 1e-6).all()
    dearer = good[measure(good) > claimed * 1.2]
    told = checker.check(rewrite(document, counterfactuals=[write_changes(row, dearer[0])], resolution=0.0))
    assert told.status == "refuted", str(told)
    assert checker.check(rewrite(document, counterfactuals=[])).status == "refuted"
