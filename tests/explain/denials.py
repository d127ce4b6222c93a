"""A small table of denials, models for it, and what two batches must agree on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from ironrule import Batch, Explainer, Explanation

FEATURES = ["income", "accounts", "job", "debt"]


def history(rows: int = 120) -> pd.DataFrame:
    """Past rows, some of them equal."""
    from applications import past

    return past(rows)[FEATURES].fillna({"debt": -1.0})


def boosted(table: pd.DataFrame) -> Any:
    """A model that can be read, and is not learned perfectly."""
    labels = ((table["income"] >= 3) & ((table["accounts"] <= 1) | (table["job"] != "cook"))).map({True: "good"})
    encoder = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    trees = GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0)
    return make_pipeline(encoder, trees).fit(table, labels.fillna("bad"))


def explainer(rows: int = 120, **more: Any) -> Explainer:
    """An explainer of it."""
    table = history(rows)
    return Explainer(boosted(table), table, desired="good", **more)


def essence(explanation: Explanation) -> Any:
    """An explanation without its times, which differ from run to run."""
    document = json.loads(explanation.to_json())
    del document["digest"], document["statistics"]["seconds"], document["statistics"]["operators"]
    return document


def contents(batch: Batch) -> dict[int, Any]:
    """What a batch says of every row."""
    return {row: essence(one) for row, one in zip(batch.rows, batch, strict=True)}


class Fragile:
    """A model that ends its process, once, when it is asked in a worker."""

    classes_ = ("bad", "good")

    def __init__(self, mark: Path, home: int) -> None:
        self.mark, self.home = mark, home

    def predict(self, table: pd.DataFrame) -> Any:
        if os.getpid() != self.home and not self.mark.exists():
            self.mark.touch()
            os._exit(9)
        from applications import decide

        return decide(table)
