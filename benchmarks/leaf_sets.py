"""A tree's desired leaves as sets of codes per feature: the judge of tree_rules, independent of the package's oracles.

Works for one-hot columns too: of every table column it knows the value that every code of its feature gives it, and
asks the tree's own question about it. A rule is consistent if and only if its set of codes misses, for every desired
leaf, the leaf's set in some feature. What is the least number of components is then a set cover, which HiGHS solves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.tree import Tree
from ironrule import Rule, Space

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LeafSets:
    """Desired leaves, one row each; the codes of all features lie side by side, feature j's from ``starts[j]`` on."""

    space: Space
    starts: npt.NDArray[np.intp]
    codes: Flags

    def exceptions(self, rule: Rule) -> int:
        """How many desired leaves meet the rule's box."""
        admitted = np.ones(self.codes.shape[1], dtype=np.bool_)
        for component in rule.components:
            admitted &= self._admitted(component.feature, component.op, component.value)
        return int(self._in_all_features(self.codes & admitted).sum())

    def least(self, row: dict[str, object]) -> int:
        """The least number of components of a consistent rule for a row, by HiGHS."""
        parts = [part for feature in self.space.features for part in _components(feature.name, row, feature.ordered)]
        excludes = np.stack([~self._in_all_features(self.codes & self._admitted(*part)) for part in parts], axis=1)
        cover = np.unique(excludes, axis=0).astype(float)
        cost = np.ones(len(parts))
        found = milp(cost, constraints=LinearConstraint(cover, lb=1.0), integrality=cost, bounds=Bounds(0, 1))
        if not found.success:
            raise SystemExit(f"HiGHS must find the least number of components, but: {found.message}")
        return round(found.fun)

    def _in_all_features(self, codes: Flags) -> Flags:
        counts = np.add.reduceat(codes, self.starts, axis=1, dtype=np.int64)
        return np.asarray((counts > 0).all(axis=1))

    def _admitted(self, name: str, op: str, value: object) -> Flags:
        j = self.space.index(name)
        feature, start = self.space.features[j], self.starts[j]
        place, codes = feature.code(value), np.arange(feature.size)
        chosen = codes == place if op == "==" else codes <= place if op == "<=" else codes >= place
        admitted = np.ones(self.codes.shape[1], dtype=np.bool_)
        admitted[start : start + feature.size] = chosen
        return admitted


def _components(name: str, row: dict[str, object], ordered: bool) -> list[tuple[str, str, object]]:
    return [(name, op, row[name]) for op in (("<=", ">=") if ordered else ("==",))]


def leaf_sets(tree: Tree, space: Space) -> LeafSets:
    """The desired leaves of a tree that hold a point of a space without missing values."""
    starts = np.concatenate([[0], np.cumsum(space.sizes)])
    tables = [_column_table(space, name) for name in tree.columns]
    found: list[Flags] = []
    open_nodes = [(0, np.ones(starts[-1], dtype=np.bool_))]
    while open_nodes:
        node, codes = open_nodes.pop()
        if tree.left[node] == -1:
            found += [codes] if tree.desired[node] else []
            continue
        j, values = tables[int(tree.feature[node])]
        goes = values.astype(np.float32).astype(np.float64) <= tree.threshold[node]
        for child, kept in ((tree.left[node], goes), (tree.right[node], ~goes)):
            part = codes.copy()
            part[starts[j] : starts[j + 1]] &= kept
            if part[starts[j] : starts[j + 1]].any():
                open_nodes.append((int(child), part))
    return LeafSets(space, starts[:-1], np.array(found))


def _column_table(space: Space, name: str) -> tuple[int, npt.NDArray[np.float64]]:
    """The feature that carries a table column, and the column's value for every code of it."""
    j = next(j for j, feature in enumerate(space.features) if name in feature.columns)
    feature = space.features[j]
    if feature.one_hot:
        return j, (np.arange(feature.size) == feature.columns.index(name)).astype(np.float64)
    return j, np.array(feature.values, dtype=np.float64)


def check_sets(sets: LeafSets, tree: Tree, table: pd.DataFrame) -> None:
    """The sets must decide every past row as the tree does; ends the program if they do not."""
    codes = sets.space.encode(table, progress=False).points() + sets.starts
    inside = np.zeros(len(codes), dtype=np.bool_)
    for leaf in sets.codes:
        inside |= leaf[codes].all(axis=1)
    if (inside != tree(table)).any():
        raise SystemExit("the leaf sets must agree with the tree on every past row, but they do not")
