"""Small models of every family with a table, for explainers that are saved."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ironrule.verdict.digest import add_digest

NUMBERS = ["income", "age", "debt"]
CLOCKED = ("statistics", "digest", "seconds", "confirmed_by_model")


def build_table() -> tuple[pd.DataFrame, Any]:
    """Applicants with numbers, some missing, and categories."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "income": rng.normal(3000, 900, 240).round(2),
            "age": rng.integers(18, 80, 240),
            "debt": rng.exponential(500, 240),
            "job": rng.choice(["cook", "clerk", "boss"], 240),
            "owner": rng.random(240) < 0.4,
        }
    )
    table.loc[rng.random(240) < 0.05, "debt"] = np.nan
    score = table.income - 2 * table.debt.fillna(300) + 20 * table.age + 800 * (table.job == "boss")
    return table, (score + rng.normal(0, 500, 240) > 3000).astype(int)


def prepare(*scalers: Any) -> Any:
    """Numbers imputed and scaled, categories one-hot."""
    numbers = make_pipeline(SimpleImputer(), *scalers)
    return make_column_transformer((numbers, NUMBERS), (OneHotEncoder(handle_unknown="ignore"), ["job", "owner"]))


class Family(NamedTuple):
    """How a model is made, and what it takes of the table."""

    make: Callable[[], Any]
    take: Callable[[pd.DataFrame], Any] = lambda table: table


def _as_categories(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(job=table.job.astype("category"))


FAMILIES: Mapping[str, Family] = {
    "logistic": Family(lambda: make_pipeline(prepare(StandardScaler()), LogisticRegression())),
    "network": Family(
        lambda: make_pipeline(
            prepare(MinMaxScaler()), MLPClassifier((4,), max_iter=150, solver="lbfgs", random_state=0)
        )
    ),
    "bins": Family(
        lambda: make_pipeline(
            prepare(KBinsDiscretizer(4, encode="onehot-dense", quantile_method="averaged_inverted_cdf")),
            LogisticRegression(),
        )
    ),
    "tree": Family(
        lambda: make_pipeline(prepare(StandardScaler()), DecisionTreeClassifier(max_depth=4, random_state=0))
    ),
    "forest": Family(lambda: make_pipeline(prepare(), RandomForestClassifier(6, max_depth=5, random_state=0))),
    "histogram": Family(lambda: make_pipeline(prepare(), HistGradientBoostingClassifier(max_iter=6, random_state=0))),
    "xgboost": Family(
        lambda: xgboost.XGBClassifier(n_estimators=8, max_depth=3, enable_categorical=True), _as_categories
    ),
    "lightgbm": Family(lambda: lightgbm.LGBMClassifier(n_estimators=8, max_depth=3, verbose=-1), _as_categories),
    "array": Family(
        lambda: xgboost.XGBClassifier(n_estimators=8, max_depth=3), lambda table: table[NUMBERS].to_numpy()
    ),
}


class Fitted(NamedTuple):
    """A fitted model and the rows that it takes."""

    model: Any
    data: Any


@cache
def fit(name: str) -> Fitted:
    """The model of a family, fitted once."""
    table, labels = build_table()
    family = FAMILIES[name]
    data = family.take(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a network need not be good here
        return Fitted(family.make().fit(data, labels), data)


def drop_clocks(document: Any) -> Any:
    """A document without what a clock says, and without whether the model was there."""
    if isinstance(document, dict):
        return {key: drop_clocks(value) for key, value in document.items() if key not in CLOCKED}
    return [drop_clocks(value) for value in document] if isinstance(document, list) else document


def read_parts(path: Path) -> dict[str, bytes]:
    """Every part of a saved explainer."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_parts(path: Path, parts: Mapping[str, bytes], **manifest: Any) -> Path:
    """A file of these parts whose digests are right, as a hostile author would write it."""
    kept = {name: content for name, content in parts.items() if name != "manifest.json"}
    about = json.loads(parts["manifest.json"]) | {"parts": {n: sha256(c).hexdigest() for n, c in kept.items()}}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {"manifest.json": json.dumps(add_digest(about | manifest)).encode(), **kept}.items():
            archive.writestr(name, content)
    return path
