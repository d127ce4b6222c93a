"""Drawing from constrained spaces: uniform, feasible, and honest about what nothing satisfies."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chi2

from ironrule.errors import ConstraintError
from ironrule.space.constraints import feasible
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import cases, every_point

NUMBERS = tuple(Feature(name, tuple(range(6)), ordered=True) for name in "abc")
WHOLE = np.zeros(3, dtype=np.int32), np.full(3, 5, dtype=np.int32)


def draw_points(space, low, high, count, seed=0):
    return space.feasible.draw(np.random.default_rng(seed), np.asarray(low), np.asarray(high), count)


@pytest.mark.parametrize("listed", [200_000, 0], ids=["listed", "rejected"])
@pytest.mark.parametrize(
    "constraints",
    [(), ("cf.a + cf.b <= 5",), ("cf.a <= cf.b", "cf.b <= cf.c"), ("if cf.a >= 3 then cf.b == 0", "cf.c != 2")],
    ids=str,
)
def test_points_are_uniform_on_the_feasible_part_of_a_box(monkeypatch, listed, constraints):
    monkeypatch.setattr(feasible, "MAX_LISTED_COMBINATIONS", listed)
    space = Space(NUMBERS, constraints)
    low, high = np.array([0, 1, 0]), np.array([4, 5, 5])
    everything = every_point(space)
    inside = ((everything >= low) & (everything <= high)).all(axis=1) & space.feasible.admits(everything)
    cells = {tuple(point): place for place, point in enumerate(everything[inside])}
    points = draw_points(space, low, high, 200 * len(cells))
    assert len(points) == 200 * len(cells)
    counts = np.bincount([cells[tuple(point)] for point in points], minlength=len(cells))
    assert ((counts - 200) ** 2 / 200).sum() < chi2.ppf(0.9999, len(cells) - 1)


@given(cases(), st.integers(1, 50))
@settings(max_examples=50, deadline=None)
def test_whatever_is_drawn_lies_in_the_box_and_can_occur(case, count):
    box = case.components.box(case.components.usable & 0b010101)
    points = case.space.feasible.draw(np.random.default_rng(0), box.low, box.high, count)
    assert len(points) <= count
    assert box.contains(points).all()
    assert case.space.feasible.admits(points).all()


@pytest.mark.parametrize(
    "texts", [("cf.a > 5",), ("cf.a > 3", "cf.a < 2"), ("cf.a > cf.b", "cf.b >= cf.c", "cf.c > cf.a")]
)
def test_constraints_that_nothing_satisfies_are_refused(texts):
    with pytest.raises(ConstraintError, match=r"no point of the space satisfies the constraints: 'cf\.a >"):
        Space(NUMBERS, texts)


def test_an_empty_feasible_part_of_a_box_gives_no_points():
    space = Space(NUMBERS, ("cf.a >= 4",))
    assert draw_points(space, [0, 0, 0], [3, 5, 5], 10).shape == (0, 3)


def test_rejection_that_finds_too_little_gives_fewer_points(monkeypatch):
    monkeypatch.setattr(feasible, "MAX_LISTED_COMBINATIONS", 0)
    wide = tuple(Feature(name, tuple(range(1000)), ordered=True) for name in "abc")
    space = Space(wide, ("cf.a + cf.b + cf.c == 0",))
    points = draw_points(space, [0] * 3, [999] * 3, 100)
    assert len(points) < 100


def test_constraints_that_share_a_feature_are_one_group():
    space = Space(NUMBERS, ("cf.a <= cf.b", "cf.b != 3"))
    assert [group.columns for group in space.feasible.groups] == [(0, 1)]
    apart = Space(NUMBERS, ("cf.a <= 3", "cf.b != 3"))
    assert [group.columns for group in apart.feasible.groups] == [(0,), (1,)]
    late = Space(NUMBERS, ("cf.a <= 3", "cf.b != 3", "cf.a != cf.b"))
    assert [group.columns for group in late.feasible.groups] == [(0, 1)]


def test_drawing_nothing_gives_nothing():
    assert draw_points(Space(NUMBERS), *WHOLE, 0).shape == (0, 3)
    assert draw_points(Space(NUMBERS, ("cf.a <= 3",)), *WHOLE, 0).shape == (0, 3)
