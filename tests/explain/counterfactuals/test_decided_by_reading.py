"""Searches that ask about many points are told what was read of the model; the model itself confirms the answer."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from ironrule import Explainer, GrowingSpheres
from ironrule.backends.compiled_model import CompiledPart, ReadDecisions
from ironrule.explain.counterfactuals.find import _count_points_to_read
from ironrule.model.blackbox import BlackBox


def decide_even(_: Any, points: Any) -> Any:
    """A reading that is sure of all points but those with a 3."""
    even = points[:, 0] % 2 == 0
    return even | (points[:, 0] == 3), even & (points[:, 0] != 3)


def test_the_model_is_asked_where_its_reading_is_unsure_and_about_many_points() -> None:
    asked: list[int] = []

    def say_yes(points: Any) -> Any:
        asked.append(len(points))
        return np.ones(len(points), dtype=np.bool_)

    part = CompiledPart((SimpleNamespace(decide_points=decide_even),), ())  # type: ignore[arg-type]
    decides = ReadDecisions(part, SimpleNamespace(desired=say_yes), most=3)
    assert decides.desired(np.array([[0], [1], [2]])).tolist() == [True, False, True]
    assert asked == []
    assert decides.desired(np.array([[1], [3]])).tolist() == [False, True]
    assert asked == [1]
    assert decides.desired(np.array([[1], [1], [1], [1]])).all()
    assert asked == [1, 4]


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(5, max_depth=3, random_state=0),
        LogisticRegression(),
        MLPClassifier((4,), solver="lbfgs", max_iter=50, random_state=0),  # so small that no library is faster
    ],
)
def test_searches_by_asking_put_the_answer_alone_to_a_model_that_was_read(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 30, size=(300, 3)).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any network will do
        model.fit(table, table.sum(axis=1) > 50)
    explainer = Explainer(model, table, desired=True)
    asked, ask = list[int](), BlackBox.desired

    def count(box: BlackBox, points: Any) -> Any:
        asked.append(len(points))
        return ask(box, points)

    monkeypatch.setattr(BlackBox, "desired", count)
    found = explainer.counterfactuals(int(np.flatnonzero(~explainer.outcomes)[0]), algorithm=GrowingSpheres(), k=2)
    assert len(found) == 2
    assert model.predict([[one.values[f"x{j}"] for j in range(3)] for one in found]).all()
    assert sum(asked) <= 10  # the answers, with readable numbers and without, of thousands of points


@pytest.mark.parametrize(("hidden", "most"), [((4,), 500_000 // 16), ((100, 100), 500_000 // 10_400)])
def test_a_large_network_is_asked_itself_about_many_points(hidden: tuple[int, ...], most: int) -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 30, size=(300, 3)).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MLPClassifier(hidden, max_iter=3, random_state=0).fit(table, table.sum(axis=1) > 50)
    context = Explainer(model, table, desired=True, progress=False)._context
    assert context.compiled_model is not None
    assert _count_points_to_read(context.compiled_model.tabulated.normal_form) == most
