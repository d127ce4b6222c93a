"""From a table to a space: kinds, domains, one-hot groups, and the same space from every library."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

from ironrule.errors import SpaceError, TableError
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from random_tables import Columns, columns

HOT = {"job_cook": [1, 0, 0], "job_clerk": [0, 1, 0], "job_judge": [0, 0, 1]}


def kinds(space):
    return [(f.name, f.values, f.ordered, f.missing) for f in space.features]


@given(columns())
@settings(max_examples=100, deadline=None)
def test_the_same_data_gives_the_same_space_in_every_library(drawn: Columns):
    spaces = [Space.infer(t, constant="keep") for t in (drawn.pandas(), drawn.polars(), drawn.arrow())]
    assert kinds(spaces[0]) == kinds(spaces[1]) == kinds(spaces[2])
    assert len({space.fingerprint for space in spaces}) == 1
    for feature in spaces[0].features:
        assert set(feature.values) == {v for v in drawn.values[feature.name] if v is not None}
        assert feature.missing == (None in drawn.values[feature.name])


@given(columns(kinds=("int", "float", "text", "flag", "day", "moment")))
@settings(max_examples=100, deadline=None)
def test_an_object_array_gives_the_same_space_as_a_frame(drawn: Columns):
    names = list(drawn.kinds)
    of_array, of_frame = (
        Space.infer(drawn.array(), names=names, constant="keep"),
        Space.infer(drawn.polars(), constant="keep"),
    )
    for one, other in zip(of_array.features, of_frame.features, strict=True):
        assert (one.values, one.missing) == (other.values, other.missing)
        assert one.ordered == other.ordered or not one.values  # an object array that is all missing has no type


def test_numbers_and_dates_are_ordered_and_all_else_is_nominal():
    table = pd.DataFrame(
        {
            "int": [2, 1],
            "float": [0.5, 0.25],
            "time": pd.to_datetime(["2024-01-02", "2024-01-01"]),
            "day": pd.Series([datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)], dtype=object),
            "text": ["b", "a"],
            "flag": [True, False],
            "colour": pd.Categorical(["b", "a"]),
            "number as category": pd.Categorical([2, 1]),
        }
    )
    space = Space.infer(table)
    assert [feature.name for feature in space.features if feature.ordered] == ["int", "float", "time", "day"]
    assert space["int"].values == (1, 2)
    assert space["flag"].values == (False, True)
    assert space["day"].values == (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2))
    assert space["time"].values[0] == datetime.datetime(2024, 1, 1)


def test_a_declared_order_of_categories_is_kept_with_the_values_seen():
    grades = ["low", "middle", "high"]
    pandas = pd.DataFrame({"g": pd.Categorical(["high", "low"], categories=grades, ordered=True)})
    polars = pl.DataFrame({"g": pl.Series(["high", "low"], dtype=pl.Enum(grades))})
    arrow = pa.Table.from_pandas(pandas)
    for table in (pandas, polars, arrow):
        assert kinds(Space.infer(table)) == [("g", ("low", "high"), True, False)]


def test_ordered_gives_categories_their_order_and_may_list_more():
    table = pd.DataFrame({"g": ["high", "low", None]})
    assert kinds(Space.infer(table, ordered={"g": ["low", "middle", "high"]})) == [
        ("g", ("low", "middle", "high"), True, True)
    ]
    with pytest.raises(SpaceError, match="the order of 'g' does not list 'high', which is in the table"):
        Space.infer(table, ordered={"g": ["low", "middle"]})


def test_nominal_takes_the_order_away():
    assert not Space.infer(pd.DataFrame({"zip": [8001, 8002]}), nominal=["zip"])["zip"].ordered


def test_domains_add_to_the_values_seen():
    table = pd.DataFrame({"a": [1, 5], "b": ["x", "y"], "c": np.array([0.5, 1.5], dtype=np.float32)})
    space = Space.infer(table, domains={"a": np.arange(1, 4), "b": ["z"], "c": [0.1]})
    assert space["a"].values == (1, 2, 3, 5)
    assert all(type(value) is int for value in space["a"].values)
    assert space["b"].values == ("x", "y", "z")
    assert space["c"].values[0] == np.float32(0.1)
    with pytest.raises(SpaceError, match="the domain of 'c' must fit the type of its column, float32"):
        Space.infer(table, domains={"c": ["much"]})


def test_days_declared_for_a_column_of_times_are_times():
    table = pd.DataFrame({"t": pd.to_datetime(["2024-01-01", "2024-01-03"])})
    space = Space.infer(table, domains={"t": [datetime.date(2024, 1, 2)]})
    assert space["t"].values == tuple(datetime.datetime(2024, 1, day) for day in (1, 2, 3))


def test_nan_none_and_na_are_one_missing_value():
    table = pd.DataFrame({"a": pd.Series(["x", None, np.nan, pd.NA, "y"], dtype=object)})
    assert kinds(Space.infer(table)) == [("a", ("x", "y"), False, True)]
    assert kinds(Space.infer(pl.DataFrame({"a": [1.0, None, float("nan")]}))) == [("a", (1.0,), True, True)]


def test_missing_may_be_declared():
    assert Space.infer(pd.DataFrame({"a": [1, 2]}), missing=["a"])["a"].missing


def test_minus_zero_and_zero_are_one_value():
    assert Space.infer(pd.DataFrame({"a": [-0.0, 0.0, 1.0]}))["a"].values == (0.0, 1.0)


def test_whole_numbers_beyond_floats_stay_apart():
    assert Space.infer(pd.DataFrame({"a": [2**53, 2**53 + 1]}))["a"].values == (2**53, 2**53 + 1)
    nullable = pd.DataFrame({"a": pd.array([2**53, 2**53 + 1, None], dtype="Int64")})
    assert kinds(Space.infer(nullable)) == [("a", (2**53, 2**53 + 1), True, True)]


def test_infinity_is_refused_by_column():
    with pytest.raises(TableError, match="finite, got infinity in column 'a'; replace it"):
        Space.infer(pd.DataFrame({"a": [1.0, np.inf]}))
    with pytest.raises(SpaceError, match="'a' must have finite numbers, got infinity"):
        Space.infer(pd.DataFrame({"a": [1.0, 2.0]}), domains={"a": [np.inf]})


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_constant_and_all_missing_columns_are_features_unless_refused(library):
    table = library({"same": [1, 1], "never": [None, None], "good": [1, 2]})
    with pytest.raises(TableError, match=r"one value, or only missing ones, in 'same', 'never'; ") as caught:
        Space.infer(table, constant="refuse")
    assert caught.value.code == "constant-column"
    space = Space.infer(table)
    assert space["same"].size == space["never"].size == 1
    assert space.encode(table).points().tolist() == [[0, 0, 0], [0, 0, 1]]


def test_a_constant_column_with_a_declared_domain_is_no_constant():
    assert Space.infer(pd.DataFrame({"a": [1, 1]}), domains={"a": [2]})["a"].values == (1, 2)


@pytest.mark.parametrize("hint", ["nominal", "ordered", "domains", "missing"])
def test_a_hint_must_name_a_column(hint):
    value = {"b": [1]} if hint in ("ordered", "domains") else ["b"]
    with pytest.raises(SpaceError, match="must name columns of the table, got 'b'; the columns are a"):
        Space.infer(pd.DataFrame({"a": [1, 2]}), **{hint: value})


def test_only_the_chosen_columns_are_read():
    table = pd.DataFrame({"a": [1, 2], "target": [[1], [2]]})
    assert Space.infer(table, columns=["a"]).names == ("a",)
    with pytest.raises(TableError, match="must have the column 'b', got columns 'a', 'target'"):
        Space.infer(table, columns=["b"])


@pytest.mark.parametrize("separator", ["_", "=", ":", ".", "-"])
def test_one_hot_groups_are_detected_by_prefix(separator):
    table = pd.DataFrame({name.replace("_", separator): values for name, values in HOT.items()} | {"age": [1, 2, 3]})
    job = Space.infer(table)["job"]
    assert (job.values, job.ordered) == (("cook", "clerk", "judge"), False)
    assert job.columns == tuple(table.columns[:3])


@pytest.mark.parametrize("kind", [int, float, bool])
def test_one_hot_groups_are_detected_in_every_library_and_type(kind):
    data = {name: [kind(value) for value in values] for name, values in HOT.items()}
    frame = pd.DataFrame(data)
    for table in (frame, pl.DataFrame(data), pa.table(data)):
        assert Space.infer(table).names == ("job",)
    assert Space.infer(frame.to_numpy(), names=list(HOT)).names == ("job",)


@pytest.mark.parametrize(
    "rows",
    [
        {"job_a": [1, 1], "job_b": [0, 1]},
        {"job_a": [1, 0], "job_b": [0, 0]},
        {"job_a": [1, 2], "job_b": [0, 1]},
        {"job_a": [1, None], "job_b": [0, 1]},
        {"job_a": ["1", "0"], "job_b": ["0", "1"]},
    ],
    ids=["two ones", "no one", "a two", "missing", "text"],
)
def test_columns_that_are_not_exclusive_stay_apart(rows):
    assert Space.infer(pd.DataFrame(rows), constant="keep").names == ("job_a", "job_b")


def test_detection_leaves_a_group_alone_whose_name_is_a_column():
    table = pd.DataFrame(HOT | {"job": ["x", "y", "z"]})
    assert Space.infer(table).names == (*HOT, "job")


def test_a_declared_group_may_have_rows_of_zeros_which_are_a_value():
    table = pd.DataFrame({"cook": [1, 0, 0], "clerk": [0, 1, 0]})
    space = Space.infer(table, one_hot={"job": ["cook", "clerk"]})
    assert space["job"].values == ("cook", "clerk", "(none)")
    assert space.encode(table).points().ravel().tolist() == [0, 1, 2]


def test_a_group_is_not_detected_when_detection_is_off():
    assert Space.infer(pd.DataFrame(HOT), one_hot=None).names == tuple(HOT)


def test_labels_lose_the_prefix_only_with_its_separator():
    table = pd.DataFrame({"jobless": [1, 0], "jobfull": [0, 1]})
    assert Space.infer(table, one_hot={"job": ["jobless", "jobfull"]})["job"].values == ("jobless", "jobfull")
    table = pd.DataFrame({"job_a": [1, 0], "a": [0, 1]})
    assert Space.infer(table, one_hot={"job": ["job_a", "a"]})["job"].values == ("job_a", "a")


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ({"job": ["job_a"]}, SpaceError, "two or more columns"),
        ({"job": ["job_a", "job_x"]}, SpaceError, r"got \['job_x'\]"),
        ({"age": ["job_a", "job_b"]}, SpaceError, "one-hot group 'age' has the same name as a column"),
        (
            {"one": ["job_a", "job_b"], "two": ["job_b", "job_c"]},
            SpaceError,
            "column names must be unique, got 'job_b' more than once",
        ),
        ({"job": ["job_a", "job_c"]}, TableError, "'job' must be exclusive, got several 1s in 1 row"),
        ({"job": ["job_a", "age"]}, TableError, "'age' must hold 0 and 1 only"),
    ],
)
def test_a_declared_group_must_make_sense(groups, error, message):
    table = pd.DataFrame({"job_a": [1, 0], "job_b": [0, 1], "job_c": [1, 0], "age": [20, 30]})
    with pytest.raises(error, match=message):
        Space.infer(table, one_hot=groups)


def test_a_space_is_as_wide_as_the_table_and_a_group_counts_as_one():
    wide = pd.DataFrame(np.tile([[0], [1]], 1200), columns=[f"f{j}" for j in range(1200)])
    space = Space.infer(wide)
    assert len(space) == 1200
    assert space.size == 2**1200
    assert repr(space) == "Space(1,200 features: 1200 ordered, 0 nominal; 10^361 points)"
    assert space.encode(wide).points().tolist() == wide.to_numpy().tolist()
    hot = pd.DataFrame({f"job_{j}": np.eye(200, dtype=int)[j] for j in range(200)})
    assert Space.infer(hot).features == (
        Feature("job", tuple(map(str, range(200))), ordered=False, columns=tuple(hot.columns)),
    )
