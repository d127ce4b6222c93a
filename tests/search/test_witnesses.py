"""Counterfactuals that need a rule of some weight, against all rules of tiny spaces."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ironrule.oracles import Case, Ensemble
from ironrule.rule.bits import pack, unpack
from ironrule.search import Minimum, Problem, solve
from ironrule.search.witnesses import witnesses as witnesses_of
from ironrule.space import Points
from readings import read_cases
from tiny import exceptions_in, problem_of, subsets


def least_needed(problem: Problem, points: Points) -> int:
    duals = unpack(problem.duals(points))
    return next(one.bit_count() for one in subsets(problem.allowed) if all(one & dual for dual in duals))


@settings(deadline=None, max_examples=200)
@given(read_cases(), st.booleans(), st.data())
def test_they_are_exceptions_that_need_a_rule_of_that_weight(
    made: tuple[Case, Ensemble], told: bool, data: st.DataObject
) -> None:
    case, oracle = made
    problem = problem_of(case, oracle, seed=data.draw(st.integers(0, 3)))
    findings = solve(problem, Minimum(rounds=data.draw(st.sampled_from([0, 2, 80]))))
    found = witnesses_of(problem, findings.lower_bound, findings.needing if told else None)
    assert found is not None
    exceptions = {point.tobytes() for point in exceptions_in(case, case.relevant.box(0))}
    assert {point.tobytes() for point in found} <= exceptions
    assert least_needed(problem, found) == findings.lower_bound
    if findings.needing is not None:
        needed = unpack(findings.needing)
        assert all(
            any(not one & dual for dual in needed)
            for one in subsets(problem.allowed)
            if one.bit_count() < findings.lower_bound
        )


@settings(deadline=None, max_examples=100)
@given(read_cases(), st.data())
def test_demands_that_no_counterfactual_has_prove_nothing(made: tuple[Case, Ensemble], data: st.DataObject) -> None:
    case, oracle = made
    problem = problem_of(case, oracle)
    weight = solve(problem, Minimum()).lower_bound
    known = set(unpack(problem.duals(problem.oracle.points))) if problem.oracle.points is not None else set()
    foreign = data.draw(st.integers(1, (1 << 2 * problem.n) - 1).filter(lambda dual: dual not in known))
    found = witnesses_of(problem, weight + 1, pack([foreign], problem.n))
    assert found is None
