"""Counterfactuals of networks through the public face: nearest, and proven so, by looking at every point."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ironrule import Budget, Explainer

COLUMNS = list("abcd")


def trained(classes: int) -> tuple[Any, pd.DataFrame]:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.integers(0, 6, size=(300, 4)), columns=COLUMNS)
    target = np.clip((table["a"] * table["b"] + table["c"] - table["d"]) // 8, 0, classes - 1)
    network = MLPClassifier((6, 5), solver="lbfgs", max_iter=2000, random_state=0)
    return make_pipeline(StandardScaler(), network).fit(table, target), table


def everybody(model: Any, desired: list[int], most: int) -> pd.DataFrame:
    """All points with a desired outcome whose first two numbers are together no more than that."""
    every = pd.DataFrame(list(itertools.product(range(6), repeat=4)), columns=COLUMNS)
    return every[np.isin(model.predict(every), desired) & (every["a"] + every["b"] <= most)]


@pytest.mark.parametrize(("classes", "desired"), [(2, [1]), (4, [1, 3])])
@pytest.mark.parametrize("most", [10, 7])
def test_the_first_counterfactual_of_a_network_is_the_nearest(classes: int, desired: list[int], most: int) -> None:
    model, table = trained(classes)
    explainer = Explainer(model, table, desired=desired)
    points, constraints = everybody(model, desired, most), [f"cf.a + cf.b <= {most}"]
    for row in np.flatnonzero(~explainer.outcomes)[:12].tolist():
        given = table.iloc[row]
        ranks = [((point != given).sum(), abs(point - given).sum()) for _, point in points.iterrows()]
        found = explainer.counterfactuals(row, k=3, algorithm="exact", constraints=constraints)
        assert found.proven
        values = [pd.Series(dict(one.values))[COLUMNS].astype(int) for one in found]
        assert ((values[0] != given).sum(), abs(values[0] - given).sum()) == min(ranks)
        changes = [{change.feature for change in one.changes} for one in found]
        assert all(not first <= second for first, second in itertools.combinations(changes, 2))


def test_a_budget_that_ends_first_leaves_nothing_proven() -> None:
    model, table = trained(2)
    explainer = Explainer(model, table, desired=1)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    found = explainer.counterfactuals(row, budget=Budget(seconds=1e-9))
    assert not found.proven
    assert found.statistics.stopped == "budget"
