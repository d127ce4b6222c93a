"""Past loans and the models that decided them: small enough to prove things, with every kind of column."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd

GRADES = ("low", "middle", "high")
DENIED = {"income": 1, "accounts": 3, "job": "cook", "grade": "low", "since": datetime.date(2024, 1, 1), "debt": None}


def past(rows: int = 200) -> pd.DataFrame:
    """Past applications: numbers, text, an ordered category, days and missing values."""
    rng = np.random.default_rng(7)
    days = np.array([datetime.date(2024, month, 1) for month in (1, 4, 7)], dtype=object)
    debt = rng.integers(0, 3, rows).astype(float)
    debt[rng.random(rows) < 0.3] = np.nan
    return pd.DataFrame(
        {
            "income": rng.integers(1, 5, rows),
            "accounts": rng.integers(0, 4, rows),
            "job": rng.choice(["cook", "clerk", "judge's aide"], rows),
            "grade": pd.Categorical(rng.choice(GRADES, rows), categories=GRADES, ordered=True),
            "since": pd.Series(days[rng.integers(0, 3, rows)], dtype=object),
            "debt": debt,
        }
    )


def decide(table: pd.DataFrame) -> np.ndarray:
    """Good with an income of 3 and few accounts or no cook; or with a high grade and no debt known."""
    rich = (table["income"] >= 3) & ((table["accounts"] <= 1) | (table["job"] != "cook"))
    solid = (table["grade"] == "high") & table["debt"].isna()
    return np.where(rich | solid, "good", "bad")


def wide(rows: int = 400, features: int = 8, codes: int = 10) -> pd.DataFrame:
    """Numbers only, in a space far too large to enumerate."""
    numbers = np.random.default_rng(3).integers(0, codes, (rows, features))
    return pd.DataFrame(numbers, columns=[f"f{j}" for j in range(features)])


def score(table: pd.DataFrame) -> np.ndarray:
    """Above one half with a large sum of the first three numbers."""
    return np.asarray((table["f0"] + table["f1"] + table["f2"]) / 30)
