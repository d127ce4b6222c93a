"""The judge, against all sets of components of tiny cases and all points; and honest ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironrule.oracles import Case, Ensemble, Exhaustive, Layered, Leaves, Oracle
from ironrule.oracles.leaf_tree import desired_leaves
from ironrule.rule import Box
from ironrule.rule.stated import Parts, box_of, own_parts
from ironrule.search.judge import Finding, Judge
from ironrule.search.problem import Problem
from ironrule.space import Feature, Space
from ironrule.verdict import Budget, Meter, Proven, Quality, Refuted, Unrefuted, Verdict
from readings import read_cases
from small_trees import compiled, margin_of, tree_of_table
from stated_rules import holds, least_weight, options_of, stated_rules, true_quality, weight_of
from tiny import TableModel, case_of, cases, exceptions_in, problem_of, subsets

tiny_cases = cases(most_features=4, most_codes=3)
weight_lists = st.lists(st.sampled_from([1.0, 2.0, 0.5, 1.7]), min_size=8, max_size=8)


def weighted(problem: Problem, weights: list[float] | None) -> Problem:
    return problem if weights is None else replace(problem, weights=np.array(weights[: 2 * problem.n]))


def all_own_rules(case: Case) -> list[Parts]:
    return [own_parts(case.relevant, bits) for bits in subsets(case.relevant.usable)]


def assert_shown(case: Case, finding: Finding, judge: Judge, least: float) -> None:
    """That what a finding is said to rest on is so."""
    box = box_of(case.relevant, finding.parts)
    if finding.quality is Quality.FAILED_DATA:
        assert finding.past is not None
        assert case.history.outcomes[finding.past]
        assert box.contains(case.history.codes.row(finding.past)[None, :]).all()
    if finding.quality in (Quality.FAILED_DATA, Quality.FAILED_GLOBAL):
        assert isinstance(finding.verdict, Refuted)
        assert box.contains(finding.verdict.points).all()
        assert all(case.model.table[tuple(point)] for point in finding.verdict.points)
    if finding.quality >= Quality.REDUNDANT:
        assert isinstance(finding.verdict, Proven)
    if finding.quality in (Quality.REDUNDANT, Quality.IRREDUNDANT):
        assert finding.shorter is not None
        assert isinstance(finding.shorter.proof, Proven)
        assert holds(case, finding.shorter.parts)
        assert finding.shorter.proof.certificate.low == tuple(box_of(case.relevant, finding.shorter.parts).low)
    if finding.quality is Quality.REDUNDANT:
        place = finding.redundant
        assert finding.shorter.parts == finding.parts[:place] + finding.parts[place + 1 :]
    if finding.quality is Quality.IRREDUNDANT:
        assert judge.weight(finding.shorter.parts) < finding.weight
    if finding.quality >= Quality.IRREDUNDANT:
        assert len(finding.needed) == len(finding.parts)
        for place, refuted in enumerate(finding.needed):
            assert not box.contains(refuted.points).any()
            rest = finding.parts[:place] + finding.parts[place + 1 :]
            assert box_of(case.relevant, rest).contains(refuted.points).all()
            assert all(case.model.table[tuple(point)] for point in refuted.points)
        assert judge.least == pytest.approx(least)


def assert_judged_truly(problem: Problem, rules: list[Parts]) -> None:
    case, weights = problem.case, problem.weights.tolist()
    least = least_weight(case, weights)
    judge = Judge(problem)
    findings = judge.judge(rules)
    for parts, finding in zip(rules, findings, strict=True):
        assert finding.parts == parts
        assert finding.weight == weight_of(parts, weights)
        assert finding.quality is true_quality(case, parts, weights, least)
        assert_shown(case, finding, judge, least)
    assert judge.stopped is None


@settings(deadline=None, max_examples=60)
@given(tiny_cases, st.one_of(st.none(), weight_lists))
def test_every_set_of_the_rows_own_components_is_judged_as_looking_at_everything_says(
    case: Case, weights: list[float] | None
) -> None:
    assert_judged_truly(weighted(problem_of(case, Exhaustive()), weights), all_own_rules(case))


@settings(deadline=None, max_examples=100)
@given(st.data(), tiny_cases, st.one_of(st.none(), weight_lists))
def test_rules_with_any_bounds_are_judged_as_looking_at_everything_says(
    data: st.DataObject, case: Case, weights: list[float] | None
) -> None:
    rules = data.draw(st.lists(stated_rules(case), min_size=1, max_size=6))
    assert_judged_truly(weighted(problem_of(case, Exhaustive()), weights), rules)
    for parts in rules:
        assert_judged_truly(weighted(problem_of(case, Exhaustive()), weights), [parts])


@settings(deadline=None, max_examples=60)
@given(st.data(), read_cases())
def test_models_that_are_read_are_judged_as_looking_at_everything_says(
    data: st.DataObject, both: tuple[Case, Ensemble]
) -> None:
    case, oracle = both
    rules = data.draw(st.lists(stated_rules(case), min_size=1, max_size=4)) + all_own_rules(case)[:40]
    assert_judged_truly(problem_of(case, oracle), rules)


@settings(deadline=None, max_examples=60)
@given(st.data(), cases(most_features=3, most_codes=3))
def test_trees_are_judged_as_looking_at_everything_says(data: st.DataObject, case: Case) -> None:
    if case.space.constraints:
        case = replace(case, space=Space(case.space.features), feasible=Space(case.space.features).feasible)
    forests = compiled(case.space, (margin_of(tree_of_table(case.model.table)),))
    tree = desired_leaves(forests, case.model, case.space)
    rules = data.draw(st.lists(stated_rules(case), min_size=1, max_size=6)) + all_own_rules(case)
    assert_judged_truly(problem_of(case, Leaves(tree, forests)), rules)


@settings(deadline=None, max_examples=40)
@given(cases(most_features=2, most_codes=3))
def test_no_rule_with_any_bounds_is_lighter_than_the_lightest_of_the_rows_own(case: Case) -> None:
    weights = [1.0] * (2 * len(case.space))
    least, options = least_weight(case, weights), options_of(case)
    for size in range(int(least)):
        assert not any(holds(case, parts) for parts in product(options, repeat=size))
