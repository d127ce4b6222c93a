"""Tables of any library, read column by column.

pandas, polars and Arrow tables come through narwhals. A NumPy array of two dimensions is a table whose columns are
named ``x0``, ``x1``, ... or as the caller says. A column is a NumPy array and a mask of what is missing in it.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray
from ironrule.errors import TableError

TIME_ZONE_HINT = "with pandas: .dt.tz_convert(None)"
TIME_ZONE_ERROR = {"expected": "dates must have no time zone", "got": "one", "hint": TIME_ZONE_HINT}
VALUE_TYPES = (str, bool, int, float, np.number, np.bool_, datetime.date)


@dataclass(frozen=True, slots=True, eq=False)
class MaskedColumn:
    """Values, which of them are missing, and the categories in order where the column's type declares an order."""

    values: AnyArray
    missing: BoolArray
    categories: tuple[Any, ...] | None = None

    @property
    def present(self) -> AnyArray:
        """The values that are not missing."""
        return self.values[~self.missing]


@dataclass(frozen=True, slots=True, eq=False)
class UserTable:
    """A table of any library. :func:`read_table` makes one."""

    native: Any
    names: tuple[str, ...]
    frame: Any  # the narwhals DataFrame; None for an array

    def __len__(self) -> int:
        return len(self.native)

    def column(self, name: str) -> MaskedColumn:
        """One column; text and booleans come as objects. Raises TableError, naming the column, if it is not there or
        has values that are neither numbers, text, booleans nor dates.
        """
        if name not in self.names:
            got = f"columns {', '.join(map(repr, self.names))}"
            raise TableError(expected=f"the table must have the column {name!r}", got=got, code="missing-columns")
        try:
            if self.frame is None:
                return _read_array_column(self.native[:, self.names.index(name)])
            return _read_series(self.frame[name])
        except TableError as error:
            raise TableError(expected=f"column {name!r}: {error.expected}", got=error.got, hint=error.hint) from None


def read_table(data: Any, names: Sequence[str] | None = None) -> UserTable:
    """Wrap a pandas, polars or Arrow table or an array; raises TableError for anything else.

    >>> read_table(np.array([[1, 2], [3, 4]])).names
    ('x0', 'x1')
    """
    if isinstance(data, UserTable):
        return data
    table = _wrap_array(data, names) if isinstance(data, np.ndarray) else _wrap_frame(data)
    if len(table) == 0:
        raise TableError(expected="the table must have at least one row", got="none")
    return table


def _wrap_array(data: AnyArray, names: Sequence[str] | None) -> UserTable:
    width = data.shape[1] if data.ndim == 2 else None
    chosen = [f"x{place}" for place in range(width or 0)] if names is None else list(names)
    if width != len(chosen):
        named = "columns" if names is None else f"a column for each of {len(chosen)} names"
        raise TableError(expected=f"an array must have rows and {named}", got=f"shape {data.shape}")
    return UserTable(data, _check_column_names(chosen), None)


def _wrap_frame(data: Any) -> UserTable:
    kind = f"{type(data).__module__.split('.')[0]}.{type(data).__name__}"
    try:
        if "Lazy" in kind or isinstance(data, Mapping):
            raise TypeError
        names = data.column_names if hasattr(data, "column_names") else getattr(data, "columns", ())  # Arrow, others
        _check_column_names(list(names))  # before narwhals, whose errors are its own
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        expected = "a table must be a pandas, polars or Arrow table in memory or a NumPy array"
        raise TableError(expected=expected, got=kind) from None
    return UserTable(frame.to_native(), tuple(frame.columns), frame)


def _check_column_names(names: Sequence[Any]) -> tuple[str, ...]:
    odd = [name for name in names if not isinstance(name, str)]
    odd = odd or [name for name, count in Counter(names).items() if count > 1]
    if odd:
        got = f"{odd[0]!r} twice" if isinstance(odd[0], str) else repr(odd[0])
        raise TableError(expected="column names must be distinct strings", got=got, hint="rename them")
    return tuple(names)


def _read_array_column(values: AnyArray) -> MaskedColumn:
    if values.dtype.kind == "f":
        return MaskedColumn(values, np.isnan(values))
    if values.dtype.kind == "M":
        return MaskedColumn(_convert_to_exact_dates(values), np.isnat(values))
    if values.dtype.kind in "biuU":
        return MaskedColumn(values, np.zeros(len(values), dtype=np.bool_))
    return _narrow_column(values.astype(object), _flag_missing(values))


def _read_series(series: nw.Series[Any]) -> MaskedColumn:
    dtype, missing = series.dtype, series.is_null().to_numpy().astype(np.bool_)
    if dtype.is_float():
        values = series.to_numpy().astype(np.float32 if dtype == nw.Float32 else np.float64)
        return MaskedColumn(values, missing | np.isnan(values))
    if dtype.is_integer():
        filled = series.fill_null(0) if missing.any() else series
        return MaskedColumn(filled.to_numpy().astype(np.uint64 if dtype == nw.UInt64 else np.int64), missing)
    if isinstance(dtype, nw.Datetime):
        if dtype.time_zone is not None:
            raise TableError(**TIME_ZONE_ERROR)
        return MaskedColumn(_convert_to_exact_dates(series.to_numpy()), missing)
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    if isinstance(dtype, (nw.Enum, nw.Categorical)):
        _check_value_types(set(map(type, values[~missing])))
        return MaskedColumn(values, missing, _read_declared_order(series))
    if dtype in (nw.Boolean, nw.String):
        return MaskedColumn(values, missing)
    return _narrow_column(values, missing | _flag_missing(values))


def _read_declared_order(series: nw.Series[Any]) -> tuple[Any, ...] | None:
    """The categories in order, where the column's type declares one (pandas and Arrow ordered, polars Enum)."""
    native = series.to_native()
    dtype = native.dtype if hasattr(native, "dtype") else getattr(native, "type", None)
    ordered = getattr(dtype, "ordered", None)
    if ordered and dtype is not None and hasattr(dtype, "categories"):
        return tuple(map(to_python_value, dtype.categories))
    if ordered:
        return tuple(native.unify_dictionaries().chunk(0).dictionary.to_pylist())
    return tuple(series.dtype.categories) if isinstance(series.dtype, nw.Enum) and ordered is None else None


def _narrow_column(values: AnyArray, missing: BoolArray) -> MaskedColumn:
    """A column of objects; as numbers if it has only numbers, as dates if it has only dates."""
    kinds = set(map(type, values[~missing]))
    _check_value_types(kinds)
    if kinds and all(issubclass(kind, (int, float, np.number)) and kind is not bool for kind in kinds):
        floating = any(issubclass(kind, (float, np.floating)) for kind in kinds)
        try:
            return MaskedColumn(np.where(missing, 0, values).astype(np.float64 if floating else np.int64), missing)
        except OverflowError:
            raise TableError(expected="integers must fit in 64 bits", got="a larger one") from None
    if kinds and all(issubclass(kind, datetime.date) for kind in kinds):
        if any(getattr(value, "tzinfo", None) is not None for value in values):
            raise TableError(**TIME_ZONE_ERROR)
        unit = "datetime64[D]" if kinds == {datetime.date} else "datetime64[us]"
        return MaskedColumn(np.where(missing, np.datetime64("NaT"), values).astype(unit), missing)
    return MaskedColumn(values, missing)


def _check_value_types(kinds: set[type]) -> None:
    for kind in kinds:
        if not issubclass(kind, VALUE_TYPES):
            expected = "values must be numbers, strings, booleans or dates"
            raise TableError(expected=expected, got=kind.__name__, hint="convert them")


def _convert_to_exact_dates(values: AnyArray) -> AnyArray:
    """Dates by day, or times by microsecond, which is what Python's own can tell apart."""
    days = np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D")
    exact = values.astype("datetime64[D]" if days else "datetime64[us]")
    if ((exact != values) & ~np.isnat(values)).any():
        raise TableError(expected="dates must not be finer than microseconds", hint="with pandas: .dt.floor('us')")
    return exact


def _flag_missing(values: AnyArray) -> BoolArray:
    return np.fromiter(map(is_missing, values), np.bool_, len(values))


def is_missing(value: Any) -> bool:
    """Whether a value stands for missing: None, NaN, NaT or pandas' NA."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ in ("NaTType", "NAType")


def to_python_value(value: Any) -> Any:
    """A value as plain Python: NumPy's and pandas' scalars unwrapped, every kind of missing as None."""
    if is_missing(value):
        return None
    if isinstance(value, np.datetime64):
        return _convert_to_exact_dates(np.asarray(value)).item()
    value = value.item() if isinstance(value, np.generic) else value
    return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
