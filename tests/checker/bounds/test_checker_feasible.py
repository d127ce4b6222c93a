"""What can occur: against going through every point."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.checker.bounds import feasible
from ironrule.checker.bounds.feasible import build_feasible_set
from ironrule.checker.bounds.pieces import Pieces
from ironrule.checker.space.space import CheckerFeature, CheckerSpace
from ironrule.errors import ConstraintError

FEATURES = (
    ("a", (1, 2, 3), True),
    ("b", (1, 2, 3), True, True),
    ("c", ("x", "y"), False),
    ("d", (False, True), False),
    ("e", (0, 1, 5), True),
)
SIZES = [3, 4, 2, 2, 3]
TEXTS = (
    "cf.a <= cf.b",
    "cf.b != missing",
    "if cf.c == 'x' then cf.d == true",
    "cf.a + cf.e > 2",
    "cf.e / cf.a >= 1",
    "cf.d == false or cf.e == 5",
    "1 < 2",
    "cf.c != 'y'",
)


@st.composite
def random_pieces(draw):
    """Pieces with some codes of every feature, none of them empty."""
    sets = []
    for size in SIZES:
        flags = st.lists(st.booleans(), min_size=size, max_size=size).filter(any)
        sets.append(np.array(draw(st.lists(flags, min_size=1, max_size=3)), dtype=np.bool_))
    rows = st.tuples(*(st.integers(0, len(one) - 1) for one in sets))
    chosen = draw(st.lists(rows, max_size=6))
    return Pieces(tuple(sets), np.array(chosen, dtype=np.int32).reshape(-1, len(SIZES)))


@settings(max_examples=80, deadline=None)
@given(st.sets(st.sampled_from(TEXTS), max_size=4).map(sorted), random_pieces(), st.randoms(use_true_random=False))
def test_pieces_and_points_are_those_that_can_occur(texts, pieces, random):
    space = CheckerSpace(tuple(CheckerFeature(*one) for one in FEATURES), tuple(texts))
    try:
        found = build_feasible_set(space)
    except ConstraintError:
        assert not space.admits(np.array(list(itertools.product(*map(range, SIZES))))).any()
        return
    assert not found.has_unlisted_groups
    held = found.flag_feasible(pieces)
    start = np.array([random.randrange(size) for size in SIZES], dtype=np.int32)
    for piece in range(len(pieces)):
        codes = pieces.codes(piece)
        within = [np.array([start[place]]) if place not in tied(found) else codes[place] for place in range(len(SIZES))]
        possible = space.admits(np.array(list(itertools.product(*within)))).any()
        assert held[piece] == possible
        point = found.find_point(codes, start)
        assert (point is None) == (not possible)
        if point is not None:
            assert space.admits(point[None, :])[0]
            assert all(point[place] in codes[place] for place in tied(found))
            assert all(point[place] == start[place] for place in set(range(len(SIZES))) - tied(found))


def tied(found):
    return {place for group in found.groups for place in group.features}


def test_groups_that_are_too_long_are_not_listed(monkeypatch):
    space = CheckerSpace(tuple(CheckerFeature(*one) for one in FEATURES), ("cf.a <= cf.b", "cf.c != 'y'"))
    monkeypatch.setattr(feasible, "MAX_COMBINATIONS", 10)
    found = build_feasible_set(space)
    assert found.has_unlisted_groups
    assert [group.features for group in found.groups] == [(2,)]
    codes = [np.arange(size) for size in SIZES]
    assert found.find_point(codes, np.array([0, 0, 1, 0, 0], dtype=np.int32)).tolist() == [0, 0, 0, 0, 0]
    # of what is not listed none is sought
    assert found.find_point(codes, np.array([2, 0, 0, 0, 0], dtype=np.int32)) is None


def test_long_groups_are_listed_chunk_by_chunk(monkeypatch):
    space = CheckerSpace(tuple(CheckerFeature(*one) for one in FEATURES), ("cf.a <= cf.b", "cf.b <= cf.e"))
    whole = build_feasible_set(space).groups[0].feasible
    monkeypatch.setattr("ironrule.checker.bounds.pieces.CHUNK_POINTS", 7)
    assert np.array_equal(build_feasible_set(space).groups[0].feasible, whole)
    assert whole.any()
    assert not whole.all()


def test_constraints_that_nothing_satisfies_are_refused():
    space = CheckerSpace(tuple(CheckerFeature(*one) for one in FEATURES), ("cf.a > 2", "cf.a < 2"))
    with pytest.raises(ConstraintError, match=r"no point satisfies \['cf.a > 2', 'cf.a < 2'\]"):
        build_feasible_set(space)
