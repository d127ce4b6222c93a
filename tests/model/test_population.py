"""The split of past rows: which are measured depends on the rows and the seed alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.model.population import MeasuredRows, hash_rows, split_rows
from ironrule.rule.rule import Component
from ironrule.space.space import Space


def make_rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 6, (count, 3)).astype(float)


def test_about_the_wanted_share_is_measured():
    rows = np.random.default_rng(0).random((4000, 2))
    space = Space.infer(rows)
    for share in (0.2, 0.5):
        assert split_rows(space, space.encode(rows), 0, share).mean() == pytest.approx(share, abs=0.03)


@given(st.integers(1, 60), st.integers(0, 2**70), st.integers(0, 50))
@settings(max_examples=50)
def test_rows_stay_on_their_side_when_others_are_appended(count, seed, more):
    """Also where the new rows have new values, so that all codes change."""
    rows = make_rows(count)
    longer = np.concatenate([rows, make_rows(more, 1) - 3.5])
    spaces = Space.infer(rows), Space.infer(longer)
    before = split_rows(spaces[0], spaces[0].encode(rows), seed)
    after = split_rows(spaces[1], spaces[1].encode(longer), seed)
    assert after[:count].tolist() == before.tolist()


def test_rows_stay_on_their_side_when_a_constraint_leaves_others_out():
    rows = make_rows(500)
    space = Space.infer(rows)
    codes, kept = space.encode(rows), rows[:, 0] >= 2
    assert split_rows(space, codes, 3)[kept].tolist() == split_rows(space, codes.take(kept), 3).tolist()


def test_equal_numbers_of_any_type_have_the_same_hash():
    whole, real = Space.infer(make_rows(40).astype(int)), Space.infer(make_rows(40))
    hashes = [
        hash_rows(space, space.encode(make_rows(40).astype(kind)), 5) for space, kind in ((whole, int), (real, float))
    ]
    assert hashes[0].tolist() == hashes[1].tolist()


def test_equal_rows_fall_on_sides_of_their_own():
    """Two people with equal values are two draws; a combination that half of all have is on both sides."""
    rows = np.zeros((1000, 2))
    rows[::2] = 1.0
    space = Space.infer(rows)
    measured = split_rows(space, space.encode(rows), 0)
    for value in (0.0, 1.0):
        assert measured[rows[:, 0] == value].mean() == pytest.approx(0.5, abs=0.1)


def test_seeds_give_different_splits():
    rows = np.random.default_rng(0).random((2000, 2))
    space = Space.infer(rows)
    codes = space.encode(rows)
    assert (split_rows(space, codes, 1) == split_rows(space, codes, 2)).mean() == pytest.approx(0.5, abs=0.05)


def test_measured_rows_count_bounds_between_values_and_unknown_categories():
    rows = np.array([[1.0], [2.0], [4.0]])
    space = Space.infer(rows)
    measured = MeasuredRows(space, space.encode(rows), np.array([True, False, True]))
    name = space.names[0]
    assert measured.flag_covered([Component(name, "<=", 3.0)]).tolist() == [True, True, False]
    assert measured.flag_covered([Component(name, ">=", 9.0)]).tolist() == [False] * 3
    assert measured.flag_covered([Component(name, "==", 3.0)]).tolist() == [False] * 3
    assert measured.find_equal([2.0]).tolist() == [1]
    assert measured.find_equal([3.0]).tolist() == []
