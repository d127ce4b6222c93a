"""The cheapest changes of several sums at once, compared with all combinations of choices there are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.additive.joint_sums import JointChoices, JointNeed, JointSumSearch

SUMS = 2
costs = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 3.25])
gains = st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, 1.75])
choices = st.tuples(costs, st.tuples(*[gains] * SUMS))
features = st.lists(st.tuples(st.lists(choices, max_size=4), st.booleans()), min_size=1, max_size=4)


def build_choices(some, stays, least_part):
    """The choices of a feature as the search takes them; not to change stands in the middle."""
    listed = [(cost + least_part, gain, place) for place, (cost, gain) in enumerate(some)]
    middle = len(listed) // 2
    if stays:
        listed.insert(middle, (0.0, (0.0,) * SUMS, -1))
    return JointChoices(
        np.array([cost for cost, _, _ in listed], dtype=np.float64),
        np.array([gain for _, gain, _ in listed], dtype=np.float64).reshape(-1, SUMS).T,
        np.array([place for *_, place in listed], dtype=np.intp),
        middle if stays else -1,
    )


def is_accepted(places):
    """What the model says where rounding leaves it open: something that no bound could guess."""
    return sum(places) % 2 == 0


@pytest.mark.parametrize("combine", [sum, max])
@settings(max_examples=30, deadline=None)
@given(
    given=features,
    least=st.tuples(*[st.sampled_from([-0.5, 0.0, 0.5, 1.25])] * SUMS),
    doubt=st.sampled_from([0.0, 0.5]),
    least_part=st.sampled_from([0.0, 0.5, 2.0]),
)
def test_the_answer_is_the_cheapest_combination_that_is_enough_in_every_sum(combine, given, least, doubt, least_part):
    built = [build_choices(some, stays, least_part if combine is sum else 0.0) for some, stays in given]
    need = np.array(least)
    asked = JointNeed(need, need + doubt, is_accepted)
    search = JointSumSearch(asked, least_part if combine is sum else 0.0, 10_000, lambda: None)
    answer = search.find_least_sum(built) if combine is sum else search.find_least_largest(built)
    known = {}
    for picks in itertools.product(*(range(len(one.costs)) for one in built)):
        total = sum(one.gains[:, pick] for one, pick in zip(built, picks, strict=True))
        places = tuple(int(one.places[pick]) for one, pick in zip(built, picks, strict=True))
        if (total > need + doubt).all() or ((total > need).all() and is_accepted(places)):
            known[places] = combine(one.costs[pick] for one, pick in zip(built, picks, strict=True))
    cheapest = min(known.values(), default=math.inf)
    assert answer.cost == pytest.approx(cheapest)
    assert answer.bound <= cheapest + 1e-9
    if answer.places is None:
        assert answer.bound == math.inf
    else:
        assert known[answer.places] == pytest.approx(cheapest) == pytest.approx(answer.bound)


def test_a_search_that_ends_early_still_bounds_what_is_left():
    rng = np.random.default_rng(0)
    built = [
        JointChoices(
            np.append(0.0, rng.random(30)),
            np.column_stack([np.zeros(2), rng.normal(size=(2, 30))]),
            np.arange(31),
            own=0,
        )
        for _ in range(8)
    ]
    need = JointNeed(np.full(2, 5.0), np.full(2, 5.0), is_accepted)
    whole = JointSumSearch(need, 0.0, 100_000, lambda: None).find_least_sum(built)
    early = JointSumSearch(need, 0.0, 3, lambda: None).find_least_sum(built)
    assert whole.places is not None
    assert 0.0 < early.bound <= whole.cost <= early.cost
    assert early.bound < early.cost
