"""Terms as trees: what the columns of a feature add together is one balanced tree over its codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.reading import Floats, Group, Margin, Term, Test, Tree
from ironrule.model.slack import ROUNDING
from ironrule.model.tabulate import Columns


def with_trees_alone(margin: Margin, columns: Columns) -> Margin:
    """The margin with all terms of a feature as one tree, and its whole error as one number."""
    sizes = [
        abs(margin.offset),
        *(float(np.abs(tree.value).max(initial=0.0)) for g in margin.groups for tree in g.trees),
    ]
    groups = []
    for group in margin.groups:
        parts = [(term, np.asarray(term.of(columns.values[term.column]), dtype=np.float64)) for term in group.terms]
        own = [float(np.abs(part).max(initial=0.0)) for _, part in parts]
        merged = _merged(parts, columns)
        lost = len(parts) * ROUNDING * sum(own) if len(merged) < len(parts) else 0.0
        groups.append(Group((*group.trees, *merged), group.link, rounding=lost))
        sizes += own
    return Margin(margin.offset, tuple(groups), margin.error + margin.relative * sum(sizes))


def _merged(parts: list[tuple[Term, Floats]], columns: Columns) -> list[Tree]:
    """For every feature one tree with what its columns add together."""
    of_feature: dict[int, list[tuple[Term, Floats]]] = {}
    for term, part in parts:
        of_feature.setdefault(int(columns.features[term.column]), []).append((term, part))
    return [_as_tree(some, columns) for some in of_feature.values()]


@dataclass(frozen=True, slots=True, eq=False)
class _Within:
    """A test of codes by their places in an order: those from ``start`` on and before ``end`` go left."""

    column: int
    places: npt.NDArray[np.intp]
    start: int
    end: int

    def goes_left(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:  # noqa: ARG002  # answered by position
        return (self.places >= self.start) & (self.places < self.end)


def _as_tree(parts: list[tuple[Term, Floats]], columns: Columns) -> Tree:
    """What a feature's columns add, as a balanced tree; codes that the model sees alike share a leaf, no others do."""
    alike = [np.unique(columns.values[term.column], return_inverse=True)[1].ravel() for term, _ in parts]
    _, first, inverse = np.unique(np.stack(alike, axis=1), axis=0, return_index=True, return_inverse=True)
    total = np.sum([part for _, part in parts], axis=0)
    values, places, column = total[first], inverse.ravel(), parts[0][0].column
    tests: list[Test | None] = []
    left: list[int] = []
    right: list[int] = []
    results: list[float] = []
    pending = [(0, len(values), -1)]
    for start, end, parent in pending:  # which grows on the way
        node = len(tests)
        if parent >= 0 and left[parent] == 0:
            left[parent] = node
        elif parent >= 0:
            right[parent] = node
        leaf = end - start == 1
        middle = (start + end) // 2
        tests.append(None if leaf else _Within(column, places, start, middle))
        left.append(-1 if leaf else 0)
        right.append(-1 if leaf else 0)
        results.append(float(values[start]) if leaf else 0.0)
        pending += [] if leaf else [(start, middle, node), (middle, end, node)]
    return Tree(tuple(tests), np.array(left, dtype=np.int32), np.array(right, dtype=np.int32), np.array(results))
