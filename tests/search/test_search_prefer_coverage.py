"""The rule that covers most, against all sets of components of tiny cases; and honest ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.forest.oracle import ForestOracle
from ironrule.hitting.bits import list_members
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Case, Oracle, Run
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum
from ironrule.search.prefer_coverage import EXTRA_COMPONENTS, prefer_coverage
from ironrule.search.problem import Problem, count_covered
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Verdict
from random_tree_sums import read_cases
from tiny_cases import cases, consistent, problem_of, subsets

tiny_cases = cases(most_features=4, most_codes=3)


def list_permitted(problem: Problem, longest: int) -> list[int]:
    """All rules up to a length that hold, and that the user permits, by looking at every point."""
    fitting = [rule for rule in subsets(problem.allowed) if rule.bit_count() <= longest]
    return [rule for rule in fitting if problem.meets_requirements(rule) and consistent(problem.case, rule)]


def assert_best(problem: Problem, most: int = 1) -> None:
    """Whether the preferred rules hold, have nothing redundant, are short enough, and none such covers more."""
    result = solve(problem, Minimum())
    preferred = prefer_coverage(problem, result, most)
    if not isinstance(result.verdicts[0], Proven):
        assert preferred is None
        return
    assert preferred is not None
    assert preferred.covers_most
    permitted = list_permitted(problem, result.rules[0].bit_count() + EXTRA_COMPONENTS)
    irredundant = [rule for rule in permitted if not any(rule & ~(1 << bit) in permitted for bit in list_members(rule))]
    rules, first = list(preferred.rules), next(iter(preferred.rules))
    assert set(rules) <= set(irredundant)
    assert count_covered(problem.case, [first]) == [max(count_covered(problem.case, permitted))]
    assert len(rules) == min(most, len(irredundant))
    # Never claimed wrongly, and always known where there was room for one more: then every rule was asked about.
    assert not preferred.are_all or len(irredundant) <= most
    assert preferred.are_all or len(irredundant) >= most
    counts = count_covered(problem.case, rules)
    assert counts == sorted(counts, reverse=True)
    for rule, verdict in preferred.rules.items():
        assert verdict.certificate.low == tuple(problem.case.components.box(rule).low.tolist())


@settings(deadline=None, max_examples=150)
@given(tiny_cases, st.integers(0, 255), st.integers(0, 255), st.integers(1, 6))
def test_no_permitted_rule_that_is_two_longer_at_most_covers_more(
    case: Case, forbidden: int, wanted: int, most: int
) -> None:
    allowed = case.components.usable & ~(forbidden & wanted & 0b01010101)
    required = tuple(1 << bit for bit in list_members(allowed & wanted & ~forbidden) if bit % 3 == 0)
    assert_best(problem_of(case, Exhaustive(), allowed=allowed, required=required), most)


@settings(deadline=None, max_examples=60)
@given(read_cases(), st.integers(1, 6))
def test_the_same_where_the_model_is_read(made: tuple[Case, ForestOracle], most: int) -> None:
    assert_best(problem_of(*made), most)


@settings(deadline=None, max_examples=60)
@given(tiny_cases)
def test_lists_that_are_too_short_are_made_longer(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ironrule.search.prefer_coverage.FIRST_LIMIT", 1)
        patch.setattr("ironrule.search.prefer_coverage.QUESTIONS_PER_LIST", 1)
        assert_best(problem_of(case, Exhaustive()))


@dataclass(slots=True)
class Stopping:
    """An oracle that is exact until it is stopped, by Ctrl-C or by giving up."""

    left: int
    gives_up: bool
    oracle: Oracle = field(default_factory=Exhaustive)

    @property
    def capabilities(self) -> Capabilities:
        return NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        self.left -= 1
        if self.left >= 0:
            return self.oracle.find(query, run)
        if self.gives_up:
            return NOT_SEARCHED
        raise KeyboardInterrupt


@settings(deadline=None, max_examples=150)
@given(tiny_cases, st.integers(0, 8), st.booleans())
def test_whatever_stops_it_the_rule_is_proven_and_completeness_is_not_claimed_falsely(
    case: Case, questions: int, gives_up: bool
) -> None:
    oracle = Stopping(10**9, gives_up)
    problem = problem_of(case, oracle)
    result = solve(problem, Minimum())
    oracle.left = questions
    preferred = prefer_coverage(problem, result, 4)
    if preferred is None:
        assert not isinstance(result.verdicts[0], Proven)
        return
    longest = result.rules[0].bit_count() + EXTRA_COMPONENTS
    permitted = list_permitted(problem, longest)
    covered, most = count_covered(case, list(preferred.rules)), max(count_covered(case, permitted))
    assert set(preferred.rules) <= set(permitted)
    assert covered[0] >= count_covered(case, [result.rules[0]])[0]
    assert not preferred.covers_most or covered[0] == most
    irredundant = [rule for rule in permitted if not any(rule & ~(1 << bit) in permitted for bit in list_members(rule))]
    assert not preferred.are_all or set(preferred.rules) == set(irredundant)
    assert (problem.meter.ended_by == "interrupted") == (oracle.left < 0 and not gives_up)


@settings(deadline=None, max_examples=60)
@given(tiny_cases, st.integers(0, 3))
def test_it_asks_no_more_than_it_may(case: Case, most: int) -> None:
    problem = problem_of(case, Exhaustive())
    result = solve(problem, Minimum())
    asked = problem.meter.events["candidates"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ironrule.search.prefer_coverage.MAX_QUESTIONS", most)
        prefer_coverage(problem, result, 4)
    assert problem.meter.events["candidates"] <= asked + max(1, most)
