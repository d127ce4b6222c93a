"""Explanations of networks that are stopped at any moment: what is not marked as undecided is truly needed."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ironrule import Budget, Explainer, Proven, Space
from ironrule.verdict.budget import Meter

COLUMNS = list("abcdefg")


class After:
    """Stops a search, as by Ctrl-C, at its so-many-th look at the budget."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def __call__(self, _meter: Meter) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.integers(0, 4, size=(300, 7)), columns=COLUMNS)
    target = table["a"] * table["b"] + table["c"] * table["e"] - table["d"] + table["f"] - table["g"] > 4
    network = MLPClassifier((6, 5), solver="lbfgs", max_iter=2000, random_state=0)
    model = make_pipeline(StandardScaler(), network).fit(table, target)
    space = Space.infer(table, progress=False)
    return Explainer(model, table.iloc[:10], desired=True, space=space, progress=False)  # few rows teach little


def test_what_is_not_marked_as_undecided_is_needed(explainer: Explainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.search.minimum.QUICK_EFFORT", 1e-9)  # so that the longest rule is begun with
    every = pd.DataFrame(list(itertools.product(range(4), repeat=7)), columns=COLUMNS)
    good, marked = desired(explainer, every), 0
    for row, looks in itertools.product(np.flatnonzero(~explainer.outcomes)[:5].tolist(), range(2, 40, 2)):
        budget = Budget(callback=After(looks))
        found = explainer.explain(row, algorithm="minimum", budget=budget, widen=False)
        if not isinstance(found.verdict, Proven):
            continue
        marked += len(found.undecided_components)
        for left_out in found.rule.components:
            if str(left_out) not in found.undecided_components:
                rest = [one for one in found.rule.components if one is not left_out]
                inside = np.ones(len(good), dtype=bool)
                for one in rest:
                    values = good[one.feature]
                    inside &= {"<=": values <= one.value, ">=": values >= one.value, "=": values == one.value}[one.op]
                assert inside.any(), (row, looks, str(left_out))
    assert marked


def desired(explainer: Explainer, points: pd.DataFrame) -> pd.DataFrame:
    return points[np.asarray(explainer._context.model.primary.desired(explainer.space.encode(points).points()))]
