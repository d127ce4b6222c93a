"""The cheapest changes of a sum, compared with all assignments there are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ironrule.backends.additive.nearest import Need
from ironrule.explain.counterfactuals.costs.cheapest_sum import CheapestSum, FeatureChoices

parts = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.25])
gains = st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, 1.75, 2.5])
features = st.lists(st.tuples(st.lists(st.tuples(parts, gains), max_size=4), st.booleans()), min_size=1, max_size=4)


def refuse(assignments):
    raise AssertionError(f"nothing is in doubt, but {assignments} were asked about")


def list_solutions(given, need, earlier):
    """All assignments that are enough, with their parts; a feature that may stay has None as an option."""
    options = [[*range(len(some)), *([None] if stays else [])] for some, stays in given]
    for chosen in itertools.product(*options):
        picked = [some[place] for (some, _), place in zip(given, chosen, strict=True) if place is not None]
        changed = {j for j, place in enumerate(chosen) if place is not None}
        if sum(gain for _, gain in picked) > need and not any(one <= changed for one in earlier):
            yield [part for part, _ in picked]


@pytest.mark.parametrize("combine", ["sum", "max"])
@given(given=features, need=st.sampled_from([0.0, 0.5, 1.25, 3.0]))
def test_each_answer_is_the_cheapest_that_earlier_ones_leave(combine, given, need):
    choices = [
        FeatureChoices.select(*np.array(some).reshape(-1, 2).T, np.ones(len(some), dtype=np.bool_), stays)
        for some, stays in given
    ]
    search = CheapestSum(choices, Need(need, need, refuse), combine, 10_000, lambda: None)
    total, earlier = sum if combine == "sum" else lambda some: max(some, default=0.0), []
    for _ in range(3):
        answer = search.find_next(earlier)
        least = min((total(some) for some in list_solutions(given, need, earlier)), default=math.inf)
        assert answer.bound <= least + 1e-9
        if answer.assignment is None:
            assert least == math.inf
            assert answer.bound == math.inf
            return
        picked = [given[j][0][place] for j, place in answer.assignment.items()]
        assert sum(gain for _, gain in picked) > need
        assert answer.cost == pytest.approx(least) == pytest.approx(answer.bound)
        assert total([part for part, _ in picked]) <= least + 1e-9
        if not answer.assignment:
            return
        earlier.append(frozenset(answer.assignment))


@given(given=features, need=st.sampled_from([0.5, 1.25]))
def test_a_search_that_is_cut_short_bounds_what_is_left(given, need):
    choices = [
        FeatureChoices.select(*np.array(some).reshape(-1, 2).T, np.ones(len(some), dtype=np.bool_), stays)
        for some, stays in given
    ]
    answer = CheapestSum(choices, Need(need, need, refuse), "sum", 2, lambda: None).find_next([])
    least = min((sum(some) for some in list_solutions(given, need, [])), default=math.inf)
    assert answer.bound <= least + 1e-9
    assert answer.cost >= least - 1e-9


def test_of_linear_gains_over_fine_grids_little_more_than_the_relaxation_is_paid():
    """With gains in proportion to costs, the best is greedy: the cheapest gains in full, and a part of one."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        slopes, most = (
            rng.uniform(0.2, 3.0, 12),
            rng.uniform(0.1, 1.0, 12),
        )  # gain for cost, and what a feature can cost
        grid, every = np.linspace(0.001, 1.0, 1000), np.ones(1000, dtype=np.bool_)
        choices = [
            FeatureChoices.select(top * grid, slope * top * grid, every, True)
            for slope, top in zip(slopes, most, strict=True)
        ]
        need = left = 0.6 * float(slopes @ most)
        least = 0.0
        for j in np.argsort(-slopes):
            part = min(most[j], left / slopes[j])
            least, left = least + part, left - part * slopes[j]
        search = CheapestSum(choices, Need(need, need, refuse), "sum", 100, lambda: None)
        answer = search.find_next([])
        assert least - 1e-9 <= answer.cost <= least + 0.0011
        assert answer.bound >= least - 1e-6


def test_what_one_answer_took_is_not_taken_from_the_next():
    """Each answer may take so much; what the cheapest is without earlier answers is known by then."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        some = [np.sort(rng.uniform(0.0, 1.0, (2, 6)), axis=1) for _ in range(8)]
        choices = [FeatureChoices.select(*one, np.ones(6, dtype=np.bool_), True) for one in some]
        need = 0.5 * sum(one.most for one in choices)
        search, earlier, last = CheapestSum(choices, Need(need, need, refuse), "sum", 3, lambda: None), [], 0.0
        for _ in range(3):
            answer = search.find_next(earlier)
            assert search.looked_at > 0
            assert answer.assignment is not None, "there are many more"
            assert not any(one <= answer.assignment.keys() for one in earlier)
            assert last <= answer.bound <= answer.cost
            earlier.append(frozenset(answer.assignment))
            last = max(last, answer.bound)
        assert answer.bound < answer.cost, "the limit was reached"


def test_the_model_decides_what_is_in_doubt():
    options = np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.ones(2, dtype=np.bool_)
    asked = []

    def ask(assignments):
        asked.extend(assignments)
        return [False for _ in assignments]

    search = CheapestSum([FeatureChoices.select(*options, True)], Need(0.5, 1.5, ask), "sum", 100, lambda: None)
    answer = search.find_next([])
    assert asked == [{0: 0}]
    assert (answer.assignment, answer.cost) == ({0: 1}, 2.0)
    assert answer.bound < 2.0, "an option that gains as much as the one that was denied is not looked at"
