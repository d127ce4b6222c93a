"""Tiny random sums of trees, and cases whose model is one: within the error it may decide either way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from ironrule.backends.forest.compile import compile_tree_sum
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.errors import ConstraintError
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Tree, TreeSum
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import Case
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import case_of, constraints, every_point


@dataclass(frozen=True, slots=True)
class Among:
    """Goes left for some values: any subset, as categorical splits and missing values make them."""

    column: int
    values: frozenset[int]

    def goes_left(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        return np.isin(values, list(self.values))


@st.composite
def trees(draw: st.DrawFn, sizes: tuple[int, ...], depth: int = 3) -> Tree:
    """A tree of few levels with small values, so that sums tie often."""
    tests: list[Among | None] = []
    left: list[int] = []
    right: list[int] = []
    values: list[float] = []
    pending = [(0, -1, False)]
    while pending:
        level, parent, second = pending.pop(0)
        node = len(tests)
        if parent >= 0:
            (right if second else left)[parent] = node
        column = draw(st.integers(0, len(sizes) - 1))
        inner = level < depth and draw(st.booleans())
        some = draw(st.frozensets(st.integers(0, sizes[column] - 1)))
        tests.append(Among(column, some) if inner else None)
        left.append(-1)
        right.append(-1)
        values.append(0.0 if inner else draw(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])))
        if inner:
            pending += [(level + 1, node, False), (level + 1, node, True)]
    return Tree(tuple(tests), np.array(left, np.int32), np.array(right, np.int32), np.array(values))


links = st.one_of(
    st.just(Link()),
    st.builds(
        Link, st.just("logistic"), st.sampled_from([0.5, 2.0]), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 1.0])
    ),
    st.builds(Link, st.just("step"), st.sampled_from([0.5, 1.0]), st.just(1.0), st.sampled_from([-0.25, 0.25])),
)


@st.composite
def margins(draw: st.DrawFn, sizes: tuple[int, ...], linked: bool) -> Margin:
    groups = draw(
        st.lists(
            st.builds(
                LinkedGroup,
                st.lists(trees(sizes), min_size=1, max_size=4).map(tuple),
                link=links if linked else st.just(Link()),
            ),
            min_size=1,
            max_size=2 if linked else 1,
        )
    )
    offset = draw(st.sampled_from([-2.25, -1.0, -0.25, 0.0, 0.75]))
    return Margin(offset, tuple(groups), error=draw(st.sampled_from([0.0, 0.3, 1.0])))


def rounding(margin: Margin) -> float:
    """Sums of these values are exact; logistic functions of them are not."""
    return 1e-12 if any(group.link.kind == "logistic" for group in margin.groups) else 0.0


def constrained_space(features: tuple[Feature, ...], texts: list[str]) -> Space:
    try:
        return Space(features, tuple(map(parse_constraint, texts)))
    except ConstraintError:  # nothing satisfies them
        return Space(features)


@st.composite
def read_models(draw: st.DrawFn) -> tuple[Case, TabulatedModel]:
    """A case whose model is a sum of trees: within the error it may decide either way."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    kinds = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    features = tuple(Feature(f"f{j}", tuple(range(size)), ordered=kinds[j]) for j, size in enumerate(sizes))
    space = constrained_space(features, draw(st.lists(constraints(features, of_instance=False), max_size=2)))
    linked = draw(st.booleans())
    alternatives = draw(
        st.lists(st.lists(margins(sizes, linked), min_size=1, max_size=2).map(tuple), min_size=1, max_size=2)
    )
    tree_sum = TreeSum(tuple(alternatives))
    columns = TabulatedColumns(np.arange(len(sizes)), tuple(np.arange(size) for size in sizes))
    forests = compile_tree_sum(tree_sum, columns, space)
    points = every_point(space)
    possible, sure = np.zeros(len(points), np.bool_), np.zeros(len(points), np.bool_)
    for alternative in tree_sum.alternatives:
        values = np.array([margin.evaluate(points) for margin in alternative])
        errors = np.array([[margin.error + rounding(margin)] for margin in alternative])
        possible |= (values > -errors).all(axis=0)
        sure |= (values > errors).all(axis=0)
    _, alike = np.unique(forests[0].cells.locate(points), axis=0, return_inverse=True)  # same leaves: same arithmetic
    whims = np.array(draw(st.lists(st.booleans(), min_size=len(points), max_size=len(points))))[alike.ravel()]
    table = (sure | (possible & whims)).reshape(tuple(space.sizes))
    occurring = points[space.feasible.admits(points)]
    undesired = points[~table.ravel() & space.feasible.admits(points)]
    if len(undesired) == 0:
        table[:] = False
        return case_of(space, table, occurring[0], occurring[:1]), TabulatedModel(TreeSum(()), columns)
    instance = undesired[draw(st.integers(0, len(undesired) - 1))]
    return case_of(space, table, instance, occurring[:: max(1, len(occurring) // 7)]), TabulatedModel(tree_sum, columns)


@st.composite
def read_cases(draw: st.DrawFn) -> tuple[Case, ForestOracle]:
    """The same with the exact oracle."""
    case, read = draw(read_models())
    return case, ForestOracle(compile_tree_sum(read.normal_form, read.columns, case.space))
