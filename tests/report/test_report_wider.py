"""A rule with its bounds moved is told as proven only where it is."""

from __future__ import annotations

import dataclasses

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer, Proven, Unrefuted


def test_a_wider_rule_that_is_not_proven_is_not_told_as_proven() -> None:
    rows = np.array([[income, age] for income in range(6) for age in range(6)])
    tree = DecisionTreeClassifier(random_state=0).fit(rows, rows[:, 0] >= 4)
    found = Explainer(tree, rows, desired=True).explain(0)
    assert isinstance(found.verdict, Proven)
    assert found.wider is not None
    assert found.wider.rule != found.rule
    assert str(found).startswith(str(found.wider.rule))
    assert "Bounds are as wide as proven; no bound can move further. With the row's own values: " in str(found)
    doubtful = dataclasses.replace(found.wider, verdict=Unrefuted(tried=5, samples=0, confidence=0.0))
    altered = dataclasses.replace(found, wider=doubtful)
    assert altered.shown == altered.ranked[0]
    assert str(altered).startswith(str(found.rule))
    assert "not widened, since that could not be proven" in str(altered)
    for told in (str(altered), altered.to_html("person"), altered.to_html("validator"), altered._repr_html_()):
        assert "as wide as proven" not in told
        assert "proven as far as" not in told
