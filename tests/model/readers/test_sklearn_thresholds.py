"""Classifiers that move the threshold of another model: every point of a tiny space, scores on the threshold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from exhaustive_checks import assert_shortest, measure_undecided_share
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer, check

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")

BASES: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": lambda: RandomForestClassifier(4, max_depth=3, random_state=0),
    "pure forest": lambda: RandomForestClassifier(8, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0),
    "logistic regression": LogisticRegression,
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "calibrated": lambda: CalibratedClassifierCV(LogisticRegression(), cv=2),
    "network": lambda: MLPClassifier(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=200, random_state=0),
    "support vectors": LinearSVC,
}


def people(labels: tuple[Any, Any] = ("bad", "good"), count: int = 90) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "income": rng.choice([1.0, 2.5, 4.0, 7.5], count),
            "accounts": rng.integers(0, 4, count).astype(float),
            "late": rng.choice([0.0, 0.5, 3.0], count),
        }
    )
    score = 0.4 * table["income"] - 0.5 * table["accounts"] - 0.6 * table["late"] + rng.normal(0, 0.4, count)
    return table, np.where(score > score.median(), labels[1], labels[0])


def score_rows(base: Any, table: pd.DataFrame) -> Any:
    return base.predict_proba(table)[:, 1] if hasattr(base, "predict_proba") else base.decision_function(table)


def require_right(model: Any, table: pd.DataFrame, desired: Any) -> None:
    # Scores on the threshold. Every point is tried, and a network has too many over whole intervals.
    is_network = "MLP" in repr(model)
    explainer = Explainer(model, table, desired=desired, domain="seen" if is_network else "auto")
    assert explainer.unreadable_reason is None
    assert measure(explainer) < 0.5  # a boosted model has few scores, and one of them is on the threshold
    assert assert_shortest(explainer, rows=2) > 0
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    found = check(explainer.explain(row), model, table, desired=desired)
    assert found.status == "proven", str(found)


def measure(explainer: Explainer) -> float:
    """The share of points that are left to the model; networks have another form."""
    exact = explainer._context.compiled_model
    assert exact is not None
    return 0.0 if "Network" in type(exact.alternatives[0]).__name__ else measure_undecided_share(explainer)


@pytest.mark.parametrize("desired", ["good", "bad"])
@pytest.mark.parametrize("positive", ["good", "bad", None])
@pytest.mark.parametrize("name", BASES)
def test_a_score_on_the_threshold_is_positive(name: str, positive: str | None, desired: str) -> None:
    table, labels = people()
    base = BASES[name]().fit(table, labels)
    scores = np.sort(np.unique(score_rows(base, table)))
    level = float(scores[len(scores) // 2])
    if positive == "bad":
        # a product of matrices is rounded in one way for one row, in another for many: no exact tie there
        level = 1.0 - level if hasattr(base, "predict_proba") else 1e-9 - level
    model = FixedThresholdClassifier(FrozenEstimator(base), threshold=level, pos_label=positive).fit(table, labels)
    require_right(model, table, desired)


@pytest.mark.parametrize("name", ["tree", "forest", "pipeline", "support vectors"])
def test_a_tuned_threshold(name: str) -> None:
    table, labels = people((0, 1))
    model = TunedThresholdClassifierCV(BASES[name](), cv=3).fit(table, labels.astype(int))
    require_right(model, table, 1)


@pytest.mark.parametrize("desired", [0, 1])
def test_single_precision(desired: int) -> None:
    table, labels = people(("0", "1"))
    base = xgb.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(table, labels.astype(int))
    for level in np.unique(base.predict_proba(table)[:, 1])[1::4].tolist():
        model = FixedThresholdClassifier(FrozenEstimator(base), threshold=level).fit(table, labels.astype(int))
        require_right(model, table, desired)


def test_a_tuned_threshold_for_the_first_class() -> None:
    table, labels = people()
    scoring = make_scorer(f1_score, pos_label="bad")
    model = TunedThresholdClassifierCV(LogisticRegression(), scoring=scoring, cv=3).fit(table, labels)
    require_right(model, table, "good")


def test_the_default_threshold_and_the_decision_function() -> None:
    table, labels = people()
    for method in ("auto", "decision_function"):
        model = FixedThresholdClassifier(LogisticRegression(), response_method=method).fit(table, labels)
        require_right(model, table, "good")
    moved = FixedThresholdClassifier(LogisticRegression(), threshold=0.7, response_method="decision_function")
    require_right(moved.fit(table, labels), table, "good")


def test_the_end_of_a_pipeline_and_a_search() -> None:
    table, labels = people()
    model = make_pipeline(StandardScaler(), FixedThresholdClassifier(LogisticRegression(), threshold=0.3))
    require_right(model.fit(table, labels), table, "good")
    nested = FixedThresholdClassifier(FixedThresholdClassifier(LogisticRegression(), threshold=0.3), threshold=0.6)
    require_right(nested.fit(table, labels), table, "good")


def test_a_threshold_of_the_explainer_is_on_the_probabilities() -> None:
    table, labels = people()
    model = FixedThresholdClassifier(LogisticRegression(), threshold=0.3).fit(table, labels)
    explainer = Explainer(model, table, desired="good", threshold=0.6)
    assert explainer.unreadable_reason is None
    assert (explainer.outcomes == (model.predict_proba(table)[:, 1] > 0.6)).all()
    measure_undecided_share(explainer)


def test_without_scores_that_are_read_the_reason_is_that_of_the_model_inside() -> None:
    table, labels = people()
    model = FixedThresholdClassifier(make_pipeline(StandardScaler(), Odd()), threshold=0.4).fit(table, labels)
    reason = Explainer(model, table, desired="good").unreadable_reason
    assert reason is not None
    assert reason == "Odd is not one of the models that can be read"


class Odd(LogisticRegression):
    """A model of another library."""
