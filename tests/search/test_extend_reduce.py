"""Extending and reducing rules, on the paper's own example and against all subsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.hitting.bits import unpack_sets
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Case, Run
from ironrule.rule.kernels import compute_duals
from ironrule.search.problem import extend_rule, reduce_rule
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Proven, Refuted, Verdict
from tiny_cases import case_of, cases, consistent, every_point, problem_of, rules_of, subsets


@dataclass(frozen=True, slots=True, eq=False)
class Scripted:
    """An oracle that answers every question with the same counterfactuals."""

    points: Points
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:  # noqa: ARG002
        assert query.box.contains(self.points).all()
        return query.case.build_refuted(self.points[: query.k])


LOAN = Space(
    (
        Feature("Age", (40, 50, 60), ordered=True),
        Feature("AccNum", (3, 4, 5), ordered=True),
        Feature("Income", (400, 500, 600, 900), ordered=True),
        Feature("Debt", (2_000, 10_000, 20_000), ordered=True),
    )
)
CUSTOMER = {"Age": 50, "AccNum": 4, "Income": 500, "Debt": 10_000}
RICHER = CUSTOMER | {"AccNum": 5, "Income": 900}
LESS_DEBT = CUSTOMER | {"Income": 600, "Debt": 2_000}


def loan_case() -> tuple[Case, Points]:
    points = np.array([LOAN.encode_row(row) for row in (RICHER, LESS_DEBT)])
    table = np.zeros(tuple(LOAN.sizes), dtype=np.bool_)
    table[tuple(points.T)] = True
    instance = LOAN.encode_row(CUSTOMER)
    return case_of(LOAN, table, instance, instance[None, :]), points


def conditions(case: Case, rule: int) -> set[str]:
    return set(case.components.rule(rule, "denied").conditions)


def test_the_papers_counterfactuals_have_the_duals_that_it_prints() -> None:
    case, points = loan_case()
    duals = unpack_sets(compute_duals(points, case.components.low, case.components.high))
    assert [conditions(case, dual) for dual in duals] == [
        {"AccNum <= 4", "Income <= 500"},
        {"Income <= 500", "Debt >= 10000"},
    ]


def test_the_papers_rule_is_extended_by_the_two_minimal_covers_that_it_prints() -> None:
    case, points = loan_case()
    rule = case.components.select(["Age <=", "AccNum >="])
    longer = extend_rule(problem_of(case, Scripted(points)), rule, limit=50)
    assert [conditions(case, one) for one in longer] == [
        {"Age <= 50", "AccNum >= 4", "Income <= 500"},
        {"Age <= 50", "AccNum = 4", "Debt >= 10000"},
    ]
    assert [one.bit_count() for one in longer] == [3, 4]


def test_an_extension_may_hit_the_smallest_duals_alone() -> None:
    case, _ = loan_case()
    changes = ({"Age": 60, "AccNum": 5, "Income": 900}, {"Debt": 2_000}, {"Age": 40, "Income": 400})
    points = np.array([LOAN.encode_row(CUSTOMER | change) for change in changes])
    problem = problem_of(case, Scripted(points))
    sizes = [{one.bit_count() for one in extend_rule(problem, 0, limit=50, max_duals=most)} for most in (1, 2, 3, None)]
    assert sizes == [{1}, {2}, {3}, {3}]
    (first,) = extend_rule(problem, 0, limit=50, max_duals=1)
    assert conditions(case, first) == {"Debt >= 10000"}
    assert extend_rule(problem, 0, limit=50, max_duals=3) == extend_rule(problem, 0, limit=50)


def test_a_rule_that_nothing_refutes_is_extended_only_by_what_is_required() -> None:
    case, _ = loan_case()
    rule = case.components.select(["Income <="])
    assert extend_rule(problem_of(case, Exhaustive()), rule, limit=50) == []
    either = case.components.select(["Debt"])
    longer = extend_rule(problem_of(case, Exhaustive(), required=(either,)), rule, limit=50)
    assert [conditions(case, one) for one in longer] == [
        {"Income <= 500", "Debt <= 10000"},
        {"Income <= 500", "Debt >= 10000"},
    ]


@pytest.mark.parametrize("forbidden", [["Income", "AccNum"], ["Income", "Debt"]])
def test_a_demand_that_nothing_allowed_can_meet_leaves_no_extension(forbidden: list[str]) -> None:
    case, _ = loan_case()
    allowed = case.components.usable & ~case.components.select(forbidden)
    assert extend_rule(problem_of(case, Exhaustive(), allowed=allowed), 0, limit=50) == []


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_every_consistent_rule_above_a_refuted_one_contains_an_extension_of_it(data: st.DataObject) -> None:
    case = data.draw(cases(most_features=3))
    rule = data.draw(rules_of(case))
    problem = problem_of(case, Exhaustive(), k=data.draw(st.integers(1, 5)))
    longer = extend_rule(problem, rule, limit=1000)
    assert bool(longer) == (not consistent(case, rule))
    assert all(one & rule == rule != one and one & ~case.components.usable == 0 for one in longer)
    for other in subsets(case.components.usable & ~rule):
        if consistent(case, rule | other):
            assert not longer or any((rule | other) & one == one for one in longer)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_reduced_rule_is_consistent_and_has_no_redundant_component(data: st.DataObject) -> None:
    case = data.draw(cases())
    rule = data.draw(rules_of(case).filter(lambda one: consistent(case, one)))
    required = tuple(
        1 << bit for bit in case.components.usable_numbers if rule >> bit & 1 and data.draw(st.integers(0, 9)) == 0
    )
    short = reduce_rule(problem_of(case, Exhaustive(), required=required), rule)
    assert short & ~rule == 0
    assert all(short & some for some in required)
    assert consistent(case, short)
    for bit in range(short.bit_length()):
        if short >> bit & 1 and (1 << bit) not in required:
            assert not consistent(case, short & ~(1 << bit))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_problem_names_the_known_exceptions_of_a_rule_without_asking(data: st.DataObject) -> None:
    case = data.draw(cases())
    problem = problem_of(case, Exhaustive(), k=3)
    if data.draw(st.booleans()):
        problem.ask(data.draw(rules_of(case)))
    rule, asked = data.draw(rules_of(case)), problem.meter.evaluations
    known = (
        [case.history.desired.points()]
        if problem.oracle.points is None
        else [case.history.desired.points(), problem.oracle.points]
    )
    box = case.components.box(rule)
    expected = np.concatenate(known)[box.contains(np.concatenate(known))]
    answer = problem.find_known_exceptions(rule)
    assert problem.meter.evaluations == asked
    assert (answer is None) == (len(expected) == 0)
    if isinstance(answer, Refuted):
        assert {one.tobytes() for one in answer.points} <= {one.tobytes() for one in expected}


def test_the_exhaustive_answer_for_the_papers_first_rule_is_a_proof() -> None:
    case, _ = loan_case()
    rule = case.components.select(["Age <=", "AccNum >=", "Income <="])
    assert isinstance(problem_of(case, Exhaustive()).ask(rule), Proven)
    assert len(every_point(LOAN)) == 108
