"""From codes back to a table: the model must be shown the user's own rows, values and types alike."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest
from hypothesis import given, settings

from ironrule.errors import SpaceError
from ironrule.space.feature import Feature
from ironrule.space.layout import build_layout
from ironrule.space.space import Space
from ironrule.space.table import read_table
from random_tables import Columns, columns


def rebuild(table, **options):
    space = Space.infer(table, **{"constant": "keep", **options})
    return build_layout(space.features, read_table(table)).decode(space.encode(table).points())


@given(columns())
@settings(max_examples=150, deadline=None)
def test_pandas_rows_come_back_with_their_own_types(drawn: Columns):
    table = drawn.pandas()
    pd.testing.assert_frame_equal(rebuild(table), table, check_exact=True)


@given(columns())
@settings(max_examples=150, deadline=None)
def test_polars_rows_come_back_with_their_own_types(drawn: Columns):
    table = drawn.polars()
    pl.testing.assert_frame_equal(rebuild(table), table, check_exact=True, categorical_as_str=True)


@given(columns())
@settings(max_examples=150, deadline=None)
def test_arrow_rows_come_back_with_their_own_types(drawn: Columns):
    table, again = drawn.arrow(), rebuild(drawn.arrow())
    assert again.schema == table.schema
    assert again.to_pylist() == table.to_pylist()


@given(columns(kinds=("int", "float", "text", "flag", "day", "moment")))
@settings(max_examples=150, deadline=None)
def test_rows_of_an_object_array_come_back(drawn: Columns):
    table = drawn.array()
    again = rebuild(table)
    assert again.dtype == object
    assert again.tolist() == table.tolist()


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1, 2], [3, 4]], dtype=np.int16),
        np.array([[1.5, np.nan], [3, 4]], dtype=np.float32),
        np.array([[True, False], [False, True]]),
        np.array([["a", "bcd"], ["", "é"]]),
        np.array([["2024-01-01", "NaT"], ["2024-01-02", "2024-01-03"]], dtype="datetime64[D]"),
        np.array([["2024-01-01T10", "NaT"], ["2024-01-02T11", "2024-01-03T12"]], dtype="datetime64[ns]"),
        np.array([[2**63 + 1, 5], [2**63, 2**53 + 1]], dtype=np.uint64),
    ],
    ids=lambda table: str(table.dtype),
)
def test_rows_of_a_typed_array_come_back_in_its_type(table):
    again = rebuild(table)
    assert again.dtype == table.dtype
    np.testing.assert_array_equal(again, table)


@pytest.mark.parametrize("marker", [None, np.nan, pd.NA, pd.NaT])
def test_a_missing_object_comes_back_as_the_kind_of_missing_it_was(marker):
    table = pd.DataFrame({"a": pd.Series(["x", marker, "y"], dtype=object)})
    assert rebuild(table)["a"].iloc[1] is marker


def test_a_polars_nan_stays_nan_and_a_null_stays_null():
    nan, null = pl.DataFrame({"a": [1.0, float("nan")]}), pl.DataFrame({"a": [1.0, None]})
    assert rebuild(nan)["a"].is_nan().to_list() == [False, True]
    assert rebuild(null)["a"].is_null().to_list() == [False, True]


def test_unused_categories_stay_in_the_type_of_a_pandas_category():
    table = pd.DataFrame({"a": pd.Categorical(["x", "y", "x"], categories=["z", "y", "x"])})
    assert list(rebuild(table)["a"].cat.categories) == ["z", "y", "x"]


def test_text_columns_of_every_pandas_type_come_back():
    for dtype in ("object", "str", "string", "string[pyarrow]", pd.ArrowDtype(pa.string())):
        table = pd.DataFrame({"a": pd.Series(["x", "y", "x"], dtype=dtype)})
        pd.testing.assert_frame_equal(rebuild(table), table)


@pytest.mark.parametrize("kind", [int, float, bool, np.uint8])
def test_one_hot_columns_come_back_in_their_places_and_types(kind):
    hot = np.array([[1, 0], [0, 1], [1, 0]])
    table = pd.DataFrame({"job_a": hot[:, 0].astype(kind), "age": [3, 1, 2], "job_b": hot[:, 1].astype(kind)})
    space = Space.infer(table)
    assert space.names == ("job", "age")
    pd.testing.assert_frame_equal(rebuild(table), table)


def test_a_one_hot_group_of_booleans_comes_back_in_polars_and_arrow():
    data = {"job_a": [True, False], "job_b": [False, True]}
    pl.testing.assert_frame_equal(rebuild(pl.DataFrame(data)), pl.DataFrame(data))
    assert rebuild(pa.table(data)) == pa.table(data)


def test_the_none_of_a_one_hot_group_comes_back_as_zeros():
    table = pd.DataFrame({"a": [1, 0, 0], "b": [0, 1, 0]})
    pd.testing.assert_frame_equal(rebuild(table, one_hot={"g": ["a", "b"]}), table)


def test_the_columns_follow_the_table_or_the_order_that_is_asked_for():
    table = pd.DataFrame({"b": [1, 2], "a": [3, 4], "target": [0, 1]})
    space = Space.infer(table, columns=["a", "b"])
    assert build_layout(space.features, read_table(table)).names == ("b", "a")
    assert build_layout(space.features, read_table(table), order=["a", "b"]).names == ("a", "b")
    assert build_layout(space.features, read_table(table), order=["a"]).names == ("a",)


def test_a_column_that_the_space_lacks_is_named():
    table = pd.DataFrame({"a": [3, 4], "b": [1, 2]})
    space = Space.infer(table, columns=["a"])
    with pytest.raises(SpaceError, match="the space lacks a column of the model: 'b'"):
        build_layout(space.features, read_table(table), order=["a", "b"])


def test_a_column_that_the_table_lacks_is_named():
    with pytest.raises(SpaceError, match="the table lacks columns of the space: 'b'"):
        build_layout([Feature("b", (1, 2), True)], read_table(pd.DataFrame({"a": [1, 2]})))


def decoded(table, **domains):
    space = Space.infer(table, domains=domains)
    points = np.arange(space.sizes[0], dtype=np.int32)[:, None]
    return build_layout(space.features, read_table(table)).decode(points)


def test_declared_values_are_shown_to_the_model_unchanged():
    assert decoded(pd.DataFrame({"a": [1, 2]}), a=[1.5])["a"].tolist() == [1, 1.5, 2]
    assert decoded(np.array([[1], [2]], dtype=np.int8), x0=[300])[:, 0].tolist() == [1, 2, 300]
    assert decoded(np.array([[1], [2]], dtype=np.uint8), x0=[-1])[:, 0].tolist() == [-1, 1, 2]
    assert decoded(np.array([["a"], ["b"]]), x0=["long"])[:, 0].tolist() == ["a", "b", "long"]
    days = decoded(np.array([["2024-01-01"], ["2024-01-03"]], dtype="M8[D]"), x0=[datetime.date(2024, 1, 2)])
    assert days[:, 0].astype(str).tolist() == ["2024-01-01", "2024-01-02", "2024-01-03"]


@pytest.mark.parametrize("values", [[1, 2], [True, False]])
def test_a_declared_missing_value_reaches_the_model_as_missing(values):
    table = pd.DataFrame({"a": values})
    space = Space.infer(table, missing=["a"])
    assert build_layout(space.features, read_table(table)).decode(np.array([[2]]))["a"].isna().all()


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": pd.Categorical(["x", "y"])}),
        pl.DataFrame({"a": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y"]))}),
        pa.table({"a": pa.array([1, 2], pa.int8())}),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_a_domain_that_the_column_cannot_hold_is_refused(table):
    values = (1, 2, 1000) if isinstance(table, pa.Table) else ("x", "y", "z")
    with pytest.raises(SpaceError, match="domain of 'a' does not fit the type of column 'a': "):
        build_layout([Feature("a", values, ordered=False)], read_table(table))


def test_an_array_is_made_from_a_frame_for_models_fitted_without_names():
    table = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False]})
    space = Space.infer(table)
    layout = build_layout(space.features, read_table(table), as_array=True)
    assert layout.is_array
    np.testing.assert_array_equal(layout.decode(space.encode(table).points()), [[1, 0.5, 1], [2, 1.5, 0]])
    mixed = table.assign(d=["x", "y"], e=pd.to_datetime(["2024-01-01", "2024-01-02"]))
    space = Space.infer(mixed)
    matrix = build_layout(space.features, read_table(mixed), as_array=True).decode(space.encode(mixed).points())
    assert matrix[0, 3] == "x"
    assert matrix[1, 0] == 2


def test_an_integer_beyond_floats_survives_in_every_library():
    big = [2**53, 2**53 + 1, 2**62 + 1]
    for table in (pd.DataFrame({"a": big}), pl.DataFrame({"a": big}), pa.table({"a": big})):
        again = rebuild(table)
        assert again["a"].to_pylist() == big if isinstance(again, pa.Table) else list(again["a"]) == big
