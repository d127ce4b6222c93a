"""Sequences of the cheapest counterfactuals, against all of them in the order of their costs."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from test_cheapest_search import FEATURES, SPACES, Space, measure_points

from ironrule.arrays import BoolArray, Float64Array
from ironrule.backends.backend import NearestRequest
from ironrule.backends.forest.backend import build_nearest_search
from ironrule.backends.forest.cheapest import CheapestSearch, prove_cheapest
from ironrule.backends.forest.cheapest_sequence import Candidate, CheapestSequence
from ironrule.backends.forest.nearest import ForestNearestSearch
from ironrule.backends.forest.workspace import allocate_forest_workspace
from ironrule.oracles.protocol import BoxQuery
from ironrule.rule.cost import CostTable
from tiny_cases import run_of

NO_SETS = np.zeros((0, FEATURES), dtype=np.bool_)


def assert_each_is_cheapest(
    found: list[Candidate], costs: Float64Array, changed: BoolArray, *, is_whole: bool = False
) -> None:
    """Each costs the least of all that change all the features of no earlier one; with ``is_whole``, none is left. Of
    those that cost the same any may be chosen.
    """
    is_left = np.ones(len(costs), dtype=np.bool_)
    for one in found:
        same = is_left & (changed == one.changed).all(axis=1)
        assert costs[same].min() == pytest.approx(one.cost, rel=1e-9)
        assert costs[is_left].min() == pytest.approx(one.cost, rel=1e-9)
        is_left &= ~changed[:, one.changed].all(axis=1)
    assert not (is_whole and is_left.any())


def find_limit(sequence: CheapestSequence, changed: BoolArray) -> float:
    """What a counterfactual that changes some features must cost less than."""
    own = (one.cost for one in sequence.candidates if not (one.changed & ~changed).any())
    return min([sequence.limit, *own])


@settings(max_examples=400)
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.frozensets(st.integers(0, 3), min_size=1)),
        unique_by=lambda one: one,
        max_size=9,
    ),
    st.integers(1, 4),
    st.integers(0, 4),
    st.randoms(use_true_random=False),
)
def test_what_costs_less_than_its_limit_is_all_that_a_sequence_needs(
    every: list[tuple[int, frozenset[int]]], k: int, first: int, random: Random
) -> None:
    """In any order, and with some looked at before the others, after which as many are wanted as there are."""
    sequence = CheapestSequence(k, 100.0, np.zeros((0, 4), dtype=np.bool_))
    limits = dict.fromkeys(every, 100.0)
    random.shuffle(every)
    for number, (cost, features) in enumerate(every):
        changed = np.isin(np.arange(4), list(features))
        if cost < find_limit(sequence, changed):
            sequence.add(Candidate(float(cost), changed, np.array([number], dtype=np.int32)))
        if number == first:
            sequence.want_no_more()
        for other in every:
            limit = find_limit(sequence, np.isin(np.arange(4), list(other[1])))
            assert limit <= limits[other] or number == first  # what was closed stays closed
            limits[other] = limit
    costs = np.array([cost for cost, _ in every], dtype=np.float64)
    changed = np.array([np.isin(np.arange(4), list(features)) for _, features in every], dtype=np.bool_)
    # Never as many as are wanted: there are no others.
    is_whole = sequence.limit == 100.0
    assert_each_is_cheapest(sequence.candidates, costs, changed.reshape(-1, 4), is_whole=is_whole)
    assert sequence.candidates or not every


def search_together(space: Space, cost: CostTable, wanted: int, limit: float) -> CheapestSequence:
    """What the search alone finds, without candidates to begin with."""
    query = BoxQuery(space.case, space.case.components.box(0), wanted, cost=cost)
    search = build_nearest_search(NearestRequest(space.tabulated, query, 100_000, None, None))
    assert isinstance(search, ForestNearestSearch)
    sequence = CheapestSequence(wanted, limit, NO_SETS)
    searches = []
    for place, forest in enumerate(search.forests):
        tables = sequence.prepare(search._start(place, forest, NO_SETS).tables)
        searches.append(CheapestSearch(forest, tables, allocate_forest_workspace(forest), least_leaves=0))
    prove_cheapest(searches, query, search.costs, sequence, 100_000, run_of())
    assert sequence.proven_count == len(sequence.candidates)
    return sequence


def test_several_are_found_together_without_candidates() -> None:
    """Below a limit above all costs, and from thousands of points, of which one takes the place of others."""
    lengths = set[int]()
    for key, space in SPACES.items():
        for seed in range(6):
            rng = np.random.default_rng((seed, key[1]))
            parts = [rng.choice([0.3, 1.0, 2.0]) * rng.random(int(size)) * 10 for size in space.case.space.sizes]
            for part, own in zip(parts, space.case.instance, strict=True):
                part[own] = 0.0
            cost = CostTable(tuple(parts), "sum")
            found = search_together(space, cost, 4, 1e9).candidates
            points = space.points[space.desired]
            assert_each_is_cheapest(found, measure_points(cost, points), points != space.case.instance)
            assert found
            lengths.add(len(found))
    assert max(lengths) == 4


def test_a_row_without_a_counterfactual_forbids_nothing() -> None:
    space = SPACES["boosted", 0]
    query = BoxQuery(space.case, space.case.components.box(0), 3, cost=CostTable(tuple(np.zeros(4) for _ in range(7))))
    search = build_nearest_search(NearestRequest(space.tabulated, query, 100_000, None, None))
    assert isinstance(search, ForestNearestSearch)
    earlier = np.ones((1, FEATURES), dtype=np.bool_)
    sequence = CheapestSequence(3, 5.0, earlier)
    tables = sequence.prepare(search._start(0, search.forests[0], earlier).tables)
    sequence.add(Candidate(2.0, np.arange(FEATURES) == 1, space.case.instance))
    sequence.set_limits(tables)
    assert tables.limit[0] == 5.0
    assert tables.forbidden_limits.tolist() == [-math.inf, 2.0, math.inf]
    assert tables.forbidden.sum(axis=1).tolist() == [FEATURES, 1, 0]
