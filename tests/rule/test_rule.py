"""Rules on tables: covers, the pandas query, the SQL clause and the box in codes must all say the same."""

import datetime
import re
import sqlite3

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.errors import InputError, TableError
from ironrule.rule.instance_components import build_instance_components
from ironrule.rule.rule import Component, Rule
from ironrule.space.space import Space
from random_tables import Columns, columns

ODD_NAMES = [
    "age", "two words", "it's", 'say "hi"', "naïve", "收入", "class", "and", "in", "None", "True", "index", "1st",
    "a.b", "a-b", "#1", "50%", "@x", "x@y", "$", "a\\b", "(a)", "a\tb", " lead", "sin", "inf", "nan", "list", "e",
    "is na", "?", "'", '"', "é\u0301", "😀", "_", "__", "columns", "datetime", "Timestamp", "self", "\n", "a,b",
    "a=b", "a:b", "ilevel_0",
]  # fmt: skip
KINDS = ("int", "small", "float", "single", "text", "plain", "flag", "moment", "colour", "grade")
TABLES = columns(kinds=KINDS, names=st.sampled_from(ODD_NAMES) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="`\0"), min_size=1, max_size=5
))  # fmt: skip


PANDAS_CAN_QUOTE = re.compile(r"(?!(?:inf|Inf|datetime|True|False)$)[ -_a-~]+")


def by_sql(table: pd.DataFrame, clause: str) -> list[bool]:
    """Which rows a WHERE clause selects in SQLite."""
    named = ['"' + name.replace('"', '""') + '"' for name in table.columns]
    rows = [[_stored(value) for value in row] for row in table.astype(object).itertuples(index=False, name=None)]
    with sqlite3.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE t (__row INTEGER, {', '.join(named)})")
        marks = ", ".join("?" * (len(named) + 1))
        connection.executemany(f"INSERT INTO t VALUES ({marks})", [[place, *row] for place, row in enumerate(rows)])
        found = {place for (place,) in connection.execute(f"SELECT __row FROM t WHERE {clause}")}
    connection.close()
    return [place in found for place in range(len(table))]


def _stored(value):
    if value is None or value is pd.NA or value != value:
        return None
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return value.item() if isinstance(value, np.generic) else value


def by_query(table: pd.DataFrame, query: str) -> list[bool]:
    numbered = table.set_index(pd.RangeIndex(len(table)))
    return numbered.index.isin(numbered.query(query).index).tolist()


@given(TABLES, st.data())
@settings(max_examples=120, deadline=None)
def test_covers_query_sql_and_box_agree(drawn: Columns, data):
    table = drawn.pandas()
    space = Space.infer(table, constant="keep", one_hot=None)
    points = space.encode(table).points()
    instance = points[data.draw(st.integers(0, len(points) - 1))]
    components = build_instance_components(space, instance)
    bits = sum(1 << bit for bit in components.usable_numbers if data.draw(st.booleans()))
    rule = components.rule(bits, "denied")
    inside = components.box(bits).contains(points).tolist()
    assert rule.covers(table).tolist() == inside
    assert rule.covers(drawn.polars()).tolist() == inside
    assert rule.covers(drawn.arrow()).tolist() == inside
    if all(PANDAS_CAN_QUOTE.fullmatch(component.column) for component in rule.components):
        assert by_query(table, rule.to_query()) == inside
    if "__row" not in table.columns and len({name.lower() for name in table.columns}) == len(table.columns):
        assert by_sql(table, rule.to_sql()) == inside
    assert Rule.from_dict(rule.to_dict()) == rule


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=20), st.data())
@settings(max_examples=60, deadline=None)
def test_they_agree_on_one_hot_groups_with_and_without_an_order(rows, data):
    job, grade = np.array(rows).T
    hot = {f"job {name}": (job == code).astype(int) for code, name in enumerate(("cook", "clerk", "it's"))}
    table = pd.DataFrame(hot | {f"grade_{code}": (grade == code).astype(int) for code in range(3)})
    document = {
        "job": {"columns": list(hot), "values": ["cook", "clerk", "it's", "none"]},
        "grade": {"columns": [f"grade_{c}" for c in range(3)], "values": ["c", "b", "a"], "kind": "ordered"},
    }
    space = Space.from_dict({"features": document})
    points = space.encode(table).points()
    assert points.tolist() == [list(row) for row in rows]
    components = build_instance_components(space, points[0])
    bits = sum(1 << bit for bit in components.usable_numbers if data.draw(st.booleans()))
    rule = components.rule(bits, "denied")
    inside = components.box(bits).contains(points).tolist()
    assert rule.covers(table).tolist() == inside
    assert by_query(table, rule.to_query()) == inside
    assert by_sql(table, rule.to_sql()) == inside
    assert Rule.from_dict(rule.to_dict()) == rule


def test_days_agree_in_every_library():
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1), None]
    table = Columns({"since": "day"}, {"since": days})
    rule = Rule((Component("since", ">=", days[1]),))
    for made in (table.pandas(), table.polars(), table.arrow(), pd.DataFrame({"since": pd.to_datetime(days)})):
        assert rule.covers(made).tolist() == [False, True, False]
    assert by_query(pd.DataFrame({"since": pd.to_datetime(days)}), rule.to_query()) == [False, True, False]


def test_the_empty_rule_covers_everything():
    table = pd.DataFrame({"index": [1.0, None], "a": [1, 2]})
    rule = Rule(())
    assert rule.covers(table).tolist() == [True, True]
    assert by_query(table, rule.to_query()) == [True, True]
    assert by_sql(table, rule.to_sql()) == [True, True]
    assert str(rule) == "Everyone gets: the undesired outcome."
    assert (rule.cardinality, len(rule), rule.features) == (0, 0, ())


def test_a_rule_reads_as_a_sentence():
    rule = Rule(
        (
            Component("income", "<=", 500.0),
            Component("age", "<=", 30),
            Component("age", ">=", 30),
            Component("job", "==", "it's"),
            Component("debt", "==", None),
            Component("since", ">=", datetime.date(2024, 1, 1)),
        ),
        "denied",
    )
    assert str(rule) == (
        'Everyone with income <= 500 and age = 30 and job = "it\'s" and debt = missing and since >= 2024-01-01 '
        "gets: denied."
    )
    assert rule.features == ("income", "age", "job", "debt", "since")
    assert rule.cardinality == 6


def test_a_rule_is_a_value():
    one, other = (Rule((Component("a", "<=", 1),), "denied") for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)


def test_a_table_without_a_column_of_the_rule_is_refused():
    with pytest.raises(TableError, match="must have the column 'b', got columns 'a'"):
        Rule((Component("b", "<=", 1),)).covers(pd.DataFrame({"a": [1]}))
    hot = Component("job", "==", "cook", one_hot_columns=(("job_cook", 1),))
    with pytest.raises(TableError, match="must have the column 'job_cook'"):
        Rule((hot,)).covers(pd.DataFrame({"a": [1]}))


@pytest.mark.parametrize("column", [["x", "y"], np.array([["x"], ["y"]]), pd.to_datetime(["2024-01-01"] * 2)])
def test_an_order_on_what_is_no_number_is_refused(column):
    rule = Rule((Component("x0", "<=", 1),))
    with pytest.raises(TableError, match="'x0' must hold numbers for x0 <= 1, got"):
        rule.covers(column if isinstance(column, np.ndarray) else pd.DataFrame({"x0": column}))


@pytest.mark.parametrize("name", ["a`b", "a\nb", "\t", "inf", "datetime", "True", "ﬁ", "é\u0301"])
def test_a_column_name_that_pandas_cannot_quote_is_refused(name):
    with pytest.raises(InputError, match=r"must be one that a pandas query can quote, got .*; use covers\(\)"):
        Rule((Component(name, "<=", 1),)).to_query()


@pytest.mark.parametrize(
    "name", [name for name in ODD_NAMES if name.isprintable() and name not in ("inf", "datetime", "True", "é\u0301")]
)
def test_odd_column_names_are_quoted(name):
    table = pd.DataFrame({name: [1.0, 2.0, None]})
    for component in (Component(name, "<=", 1.0), Component(name, "==", None)):
        rule = Rule((component,))
        assert by_query(table, rule.to_query()) == by_sql(table, rule.to_sql()) == rule.covers(table).tolist()


def test_a_rule_for_an_array_is_applied_by_the_names_of_its_columns():
    rule = Rule((Component("x1", ">=", 2),))
    assert rule.covers(np.array([[1, 1], [1, 2]])).tolist() == [False, True]
