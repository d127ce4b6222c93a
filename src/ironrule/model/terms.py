"""Terms as trees: what the columns of a feature add together is one balanced tree over its codes."""

from __future__ import annotations

import numpy as np

from ironrule.model.coded import class_tree
from ironrule.model.reading import Floats, Group, Margin, Term, Tree
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


def _as_tree(parts: list[tuple[Term, Floats]], columns: Columns) -> Tree:
    """What a feature's columns add, as a balanced tree; codes that the model sees alike share a leaf, no others do."""
    alike = [np.unique(columns.values[term.column], return_inverse=True)[1].ravel() for term, _ in parts]
    _, first, inverse = np.unique(np.stack(alike, axis=1), axis=0, return_index=True, return_inverse=True)
    total = np.sum([part for _, part in parts], axis=0)
    return class_tree(int(columns.features[parts[0][0].column]), total[first], inverse.ravel())
