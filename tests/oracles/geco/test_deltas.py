"""GeCo's delta representation, against whole rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.oracles.geco.candidates import (
    NO_FEATURE,
    Deltas,
    ZobristHash,
    build_deltas,
    join_deltas,
    override_changes,
)

SIZES = np.array([3, 1, 4, 2, 5], dtype=np.int32)

one_point = st.tuples(*(st.integers(0, int(size) - 1) for size in SIZES)).map(lambda codes: np.array(codes, np.int32))
many_points = st.lists(one_point, max_size=8).map(lambda rows: np.array(rows, np.int32).reshape(-1, len(SIZES)))


def pairs_of(deltas: Deltas, row: int) -> list[tuple[int, int]]:
    kept = deltas.features[row] != NO_FEATURE
    return list(zip(deltas.features[row][kept].tolist(), deltas.codes[row][kept].tolist(), strict=True))


def assert_well_formed(deltas: Deltas, instance: Points) -> None:
    """Padding stands at the end, no feature comes twice, and every change is one."""
    for row in range(len(deltas)):
        pairs, count = pairs_of(deltas, row), int(deltas.counts[row])
        assert (deltas.features[row, :count] != NO_FEATURE).all()
        assert len({feature for feature, _ in pairs}) == len(pairs) == count
        assert all(instance[feature] != code for feature, code in pairs)


@settings(deadline=None)
@given(many_points, one_point)
def test_whole_rows_come_back_from_their_changes(points: Points, instance: Points) -> None:
    deltas = build_deltas(points, instance)
    assert_well_formed(deltas, instance)
    assert np.array_equal(deltas.expand(instance), points)
    assert np.array_equal(deltas.counts, (points != instance).sum(axis=1))


@settings(deadline=None)
@given(many_points, many_points, one_point)
def test_joined_populations_are_the_rows_of_both(first: Points, second: Points, instance: Points) -> None:
    joined = join_deltas([build_deltas(first, instance), build_deltas(second, instance)])
    assert np.array_equal(joined.expand(instance), np.concatenate([first, second]))


@settings(deadline=None)
@given(
    st.lists(st.tuples(one_point, one_point), max_size=8), one_point, st.lists(st.booleans(), min_size=5, max_size=5)
)
def test_an_override_is_the_first_row_with_the_second_ones_changes(
    rows: list[tuple[Points, Points]], instance: Points, undone: list[bool]
) -> None:
    first = np.array([one for one, _ in rows], np.int32).reshape(-1, len(SIZES))
    second = np.array([other for _, other in rows], np.int32).reshape(-1, len(SIZES))
    back = np.flatnonzero(undone)  # features that the second sets back to the instance's own code
    changes = build_deltas(second, instance)
    backs = Deltas(
        np.tile(back.astype(np.int32), (len(rows), 1)), np.tile(instance[back].astype(np.int32), (len(rows), 1))
    )
    result = override_changes(override_changes(build_deltas(first, instance), changes, instance), backs, instance)
    expected = np.where(second != instance, second, first)
    expected[:, back] = instance[back]
    assert_well_formed(result, instance)
    assert np.array_equal(result.expand(instance), expected)


@settings(deadline=None)
@given(many_points, one_point)
def test_rows_can_be_chosen_by_place_mask_and_slice(points: Points, instance: Points) -> None:
    deltas = build_deltas(points, instance)
    odd = np.arange(len(points)) % 2 == 1
    for rows in (odd, np.flatnonzero(odd), slice(1, None, 2)):
        assert np.array_equal(deltas[rows].expand(instance), points[rows])


@settings(deadline=None)
@given(many_points, one_point, st.integers(0, 99))
def test_a_hash_depends_on_the_changes_and_not_on_their_order(points: Points, instance: Points, seed: int) -> None:
    deltas, hashing = build_deltas(points, instance), ZobristHash.from_sizes(tuple(SIZES.tolist()))
    order = np.random.default_rng(seed).permutation(deltas.features.shape[1])
    shuffled = Deltas(deltas.features[:, order], deltas.codes[:, order])
    hashes = hashing(deltas)
    assert np.array_equal(hashes, hashing(shuffled))
    same = (points[:, None, :] == points[None, :, :]).all(axis=2)
    assert np.array_equal(hashes[:, None] == hashes[None, :], same)
    assert np.array_equal(hashes == 0, (points == instance).all(axis=1))
