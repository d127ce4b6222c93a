"""The nearest counterfactuals under any table of costs, on tiny models against looking at every point."""

from __future__ import annotations

from random import Random
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer
from ironrule.arrays import Points
from ironrule.backends.nearest import NearestCounterfactuals
from ironrule.backends.registry import find_nearest
from ironrule.backends.tree.oracle import TreeOracle
from ironrule.explain.query import build_case
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import BoxQuery, Case
from ironrule.rule.box import Box
from ironrule.rule.cost import CostTable
from random_networks import network_models
from random_tree_sums import read_models
from tiny_cases import every_point, exceptions_in, run_of

# Few different numbers, so that costs tie often; some that binary fractions do not hold; free and forbidden changes.
parts = st.sampled_from([0.0, 0.1, 0.3, 1.0, 1.0, 2.0, 7.5, 1e6, np.inf])


@st.composite
def cost_tables(draw: st.DrawFn, case: Case) -> CostTable:
    """What every code costs; nothing for the instance's own."""
    columns = []
    for size, own in zip(case.space.sizes.tolist(), case.instance.tolist(), strict=True):
        columns.append(np.array(draw(st.lists(parts, min_size=size, max_size=size))))
        columns[-1][own] = 0.0
    return CostTable(tuple(columns), draw(st.sampled_from(["sum", "max"])))


def assert_cheapest(found: NearestCounterfactuals, query: BoxQuery) -> None:
    """By looking at every point: each is the cheapest that changes all of no earlier one's features."""
    case, cost = query.case, query.cost
    assert found.proven
    assert found.stopped is None
    assert found.proven_count == len(found.points)
    left = [point for point in exceptions_in(case, query.box) if np.isfinite(measure(cost, point))]
    for point in found.points:
        assert any((point == other).all() for other in left)
        least = min(measure(cost, other) for other in left)
        assert measure(cost, point) == pytest.approx(least, rel=1e-9, abs=1e-6)
        changed = point != case.instance
        left = [other for other in left if not (other != case.instance)[changed].all()]
    assert len(found.points) == query.k or not left


def measure(cost: CostTable | None, point: Points) -> float:
    assert cost is not None
    return cost.measure_point(point)


@st.composite
def boxes_to_vary(draw: st.DrawFn, case: Case) -> Box:
    """Some features are to stay as they are."""
    fixed = np.array(draw(st.lists(st.integers(0, 3), min_size=len(case.space), max_size=len(case.space)))) == 0
    whole = case.components.box(0)
    return Box(np.where(fixed, case.instance, whole.low), np.where(fixed, case.instance, whole.high))


@settings(deadline=None, max_examples=600)
@given(st.one_of(read_models(), network_models()), st.integers(1, 4), st.data())
def test_each_counterfactual_is_the_cheapest_that_is_left(
    made: tuple[Case, TabulatedModel], k: int, data: st.DataObject
) -> None:
    case, read = made
    query = BoxQuery(case, data.draw(boxes_to_vary(case)), k, cost=data.draw(cost_tables(case)))
    assert_cheapest(find_nearest(read, query, run_of()), query)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 5), st.integers(1, 3), st.sampled_from(["sum", "max"]), st.randoms(use_true_random=False))
def test_a_single_tree_heeds_costs_too(seed: int, k: int, combine: Literal["sum", "max"], random: Random) -> None:
    """Its leaves are in the order of the usual costs, so others are left to the search of forests."""
    table = np.random.default_rng(seed).integers(0, 4, (40, 3))
    target = (table[:, 0] + 2 * table[:, 1] * table[:, 2]) % 5 > 2
    explainer = Explainer(DecisionTreeClassifier(random_state=seed).fit(table, target), table, desired=True)
    context, row = explainer._context, int(explainer.row_numbers[~explainer.outcomes][0])
    assert isinstance(context.oracle, TreeOracle)
    assert context.compiled_model is not None
    case = build_case(context, row)
    columns = [np.array([random.choice([0.0, 0.3, 1.0, 2.0, np.inf]) for _ in range(n)]) for n in case.space.sizes]
    for column, own in zip(columns, case.instance, strict=True):
        column[own] = 0.0
    query = BoxQuery(case, case.components.box(0), k, cost=CostTable(tuple(columns), combine))
    found = find_nearest(context.compiled_model.tabulated, query, run_of(), oracle=context.oracle)
    points = every_point(case.space)
    left = [point for point in points[case.model.desired(points)] if np.isfinite(measure(query.cost, point))]
    assert found.proven
    for point in found.points:
        assert measure(query.cost, point) == pytest.approx(min(measure(query.cost, other) for other in left))
        changed = point != case.instance
        left = [other for other in left if not (other != case.instance)[changed].all()]
    assert len(found.points) == k or not left
