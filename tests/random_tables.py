"""Random tables: the same columns in every library that a user may come with."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

GRADES = ("low", "middle", "high")
PLAIN_NAMES = st.sampled_from("abcdefgh")

PANDAS = {
    "int": "Int64",
    "small": "Int8",
    "float": "float64",
    "single": "float32",
    "text": "string",
    "plain": "object",
    "flag": "boolean",
    "day": "object",
    "moment": "datetime64[us]",
    "colour": "category",
    "grade": pd.CategoricalDtype(GRADES, ordered=True),
}
POLARS = {
    "int": pl.Int64,
    "small": pl.Int8,
    "float": pl.Float64,
    "single": pl.Float32,
    "text": pl.String,
    "plain": pl.String,
    "flag": pl.Boolean,
    "day": pl.Date,
    "moment": pl.Datetime("us"),
    "colour": pl.Categorical,
    "grade": pl.Enum(GRADES),
}
ARROW = {
    "int": pa.int64(),
    "small": pa.int8(),
    "float": pa.float64(),
    "single": pa.float32(),
    "text": pa.string(),
    "plain": pa.large_string(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "moment": pa.timestamp("us"),
    "colour": pa.dictionary(pa.int8(), pa.string()),
    "grade": pa.dictionary(pa.int8(), pa.string(), ordered=True),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**63), 2**63 - 1) | st.integers(2**53, 2**53 + 3),
    "small": st.integers(-128, 127),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "single": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "text": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
    "plain": st.sampled_from(["it's", 'a "b"', "", "naïve", "a`b", "0"]),
    "flag": st.booleans(),
    "day": st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1)),
    "moment": st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)),
    "colour": st.sampled_from(["red", "green", "blue"]),
    "grade": st.sampled_from(GRADES),
}


@dataclass(frozen=True)
class Columns:
    """Columns as Python lists with None for missing, each of a named kind."""

    kinds: dict[str, str]
    values: dict[str, list[Any]]

    def pandas(self) -> pd.DataFrame:
        return pd.DataFrame(
            {name: pd.Series(self.values[name], dtype=PANDAS[kind]) for name, kind in self.kinds.items()}
        )

    def polars(self) -> pl.DataFrame:
        return pl.DataFrame([pl.Series(name, self.values[name], POLARS[kind]) for name, kind in self.kinds.items()])

    def arrow(self) -> pa.Table:
        return pa.table({name: _arrow(self.values[name], kind) for name, kind in self.kinds.items()})

    def array(self) -> np.ndarray:
        matrix = np.empty((len(next(iter(self.values.values()))), len(self.kinds)), dtype=object)
        for place, values in enumerate(self.values.values()):
            matrix[:, place] = values
        return matrix


def _arrow(values: list[Any], kind: str) -> pa.Array:
    if kind != "grade":
        return pa.array(values, ARROW[kind])
    places = pa.array([None if value is None else GRADES.index(value) for value in values], pa.int8())
    return pa.DictionaryArray.from_arrays(places, pa.array(GRADES), ordered=True)


@st.composite
def columns(draw: st.DrawFn, kinds: tuple[str, ...] = tuple(VALUES), names: st.SearchStrategy[str] = PLAIN_NAMES):
    """Up to four columns of up to twelve rows; values repeat often, and may be missing."""
    labels = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    chosen = {label: draw(st.sampled_from(kinds)) for label in labels}
    rows = draw(st.integers(1, 12))
    values = {label: draw(_lists(chosen[label], rows)) for label in labels}
    return Columns(chosen, values)


@st.composite
def _lists(draw: st.DrawFn, kind: str, rows: int) -> list[Any]:
    pool = draw(st.lists(VALUES[kind], min_size=1, max_size=5))
    items = st.sampled_from([*pool, None]) if draw(st.booleans()) else st.sampled_from(pool)
    return draw(st.lists(items, min_size=rows, max_size=rows))
