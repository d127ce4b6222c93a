"""A small table of loans with a model of it, and what a command leaves behind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

FEATURES = ["age", "income", "job"]


def loans(seed: int = 0) -> pd.DataFrame:
    """Sixty rows; those who earn less than 4 are denied, a cook needs 6. Those of seed 0 are the past rows."""
    rng = np.random.default_rng(seed)
    age, income = rng.integers(20, 30, 60), rng.integers(1, 9, 60)
    job = rng.choice(["clerk", "cook", "none, or other"], 60)
    paid = income >= np.where(job == "cook", 6, 4)
    return pd.DataFrame({"age": age, "income": income, "job": job, "paid": np.where(paid, "yes", "no")})


def fitted(table: pd.DataFrame, labels: Any) -> Any:
    """A pipeline on raw columns."""
    encoder = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    return make_pipeline(encoder, LogisticRegression(C=100.0, max_iter=5000)).fit(table[FEATURES], labels)


@dataclass(frozen=True)
class Files:
    """Where the files are, and the number of a denied row."""

    folder: Path
    model: str
    data: str
    denied: int

    def ask(self, *more: str) -> list[str]:
        """The arguments that both questions share."""
        return [self.model, self.data, "--row", str(self.denied), "--desired", "yes", *more]


@dataclass(frozen=True)
class Run:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """Standard output with its line breaks as spaces."""
        return " ".join(self.out.split())
