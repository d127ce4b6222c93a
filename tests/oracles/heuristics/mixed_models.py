"""Models of numbers and categories that can be read, and questions about rows that they deny."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ironrule
from ironrule.explain.query import build_case
from ironrule.oracles.protocol import BoxQuery, Case

_RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "income": _RNG.integers(0, 40, size=300) * 100.0,
        "debt": _RNG.integers(0, 30, size=300) * 50.0,
        "job": _RNG.choice(["clerk", "cook", "nurse"], size=300),
    }
)
WEALTH = PEOPLE["income"] - PEOPLE["debt"] + 900.0 * (PEOPLE["job"] == "nurse")
GRADES = np.digitize(WEALTH, [800, 2000])
ESTIMATORS = {
    "linear": lambda: LogisticRegression(),
    "network": lambda: MLPClassifier((6, 4), activation="tanh", max_iter=400, tol=1e-3, random_state=0),
    "forest": lambda: RandomForestClassifier(5, max_depth=4, random_state=0),
}


@cache
def fit_pipeline(name: str, grades: bool = False) -> Any:
    """A pipeline that encodes the category and scales the numbers, over two classes or over three."""
    columns = make_column_transformer((OneHotEncoder(), ["job"]), (StandardScaler(), ["income", "debt"]))
    return make_pipeline(columns, ESTIMATORS[name]()).fit(PEOPLE, GRADES if grades else WEALTH > 1500)


@cache
def explain_people(name: str, grades: bool = False) -> ironrule.Explainer:
    """An explainer of that model; of three classes the last one is desired."""
    return ironrule.Explainer(fit_pipeline(name, grades), PEOPLE, desired=2 if grades else True)


def query_about(name: str, row: int = 0, *, grades: bool = False, k: int = 1) -> BoxQuery:
    """What may change of one of the denied people: everything."""
    context = explain_people(name, grades)._context
    denied = np.flatnonzero(~context.outcomes)
    case = build_case(context, int(denied[row]), own_model_only=True)
    return BoxQuery(case, case.components.box(0), k)


def forget_normal_form(case: Case) -> Case:
    """The same case where the model was not read."""
    return replace(case, tabulated_model=None)
