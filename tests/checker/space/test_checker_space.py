"""The checker's own tables, spaces and layouts: the same features, codes and rows as the explainer's."""

from __future__ import annotations

import datetime
import doctest
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import ironrule.checker.space.space
import ironrule.checker.space.table
from ironrule.checker.space.layout import build_layout
from ironrule.checker.space.space import (
    CheckerFeature,
    CheckerSpace,
    infer_space,
    space_from_json,
    value_from_json,
    value_to_json,
)
from ironrule.checker.space.table import read_table
from ironrule.errors import InputError, SpaceError, TableError
from ironrule.space.feature import Feature
from ironrule.space.layout import build_layout as build_explainer_layout
from ironrule.space.space import Space
from ironrule.space.table import read_table as read_explainer_table
from random_tables import Columns, columns

DESCRIBED = (
    "name",
    "values",
    "ordered",
    "missing",
    "columns",
    "size",
    "missing_code",
    "last_code",
    "numeric",
    "naturally_ordered",
)


def describe(feature):
    types = [type(value) for value in feature.values]
    return [getattr(feature, name) for name in DESCRIBED], types, feature.describe()


def outcome(make):
    """What came out, or that it was refused."""
    try:
        return make()
    except InputError:
        return "refused"


def compare_tables(mine, theirs):
    """Whether two tables are the same to a model: library, columns, types, values, and kinds of missing."""
    assert type(mine) is type(theirs)
    if isinstance(mine, np.ndarray):
        assert mine.dtype == theirs.dtype
        assert list(map(repr, mine.ravel().tolist())) == list(map(repr, theirs.ravel().tolist()))
    elif isinstance(mine, pd.DataFrame):
        pd.testing.assert_frame_equal(mine, theirs, check_exact=True)
        for name in theirs.columns:
            assert mine[name].dtype == theirs[name].dtype
            assert list(map(repr, mine[name].tolist())) == list(map(repr, theirs[name].tolist()))
    elif isinstance(mine, pl.DataFrame):
        assert mine.schema == theirs.schema
        assert repr(mine.rows()) == repr(theirs.rows())
    else:
        assert mine.schema == theirs.schema
        assert repr(mine.to_pylist()) == repr(theirs.to_pylist())


def compare_spaces(table, chosen=None, infer=True):
    """Infer, encode and lay out a table by both, and compare it all; returns the checker's space, if there is any."""
    if infer:
        theirs = outcome(lambda: Space.infer(table, columns=chosen))
        mine = outcome(lambda: infer_space(table, columns=chosen))
    else:  # one that keeps columns that never change
        theirs = outcome(lambda: Space.infer(table, columns=chosen, constant="keep"))
        mine = theirs if isinstance(theirs, str) else space_from_json(json.loads(json.dumps(theirs.to_dict())))
    if isinstance(theirs, str):
        assert mine == theirs
        return None
    assert list(map(describe, mine.features)) == list(map(describe, theirs.features))
    assert mine.fingerprint == theirs.fingerprint
    assert mine.names == theirs.names
    assert mine.sizes.tolist() == theirs.sizes.tolist()
    codes = mine.encode(table)
    assert codes.dtype == np.int32
    assert codes.tolist() == theirs.encode(table).points().tolist()
    rng = np.random.default_rng(0)
    points = rng.integers(0, theirs.sizes, size=(20, len(theirs)), dtype=np.int32)
    order = [name for name in rng.permutation(theirs.columns).tolist() if rng.random() < 0.7]
    for as_array, chosen_order in ((False, None), (True, None), (False, order or None)):
        mine_at = build_layout(mine, read_table(table), as_array, chosen_order)
        theirs_at = build_explainer_layout(theirs.features, read_explainer_table(table), as_array, chosen_order)
        for some in (codes, points, points[:1]):
            compare_tables(mine_at(some), theirs_at.decode(some))
    return mine


@given(columns(), st.booleans())
@settings(max_examples=120, deadline=None)
def test_random_tables_of_every_library(drawn: Columns, infer: bool):
    for table in (drawn.pandas(), drawn.polars(), drawn.arrow()):
        compare_spaces(table, infer=infer)


@given(columns(kinds=("int", "float", "text", "flag", "day", "moment")), st.booleans())
@settings(max_examples=60, deadline=None)
def test_random_arrays_of_objects(drawn: Columns, infer: bool):
    compare_spaces(drawn.array(), infer=infer)


def rows_of(seed):
    """Seeded columns of every type that pandas has, by name."""
    rng, rows = np.random.default_rng(seed), 25
    town = rng.integers(0, 3, rows)

    def pick(*values):
        return [values[place] for place in rng.integers(0, len(values), rows)]

    def objects(*values):
        return pd.Series(pick(*values), dtype=object)

    day, moment = datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 12)
    ordered = pd.CategoricalDtype(["low", "mid", "high", "top"], ordered=True)
    return pd.DataFrame(
        {
            "int64": np.array(pick(-5, 3, 2**53 + 1, 2**62)),
            "int8": np.array(pick(-5, 3, 100), dtype=np.int8),
            "uint64": np.array(pick(1, 2**63, 2**64 - 1), dtype=np.uint64),
            "Int64": pd.array(pick(1, None, 2**53 + 1), dtype="Int64"),
            "UInt8": pd.array(pick(1, None, 255), dtype="UInt8"),
            "float": pick(0.1, -0.0, 0.0, 1e300),
            "nan": pick(0.1, np.nan, 3.0),
            "float32": np.array(pick(0.1, np.nan, 3.0), dtype=np.float32),
            "float16": np.array(pick(0.1, 3.0), dtype=np.float16),
            "Float64": pd.array(pick(0.1, None, 3.0), dtype="Float64"),
            "bool": np.array(pick(True, False)),
            "boolean": pd.array(pick(True, None, False), dtype="boolean"),
            "string": pd.array(pick("a", "b", None), dtype="string"),
            "str": pd.Series(pick("a", "é", "")),
            "object": objects("a", None, "b"),
            "object_nan": objects("a", np.nan, "b"),
            "object_na": objects("a", pd.NA, "b"),
            "object_none_and_nan": objects("a", None, np.nan, "b"),
            "object_bool": objects(True, None, False),
            "object_int": objects(1, None, 2**53 + 1),
            "object_mixed": objects(1, "a", 2.5, True),
            "object_numbers": objects(1, 2.5, np.int8(3), np.float32(0.1)),
            "object_days": objects(day, None, day + datetime.timedelta(1)),
            "object_moments": objects(day, moment, pd.NaT),
            "object_stamps": objects(pd.Timestamp(moment), None, pd.Timestamp(2020, 1, 1)),
            "datetime": pd.Series(pick(moment, pd.NaT, datetime.datetime(1999, 1, 1))),
            "datetime_ns": pd.Series(pick(moment, datetime.datetime(1999, 1, 1))).astype("datetime64[ns]"),
            "datetime_s": pd.Series(pick(moment, datetime.datetime(1999, 1, 1))).astype("datetime64[s]"),
            "ordered": pd.Categorical(pick("low", "high", None), dtype=ordered),
            "category": pd.Categorical(pick("b", "a", None)),
            "category_int": pd.Categorical(pick(3, 1, 2)),
            "category_ordered_int": pd.Categorical(pick(3, 1, 2), categories=[3, 2, 1, 0], ordered=True),
            "category_dates": pd.Categorical(pd.Series(pick(moment, datetime.datetime(1999, 1, 1)))),
            "category_bool": pd.Categorical(pick(True, False)),
            "arrow_int": pd.Series(pick(1, None, 2), dtype=pd.ArrowDtype(pa.int32())),
            "arrow_text": pd.Series(pick("x", None, "y"), dtype=pd.ArrowDtype(pa.string())),
            "arrow_day": pd.Series(pick(day, day + datetime.timedelta(3)), dtype=pd.ArrowDtype(pa.date32())),
            "arrow_bool": pd.Series(pick(True, None, False), dtype=pd.ArrowDtype(pa.bool_())),
            "town_a": (town == 0).astype(int),
            "town_b": (town == 1).astype(float),
            "town_c": (town == 2).astype(bool),
            "sort-a": rng.integers(0, 2, rows),
            "sort-b": rng.integers(0, 2, rows),
            "kind=": (town == 0).astype(np.int8),
            "kind=1": (town != 0).astype(np.uint8),
            "deep_er=x": (town == 0).astype(bool),
            "deep_er=y": (town != 0).astype(bool),
            "deep": pick(1, 2),
        }
    )


@pytest.mark.parametrize("seed", range(3))
def test_every_type_of_pandas(seed):
    table = rows_of(seed)
    features = compare_spaces(table).names
    assert {"town", "deep_er", "sort-a", "sort-b", "kind=", "kind=1"} <= set(features)
    assert len(set(rows_of(seed).dtypes.astype(str))) > 20
    for name in table.columns:
        compare_spaces(table, [name], infer=False)
        compare_spaces(table[[name]].to_numpy(), infer=False)


@pytest.mark.parametrize("seed", range(3))
def test_every_type_of_polars_and_arrow(seed):
    table = rows_of(seed)
    odd = ("object_m", "object_n", "object_s", "float16", "category_d")  # types that these libraries do not have
    chosen = [name for name in table.columns if not name.startswith(odd)]
    arrow = pa.Table.from_pandas(table[chosen])
    compare_spaces(arrow)
    compare_spaces(pl.from_arrow(arrow))
    grades = pl.Series("grade", ["low", "high", None, "low"], dtype=pl.Enum(["low", "mid", "high"]))
    numbers = pl.Series("n", [1.0, None, float("nan"), 2.0])
    nans = pl.Series("m", [1.0, float("nan"), float("nan"), 2.0], dtype=pl.Float32)
    frame = pl.DataFrame([grades, numbers, nans, grades.cast(pl.String).cast(pl.Categorical).alias("colour")])
    compare_spaces(frame)
    compare_spaces(frame.to_arrow())
    compare_spaces(frame.to_pandas())


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1, 2], [3, 4]], dtype=np.int16),
        np.array([[1.5, np.nan], [3, 4]], dtype=np.float32),
        np.array([[True, False], [False, True]]),
        np.array([["a", "bcd"], ["", "é"]]),
        np.array([["2024-01-01", "NaT"], ["2024-01-02", "2024-01-03"]], dtype="datetime64[D]"),
        np.array([["2024-01", "NaT"], ["2024-02", "2024-03"]], dtype="datetime64[M]"),
        np.array([["2024-01-01T10", "NaT"], ["2024-01-02T11", "2024-01-03T12"]], dtype="datetime64[ns]"),
        np.array([[2**63 + 1, 5], [2**63, 2**53 + 1]], dtype=np.uint64),
        np.array([[1, None], ["a", np.nan], [2.5, True]], dtype=object),
        np.array([[1, 2], [1, 3]]),
        np.array([[1.0, np.inf], [2.0, 3.0]]),
        pd.DataFrame({"a": [1.0, np.inf]}),
        pd.DataFrame({"a": pd.Categorical([1.0, np.inf])}),
        pd.DataFrame({"a": [None, None], "b": [1, 2]}),
        pd.DataFrame({"a": pd.Series([2**70, 1], dtype=object)}),
        pd.DataFrame({"a": [[1], [2]]}),
        pd.DataFrame({"a": pd.to_datetime(["2024-01-01"]).tz_localize("UTC")}),
        pd.DataFrame({"a": pd.to_datetime(["2024-01-01 00:00:00.000000001"])}),
        pd.DataFrame({f"f{place}": [0, 1] for place in range(129)}),
        pd.DataFrame({f"job_{place}": np.eye(200, dtype=int)[place] for place in range(200)}),
        pd.DataFrame({"job_a": [1, 0], "job_b": [0, 1], "job": ["x", "y"]}),
        pd.DataFrame({"job_a": ["1", "0"], "job_b": ["0", "1"]}),
        pd.DataFrame({"job_a": [1, None, 0], "job_b": [0, 1, 1]}),
        pd.DataFrame({"a_b_c": [1, 0], "a_b_d": [0, 1], "a_x": [1, 0], "a_y": [0, 1]}),
        pl.DataFrame({"a": [datetime.timedelta(1)]}),
        pa.table(
            {"a": pa.chunked_array([pa.array(["x", "y"]).dictionary_encode(), pa.array(["z"]).dictionary_encode()])}
        ),
    ],
    ids=str,
)
def test_particular_tables(table):
    compare_spaces(table)


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"a": []}),
        pl.DataFrame({"a": []}),
        np.empty((0, 2)),
        pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]),
        pd.DataFrame([[1, 2]]),
        {"a": [1]},
        [[1, 2]],
        pd.Series([1, 2]),
        pl.DataFrame({"a": [1]}).lazy(),
        np.ones(3),
        None,
        "data.csv",
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_is_no_table_is_refused(data):
    with pytest.raises(TableError, match="must"):
        read_table(data)


def test_columns_are_named_and_must_be_there():
    assert read_table(np.ones((2, 2)), names=["age", "income"]).names == ("age", "income")
    with pytest.raises(TableError, match=r"a column for each of 1 names, got shape \(2, 2\)"):
        read_table(np.ones((2, 2)), names=["age"])
    with pytest.raises(TableError, match=r"must have the column 'b', got columns 'a'$"):
        infer_space(pd.DataFrame({"a": [1, 2]}), columns=["b"])
    with pytest.raises(TableError, match=r"must have the column 'a', got columns 'b'$"):
        CheckerSpace((CheckerFeature("a", (1, 2), True),)).encode(pd.DataFrame({"b": [1, 2]}))


DOMAINS = [
    (1, 2, 3),
    (3, 1, 2),
    (0.5, 2.0),
    (0.1,),
    (2**53, 2**53 + 1),
    (2**63 - 1, 2**63, 2**63 + 2),
    ("a", "b"),
    (True, False),
    (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
    (datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 2, 1)),
]
COLUMNS = [
    pd.Series([1, 2, 3]),
    pd.Series([1.0, 2.0, np.nan]),
    pd.Series([1.0, 2.0]),
    pd.Series([2.0**53]),
    pd.Series([0.1], dtype=np.float32),
    pd.Series([2**63], dtype=np.uint64),
    pd.Series(["a", None], dtype=object),
    pd.Series(["1"]),
    pd.Series([True, False]),
    pd.Series([0, 1]),
    pd.Series([datetime.date(2024, 1, 2)], dtype=object),
    pd.Series(pd.to_datetime(["2024-01-02"])),
    pd.Series(pd.to_datetime(["2024-01-02 01:00"])),
    pd.Series([None, None], dtype="Int64"),
]


def test_declared_domains_take_the_same_tables():
    for values in DOMAINS:
        for column in COLUMNS:
            for missing in (False, True):
                table = pd.DataFrame({"f": column})
                space = CheckerSpace((CheckerFeature("f", values, True, missing),))
                mine = outcome(lambda: space.encode(table).tolist())  # noqa: B023
                whole = Space((Feature("f", values, True, missing),))
                theirs = outcome(lambda: whole.encode(table).points().tolist())  # noqa: B023
                assert mine == theirs, (values, column, missing)


def test_declared_domains_are_laid_out_alike():
    natives = [pd.DataFrame({"f": column}) for column in COLUMNS]
    natives += [table.to_numpy() for table in natives] + [pl.from_pandas(table) for table in natives]
    natives += [pa.Table.from_pandas(table) for table in natives[: len(COLUMNS)]]
    natives += [pd.DataFrame({"f": pd.Categorical(["a", "b"])}), np.array([["a"], ["long"]])]
    for values in DOMAINS:
        for missing in (False, True):
            whole, mine = Feature("f", values, True, missing), CheckerFeature("f", values, True, missing)
            points = np.arange(mine.size, dtype=np.int32)[:, None]
            for native in natives:
                mine_table = read_table(native, ["f"])
                theirs_table = read_explainer_table(native, ["f"] if isinstance(native, np.ndarray) else None)
                theirs = outcome(lambda: build_explainer_layout([whole], theirs_table).decode(points))  # noqa: B023
                got = outcome(lambda: build_layout(CheckerSpace((mine,)), mine_table)(points))  # noqa: B023
                if isinstance(theirs, str):
                    assert got == theirs
                else:
                    compare_tables(got, theirs)


def test_one_hot_groups_are_encoded_and_laid_out():
    feature = ("f", ("a", "b", "(none)"), False, False, ("f_a", "f_b"))
    space, whole = CheckerSpace((CheckerFeature(*feature),)), Space((Feature(*feature),))
    table = pd.DataFrame({"f_b": [1, 0, 0], "f_a": [False, True, False]})
    assert space.encode(table).tolist() == whole.encode(table).points().tolist() == [[1], [0], [2]]
    compare_tables(build_layout(space, read_table(table))(space.encode(table)), table)
    with pytest.raises(TableError, match="exactly one 1 per row, got none or several in 1 of 1 rows"):
        space.encode(pd.DataFrame({"f_a": [1], "f_b": [1]}))
    with pytest.raises(TableError, match="exactly one 1 per row, got none or several in 1 of 1 rows"):
        CheckerSpace((CheckerFeature("f", ("a", "b"), False, columns=("f_a", "f_b")),)).encode(
            pd.DataFrame({"f_a": [0], "f_b": [0]})
        )
    with pytest.raises(TableError, match="'f_a' must hold 0 and 1 only, got other values"):
        space.encode(pd.DataFrame({"f_a": [2], "f_b": [0]}))


def test_arrow_days_may_be_missing_in_pandas():
    days = pd.Series([datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 1)], dtype=pd.ArrowDtype(pa.date32()))
    table = pd.DataFrame({"a": days})
    space = infer_space(table)
    assert space.features == (CheckerFeature("a", (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)), True, True),)
    pd.testing.assert_frame_equal(build_layout(space, read_table(table))(space.encode(table)), table)


def test_columns_that_cannot_be_laid_out_are_named():
    table = read_table(pd.DataFrame({"a": [1, 2]}))
    space = CheckerSpace((CheckerFeature("a", (1, 2), True),))
    with pytest.raises(SpaceError, match=r"the space must have the column 'b', got columns \['a'\]"):
        build_layout(space, table, order=["a", "b"])
    with pytest.raises(SpaceError, match=r"the table must have the column 'b', got columns \['a'\]"):
        build_layout(CheckerSpace((CheckerFeature("b", (1, 2), True),)), table)


def test_values_outside_the_domain_are_shown():
    space = CheckerSpace((CheckerFeature("f", (1.0, 2.0), ordered=True),))
    with pytest.raises(TableError, match=r"'f' must be one of 1.0, 2.0, got .* such as missing, in 2 of 3 rows"):
        space.encode(pd.DataFrame({"f": [1.0, None, 5.0]}))
    with pytest.raises(TableError, match=r"got other values, such as 5.0, in 1 of 2 rows") as caught:
        space.encode(pd.DataFrame({"f": [1.0, 5.0]}))
    assert caught.value.code == "value-outside-domain"


def test_features_know_their_kind():
    assert CheckerFeature("f", (1, 2), True).whole
    assert not CheckerFeature("f", (1, 2.0), True).whole
    assert not CheckerFeature("f", (True, False), False).whole
    assert not CheckerFeature("f", (2, 1), True).naturally_ordered
    feature = CheckerFeature("f", (1, 2), True, True)
    assert [feature.value(code) for code in range(3)] == [1, 2, None]


@pytest.mark.parametrize(
    "fields",
    [
        ("f", (), True),
        ("f", (1, None), True),
        ("f", (1, float("nan")), True),
        ("f", (1, float("inf")), True),
        ("f", (1, 1.0), True),
        ("f", ([1],), True),
        ("f", ("a",), False, False, ("f_a", "f_b")),
        ("f", ("a", "b"), False, True, ("f_a", "f_b")),
        ("f", ("a", "b", "c"), True, False, ("f_a", "f_b")),
    ],
    ids=str,
)
def test_domains_that_make_no_sense_are_refused(fields):
    with pytest.raises(SpaceError, match="must"):
        CheckerFeature(*fields)


def test_features_must_have_names_of_their_own():
    with pytest.raises(SpaceError, match="must be unique, got 'a' twice"):
        CheckerSpace((CheckerFeature("a", (1,), True), CheckerFeature("a", (1,), True)))
    with pytest.raises(SpaceError, match="must be unique, got 'a' twice"):
        CheckerSpace((CheckerFeature("a", (1,), True), CheckerFeature("b", (1,), True, columns=("a",))))
    with pytest.raises(SpaceError, match="unknown feature 'c'; the features are a"):
        CheckerSpace((CheckerFeature("a", (1,), True),)).index("c")


def test_a_space_is_read_from_plain_data():
    whole = Space(
        (
            Feature("a", (1, 2.5), True, True, label="A", unit="kg"),
            Feature("d", (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)), True),
            Feature("t", (datetime.datetime(2024, 1, 1, 12),), True),
            Feature("job", ("cook", "clerk"), False, columns=("job_cook", "job_clerk")),
        ),
        ("cf.a > 1", "cf.d > '2024-01-01'"),
    )
    mine = space_from_json(json.loads(json.dumps(whole.to_dict())))
    assert mine.fingerprint == whole.fingerprint
    assert list(map(describe, mine.features)) == list(map(describe, whole.features))
    more = (*mine.constraints, "cf.job == 'cook'")
    assert replace(mine, constraints=more).fingerprint == replace(whole, constraints=more).fingerprint


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"features": []},
        {"features": {}},
        {"features": {"a": None}},
        {"features": {"a": {"kind": "ordered"}}},
        {"features": {"a": {"kind": "odd", "values": [1]}}},
        {"features": {"a": {"kind": "ordered", "values": [1], "missing": 1}}},
        {"features": {"a": {"kind": "ordered", "values": [1], "columns": "a"}}},
        {"features": {"a": {"kind": "ordered", "values": [1], "columns": [1]}}},
        {"features": {3: {"kind": "ordered", "values": [1]}}},
        {"features": {"a": {"kind": "ordered", "values": [{"date": "soon"}]}}},
        {"features": {"a": {"kind": "ordered", "values": [{"date": 3}]}}},
        {"features": {"a": {"kind": "ordered", "values": [[1]]}}},
        {"features": {"a": {"kind": "ordered", "values": [1]}}, "constraints": "cf.a > 1"},
        {"features": {"a": {"kind": "ordered", "values": [1]}}, "constraints": [3]},
    ],
    ids=str,
)
def test_plain_data_of_another_form_is_refused(document):
    with pytest.raises(InputError, match="must"):
        space_from_json(document)


@pytest.mark.parametrize(
    "value", [1, 0.5, "a", True, None, datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)]
)
def test_plain_values_come_back(value):
    again = value_from_json(json.loads(json.dumps(value_to_json(value))))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize("module", [ironrule.checker.space.space, ironrule.checker.space.table])
def test_the_examples_in_the_docstrings_run(module):
    assert doctest.testmod(module).failed == 0
