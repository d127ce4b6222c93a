"""Where networks are bounded: errors that name what is missing, and the same answers wherever it is."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ironrule import Explainer, InputError, MissingExtraError, Proven


def small_network() -> tuple[Any, pd.DataFrame]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 6, size=(300, 4)), columns=list("abcd"))
    target = (table["a"] * table["b"] + table["c"] > 8).astype(int)
    network = MLPClassifier((6, 5), solver="lbfgs", max_iter=300, random_state=0)
    return make_pipeline(StandardScaler(), network).fit(table, target), table


def test_without_torch_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else there(name))
    with pytest.raises(MissingExtraError, match=r"pip install 'ironrule\[torch\]'"):
        Explainer(lambda rows: rows[:, 0], np.zeros((4, 2)), device="cuda")


def test_a_device_must_be_a_name() -> None:
    wrong: Any = 0
    with pytest.raises(InputError, match="device must be"):
        Explainer(lambda rows: rows[:, 0], np.zeros((4, 2)), device=wrong)


def test_answers_are_the_same_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from ironrule.backends.network.gpu.engine import TorchEngine

    model, table = small_network()
    engine = TorchEngine("cpu", min_boxes=0)
    monkeypatch.setattr("ironrule.backends.network.engine.choose_engine", lambda _: engine)
    plain, there = Explainer(model, table, desired=1), Explainer(model, table, desired=1, device="somewhere")
    denied = np.flatnonzero(model.predict(table) == 0)[:5].tolist()
    for row in denied:
        one, other = plain.explain(row), there.explain(row)
        assert isinstance(other.verdict, Proven)
        assert one.cardinality == other.cardinality == other.lower_bound
    assert [len(one.features) for one in plain.change_sets(denied[0])] == [
        len(one.features) for one in there.change_sets(denied[0])
    ]
    assert engine._recent
