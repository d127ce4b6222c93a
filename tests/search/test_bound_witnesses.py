"""Counterfactuals that need a rule of some weight, against all rules of tiny spaces."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.hitting.bits import pack_sets, unpack_sets
from ironrule.oracles.protocol import Case
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum, find_bound_witnesses
from ironrule.search.problem import Problem
from random_tree_sums import read_cases
from tiny_cases import exceptions_in, problem_of, subsets


def least_needed(problem: Problem, points: Points) -> int:
    duals = unpack_sets(problem.compute_duals(points))
    return next(one.bit_count() for one in subsets(problem.allowed) if all(one & dual for dual in duals))


@settings(deadline=None, max_examples=200)
@given(read_cases(), st.booleans(), st.data())
def test_they_are_exceptions_that_need_a_rule_of_that_weight(
    made: tuple[Case, ForestOracle], told: bool, data: st.DataObject
) -> None:
    case, oracle = made
    problem = problem_of(case, oracle, seed=data.draw(st.integers(0, 3)))
    findings = solve(problem, Minimum(rounds=data.draw(st.sampled_from([0, 2, 80]))))
    found = find_bound_witnesses(problem, findings.lower_bound, findings.bound_demands if told else None)
    assert found is not None
    exceptions = {point.tobytes() for point in exceptions_in(case, case.components.box(0))}
    assert {point.tobytes() for point in found} <= exceptions
    assert least_needed(problem, found) == findings.lower_bound
    if findings.bound_demands is not None:
        needed = unpack_sets(findings.bound_demands)
        assert all(
            any(not one & dual for dual in needed)
            for one in subsets(problem.allowed)
            if one.bit_count() < findings.lower_bound
        )


@settings(deadline=None, max_examples=100)
@given(read_cases(), st.data())
def test_demands_that_no_counterfactual_has_prove_nothing(made: tuple[Case, ForestOracle], data: st.DataObject) -> None:
    case, oracle = made
    problem = problem_of(case, oracle)
    weight = solve(problem, Minimum()).lower_bound
    known = (
        set(unpack_sets(problem.compute_duals(problem.oracle.points))) if problem.oracle.points is not None else set()
    )
    foreign = data.draw(st.integers(1, (1 << 2 * problem.n) - 1).filter(lambda dual: dual not in known))
    found = find_bound_witnesses(problem, weight + 1, pack_sets([foreign], problem.n))
    assert found is None
