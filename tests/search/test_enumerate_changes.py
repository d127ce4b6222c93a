"""All minimal sets of features to change, against all sets of features of tiny cases; and honest ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings, strategies as st

from ironrule.backends.forest.oracle import ForestOracle
from ironrule.oracles.combine import SearchThenProve
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Case, Run
from ironrule.search.enumerate import ChangeEnumeration, FoundChange
from ironrule.search.problem import Problem
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Verdict
from random_tree_sums import read_cases
from tiny_cases import case_of, cases, exceptions_in, problem_of, subsets


def suffices(case: Case, features: int) -> bool:
    """Whether some counterfactual changes nothing but these features, by looking at every point."""
    changed = exceptions_in(case, case.components.box(0)) != case.instance
    others = [place for place in range(len(case.space)) if not features >> place & 1]
    return bool((~changed[:, others]).all(axis=1).any())


def minimal_changes(case: Case, vary: int) -> list[int]:
    enough = [features for features in subsets(vary) if suffices(case, features)]
    return [one for one in enough if not any(other != one and other & one == other for other in enough)]


def enumerate_changes(problem: Problem, vary: int | None = None) -> tuple[ChangeEnumeration, list[list[FoundChange]]]:
    search = ChangeEnumeration(problem, (1 << problem.n) - 1 if vary is None else vary)
    return search, list(search.levels())


@settings(deadline=None, max_examples=120)
@given(cases(most_codes=3), st.integers(0, 31), st.booleans(), st.integers(0, 9))
def test_all_minimal_sets_come_once_smallest_first_each_with_a_counterfactual(
    case: Case, kept: int, exact: bool, seed: int
) -> None:
    vary = (1 << len(case.space)) - 1 & ~(kept & kept >> 2)
    search, levels = enumerate_changes(problem_of(case, Exhaustive() if exact else SearchThenProve(), seed=seed), vary)
    found = [one for level in levels for one in level]
    assert search.complete
    assert search.stopped is None
    assert [one.features.bit_count() for one in found] == sorted(one.features.bit_count() for one in found)
    assert sorted(one.features for one in found) == sorted(minimal_changes(case, vary))
    desired = {point.tobytes() for point in exceptions_in(case, case.components.box(0))}
    for one in found:
        assert one.minimal
        assert one.point.tobytes() in desired
        changed = np.flatnonzero(one.point != case.instance).tolist()
        assert one.features == sum(1 << feature for feature in changed)


@settings(deadline=None, max_examples=25)
@given(cases(recourse=True, most_features=4, most_codes=3))
def test_changes_keep_to_what_is_permitted(case: Case) -> None:
    search, levels = enumerate_changes(problem_of(case, SearchThenProve()))
    assert search.complete
    found = sorted(one.features for level in levels for one in level)
    assert found == sorted(minimal_changes(case, (1 << len(case.space)) - 1))


@settings(deadline=None, max_examples=60)
@given(read_cases(), st.integers(0, 9))
def test_with_the_oracle_that_reads_forests_the_changes_are_the_same(
    made: tuple[Case, ForestOracle], seed: int
) -> None:
    case, oracle = made
    search, levels = enumerate_changes(problem_of(case, oracle, seed=seed))
    assert search.complete
    found = sorted(one.features for level in levels for one in level)
    assert found == sorted(minimal_changes(case, (1 << len(case.space)) - 1))


def scattered() -> Case:
    """Six ordered features of three values, desired where one of a few groups of features is far above the middle."""
    space = Space(tuple(Feature(f"f{place}", (0, 1, 2), ordered=True) for place in range(6)))
    high = np.indices((3,) * 6) == 2
    table = (high[0] & high[1]) | (high[1] & high[2] & high[3]) | (high[0] & high[4] & high[5] & high[3])
    instance = np.ones(6, dtype=np.int32)
    return case_of(space, table, instance, instance[None, :])


def test_a_budget_of_any_size_stops_the_search_honestly() -> None:
    whole = problem_of(scattered(), Exhaustive())
    _, all_levels = enumerate_changes(whole)
    assert [[one.features for one in level] for level in all_levels if level] == [[0b11], [0b1110], [0b111001]]
    for evaluations in (1, 10, *range(100, whole.meter.evaluations, whole.meter.evaluations // 20)):
        problem = problem_of(scattered(), Exhaustive(), budget=Budget(evaluations=evaluations))
        search, levels = enumerate_changes(problem)
        assert (search.stopped, search.complete) == ("budget", False)
        found = [one.features for level in levels for one in level]
        assert found == [0b11, 0b1110, 0b111001][: len(found)]


@dataclass(frozen=True, slots=True)
class Refuting:
    """An oracle that finds what there is but never proves, or never does so for boxes of some size."""

    size: int | None = None
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        verdict = Exhaustive().find(query, run)
        hides = isinstance(verdict, Proven) and self.size in (None, query.box.size)
        return NOT_SEARCHED if hides else verdict


def test_nothing_is_called_minimal_or_complete_that_was_not_proven() -> None:
    search, levels = enumerate_changes(problem_of(scattered(), Refuting()))
    found = [one for level in levels for one in level]
    assert [one.features for one in found] == [0b11, 0b1110, 0b111001]
    assert not any(one.minimal for one in found)
    assert not search.complete
    for size in (1, 3, 9, 27, 81):
        search, levels = enumerate_changes(problem_of(scattered(), Refuting(size)))
        if any(not one.minimal for level in levels for one in level):
            assert not search.complete


def test_where_nothing_may_change_there_is_no_change_and_that_is_complete() -> None:
    search, levels = enumerate_changes(problem_of(scattered(), Exhaustive()), vary=0)
    assert [one for level in levels for one in level] == []
    assert search.complete
