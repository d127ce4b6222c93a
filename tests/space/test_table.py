"""Tables of any library: how they are read, and which are refused."""

import datetime
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ironrule.errors import TableError
from ironrule.space.table import read_table, to_python_value

TWICE = pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"])


@pytest.mark.parametrize(
    "data",
    [pd.DataFrame({"a": []}), pl.DataFrame({"a": []}), pa.table({"a": []}), np.empty((0, 2))],
    ids=["pandas", "polars", "arrow", "array"],
)
def test_an_empty_table_is_refused(data):
    with pytest.raises(TableError, match="at least one row"):
        read_table(data)


def test_column_names_must_be_distinct_text():
    with pytest.raises(TableError, match="must be unique, got 'a' more than once"):
        read_table(TWICE)
    with pytest.raises(TableError, match=r"must be strings, got 0; with pandas: data.rename\(columns=str\)"):
        read_table(pd.DataFrame([[1, 2]]))
    with pytest.raises(TableError, match="must be unique"):
        read_table(np.ones((2, 2)), names=["a", "a"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": [1]}, "got a dictionary"),
        ([[1, 2]], "got a list"),
        (pd.Series([1, 2]), "got a pandas.Series"),
        (pl.DataFrame({"a": [1]}).lazy(), r"got a polars.LazyFrame; call .collect\(\)"),
        (np.ones(3), "two dimensions"),
        (None, "got a builtins.NoneType"),
        ("data.csv", "got a builtins.str"),
    ],
    ids=["dict", "list", "series", "lazy", "vector", "none", "path"],
)
def test_what_is_no_table_is_refused_by_its_name(data, message):
    with pytest.raises(TableError, match=message):
        read_table(data)


def test_the_columns_of_an_array_are_numbered_or_named():
    assert read_table(np.ones((2, 3))).names == ("x0", "x1", "x2")
    assert read_table(np.ones((2, 2)), names=["age", "income"]).names == ("age", "income")
    with pytest.raises(TableError, match="one name per column, got 1 name for 2 columns"):
        read_table(np.ones((2, 2)), names=["age"])


def test_a_narwhals_frame_is_a_table_too():
    frame = nw.from_native(pl.DataFrame({"a": [1, 2]}))
    assert isinstance(read_table(frame).native, pl.DataFrame)


def test_days_with_missing_ones_are_read_from_every_library():
    days = pa.table({"day": pa.array([datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 3)], pa.date32())})
    tables = (days, pl.from_arrow(days), days.to_pandas(), days.to_pandas(types_mapper=pd.ArrowDtype))
    for table in tables:
        column = read_table(table).column("day")
        assert column.values.dtype == np.dtype("datetime64[D]")
        assert column.missing.tolist() == [False, True, False]
        assert column.present.tolist() == [datetime.date(2024, 1, 1), datetime.date(2024, 1, 3)]
        assert read_table(table).row(1) == {"day": None}


def test_a_row_comes_as_python_values_by_its_number():
    data = {"a": [1.0, float("nan")], "b": ["x", None], "c": [datetime.datetime(2024, 1, 1), None]}
    for table in (pd.DataFrame(data), pl.DataFrame(data), pa.table(data)):
        read = read_table(table)
        assert read.row(0) == {"a": 1.0, "b": "x", "c": datetime.datetime(2024, 1, 1)}
        assert read.row(1) == {"a": None, "b": None, "c": None}
        assert type(read.row(0)["c"]) is datetime.datetime
        with pytest.raises(TableError, match=r"must be from 0 to 1 \(2 rows\), got 2"):
            read.row(2)
        with pytest.raises(TableError, match="got -1; row numbers count from 0"):
            read.row(-1)
    assert read_table(np.array([[1, 2], [3, 4]])).row(1) == {"x0": 3, "x1": 4}


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(TableError, match="must have the column 'b', got columns 'a'"):
        read_table(pd.DataFrame({"a": [1]})).column("b")


@pytest.mark.parametrize(
    "values", [[[1], [2]], [Decimal("1.5"), Decimal(2)], [b"x", b"y"], [{1}, {2}], [1j, 2j], [(1,), (2,)]], ids=str
)
def test_values_that_are_neither_numbers_text_booleans_nor_dates_are_refused(values):
    table = pd.DataFrame({"odd": pd.Series(values, dtype=object)})
    with pytest.raises(TableError, match="column 'odd': values must be numbers, strings, booleans or dates, got"):
        read_table(table).column("odd")


@pytest.mark.parametrize(
    "table",
    [
        pl.DataFrame({"odd": [Decimal("1.5")]}),
        pl.DataFrame({"odd": [datetime.timedelta(1)]}),
        pl.DataFrame({"odd": [datetime.time(1)]}),
        pl.DataFrame({"odd": [[1, 2]]}),
        pd.DataFrame({"odd": pd.to_timedelta([1], unit="D")}),
        pd.DataFrame({"odd": pd.cut([1, 2, 3], 2)}),
        pd.DataFrame({"odd": pd.period_range("2024-01", periods=2, freq="M")}),
        np.array([[np.timedelta64(1, "D")]]),
        np.array([[1j]]),
    ],
    ids=["decimal", "duration", "time", "list", "timedelta", "interval", "period", "timedelta64", "complex"],
)
def test_columns_of_other_types_are_refused(table):
    read = read_table(table)
    with pytest.raises(TableError, match=r"column '\w+': values must be numbers, strings, booleans or dates, got"):
        read.column(read.names[0])


def test_times_with_a_zone_and_times_finer_than_python_knows_are_refused():
    zoned = pd.to_datetime(["2024-01-01"]).tz_localize("Europe/Berlin")
    for table in (pd.DataFrame({"t": zoned}), pl.DataFrame({"t": zoned}), pd.DataFrame({"t": zoned.astype(object)})):
        with pytest.raises(TableError, match=r"column 't': dates must have no time zone, got .*tz_convert\(None\)"):
            read_table(table).column("t")
    fine = pd.DataFrame({"t": pd.to_datetime(["2024-01-01 00:00:00.000000001"])})
    with pytest.raises(TableError, match="whole microseconds"):
        read_table(fine).column("t")


def test_whole_numbers_beyond_64_bits_are_refused():
    with pytest.raises(TableError, match="column 'a': integers must fit in 64 bits, got a larger one"):
        read_table(pd.DataFrame({"a": pd.Series([2**70, 1], dtype=object)})).column("a")


def test_an_object_column_of_numbers_is_a_column_of_numbers():
    values = np.array([[np.float64(1)], [2], [np.int64(3)], [None], [pd.NA], [np.nan]], dtype=object)
    column = read_table(values).column("x0")
    assert column.values.dtype == np.float64
    assert column.missing.tolist() == [False] * 3 + [True] * 3
    assert column.present.tolist() == [1, 2, 3]
    assert read_table(np.array([[1], [True]], dtype=object)).column("x0").values.dtype == object


@pytest.mark.parametrize(
    ("value", "python"),
    [
        (np.int8(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.datetime64("2024-01-02"), datetime.date(2024, 1, 2)),
        (np.datetime64("2024-01-02T03:04:05", "ns"), datetime.datetime(2024, 1, 2, 3, 4, 5)),
        (pd.Timestamp("2024-01-02 03:00"), datetime.datetime(2024, 1, 2, 3)),
        (np.datetime64("NaT"), None),
        (pd.NaT, None),
        (pd.NA, None),
        (np.nan, None),
    ],
)
def test_values_become_plain_python(value, python):
    assert to_python_value(value) == python
    assert type(to_python_value(value)) is type(python)
