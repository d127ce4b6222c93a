"""Tables of any library, read column by column.

pandas, polars and Arrow tables come through narwhals; a two-dimensional NumPy array is a table whose columns are named
``x0``, ``x1``, ... or as the caller says. A column is read as a NumPy array and a mask of what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ironrule.errors import TableError

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Column:
    """A column's values, which of them are missing, and its categories in order where it declares an order."""

    values: npt.NDArray[Any]
    missing: Mask
    categories: tuple[Any, ...] | None = None

    @property
    def present(self) -> npt.NDArray[Any]:
        """The values that are not missing."""
        return self.values[~self.missing] if self.missing.any() else self.values


@dataclass(frozen=True, slots=True)
class Table:
    """A table of any library behind one small interface. Make one with :func:`read_table`."""

    native: Any
    names: tuple[str, ...]
    frame: Any  # the narwhals DataFrame, or None for an array

    def __len__(self) -> int:
        return len(self.native)

    def column(self, name: str) -> Column:
        """One column; text and other objects come as an object array."""
        if self.frame is None:
            return _array_column(self.native[:, self.names.index(name)])
        return _series_column(self.frame[name])

    def row(self, position: int) -> dict[str, Any]:
        """One row as a dictionary of Python values, ``None`` for missing."""
        if not -len(self) <= position < len(self):
            raise TableError(f"the row number must be below {len(self)}, the number of rows, but {position} came")
        if self.frame is None:
            return {name: as_python(value) for name, value in zip(self.names, self.native[position], strict=True)}
        values = self.frame[[position % len(self)]].row(0)
        return {name: as_python(value) for name, value in zip(self.names, values, strict=True)}


def read_table(data: Any, names: Sequence[str] | None = None) -> Table:
    """Wrap a pandas, polars or Arrow table, a dictionary of columns, or a NumPy array; raises TableError otherwise."""
    if isinstance(data, Table):
        return data
    table = _from_array(data, names) if isinstance(data, np.ndarray) else _from_frame(data)
    _check_names(table.names)
    if len(table) == 0:
        raise TableError("the table must have at least one row, but it is empty")
    return table


def _from_array(data: npt.NDArray[Any], names: Sequence[str] | None) -> Table:
    if data.ndim != 2:
        raise TableError(f"an array must have two dimensions, rows and columns, but it has {data.ndim}")
    chosen = tuple(f"x{j}" for j in range(data.shape[1])) if names is None else tuple(names)
    if len(chosen) != data.shape[1]:
        raise TableError(f"there must be one name per column, but {len(chosen)} names came for {data.shape[1]} columns")
    return Table(data, chosen, None)


def _from_frame(data: Any) -> Table:
    if isinstance(data, Mapping):
        raise TableError(
            "a table must be a DataFrame, an Arrow table or an array, but a dictionary came; wrap it first"
        )
    names = getattr(data, "column_names", None)  # Arrow's name for it
    _check_names(list(data.columns) if names is None and hasattr(data, "columns") else list(names or ()))
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        kind = f"{type(data).__module__.split('.')[0]}.{type(data).__name__}"
        raise TableError(
            f"a table must be a pandas, polars or Arrow table or a NumPy array, but {kind} came"
            + ("; call .collect() on it first" if "Lazy" in kind else "")
        ) from None
    return Table(frame.to_native(), tuple(frame.columns), frame)


def _check_names(names: Sequence[Any]) -> None:
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise TableError(f"column names must be text, but {odd[0]!r} came; with pandas: data.rename(columns=str)")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(f"column names must be distinct, but {', '.join(map(repr, twice))} occur more than once")


def _array_column(values: npt.NDArray[Any]) -> Column:
    if values.dtype.kind == "f":
        return Column(values, np.isnan(values))
    if values.dtype.kind == "M":
        return Column(values, np.isnat(values))
    if values.dtype.kind != "O":
        return Column(values, np.zeros(len(values), dtype=np.bool_))
    missing = np.fromiter((value is None or value != value for value in values), np.bool_, len(values))
    return _narrow(values, missing)


def _narrow(values: npt.NDArray[Any], missing: Mask) -> Column:
    """An object column that holds only numbers is a numeric column."""
    kinds = set(map(type, values[~missing] if missing.any() else values))
    if kinds and kinds <= {int, float} or kinds and all(issubclass(kind, np.number) for kind in kinds):
        filled = np.where(missing, 0, values) if missing.any() else values
        return Column(filled.astype(float if any(issubclass(k, (float, np.floating)) for k in kinds) else int), missing)
    return Column(values, missing)


def _series_column(series: nw.Series[Any]) -> Column:
    dtype = series.dtype
    missing = series.is_null().to_numpy().astype(np.bool_)
    if dtype.is_float():
        values = series.to_numpy().astype(np.float32 if dtype == nw.Float32 else np.float64)
        return Column(values, missing | np.isnan(values))
    if dtype.is_integer():
        whole = series.fill_null(0) if missing.any() else series
        return Column(whole.to_numpy().astype(np.uint64 if dtype == nw.UInt64 else np.int64), missing)
    if dtype.is_temporal() and not isinstance(dtype, (nw.Duration, nw.Time)):
        return Column(series.to_numpy().astype("datetime64[us]"), missing)
    if isinstance(dtype, (nw.Enum, nw.Categorical)):
        return Column(_objects(series), missing, _declared_order(series))
    values = _objects(series)
    if dtype == nw.Boolean:
        return Column(values, missing)
    return _narrow(values, missing | np.fromiter((v is None or v != v for v in values), np.bool_, len(values)))


def _objects(series: nw.Series[Any]) -> npt.NDArray[Any]:
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return values


def _declared_order(series: nw.Series[Any]) -> tuple[Any, ...] | None:
    """The categories in order, where the column's type declares an order (pandas ordered category, polars Enum)."""
    native = getattr(series.to_native(), "dtype", None)
    if getattr(native, "ordered", False):
        return tuple(as_python(value) for value in native.categories)  # type: ignore[union-attr]
    if isinstance(series.dtype, nw.Enum) and getattr(native, "ordered", True):
        return tuple(series.dtype.categories)
    return None


def as_python(value: Any) -> Any:
    """A value as plain Python: NumPy scalars unwrapped, every kind of missing as None."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    value = value.item() if isinstance(value, np.generic) else value
    if hasattr(value, "to_pydatetime") and value == value:
        return value.to_pydatetime()
    return None if value is None or type(value).__name__ in ("NaTType", "NAType") or value != value else value
