"""The cheapest changes of a sum against all assignments."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.additive.nearest import Assignment, CheapestChanges, FeatureOptions, Need, SearchLimitReached


def build_options(raw: list[tuple[list[tuple[float, float]], bool]]) -> list[FeatureOptions]:
    options = []
    for pairs, forced in raw:
        costs, gains = (np.array([pair[side] for pair in pairs], dtype=np.float64) for side in (0, 1))
        options.append(FeatureOptions.select(costs, gains, np.ones(len(pairs), dtype=np.bool_), forced))
    return options


def list_solutions(raw: list[tuple[list[tuple[float, float]], bool]], enough: Any) -> list[tuple[int, float, set[int]]]:
    """Every assignment that is enough: how many features it changes, what it costs, which they are; cheapest first."""
    choices = [[*([] if forced else [None]), *range(len(pairs))] for pairs, forced in raw]
    solutions = []
    for picks in itertools.product(*choices):
        taken = {j: raw[j][0][p] for j, p in enumerate(picks) if p is not None}
        if taken and enough(sum(gain for _, gain in taken.values())):
            solutions.append((len(taken), sum(cost for cost, _ in taken.values()), set(taken)))
    return sorted(solutions, key=lambda one: one[:2])


def collect(search: CheapestChanges, count: int) -> list[Assignment]:
    found = []
    while len(found) < count and (one := search.find_next()) is not None:
        found.append(one)
    return found


numbers = st.integers(1, 12)
feature = st.tuples(
    st.lists(st.tuples(numbers.map(lambda n: n / 16), st.integers(-3, 9)), max_size=5),
    st.sampled_from([False] * 5 + [True]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(feature, min_size=1, max_size=5), st.integers(1, 25), st.booleans())
def test_every_solution_is_the_cheapest_that_is_left(raw, need, ties_are_enough):
    """A gain of exactly the need is in doubt: then it is asked about."""
    options = build_options(raw)

    def ask(assignments):
        for one in assignments:
            assert abs(sum(options[j].gains[p] for j, p in one.items()) - need) < 1e-6
        return [ties_are_enough] * len(assignments)

    search = CheapestChanges(options, Need(need - 1e-7, need + 1e-7, ask), 100_000, lambda: None)
    left = list_solutions(raw, (lambda gain: gain >= need) if ties_are_enough else (lambda gain: gain > need))
    for one in collect(search, 5):
        assert (len(one), pytest.approx(sum(options[j].costs[p] for j, p in one.items()))) == left[0][:2]
        left = [other for other in left if not set(one) <= other[2]]
    if len(search.found) < 5:
        assert not left


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_long_lists_of_options_give_the_cheapest(seed):
    rng = np.random.default_rng(seed)
    options = []
    for _ in range(4):
        costs, slope = np.sort(rng.uniform(0, 1, 40)), rng.uniform(0.2, 2)
        gains = slope * costs + (rng.uniform(0, 0.1, 40) if rng.random() < 0.5 else 0)
        options.append(FeatureOptions.select(costs, gains, np.ones(40, dtype=np.bool_), False))
    need = rng.uniform(0.1, 0.95) * sum(one.most for one in options)
    search = CheapestChanges(options, Need(need, need, lambda _: []), 1_000_000, lambda: None)
    found = search.find_next()
    least = np.inf, np.inf
    for size in range(1, 5):
        for chosen in itertools.combinations(range(4), size):
            gains = sum(np.meshgrid(*(options[j].gains for j in chosen), indexing="ij"))
            costs = sum(np.meshgrid(*(options[j].costs for j in chosen), indexing="ij"))
            if (gains > need).any():
                least = min(least, (size, costs[gains > need].min()))
    assert found is not None
    assert (len(found), pytest.approx(sum(options[j].costs[p] for j, p in found.items()), abs=2e-9)) == least


def test_a_search_that_looks_at_too_much_stops_and_keeps_its_best():
    costs = np.linspace(0.001, 1, 300)
    same = FeatureOptions.select(costs, np.sqrt(costs), np.ones(300, dtype=np.bool_), False)
    search = CheapestChanges([same] * 6, Need(4.5, 4.5, lambda _: []), 50, lambda: None)
    with pytest.raises(SearchLimitReached):
        search.find_next()
    assert search.best is not None
