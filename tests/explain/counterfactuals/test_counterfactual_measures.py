"""Measures of counterfactuals, by their definitions."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import NearestNeighbors
from sklearn.tree import DecisionTreeClassifier

from ironrule import Counterfactuals, Explainer
from ironrule.errors import InputError


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"income": rng.normal(50, 20, 200), "age": rng.integers(18, 70, 200)})


@pytest.fixture(scope="module")
def explainer(data) -> Explainer:
    model = DecisionTreeClassifier(max_depth=3, random_state=0)
    return Explainer(model.fit(data, (data["income"] + data["age"] > 95).astype(int)), data)


def test_the_measures_are_those_of_carla(explainer, data):
    row = int(np.flatnonzero(~explainer.outcomes)[1])
    found = explainer.counterfactuals(row, k=3)
    spread = (data.max() - data.min()).to_numpy()
    neighbours = NearestNeighbors(n_neighbors=5).fit(data.to_numpy() / spread)
    for item, measured in zip(found, found.measure(), strict=True):
        values = np.array([item.values["income"], item.values["age"]])
        apart = np.abs(values - data.iloc[row].to_numpy()) / spread
        assert measured.l0 == len(item.changes)
        assert measured.l1 == pytest.approx(apart.sum())
        assert measured.l2 == pytest.approx(np.sqrt((apart**2).sum()))
        assert measured.linf == pytest.approx(apart.max())
        assert measured.cost == measured.l1
        nearest = neighbours.kneighbors((values / spread)[None, :], return_distance=False)[0]
        assert measured.ynn == pytest.approx(explainer.outcomes[nearest].mean())


def test_categories_and_missing_values_are_one_apart():
    data = pd.DataFrame({"job": ["a", "b", "c", "a"] * 4, "income": [1.0, None, 5.0, 3.0] * 4})

    def model(table):
        return (np.asarray(table["job"]) == "c") & (np.asarray(table["income"], dtype=float) > 4)

    found = Explainer(model, data).counterfactuals({"job": "a", "income": None}, k=1)
    (measured,) = found.measure()
    assert (measured.l0, measured.l1, measured.linf) == (2, 2.0, 1.0)
    assert measured.ynn == pytest.approx(4 / 5), "four rows are the counterfactual itself"


def test_what_is_read_back_has_no_past_rows_to_measure_by(explainer):
    found = explainer.counterfactuals(int(np.flatnonzero(~explainer.outcomes)[0]))
    for copy in (Counterfactuals.from_json(found.to_json()), pickle.loads(pickle.dumps(found))):
        assert copy == found
        with pytest.raises(InputError, match="must come from an explainer"):
            copy.measure()
