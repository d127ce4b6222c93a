"""The list of applicants: searching and paging on codes, however many rows there are."""

from __future__ import annotations

import contextlib
import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ironrule import Feature, Space
from ironrule.errors import InputError
from ironrule.server.applicants import Applicants, ListQuery, SavedSearches
from ironrule.server.errors import ApiError
from ironrule.space.codes import EncodedTable

TABLE = pd.DataFrame(
    {
        "age": [20, 30, 40, 30, 50],
        "home": ["own", "rent", "free home", "Own", "rent and own"],
        "size": ["small", "large", "middle", "small", None],
        "debt": [0.5, np.nan, 2.0, 2.0, 0.5],
    }
)
SPACE = Space.infer(TABLE, ordered={"size": ["small", "middle", "large"]})


@pytest.fixture(scope="module")
def few() -> Applicants:
    outcomes = np.array([True, False, False, True, False])
    return Applicants(SPACE, SPACE.encode(TABLE), outcomes, np.array([0, 2, 4, 6, 9]))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("own", [0, 3, 4]),
        ("OWN", [0, 3, 4]),
        ("30", [1, 3]),
        ("age >= 30", [1, 2, 3, 4]),
        ("age > 30", [2, 4]),
        ("age < 25.5", [0]),
        ("age ≤ 30 and age == 30", [1, 3]),
        ("age = 30 and home = rent", [1]),
        ("home != rent", [0, 2, 3, 4]),
        ("home = rent and own", [4]),  # a value with an "and" in it
        ("home = rent and small", []),  # a condition and a word
        ("home = own and small", [0, 3]),
        ("small and age >= 30", [3]),
        ("rent and own", [4]),
        ("size >= middle", [1, 2]),
        ("size = missing", [4]),
        ("missing", [1, 4]),
        ("debt >= 0", [0, 2, 3, 4]),
        ("debt <= 1 and age <= 20", [0]),
        ("nobody", []),
    ],
)
def test_a_search_finds_who_is_meant(few: Applicants, text: str, places: list[int]) -> None:
    assert np.flatnonzero(few.search(text)).tolist() == places


def test_a_declared_order_of_numbers_and_a_date_between_two_values_are_understood() -> None:
    days = tuple(datetime.date(2024, 1, day) for day in (1, 10, 20))
    space = Space((Feature("grade", (3, 1, 2), ordered=True), Feature("a <= b", days, ordered=True)))
    codes = EncodedTable((np.arange(3, dtype=np.uint8), np.arange(3, dtype=np.uint8)))
    applicants = Applicants(space, codes, np.ones(3, dtype=np.bool_), np.arange(3))
    assert applicants.search("grade <= 1").tolist() == [True, True, False]
    assert applicants.search("A <= B >= 2024-01-05").tolist() == [False, True, True]
    with pytest.raises(InputError, match="'grade' must be one of"):
        applicants.search("grade <= 2.5")


@pytest.mark.parametrize("text", ["", "   ", "x" * 201, "home >= own", "age >= old", "size <= huge"])
def test_a_search_that_makes_no_sense_is_refused(few: Applicants, text: str) -> None:
    with pytest.raises(InputError, match="must"):
        few.search(text)


@given(st.text(max_size=200))
def test_any_text_is_a_search_or_is_refused(text: str) -> None:
    applicants = Applicants(SPACE, SPACE.encode(TABLE), np.ones(5, dtype=np.bool_), np.arange(5))
    with contextlib.suppress(InputError, ApiError):
        assert applicants.search(text).shape == (5,)


@pytest.mark.parametrize(
    ("text", "hint", "suggestion"),
    [
        ("agee >= 30", "did you mean age?", "age >= 30"),
        ("home = own and deb > 1", "did you mean debt?", "home = own and debt > 1"),
        ("nothing = 3", "the features are age, home, size, debt", None),
        ("home = onw", "did you mean own?", None),
        ("home = ren", "did you mean rent?", None),
    ],
)
def test_a_search_that_is_not_understood_says_what_is_near(
    few: Applicants, text: str, hint: str, suggestion: str | None
) -> None:
    with pytest.raises(ApiError) as caught:
        few.search(text)
    assert (caught.value.status, caught.value.hint) == (422, hint)
    assert few.suggest_search(text) == suggestion
    if suggestion is not None:
        assert few.search(suggestion).shape == (5,)


def test_labels_are_searched_too_and_sort_the_list(few: Applicants) -> None:
    texts = {"label": "Dwelling", "values": {"own": "zz owner", "rent": "a tenant", "missing": "?"}}
    space = SPACE.with_labels({"home": texts, "age": {"label": "Age", "unit": "years"}})
    named = replace(few, space=space)
    assert np.flatnonzero(named.search("Dwelling = A TENANT")).tolist() == [1]
    assert np.flatnonzero(named.search("dwelling = own")).tolist() == [0, 3]  # OWN is another value, spelt the same
    assert np.flatnonzero(named.search("tenant")).tolist() == [1]
    assert np.flatnonzero(named.search("age >= 40 years and debt >= 1")).tolist() == [2]
    listed = named.get_page(None, ListQuery(sort="feature:home")).positions
    assert listed[0] == 1
    assert listed[-1] == 0


def test_a_list_is_sorted_by_anything_and_missing_values_come_last(few: Applicants) -> None:
    scores = np.array([0.3, 0.1, 0.9, 0.1, 0.5])

    def list_rows(sort: str, order: str = "ascending") -> list[int]:
        query = ListQuery(sort=sort, order=order)  # type: ignore[arg-type]
        return few.get_page(None, query, scores).positions

    assert list_rows("row", "descending") == [4, 3, 2, 1, 0]
    assert list_rows("score") == [1, 3, 0, 4, 2]
    assert list_rows("score", "descending") == [2, 4, 0, 1, 3]
    assert list_rows("outcome") == [1, 2, 4, 0, 3]
    assert list_rows("feature:age", "descending") == [4, 2, 1, 3, 0]
    assert list_rows("feature:size") == [0, 3, 2, 1, 4]
    assert list_rows("feature:size", "descending") == [1, 2, 0, 3, 4]
    assert list_rows("feature:debt") == [0, 4, 2, 3, 1]
    assert list_rows("feature:home")[0] == 2
    with pytest.raises(InputError, match="unknown feature 'shoe'"):
        list_rows("feature:shoe")
    with pytest.raises(InputError, match="sort must be row, outcome, score or feature:NAME"):
        list_rows("age")
    with pytest.raises(InputError, match="no scores to sort by"):
        few.get_page(None, ListQuery(sort="score"))


@given(st.integers(1, 40), st.integers(-3, 60), st.sampled_from(["any", "desired", "undesired"]), st.integers(0, 2**20))
def test_pages_cut_the_list_of_those_found(size: int, page: int, outcome: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 120))
    outcomes, mask = rng.random(count) < 0.5, rng.random(count) < 0.7
    space = Space((Feature("a", (1, 2), ordered=True),))
    applicants = Applicants(space, EncodedTable((np.zeros(count, dtype=np.uint8),)), outcomes, np.arange(count) * 3)
    chosen = [n for n in range(count) if mask[n] and outcome in ("any", "desired" if outcomes[n] else "undesired")]
    listed = applicants.get_page(mask, ListQuery(outcome=outcome, page=page, size=size))  # type: ignore[arg-type]
    assert (listed.total, listed.pages) == (len(chosen), max(1, -(-len(chosen) // size)))
    assert 1 <= listed.page <= listed.pages
    assert listed.positions == chosen[(listed.page - 1) * size : listed.page * size]
    assert listed.row_numbers == [3 * place for place in listed.positions]


def test_a_row_is_found_by_its_number(few: Applicants) -> None:
    assert [few.find_position(number) for number in (0, 2, 4, 6, 9)] == [0, 1, 2, 3, 4]
    for number in (-1, 1, 10, 1 << 70):
        with pytest.raises(ApiError):
            few.find_position(number)


def test_a_million_rows_are_paged_without_looking_at_each() -> None:
    count = 1_000_000
    codes = EncodedTable(tuple(np.random.default_rng(0).integers(0, 4, count, dtype=np.uint8) for _ in range(4)))
    space = Space(tuple(Feature(name, ("w", "x", "y", "z"), ordered=False) for name in "abcd"))
    applicants = Applicants(space, codes, np.arange(count) % 3 == 0, np.arange(count))
    searches = SavedSearches(2)
    name = searches.save("a = x", applicants.search("a = x and b != y"))
    listed = applicants.get_page(searches.find(name)[1], ListQuery(outcome="undesired", page=10**9))
    last = [n for n in range(count - 500, count) if codes.columns[0][n] == 1 and codes.columns[1][n] != 2 and n % 3]
    assert listed.row_numbers == last[-len(listed.row_numbers) :]
    assert listed.pages == listed.page == -(-listed.total // 25)


def test_the_oldest_searches_are_forgotten() -> None:
    searches = SavedSearches(2)
    names = [searches.save(str(n), np.array([True, False, True])) for n in range(3)]
    assert len(set(names)) == 3
    assert searches.find(names[2])[0] == "2"
    assert searches.find(names[2])[1].tolist() == [True, False, True]
    with pytest.raises(ApiError):
        searches.find(names[0])
