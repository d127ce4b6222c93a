"""The space: rows in and out, names, fingerprints, and domains that grow."""

import datetime
import pickle
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from ironrule.errors import ConstraintError, InputError, SpaceError, TableError
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.space.table import read_table

DAY, TIME = datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3)
AGE = Feature("age", (20, 30, 40), ordered=True, missing=True)
JOB = Feature("job", ("cook", "clerk"), ordered=False, columns=("job_cook", "job_clerk"))
SINCE = Feature("since", (datetime.date(2024, 1, 1), DAY), ordered=True)
GRADE = Feature("grade", ("low", "high"), ordered=True)
RENAMED = Feature("Income", (1, 2), ordered=True, columns=("INC_01",))
SPACE = Space((AGE, JOB, SINCE, GRADE, RENAMED))
ROW = {"age": 30, "job": "clerk", "since": DAY, "grade": "low", "Income": 2}
CODES = [1, 1, 1, 0, 1]


def test_a_row_may_be_given_by_feature_or_by_column():
    assert SPACE.encode_row(ROW).tolist() == CODES
    columns = {"age": 30, "job_cook": 0, "job_clerk": 1, "since": DAY, "grade": "low", "INC_01": 2}
    assert SPACE.encode_row(columns).tolist() == CODES
    assert SPACE.decode_row(SPACE.encode_row(columns)) == ROW


def test_what_else_the_table_has_is_ignored_even_under_a_features_name():
    columns = {"age": 30, "job_cook": 0, "job_clerk": 1, "since": DAY, "grade": "low", "INC_01": 2}
    other = columns | {"job": "unrelated", "Income": "unrelated", "target": 1}
    assert SPACE.encode_row(other, ignore=["age", "job", "Income", "target"]).tolist() == CODES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"age": 35},
            r"'age' must be one of 20, 30, 40 or missing, got 35; extend the domain: .*space\.extend_domains\(row\)",
        ),
        ({"age": "30"}, "'age' must be a number, got '30'"),
        ({"age": True}, "'age' must be a number, got True"),
        ({"grade": 1}, "'grade' must be a string, one of 'low', 'high', got the number 1"),
        ({"grade": None}, "'grade' cannot be missing in this space, got a missing value; extend the domain"),
        ({"job": "judge"}, "'job' must be one of 'cook', 'clerk', got 'judge'"),
        ({"since": "yesterday"}, "'since' must be a date such as"),
        ({"since": 5}, "'since' must be a date such as"),
        ({"since": "2025-01-01"}, r"'since' must be one of .*, got datetime.date\(2025, 1, 1\)"),
        ({"height": 180}, "only have columns of the space, got 'height'"),
        ({"job_cook": 1, "job_clerk": 0}, r"either 'job' or its columns \['job_cook', 'job_clerk'\], got both"),
    ],
    ids=str,
)
def test_a_row_that_does_not_fit_is_refused_with_what_is_allowed(change, message):
    with pytest.raises(TableError, match=message):
        SPACE.encode_row(ROW | change)


@pytest.mark.parametrize("change", [{"age": 35}, {"grade": None}, {"job": "judge"}, {"since": "2025-01-01"}], ids=str)
def test_a_value_outside_its_domain_has_a_code_of_its_own(change):
    with pytest.raises(TableError) as caught:
        SPACE.encode_row(ROW | change)
    assert caught.value.code == "value-outside-domain"
    assert caught.value.hint == "extend the domain: Explainer(..., space=space.extend_domains(row))"


@pytest.mark.parametrize("absent", ["age", "job", "Income"])
def test_a_row_must_be_complete(absent):
    row = {name: value for name, value in ROW.items() if name != absent}
    with pytest.raises(TableError, match=r"a row must have a value for '.*', got none$"):
        SPACE.encode_row(row)


def test_one_hot_columns_may_come_in_any_form():
    rest = {name: value for name, value in ROW.items() if name != "job"}
    for zero, one in ((0, 1), (0.0, 1.0), (False, True), (np.int64(0), np.int64(1)), (np.uint8(0), np.uint8(1))):
        assert SPACE.encode_row(rest | {"job_cook": zero, "job_clerk": one}).tolist() == CODES


@pytest.mark.parametrize(("cook", "clerk"), [(1, 1), (0, 0), (2, 0), (None, 1), (pd.NA, 1)])
def test_one_hot_columns_of_a_row_must_be_exclusive(cook, clerk):
    row = {name: value for name, value in ROW.items() if name != "job"} | {"job_cook": cook, "job_clerk": clerk}
    with pytest.raises(TableError, match="one-hot columns of 'job' must be"):
        SPACE.encode_row(row)


@pytest.mark.parametrize("since", [DAY, "2024-01-02", pd.Timestamp(DAY), np.datetime64("2024-01-02")])
def test_a_date_may_come_in_any_form(since):
    assert SPACE.encode_row(ROW | {"since": since}).tolist() == CODES


def test_numbers_and_missing_may_come_in_any_form():
    for age in (30.0, np.int8(30), np.float32(30), np.int64(30), np.float64(30)):
        assert SPACE.encode_row(ROW | {"age": age})[0] == 1
    for missing in (None, float("nan"), pd.NA, pd.NaT):
        assert SPACE.encode_row(ROW | {"age": missing})[0] == 3


def test_extending_adds_what_a_row_has_and_keeps_the_order():
    longer = SPACE.extend_domains(ROW | {"age": 35, "since": "2024-01-05", "Income": 1.5})
    assert longer["age"].values == (20, 30, 35, 40)
    assert longer["since"].values == (*SINCE.values, datetime.date(2024, 1, 5))
    assert longer["Income"].values == (1, 1.5, 2)
    assert SPACE.extend_domains({"INC_01": 7})["Income"].values == (1, 2, 7)
    assert SPACE.extend_domains({"grade": None})["grade"].missing
    assert SPACE.extend_domains(ROW) == SPACE


def test_extending_refuses_what_has_no_place():
    with pytest.raises(
        SpaceError, match="'best' has no place in the order of 'grade'; declare the order in a space file"
    ):
        SPACE.extend_domains(ROW | {"grade": "best"})
    with pytest.raises(
        SpaceError, match="'job' must be one of 'cook', 'clerk', since it has one column per value, got "
    ):
        SPACE.extend_domains(ROW | {"job": "judge"})
    with pytest.raises(SpaceError, match=r"'job' must be one of .* got None"):
        SPACE.extend_domains(ROW | {"job": None})


def test_an_unknown_feature_gets_the_nearest_name_or_all():
    with pytest.raises(SpaceError, match=r"unknown feature 'aeg'; did you mean 'age'\?"):
        SPACE["aeg"]
    with pytest.raises(SpaceError, match="the features are age, job, since, grade, Income"):
        SPACE["zzz"]


def test_names_and_columns_must_be_distinct():
    with pytest.raises(SpaceError, match="feature names must be unique, got 'age' more than once"):
        Space((AGE, AGE))
    with pytest.raises(SpaceError, match="column names must be unique, got 'age' more than once"):
        Space((AGE, Feature("years", (1, 2), True, columns=("age",))))


def test_a_space_needs_features():
    with pytest.raises(SpaceError, match="at least one feature, got none"):
        Space(())


def test_constraints_on_the_space_speak_of_cf_alone():
    with pytest.raises(ConstraintError, match=r"must refer to cf only, not to x, got 'cf.age >= x.age'"):
        Space((AGE,), ("cf.age >= x.age",))
    with pytest.raises(InputError, match="aeg"):
        Space((AGE,), ("cf.aeg >= 20",))


def test_the_size_is_the_product_and_repr_tells_it():
    assert SPACE.size == 4 * 2 * 2 * 2 * 2
    assert repr(Space((AGE, JOB), ("cf.age >= 30",))) == (
        "Space(2 features: 1 ordered, 1 nominal; 8 points; 1 constraint)"
    )


def test_the_fingerprint_is_stable():
    space = Space((AGE, JOB), ("cf.age >= 30",))
    assert space.fingerprint == Space((AGE, JOB), ("cf.age >= 30",)).fingerprint
    assert space.fingerprint == pickle.loads(pickle.dumps(space)).fingerprint
    assert Space((Feature("a", (1,), True),)).fingerprint == (
        "6d150c23c2a325663456ad9797f1f40546bd61ebad579dce2547d388357bb1c4"
    )


@pytest.mark.parametrize(
    "other",
    [
        Space((AGE, JOB)),
        Space((AGE, JOB), ("cf.age >= 20",)),
        Space((AGE, JOB, GRADE), ("cf.age >= 30",)),
        Space((Feature("age", (20, 30, 40), True), JOB), ("cf.age >= 30",)),
        Space((Feature("age", (20, 30, 41), True, True), JOB), ("cf.age >= 30",)),
        Space((Feature("age", (20, 40, 30), True, True), JOB), ("cf.age >= 30",)),
        Space((Feature("age", (20, 30, 40), True, True, ("AGE",)), JOB), ("cf.age >= 30",)),
    ],
    ids=["constraint", "number", "feature", "missing", "value", "order", "column"],
)
def test_the_fingerprint_sees_every_difference(other):
    assert Space((AGE, JOB), ("cf.age >= 30",)).fingerprint != other.fingerprint


def test_a_table_must_have_every_column():
    with pytest.raises(TableError, match="must have the columns 'age', 'job_cook', 'job_clerk', got columns '"):
        Space((AGE, JOB)).encode(pd.DataFrame({"x": [1]}))
    with pytest.raises(TableError, match="got 3 names for 2 columns"):
        Space((AGE, JOB)).encode(np.ones((1, 2)))


def test_an_array_is_read_by_the_order_of_the_columns():
    assert Space((AGE, JOB)).encode(np.array([[20, 0, 1]])).points().tolist() == [[0, 1]]


def test_what_a_new_value_costs_does_not_depend_on_the_domain() -> None:
    class CountedValues(tuple[float, ...]):
        read = 0

        def __iter__(self) -> Iterator[float]:
            for value in super().__iter__():
                CountedValues.read += 1
                yield value

    known, new = [number + 0.5 for number in range(2000)], [number + 0.25 for number in range(500)]
    feature = Feature("amount", CountedValues(known), ordered=True)
    space = Space((feature,))
    CountedValues.read = 0
    found = space.find_new_column_values(read_table(pd.DataFrame({"amount": [*new, *known[:10]]})))
    assert found == {"amount": new}
    assert CountedValues.read <= 3 * len(known), "the domain may be read once or so, not once per new value"


def test_a_whole_number_joins_others_as_it_is_and_fractions_as_a_fraction() -> None:
    whole, mixed, fractions = (Feature("a", values, ordered=True) for values in ((1, 2), (1, 2.5), (1.5, 2.5)))
    found = [Space((one,)).find_new_values({"a": 4})["a"] for one in (whole, mixed, fractions)]
    assert found == [4, 4, 4.0]
    assert [type(one) for one in found] == [int, int, float]
