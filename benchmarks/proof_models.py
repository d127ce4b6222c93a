"""The models that benchmarks/proofs.py explains: usual classifiers, raw columns in, trained on all rows, seeds fixed.

Categories are one-hot columns for the model, as most people do it, or one column of numbers ("ordinal"), which is what
lets real intervals say exactly "this category" or "any". Peers get the matrix that the encoder makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from benchmarks.data import adult, credit, folder
from ironrule import Explainer, Space

Encoding = Literal["one-hot", "ordinal"]
Data = tuple[pd.DataFrame, pd.Series]


def german() -> Data:
    """The German credit data and its target, 1 = good = desired."""
    table = pd.read_csv(folder() / "german" / "german.csv.gz", keep_default_na=False)
    return table.drop(columns="creditability"), (table["creditability"] == "good").astype(int)


def heloc() -> Data:
    """FICO's HELOC data, special values as they are, and its target, 1 = good = desired."""
    table = pd.read_csv(folder() / "fico" / "heloc.csv.gz")
    return table.drop(columns="RiskPerformance"), (table["RiskPerformance"] == "Good").astype(int)


def boosted(depth: int) -> Callable[[], Any]:
    """XGBoost with 100 trees of a depth."""

    def make() -> Any:
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=100, max_depth=depth, n_jobs=1, random_state=0)

    return make


def light() -> Any:
    """LightGBM's defaults."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, random_state=0, verbose=-1)


DATA: dict[str, Callable[[], Data]] = {"German": german, "Credit": credit, "Adult": adult, "HELOC": heloc}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "XGBoost 100 x 4": boosted(4),
    "XGBoost 100 x 6": boosted(6),
    "LightGBM": light,
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "forest 100 x 6": lambda: RandomForestClassifier(100, max_depth=6, n_jobs=1, random_state=0),
}


@dataclass(frozen=True, slots=True)
class Task:
    """One trained model on one data set, and what is asked of it."""

    data: str
    classifier: str
    model: Pipeline
    table: pd.DataFrame
    undesired: npt.NDArray[np.intp]  # rows that the model denies
    fixing: bool = False  # whether components are "feature = value", that is: which features to hold fixed

    @property
    def name(self) -> str:
        """The task in a few words."""
        return f"{self.data}, {self.classifier}"

    def rows(self, count: int, seed: int) -> list[int]:
        """Distinct undesired rows in a fixed random order: the first of many are those of few.

        One row in ten that HELOC's models deny has all its values missing (-9); it counts once.
        """
        order = np.random.default_rng(seed).permutation(self.undesired)
        distinct = order[~self.table.iloc[order].duplicated().to_numpy()]
        return [int(row) for row in distinct[:count]]

    def explainer(self) -> Explainer:
        """An explainer for the task."""
        nominal = self.table.columns.tolist() if self.fixing else ()
        space = Space.infer(self.table, nominal=nominal, one_hot=None, constant="keep", progress=False)
        return Explainer(self.model, self.table, desired=1, space=space, progress=False, domain="seen")

    def encoded(self) -> npt.NDArray[np.float64]:
        """The matrix that the classifier itself sees."""
        return np.asarray(self.model[:-1].transform(self.table), dtype=np.float64)


def make_task(data: str, classifier: str, *, encoding: Encoding = "one-hot", fixing: bool = False) -> Task:
    """Train on all rows."""
    model, table = train(data, CLASSIFIERS[classifier](), encoding)
    undesired = np.flatnonzero(np.asarray(model.predict(table)) == 0)
    return Task(data, classifier, model, table=table, undesired=undesired, fixing=fixing)


def train(data: str, classifier: Any, encoding: Encoding = "one-hot") -> tuple[Pipeline, pd.DataFrame]:
    """A classifier behind its encoder, trained on all rows of a data set, and these rows."""
    table, target = DATA[data]()
    encoder = make_column_transformer(
        (_encoder(encoding), make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    return make_pipeline(encoder, classifier).fit(table, target), table


def _steps(table: pd.DataFrame, encoding: Encoding) -> Any:
    """What prepares a table: an encoder for its categories, if it has any."""
    if not len(table.select_dtypes(exclude="number").columns):
        return "passthrough"
    return make_column_transformer(
        (_encoder(encoding), make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )


def _encoder(encoding: Encoding) -> Any:
    if encoding == "ordinal":
        return OrdinalEncoder()
    return OneHotEncoder(sparse_output=False, handle_unknown="ignore")
