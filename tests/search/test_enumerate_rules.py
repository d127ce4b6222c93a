"""All irredundant rules, against all sets of components of tiny cases; and honest ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.hitting.bits import list_members
from ironrule.oracles.combine import SearchThenProve
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Case, Oracle, Run
from ironrule.search import driver
from ironrule.search.driver import solve
from ironrule.search.enumerate import RuleEnumeration
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem, SearchState, count_covered
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Unrefuted, Verdict
from random_tree_sums import read_cases
from tiny_cases import case_of, cases, consistent, problem_of, subsets

tiny_cases = cases(most_features=4, most_codes=3)
# Whole numbers, some far apart, some next to each other; all sums of a few are exact.
WEIGHTS = [1.0, 2.0, 3.0, 17.0, 1e9, 2e9 + 1, 1e14, 1e14 + 1]
weight_lists = st.lists(st.sampled_from(WEIGHTS), min_size=8, max_size=8)


def irredundant(problem: Problem) -> list[int]:
    """All rules that are consistent and meet what is required, and none of whose components can go."""
    fitting = {
        rule for rule in subsets(problem.allowed) if problem.meets_requirements(rule) and consistent(problem.case, rule)
    }
    return [rule for rule in fitting if not any(rule & ~(1 << bit) in fitting for bit in list_members(rule))]


def levels_of(problem: Problem) -> tuple[RuleEnumeration, list[list[int]]]:
    search = RuleEnumeration(problem)
    return search, [list(level) for level in search.levels()]


@settings(deadline=None, max_examples=80)
@given(tiny_cases, st.integers(0, 255), st.integers(0, 255), st.one_of(st.none(), weight_lists))
def test_all_irredundant_rules_come_once_lightest_first_and_proven(
    case: Case, forbidden: int, wanted: int, weights: list[float] | None
) -> None:
    allowed = case.components.usable & ~(forbidden & wanted & 0b01010101)
    required = tuple(1 << bit for bit in list_members(allowed & wanted & ~forbidden) if bit % 3 == 0)
    problem = problem_of(case, Exhaustive(), allowed=allowed, required=required)
    if weights is not None:
        problem = replace(problem, weights=np.array(weights[: 2 * problem.n]))
    search, levels = levels_of(problem)
    rules = [rule for level in levels for rule in level]
    assert search.complete
    assert search.stopped is None
    assert len(set(rules)) == len(rules)
    assert sorted(rules) == sorted(irredundant(problem))
    assert all(isinstance(search.verdicts[rule], Proven) for rule in rules)
    heaviest = [max(map(problem.weigh, level)) for level in levels if level]
    lightest = [min(map(problem.weigh, level)) for level in levels if level]
    assert all(before < after for before, after in zip(heaviest, lightest[1:], strict=False))


@settings(deadline=None, max_examples=60)
@given(tiny_cases, st.one_of(st.none(), weight_lists))
def test_the_first_level_is_exactly_the_minimum_rules(case: Case, weights: list[float] | None) -> None:
    problem = problem_of(case, Exhaustive())
    if weights is not None:
        problem = replace(problem, weights=np.array(weights[: 2 * problem.n]))
    every = irredundant(problem)
    least = min(map(problem.weigh, every))
    first = next(level for level in RuleEnumeration(problem).levels() if level)
    assert sorted(first) == sorted(rule for rule in every if problem.weigh(rule) <= least)


def test_nothing_comes_and_that_is_complete_where_no_rule_can_be_consistent() -> None:
    case = scattered()
    search, levels = levels_of(problem_of(case, Exhaustive(), allowed=case.components.select(["f0"])))
    assert [level for level in levels if level] == []
    assert search.complete


def scattered(size: int = 5) -> Case:
    """Ordered features of three values, a fifth of the points desired; the instance is in the middle."""
    space = Space(tuple(Feature(f"f{place}", (0, 1, 2), ordered=True) for place in range(size)))
    table = np.random.default_rng(size).random((3,) * size) < 0.2
    instance = np.ones(size, dtype=np.int32)
    table[tuple(instance)] = False
    return case_of(space, table, instance, instance[None, :])


def test_a_budget_of_any_size_stops_the_search_honestly() -> None:
    whole = problem_of(scattered(), Exhaustive())
    _, all_levels = levels_of(whole)
    every = irredundant(whole)
    assert len([level for level in all_levels if level]) == 3
    for evaluations in (1, 3, 30, *range(100, whole.meter.evaluations, 100)):
        problem = problem_of(scattered(), Exhaustive(), budget=Budget(evaluations=evaluations))
        search, levels = levels_of(problem)
        assert (search.stopped, search.complete) == ("budget", False)
        assert problem.meter.evaluations <= evaluations
        assert {rule for level in levels for rule in level} <= set(every)
        for finished, expected in zip(levels[:-1], all_levels, strict=False):
            assert sorted(finished) == sorted(expected)


@dataclass(frozen=True, slots=True)
class Hesitant:
    """An exact oracle that does not decide boxes of some sizes."""

    undecided: int
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        verdict = Exhaustive().find(query, run)
        hesitates = isinstance(verdict, Proven) and query.box.size == self.undecided
        return NOT_SEARCHED if hesitates else verdict


def test_completeness_is_not_claimed_where_a_rule_could_not_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CHECK_SAMPLES", 1)
    case = scattered()
    every = irredundant(problem_of(case, Exhaustive()))
    sizes = {case.components.box(rule).size for rule in every}
    for undecided in sizes:
        search, levels = levels_of(problem_of(case, Hesitant(undecided)))
        rules = {rule for level in levels for rule in level}
        assert any(isinstance(search.verdicts[rule], Unrefuted) for rule in rules)
        assert rules == set(every)
        assert not search.complete


@dataclass(slots=True, eq=False)
class Interrupted:
    """An exact oracle during whose ``last`` call somebody presses Ctrl-C."""

    last: int
    calls: int = 0
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        self.calls += 1
        if self.calls >= self.last:
            raise KeyboardInterrupt
        return Exhaustive().find(query, run)


def test_ctrl_c_at_any_moment_hands_out_what_was_found() -> None:
    calm = Interrupted(last=1_000)
    _, levels = levels_of(problem_of(scattered(), calm))
    every = {rule for level in levels for rule in level}
    handed_out = []
    for last in range(1, calm.calls + 1):
        search, levels = levels_of(problem_of(scattered(), Interrupted(last)))
        rules = {rule for level in levels for rule in level}
        assert (search.stopped, search.complete) == ("interrupted", False)
        assert rules <= every
        handed_out.append(len(rules))
    assert handed_out[0] == 0
    assert 1 in handed_out
    assert handed_out[-1] == len(every) - 1


@settings(deadline=None, max_examples=40)
@given(cases(most_features=3, most_codes=3), st.integers(0, 9))
def test_with_an_oracle_that_searches_first_the_rules_are_the_same(case: Case, seed: int) -> None:
    search, levels = levels_of(problem_of(case, SearchThenProve(), seed=seed))
    assert search.complete
    assert sorted(rule for level in levels for rule in level) == sorted(irredundant(search.problem))


@settings(deadline=None, max_examples=60)
@given(read_cases(), st.integers(0, 9))
def test_with_the_oracle_that_reads_forests_the_rules_are_the_same(made: tuple[Case, ForestOracle], seed: int) -> None:
    case, oracle = made
    search, levels = levels_of(problem_of(case, oracle, seed=seed))
    assert search.complete
    assert sorted(rule for level in levels for rule in level) == sorted(irredundant(search.problem))


def most_covering(problem: Problem) -> int:
    """The most past rows that a minimum rule covers."""
    every = irredundant(problem)
    least = min(map(problem.weigh, every))
    minimum = [rule for rule in every if problem.weigh(rule) <= least]
    return max(
        problem.case.history.count_covered(problem.case.components.box(rule), problem.case.space.sizes)
        for rule in minimum
    )


@settings(deadline=None, max_examples=80)
@given(tiny_cases, st.one_of(st.none(), weight_lists), st.integers(0, 9))
def test_of_all_minimum_rules_the_one_with_most_coverage_is_taken(
    case: Case, weights: list[float] | None, seed: int
) -> None:
    problem = problem_of(case, Exhaustive(), seed=seed)
    if weights is not None:
        problem = replace(problem, weights=np.array(weights[: 2 * problem.n]))
    findings = solve(problem, Minimum(ties=1_000))
    rule = findings.rules[0]
    assert isinstance(findings.verdicts[0], Proven)
    assert problem.weigh(rule) == min(map(problem.weigh, irredundant(problem)))
    assert findings.lower_bound == problem.weigh(rule)
    assert count_covered(case, [rule]) == [most_covering(problem)]


def tied(past: Points) -> Case:
    """Two features of three values; desired is only the far corner, so either feature alone makes a minimum rule."""
    space = Space(tuple(Feature(f"f{place}", (0, 1, 2), ordered=True) for place in range(2)))
    table = np.zeros((3, 3), dtype=np.bool_)
    table[2, 2] = True
    return case_of(space, table, np.array([1, 1], dtype=np.int32), past)


@pytest.mark.parametrize("wide", [0, 1])
def test_a_tie_is_broken_by_coverage_and_only_if_asked_for(wide: int) -> None:
    past = np.array([[1, 1], [0, 0], *([[1, 2] if wide == 0 else [2, 1]] * 3)], dtype=np.int32)
    case = tied(past)
    expected = case.components.select([f"f{wide} <="])
    for seed in range(4):
        assert solve(problem_of(case, Exhaustive(), seed=seed), Minimum()).rules == (expected,)
    without = {solve(problem_of(case, Exhaustive(), seed=seed), Minimum(ties=0)).rules for seed in range(8)}
    assert len(without) == 2


@settings(deadline=None, max_examples=40)
@given(cases(), st.integers(1, 400))
def test_the_lower_bound_holds_whenever_the_minimum_search_is_stopped(case: Case, evaluations: int) -> None:
    problem = problem_of(case, Exhaustive(), budget=Budget(evaluations=evaluations))
    findings = solve(problem, Minimum())
    assert findings.lower_bound <= min(map(problem.weigh, irredundant(problem)))


def test_the_first_rule_at_hand_is_proven_and_comes_early() -> None:
    oracle: Oracle = Exhaustive()
    problem, state = problem_of(scattered(), oracle), SearchState()
    seen: list[int] = []

    @dataclass(frozen=True, slots=True)
    class Watching:
        capabilities = NO_CAPABILITIES

        def find(self, query: BoxQuery, run: Run) -> Verdict:
            seen.extend(rule for rule in state.best if rule not in seen)
            return oracle.find(query, run)

    problem.oracle.oracle = Watching()
    Minimum(quick=1).run(problem, state)
    assert len(seen) > 1
    assert all(consistent(problem.case, rule) for rule in seen)
    assert [rule.bit_count() for rule in seen] == sorted((rule.bit_count() for rule in seen), reverse=True)
