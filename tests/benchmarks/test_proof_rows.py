"""One row of the proof benchmark: what it notes is there, and true."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier

from benchmarks.proof_rows import explain
from ironrule import Explainer


def test_a_row_says_when_its_first_irredundant_rule_was_there() -> None:
    rows = np.random.default_rng(1).integers(0, 6, size=(400, 6))
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(rows, rows[:, 0] * rows[:, 1] > rows[:, 2])
    explainer = Explainer(model, rows, desired=True, progress=False)
    for row in np.flatnonzero(~explainer.outcomes)[:5]:
        answer = explain(explainer, int(row), 30.0)
        assert answer["proven"]
        assert answer["minimum"]
        assert answer["first irredundant"]
        assert {"wall", "cpu", "first wall", "first cpu"} <= set(answer)
        assert answer["cardinality"] <= answer["first cardinality"]
        assert answer["lower bound"] == answer["cardinality"]
        assert answer["deletion proven"]
        assert answer["boxes"] > 0
        assert answer["counterfactuals"] > 0
