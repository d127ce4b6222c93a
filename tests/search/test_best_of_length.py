"""The best rules of a length are those of exhaustive search."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.errors import InputError
from ironrule.search.best_of_length import (
    MAX_LENGTH,
    ComponentRows,
    compute_wilson_bound,
    find_best_extension,
    find_best_reduction,
    find_best_rules,
)


@st.composite
def component_rows(draw):
    """Components that are true on random rows, and the same as flags."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    components, rows = draw(st.integers(1, 8)), draw(st.sampled_from([0, 1, 5, 63, 64, 65, 300]))
    flags = rng.random((components, rows)) < rng.uniform(0.2, 0.98)
    outcomes = rng.random(rows) < rng.uniform(0.0, 0.7)
    scale = draw(st.sampled_from([0.3, 1.0, 2.5]))
    numbers = sorted(rng.choice(40, components, replace=False).tolist())
    return ComponentRows.from_flags(numbers, flags, outcomes, draw(st.sampled_from([1.0, 2.4])), scale), flags, outcomes


def score_all(case, flags, outcomes, length):
    """The score of every rule of a length."""
    scores = {}
    for places in combinations(range(len(flags)), length):
        covered = flags[list(places)].all(axis=0)
        numbers = tuple(case.numbers[place] for place in places)
        scores[numbers] = case.score(int((covered & outcomes).sum()), int(covered.sum()))
    return scores


@given(component_rows(), st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=300)
def test_the_best_rules_are_those_of_exhaustive_search(drawn, length, keep):
    case, flags, outcomes = drawn
    found, scores = find_best_rules(case, length, keep), score_all(case, flags, outcomes, length)
    assert found.complete
    assert [rule.score for rule in found.rules] == pytest.approx(sorted(scores.values())[:keep])
    assert len({rule.numbers for rule in found.rules}) == len(found.rules)
    for rule in found.rules:
        assert rule.score == pytest.approx(scores[rule.numbers])
        assert case.count(rule.numbers) == (rule.exceptions, rule.rows)


@given(component_rows())
def test_one_component_more_and_one_less(drawn):
    case, flags, outcomes = drawn
    rule = case.numbers[: len(case.numbers) // 2]
    longer, shorter = find_best_extension(case, rule), find_best_reduction(case, rule)
    for length, found in ((len(rule) + 1, longer), (len(rule) - 1, shorter)):
        scores = score_all(case, flags, outcomes, length) if length > 0 else {}
        near = [score for numbers, score in scores.items() if set(numbers) >= set(rule) or set(numbers) <= set(rule)]
        assert (found is None) == (not near)
        if found is not None:
            assert found.score == pytest.approx(min(near))


@given(st.integers(0, 400), st.integers(0, 400), st.sampled_from([0.5, 1.0, 2.0, 9.0]))
def test_the_score_rises_with_exceptions_and_falls_with_other_rows(exceptions, others, z_squared):
    """What the search drops rules by."""
    score = compute_wilson_bound(float(exceptions), float(exceptions + others), z_squared)
    assert compute_wilson_bound(exceptions + 1.0, exceptions + 1.0 + others, z_squared) >= score - 1e-12
    if exceptions + others:
        assert compute_wilson_bound(float(exceptions), exceptions + others + 1.0, z_squared) <= score + 1e-12


def test_a_search_that_is_ended_early_says_so():
    rng = np.random.default_rng(0)
    case = ComponentRows.from_flags(range(8), rng.random((8, 100)) < 0.6, rng.random(100) < 0.4, 2.0)
    assert not find_best_rules(case, 3, may_continue=lambda: False).complete
    assert find_best_rules(case, 3, may_continue=lambda: True).complete


def test_lengths_that_cannot_be_are_refused():
    case = ComponentRows.from_flags([0], np.ones((1, 3), dtype=np.bool_), np.zeros(3, dtype=np.bool_), 2.0)
    assert find_best_rules(case, 2).rules == ()
    for length in (0, MAX_LENGTH + 1):
        with pytest.raises(InputError, match="length must be between"):
            find_best_rules(case, length)
