"""The exact oracle for decision trees, on tiny random trees against looking at every point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.compiled_model import CompiledPart
from ironrule.backends.forest.backend import FOREST
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.registry import build_exact_oracle
from ironrule.backends.tree.backend import TREE
from ironrule.backends.tree.compile import PARENT, compile_leaf_tree
from ironrule.hitting.bits import unpack_sets
from ironrule.hitting.reduce import find_minimal_sets
from ironrule.model.normal_form.tree_sum import Tree
from ironrule.model.protocol import Unreadable
from ironrule.oracles.protocol import BoxQuery, Case
from ironrule.rule.box import Box
from ironrule.rule.kernels import compute_duals
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Proven, Refuted
from random_trees import Among, compiled, leaf_of, margin_of
from tiny_cases import (
    TableModel,
    case_of,
    consistent,
    every_point,
    exceptions_in,
    problem_of,
    rules_of,
    run_of,
    subsets,
)
from tree_cases import Made, leaves_of, tree_cases


@settings(deadline=None, max_examples=150)
@given(tree_cases(most_alternatives=2), st.data())
def test_every_box_is_decided_and_rightly(made: Made, data: st.DataObject) -> None:
    case, oracle = made[0], leaves_of(*made)
    box = case.components.box(data.draw(rules_of(case)))
    k = data.draw(st.integers(1, 4))
    verdict = oracle.find(BoxQuery(case, box, k), run_of())
    exceptions = {point.tobytes() for point in exceptions_in(case, box)}
    if isinstance(verdict, Proven):
        assert not exceptions
    else:
        assert isinstance(verdict, Refuted)
        found = [point.tobytes() for point in verdict.points]
        assert 1 <= len(found) <= k
        assert len(set(found)) == len(found)
        assert set(found) <= exceptions


@settings(deadline=None, max_examples=80)
@given(tree_cases(), st.data())
def test_boxes_away_from_the_instance_are_decided_too(made: Made, data: st.DataObject) -> None:
    case, oracle = made[0], leaves_of(*made)
    ends = [sorted(data.draw(st.tuples(*[st.integers(0, size - 1)] * 2))) for size in case.space.sizes.tolist()]
    low, high = np.array(ends, dtype=np.int32).T.copy()
    verdict = oracle.find(BoxQuery(case, Box(low, high), 3), run_of())
    exceptions = {point.tobytes() for point in exceptions_in(case, Box(low, high))}
    assert isinstance(verdict, Refuted if exceptions else Proven)
    if isinstance(verdict, Refuted):
        assert {point.tobytes() for point in verdict.points} <= exceptions


@settings(deadline=None, max_examples=150)
@given(tree_cases(most_alternatives=2))
def test_the_witnesses_demand_what_all_counterfactuals_demand(made: Made) -> None:
    case = made[0]
    witnesses = leaves_of(*made).enumerate_duals(case, run_of())
    everything = exceptions_in(case, case.components.box(0))
    assert witnesses is not None
    demands, duals = (
        compute_duals(some, case.components.low, case.components.high) for some in (witnesses.points, everything)
    )
    assert np.array_equal(demands, witnesses.duals)
    assert sorted(unpack_sets(demands)) == sorted(unpack_sets(find_minimal_sets(duals)))
    assert {point.tobytes() for point in witnesses.points} <= {point.tobytes() for point in everything}


@settings(deadline=None, max_examples=80)
@given(tree_cases(most_alternatives=2), st.data())
def test_counterfactuals_are_diverse_and_without_useless_changes(made: Made, data: st.DataObject) -> None:
    case, oracle = made[0], leaves_of(*made)
    box = case.components.box(data.draw(rules_of(case)))
    verdict = oracle.find(BoxQuery(case, box, 3), run_of())
    if isinstance(verdict, Refuted):
        all_duals = find_minimal_sets(
            compute_duals(exceptions_in(case, box), case.components.low, case.components.high)
        )
        duals = unpack_sets(compute_duals(verdict.points, case.components.low, case.components.high))
        assert set(duals) <= set(unpack_sets(all_duals))
        assert len(set(duals)) == len(duals) == min(3, len(all_duals))
        assert duals[0].bit_count() == min(dual.bit_count() for dual in unpack_sets(all_duals))


@settings(deadline=None, max_examples=80)
@given(tree_cases(most_alternatives=2), st.data())
def test_the_minimum_rule_is_the_shortest_and_the_ensemble_oracle_agrees(made: Made, data: st.DataObject) -> None:
    case, exact = made
    allowed = sum(1 << bit for bit in case.components.usable_numbers if data.draw(st.integers(0, 4)))
    required = (data.draw(rules_of(case)) & allowed,) if data.draw(st.booleans()) else ()
    required = tuple(some for some in required if some)
    possible = [one for one in subsets(allowed) if consistent(case, one) and all(one & some for some in required)]
    for oracle in (leaves_of(case, exact), ForestOracle(exact)):
        findings = solve(problem_of(case, oracle, k=8, allowed=allowed, required=required), Minimum())
        if possible:
            assert isinstance(findings.verdicts[0], Proven)
            assert findings.rules[0] in possible
            assert findings.rules[0].bit_count() == possible[0].bit_count() == findings.lower_bound
        else:
            assert isinstance(findings.verdicts[0], Refuted)


@settings(deadline=None, max_examples=50)
@given(tree_cases(most_alternatives=2))
def test_the_tree_decides_every_point_as_the_model_does(made: Made) -> None:
    case, points = made[0], every_point(made[0].space)
    assert np.array_equal(leaves_of(*made).desired(points), case.model.desired(points))


@settings(deadline=None, max_examples=40)
@given(tree_cases(most_alternatives=2), st.randoms())
def test_a_walk_never_needs_a_longer_stack_than_was_made(made: Made, order: Any) -> None:
    tree = leaves_of(*made).tree
    stack, longest = [0] if len(tree.nodes) else [], 1
    while stack:
        node = stack.pop()
        children = np.flatnonzero(tree.nodes[:, PARENT] == node).tolist()
        order.shuffle(children)
        stack += children
        longest = max(longest, len(stack))
    assert longest <= tree.stack_size <= 2 * len(tree.nodes) + 1


SCALE = Space((Feature("a", (0, 1, 2), ordered=True), Feature("b", ("p", "q"), ordered=False, missing=True)))


def everywhere(outcome: bool) -> Case:
    """A case whose model gives everybody the same."""
    return case_of(SCALE, np.full((3, 3), outcome), np.array([1, 2], np.int32), every_point(SCALE))


@pytest.mark.parametrize(("desired", "shortest"), [({1, 3}, 2), ({0, 1}, 1), ({4, 1}, 2), ({5}, 1), ({1, 5}, 1)])
def test_a_leaf_with_a_gap_needs_what_each_of_its_parts_needs(desired: set[int], shortest: int) -> None:
    space = Space((Feature("a", (0, 1, 2, 3, 4), ordered=True, missing=True),))
    table = np.isin(np.arange(6), list(desired))
    case = case_of(space, table, np.array([2], np.int32), every_point(space))
    children = np.array([1, -1, -1], np.int32), np.array([2, -1, -1], np.int32)
    tree = Tree((Among(0, frozenset(desired)), None, None), *children, np.array([0.0, 1.0, -1.0]))
    findings = solve(problem_of(case, leaves_of(case, compiled(space, (margin_of(tree),)))), Minimum())
    assert findings.rules[0].bit_count() == findings.lower_bound == shortest
    assert consistent(case, findings.rules[0])


@pytest.mark.parametrize("value", [-1.0, 0.0])
def test_a_tree_of_one_undesired_leaf_leaves_nothing_to_demand(value: float) -> None:
    case = everywhere(False)
    oracle = leaves_of(case, compiled(SCALE, (margin_of(leaf_of(value)),)))
    assert isinstance(oracle.find(BoxQuery(case, case.components.box(0)), run_of()), Proven)
    findings = solve(problem_of(case, oracle), Minimum())
    assert findings.rules == (0,)
    assert isinstance(findings.verdicts[0], Proven)


def test_a_tree_of_one_desired_leaf_demands_what_no_rule_can_give() -> None:
    case = everywhere(True)
    oracle = leaves_of(case, compiled(SCALE, (margin_of(leaf_of(1.0)),)))
    witnesses = oracle.enumerate_duals(case, run_of())
    assert witnesses is not None
    assert witnesses.points.tolist() == [case.instance.tolist()]
    assert isinstance(solve(problem_of(case, oracle), Minimum()).verdicts[0], Refuted)


def test_a_model_without_any_tree_is_one_leaf() -> None:
    constant = compiled(SCALE, (replace(margin_of(leaf_of(0.0), offset=1.0), groups=()),))
    assert leaves_of(everywhere(True), constant).desired(every_point(SCALE)).all()


def test_several_trees_in_one_margin_are_left_to_branch_and_bound() -> None:
    one = margin_of(leaf_of(1.0))
    forests = compiled(SCALE, (replace(one, groups=one.groups * 2),))
    part = CompiledPart((TREE, FOREST), forests)
    assert isinstance(build_exact_oracle([part], TableModel(np.full((3, 3), True)), SCALE), ForestOracle)


def test_a_leaf_within_the_error_is_what_the_model_says() -> None:
    forests = compiled(SCALE, (margin_of(leaf_of(0.25), error=0.5),))
    for outcome in (False, True):
        tree = compile_leaf_tree(forests, TableModel(np.full((3, 3), outcome)), SCALE)
        assert tree is not None
        assert tree.leaf_count == int(outcome)


def test_a_leaf_that_the_model_decides_both_ways_is_left_to_branch_and_bound() -> None:
    forests = compiled(SCALE, (margin_of(leaf_of(0.25), error=0.5),))
    assert compile_leaf_tree(forests, TableModel(np.arange(9).reshape(3, 3) > 4), SCALE) is None


def test_a_model_that_decides_otherwise_at_a_leaf_is_not_read() -> None:
    forests = compiled(SCALE, (margin_of(leaf_of(1.0)),))
    with pytest.raises(Unreadable, match="at a leaf"):
        compile_leaf_tree(forests, TableModel(np.arange(9).reshape(3, 3) > 4), SCALE)


def test_trees_with_too_many_leaves_are_left_to_branch_and_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.backends.tree.compile.MAX_NODES", 1)
    forests = compiled(SCALE, (margin_of(leaf_of(1.0)),))
    assert compile_leaf_tree(forests, TableModel(np.full((3, 3), True)), SCALE) is None
