"""From vectors to points: the nearest code of every feature, and every point once, against the plain way."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from ironrule.oracles.heuristics.candidates import list_distinct_points
from ironrule.oracles.heuristics.encoding import NumericEncoding, SortedNumbers, VectorDecoder
from ironrule.space.feature import Feature

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


@settings(max_examples=200, deadline=None)
@given(
    cells=st.integers(1, 6),
    kinds=st.lists(st.sampled_from(["number", "listed", "missing", "category"]), min_size=1),
    seed=st.integers(0, 999),
)
def test_a_single_vector_is_decoded_as_many_are(cells: int, kinds: list[str], seed: int) -> None:
    """Vectors are multiples of a quarter, so that many are as near to two codes, and categories have equal shares."""
    rng = np.random.default_rng(seed)
    made = {
        "number": Feature("number", tuple(range(cells)), ordered=True),
        "listed": Feature("listed", tuple(rng.permutation(cells).tolist()), ordered=True),
        "missing": Feature("missing", tuple(range(cells)), ordered=True, missing=True),
        "category": Feature("category", tuple(f"v{code}" for code in range(cells)), ordered=False),
    }
    encoding = NumericEncoding.tabulate([made[kind] for kind in kinds])
    codes = [np.flatnonzero(rng.random(len(table)) < 0.7) for table in encoding.tables]
    codes = [one if len(one) else np.array([0]) for one in codes]
    vectors = rng.integers(-1, 6, size=(20, encoding.width)) / 4.0
    decoder = VectorDecoder.build(encoding, codes)
    assert np.array_equal(np.stack([decoder.decode(one) for one in vectors]), encoding.decode_among(vectors, codes))


@settings(max_examples=200, deadline=None)
@given(places=PLACES, place=st.integers(0, 12), step=st.integers(1, 9))
def test_beside_a_place_are_the_nearest_numbers_a_step_away_or_the_farthest_there_are(
    places: list[int], place: int, step: int
) -> None:
    table = np.array(places, dtype=np.float64)[:, None]
    found = SortedNumbers.build(table, np.arange(len(places))).find_beside(float(place), float(step))
    expected = []
    for side in (-1, 1):
        beyond = sorted(side * (one - place) for one in places if side * (one - place) > 0)
        expected += [place + side * next((one for one in beyond if one >= step), beyond[-1])] if beyond else []
    assert [places[code] for code in found] == expected
