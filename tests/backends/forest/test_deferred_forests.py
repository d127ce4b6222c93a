"""Sums with very many values are decided without being compiled, as what they are compiled to decides."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LogisticRegression

from ironrule import Explainer, Proven
from ironrule.backends.forest.backend import compile_forests, decide_points
from ironrule.backends.forest.compile import compile_tree_sum
from ironrule.backends.forest.deferred_forests import MANY_VALUES, DeferredForests, defer_forests
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.cells import build_cell_masks
from ironrule.model.normal_form.separable import split_by_feature
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Term, TreeSum
from ironrule.model.read_model import TabulatedModel
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import every_point


def look_up(table: Any, values: Any) -> Any:
    return table[values]


@st.composite
def sums_of_terms(draw: st.DrawFn) -> tuple[TabulatedModel, Space]:
    """A few features, each with a number per value, that are added up; some of them tie with the limit."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    numbers = st.sampled_from([-1.0, -0.5, 0.0, 0.1, 0.5, 2.0])
    tables = [np.array(draw(st.lists(numbers, min_size=size, max_size=size))) for size in sizes]
    terms = tuple(Term(j, partial(look_up, table)) for j, table in enumerate(tables))
    link = draw(st.sampled_from([Link(), Link("logistic", 1.0, 2.0, 0.5)]))
    error = draw(st.sampled_from([0.0, 0.2]))
    margin = Margin(draw(st.sampled_from([-0.5, -0.4, 0.0, 0.6])), (LinkedGroup((), link, terms),), error=error)
    columns = TabulatedColumns(np.arange(len(sizes)), tuple(np.arange(size) for size in sizes))
    space = Space(tuple(Feature(f"f{j}", tuple(range(size)), ordered=True) for j, size in enumerate(sizes)))
    return TabulatedModel(TreeSum(((margin,),)), columns), space


@settings(deadline=None, max_examples=150)
@given(sums_of_terms())
def test_points_are_decided_without_being_compiled(made: tuple[TabulatedModel, Space]) -> None:
    model, space = made
    margin = split_by_feature(model.tree_sum, model.columns.features)
    assert margin is not None
    deferred, points = DeferredForests(model, margin, space, space.feasible), every_point(space)
    possible, sure = decide_points(deferred, points)
    assert not deferred.compiled
    exact, error = model.tree_sum.margins(model.columns.look_up(points))[0], model.tree_sum.alternatives[0][0].error
    assert possible[exact > 1e-9 - error].all()
    assert not sure[exact < error - 1e-9].any()
    assert not possible[exact < -error - 1e-9].any()
    assert sure[exact > error + 1e-9].all()
    forests = compile_tree_sum(model.tree_sum, model.columns, space)
    may, must = decide_points(forests, points)
    assert not (sure & ~may).any()
    assert not (must & ~possible).any()
    assert len(deferred) == len(forests)
    assert np.array_equal(deferred[0].leaf_values, forests[0].leaf_values)
    assert len(deferred.compiled) == 1


def make_numbers() -> tuple[LogisticRegression, Any]:
    rng = np.random.default_rng(0)
    values = np.stack([rng.permutation(MANY_VALUES + 500) / 7.0, rng.integers(0, 5, MANY_VALUES + 500)], axis=1)
    target = values[:, 0] + 30.0 * values[:, 1] > 300.0
    return LogisticRegression(C=1e-6, max_iter=500).fit(values, target), values


def test_a_sum_with_many_values_is_compiled_for_proofs_alone() -> None:
    model, values = make_numbers()
    explainer = Explainer(model, values, desired=True, progress=False)
    oracle = explainer._context.oracle
    assert isinstance(oracle, ForestOracle)
    assert isinstance(oracle.forests, DeferredForests)
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    found = explainer.counterfactuals(row, k=1)
    assert found.proven
    assert not oracle.forests.compiled
    assert len(pickle.dumps(oracle)) < 10_000_000
    explanation = explainer.explain(row)
    assert isinstance(explanation.verdict, Proven)
    assert len(oracle.forests.compiled) == 1


def test_few_values_are_compiled_at_once() -> None:
    model, values = make_numbers()
    context = Explainer(model, values[:50], desired=True, progress=False)._context
    assert context.compiled_model is not None
    tabulated, space = context.compiled_model.tabulated, context.reduced.space
    assert defer_forests(tabulated, space, space.feasible) is None
    assert isinstance(compile_forests(tabulated, space, space.feasible), tuple)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65])
def test_masks_of_cells_hold_the_codes_that_go_left(count: int) -> None:
    """Where every code is a cell, and where the last two codes are one."""
    rng = np.random.default_rng(count)
    for size in (count, count + 1):
        left = rng.integers(0, 2, (20, size)).astype(bool)
        left[:, size - 1] = left[:, count - 1]
        masks = build_cell_masks(np.arange(count), np.packbits(left, axis=1))
        bits = np.unpackbits(masks.astype("<u8").view(np.uint8), axis=1, bitorder="little").astype(bool)
        assert np.array_equal(bits[:, :count], left[:, :count])
        assert not bits[:, count:].any()
