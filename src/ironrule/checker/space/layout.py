"""From codes back to a table of the user's own kind, column types included, so that the user's model can read it.

For every table column there is an array with the column's entry for every code of its feature, in the column's own type
(models tell None from NaN, and whole numbers from floats); a table of points is one look-up in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from ironrule.checker.arrays import AnyArray, Int32Array
from ironrule.checker.space.space import CheckerFeature, CheckerSpace
from ironrule.checker.space.table import UserTable, is_missing
from ironrule.errors import SpaceError

ColumnLookup = Callable[[Int32Array], Any]  # a table column for the codes of its feature


def build_layout(
    space: CheckerSpace, table: UserTable, as_array: bool = False, order: Sequence[str] | None = None
) -> Callable[[Int32Array], Any]:
    """A function from points to a table like the given one, with the columns that ``order`` names or all of the space's
    in the table's own order; as a NumPy array if so asked. Raises SpaceError if a column is not there, or its type
    cannot hold the domain.
    """
    carriers = {name: place for place, feature in enumerate(space.features) for name in feature.columns}
    for names, others, what in ((carriers, table.names, "table"), (order or (), carriers, "space")):
        absent = [name for name in names if name not in others]
        if absent:
            raise SpaceError(expected=f"the {what} must have the column {absent[0]!r}", got=f"columns {list(others)}")
    chosen = [name for name in table.names if name in carriers] if order is None else list(order)
    pickers = [(_build_lookup(space.features[carriers[name]], name, table), carriers[name]) for name in chosen]

    def lay_out(points: Int32Array) -> Any:
        columns = [pick(points[:, place]) for pick, place in pickers]
        if as_array or table.frame is None:
            return _build_matrix(columns)
        return _build_frame(dict(zip(chosen, columns, strict=True)), table.frame.implementation)

    return lay_out


def _build_lookup(feature: CheckerFeature, column: str, table: UserTable) -> ColumnLookup:
    if feature.one_hot:
        hot = feature.columns.index(column)
        entries: list[Any] = [int(code == hot) for code in range(feature.size)]
    else:
        entries = [*feature.values, *([None] if feature.missing else [])]
    try:
        return _build_typed_lookup(entries, column, table)
    except Exception as error:  # every library has its own
        raise SpaceError(f"the domain of {feature.name!r} does not fit column {column!r}: {error}") from error


def _build_typed_lookup(entries: list[Any], column: str, table: UserTable) -> ColumnLookup:
    if table.frame is None:
        return _cast_like(entries, table.native[:, table.names.index(column)]).take
    if table.frame.implementation.is_pandas():
        known = _build_pandas_array(entries, table.native[column])
        return lambda codes: known.take(codes)
    series = table.frame[column]
    if series.dtype.is_float() and series.is_nan().any() and not series.is_null().any():
        entries = [float("nan") if value is None else value for value in entries]
    if series.dtype == nw.Boolean:
        entries = [None if value is None else bool(value) for value in entries]
    if table.frame.implementation.is_pyarrow():
        import pyarrow as pa

        known = pa.array(entries, table.native.schema.field(column).type)
        return lambda codes: known.take(codes)
    known = nw.new_series(column, entries, series.dtype, backend=table.frame.implementation)
    return lambda codes: known[codes.tolist()]


def _cast_like(values: list[Any], column: AnyArray) -> AnyArray:
    """The values in the type of a column, or in a wider one where that cannot hold them."""
    kind, numbers = column.dtype.kind, [np.nan if value is None else value for value in values]
    if kind == "f":
        return np.array(numbers, dtype=column.dtype)
    if kind == "M" or (kind == "b" and set(values) <= {0, 1}):
        return np.array(values, dtype=column.dtype)
    natural = np.array(numbers if kind in "iu" else values)
    least = natural.dtype
    if least.kind in "iu":
        least = np.promote_types(np.min_scalar_type(natural.min()), np.min_scalar_type(natural.max()))
    if kind in "iu" and np.can_cast(least, column.dtype):
        return natural.astype(column.dtype)
    if kind in "iuU" and natural.dtype.kind in "iufU":
        return natural.astype(np.promote_types(natural.dtype, column.dtype))
    marker = next((value for value in column if is_missing(value)), None)  # what the user's column has for missing
    objects = np.empty(len(values), dtype=object)
    objects[:] = [marker if value is None else value for value in values]
    return objects


def _build_pandas_array(values: list[Any], series: Any) -> Any:
    if isinstance(series.dtype, np.dtype):
        return _cast_like(values, series.to_numpy())
    odd = [value for value in values if value is not None and value not in getattr(series.dtype, "categories", values)]
    if odd:
        raise ValueError(f"{odd[0]!r} is not one of its categories")
    return type(series)(values, dtype=series.dtype).array


def _build_matrix(columns: list[Any]) -> AnyArray:
    arrays = [np.asarray(column) for column in columns]
    kinds = {array.dtype.kind for array in arrays}
    common = np.result_type(*arrays) if len(kinds) == 1 or kinds <= set("biuf") else np.dtype(object)
    matrix = np.empty((len(arrays[0]), len(arrays)), dtype=common)
    for place, array in enumerate(arrays):
        matrix[:, place] = array
    return matrix


def _build_frame(columns: dict[str, Any], library: nw.Implementation) -> Any:
    if library.is_pandas():
        import pandas as pd

        kept = {name: pd.Series(own, dtype=object) if own.dtype == object else own for name, own in columns.items()}
        return pd.DataFrame(kept)  # with the types as they are: nothing is guessed
    if library.is_pyarrow():
        import pyarrow as pa

        return pa.table(columns)
    return nw.from_dict(columns).to_native()
