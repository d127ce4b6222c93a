"""A decision tree as arrays: its decision on a table, and its desired leaves as exact boxes of a space.

The boxes are computed from the thresholds alone and share nothing with the oracles, so they can judge them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import NODE_DTYPE, Tree as SklearnTree

from ironrule import Rule, Space

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """scikit-learn's semantics: float32(x) <= threshold goes left; a leaf has ``left`` -1."""

    columns: tuple[str, ...]
    left: Ints
    right: Ints
    feature: Ints
    threshold: npt.NDArray[np.float64]
    desired: npt.NDArray[np.bool_]  # by node: whether it decides for the desired outcome

    def __call__(self, table: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """Which rows of a table are desired."""
        matrix = np.empty((len(table), len(self.columns)), dtype=np.float32)
        for j, name in enumerate(self.columns):
            matrix[:, j] = table[name].to_numpy()
        return _decide(matrix, self.left, self.right, self.feature, self.threshold, self.desired)


def read_tree(path: Path) -> Tree:
    """The tree in a file of arrays; class 1 is desired, a tie is not."""
    with np.load(path) as arrays:
        value = arrays["value"]
        return Tree(
            tuple(str(name) for name in arrays["columns"]),
            *(arrays[name] for name in ("left", "right", "feature", "threshold")),
            desired=value[:, 1] > value[:, 0],
        )


def tree_of(fitted: Any, columns: tuple[str, ...], desired: int = 1) -> Tree:
    """A fitted scikit-learn decision tree classifier of the classes 0 and 1; in a tie it says 0."""
    inner = fitted.tree_
    chosen = inner.value[:, 0, :].argmax(axis=1) == desired
    left, right = inner.children_left.astype(np.int64), inner.children_right.astype(np.int64)
    return Tree(columns, left, right, inner.feature.astype(np.int64), inner.threshold.copy(), chosen)


def estimator_in(path: Path) -> DecisionTreeClassifier:
    """The tree in a file of arrays as the fitted scikit-learn estimator that it once was."""
    with np.load(path) as arrays:
        columns, value, samples = arrays["columns"], arrays["value"], arrays["n_node_samples"]
        nodes = np.zeros(len(samples), dtype=NODE_DTYPE)
        for name, array in (("left_child", "left"), ("right_child", "right"), ("feature", "feature")):
            nodes[name] = arrays[array]
        nodes["threshold"] = arrays["threshold"]
        nodes["n_node_samples"] = nodes["weighted_n_node_samples"] = samples
    shares = value / value.sum(axis=1, keepdims=True)
    inner = SklearnTree(len(columns), np.array([2], dtype=np.intp), 1)
    inner.__setstate__(
        {"max_depth": len(nodes), "node_count": len(nodes), "nodes": nodes, "values": shares[:, None, :].copy()}
    )
    fitted = DecisionTreeClassifier()
    fitted.tree_, fitted.n_outputs_, fitted.n_classes_, fitted.classes_ = inner, 1, 2, np.array([0, 1])
    fitted.n_features_in_ = fitted.max_features_ = len(columns)
    fitted.feature_names_in_ = columns.astype(object)
    return fitted


@numba.njit(cache=True, nogil=True)
def _decide(rows, left, right, feature, threshold, desired):  # type: ignore[no-untyped-def]
    decided = np.empty(len(rows), np.bool_)
    for i in range(len(rows)):
        node = 0
        while left[node] != -1:
            node = left[node] if np.float64(rows[i, feature[node]]) <= threshold[node] else right[node]
        decided[i] = desired[node]
    return decided


@dataclass(frozen=True, slots=True, eq=False)
class LeafBoxes:
    """The desired leaves of a tree that hold points of a space: lowest and highest codes, both included."""

    space: Space
    low: Ints
    high: Ints
    nodes: Ints

    def exceptions(self, rule: Rule) -> npt.NDArray[np.intp]:
        """The desired leaves that meet the rule's box; none if and only if the rule is globally consistent."""
        low, high = rule_bounds(self.space, rule)
        meets = (np.maximum(self.low, low) <= np.minimum(self.high, high)).all(axis=1)
        return np.flatnonzero(meets)

    def example(self, rule: Rule, leaf: int) -> dict[str, Any]:
        """A point of a leaf that satisfies the rule: a counterfactual."""
        low = np.maximum(self.low[leaf], rule_bounds(self.space, rule)[0])
        return {f.name: f.value(int(code)) for f, code in zip(self.space.features, low, strict=True)}


def rule_bounds(space: Space, rule: Rule) -> tuple[Ints, Ints]:
    """The lowest and highest codes that a rule of ordered components admits."""
    low = np.zeros(len(space), dtype=np.int64)
    high = space.sizes.astype(np.int64) - 1
    for component in rule.components:
        j = space.index(component.feature)
        code = space.features[j].code(component.value)
        if component.op != "<=":
            low[j] = max(low[j], code)
        if component.op != ">=":
            high[j] = min(high[j], code)
    return low, high


@dataclass(slots=True)
class _Boxes:
    low: list[Ints] = field(default_factory=list)
    high: list[Ints] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)


def desired_leaves(tree: Tree, space: Space) -> LeafBoxes:
    """The boxes of all desired leaves that hold a point of the space."""
    domains = [np.asarray(space.features[space.index(name)].values, dtype=np.float32) for name in tree.columns]
    places = [space.index(name) for name in tree.columns]
    found = _Boxes()
    open_nodes = [(0, np.zeros(len(space), dtype=np.int64), space.sizes.astype(np.int64) - 1)]
    while open_nodes:
        node, low, high = open_nodes.pop()
        if (low > high).any():
            continue
        if tree.left[node] != -1:
            open_nodes += _split(tree, node, low, high, domains, places)
        elif tree.desired[node]:
            found.low.append(low)
            found.high.append(high)
            found.nodes.append(node)
    return LeafBoxes(space, np.array(found.low), np.array(found.high), np.array(found.nodes))


def _split(
    tree: Tree, node: int, low: Ints, high: Ints, domains: list[npt.NDArray[np.float32]], places: list[int]
) -> list[tuple[int, Ints, Ints]]:
    """Both children of a node with their boxes, which may be empty."""
    column = int(tree.feature[node])
    place = places[column]
    below = int(np.count_nonzero(domains[column].astype(np.float64) <= tree.threshold[node]))
    left_high, right_low = high.copy(), low.copy()
    left_high[place] = min(high[place], below - 1)
    right_low[place] = max(low[place], below)
    return [(int(tree.left[node]), low, left_high), (int(tree.right[node]), right_low, high)]
