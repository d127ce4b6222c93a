"""From codes back to a table of the user's own kind, column types included, so that the user's model can read it.

One look-up array per table column, made once: position = code, entry = the value in the column's own type. Decoding
is then one gather per column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ironrule.errors import SpaceError
from ironrule.space.codes import Points
from ironrule.space.feature import Feature
from ironrule.space.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """How points of a space are laid out as a table: which columns, in which order, of which library and types."""

    names: tuple[str, ...]
    sources: tuple[int, ...]  # for every table column the feature that carries it
    lookups: tuple[Any, ...]
    build: Callable[[tuple[str, ...], list[Any]], Any]

    @property
    def is_array(self) -> bool:
        """Whether the table is a NumPy array."""
        return self.build is _as_matrix

    def decode(self, points: Points) -> Any:
        """The points as a table for the user's model."""
        return self.build(self.names, [self.lookups[i].take(points[:, j]) for i, j in enumerate(self.sources)])


def layout_like(features: Sequence[Feature], table: Table, as_array: bool = False) -> Layout:
    """The layout of a given table, restricted to the columns that the features carry."""
    carrier = {name: j for j, feature in enumerate(features) for name in feature.columns}
    absent = [name for name in carrier if name not in table.names]
    if absent:
        raise SpaceError(
            f"the table must have every column of the space, but {', '.join(map(repr, absent))} is not there"
        )
    names = tuple(name for name in table.names if name in carrier)
    entries = [_entries(features[carrier[name]], name) for name in names]
    lookup, build = _array_maker(table) if table.frame is None else _frame_maker(table)
    lookups = tuple(lookup(name, values) for name, values in zip(names, entries, strict=True))
    return Layout(names, tuple(carrier[name] for name in names), lookups, _as_matrix if as_array else build)


def _entries(feature: Feature, column: str) -> list[Any]:
    """What the column holds for every code of the feature."""
    if feature.one_hot:
        position = feature.columns.index(column)
        return [int(code == position) for code in range(len(feature.values))]
    return [*feature.values, *([None] if feature.missing else [])]


Maker = tuple[Callable[[str, list[Any]], Any], Callable[[tuple[str, ...], list[Any]], Any]]


def _array_maker(table: Table) -> Maker:
    dtype = table.native.dtype
    return (lambda _, values: _typed(values, dtype)), _as_matrix


def _typed(values: list[Any], dtype: Any) -> npt.NDArray[Any]:
    if None in values and dtype.kind in "iu":
        dtype = np.dtype(float)
    if dtype.kind == "O":
        entries = np.empty(len(values), dtype=object)
        entries[:] = values
        return entries
    return np.array([np.nan if value is None else value for value in values], dtype=dtype)


def _as_matrix(_: tuple[str, ...], columns: list[Any]) -> npt.NDArray[Any]:
    arrays = [column if isinstance(column, np.ndarray) else np.asarray(column) for column in columns]
    matrix = np.empty((len(arrays[0]), len(arrays)), dtype=np.result_type(*arrays))
    for j, column in enumerate(arrays):
        matrix[:, j] = column
    return matrix


def _frame_maker(table: Table) -> Maker:
    if nw.get_native_namespace(table.frame).__name__ == "pandas":
        return (lambda name, values: _pandas_entries(table.native[name], values)), _as_pandas
    backend = table.frame.implementation
    schema = table.frame.schema

    def lookup(name: str, values: list[Any]) -> _Gather:
        typed = [None if v is None else bool(v) for v in values] if schema[name] == nw.Boolean else values
        return _Gather(nw.new_series(name, typed, schema[name], backend=backend))

    return lookup, _as_native


def _pandas_entries(series: Any, values: list[Any]) -> Any:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return _typed(values, dtype) if dtype.kind in "iufbO" else series.__class__(values, dtype=dtype).to_numpy()
    return series.__class__(values, dtype=dtype).array


def _as_pandas(names: tuple[str, ...], columns: list[Any]) -> Any:
    import pandas as pd

    if all(isinstance(column, np.ndarray) and column.dtype == np.float64 for column in columns):
        return pd.DataFrame(_as_matrix(names, columns), columns=list(names), copy=False)
    return pd.DataFrame(dict(zip(names, columns, strict=True)), copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Gather:
    """A narwhals series with NumPy's ``take``."""

    series: nw.Series[Any]

    def take(self, codes: npt.NDArray[Any]) -> nw.Series[Any]:
        gathered: nw.Series[Any] = self.series[codes.tolist()]  # every backend takes a list
        return gathered


def _as_native(_: tuple[str, ...], columns: list[Any]) -> Any:
    names = {series.name: series for series in columns}
    return nw.from_dict(names).to_native()
