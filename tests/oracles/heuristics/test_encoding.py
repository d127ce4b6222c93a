"""From vectors to points: the nearest code of every feature, and every point once, against the plain way."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from ironrule.oracles.heuristics.candidates import list_distinct_points
from ironrule.oracles.heuristics.encoding import NumericEncoding

PLACES = st.lists(st.integers(0, 12), min_size=1, max_size=8, unique=True)


@settings(max_examples=200, deadline=None)
@given(places=PLACES, chosen=st.sets(st.integers(0, 7), min_size=1), sought=st.lists(st.integers(-2, 28), min_size=1))
def test_the_nearest_permitted_number_is_found_the_smaller_of_two_as_near(
    places: list[int], chosen: set[int], sought: list[int]
) -> None:
    """Halves are sought too, which are as near to two; the numbers may be listed in any order."""
    codes = np.array(sorted(code for code in chosen if code < len(places)) or [0], dtype=np.intp)
    table = np.array(places, dtype=np.float64)[:, None]
    encoding = NumericEncoding((table,), np.array([0, 1], dtype=np.intp), (True,))
    vectors = np.array(sought, dtype=np.float64)[:, None] / 2.0
    found = encoding.decode_among(vectors, [codes])[:, 0]
    for (vector,), code in zip(vectors.tolist(), found.tolist(), strict=True):
        assert code == min(codes.tolist(), key=lambda one: (abs(places[one] - vector), places[one]))


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5), huge=st.booleans(), seed=st.integers(0, 99))
def test_distinct_points_come_once_in_lexicographic_order(sizes: list[int], huge: bool, seed: int) -> None:
    """Also in spaces with more points than a number of 64 bits has."""
    rng = np.random.default_rng(seed)
    points = np.stack([rng.integers(size, size=30) for size in sizes], axis=1).astype(np.int32)
    told = np.array(sizes, dtype=np.int32) if not huge else np.full(len(sizes), 2**31 - 1, dtype=np.int32)
    found = list_distinct_points(points, told)
    assert np.array_equal(found, np.unique(points, axis=0))
    assert found.dtype == points.dtype
