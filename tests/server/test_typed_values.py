"""Rows that are typed: the kinds of inputs, what they start with, and what is told of a value that cannot be used."""

from __future__ import annotations

import contextlib
import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ironrule import Feature, Labels, Space
from ironrule.server.errors import ApiError
from ironrule.server.typed_values import (
    build_field,
    find_usual_value,
    get_field_kind,
    parse_typed_row,
    parse_typed_value,
    read_number,
)

DAYS = tuple(datetime.date(2024, 1, day) for day in (1, 10, 20))
SPACE = Space(
    (
        Feature("months", tuple(range(4, 73)), ordered=True),
        Feature("rate", (0.5, 1.25, 3.0), ordered=True, missing=True),
        Feature("home", ("own", "rent"), ordered=False),
        Feature("since", DAYS, ordered=True),
        Feature("town", tuple(f"town {number}" for number in range(80)), ordered=False, missing=True),
        Feature("size", ("small", "large"), ordered=True),
    )
)


def test_every_feature_has_the_kind_of_input_that_fits() -> None:
    kinds = [get_field_kind(feature) for feature in SPACE.features]
    assert kinds == ["number", "number", "choice", "date", "text", "choice"]
    assert [build_field(one, np.ones(one.size, dtype=np.int64))["step"] for one in SPACE.features[:2]] == ["1", "any"]


def test_numbers_whose_values_all_have_texts_are_chosen_by_these() -> None:
    years = Feature("years", (1, 2, 3), ordered=True)
    counts = np.array([1, 5, 1], dtype=np.int64)
    all_named = Labels.from_dict({"years": {"values": {"1": "below 1", "2": "1 to 4", "3": "4 or more"}}})
    field = build_field(years, counts, all_named)
    assert (field["kind"], field["default"], field["hint"]) == ("choice", "2", None)
    assert [one["text"] for one in field["choices"]] == ["below 1", "1 to 4", "4 or more"]
    assert [parse_typed_value(Space((years,)), years, one["value"]) for one in field["choices"]] == [1, 2, 3]
    one_named = Labels.from_dict({"years": {"values": {"1": "below 1"}}})
    assert build_field(years, counts, one_named)["kind"] == "number"


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_a_number_starts_in_the_middle_and_a_category_with_the_most_frequent_value(values: list[int]) -> None:
    table = pd.DataFrame({"n": values, "c": [f"v{value % 3}" for value in values]})
    space = Space.infer(table)
    codes = space.encode(table)
    for place, feature in enumerate(space.features):
        usual = find_usual_value(feature, np.bincount(codes.columns[place], minlength=feature.size))
        if feature.name == "n":
            below, above = sum(value <= usual for value in values), sum(value >= usual for value in values)
            assert 2 * min(below, above) >= len(values)
        else:
            assert list(table.c).count(usual) == table.c.value_counts().max()


@pytest.mark.parametrize(
    ("place", "text", "value"),
    [
        (0, "24", 24), (0, " 100 ", 100), (0, "1,500", 1500), (1, "0.75", 0.75), (1, "", None), (1, "missing", None),
        (2, "rent", "rent"), (3, "2024-02-29", datetime.date(2024, 2, 29)), (4, "town 3", "town 3"), (4, "", None),
        (4, "elsewhere", "elsewhere"), (5, "large", "large"),
    ],
)  # fmt: skip
def test_what_is_typed_becomes_a_value_of_its_type(place: int, text: str, value: object) -> None:
    found = parse_typed_value(SPACE, SPACE.features[place], text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("place", "text", "words"),
    [
        (0, "", "a value is needed"), (0, "two years", "enter a whole number"), (0, "2.5", "enter a whole number"),
        (0, "1e400", "enter a whole number"), (0, "nan", "enter a whole number"), (1, "0,5", "enter a number"),
        (1, "1_0", "enter a number"), (2, "castle", "choose one of the values"), (2, "", "a value is needed"),
        (3, "yesterday", "enter a date such as 2024-12-31"), (5, "huge", "choose one of the values"),
        (0, "9" * 400, "enter a whole number"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_told_in_words(place: int, text: str, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_typed_value(SPACE, SPACE.features[place], text)
    assert caught.value.expected == words


def test_a_row_keeps_every_text_and_has_a_problem_per_field() -> None:
    row = parse_typed_row(SPACE, {"f0": "many", "f1": "1.25", "f2": "own", "f9": "x"}, is_whole=True)
    assert row.texts == {"months": "many", "rate": "1.25", "home": "own", "since": "", "town": "", "size": ""}
    assert set(row.errors) == {"months", "since", "size"}
    assert row.values == {"rate": 1.25, "home": "own", "town": None}
    with pytest.raises(ApiError, match="'months': enter a whole number, got \"many\""):
        row.require_valid(SPACE)
    assert parse_typed_row(SPACE, {"f0": "24"}, is_whole=False).values == {"months": 24}


@given(st.text(max_size=30), st.integers(0, 5))
def test_any_text_is_a_value_or_is_refused(text: str, place: int) -> None:
    with contextlib.suppress(ApiError):
        value = parse_typed_value(SPACE, SPACE.features[place], text)
        SPACE.extend_domains({SPACE.names[place]: value})


@pytest.mark.parametrize(
    ("language", "entry", "text", "number"),
    [
        ("en", {"unit": "EUR"}, "1,500.5 EUR", 1500.5), ("en", {"unit": "$"}, "$20", 20.0), ("en", {}, "0,5", None),
        ("de", {"unit": "Euro"}, "1.234,5 euro", 1234.5), ("de", {}, "1.500", None), ("de", {}, "0.500", 0.5),
        ("de", {}, "0,5", 0.5), ("fr", {}, "1 500,25", 1500.25), ("en", {"format": "percent"}, "28%", 0.28),
        ("en", {}, "28%", None), ("en", {}, "1,50", None), ("en", {}, "12,345,678", 12_345_678.0),
    ],
)  # fmt: skip
def test_a_number_is_read_as_the_labels_write_it_or_not_at_all(
    language: str, entry: dict[str, str], text: str, number: float | None
) -> None:
    labels = Labels.from_dict({"language": language, "features": {"months": entry}})
    if number is not None:
        assert read_number(SPACE.features[0], text, labels) == number
    else:
        with pytest.raises(ValueError, match=r"number|decimal"):
            read_number(SPACE.features[0], text, labels)


@given(st.decimals(-(10**8), 10**8, places=3), st.sampled_from(["en", "de", "es", "fr", "it"]))
def test_a_number_that_is_shown_is_read_back(number: object, language: str) -> None:
    value = float(str(number))
    for way in ("grouped", "plain"):
        labels = Labels.from_dict({"language": language, "months": {"format": way, "unit": "EUR"}})
        shown = labels.add_unit("months", labels.format_number("months", value))
        with contextlib.suppress(ValueError):  # one with a point that may stand between thousands is refused
            assert read_number(SPACE.features[0], shown, labels) == value
        if language == "en":
            assert read_number(SPACE.features[0], shown, labels) == value
