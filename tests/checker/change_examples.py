"""Small models and data for checks of changes, and documents of changes that are altered."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from ironrule.verdict.digest import add_digest

Document = dict[str, Any]
BUILDERS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "boosted": lambda: GradientBoostingClassifier(n_estimators=8, max_depth=3, random_state=0),
    "forest": lambda: RandomForestClassifier(6, max_depth=4, random_state=0),
    "logistic": LogisticRegression,
    "network": lambda: MLPClassifier((5,), solver="lbfgs", max_iter=80, random_state=0),
}


def make_table(seed: int, count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a grid, and classes that mostly follow a slope."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, [5, 4, 4], size=(count, 3)) * np.array([1.0, 0.5, 3.0])
    score = (table - table.mean(axis=0)) / table.std(axis=0) @ rng.normal(size=3) + rng.normal(size=count) / 3
    return table, (score > np.quantile(score, 0.7)).astype(int)


def fit(kind: str, seed: int = 1) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model, its data, and a row that it denies."""
    table, classes = make_table(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any network will do
        model = BUILDERS[kind]().fit(table, classes)
    return model, table, table[np.asarray(model.predict(table)) == 0][3]


def rewrite(document: Document, **fields: Any) -> Document:
    """The document with other fields, and a fresh digest."""
    return add_digest({**copy.deepcopy(document), **fields})


def write_changes(row: np.ndarray, point: np.ndarray) -> Document:
    """A counterfactual as documents have it."""
    moved = [(f"x{j}", old, new) for j, (old, new) in enumerate(zip(row.tolist(), point.tolist(), strict=True))]
    changes = [{"feature": name, "before": old, "after": new} for name, old, new in moved if old != new]
    return {"values": {name: new for name, _, new in moved}, "changes": changes}


def failing(found: Any) -> list[str]:
    """The claims that fail."""
    return [finding.claim for finding in found.failures]
