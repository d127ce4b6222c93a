"""The exact oracle for forests, on tiny random sums of trees against looking at every point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.forest.compile import compile_tree_sum, decide_points
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSum
from ironrule.oracles.protocol import BoxQuery, Case, Run
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted
from random_tree_sums import read_cases
from tiny_cases import case_of, consistent, every_point, exceptions_in, meter_of, problem_of, rules_of, run_of, subsets

FIRST_BOXES = st.sampled_from([0, 1, 3, 64])  # boxes: whether branch and bound goes on in a workspace, and from where


@settings(deadline=None, max_examples=400)
@given(read_cases(), st.data())
def test_every_box_is_decided_and_rightly(made: tuple[Case, ForestOracle], data: st.DataObject) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    k = data.draw(st.integers(1, 4))
    oracle = replace(
        oracle, first_boxes=data.draw(FIRST_BOXES), boxes_before_sharing=data.draw(st.sampled_from([1, 1_000]))
    )
    verdict = oracle.find(
        BoxQuery(case, box, k), Run(meter_of(None), np.random.default_rng(data.draw(st.integers(0, 3))))
    )
    exceptions = {point.tobytes() for point in exceptions_in(case, box)}
    assert not isinstance(verdict, Unrefuted)
    if isinstance(verdict, Proven):
        assert not exceptions
    else:
        assert isinstance(verdict, Refuted)
        found = [point.tobytes() for point in verdict.points]
        assert 1 <= len(found) <= k
        assert len(set(found)) == len(found)
        assert set(found) <= exceptions


@settings(deadline=None, max_examples=300)
@given(read_cases(), st.data())
def test_a_search_that_is_shared_out_decides_the_same_and_its_log_covers_the_box(
    made: tuple[Case, ForestOracle], data: st.DataObject
) -> None:
    case, oracle = made
    shared = replace(
        oracle,
        boxes_before_sharing=1,
        max_shares=data.draw(st.integers(1, 4)),
        boxes_per_round=data.draw(st.integers(1, 3)),
    )
    shared = replace(shared, first_boxes=data.draw(FIRST_BOXES))
    box = case.components.box(data.draw(rules_of(case)))
    alone, together = (one.find_or_prove(BoxQuery(case, box), run_of()) for one in (oracle, shared))
    assert isinstance(together, tuple) == isinstance(alone, tuple)
    if isinstance(together, tuple) and isinstance(alone, tuple):
        assert [log.cover() for log in together] == [log.cover() for log in alone]
    else:
        assert together.tobytes() in {point.tobytes() for point in exceptions_in(case, box)}


@settings(deadline=None, max_examples=150)
@given(read_cases(), st.integers(0, 3))
def test_the_minimum_rule_is_consistent_and_nothing_shorter_is(made: tuple[Case, ForestOracle], seed: int) -> None:
    case, oracle = made
    findings = solve(problem_of(case, oracle, k=8, seed=seed), Minimum())
    rule = findings.rules[0]
    shortest = next(one for one in subsets(case.components.usable) if consistent(case, one))
    assert isinstance(findings.verdicts[0], Proven)
    assert consistent(case, rule)
    assert rule.bit_count() == shortest.bit_count() == findings.lower_bound


@settings(deadline=None, max_examples=100)
@given(read_cases())
def test_a_forest_says_of_every_point_what_its_sum_of_trees_says(made: tuple[Case, ForestOracle]) -> None:
    case, oracle = made
    points = every_point(case.space)
    points = points[case.feasible.admits(points)]
    desired = case.model.desired(points)
    answers = [decide_points(forest, points) for forest in oracle.forests]
    possible = np.any([may for may, _ in answers], axis=0) if answers else np.zeros(len(points), np.bool_)
    sure = np.any([must for _, must in answers], axis=0) if answers else np.zeros(len(points), np.bool_)
    assert not (desired & ~possible).any()
    assert not (sure & ~desired).any()


@pytest.mark.parametrize("value", [-1.0, 0.0])
def test_a_model_of_one_leaf_denies_everybody(value: float) -> None:
    space = Space((Feature("a", (0, 1, 2), ordered=True),))
    leaf = Tree((None,), np.array([-1], np.int32), np.array([-1], np.int32), np.array([value]))
    columns = TabulatedColumns(np.zeros(1, np.intp), (np.arange(3),))
    forests = compile_tree_sum(TreeSum(((Margin(0.0, (LinkedGroup((leaf,)),)),),)), columns, space)
    case = case_of(space, np.zeros(3, np.bool_), np.array([1], np.int32), every_point(space))
    verdict = ForestOracle(forests).find(BoxQuery(case, case.components.box(0)), run_of())
    assert isinstance(verdict, Proven)
