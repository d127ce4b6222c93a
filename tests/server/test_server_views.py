"""The words and bars of the pages."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from ironrule import Component, Feature
from ironrule.rule.condition import find_code_range
from ironrule.server.views.bars import MAX_BARS, assign_bins, build_bars


@given(st.sets(st.integers(-1000, 1000), min_size=1, max_size=200), st.booleans(), st.randoms(use_true_random=False))
def test_every_row_is_in_a_bar_and_the_allowed_share_is_right(values: set[int], missing: bool, rng: object) -> None:
    feature = Feature("a", tuple(sorted(values)), ordered=True, missing=missing)
    choose = rng.randrange  # type: ignore[attr-defined]
    counts = np.array([choose(5) for _ in range(feature.size)])
    component = Component("a", "<=" if choose(2) else ">=", feature.values[choose(len(values))])
    low, high = find_code_range(feature, component.op, component.value)
    inside = [low <= code <= high for code in range(feature.size)]
    here = choose(feature.size)
    bins = assign_bins(feature)
    bars = build_bars(counts, bins, inside, here)
    assert len(bars) <= MAX_BARS + 1
    assert [place for place, bar in enumerate(bars) if bar["is_own"]] == [bins[here]]
    heights = np.array([counts[bins == place].sum() for place in range(len(bars))])
    assert np.allclose([bar["height"] for bar in bars], heights / max(1, heights.max()), atol=1e-3)
    shares = [counts[(bins == place) & inside].sum() / max(1, heights[place]) for place in range(len(bars))]
    assert np.allclose([bar["allowed_share"] for bar in bars], shares, atol=1e-3)


def test_what_has_no_numbers_is_cut_by_its_order() -> None:
    feature = Feature("a", tuple(f"v{place:03}" for place in range(100)), ordered=False)
    bins = assign_bins(feature)
    assert (np.diff(bins) >= 0).all()
    assert (bins[0], bins[-1]) == (0, MAX_BARS - 1)
