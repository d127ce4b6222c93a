"""Tables of any library, read column by column.

pandas, polars and Arrow tables come through narwhals; a two-dimensional NumPy array is a table whose columns are named
``x0``, ``x1``, ... or as the caller says. A column is read as a NumPy array and a mask of what is missing.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from ironrule.arrays import AnyArray, BoolArray
from ironrule.errors import TableError, describe_value
from ironrule.space.feature import is_missing, may_be_missing
from ironrule.wording import format_count

TABLE_RULE = "a table must be a pandas, polars or Arrow table or a NumPy array"
VALUE_TYPES = (str, bool, int, float, np.number, np.bool_, datetime.date)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column's values, which of them are missing, and its categories in order where it declares an order."""

    values: AnyArray
    missing: BoolArray
    categories: tuple[Any, ...] | None = None

    @property
    def present(self) -> AnyArray:
        """The values that are not missing."""
        return self.values[~self.missing] if self.missing.any() else self.values


@dataclass(frozen=True, slots=True)
class Table:
    """A table of any library behind one small interface. Make one with :func:`read_table`."""

    native: Any
    names: tuple[str, ...]
    frame: Any  # the narwhals DataFrame, or None for an array
    real_rows: int | None = None  # how many rows at the beginning are rows of the data, where not all are

    def __len__(self) -> int:
        return len(self.native)

    def column(self, name: str) -> TableColumn:
        """One column; text and booleans come as an object array; raises TableError, naming it, if it cannot be read."""
        require_columns((name,), self.names)
        try:
            if self.frame is None:
                return _read_array_column(self.native[:, self.names.index(name)])
            return _read_series(self.frame[name])
        except TableError as error:
            rule = f"column {name!r}: {error.expected}"
            raise TableError(expected=rule, got=error.got, hint=error.hint, code=error.code) from None
        except Exception as error:  # whatever the table's own library raises for a type that NumPy does not have
            reason = f"{type(error).__name__}: {error}"
            hint = "convert the column, to strings for example"
            raise TableError(f"column {name!r} cannot be read: {reason}", hint=hint) from error

    def row(self, position: int) -> dict[str, Any]:
        """One row as a dictionary of Python values, ``None`` for missing."""
        position = parse_row_number(position, len(self))
        if self.frame is None:
            return {name: to_python_value(value) for name, value in zip(self.names, self.native[position], strict=True)}
        values = self.frame[[position]].row(0)
        return {name: to_python_value(value) for name, value in zip(self.names, values, strict=True)}


def parse_row_number(number: int, rows: int) -> int:
    """The number of one of so many rows; raises TableError if there is none. Numbers count from 0, and from there on:
    a row that is -1 by mistake must not be taken for the last one.
    """
    if rows == 0:
        statement = "rows cannot be named by number, since there are no past rows here"
        raise TableError(statement, hint="give the row by its values", code="no-past-rows-saved")
    if not 0 <= number < rows:
        rule = f"the row number must be from 0 to {rows - 1} ({format_count(rows, 'row')})"
        raise TableError(expected=rule, got=describe_value(int(number)), hint="row numbers count from 0")
    return int(number)


def is_listing(given: Any) -> bool:
    """Whether a caller gave a list of something: no text, no mapping, no class, no array without dimension."""
    has_items = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping, type))
    return has_items and not (isinstance(given, np.ndarray) and given.ndim == 0)


def parse_columns(columns: Any) -> tuple[str, ...]:
    """The names of columns that a caller chose; raises TableError unless they are a list of distinct strings."""
    is_list = is_listing(columns)
    chosen = tuple(columns) if is_list else ()
    if not is_list or not all(isinstance(name, str) for name in chosen):
        raise TableError(expected="columns must be a list of names", got=describe_value(columns))
    if not chosen:
        raise TableError(expected="columns must name at least one column", got="none")
    _check_names(chosen)
    return chosen


def require_columns(names: Iterable[str], available: Sequence[str], hint: str | None = None) -> None:
    """Raise TableError unless all these columns are available."""
    absent = [name for name in names if name not in available]
    if absent:
        raise TableError(
            expected=f"the table must have the column{'s' * (len(absent) > 1)} {', '.join(map(repr, absent))}",
            got=f"columns {', '.join(map(repr, available))}",
            hint=hint,
            code="missing-columns",
        )


def read_table(data: Any, names: Sequence[str] | None = None) -> Table:
    """Wrap a pandas, polars or Arrow table or a NumPy array; raises TableError otherwise."""
    if isinstance(data, Table):
        return data
    table = _from_array(data, names) if isinstance(data, np.ndarray) else _from_frame(data)
    _check_names(table.names)
    if not table.names:
        raise TableError(expected="the table must have at least one column", got="none")
    if len(table) == 0:
        raise TableError(expected="the table must have at least one row", got="none")
    return table


def _from_array(data: AnyArray, names: Sequence[str] | None) -> Table:
    if data.ndim != 2:
        raise TableError(expected="an array must have two dimensions, rows and columns", got=data.ndim)
    chosen = tuple(f"x{j}" for j in range(data.shape[1])) if names is None else tuple(names)
    if len(chosen) != data.shape[1]:
        raise TableError(
            expected="there must be one name per column",
            got=f"{format_count(len(chosen), 'name')} for {format_count(data.shape[1], 'column')}",
        )
    return Table(data, chosen, None)


def _from_frame(data: Any) -> Table:
    if isinstance(data, Mapping):
        rule = "a table must be a DataFrame, an Arrow table or an array"
        raise TableError(expected=rule, got="a dictionary", hint="wrap it in a DataFrame")
    if isinstance(data, type):
        raise TableError(expected=TABLE_RULE, got=f"the class {data.__name__}", hint="pass a table of that class")
    if isinstance(data, (list, tuple)):
        hint = "wrap it in a DataFrame, or in np.array(...) if all values are numbers"
        raise TableError(expected=TABLE_RULE, got=f"a {type(data).__name__}", hint=hint)
    kind = f"{type(data).__module__.split('.')[0]}.{type(data).__name__}"
    if "Lazy" in kind:
        raise TableError(expected="a table must be in memory", got=f"a {kind}", hint="call .collect() on it first")
    names = getattr(data, "column_names", None)  # Arrow's name for it
    _check_names(list(data.columns) if names is None and hasattr(data, "columns") else list(names or ()))
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        advice = "pass the whole table, a column alone is none" if kind.endswith("Series") else None
        raise TableError(expected=TABLE_RULE, got=f"a {kind}", hint=advice) from None
    return Table(frame.to_native(), tuple(frame.columns), frame)


def _check_names(names: Sequence[Any]) -> None:
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        hint = "with pandas: data.rename(columns=str)"
        raise TableError(expected="column names must be strings", got=describe_value(odd[0]), hint=hint)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(expected="column names must be unique", got=f"{', '.join(map(repr, twice))} more than once")


def _read_array_column(values: AnyArray) -> TableColumn:
    if values.dtype.kind == "f":
        return TableColumn(values, np.isnan(values))
    if values.dtype.kind == "M":
        return TableColumn(_convert_to_exact_dates(values), np.isnat(values))
    if values.dtype.kind in "biuU":
        return TableColumn(values, np.zeros(len(values), dtype=np.bool_))
    return narrow_column(values.astype(object), _flag_missing(values))


def _flag_missing(values: AnyArray) -> BoolArray:
    if not any(map(may_be_missing, set(map(type, values)))):  # a column of text, without a gap
        return np.zeros(len(values), dtype=np.bool_)
    return np.fromiter(map(is_missing, values), np.bool_, len(values))


def narrow_column(values: AnyArray, missing: BoolArray) -> TableColumn:
    """An object column; one that holds only numbers, or only dates, as numbers or dates."""
    kinds = set(map(type, values[~missing] if missing.any() else values))
    _check_value_types(kinds)
    if kinds and all(issubclass(kind, (int, float, np.number)) and kind is not bool for kind in kinds):
        return TableColumn(_convert_to_numbers(np.where(missing, 0, values), kinds), missing)
    if kinds and all(issubclass(kind, datetime.date) for kind in kinds):
        return TableColumn(_convert_to_dates(np.where(missing, np.datetime64("NaT"), values), kinds), missing)
    return TableColumn(values, missing)


def _check_value_types(kinds: Iterable[type]) -> None:
    for kind in kinds:
        if not issubclass(kind, VALUE_TYPES):
            rule = "values must be numbers, strings, booleans or dates"
            raise TableError(expected=rule, got=kind.__name__, hint="convert the column, to strings for example")


def _convert_to_numbers(values: AnyArray, kinds: set[type]) -> AnyArray:
    try:
        return values.astype(np.float64 if any(issubclass(k, (float, np.floating)) for k in kinds) else np.int64)
    except OverflowError:
        raise TableError(expected="integers must fit in 64 bits", got="a larger one") from None


def _convert_to_dates(values: AnyArray, kinds: set[type]) -> AnyArray:
    if any(getattr(value, "tzinfo", None) is not None for value in values):
        _raise_time_zone_error("times with a time zone")
    return values.astype("datetime64[D]" if kinds == {datetime.date} else "datetime64[us]")


def _raise_time_zone_error(what: str) -> None:
    raise TableError(expected="dates must have no time zone", got=what, hint="with pandas: .dt.tz_convert(None)")


def _convert_to_exact_dates(values: AnyArray) -> AnyArray:
    """Dates by day, or by microsecond, which is what Python's own can tell apart."""
    days = np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D")
    exact = values.astype("datetime64[D]" if days else "datetime64[us]")
    if ((exact != values) & ~np.isnat(values)).any():
        hint = "with pandas: .dt.floor('us')"
        raise TableError(expected="dates must be whole microseconds", got="finer ones", hint=hint)
    return exact


def _read_series(series: nw.Series[Any]) -> TableColumn:
    dtype = series.dtype
    missing = series.is_null().to_numpy().astype(np.bool_)
    if dtype.is_float():
        values = series.to_numpy().astype(np.float32 if dtype == nw.Float32 else np.float64)
        return TableColumn(values, missing | np.isnan(values))
    if dtype.is_integer():
        whole = series.fill_null(0) if missing.any() else series
        return TableColumn(whole.to_numpy().astype(np.uint64 if dtype == nw.UInt64 else np.int64), missing)
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        _raise_time_zone_error(f"the time zone {dtype.time_zone!r}")
    if isinstance(dtype, nw.Datetime):
        return TableColumn(_convert_to_exact_dates(series.to_numpy()), missing)
    if dtype == nw.Date:
        days = series.to_numpy()
        if days.dtype == object:  # pandas gives Arrow's days so, with an NA that NumPy does not know
            days = np.where(missing, np.datetime64("NaT"), days)
        return TableColumn(days.astype("datetime64[D]"), missing)
    values = _read_objects(series)
    if isinstance(dtype, (nw.Enum, nw.Categorical)):
        _check_value_types(set(map(type, values[~missing])))
        return TableColumn(values, missing, _read_declared_order(series))
    if dtype in (nw.Boolean, nw.String):
        return TableColumn(values, missing)
    return narrow_column(values, missing | _flag_missing(values))


def _read_objects(series: nw.Series[Any]) -> AnyArray:
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return values


def _read_declared_order(series: nw.Series[Any]) -> tuple[Any, ...] | None:
    """The categories in order, where the column's type declares one (pandas and Arrow ordered, polars Enum)."""
    native = series.to_native()
    dtype = getattr(native, "dtype", None) if hasattr(native, "dtype") else getattr(native, "type", None)
    ordered = getattr(dtype, "ordered", None)
    if dtype is not None and ordered and hasattr(dtype, "categories"):
        return tuple(to_python_value(value) for value in dtype.categories)
    if ordered:
        return tuple(native.unify_dictionaries().chunk(0).dictionary.to_pylist())
    if isinstance(series.dtype, nw.Enum) and ordered is None:
        return tuple(series.dtype.categories)
    return None


def to_python_value(value: Any) -> Any:
    """A value as plain Python: NumPy scalars unwrapped, every kind of missing as None."""
    if is_missing(value):
        return None
    if isinstance(value, np.datetime64):
        return _convert_to_exact_dates(np.asarray(value)).item()
    value = value.item() if isinstance(value, np.generic) else value
    return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
