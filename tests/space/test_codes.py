"""Codes: the smallest types, exact look-ups, and tables that do not fit."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.errors import TableError
from ironrule.space.codes import EncodedTable, look_up_codes
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from random_tables import Columns, columns


@given(columns())
@settings(max_examples=100, deadline=None)
def test_codes_stand_for_the_values_of_the_table(drawn: Columns):
    for table in (drawn.pandas(), drawn.polars(), drawn.arrow()):
        space = Space.infer(table, constant="keep")
        points = space.encode(table).points()
        decoded = [space.decode_row(point) for point in points]
        assert decoded == [
            dict(zip(drawn.values, row, strict=True)) for row in zip(*drawn.values.values(), strict=True)
        ]
        assert all(space.encode_row(row).tolist() == point.tolist() for row, point in zip(decoded, points, strict=True))


@pytest.mark.parametrize(
    ("values", "kind"), [(255, np.uint8), (256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)]
)
def test_codes_take_the_smallest_type(values, kind):
    table = np.arange(values)[:, None]
    codes = Space.infer(table).encode(table)
    assert codes.columns[0].dtype == kind
    assert codes.columns[0].tolist() == list(range(values))


def test_missing_counts_towards_the_type():
    table = np.append(np.arange(256.0), np.nan)[:, None]
    assert Space.infer(table).encode(table).columns[0].dtype == np.uint16


@given(st.lists(st.integers(2**53 - 2, 2**53 + 6) | st.integers(2**63 - 2, 2**63 + 2), min_size=1, unique=True))
def test_large_unsigned_numbers_are_told_apart(values):
    feature = Feature("f", tuple(sorted(values)), ordered=True)
    assert look_up_codes(feature, np.array(values, dtype=np.uint64)).tolist() == [
        feature.values.index(v) for v in values
    ]


def test_numbers_of_different_types_are_compared_exactly():
    whole = Feature("f", (2**53, 2**53 + 1), ordered=True)
    assert look_up_codes(whole, np.array([2.0**53])).tolist() == [0]
    assert look_up_codes(whole, np.array([2**53 + 1, 2**53 + 2])).tolist() == [1, -1]
    assert look_up_codes(Feature("f", (0.5, 2.0), ordered=True), np.array([2, 1])).tolist() == [1, -1]
    assert look_up_codes(Feature("f", (3, 1, 2), ordered=True), np.array([1, 2, 3, 4])).tolist() == [1, 2, 0, -1]
    assert look_up_codes(Feature("f", (0.1,), ordered=True), np.array([0.1], dtype=np.float32)).tolist() == [-1]


def test_days_and_times_meet_at_midnight():
    days = Feature("f", (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)), ordered=True)
    times = np.array(["2024-01-02T00:00", "2024-01-02T01:00", "NaT"], dtype="datetime64[us]")
    assert look_up_codes(days, times).tolist() == [1, -1, -1]
    moments = Feature("f", (datetime.datetime(2024, 1, 2),), ordered=True)
    assert look_up_codes(moments, np.array(["2024-01-02", "2024-01-03"], dtype="datetime64[D]")).tolist() == [0, -1]


@pytest.mark.parametrize(
    ("feature", "column"),
    [
        (Feature("f", ("a", "b"), ordered=False), pd.to_datetime(["2024-01-01"])),
        (Feature("f", ("a", "b"), ordered=False), [1]),
        (Feature("f", (1, 2), ordered=True), ["1"]),
        (Feature("f", (1, 2), ordered=True), [3]),
        (Feature("f", (datetime.date(2024, 1, 1),), ordered=True), [1]),
    ],
)
def test_values_outside_the_domain_are_counted_and_shown(feature, column):
    with pytest.raises(
        TableError, match=r"'f' must be one of .*, got other values in 1 row \(.*extend the dom"
    ) as caught:
        Space((feature,)).encode(pd.DataFrame({"f": column}))
    assert caught.value.code == "value-outside-domain"


def test_missing_values_must_be_declared():
    space = Space((Feature("f", (1.0, 2.0), ordered=True),))
    with pytest.raises(TableError, match="'f' cannot be missing in this space, got missing values in 2 rows; declare"):
        space.encode(pd.DataFrame({"f": [1.0, None, np.nan]}))


def test_one_hot_columns_must_have_one_1():
    space = Space((Feature("f", ("a", "b"), ordered=False, columns=("f_a", "f_b")),))
    for rows in ({"f_a": [1, 0], "f_b": [0, 0]}, {"f_a": [1, 1], "f_b": [0, 1]}):
        with pytest.raises(TableError, match="'f' must have exactly one 1 per row, got none or several in 1 row"):
            space.encode(pd.DataFrame(rows))


def test_rows_are_taken_and_found_in_boxes():
    codes = EncodedTable((np.array([0, 1, 2], dtype=np.uint8), np.array([2, 1, 0], dtype=np.uint8)))
    assert codes.take(np.array([True, False, True])).points().tolist() == [[0, 2], [2, 0]]
    assert codes.points(slice(1, 2)).tolist() == [[1, 1]]
    inside = codes.flag_inside(np.array([1, 0]), np.array([2, 1]), [3, 3])
    assert inside.tolist() == [False, True, True]
    assert sum(column.nbytes for column in codes.columns) == 6
