"""FOCUS on a stump, whose threshold is known; smooth trees against the trees, and their gradients by differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_models import LINEAR_SPACE, FunctionModel, Slope, linear_query, tabulate_codes
from mixed_models import explain_people, query_about

from ironrule.errors import InputError
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Term, Tree, TreeSum
from ironrule.oracles.heuristics.encoding import NumericEncoding
from ironrule.oracles.heuristics.focus import FOCUS
from ironrule.oracles.heuristics.smooth_trees import build_smooth_sum
from ironrule.oracles.protocol import BoxQuery
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Refuted, Unrefuted
from random_trees import Among, leaf_of, trees
from tiny_cases import every_point, run_of

SPACE = Space(
    (
        Feature("number", (1, 2, 40, 60), ordered=True, missing=True),
        Feature("grade", ("low", "middle", "high"), ordered=True),
        Feature("colour", ("red", "blue", "green"), ordered=False),
    )
)


def stump(column: int, limit: int) -> Tree:
    """A tree that gives 1 from a limit on, and -1 before."""
    splits = (Among(column, frozenset(range(limit))), None, None)
    sides = np.array([[1, -1, -1], [2, -1, -1]], np.int32)
    return Tree(splits, sides[0], sides[1], np.array([0.0, -1.0, 1.0]))


def query_stump(form: TreeSum, instance: list[int], k: int = 1) -> BoxQuery:
    """What may change of an instance that a sum of trees over three long features decides."""
    model = FunctionModel(lambda points: form.margins(points.astype(float))[0])
    query = linear_query([0.0] * 3, 0.0, instance, k=k)
    return replace(query, case=replace(query.case, model=model, tabulated_model=tabulate_codes(form, LINEAR_SPACE)))


def test_the_threshold_of_a_stump_is_crossed_and_nothing_else_changes() -> None:
    form = TreeSum(((Margin(0.0, (LinkedGroup((stump(0, 61),)),)),),))
    verdict = FOCUS().find(query_stump(form, [20, 30, 40]), run_of())
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[61, 30, 40]]
    kept = replace(query_stump(form, [20, 30, 40]), box=Box(np.zeros(3, np.int32), np.array([60, 100, 100], np.int32)))
    assert isinstance(FOCUS(steps=100).find(kept, run_of()), Unrefuted)


def test_votes_are_followed_as_well() -> None:
    vote = Link("step", scale=1.0, shift=0.0)
    groups = (LinkedGroup((stump(0, 41),), vote), LinkedGroup((stump(1, 51),), vote))
    form = TreeSum(((Margin(-1.5, groups),),))  # both must vote for it
    verdict = FOCUS().find(query_stump(form, [20, 30, 40], k=2), run_of())
    assert isinstance(verdict, Refuted)
    assert verdict.points[0].tolist() == [41, 51, 40]


@st.composite
def sums(draw: st.DrawFn) -> TreeSum:
    """A few random trees in groups of all kinds, with a term."""
    links = [Link(), Link("logistic", 2.0, 1.5, 0.3), Link("step", 1.0, 1.0, 0.5)]
    drawn = [draw(st.lists(trees(SPACE), max_size=2)) for _ in links]
    groups = [LinkedGroup(tuple(some), link) for some, link in zip(drawn, links, strict=True)]
    groups[0] = replace(groups[0], terms=(Term(1, Slope(0.5)),), trees=(*groups[0].trees, leaf_of(0.25)))
    first, second = Margin(0.1, tuple(groups)), Margin(-0.2, (groups[0],))
    return TreeSum(((first, second), (second,)))


@settings(deadline=None, max_examples=25)
@given(form=sums(), seed=st.integers(0, 1_000))
def test_the_gradient_of_a_smooth_sum_is_what_differences_give(form: TreeSum, seed: int) -> None:
    encoding = NumericEncoding.build(SPACE)
    smooth = build_smooth_sum(form, tabulate_codes(form, SPACE), encoding, 7.0, 3.0)
    vector, width = np.random.default_rng(seed).uniform(size=encoding.width), 1e-6
    steps = np.eye(encoding.width) * width
    differences = [(smooth.evaluate(vector + s).score - smooth.evaluate(vector - s).score) / 2 / width for s in steps]
    assert smooth.evaluate(vector).gradient == pytest.approx(np.array(differences), rel=1e-5, abs=1e-6)


@settings(deadline=None, max_examples=25)
@given(form=sums())
def test_a_very_sharp_smooth_sum_is_the_sum_itself(form: TreeSum) -> None:
    encoding, points = NumericEncoding.build(SPACE), every_point(SPACE)
    smooth = build_smooth_sum(form, tabulate_codes(form, SPACE), encoding, 1e5, 1e5)
    own = [smooth.evaluate(vector).score for vector in encoding.encode(points)]
    exact = np.max(form.margins(points.astype(np.float64)), axis=0)
    votes = np.sum(
        [tree.evaluate(points) for tree in form.alternatives[0][0].groups[2].trees] + [np.zeros(len(points))], axis=0
    )
    clear = np.abs(votes - 0.5) > 1e-3  # at the threshold of a vote, a logistic function is at its half
    assert np.array(own)[clear] == pytest.approx(exact[clear], abs=1e-6)


def test_an_explainer_finds_counterfactuals_of_a_forest_by_it() -> None:
    explainer = explain_people("forest")
    denied = np.flatnonzero(~explainer._context.outcomes)[:4]
    found = [explainer.counterfactuals(int(row), k=1, algorithm=FOCUS(steps=200)) for row in denied]
    assert sum(map(len, found)) == 4
    assert {one.statistics.algorithm for one in found} == {"FOCUS"}


@pytest.mark.parametrize("name", ["linear", "network"])
def test_models_without_trees_are_refused_with_what_would_do(name: str) -> None:
    with pytest.raises(InputError, match="FOCUS needs a model that was read as") as refused:
        FOCUS().find(query_about(name), run_of())
    assert refused.value.code == "unsuitable-model"


@pytest.mark.parametrize("wrong", [{"sharpness": 0.0}, {"beta": -1.0}, {"steps": 0}, {"learning_rate": "fast"}])
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be"):
        FOCUS(**wrong)
