"""An oracle that can be told how long to try: easy questions come first, hard ones are asked again, and what stays
undecided is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import given, settings, strategies as st

from ironrule.hitting.bits import list_members
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Case, Run
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget, BudgetExhausted, Meter
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Refuted, Unrefuted, Verdict
from tiny_cases import case_of, cases, consistent, problem_of


@dataclass(frozen=True, slots=True, eq=False)
class Slow:
    """Exhaustive, but unsure of every box that is larger than its effort allows."""

    most: float
    asked: list[tuple[float, int]] = field(default_factory=list)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(adjustable_effort=self)  # type: ignore[arg-type]

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        share = 1.0 if query.effort is None else query.effort
        self.asked.append((share, query.box.size))
        if query.box.size > share * self.most:
            return NOT_SEARCHED
        return Exhaustive().find(query, run)


def slow_problem(case: Case, oracle: Slow, budget: Budget | None = None) -> Problem:
    problem = problem_of(case, oracle, k=1, budget=budget)
    return replace(problem, oracle=CachingOracle(oracle, exact=True))


@settings(deadline=None, max_examples=200)
@given(cases(most_features=4, most_codes=3), st.integers(1, 40))
def test_rules_are_proven_and_what_may_be_redundant_is_undecided(case: Case, most: int) -> None:
    problem = slow_problem(case, Slow(float(most)))
    findings = solve(problem, Minimum(ties=0))
    rule = findings.rules[0]
    assert isinstance(findings.verdicts[0], Proven)
    assert consistent(case, rule)
    for bit in list_members(rule):
        if consistent(case, rule & ~(1 << bit)):
            known = problem.oracle.lookup(case.components.box(rule & ~(1 << bit)))
            assert isinstance(known, Unrefuted)
    assert all(share <= 1.0 for share, _ in problem.oracle.oracle.asked)  # type: ignore[attr-defined]


@settings(deadline=None, max_examples=100)
@given(cases(most_features=4, most_codes=3), st.integers(1, 10))
def test_with_seconds_to_spare_hard_questions_are_asked_for_longer(case: Case, most: int) -> None:
    problem = slow_problem(case, Slow(float(most)), Budget(seconds=60.0))
    findings = solve(problem, Minimum(ties=0))
    rule = findings.rules[0]
    assert isinstance(findings.verdicts[0], Proven)
    assert findings.lower_bound == rule.bit_count()
    assert not any(consistent(case, rule & ~(1 << bit)) for bit in list_members(rule))


@dataclass(slots=True, eq=False)
class Ending:
    """Exhaustive, until the budget is spent after so many questions."""

    left: int
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        if not self.left:
            raise BudgetExhausted
        self.left -= 1
        return Exhaustive().find(query, run)


@settings(deadline=None, max_examples=150)
@given(cases(most_features=4, most_codes=3), st.integers(1, 6))
def test_after_the_first_answer_the_rule_is_proven_whatever_stops_the_search(case: Case, answers: int) -> None:
    problem = replace(problem_of(case, Exhaustive(), k=1), oracle=CachingOracle(Ending(answers), exact=True))
    findings = solve(problem, Minimum())
    assert isinstance(findings.verdicts[0], Proven)
    assert consistent(case, findings.rules[0])


def test_a_box_that_was_refuted_is_not_tried_again() -> None:
    case = _with_one_exception()
    oracle = Slow(100.0)
    caching = CachingOracle(oracle, exact=True)
    rng = np.random.default_rng(0)
    box = case.components.box(0)
    first, second = (caching.find(BoxQuery(case, box, 1, share), Run(Meter(Budget()), rng)) for share in (1.0, 4.0))
    assert isinstance(first, Refuted)
    assert first is second
    assert len(oracle.asked) == 1


def _with_one_exception() -> Case:
    space = Space(tuple(Feature(f"f{place}", (0, 1, 2), ordered=True) for place in range(2)))
    table = np.zeros((3, 3), dtype=np.bool_)
    table[2, 2] = True
    instance = np.zeros(2, dtype=np.int32)
    return case_of(space, table, instance, instance[None, :])
