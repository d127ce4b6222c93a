"""Soft votes over different kinds of models, and stacking: every point of a tiny space, probabilities on thresholds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from exhaustive_checks import assert_shortest, every_point, measure_undecided_share
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer, check

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")


Members = list[tuple[str, Any]]
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
FOREST = RandomForestClassifier(3, max_depth=2, random_state=0)
BOOSTING = GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0)
HISTOGRAM = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4, min_samples_leaf=3)
XGBOOST = xgb.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1)
LIGHTGBM = lgb.LGBMClassifier(n_estimators=3, num_leaves=4, min_child_samples=3, n_jobs=1, verbose=-1)
MIXES: dict[str, Callable[[], Members]] = {
    "linear and forest": lambda: [("a", LogisticRegression()), ("b", FOREST)],
    "linear and tree": lambda: [("a", LogisticRegression()), ("b", TREE)],
    "linear and boosting": lambda: [("a", LogisticRegression()), ("b", BOOSTING), ("c", HISTOGRAM)],
    "naive Bayes": lambda: [("a", GaussianNB()), ("b", FOREST)],
    "AdaBoost": lambda: [("a", LogisticRegression()), ("b", AdaBoostClassifier(n_estimators=3, random_state=0))],
    "xgboost": lambda: [("a", XGBOOST), ("b", LogisticRegression())],
    "lightgbm": lambda: [("a", LIGHTGBM), ("b", FOREST)],
    "boosters": lambda: [("a", LIGHTGBM), ("b", XGBOOST), ("c", TREE)],
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


def require_right(model: Any, table: pd.DataFrame, desired: str, threshold: float | None = None) -> None:
    # A threshold that is a score: over whole intervals rounding would decide next to it.
    domain = "auto" if threshold is None else "seen"
    explainer = Explainer(model, table, desired=desired, threshold=threshold, domain=domain)
    assert explainer.unreadable_reason is None
    points = every_point(explainer)
    rows = pd.DataFrame([explainer.space.decode_row(point) for point in points])[list(table)]
    place = model.classes_.tolist().index(desired)
    own = model.predict(rows) == desired if threshold is None else model.predict_proba(rows)[:, place] > threshold
    assert (explainer._context.model.desired(points) == own).mean() > 0.98  # one row alone may be rounded differently
    assert measure_undecided_share(explainer) < 0.3  # boosted models have few scores, some on the threshold
    assert assert_shortest(explainer, rows=2) > 0
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    found = check(explainer.explain(row), model, table, desired=desired, threshold=threshold)
    assert found.status == "proven", str(found)


def find_level(model: Any, table: pd.DataFrame, desired: str) -> float:
    """A probability that some rows have exactly."""
    column = np.sort(np.unique(model.predict_proba(table)[:, model.classes_.tolist().index(desired)]))
    return float(column[len(column) // 2])


@pytest.mark.parametrize("desired", ["good", "bad"])
@pytest.mark.parametrize("name", MIXES)
def test_soft_votes_of_different_kinds(name: str, desired: str) -> None:
    table, labels = people()
    members = MIXES[name]()
    weights = [1.0, 2.5, 0.5][: len(members)]
    model = VotingClassifier(members, voting="soft", weights=weights).fit(table, labels)
    require_right(model, table, desired)
    require_right(model, table, desired, find_level(model, table, desired))


@pytest.mark.parametrize("desired", ["good", "bad"])
@pytest.mark.parametrize("passthrough", [False, True])
@pytest.mark.parametrize("final", ["linear", "ridge", "tree"])
@pytest.mark.parametrize("name", ["linear and forest", "boosters"])
def test_stacking(name: str, final: str, passthrough: bool, desired: str) -> None:
    table, labels = people()
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    finals = {"linear": LogisticRegression(C=5), "ridge": RidgeClassifier(), "tree": tree}
    model = StackingClassifier(
        MIXES[name](), finals[final], cv=2, stack_method="predict_proba", passthrough=passthrough
    ).fit(table, labels)
    require_right(model, table, desired)
    if final == "linear":
        # a product of matrices is rounded in one way for one row, in another for many: no exact tie there
        require_right(model, table, desired, find_level(model, table, desired) + 1e-9)


def test_negative_weights_of_members() -> None:
    """Members that contradict each other: a final estimator weighs one of them against the rest."""
    table, labels = people()
    model = StackingClassifier([("a", LogisticRegression()), ("b", FOREST)], LogisticRegression(), cv=2)
    model.fit(table, labels)
    model.final_estimator_.coef_ = np.array([[4.0, -2.5]])
    model.final_estimator_.intercept_ = np.array([-0.8])
    require_right(model, table, "good")


def test_the_end_of_a_pipeline() -> None:
    table, labels = people()
    vote = VotingClassifier([("a", LogisticRegression()), ("b", FOREST)], voting="soft")
    require_right(make_pipeline(StandardScaler(), vote).fit(table, labels), table, "good")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            VotingClassifier([("a", LogisticRegression()), ("b", KNeighborsClassifier(3))], voting="soft"),
            "its member KNeighborsClassifier is not a sum of trees or of columns; leave that member out",
        ),
        (
            VotingClassifier([("a", LogisticRegression()), ("b", MLPClassifier((3,), max_iter=5))], voting="soft"),
            "its member MLPClassifier is not a sum",
        ),
        (
            VotingClassifier([("a", make_pipeline(StandardScaler(), GaussianNB())), ("b", TREE)], voting="soft"),
            "put the ensemble at the end of one Pipeline",
        ),
        (
            VotingClassifier([("a", SGDClassifier(loss="modified_huber", random_state=0)), ("b", TREE)], voting="soft"),
            "its member SGDClassifier",
        ),
        (StackingClassifier([("a", LinearSVC())], cv=2), "stack_method='predict_proba'"),
        (
            StackingClassifier([("a", TREE)], FOREST, cv=2),
            "read under a linear model or a single decision tree, and the final estimator here is a RandomForest",
        ),
    ],
    ids=["neighbours", "network", "pipeline", "huber", "decision function", "forest"],
)
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_what_is_refused_says_what_to_do(model: Any, reason: str) -> None:
    table, labels = people()
    found = Explainer(model.fit(table, labels), table, desired="good").unreadable_reason
    assert found is not None
    assert reason in found


def test_three_classes_are_refused() -> None:
    table, _ = people()
    labels = np.arange(len(table)) % 3
    model = VotingClassifier([("a", LogisticRegression()), ("b", TREE)], voting="soft").fit(table, labels)
    assert "only for two classes" in str(Explainer(model, table, desired=1).unreadable_reason)


def test_members_that_take_whole_numbers_in_different_ways() -> None:
    table, labels = people(("0", "1"))
    numbers = (table * 2).to_numpy().astype(int)
    model = VotingClassifier([("a", LIGHTGBM), ("b", TREE)], voting="soft").fit(numbers, labels.astype(int))
    assert "in different ways" in str(Explainer(model, numbers).unreadable_reason)
