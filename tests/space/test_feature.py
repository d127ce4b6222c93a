"""Features: domains, codes, and what is missing."""

import datetime

import numpy as np
import pandas as pd
import pytest

from ironrule.errors import SpaceError
from ironrule.space.feature import Feature, is_missing

DAYS = (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2))


def test_codes_are_positions_and_missing_comes_last():
    age = Feature("age", (20, 30, 40), ordered=True, missing=True)
    assert [age.code(value) for value in (20, 40, None, float("nan"), pd.NA, pd.NaT)] == [0, 2, 3, 3, 3, 3]
    assert [age.value(code) for code in range(age.size)] == [20, 30, 40, None]
    assert (age.size, age.last_code, age.missing_code) == (4, 2, 3)


def test_a_feature_that_is_never_missing_has_no_code_for_it():
    age = Feature("age", (20, 30), ordered=True)
    assert age.missing_code == -1
    with pytest.raises(SpaceError, match="'age' cannot be missing in this space, got a missing value"):
        age.code(None)


def test_a_value_outside_the_domain_is_named_with_what_is_allowed():
    job = Feature("job", ("cook", "clerk"), ordered=False, missing=True)
    with pytest.raises(SpaceError, match=r"'job' must be one of 'cook', 'clerk' or missing, got 'judge'"):
        job.code("judge")


def test_a_long_domain_is_described_by_its_ends_or_its_beginning():
    assert Feature("f", tuple(range(100)), ordered=True).describe() == "one of 100 values from 0 to 99"
    assert Feature("f", tuple(map(str, range(100))), ordered=False).describe().endswith("'11', ... (100 values)")


def test_a_domain_must_have_distinct_single_present_values():
    for values, message in (
        ((), "at least one value"),
        ((1, 1.0), "distinct"),
        ((True, 1), "distinct"),
        ((1, None), "missing=True"),
        ((1, float("nan")), "missing=True"),
        (([1], [2]), "single values"),
    ):
        with pytest.raises(SpaceError, match=message):
            Feature("f", values, ordered=True)


def test_a_value_that_has_no_hash_is_outside_every_domain():
    with pytest.raises(SpaceError, match=r"must be one of .*, got \[1\]"):
        Feature("f", (1, 2), ordered=True).code([1])


def test_missing_alone_is_a_domain():
    assert Feature("f", (), ordered=False, missing=True).size == 1


def test_minus_zero_is_zero():
    assert Feature("f", (0.0, 1.0), ordered=True).code(-0.0) == 0


@pytest.mark.parametrize(
    ("values", "numeric", "natural"),
    [
        ((1, 2.5), True, True),
        ((2, 1), True, False),
        (DAYS, False, True),
        (DAYS[::-1], False, False),
        (("a", "b"), False, False),
        ((False, True), False, False),
        ((DAYS[0], datetime.datetime(2030, 1, 1)), False, False),
    ],
)
def test_only_rising_numbers_and_dates_have_a_natural_order(values, numeric, natural):
    feature = Feature("f", values, ordered=True)
    assert (feature.numeric, feature.naturally_ordered) == (numeric, natural)


@pytest.mark.parametrize(
    ("values", "ordered", "missing", "good"),
    [
        (("a", "b"), False, False, True),
        (("a", "b", "none"), False, False, True),
        (("a", "b"), True, False, True),
        (("a", "b", "none"), True, False, False),
        (("a", "b"), False, True, False),
        (("a",), False, False, False),
        (("a", "b", "c", "d"), False, False, False),
    ],
)
def test_a_one_hot_feature_has_a_value_per_column_and_perhaps_one_for_none(values, ordered, missing, good):
    if good:
        assert Feature("f", values, ordered, missing, ("f_a", "f_b")).one_hot
    else:
        with pytest.raises(SpaceError, match="one-hot feature 'f' must have one value per column"):
            Feature("f", values, ordered, missing, ("f_a", "f_b"))


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), pd.NA, pd.NaT])
def test_every_kind_of_missing_is_missing(value):
    assert is_missing(value) is True


@pytest.mark.parametrize("value", [0, "", False, "nan", np.float64(0), np.datetime64("2024-01-01"), DAYS[0]])
def test_nothing_else_is_missing(value):
    assert is_missing(value) is False
