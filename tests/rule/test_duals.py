"""Duals, against one Python loop per definition."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.errors import InputError
from ironrule.hitting import reduce
from ironrule.hitting.bits import count_words, list_members, pack_sets, unpack_sets
from ironrule.hitting.reduce import count_bits, find_minimal_sets
from ironrule.rule.duals import (
    BLOCK_ROWS,
    count_covered_rows,
    count_distinct_duals,
    count_distinct_point_duals,
    hits_all,
)
from ironrule.rule.kernels import compute_duals

DTYPES = (np.uint8, np.uint16, np.uint32)


def dual_by_definition(point: list[int], low: list[int], high: list[int]) -> int:
    return sum(1 << i for i in range(len(low)) if not low[i] <= point[i // 2] <= high[i])


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Any], list[int], list[int]]:
    features, rows = draw(st.sampled_from([1, 2, 5, 16, 17, 33, 128])), draw(st.integers(0, 40))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    top = draw(st.sampled_from([1, 3, 255]))
    columns = [rng.integers(0, top + 1, rows).astype(DTYPES[j % 3]) for j in range(features)]
    bounds = np.sort(rng.integers(0, top + 1, (2 * features, 2)), axis=1)
    return columns, bounds[:, 0].tolist(), bounds[:, 1].tolist()


def small_sets(features: int, least: int = 0) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 4**features - 1), min_size=least, max_size=30)


@settings(deadline=None, max_examples=60)
@given(histories())
def test_distinct_duals_are_the_duals_by_definition_with_their_counts(
    history: tuple[list[Any], list[int], list[int]],
) -> None:
    columns, low, high = history
    points = np.array([column.tolist() for column in columns], dtype=np.int64).T
    expected = Counter(dual_by_definition(point, low, high) for point in points.tolist())
    for found in (count_distinct_duals(columns, low, high), count_distinct_point_duals(points, low, high)):
        assert dict(zip(unpack_sets(found.bits), found.counts.tolist(), strict=True)) == expected
        assert found.total == len(columns[0])
    assert unpack_sets(compute_duals(points, low, high)) == [
        dual_by_definition(point, low, high) for point in points.tolist()
    ]


@pytest.mark.parametrize("features", [3, 40])
def test_threads_blocks_and_growing_tables_do_not_change_the_answer(features: int) -> None:
    rng = np.random.default_rng(7)
    columns = [rng.integers(0, 9, 210_001).astype(DTYPES[j % 3]) for j in range(features)]
    low, high = np.tile([0, 4], features), np.tile([4, 8], features)
    one = count_distinct_duals(columns, low, high, threads=1)
    two = count_distinct_duals(columns, low, high, threads=2)
    expected = Counter(unpack_sets(compute_duals(np.stack(columns, axis=1), low, high)))
    assert dict(zip(unpack_sets(one.bits), one.counts.tolist(), strict=True)) == expected
    assert np.array_equal(one.bits, two.bits)
    assert np.array_equal(one.counts, two.counts)


@pytest.mark.parametrize("features", [2, 40])
def test_rows_may_be_chosen_by_flags_or_by_positions(features: int) -> None:
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 5, BLOCK_ROWS + 100).astype(np.uint8) for _ in range(features)]
    low, high = np.tile([0, 2], features), np.tile([2, 4], features)
    flags = rng.random(BLOCK_ROWS + 100) < 0.3
    expected = count_distinct_duals([column[flags] for column in columns], low, high)
    for rows in (flags, np.flatnonzero(flags)):
        found = count_distinct_duals(columns, low, high, rows)
        assert np.array_equal(found.bits, expected.bits)
        assert np.array_equal(found.counts, expected.counts)
    assert count_distinct_duals(columns, low, high, []).total == 0


def test_bounds_beyond_what_the_column_can_hold_still_count_as_they_read() -> None:
    column = np.array([0, 255], dtype=np.uint8)
    found = count_distinct_duals([column], low=[0, 300], high=[1000, 400])
    assert (unpack_sets(found.bits), found.counts.tolist()) == ([2], [2])


@pytest.mark.parametrize(
    ("columns", "low", "high"),
    [
        ([np.zeros(3, np.int64)], [0, 0], [1, 1]),
        ([np.zeros(3, np.uint8)], [0], [1]),
        ([np.zeros(3, np.uint8)], [2, 0], [1, 1]),
        ([np.zeros(3, np.uint8), np.zeros(2, np.uint8)], [0] * 4, [1] * 4),
        ([], [], []),
    ],
)
def test_bad_histories_are_refused(columns: list[Any], low: list[int], high: list[int]) -> None:
    with pytest.raises(InputError, match=r"must|need"):
        count_distinct_duals(columns, low, high)


@settings(deadline=None)
@given(st.sampled_from([1, 4, 33, 128, 129, 1000]).flatmap(lambda n: st.tuples(st.just(n), small_sets(n))))
def test_packing_is_undone_by_unpacking(case: tuple[int, list[int]]) -> None:
    features, sets = case
    words = pack_sets(sets, features)
    assert words.shape == (len(sets), count_words(features))
    assert unpack_sets(words) == sets
    assert count_bits(words).tolist() == [len(list_members(one)) for one in sets]


def test_a_set_too_large_for_the_features_is_refused() -> None:
    with pytest.raises(InputError, match="must fit"):
        pack_sets(16, features=2)
    with pytest.raises(InputError, match="at least 1, got 0"):
        count_words(0)


@settings(deadline=None)
@given(st.sampled_from([1, 2, 4, 40]).flatmap(lambda n: st.tuples(st.just(n), small_sets(n))))
def test_minimal_keeps_the_sets_that_contain_no_other(case: tuple[int, list[int]]) -> None:
    features, sets = case
    expected = {one for one in sets if not any(other != one and other & one == other for other in sets)}
    expected = sorted(expected, key=lambda one: (one.bit_count(), one))
    assert unpack_sets(find_minimal_sets(pack_sets(sets, features))) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce, "FEW_SETS", -1)  # as if they were many
        assert unpack_sets(find_minimal_sets(pack_sets(sets, features))) == expected


@settings(deadline=None)
@given(st.sampled_from([1, 3, 40]).flatmap(lambda n: st.tuples(st.just(n), small_sets(n), small_sets(n))))
def test_a_rule_misses_the_rows_whose_dual_it_does_not_hit(case: tuple[int, list[int], list[int]]) -> None:
    features, rules, duals = case
    counts = np.arange(1, len(duals) + 1)
    missed = [sum(k + 1 for k, dual in enumerate(duals) if not rule & dual) for rule in rules]
    assert count_covered_rows(pack_sets(rules, features), pack_sets(duals, features), counts).tolist() == missed
    assert hits_all(pack_sets(rules, features), pack_sets(duals, features)).tolist() == [m == 0 for m in missed]
