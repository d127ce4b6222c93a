"""Scores of rows: a threshold is named only where it explains every decision, and the distance says on which side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer
from ironrule.explain.row_score import RowScore

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RNG.integers(0, 40, 300), "b": RNG.normal(size=300).round(2)})
TWO = np.where(TABLE.a + 9 * TABLE.b + RNG.normal(size=300) > 20, "good", "bad")
THREE = np.where(TABLE.a < 12, "low", np.where(TABLE.a < 28, "mid", "high"))


class Contrary(GaussianNB):
    """Its labels do not follow its probabilities."""

    def predict(self, X: Any) -> npt.NDArray[Any]:  # as scikit-learn calls it
        return np.where(np.asarray(X)[:, 0] > 15, "good", "bad")


def moved(threshold: float, positive: str) -> FixedThresholdClassifier:
    return FixedThresholdClassifier(LogisticRegression(), threshold=threshold, pos_label=positive).fit(TABLE, TWO)


CASES: dict[str, tuple[Any, dict[str, Any], str, float | None]] = {
    "tree": (DecisionTreeClassifier(max_depth=3).fit(TABLE, TWO), {"desired": "good"}, "probability", 0.5),
    "tree, the other class": (DecisionTreeClassifier(max_depth=3).fit(TABLE, TWO), {"desired": "bad"}, "probability",
                              0.5),
    "threshold": (LogisticRegression().fit(TABLE, TWO), {"desired": "good", "threshold": 0.7}, "probability", 0.7),
    "moved": (moved(0.8, "good"), {"desired": "good"}, "probability", 0.8),
    "moved, the other class": (moved(0.8, "good"), {"desired": "bad"}, "probability", 0.2),
    "moved in a pipeline": (make_pipeline(StandardScaler(), moved(0.3, "bad")).fit(TABLE, TWO), {"desired": "good"},
                            "probability", 0.7),
    "margins": (SVC().fit(TABLE, TWO), {"desired": "good"}, "score", 0.0),
    "margins, the other class": (SVC().fit(TABLE, TWO), {"desired": "bad"}, "score", 0.0),
    "three classes": (RandomForestClassifier(5, random_state=0).fit(TABLE, THREE), {"desired": "high"}, "lead", 0.0),
    "regression": (LinearRegression().fit(TABLE, TABLE.a + TABLE.b), {"threshold": 12.5}, "score", 12.5),
    "below": (LinearRegression().fit(TABLE, TABLE.a), {"threshold": 12.5, "desired": "below"}, "score", 12.5),
    "function": (lambda rows: rows.a.to_numpy() / 40, {"threshold": 0.25}, "score", 0.25),
    "contrary": (Contrary().fit(TABLE, TWO), {"desired": "good"}, "probability", None),
    "margin": (LogisticRegression().fit(TABLE, TWO), {"desired": "good", "margin": 0.2}, "probability", 0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_threshold_explains_every_past_decision_or_is_not_named(name: str) -> None:
    model, wanted, kind, threshold = CASES[name]
    explainer = Explainer(model, TABLE, **wanted)
    scorer = explainer.build_row_scorer()
    assert scorer is not None
    assert scorer.kind == kind
    assert scorer.threshold == (None if threshold is None else pytest.approx(threshold))
    for position in range(len(TABLE)):
        score = scorer.get_past_score(position)
        if position % 60 == 0:
            assert score.value == pytest.approx(scorer.score(position).value, abs=1e-12)
        if score.distance is not None and abs(score.distance) > 1e-9:
            assert (score.distance > 0) == explainer.outcomes[position]
        assert (score.distance is None) == (threshold is None)


MODEL = CASES["threshold"][0]
EXPLAINER = Explainer(MODEL, TABLE, **CASES["threshold"][1])
SCORER = EXPLAINER.build_row_scorer()


@given(st.integers(-50, 90), st.floats(-5, 5, allow_nan=False))
@settings(max_examples=10)
def test_a_new_row_has_the_score_of_the_model(a: int, b: float) -> None:
    model, explainer, row = MODEL, EXPLAINER, {"a": a, "b": b}
    assert SCORER is not None
    score = SCORER.score(row)
    assert score.value == pytest.approx(model.predict_proba(pd.DataFrame([row]))[0, 1])
    assert score.distance is not None
    if abs(score.distance) > 1e-9:
        assert explainer.is_desired(row) == (score.distance > 0)


def test_a_model_that_only_decides_has_no_score() -> None:
    labels_alone = Explainer(lambda rows: np.where(rows.a > 20, "good", "bad"), TABLE, desired="good")
    assert labels_alone.build_row_scorer() is None
    as_numbers = Explainer(lambda rows: (rows.a > 20).to_numpy(dtype=float), TABLE)
    assert as_numbers.build_row_scorer() is None


def test_the_distance_is_positive_on_the_desired_side() -> None:
    above, below = RowScore(0.25, "score", 0.5), RowScore(0.25, "score", 0.5, "below")
    assert (above.distance, below.distance) == (-0.25, 0.25)
    assert RowScore(0.25, "score", None).distance is None
    assert above.to_dict()["distance"] == -0.25


def test_outcomes_are_called_by_labels_by_classes_or_by_what_they_are() -> None:
    tree = DecisionTreeClassifier(max_depth=3)
    named = Explainer(tree.fit(TABLE, TWO), TABLE, desired="good")
    assert named.outcome_names == ("good", "bad")
    several = Explainer(DecisionTreeClassifier(max_depth=3).fit(TABLE, THREE), TABLE, desired="high")
    assert several.outcome_names == ("high", "low or mid")
    numbers = DecisionTreeClassifier(max_depth=3).fit(TABLE, (TWO == "good").astype(int))
    assert Explainer(numbers, TABLE).outcome_names == ("desired", "undesired")
    labels = {"outcomes": {"0": "denied", "1": "approved"}}
    assert Explainer(numbers, TABLE, labels=labels).outcome_names == ("approved", "denied")
