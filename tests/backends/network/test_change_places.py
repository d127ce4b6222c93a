"""Envelopes of costs: nowhere above what they stand for, and as large as a convex function can be."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from ironrule.backends.network.change_places import fill_envelope

NUMBERS = st.floats(-100, 100, width=32)


@given(st.lists(st.tuples(st.integers(-20, 20), NUMBERS), min_size=1, max_size=12))
def test_the_envelope_is_the_largest_convex_function_below_the_edges(points):
    points = sorted(points, key=lambda point: point[0])
    values, edges = (np.array(one, dtype=np.float64) for one in zip(*points, strict=True))
    envelope, slopes = np.zeros((2, len(values)))
    fill_envelope(values, edges, envelope, slopes)
    off = 1e-9 * (1.0 + np.abs(edges).max())
    assert (envelope <= edges + off).all()
    assert (np.diff(slopes) >= -off).all()
    for place, value in enumerate(values):
        # The largest convex function is the least mixture of two edges around a place.
        least = edges[values == value].min()
        for low in np.flatnonzero(values < value):
            for high in np.flatnonzero(values > value):
                share = (value - values[low]) / (values[high] - values[low])
                least = min(least, (1 - share) * edges[low] + share * edges[high])
        assert abs(envelope[place] - least) <= off
