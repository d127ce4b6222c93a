"""Tables with every kind of column, written so that chunks of them have other types than the whole."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd

ROWS = 300


def every_kind() -> pd.DataFrame:
    """Whole numbers with and without missing ones, floats, booleans with missing ones, text, categories, days, times,
    a one-hot group, and columns whose first rows are all alike or all missing.
    """
    rng = np.random.default_rng(5)
    late = np.arange(ROWS) >= 200
    days = np.array([datetime.date(2024, month, 1) for month in (1, 4, 7)], dtype=object)
    maybe = rng.choice([True, False], ROWS).astype(object)
    maybe[rng.random(ROWS) < 0.2] = None
    town = rng.integers(0, 3, ROWS)
    return pd.DataFrame(
        {
            "whole": rng.integers(0, 5, ROWS),
            "gaps": pd.array(np.where(late & (rng.random(ROWS) < 0.3), None, rng.integers(0, 4, ROWS)), dtype="Int64"),
            "late": np.where(late, rng.integers(0, 4, ROWS) / 2, np.nan),
            "small": rng.choice(np.array([0.1, 0.25, 7.5], dtype=np.float32), ROWS),
            "flag": rng.choice([True, False], ROWS),
            "maybe": maybe,
            "text": np.where(late, rng.choice(["a", 'b,"c"', "ü"], ROWS), "a"),
            "grade": pd.Categorical(
                rng.choice(["low", "mid", "high"], ROWS), ["low", "mid", "high", "top"], ordered=True
            ),
            "kind": pd.Categorical(rng.choice(["x", "y"], ROWS)),
            "since": days[rng.integers(0, 3, ROWS)],
            "at": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 3, ROWS), unit="h"),
            "town_a": (town == 0).astype(int),
            "town_b": (town == 1).astype(int),
            "town_c": (town == 2).astype(int),
            "sort_a": rng.integers(0, 2, ROWS),
            "sort_b": rng.integers(0, 2, ROWS),
        }
    )


def plain_kinds() -> pd.DataFrame:
    """What a text file can hold: numbers that look whole at first, texts that look like numbers at first."""
    rng, late = np.random.default_rng(6), np.arange(ROWS) >= 200
    return pd.DataFrame(
        {
            "whole": rng.integers(0, 5, ROWS),
            "float": np.where(late, rng.integers(0, 4, ROWS) / 2, rng.integers(0, 2, ROWS)),
            "gaps": np.where(late & (rng.random(ROWS) < 0.3), np.nan, rng.integers(0, 4, ROWS)),
            "code": np.where(late & (rng.random(ROWS) < 0.5), "7b", "007"),
            "flag": rng.choice([True, False], ROWS),
            "text": np.where(late, rng.choice(["a", 'b,"c"', "ü", "two\nlines"], ROWS), "NA"),
            "hot_a": (rng.integers(0, 2, ROWS) == 0).astype(int),
        }
    ).assign(hot_b=lambda table: 1 - table["hot_a"])


def decides(table: pd.DataFrame) -> np.ndarray:
    """By several columns; strict about their types, as models are."""
    known = table["whole"].astype(float) + table["gaps"].astype(float).fillna(5)
    return np.asarray(known >= 5)
