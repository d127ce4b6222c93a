"""Small random decision trees over tiny spaces, in normal form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from ironrule.backends.forest.compile import CompiledForest, compile_tree_sum
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSum
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.feature import Feature
from ironrule.space.space import Space

VALUES = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]


@dataclass(frozen=True, slots=True)
class Among:
    """Goes left for some codes: any subset, as thresholds, categories and missing values make them."""

    column: int
    codes: frozenset[int]

    def goes_left(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        return np.isin(values, list(self.codes))


@st.composite
def questions_about(draw: st.DrawFn, column: int, feature: Feature) -> Among:
    """A threshold with missing on either side, or any set of codes."""
    if draw(st.booleans()):
        chosen = draw(st.lists(st.booleans(), min_size=feature.size, max_size=feature.size))
        return Among(column, frozenset(code for code, one in enumerate(chosen) if one))
    below = set(range(draw(st.integers(0, len(feature.values)))))
    return Among(column, frozenset(below | ({feature.missing_code} if draw(st.booleans()) else set())))


@st.composite
def trees(draw: st.DrawFn, space: Space, depth: int = 4) -> Tree:
    """A tree of few levels with small values."""
    tests: list[Among | None] = []
    children: list[list[int]] = []
    values: list[float] = []
    pending = [(0, -1)]
    while pending:
        level, parent = pending.pop(0)
        node = len(tests)
        if parent >= 0:
            children[parent].append(node)
        column = draw(st.integers(0, len(space) - 1))
        inner = level < depth and draw(st.integers(0, 3)) > 0
        tests.append(draw(questions_about(column, space.features[column])) if inner else None)
        children.append([])
        values.append(0.0 if inner else draw(st.sampled_from(VALUES)))
        pending += [(level + 1, node)] * 2 if inner else []
    left, right = ([(pair or [-1, -1])[side] for pair in children] for side in (0, 1))
    return Tree(tuple(tests), np.array(left, np.int32), np.array(right, np.int32), np.array(values))


def tree_of_table(table: npt.NDArray[np.bool_]) -> Tree:
    """A tree that decides as a table of outcomes does, with a leaf for every part that it has to tell apart."""
    tests: list[Among | None] = []
    left: list[int] = []
    right: list[int] = []
    values: list[float] = []
    pending = [(table, (0,) * table.ndim, -1, False)]
    while pending:
        part, base, parent, second = pending.pop(0)
        node = len(tests)
        if parent >= 0:
            (right if second else left)[parent] = node
        widest = int(np.argmax(part.shape))
        leaf = bool(part.all() or not part.any())
        cut = part.shape[widest] // 2
        tests.append(None if leaf else Among(widest, frozenset(range(base[widest] + cut))))
        left.append(-1)
        right.append(-1)
        values.append((1.0 if part.flat[0] else -1.0) if leaf else 0.0)
        if not leaf:
            low, high = np.split(part, [cut], axis=widest)
            moved = tuple(start + cut * (axis == widest) for axis, start in enumerate(base))
            pending += [(low, base, node, False), (high, moved, node, True)]
    return Tree(tuple(tests), np.array(left, np.int32), np.array(right, np.int32), np.array(values))


def compiled(
    space: Space, *alternatives: tuple[Margin, ...], feasible: FeasibleRegion | None = None
) -> tuple[CompiledForest, ...]:
    """The forests of a sum of trees whose columns are the codes themselves."""
    columns = TabulatedColumns(np.arange(len(space)), tuple(np.arange(size) for size in space.sizes))
    return compile_tree_sum(TreeSum(alternatives), columns, space, feasible)


def margin_of(tree: Tree, offset: float = 0.0, error: float = 0.0) -> Margin:
    """The margin that is one tree's value."""
    return Margin(offset, (LinkedGroup((tree,)),), error)


def leaf_of(value: float) -> Tree:
    """A tree of one leaf."""
    return Tree((None,), np.array([-1], np.int32), np.array([-1], np.int32), np.array([value]))
