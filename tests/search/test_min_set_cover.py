"""MinSetCover: both solvers against all rules there are, and what it says of limits, budgets and exceptions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings, strategies as st

from ironrule.errors import IronruleError
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import Case
from ironrule.search.driver import SearchResult, solve
from ironrule.search.min_set_cover import (
    HighsSolver,
    HittingSetSolver,
    MinSetCover,
    SetCover,
    SetCoverSolver,
    _list_past_demands,
)
from ironrule.search.problem import Problem, SearchState
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget, BudgetExhausted
from ironrule.verdict.verdict import Proven, Refuted
from tiny_cases import TableModel, case_of, cases, consistent, problem_of, subsets

SOLVERS = [HittingSetSolver(), HighsSolver()]
every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=["hitting sets", "highs"])
WEIGHTS = [1.0, 1.0, 2.0, 5.0, 1e9, 1e9 + 1, 1e14]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """With components that are forbidden, required, and weighed."""
    case = draw(cases(most_features=4, most_codes=3))
    usable = case.components.usable_numbers
    allowed = sum(1 << bit for bit in usable if draw(st.integers(0, 7)))
    required = tuple(1 << bit for bit in usable if allowed >> bit & 1 and draw(st.integers(0, 7)) == 0)
    problem = problem_of(case, Exhaustive(), allowed=allowed, required=required)
    count = len(problem.weights)
    weights = draw(
        st.one_of(st.just([1.0] * count), st.lists(st.sampled_from(WEIGHTS), min_size=count, max_size=count))
    )
    return replace(problem, weights=np.array(weights))


def data_consistent_rules(problem: Problem) -> list[int]:
    """All that may be used, by looking at every past row."""
    past, box = problem.case.history.desired.points(), problem.case.components.box
    fitting = [rule for rule in subsets(problem.allowed) if problem.meets_requirements(rule)]
    return [rule for rule in fitting if not box(rule).contains(past).any()]


def support(problem: Problem, rule: int) -> int:
    return int(problem.case.components.box(rule).contains(problem.case.history.codes.points()).sum())


def find_cover(problem: Problem, solver: SetCoverSolver, with_support: bool = True) -> SetCover | None:
    return solver.find_cover(problem, _list_past_demands(problem), with_support)


@every_solver
@settings(deadline=None, max_examples=100)
@given(problem=problems(), with_support=st.booleans())
def test_a_cover_is_a_lightest_data_consistent_rule_and_of_these_the_one_with_most_support(
    solver: SetCoverSolver, problem: Problem, with_support: bool
) -> None:
    possible, found = data_consistent_rules(problem), find_cover(problem, solver, with_support)
    if not possible:
        assert found is None
        return
    least = min(map(problem.weigh, possible))
    lightest = [rule for rule in possible if problem.weigh(rule) <= least]
    assert found is not None
    assert found.rule in lightest
    assert found.lower_bound == least
    if isinstance(solver, HittingSetSolver) or problem.weights.max() <= 1e6:  # HiGHS cannot tell larger ones apart
        assert found.compared == with_support
    if found.compared:
        assert support(problem, found.rule) == max(support(problem, rule) for rule in lightest)


def _larger(seed: int) -> Problem:
    """Ten features and 400 past rows: too many rules to look at each."""
    rng = np.random.default_rng(seed)
    kinds = (0, 1, 1, 1) * 3
    space = Space(tuple(Feature(f"f{j}", tuple(range(5)), ordered=bool(kinds[j])) for j in range(10)))
    rows = rng.integers(0, 5, size=(400, 10), dtype=np.int32)
    instance = np.full(10, 2, dtype=np.int32)
    score = (rows * rng.normal(size=10)).sum(axis=1)
    case = case_of(space, np.zeros((5,) * 10, dtype=np.bool_), instance, rows)
    outcomes = (score > np.median(score)) & (rows != instance).any(axis=1)
    history = replace(case.history, outcomes=outcomes, desired=case.history.codes.take(outcomes))
    return problem_of(replace(case, history=history), Exhaustive())


@pytest.mark.parametrize("seed", range(8))
def test_both_solvers_find_the_same_length_and_support(seed: int) -> None:
    problem = _larger(seed)
    ours, theirs = (find_cover(problem, solver) for solver in SOLVERS)
    assert ours is not None
    assert theirs is not None
    assert ours.rule.bit_count() == theirs.rule.bit_count() == ours.lower_bound == theirs.lower_bound > 2
    assert support(problem, ours.rule) == support(problem, theirs.rule) > 0


def _tied(past: tuple[tuple[int, int], ...] = ((2, 2),)) -> Case:
    """Two numbers of three values, the instance in the middle; desired is the upper corner, which two rules exclude.

    By default one past row is that corner, and two undesired ones lie where only the second of these rules holds.
    """
    space = Space((Feature("age", (0, 1, 2), ordered=True), Feature("debt", (0, 1, 2), ordered=True)))
    table = np.zeros((3, 3), dtype=np.bool_)
    table[2, 2] = True
    return case_of(space, table, np.ones(2, dtype=np.int32), np.array([*past, (2, 1), (2, 0)], dtype=np.int32))


@every_solver
def test_of_two_shortest_rules_the_one_that_covers_more_is_taken(solver: SetCoverSolver) -> None:
    case = _tied()
    problem = problem_of(case, Exhaustive())
    assert MinSetCover(solver).run(problem, SearchState()) == [case.components.select(["debt <="])]
    assert problem.meter.events["unlisted ties"] == 0


def test_a_limit_that_leaves_ties_uncompared_is_said() -> None:
    problem = problem_of(_tied(), Exhaustive())
    state = SearchState()
    (rule,) = MinSetCover(HittingSetSolver(limit=1)).run(problem, state)
    assert rule.bit_count() == state.lower_bound == 1
    assert problem.meter.events["unlisted ties"] == 1


def test_nodes_that_do_not_suffice_leave_a_lower_bound_that_is_none_too_high() -> None:
    problem = _larger(0)
    least, hasty = find_cover(problem, HittingSetSolver()), find_cover(problem, HittingSetSolver(nodes=1))
    assert least is not None
    assert hasty is not None
    assert hasty.lower_bound <= least.lower_bound <= hasty.rule.bit_count()
    assert not hasty.compared or hasty.lower_bound == hasty.rule.bit_count()


@every_solver
def test_the_search_never_asks_the_model_and_no_oracle(solver: SetCoverSolver) -> None:
    case = _tied()
    problem = problem_of(case, Exhaustive())
    MinSetCover(solver).run(problem, SearchState())
    assert isinstance(case.model, TableModel)
    assert case.model.asked == []
    assert problem.meter.events["oracle calls"] == 0


@every_solver
@settings(deadline=None, max_examples=40)
@given(case=cases(most_features=4, most_codes=3))
def test_a_rule_with_exceptions_is_returned_as_refuted_and_its_length_bounds_every_consistent_one(
    solver: SetCoverSolver, case: Case
) -> None:
    findings: SearchResult = solve(problem_of(case, Exhaustive()), MinSetCover(solver))
    (rule,), (verdict,) = findings.rules, findings.verdicts
    assert isinstance(verdict, Proven if consistent(case, rule) else Refuted)
    assert findings.lower_bound == rule.bit_count()
    assert all(
        one.bit_count() >= findings.lower_bound for one in subsets(case.components.usable) if consistent(case, one)
    )


@every_solver
def test_a_budget_in_time_is_kept(solver: SetCoverSolver) -> None:
    problem = problem_of(_tied(), Exhaustive(), budget=Budget(seconds=1e-9))
    with pytest.raises(BudgetExhausted):
        MinSetCover(solver).run(problem, SearchState())
    assert solve(problem, MinSetCover(solver)).stopped == "budget"


class _Answer:
    """What SciPy would hand back."""

    def __init__(self, status: int) -> None:
        self.status, self.message, self.x = status, "something is wrong", np.zeros(0)


@pytest.mark.parametrize(("status", "error"), [(1, BudgetExhausted), (4, IronruleError)])
def test_a_program_that_highs_does_not_solve_gives_no_rule(
    status: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scipy.optimize, "milp", lambda *_, **__: _Answer(status))
    with pytest.raises(error):
        find_cover(problem_of(_tied(), Exhaustive()), HighsSolver())
