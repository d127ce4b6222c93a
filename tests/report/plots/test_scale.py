"""A feature's values on a line, against what every code tells."""

from __future__ import annotations

import datetime
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from ironrule.report.plots.scale import (
    MAX_NUMBER_SLOTS,
    MAX_SLOTS,
    MIN_SPAN,
    MISSING_START,
    STRETCHED_SLOTS,
    build_scale,
)
from ironrule.results.background import Distribution
from ironrule.space.feature import Feature

DAYS = tuple(datetime.date(2024, 1, 1) + datetime.timedelta(days=k) for k in range(40))
MOMENTS = tuple(datetime.datetime(2024, 1, 1, k) for k in range(20))
FEATURES = [
    Feature("few", (1, 2, 5), ordered=True),
    Feature("few", (1, 2, 5), ordered=True, missing=True),
    Feature("many", tuple(range(100)), ordered=True),
    Feature("many", tuple(k / 7 for k in range(100)), ordered=True, missing=True),
    Feature("skewed", (*range(50), 1_000_000), ordered=True),
    Feature("days", DAYS, ordered=True),
    Feature("moments", MOMENTS, ordered=True),
    Feature("grades", tuple("abcdefghijklmnopqrstuvwxyz"), ordered=True, missing=True),
    Feature("jobs", tuple("abcdefghijklmnopqrstuvwxyz"), ordered=False, missing=True),
    Feature("home", ("own", "rent"), ordered=False),
    Feature("never", (), ordered=False, missing=True),
]


@given(st.sampled_from(FEATURES), st.data())
def test_every_past_row_is_in_one_bar_and_no_bar_overlaps_another(feature, data):
    counts = tuple(data.draw(st.lists(st.integers(0, 50), min_size=feature.size, max_size=feature.size)))
    low = data.draw(st.integers(0, feature.size - 1))
    high = data.draw(st.integers(low, feature.size - 1))
    scale = build_scale(Distribution(feature, counts), frozenset((low, high)))
    assert sorted(code for group in scale.groups for code in group) == list(range(feature.size))
    bars = scale.bars(counts, range(low, high + 1))
    assert sum(bar.admitted for bar in bars) == sum(counts[low : high + 1])
    assert sum(bar.admitted + bar.others for bar in bars) == sum(counts)
    places = sorted((bar.left, bar.right) for bar in bars)
    assert all(0 <= left < right <= 1 for left, right in places)
    assert all(one[1] <= other[0] + 1e-9 for one, other in pairwise(places))
    assert all(0 <= tick.at <= 1 for tick in scale.ticks)


@given(st.sampled_from([one for one in FEATURES if one.ordered and one.values]), st.data())
def test_what_is_outside_an_admitted_interval_lies_outside_its_span(feature, data):
    low = data.draw(st.integers(0, feature.last_code))
    high = data.draw(st.integers(low, feature.last_code))
    scale = build_scale(Distribution(feature, (1,) * feature.size), frozenset((low, high)))
    left, right = scale.span(range(low, high + 1))
    for code in range(feature.size):
        middle = (scale.starts[code] + scale.ends[code]) / 2
        assert (left <= middle <= right) == (low <= code <= high)


def build_amounts(missing: bool = False) -> tuple[Feature, tuple[int, ...]]:
    """Amounts from 250 to 20,000, of which most are small."""
    values = (*range(250, 3000, 10), *range(3000, 20_001, 500))
    counts = tuple(max(1, 3000 // value) for value in values) + ((7,) if missing else ())
    return Feature("amount", values, ordered=True, missing=missing), counts


@given(st.booleans(), st.data())
def test_a_narrow_rule_has_a_stretched_line_with_every_row_in_one_bar(missing, data):
    feature, counts = build_amounts(missing)
    low = data.draw(st.integers(0, feature.last_code))
    high = data.draw(st.integers(low, feature.last_code))
    plain = build_scale(Distribution(feature, counts), frozenset())
    scale = build_scale(Distribution(feature, counts), frozenset(), range(low, high + 1))
    left, right = plain.span(range(low, high + 1))
    assert scale.is_stretched == (right - left < MIN_SPAN)
    if not scale.is_stretched:
        assert scale == plain
        return
    left, right = scale.span(range(low, high + 1))
    assert right - left >= (0.9 if missing else 1.0) / STRETCHED_SLOTS - 1e-9
    for code in range(len(feature.values)):  # what is outside lies outside, and the order stays
        middle = (scale.starts[code] + scale.ends[code]) / 2
        assert (left <= middle <= right) == (low <= code <= high)
        assert scale.starts[code] < scale.ends[code]
    assert list(scale.starts) == sorted(scale.starts)
    assert sorted(code for group in scale.groups for code in group) == list(range(feature.size))
    bars = scale.bars(counts, range(low, high + 1))
    assert sum(bar.admitted for bar in bars) == sum(counts[low : high + 1])
    assert sum(bar.admitted + bar.others for bar in bars) == sum(counts)
    assert all(not (bar.admitted and bar.others) for bar in bars)
    texts = [tick.text for tick in scale.ticks]
    assert {str(feature.value(low)), str(feature.value(high))} <= set(texts)
    assert [tick.at for tick in scale.ticks] == sorted(tick.at for tick in scale.ticks)


def test_slots_outside_a_narrow_rule_hold_about_equally_many_rows():
    feature, counts = build_amounts()
    low, high = feature.code(1200), feature.code(1280)
    scale = build_scale(Distribution(feature, counts), frozenset(), range(low, high + 1))
    outside = [sum(counts[code] for code in group) for group in scale.groups if not low <= group[0] <= high]
    assert len(scale.groups) == STRETCHED_SLOTS
    assert max(outside) <= 2 * min(outside)
    missing, counts = build_amounts(missing=True)
    assert not build_scale(Distribution(missing, counts), frozenset(), range(len(counts) - 1, len(counts))).is_stretched


def test_missing_has_a_place_of_its_own_beside_the_numbers():
    feature = FEATURES[3]
    scale = build_scale(Distribution(feature, (1,) * 101), frozenset((100,)))
    assert scale.starts[100] == MISSING_START > max(scale.ends[:100])
    assert scale.ticks[-1].text == "not given"


def test_numbers_have_round_ticks_and_dates_their_extremes():
    assert [tick.text for tick in build_scale(Distribution(FEATURES[2], (1,) * 100), frozenset()).ticks] == [
        "0", "20", "40", "60", "80"
    ]  # fmt: skip
    ticks = build_scale(Distribution(FEATURES[5], (1,) * 40), frozenset()).ticks
    assert [(tick.at, tick.text) for tick in ticks] == [(0.0, "2024-01-01"), (1.0, "2024-02-09")]
    small = Feature("share", tuple(k / 1000 for k in range(30)), ordered=True)
    assert [tick.text for tick in build_scale(Distribution(small, (1,) * 30), frozenset()).ticks] == [
        "0.00",
        "0.01",
        "0.02",
    ]


@pytest.mark.parametrize("kept", [3, 17, 25])
def test_many_categories_leave_room_for_the_rows_own_and_the_most_frequent(kept):
    feature = FEATURES[8]
    counts = tuple(range(27))
    scale = build_scale(Distribution(feature, counts), frozenset((kept,)))
    assert len(scale.groups) <= MAX_SLOTS
    assert (kept,) in scale.groups
    assert (26,) in scale.groups
    assert scale.ticks[-1].text == f"{len(scale.groups[-1])} others"


def test_many_grades_keep_their_order_and_say_how_many_lie_between():
    scale = build_scale(Distribution(FEATURES[7], (1,) * 27), frozenset((5, 10)))
    assert [tick.text for tick in scale.ticks] == [
        "a",
        "4 between",
        "f",
        "4 between",
        "k",
        "14 between",
        "z",
        "not given",
    ]
    assert FEATURES[7].size > MAX_NUMBER_SLOTS + 1
