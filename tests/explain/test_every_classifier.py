"""Every classifier of scikit-learn explains a row: with a proof where the model is read, else with the reason."""

from __future__ import annotations

import inspect
import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OutputCodeClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

import ironrule
from ironrule import Budget, Explainer

QUICK: dict[str, Any] = {
    "n_estimators": 4,
    "max_iter": 30,
    "max_iter_predict": 5,
    "max_depth": 3,
    "n_splits": 2,
    "cv": 2,
    "random_state": 0,
    "hidden_layer_sizes": (3,),
    "outlier_label": "bad",
}
FEATURES = ["income", "debt", "age"]
SEVERAL_OUTPUTS = {"ClassifierChain", "MultiOutputClassifier"}  # they answer no label per row
CLASSIFIERS = dict(all_estimators("classifier"))
TREES_BY_DEFAULT = {"AdaBoostClassifier", "BaggingClassifier"}
READ = {  # no fewer than these are read, and give proofs
    *("AdaBoostClassifier", "BaggingClassifier", "BernoulliNB", "DecisionTreeClassifier", "ExtraTreeClassifier"),
    *("ExtraTreesClassifier", "GaussianNB", "GradientBoostingClassifier", "HistGradientBoostingClassifier"),
    *("LinearSVC", "LogisticRegression", "LogisticRegressionCV", "MLPClassifier", "Perceptron"),
    *("RandomForestClassifier", "RidgeClassifier", "SGDClassifier"),
}


@cache
def build_table() -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 6, size=(60, 3)), columns=FEATURES).astype(float)
    return table, np.where(table.income - table.debt + 0.3 * table.age > 1, "good", "bad").astype(object)


def make(name: str) -> Any:
    """The classifier with quick settings."""
    kind = CLASSIFIERS[name]
    parameters = inspect.signature(kind).parameters
    given = {key: value for key, value in QUICK.items() if key in parameters}
    inner = DecisionTreeClassifier(max_depth=2, random_state=0)
    if kind in (StackingClassifier, VotingClassifier):
        given["estimators"] = [("tree", inner), ("line", LogisticRegression())]
    elif kind is OutputCodeClassifier:
        given |= {"estimator": inner, "code_size": 2}
    elif "estimator" in parameters and name not in TREES_BY_DEFAULT:
        given["estimator"] = LogisticRegression()
    return kind(**given)


@pytest.mark.parametrize("name", sorted(set(CLASSIFIERS) - SEVERAL_OUTPUTS))
def test_a_row_is_explained_or_refused_for_a_clear_reason(name: str) -> None:
    table, labels = build_table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of quick settings: models that did not converge
        model = make(name).fit(table, labels)
        explainer = Explainer(model, table, desired="good")
        denied = explainer.row_numbers[~explainer.outcomes]
        assert len(denied)
        found = explainer.explain(int(denied[0]), budget=Budget(evaluations=1000, seconds=10))
    if name in READ:
        assert explainer.unreadable_reason is None
    if explainer.unreadable_reason is None:
        assert isinstance(found.verdict, ironrule.Proven)
    else:
        assert len(explainer.unreadable_reason) > 10
        is_proven = isinstance(found.verdict, ironrule.Proven)  # a few points may all be asked about
        assert is_proven or explainer.unreadable_reason in str(found)
    covered = found.shown.rule.covers(table)
    assert covered[denied[0]]
    if isinstance(found.verdict, ironrule.Proven):
        assert not (covered & (model.predict(table) == "good")).any()


@pytest.mark.parametrize("name", sorted(SEVERAL_OUTPUTS & set(CLASSIFIERS)))
def test_a_model_of_several_outputs_is_refused(name: str) -> None:
    table, labels = build_table()
    both = np.stack([labels == "good", labels == "bad"], axis=1).astype(int)
    model = CLASSIFIERS[name](LogisticRegression()).fit(table, both)
    with pytest.raises(ironrule.IronruleError):
        Explainer(model, table, desired=1)
