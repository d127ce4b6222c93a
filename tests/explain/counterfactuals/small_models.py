"""Tables with a few values per feature, models of every kind for them, and all points there are."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from ironrule import CounterfactualRegion

AGES, DEBTS, JOBS = range(5), range(4), ("clerk", "cook", "judge")
DOMAINS: dict[str, Any] = {"age": list(AGES), "debt": list(DEBTS), "job": list(JOBS)}
MODELS: dict[str, Any] = {
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=4, max_depth=2, learning_rate=0.5, random_state=0),
    "forest": RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0),
    "logistic": LogisticRegression(),
    "network": MLPClassifier((4,), solver="lbfgs", max_iter=100, random_state=0),
}


def list_points() -> pd.DataFrame:
    """All points of the space."""
    return pd.DataFrame(list(itertools.product(AGES, DEBTS, JOBS)), columns=["age", "debt", "job"])


def make_case(kind: str, seed: int) -> tuple[Any, pd.DataFrame]:
    """A model of a kind that gives both outcomes, and past rows that have every value."""
    rng = np.random.default_rng(seed)
    points = list_points()
    noise = rng.normal(size=len(points))
    score = (
        rng.normal() * points["age"]
        + rng.normal() * points["debt"]
        + points["job"].map(dict(zip(JOBS, rng.normal(size=3) * 2, strict=True)))
        + noise
    )
    labels = np.where(score > np.median(score), "yes", "no")
    encoder = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    return make_pipeline(encoder, clone(MODELS[kind])).fit(points, labels), points


def list_larger(region: CounterfactualRegion) -> list[dict[str, list[Any]]]:
    """The values by feature of every region that has one bound further out, or one category freed."""
    own = {name: [value] for name, value in region.fixed.items()}
    for one in region.ranges:
        every = DOMAINS[one.feature]
        own[one.feature] = every if one.any_value else every[every.index(one.low) : every.index(one.high) + 1]
    larger = []
    for one in region.ranges:
        every, now = DOMAINS[one.feature], own[one.feature]
        if one.feature == "job":
            larger += [] if one.any_value else [own | {"job": every}]
            continue
        if now[0] != every[0]:
            larger.append(own | {one.feature: [every[every.index(now[0]) - 1], *now]})
        if now[-1] != every[-1]:
            larger.append(own | {one.feature: [*now, every[every.index(now[-1]) + 1]]})
    return larger
