"""Tiny cases whose model is a decision tree, or one of two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, strategies as st

from ironrule.backends.backend import OracleRequest
from ironrule.backends.forest.compile import CompiledForest
from ironrule.backends.tree.backend import TREE
from ironrule.backends.tree.oracle import TreeOracle
from ironrule.oracles.protocol import Case
from ironrule.space.space import Space
from random_trees import compiled, margin_of, trees
from tiny_cases import case_of, every_point, features

Made = tuple[Case, tuple[CompiledForest, ...]]


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """A few features: ordered or nominal, some of them sometimes missing."""
    return Space(tuple(draw(features(place, most=5)) for place in range(draw(st.integers(1, 3)))))


@st.composite
def tree_cases(draw: st.DrawFn, most_alternatives: int = 1) -> Made:
    """A case whose model is a tree; a leaf within the error is decided either way, but the same way everywhere."""
    space = draw(spaces())
    count = draw(st.integers(1, most_alternatives))
    grown = [draw(trees(space)) for _ in range(count)]
    errors = [draw(st.sampled_from([0.0, 0.5])) if count == 1 else 0.0 for _ in grown]
    margins = [
        margin_of(tree, draw(st.sampled_from([0.0, 0.25])), error) for tree, error in zip(grown, errors, strict=True)
    ]
    points = every_point(space)
    table = np.zeros(len(points), np.bool_)
    for tree, margin in zip(grown, margins, strict=True):
        values = margin.evaluate(points)
        leaf = replace(tree, value=np.arange(len(tree.value), dtype=np.float64)).evaluate(points).astype(np.intp)
        whims = np.array(draw(st.lists(st.booleans(), min_size=len(tree.value), max_size=len(tree.value))))
        table |= (values > margin.error) | ((values > -margin.error) & whims[leaf])
    assume(not table.all())
    undesired = points[~table]
    instance = undesired[draw(st.integers(0, len(undesired) - 1))]
    case = case_of(space, table.reshape(tuple(space.sizes)), instance, points[:: max(1, len(points) // 7)])
    return case, compiled(space, *((margin,) for margin in margins))


def leaves_of(case: Case, exact: tuple[CompiledForest, ...]) -> TreeOracle:
    oracle = TREE.build_oracle(OracleRequest(exact, case.space, case.model))
    assert isinstance(oracle, TreeOracle)
    return oracle
