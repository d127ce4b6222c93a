"""From codes back to a table of the user's own kind, column types included, so that the user's model can read it.

One look-up array per table column, made once: position = code, entry = the value in the column's own type. Decoding
is then one gather per column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from ironrule.arrays import AnyArray, IntpArray, Points
from ironrule.errors import SpaceError
from ironrule.space.feature import Feature, is_missing
from ironrule.space.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """How points of a space are laid out as a table: which columns, in which order, of which library and types."""

    names: tuple[str, ...]
    feature_indices: tuple[int, ...]  # for every table column the feature that carries it
    lookups: tuple[Any, ...]
    build: Callable[[tuple[str, ...], list[Any]], Any]
    numbers: NumberLookup | None = None  # where all columns are float64

    @property
    def is_array(self) -> bool:
        """Whether the table is a NumPy array."""
        return self.build is _build_matrix

    def decode(self, points: Points) -> Any:
        """The points as a table for the user's model."""
        if self.numbers is not None:
            return self.numbers.decode(self.names, points)
        return self.build(self.names, [self.lookups[i].take(points[:, j]) for i, j in enumerate(self.feature_indices)])


@dataclass(frozen=True, slots=True, eq=False)
class NumberLookup:
    """The look-ups of columns that are all float64, end to end: decoding is then a single gather."""

    features: IntpArray  # per column
    starts: IntpArray  # per column, where its look-up begins
    values: AnyArray
    build: Callable[[tuple[str, ...], AnyArray], Any]

    def decode(self, names: tuple[str, ...], points: Points) -> Any:
        """The points as a table."""
        return self.build(names, self.values[self.starts + points[:, self.features]])


def _build_number_lookup(layout: Layout) -> NumberLookup | None:
    """One look-up for all columns, where they are float64 in an array or a pandas table."""
    builders = {_build_matrix: _keep_matrix, _build_pandas_frame: _frame_matrix}
    plain = all(isinstance(column, np.ndarray) and column.dtype == np.float64 for column in layout.lookups)
    if not plain or layout.build not in builders:
        return None
    starts = np.cumsum([0, *map(len, layout.lookups[:-1])])
    features = np.array(layout.feature_indices, dtype=np.intp)
    return NumberLookup(features, starts, np.concatenate(layout.lookups), builders[layout.build])


def build_layout(
    features: Sequence[Feature], table: Table, as_array: bool = False, order: Sequence[str] | None = None
) -> Layout:
    """The layout of a given table: the columns that the features carry, or those of them that ``order`` names."""
    carrier = {name: j for j, feature in enumerate(features) for name in feature.columns}
    absent = [name for name in carrier if name not in table.names]
    if absent:
        reason = f"the table lacks columns of the space: {', '.join(map(repr, absent))}"
        raise SpaceError(reason, code="missing-columns")
    left_out = [name for name in order or () if name not in carrier]
    if left_out:
        raise SpaceError(f"the space lacks a column of the model: {left_out[0]!r}", code="missing-columns")
    names = tuple(order) if order is not None else tuple(name for name in table.names if name in carrier)
    lookup, build = _build_array_columns(table) if table.frame is None else _build_frame_columns(table)
    lookups = tuple(_build_lookup(lookup, features[carrier[name]], name) for name in names)
    layout = Layout(names, tuple(carrier[name] for name in names), lookups, _build_matrix if as_array else build)
    return replace(layout, numbers=_build_number_lookup(layout))


def replace_features(layout: Layout, table: Table, features: Mapping[int, Feature]) -> Layout:
    """The layout for other domains of some features, by their position; ``table`` is the one that it was built for."""
    lookup, _ = _build_array_columns(table) if table.frame is None else _build_frame_columns(table)
    columns = zip(layout.names, layout.feature_indices, layout.lookups, strict=True)
    lookups = tuple(_build_lookup(lookup, features[j], name) if j in features else old for name, j, old in columns)
    other = replace(layout, lookups=lookups, numbers=None)
    return replace(other, numbers=_build_number_lookup(other))


def _build_lookup(lookup: Callable[[str, list[Any]], Any], feature: Feature, column: str) -> Any:
    """The column's look-up; raises SpaceError if its type cannot hold the domain."""
    try:
        return lookup(column, _list_entries(feature, column))
    except Exception as error:  # every library has its own
        reason = f"the domain of {feature.name!r} does not fit the type of column {column!r}: {error}"
        raise SpaceError(reason) from error


def _list_entries(feature: Feature, column: str) -> list[Any]:
    """What the column holds for every code of the feature."""
    if feature.one_hot:
        position = feature.columns.index(column)
        return [int(code == position) for code in range(len(feature.values))]
    return [*feature.values, *([None] if feature.missing else [])]


_ColumnBuilder = tuple[Callable[[str, list[Any]], Any], Callable[[tuple[str, ...], list[Any]], Any]]


def _build_array_columns(table: Table) -> _ColumnBuilder:
    return (lambda name, values: _cast_like(values, table.native[:, table.names.index(name)])), _build_matrix


def _cast_like(values: list[Any], like: AnyArray) -> AnyArray:
    """The values in the type of a column, or in a wider one where that cannot hold them."""
    kind = like.dtype.kind
    if kind == "f":
        return np.array([np.nan if value is None else value for value in values], dtype=like.dtype)
    # Floats hold NaN for missing, and dates NaT; other types have nothing for it.
    if kind == "M" or (kind == "b" and set(values) <= {0, 1}):
        return np.array(values, dtype=like.dtype)
    natural = np.array([np.nan if value is None else value for value in values]) if kind in "iu" else np.array(values)
    if kind in "iu" and np.can_cast(_find_smallest_type(natural), like.dtype):
        return natural.astype(like.dtype)
    # A wider type: whole numbers with missing ones become floats, as in pandas.
    if kind in "iuU" and natural.dtype.kind in "iufU":
        return natural.astype(np.promote_types(natural.dtype, like.dtype))
    # The whole column is looked through only if something is missing.
    marked = like if any(value is None for value in values) else ()
    return _build_object_array(values, next((value for value in marked if is_missing(value)), None))


def _find_smallest_type(numbers: AnyArray) -> np.dtype[Any]:
    """The least type that holds all numbers."""
    if numbers.dtype.kind not in "iu":
        return numbers.dtype
    return np.promote_types(np.min_scalar_type(numbers.min()), np.min_scalar_type(numbers.max()))


def _build_object_array(values: list[Any], missing: Any) -> AnyArray:
    """The values as objects, with what the user's column has where it is missing: models tell None from NaN."""
    entries = np.empty(len(values), dtype=object)
    entries[:] = [missing if value is None else value for value in values]
    return entries


def _build_matrix(_: tuple[str, ...], columns: list[Any]) -> AnyArray:
    arrays = [column if isinstance(column, np.ndarray) else np.asarray(column) for column in columns]
    mixed = len({array.dtype.kind for array in arrays} - set("biuf")) > 0
    alike = len({array.dtype.kind for array in arrays}) == 1
    common = np.dtype(object) if mixed and not alike else np.result_type(*arrays)
    matrix = np.empty((len(arrays[0]), len(arrays)), dtype=common)
    for j, column in enumerate(arrays):
        matrix[:, j] = column
    return matrix


def _build_frame_columns(table: Table) -> _ColumnBuilder:
    if nw.get_native_namespace(table.frame).__name__ == "pandas":
        return (lambda name, values: _build_pandas_array(table.native[name], values)), _build_pandas_frame
    backend = table.frame.implementation
    schema = table.frame.schema

    def lookup(name: str, values: list[Any]) -> Any:
        marker = _find_missing_marker(table.frame[name]) if schema[name].is_float() else None
        kept = [marker if value is None else value for value in values]
        typed = [None if v is None else bool(v) for v in kept] if schema[name] == nw.Boolean else kept
        if backend.is_pyarrow():
            import pyarrow as pa

            return pa.array(typed, table.native.schema.field(name).type)
        return _SeriesLookup(nw.new_series(name, typed, schema[name], backend=backend))

    return lookup, _build_arrow_table if backend.is_pyarrow() else _build_native_frame


def _find_missing_marker(series: nw.Series[Any]) -> float | None:
    """What a column of numbers has where it is missing: NaN if that is all it has."""
    return None if series.is_null().any() or not series.is_nan().any() else float("nan")


def _build_arrow_table(names: tuple[str, ...], columns: list[Any]) -> Any:
    import pyarrow as pa

    return pa.table(dict(zip(names, columns, strict=True)))


def _build_pandas_array(series: Any, values: list[Any]) -> Any:
    if isinstance(series.dtype, np.dtype):
        return _cast_like(values, series.to_numpy())
    strange = [v for v in values if v is not None and v not in getattr(series.dtype, "categories", values)]
    if strange:
        raise ValueError(f"{strange[0]!r} is not one of its categories")
    return series.__class__(values, dtype=series.dtype).array


def _keep_matrix(_: tuple[str, ...], matrix: AnyArray) -> AnyArray:
    return matrix


def _frame_matrix(names: tuple[str, ...], matrix: AnyArray) -> Any:
    import pandas as pd

    return pd.DataFrame(matrix, columns=list(names), copy=False)


def _build_pandas_frame(names: tuple[str, ...], columns: list[Any]) -> Any:
    import pandas as pd

    objects = [pd.Series(c, dtype=object, copy=False) if c.dtype == object else c for c in columns]  # no guessing
    return pd.DataFrame(dict(zip(names, objects, strict=True)), copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class _SeriesLookup:
    """A narwhals series with NumPy's ``take``."""

    series: nw.Series[Any]

    def take(self, codes: AnyArray) -> nw.Series[Any]:
        gathered: nw.Series[Any] = self.series[codes.tolist()]  # every backend takes a list
        return gathered


def _build_native_frame(_: tuple[str, ...], columns: list[Any]) -> Any:
    names = {series.name: series for series in columns}
    return nw.from_dict(names).to_native()
