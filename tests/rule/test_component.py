"""Components: what they admit, in every form, and back from plain data."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ironrule.errors import InputError
from ironrule.rule.rule import Component
from ironrule.space.feature import Feature
from ironrule.wording import format_value

TABLE = pd.DataFrame({"f": [3, 1, 2]})


def test_an_ordered_number_compares_and_a_declared_order_lists():
    natural = Component.from_feature(Feature("f", (1, 2, 3), ordered=True), "<=", 2)
    assert natural.allowed is None
    assert natural.covers(TABLE).tolist() == [False, True, True]
    declared = Component.from_feature(Feature("f", (3, 1, 2), ordered=True), "<=", 1)
    assert declared.allowed == (3, 1)
    assert declared.covers(TABLE).tolist() == [True, True, False]
    assert TABLE.query(declared.to_query())["f"].tolist() == [3, 1]
    assert declared.to_sql() == '"f" IN (3, 1)'


def test_an_ordered_pandas_category_of_numbers_compares():
    table = pd.DataFrame({"f": pd.Categorical([3, 1, 2], categories=[1, 2, 3], ordered=True)})
    component = Component.from_feature(Feature("f", (1, 2, 3), ordered=True), ">=", 2)
    assert component.covers(table).tolist() == [True, False, True]


def test_ordered_booleans_and_texts_list_what_they_admit():
    flag = Component.from_feature(Feature("f", (False, True), ordered=True), ">=", True)
    assert flag.covers(pd.DataFrame({"f": [True, False]})).tolist() == [True, False]
    grade = Component.from_feature(Feature("f", ("low", "middle", "high"), ordered=True), ">=", "middle")
    assert grade.allowed == ("middle", "high")
    assert grade.covers(pl.DataFrame({"f": ["low", "high", None]})).tolist() == [False, True, False]
    assert grade.to_query() == "f in ['middle', 'high']"


def test_missing_satisfies_only_the_component_that_asks_for_it():
    table = pd.DataFrame({"f": [1.0, None]})
    for component, expected in (
        (Component("f", "<=", 5), [True, False]),
        (Component("f", ">=", 0), [True, False]),
        (Component("f", "==", 1), [True, False]),
        (Component("f", "==", None), [False, True]),
    ):
        assert component.covers(table).tolist() == expected
        assert table.index.isin(table.query(component.to_query()).index).tolist() == expected


def test_an_all_missing_column_satisfies_no_order():
    for values in ([None, None], [np.nan, np.nan], pd.to_datetime([None, None])):
        table = pd.DataFrame({"f": values})
        assert not Component("f", "<=", 5).covers(table).any()
        assert not Component("f", "<=", datetime.date(2024, 1, 1)).covers(table).any()


def test_large_whole_numbers_are_compared_exactly():
    table = pd.DataFrame({"f": [2**53, 2**53 + 1]})
    assert Component("f", "==", 2**53 + 1).covers(table).tolist() == [False, True]
    assert Component("f", "<=", 2**53).covers(table).tolist() == [True, False]


def test_a_renamed_column_is_used_in_tables_and_the_feature_in_sentences():
    component = Component.from_feature(Feature("Income", (1, 2), True, columns=("INC",)), "<=", 1)
    assert component.covers(pd.DataFrame({"INC": [1, 2]})).tolist() == [True, False]
    assert (component.to_query(), component.to_sql(), str(component)) == ("INC <= 1", '"INC" <= 1', "Income = 1")


JOB = Feature("job", ("cook", "clerk", "none"), ordered=False, columns=("job_cook", "job_clerk"))
GRADE = Feature("grade", ("c", "b", "a"), ordered=True, columns=("g_c", "g_b", "g_a"))


@pytest.mark.parametrize(
    ("feature", "op", "value", "pattern"),
    [
        (JOB, "==", "clerk", (("job_clerk", 1),)),
        (JOB, "==", "none", (("job_cook", 0), ("job_clerk", 0))),
        (GRADE, "<=", "b", (("g_a", 0),)),
        (GRADE, ">=", "b", (("g_c", 0),)),
    ],
)
def test_one_hot_components_are_patterns_of_zeros_and_ones(feature, op, value, pattern):
    assert Component.from_feature(feature, op, value).one_hot_columns == pattern


@pytest.mark.parametrize(
    "component",
    [
        Component("f", "<=", 1.5),
        Component("f", "==", None),
        Component("f", "==", True),
        Component("f", ">=", datetime.date(2024, 1, 1)),
        Component("f", ">=", datetime.datetime(2024, 1, 1, 2, 3)),
        Component("f", "<=", 2, "column", allowed=(1, 2)),
        Component("f", "<=", datetime.date(2024, 1, 1), allowed=(datetime.date(2024, 5, 1), datetime.date(2024, 1, 1))),
        Component("job", "==", "none", one_hot_columns=(("a", 0), ("b", 0))),
    ],
    ids=str,
)
def test_components_survive_plain_data(component):
    assert Component.from_dict(component.to_dict()) == component


@pytest.mark.parametrize("data", [{}, {"feature": "f", "op": "<", "value": 1}, {"feature": "f", "op": "<="}])
def test_plain_data_that_is_no_component_is_refused(data):
    with pytest.raises(InputError, match="a component must have a feature, an op of <=, >= or == and a value"):
        Component.from_dict(data)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "missing"),
        (3.0, "3"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (True, "True"),
        ("x", "'x'"),
        (datetime.date(2024, 1, 2), "2024-01-02"),
        (datetime.datetime(2024, 1, 2, 3), "2024-01-02T03:00:00"),
    ],
)
def test_values_are_shown_as_a_person_reads_them(value, text):
    assert format_value(value) == text
    assert str(Component("f", "==", value)) == f"f = {text}"


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        ("it's", "'it''s'"),
        (True, "TRUE"),
        (-1.5, "-1.5"),
        (datetime.date(2024, 1, 2), "'2024-01-02'"),
        (datetime.datetime(2024, 1, 2, 3), "'2024-01-02 03:00:00'"),
    ],
)
def test_values_and_names_are_quoted_in_sql(value, sql):
    assert Component('a "b"', "==", value).to_sql() == f'"a ""b""" = {sql}'
    assert Component("f", "==", None).to_sql() == '"f" IS NULL'
