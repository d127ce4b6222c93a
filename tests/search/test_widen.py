"""Wider rules, on tiny random models in normal form against looking at every point."""

from __future__ import annotations

from functools import partial, reduce
from itertools import chain, cycle, islice, permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.forest.oracle import ForestOracle
from ironrule.model.history import RowCounter
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import BoxQuery, Case, Oracle, Run
from ironrule.rule.box import Box
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum
from ironrule.search.widen import BoxSide, RuleWidener, WidenedBox
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget, Meter
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Verdict
from random_tree_sums import read_cases
from tiny_cases import case_of, exceptions_in, problem_of


def widen_rule(
    case: Case, oracle: Oracle, seed: int, budget: Budget | None = None, quick_oracle: Oracle | None = None
) -> tuple[int, WidenedBox]:
    problem = problem_of(case, oracle, k=8, seed=seed)
    findings = solve(problem, Minimum())
    proof = findings.verdicts[0]
    assert isinstance(proof, Proven)
    widener = widener_of(case, oracle, Run(Meter(budget or Budget()), problem.rng))
    widener.quick_oracle = None if quick_oracle is None else CachingOracle(quick_oracle)
    return findings.rules[0], widener.widen(findings.rules[0], proof)


def widener_of(case: Case, oracle: Oracle, run: Run) -> RuleWidener:
    return RuleWidener(case, CachingOracle(oracle), run, RowCounter.from_history(case.history, case.space.sizes))


def one_step_wider(case: Case, rule: int, box: Box) -> list[Box]:
    """The box with each bound of the rule moved by one code, where that is possible."""
    wider = []
    for bit in (bit for bit in case.components.bound_numbers if rule >> bit & 1):
        low, high, j = box.low.copy(), box.high.copy(), bit // 2
        if bit % 2 == 0 and high[j] < case.space.features[j].last_code:
            high[j] += 1
            wider.append(Box(low, high))
        elif bit % 2 == 1 and low[j] > 0:
            low[j] -= 1
            wider.append(Box(low, high))
    return wider


@settings(deadline=None, max_examples=200)
@given(read_cases(), st.integers(0, 3), st.booleans())
def test_a_widened_rule_has_no_exception_and_no_bound_can_move(
    made: tuple[Case, ForestOracle], seed: int, quick: bool
) -> None:
    case, oracle = made
    rule, wider = widen_rule(case, oracle, seed, quick_oracle=oracle.low_effort if quick else None)
    before = case.components.box(rule)
    assert wider.maximal
    assert (wider.box.low <= before.low).all()
    assert (wider.box.high >= before.high).all()
    assert len(exceptions_in(case, wider.box)) == 0
    assert all(len(exceptions_in(case, box)) for box in one_step_wider(case, rule, wider.box))
    assert wider.verdict.certificate.low == tuple(wider.box.low.tolist())
    assert wider.verdict.certificate.high == tuple(wider.box.high.tolist())


@settings(deadline=None, max_examples=60)
@given(read_cases(), st.integers(1, 40))
def test_a_widening_that_is_stopped_is_smaller_but_still_proven(
    made: tuple[Case, ForestOracle], evaluations: int
) -> None:
    case, _ = made
    rule, wider = widen_rule(case, Exhaustive(), 0, Budget(evaluations=evaluations))
    assert len(exceptions_in(case, wider.box)) == 0
    if wider.maximal:
        assert all(len(exceptions_in(case, box)) for box in one_step_wider(case, rule, wider.box))


@pytest.mark.parametrize(("past", "widest"), [([[0, 2], [1, 2], [2, 1]], [1, 2]), ([[2, 1], [2, 0], [1, 2]], [2, 1])])
def test_of_two_orders_the_one_that_covers_more_of_the_history_is_taken(past, widest) -> None:
    space = Space((Feature("a", tuple(range(4)), ordered=True), Feature("b", tuple(range(4)), ordered=True)))
    table = np.zeros((4, 4), dtype=np.bool_)
    table[3, :] = table[:, 3] = table[2, 2] = True
    case = case_of(space, table, np.array([0, 0], dtype=np.int32), np.array([*past, [3, 3]], dtype=np.int32))
    _, wider = widen_rule(case, Exhaustive(), 0)
    assert wider.box.high.tolist() == widest


def moved_as_far(case: Case, box: Box, bound: BoxSide) -> Box:
    last = case.space.features[bound.feature].last_code if bound.upper else 0
    step = 1 if bound.upper else -1
    while bound.get_bound(box) != last and not len(exceptions_in(case, bound.move(box, bound.get_bound(box) + step))):
        box = bound.move(box, bound.get_bound(box) + step)
    return box


class ForgetfulOracle:
    """Finds what the model has in a box, but misses it in some of its answers."""

    def __init__(self, case: Case, missed: list[bool]) -> None:
        self.case, self.missed, self.calls = case, missed, 0

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        self.calls += 1
        assert self.calls < 1000, "the search does not end"
        found = exceptions_in(self.case, query.box)
        if not len(found) or self.missed[self.calls % len(self.missed)]:
            return NOT_SEARCHED
        return self.case.build_refuted(run.rng.permutation(found)[:1])


@settings(deadline=None, max_examples=200)
@given(read_cases(), st.lists(st.booleans(), min_size=1, max_size=7), st.integers(0, 9))
def test_a_quick_oracle_that_misses_something_costs_time_only(
    made: tuple[Case, ForestOracle], missed: list[bool], seed: int
) -> None:
    case, oracle = made
    start = case.components.box(case.components.usable)
    widener = widener_of(case, oracle, Run(Meter(Budget()), np.random.default_rng(seed)))
    proof = oracle.find(BoxQuery(case, start), widener.run)
    assert isinstance(proof, Proven)
    for bit in case.components.bound_numbers:
        bound = BoxSide(bit // 2, bit % 2 == 0)
        widener.limits[bound] = case.space.features[bound.feature].last_code if bound.upper else 0
        widener.quick_oracle = ForgetfulOracle(case, missed)  # type: ignore[assignment]
        limit = widener._find_limit(WidenedBox(start, proof, True), bound)
        furthest = bound.get_bound(moved_as_far(case, start, bound))
        assert limit >= furthest if bound.upper else limit <= furthest


def test_a_limit_that_was_missed_and_found_again_is_one() -> None:
    """A miss half way, then hits that lie nearer than what was thought to be free: the search must end."""
    space = Space((Feature("a", tuple(range(100)), ordered=True),))
    table = np.zeros(100, dtype=np.bool_)
    table[[31, 32, 99]] = True
    case = case_of(space, table, np.array([5], dtype=np.int32), np.array([[5], [31]], dtype=np.int32))
    answers, bound = chain([99, None], islice(cycle([32, 31]), 100)), BoxSide(0, True)

    class ScriptedOracle:
        def find(self, query: BoxQuery, _: Run) -> Verdict:
            code = next(answers)  # StopIteration, if the search does not end
            inside = code is not None and code <= query.box.high[0]
            return case.build_refuted(np.array([[code]], dtype=np.int32)) if inside else NOT_SEARCHED

    widener = widener_of(case, Exhaustive(), Run(Meter(Budget()), np.random.default_rng(0)))
    widener.limits[bound], widener.quick_oracle = 99, ScriptedOracle()  # type: ignore[assignment]
    box = case.components.box(1)
    proof = Exhaustive().find(BoxQuery(case, box), widener.run)
    assert isinstance(proof, Proven)
    assert widener._find_limit(WidenedBox(box, proof, True), bound) == 30


@settings(deadline=None, max_examples=80)
@given(read_cases(), st.booleans())
def test_bounds_that_are_not_asked_about_would_not_have_won(made: tuple[Case, ForestOracle], quick: bool) -> None:
    case, oracle = made
    start = case.components.box(case.components.usable)
    bounds = [BoxSide(bit // 2, bit % 2 == 0) for bit in case.components.bound_numbers]
    widener = widener_of(case, oracle, Run(Meter(Budget()), np.random.default_rng(0)))
    proof = oracle.find(BoxQuery(case, start), widener.run)
    assert isinstance(proof, Proven)
    widener.quick_oracle = CachingOracle(oracle.low_effort) if quick else None
    for bound in bounds:
        widener.limits[bound] = case.space.features[bound.feature].last_code if bound.upper else 0
        widener.limits[bound] = widener._find_limit(WidenedBox(start, proof, True), bound)
    greedy = widener._widen_greedily(WidenedBox(start, proof, True), bounds).box

    def value(box: Box) -> tuple[int, float]:
        return widener._score(box)

    here, left = start, list(bounds)
    while left:
        options = [moved_as_far(case, here, bound) for bound in left]
        best = max(range(len(left)), key=lambda place: value(options[place]))
        here = options[best]
        del left[best]
    assert (greedy.low == here.low).all()
    assert (greedy.high == here.high).all()
    if 0 < len(bounds) <= 4:
        orders = [reduce(partial(moved_as_far, case), order, start) for order in permutations(bounds)]
        any_order = widener_of(case, oracle, Run(Meter(Budget()), np.random.default_rng(0)))
        any_order.limits = {
            bound: case.space.features[bound.feature].last_code if bound.upper else 0 for bound in bounds
        }
        found = any_order._try_all_orders(WidenedBox(start, proof, True), bounds).box
        assert value(found) == max(map(value, orders))
