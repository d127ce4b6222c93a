"""Boxes: their points, and clipping points to them."""

import numpy as np
from hypothesis import given, settings, strategies as st

from ironrule.rule.box import Box
from tiny_cases import cases, every_point, rules_of


def test_a_huge_box_is_counted_exactly():
    box = Box(np.zeros(10, dtype=np.int32), np.full(10, 99_999, dtype=np.int32))
    assert box.size == 10**50


@given(cases(), st.data())
@settings(max_examples=50, deadline=None)
def test_a_box_has_as_many_points_as_it_contains(case, data):
    box = case.components.box(data.draw(rules_of(case)))
    points = every_point(case.space)
    assert int(box.contains(points).sum()) == box.size


@given(cases(), st.data())
@settings(max_examples=50, deadline=None)
def test_clipping_moves_into_the_box_and_never_moves_what_is_inside(case, data):
    box = case.components.box(data.draw(rules_of(case)))
    points = every_point(case.space)
    clipped = box.clip(points)
    assert box.contains(clipped).all()
    inside = box.contains(points)
    assert (clipped[inside] == points[inside]).all()
    features_inside = (points >= box.low) & (points <= box.high)
    assert (clipped[features_inside] == points[features_inside]).all()
