"""Weights as exact numbers: what users write, whole multiples of a unit, and what documents hold."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ironrule.errors import InputError
from ironrule.hitting.bits import pack_sets, unpack_sets
from ironrule.hitting.solver import find_lighter_hitting_set, find_minimum_hitting_set, list_light_hitting_sets
from ironrule.hitting.weights import (
    MAX_TOTAL_WEIGHT,
    multiply_exactly,
    number_from_json,
    number_to_json,
    parse_weight,
    scale_to_integers,
    to_storable_weight,
)
from ironrule.wording import format_number

fractions = st.fractions(min_value=Fraction(1, 50), max_value=10**4, max_denominator=50)


@pytest.mark.parametrize(
    ("weight", "exact"),
    [
        (2, Fraction(2)),
        (0.1, Fraction(1, 10)),
        (5e-10, Fraction(1, 2 * 10**9)),
        (1e12, Fraction(10**12)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.int8(3), Fraction(3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.30"), Fraction(3, 10)),
    ],
    ids=repr,
)
def test_a_weight_means_the_decimal_number_that_is_written(weight: Any, exact: Fraction) -> None:
    assert parse_weight("age", weight) == exact
    kept = to_storable_weight("age", weight)
    assert type(kept) in (int, float, Fraction)
    assert parse_weight("age", kept) == exact


@given(st.lists(fractions, min_size=1, max_size=6))
def test_weights_are_whole_multiples_of_the_largest_unit(weights: list[Fraction]) -> None:
    multiples, unit = scale_to_integers(weights)
    assert [multiply_exactly(one, unit) for one in multiples.tolist()] == weights
    assert np.gcd.reduce(multiples.astype(np.int64)) == 1


def test_sums_below_the_limit_are_taken_and_others_refused() -> None:
    multiples, unit = scale_to_integers([Fraction(MAX_TOTAL_WEIGHT - 2), Fraction(1)])
    assert (multiples.sum(), unit) == (MAX_TOTAL_WEIGHT - 1, 1)
    with pytest.raises(InputError, match="got 1 beside 9007199254740991; use weights closer together or with fewer"):
        scale_to_integers([Fraction(MAX_TOTAL_WEIGHT - 1), Fraction(1)])
    with pytest.raises(InputError, match="got 5e-10 beside 1000000000000000; use"):
        scale_to_integers([Fraction("5e-10"), Fraction(1), Fraction("1e15")])


@given(fractions)
def test_documents_keep_exact_numbers(number: Fraction) -> None:
    whole = number.numerator if number.denominator == 1 else number
    assert number_from_json(number_to_json(whole)) == number
    assert Fraction(format_number(whole)) == number


# Two sets hit everything, {0} and {1, 2}. What hits most per weight is {0}; the other weighs one unit less.
DUALS = pack_sets([0b011, 0b101], 2)


@pytest.mark.parametrize("half", [3, 10**3, 10**9, 10**12, 10**15])
def test_a_hitting_set_that_is_lighter_by_one_unit_is_found(half: int) -> None:
    weights = [2 * half + 1, half, half]
    found = find_minimum_hitting_set(DUALS, weights)
    assert (unpack_sets(found.members), found.weight, found.optimal) == ([0b110], 2 * half, True)
    lighter, bound = find_lighter_hitting_set(DUALS, weights, below_weight=2 * half + 1)
    assert lighter is not None
    assert (unpack_sets(lighter), bound <= 2 * half) == ([0b110], True)
    assert find_lighter_hitting_set(DUALS, weights, below_weight=2 * half) == (None, 2 * half)
    listed = list_light_hitting_sets(DUALS, weights, max_weight=2 * half, limit=5)
    assert (unpack_sets(listed.members), listed.complete, listed.others_lower_bound) == ([0b110], True, 2 * half + 1)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_for_weights_of_any_size(seed: int) -> None:
    """Many near ties among sets of large weights; node limits leave bounds, none of which may be too high."""
    rng = np.random.default_rng(seed)
    size = int(10.0 ** rng.integers(0, 14))
    weights = rng.integers(size, size + 4, 16).astype(float)
    duals = pack_sets([int(rng.integers(1, 2**16)) & int(rng.integers(1, 2**16)) or 1 for _ in range(40)], 8)
    best = find_minimum_hitting_set(duals, weights)
    sets = np.arange(2**16, dtype=np.uint64)
    hit = np.all([(sets & dual) != 0 for dual in duals[:, 0]], axis=0)
    sums = sum(((sets >> np.uint64(i)) & np.uint64(1)).astype(np.int64) * int(weights[i]) for i in range(16))
    least = int(np.asarray(sums)[hit].min())
    assert best.weight == best.lower_bound == least
    for nodes in (0, 1, 2, 5, 20):
        assert find_minimum_hitting_set(duals, weights, node_limit=nodes).lower_bound <= least
        assert find_lighter_hitting_set(duals, weights, below_weight=least + 1, node_limit=nodes)[1] <= least
    assert find_lighter_hitting_set(duals, weights, below_weight=least) == (None, least)
