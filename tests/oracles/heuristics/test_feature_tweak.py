"""FeatureTweak on single trees against enumeration, and on forests that were read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_models import LINEAR_SPACE, FunctionModel, linear_query, tabulate_codes
from mixed_models import explain_people, query_about

from ironrule.errors import InputError
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSum
from ironrule.oracles.heuristics.encoding import NumericEncoding
from ironrule.oracles.heuristics.feature_tweak import FeatureTweak, list_paths
from ironrule.oracles.protocol import BoxQuery
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Refuted, Unrefuted
from random_trees import Among, margin_of, trees
from tiny_cases import case_of, every_point, run_of

SPACE = Space(
    (
        Feature("number", (1, 2, 40, 60), ordered=True, missing=True),
        Feature("grade", ("low", "middle", "high"), ordered=True),
        Feature("colour", ("red", "blue", "green"), ordered=False),
    )
)


def query_tree(tree: Tree, instance: Any, space: Space = SPACE) -> BoxQuery:
    """What may change of an instance that a single tree decides."""
    points = every_point(space)
    read = tabulate_codes(TreeSum(((margin_of(tree),),)), space)
    table = np.zeros(space.sizes, np.bool_)
    table[tuple(points.T)] = tree.evaluate(points) > 0.0
    case = case_of(space, table, np.asarray(instance, np.int32), points)
    return BoxQuery(replace(case, tabulated_model=read), case.components.box(0))


@settings(deadline=None, max_examples=150)
@given(tree=trees(SPACE), seed=st.integers(0, 1_000))
def test_of_one_tree_the_nearest_counterfactual_is_found(tree: Tree, seed: int) -> None:
    points = every_point(SPACE)
    values = tree.evaluate(points)
    denied, desired = points[values <= 0.0], points[values > 0.0]
    if len(denied) == 0:
        return
    instance = denied[np.random.default_rng(seed).integers(len(denied))]
    verdict = FeatureTweak(epsilon=0.0).find(query_tree(tree, instance), run_of())
    if len(desired) == 0:
        assert isinstance(verdict, Unrefuted)
        return
    assert isinstance(verdict, Refuted)
    encoding = NumericEncoding.build(SPACE)
    own = encoding.encode(instance[None, :])
    nearest = np.linalg.norm(encoding.encode(desired) - own, axis=1).min()
    assert np.linalg.norm(encoding.encode(verdict.points[:1]) - own) == pytest.approx(nearest)


@settings(deadline=None, max_examples=60)
@given(tree=trees(SPACE))
def test_every_point_follows_exactly_one_path(tree: Tree) -> None:
    points = every_point(SPACE)
    read = tabulate_codes(TreeSum(((margin_of(tree),),)), SPACE)
    values, visits = np.zeros(len(points)), np.zeros(len(points))
    for path in list_paths(tree, read):
        inside = np.all([codes[points[:, j]] for j, codes in path.codes.items()] or [np.ones(len(points))], axis=0)
        visits += inside
        values += path.value * inside
    assert (visits == 1).all()
    assert np.array_equal(values, tree.evaluate(points))


def stump(limit: int, low: float, high: float) -> Tree:
    """A tree that asks whether the first feature is below a limit."""
    splits = (Among(0, frozenset(range(limit))), None, None)
    sides = np.array([[1, -1, -1], [2, -1, -1]], np.int32)
    return Tree(splits, sides[0], sides[1], np.array([0.0, low, high]))


@pytest.mark.parametrize(("epsilon", "answer"), [(0.0, 51), (0.1, 61), (0.9, 100)])
def test_epsilon_is_how_far_beyond_a_threshold_the_change_goes(epsilon: float, answer: int) -> None:
    read = tabulate_codes(TreeSum(((margin_of(stump(51, -1.0, 1.0)),),)), LINEAR_SPACE)
    query = linear_query([1.0, 0.0, 0.0], 50.0, [20, 30, 40])
    query = replace(query, case=replace(query.case, tabulated_model=read))
    verdict = FeatureTweak(epsilon=epsilon).find(query, run_of())
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[answer, 30, 40]]


def test_a_path_counts_only_if_the_whole_ensemble_follows() -> None:
    # One tree gains 1 beyond 30, another 3 beyond 70; both begin at -1, so the first path does not turn the decision.
    form = TreeSum(((Margin(0.0, (LinkedGroup((stump(30, -1.0, 0.0), stump(70, -1.0, 2.0))),)),),))
    model = FunctionModel(lambda points: form.margins(points.astype(float))[0])
    query = linear_query([0.0] * 3, 0.0, [20, 30, 40])
    query = replace(query, case=replace(query.case, model=model, tabulated_model=tabulate_codes(form, LINEAR_SPACE)))
    verdict = FeatureTweak(epsilon=0.0).find(query, run_of())
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[70, 30, 40]]


def test_an_explainer_finds_counterfactuals_of_a_forest_by_it() -> None:
    explainer = explain_people("forest")
    denied = np.flatnonzero(~explainer._context.outcomes)[:20]
    found = [explainer.counterfactuals(int(row), k=1, algorithm=FeatureTweak()) for row in denied]
    assert sum(map(len, found)) > 15
    assert {one.statistics.algorithm for one in found} == {"FeatureTweak"}
    kept = explainer.counterfactuals(int(denied[0]), algorithm=FeatureTweak(), constraints=["cf.income == x.income"])
    assert all(item.values["income"] == kept.instance["income"] for item in kept)


@pytest.mark.parametrize("name", ["linear", "network"])
def test_models_without_trees_are_refused_with_what_would_do(name: str) -> None:
    with pytest.raises(InputError, match="FeatureTweak needs a model that was read as") as refused:
        FeatureTweak().find(query_about(name), run_of())
    assert refused.value.code == "unsuitable-model"


def test_an_epsilon_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="epsilon must be"):
        FeatureTweak(epsilon=-0.1)
