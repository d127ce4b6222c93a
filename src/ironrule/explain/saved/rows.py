"""The past rows of a saved explainer, or a table without any that says what its columns hold.

Rows are codes, as everywhere in the engine. A model of the user's own that is attached again is asked in his own kind
of table: a small one with every value is built again, in pandas, polars or Arrow, or as an array.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Int64Array, Points
from ironrule.errors import InputError, MissingExtraError
from ironrule.explain.row_store import OutcomeSource
from ironrule.model.blackbox import ModelSet
from ironrule.space.codes import EncodedTable
from ironrule.space.feature import Feature, Value
from ironrule.space.space import Space
from ironrule.space.table import Table, read_table

SAMPLE_ROWS = 256  # past rows in the small table


@dataclass(frozen=True, slots=True)
class ColumnType:
    """What a column of the user's table was: its NumPy type, or pandas' name of it, and its categories, if any.
    ``native`` is the name of its type in polars or Arrow.
    """

    name: str
    dtype: str
    categories: tuple[Value, ...] | None = None
    is_ordered: bool = False
    native: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ColumnArrays:
    """Columns of several types that are taken apart as a matrix is: ``table[:, 2]``, ``table[rows]``, ``table[5]``."""

    columns: tuple[AnyArray, ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            rows, chosen = key
            if isinstance(chosen, (int, np.integer)):
                return self.columns[chosen][rows]
            return ColumnArrays(tuple(self.columns[place][rows] for place in chosen))
        if isinstance(key, (int, np.integer)):
            return [column[key] for column in self.columns]
        return ColumnArrays(tuple(column[key] for column in self.columns))


@dataclass(frozen=True, slots=True, eq=False)
class SavedRows:
    """Past rows as codes of ``features``, with the outcomes that the user's model gave them; none may be there.

    With ``asks_model``, the model is asked about them again, as it is attached.
    """

    table: Table
    features: tuple[Feature, ...]
    codes: EncodedTable
    outcomes: BoolArray | None
    row_numbers: Int64Array | None
    row_count: int
    asks_model: bool = False
    together: BoolArray | None = None  # of several models, which rows one of them desires
    types: tuple[ColumnType, ...] = ()  # of the user's own table, and its kind
    table_kind: str = "array"

    breakpoints: ClassVar[Mapping[str, tuple[Value, ...]]] = {}  # the features have values of rows, or declared ones

    def __len__(self) -> int:
        return self.row_count

    def encode(self, space: Space, _: bool | None) -> EncodedTable:
        """All rows as codes of a space that has their values."""
        return self.codes.recode(self.features, space.features)

    def take(self, codes: EncodedTable, rows: BoolArray, _: str | None) -> EncodedTable:
        """The chosen rows."""
        return codes.take(rows)

    def compute_outcomes(
        self, source: OutcomeSource, codes: EncodedTable, _: str | None, progress: bool | None
    ) -> BoolArray:
        """What the model said of every row, or says now."""
        if len(codes) == 0:
            return np.zeros(0, dtype=np.bool_)
        if self.asks_model or self.outcomes is None:
            return source.decide_rows(codes, progress)
        return self.together if self.together is not None and isinstance(source, ModelSet) else self.outcomes


def build_sample_points(features: Sequence[Feature], codes: EncodedTable) -> Points:
    """Some past rows, then points that together have every value of every feature."""
    sizes = np.array([feature.size for feature in features])
    values = (np.arange(int(sizes.max()))[:, None] % sizes[None, :]).astype(np.int32)
    return np.concatenate([codes.points(slice(0, SAMPLE_ROWS)), values])


def build_array_table(features: Sequence[Feature], types: Sequence[ColumnType], points: Points, rows: int) -> Table:
    """The small table, as plain arrays; ``rows`` says how many rows at its beginning are past rows."""
    entries = _list_entries(features, types, points)
    columns = tuple(_build_array(entries[one.name], one.dtype) for one in types)
    return Table(ColumnArrays(columns), tuple(one.name for one in types), None, real_rows=max(rows, 1))


def build_user_table(
    features: Sequence[Feature], types: Sequence[ColumnType], points: Points, *, rows: int, kind: str
) -> Table:
    """The same as the user's model takes it."""
    entries, names = _list_entries(features, types, points), [one.name for one in types]
    if kind == "array":
        columns = [_build_array(entries[one.name], one.dtype) for one in types]
        native: Any = np.stack([column.astype(object) for column in columns], axis=1)
        native = native.astype(np.result_type(*columns)) if all(c.dtype.kind in "biuf" for c in columns) else native
        table = read_table(native, names)
    elif kind == "pandas":
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("pandas", "pandas", "a model that takes pandas tables") from None
        table = read_table(pd.DataFrame({one.name: _build_series(pd, entries[one.name], one) for one in types}))
    elif kind in ("polars", "pyarrow"):
        build = _build_polars_table if kind == "polars" else _build_arrow_table
        try:
            table = read_table(build(entries, types))
        except ImportError:
            extra = "polars" if kind == "polars" else "parquet"
            raise MissingExtraError(kind, extra, f"a model that takes {kind} tables") from None
    else:
        raise InputError(
            expected="a model can be attached to a saved explainer of a pandas, polars or Arrow table or a NumPy array",
            got=f"one of a {kind} table",
            hint="build a new Explainer from the model and the data",
        )
    return Table(table.native, table.names, table.frame, real_rows=max(rows, 1))


POLARS_TYPES = (
    *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64"),
    *("Boolean", "String", "Categorical", "Date"),
)


DICTIONARY_TYPE = re.compile(r"dictionary<values=(?P<values>[^,]+), indices=(?P<indices>[^,]+), ordered=[01]>")


def _build_polars_table(entries: Mapping[str, list[Any]], types: Sequence[ColumnType]) -> Any:
    """A polars table, of columns of the types that they had; of other types polars finds one that holds the values."""
    import polars as pl

    columns = []
    for one in types:
        values, name = entries[one.name], (one.native or "").partition("(")[0]
        kind: Any = None
        if name == "Enum" and one.categories is not None:
            kind = pl.Enum(list(one.categories))
        elif name in POLARS_TYPES:
            kind = getattr(pl, name)
        columns.append(pl.Series(one.name, values, dtype=kind, strict=False))
    return pl.DataFrame(columns)


def _build_arrow_table(entries: Mapping[str, list[Any]], types: Sequence[ColumnType]) -> Any:
    """An Arrow table in the same way."""
    import pyarrow as pa

    columns = {}
    for one in types:
        values, name = entries[one.name], one.native or ""
        found = DICTIONARY_TYPE.fullmatch(name)
        if found is None or one.categories is None:
            columns[one.name] = pa.array(values, type=_find_arrow_type(pa, name))
            continue
        listed = pa.array(list(one.categories), type=_find_arrow_type(pa, found["values"]))
        places = {value: place for place, value in enumerate(one.categories)}
        indices = pa.array([places.get(value) for value in values], type=_find_arrow_type(pa, found["indices"]))
        columns[one.name] = pa.DictionaryArray.from_arrays(indices, listed, ordered=one.is_ordered)
    return pa.table(columns)


def _find_arrow_type(pa: Any, name: str) -> Any:
    """The type of this name; None, with which Arrow finds one itself, for those that have parameters."""
    try:
        return pa.type_for_alias(name)
    except ValueError:
        return None


def _list_entries(features: Sequence[Feature], types: Sequence[ColumnType], points: Points) -> dict[str, list[Any]]:
    """By column, what it holds in every row; nothing in those that the space does not have."""
    entries: dict[str, list[Any]] = {one.name: [None] * len(points) for one in types}
    for j, feature in enumerate(features):
        codes = points[:, j].tolist()
        if feature.one_hot:
            entries |= {name: [int(c == at) for c in codes] for at, name in enumerate(feature.columns)}
        else:
            values = [*feature.values, None]
            entries[feature.columns[0]] = [values[code] for code in codes]
    return entries


def _build_array(values: list[Any], dtype: str) -> AnyArray:
    """An array of a NumPy type, or of one that can hold the values."""
    missing = any(value is None for value in values)
    kind = np.dtype(dtype).kind if dtype[:1] in "<>|=" else "O"
    if kind == "M":  # by day or by microsecond, which is what Python's own dates are
        by_day = all(value is None or type(value) is datetime.date for value in values)
        return np.array(values, dtype="datetime64[D]" if by_day else "datetime64[us]")
    if kind == "f":
        return np.array([np.nan if value is None else value for value in values], dtype=dtype)
    if not missing and kind in "iub":
        return np.array(values, dtype=dtype)
    if all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values):
        return np.array([np.nan if value is None else value for value in values]) if missing else np.array(values)
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _build_series(pd: Any, values: list[Any], kind: ColumnType) -> Any:
    """A pandas column of its own type."""
    if kind.categories is not None:
        return pd.Series(pd.Categorical(values, [*kind.categories], ordered=kind.is_ordered))
    if kind.dtype[:1] in "<>|=":
        return pd.Series(_build_array(values, kind.dtype))
    return pd.Series(values, dtype=kind.dtype)
