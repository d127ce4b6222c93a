"""Hitting sets, against all subsets of a small universe."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from ironrule.errors import InputError
from ironrule.hitting.bits import list_members, pack_sets, unpack_sets
from ironrule.hitting.solver import (
    NO_LIMIT,
    find_lighter_hitting_set,
    find_minimum_hitting_set,
    list_light_hitting_sets,
    list_minimal_hitting_sets,
    repair_hitting_set,
)
from ironrule.rule.duals import hits_all

BITS = 8
FEATURES = BITS // 2

duals_strategy = st.lists(st.integers(0, 2**BITS - 1), max_size=12)
full_duals = st.lists(st.integers(1, 2**BITS - 1), max_size=12)
whole_numbers = st.one_of(
    st.integers(1, 4), st.integers(1, 10**6), st.integers(10**9, 10**9 + 2), st.integers(1, 2**53 // BITS - 1)
)
weights_strategy = st.lists(whole_numbers.map(float), min_size=BITS, max_size=BITS)
bounds_strategy = st.one_of(st.floats(0.0, 12.0), st.integers(0, 4 * 10**9).map(float), st.floats(0.0, 2.0**53))


def hitting_sets(duals: list[int]) -> list[int]:
    return [one for one in range(2**BITS) if all(one & dual for dual in duals)]


def minimal_by_definition(duals: list[int]) -> list[int]:
    hitting = set(hitting_sets(duals))
    return sorted(
        (one for one in hitting if not any(one & ~(1 << i) in hitting for i in list_members(one))),
        key=lambda one: (one.bit_count(), one),
    )


@settings(deadline=None)
@given(duals_strategy, st.one_of(st.none(), weights_strategy))
def test_the_minimum_is_the_least_weight_of_all_hitting_sets(duals: list[int], weights: list[float] | None) -> None:
    each, fitting = weights or [1.0] * BITS, hitting_sets(duals)
    found = find_minimum_hitting_set(pack_sets(duals, FEATURES), weights)
    assert found.optimal
    assert found.feasible == bool(fitting)
    if fitting:
        (chosen,) = unpack_sets(found.members)
        assert chosen in fitting
        assert found.weight == sum(each[i] for i in list_members(chosen))
        assert found.weight == min(sum(each[i] for i in list_members(one)) for one in fitting)
        assert found.lower_bound == found.weight


def test_the_duals_that_are_given_are_left_as_they_are() -> None:
    duals = pack_sets([0b11, 0b1, 0b110], FEATURES)
    find_minimum_hitting_set(duals)
    list_minimal_hitting_sets(duals, limit=5)
    assert unpack_sets(duals) == [0b11, 0b1, 0b110]


@settings(deadline=None)
@given(full_duals, weights_strategy, st.integers(0, 3))
def test_an_interrupted_search_still_brackets_the_minimum(
    duals: list[int], weights: list[float], node_limit: int
) -> None:
    best = find_minimum_hitting_set(pack_sets(duals, FEATURES), weights).weight
    found = find_minimum_hitting_set(pack_sets(duals, FEATURES), weights, node_limit=node_limit)
    assert unpack_sets(found.members)[0] in hitting_sets(duals)
    assert found.lower_bound <= best <= found.weight
    assert not found.optimal or found.weight == best


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 14, 40]), st.integers(0, 4), st.booleans())
def test_whatever_stops_the_search_what_it_reports_hits_every_dual(
    seed: int, features: int, node_limit: int, small: bool
) -> None:
    rng = np.random.default_rng(seed)
    flags = rng.random((rng.integers(1, 150), 2 * features)) < rng.uniform(0.05, 0.5)
    duals = [sum(1 << int(i) for i in np.flatnonzero(row)) for row in flags]
    weights = rng.integers(1, 5 if small else 10**13, 2 * features).astype(float)
    found = find_minimum_hitting_set(pack_sets(duals, features), weights, node_limit)
    (chosen,) = unpack_sets(found.members)
    possible = all(duals)
    assert found.feasible == possible
    if possible:
        assert all(chosen & dual for dual in duals)
        assert found.weight == sum(weights[i] for i in list_members(chosen))
        assert found.lower_bound <= found.weight


@settings(deadline=None)
@given(duals_strategy)
def test_all_minimal_hitting_sets_are_listed_once(duals: list[int]) -> None:
    sets, complete = list_minimal_hitting_sets(pack_sets(duals, FEATURES), limit=1000)
    assert complete
    assert unpack_sets(sets) == minimal_by_definition(duals)


@settings(deadline=None)
@given(full_duals, st.integers(1, 6))
def test_a_limit_keeps_the_smallest_minimal_hitting_sets(duals: list[int], limit: int) -> None:
    expected = minimal_by_definition(duals)
    sets, complete = list_minimal_hitting_sets(pack_sets(duals, FEATURES), limit)
    assert complete == (len(expected) <= limit)
    assert set(unpack_sets(sets)) <= set(expected)
    assert [one.bit_count() for one in unpack_sets(sets)] == [one.bit_count() for one in expected[:limit]]


def weight_of(one: int, weights: list[float] | None) -> float:
    return sum((weights or [1.0] * BITS)[i] for i in list_members(one))


@settings(deadline=None)
@given(full_duals, st.one_of(st.none(), weights_strategy), bounds_strategy, st.booleans())
@example([0b1, 0b101010], None, 2.0, False)
def test_all_minimal_hitting_sets_up_to_a_weight_are_listed_once(
    duals: list[int], weights: list[float] | None, within: float, exactly: bool
) -> None:
    within = weight_of(int(within) % 2**BITS, weights) if exactly else within  # that of a set, so that it is just in
    minimal = minimal_by_definition(duals)
    found = list_light_hitting_sets(pack_sets(duals, FEATURES), weights, max_weight=within, limit=300)
    listed = unpack_sets(found.members)
    light = [one for one in minimal if weight_of(one, weights) <= within]
    assert found.complete
    assert sorted(listed) == sorted(light)
    others = [weight_of(one, weights) for one in minimal if one not in light]
    assert found.others_lower_bound <= min(others, default=np.inf)
    assert found.others_lower_bound > within


@settings(deadline=None)
@given(full_duals, weights_strategy, st.integers(0, 3), st.integers(1, 4))
def test_a_list_that_was_cut_short_has_minimal_sets_and_does_not_claim_to_be_complete(
    duals: list[int], weights: list[float], nodes: int, limit: int
) -> None:
    minimal = minimal_by_definition(duals)
    found = list_light_hitting_sets(pack_sets(duals, FEATURES), weights, max_weight=8.0, limit=limit, node_limit=nodes)
    listed = unpack_sets(found.members)
    assert len(set(listed)) == len(listed) <= limit
    assert set(listed) <= {one for one in minimal if weight_of(one, weights) <= 8.0}
    if found.complete:
        assert len(listed) == len([one for one in minimal if weight_of(one, weights) <= 8.0])


@pytest.mark.parametrize("features", [1, 33, 128])
def test_no_duals_have_one_light_hitting_set_and_an_empty_dual_none(features: int) -> None:
    nothing = list_light_hitting_sets(pack_sets([], features), max_weight=0, limit=3)
    assert (unpack_sets(nothing.members), nothing.complete, nothing.others_lower_bound) == ([0], True, np.inf)
    impossible = list_light_hitting_sets(pack_sets([0, 1], features), max_weight=9, limit=3)
    assert (len(impossible.members), impossible.complete, impossible.others_lower_bound) == (0, True, np.inf)


@settings(deadline=None)
@given(full_duals, st.one_of(st.none(), weights_strategy), bounds_strategy, st.integers(0, 400))
def test_a_lighter_hitting_set_is_found_or_proven_not_to_exist(
    duals: list[int], weights: list[float] | None, below: float, nodes: int
) -> None:
    least = min(weight_of(one, weights) for one in hitting_sets(duals))
    limit = nodes if nodes < 5 else NO_LIMIT
    found, bound = find_lighter_hitting_set(pack_sets(duals, FEATURES), weights, below_weight=below, node_limit=limit)
    assert bound <= max(least, below)
    if found is None:
        assert limit != NO_LIMIT or bound >= below
        assert bound < below or least >= below
    else:
        (chosen,) = unpack_sets(found)
        assert chosen in hitting_sets(duals)
        assert weight_of(chosen, weights) < below
        assert bound <= least
        assert limit != NO_LIMIT or weight_of(chosen, weights) == least


@settings(deadline=None)
@given(
    full_duals,
    st.one_of(st.none(), weights_strategy),
    st.integers(0, 2**BITS - 1),
    bounds_strategy,
    st.integers(0, 9),
)
def test_what_local_search_returns_is_a_hitting_set_within_the_weight(
    duals: list[int], weights: list[float] | None, start: int, within: float, seed: int
) -> None:
    found = repair_hitting_set(
        pack_sets(duals, FEATURES), weights, pack_sets(start, FEATURES)[0], max_weight=within, steps=20, seed=seed
    )
    if found is not None:
        (chosen,) = unpack_sets(found)
        assert chosen in hitting_sets(duals)
        assert weight_of(chosen, weights) <= within


def test_local_search_finds_the_minimum_of_most_problems() -> None:
    rng = np.random.default_rng(0)
    successes = 0
    for seed in range(40):
        duals = pack_sets([sum(1 << int(i) for i in rng.choice(40, 6, replace=False)) for _ in range(60)], 20)
        least = find_minimum_hitting_set(duals).weight
        start = np.zeros(1, np.uint64)
        successes += repair_hitting_set(duals, None, start, max_weight=least, steps=500, seed=seed) is not None
        assert repair_hitting_set(duals, None, start, max_weight=least - 1, steps=50, seed=seed) is None
    assert successes >= 36


def test_without_nodes_the_list_does_not_claim_to_be_complete() -> None:
    sets, complete = list_minimal_hitting_sets(pack_sets([1, 2, 4], FEATURES), limit=5, node_limit=2)
    assert (len(sets), complete) == (0, False)


@pytest.mark.parametrize("features", [1, 32, 33, 128, 129, 700])
def test_no_duals_are_hit_by_the_empty_set_and_an_empty_dual_by_nothing(features: int) -> None:
    nothing, impossible = pack_sets([], features), pack_sets([0, 1], features)
    assert unpack_sets(find_minimum_hitting_set(nothing).members) == [0]
    assert unpack_sets(list_minimal_hitting_sets(nothing, 5)[0]) == [0]
    assert not find_minimum_hitting_set(impossible).feasible
    assert find_minimum_hitting_set(impossible).weight == np.inf
    assert len(list_minimal_hitting_sets(impossible, 5)[0]) == 0


@pytest.mark.parametrize("features", [14, 23, 46, 128, 150, 400])
@pytest.mark.parametrize("weighted", [False, True])
def test_larger_minima_agree_with_integer_programming(features: int, weighted: bool) -> None:
    rng = np.random.default_rng(features)
    duals = [sum(1 << int(i) for i in rng.choice(2 * features, rng.integers(3, 9), replace=False)) for _ in range(90)]
    weights = rng.integers(500, 2000, 2 * features).astype(float) if weighted else np.ones(2 * features)
    matrix = np.array([[dual >> i & 1 for i in range(2 * features)] for dual in duals])
    exact = milp(weights, constraints=LinearConstraint(matrix, 1), integrality=1, bounds=Bounds(0, 1))
    found = find_minimum_hitting_set(pack_sets(duals, features), weights)
    assert found.optimal
    assert found.weight == round(exact.fun)
    assert hits_all(found.members[None, :], pack_sets(duals, features)).all()


def test_many_duals_may_make_the_list_of_minimal_sets_grow() -> None:
    pairs = [0b11 << (2 * k) for k in range(10)]
    sets, complete = list_minimal_hitting_sets(pack_sets(pairs, 10), limit=5000)
    assert (len(sets), complete) == (1024, True)
    assert all(a < b for a, b in pairwise(unpack_sets(sets)))


def test_what_cannot_be_asked_is_refused() -> None:
    duals = pack_sets([1, 2], FEATURES)
    with pytest.raises(InputError, match="positive integers"):
        find_minimum_hitting_set(duals, weights=[0.0, 1.0])
    with pytest.raises(InputError, match="positive integers, one per component, got "):
        find_minimum_hitting_set(duals, weights=[0.5, 1.0])
    with pytest.raises(InputError, match=r"add up to less than 2\*\*53"):
        find_minimum_hitting_set(duals, weights=[2.0**52, 2.0**52])
    with pytest.raises(InputError, match="limit must be a positive integer, got 0"):
        list_minimal_hitting_sets(duals, limit=0)
