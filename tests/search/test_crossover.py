"""How rules are crossed."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from ironrule.search.genetic import AddOneCrossover, RandomSubsetCrossover

parents = st.lists(st.booleans(), min_size=6, max_size=6)
COPIES = 60


@given(one=parents, other=parents, seed=st.integers(0, 99))
def test_a_random_choice_has_one_component_more_than_the_longer_parent_or_all(
    one: list[bool], other: list[bool], seed: int
) -> None:
    first, second = np.array([one] * COPIES), np.array([other] * COPIES)
    children = RandomSubsetCrossover().cross(first, second, np.random.default_rng(seed))
    union = first[0] | second[0]
    assert not (children & ~union).any()
    assert set(children.sum(axis=1)) == {min(max(sum(one), sum(other)) + 1, union.sum())}


@given(one=parents, other=parents, seed=st.integers(0, 99))
def test_one_more_is_a_parent_with_one_component_of_the_other(one: list[bool], other: list[bool], seed: int) -> None:
    first, second = np.array([one] * COPIES), np.array([other] * COPIES)
    children = AddOneCrossover().cross(first, second, np.random.default_rng(seed))
    expected = set()
    for parent, giver in ((first[0], second[0]), (second[0], first[0])):
        lacking = np.flatnonzero(giver & ~parent).tolist()
        added = [parent | (np.arange(6) == place) for place in lacking] or [parent]
        expected |= {tuple(child.tolist()) for child in added}
    found = {tuple(child.tolist()) for child in children}
    assert found <= expected
    assert len(found) > 1 or len(expected) == 1
