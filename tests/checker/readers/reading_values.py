"""Evaluate a second reading row by row in plain NumPy: where a point may be desired, and where it surely is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray
from ironrule.checker.readers.normal_form import MarginPart, RegressionTree, SumForm, SumMargin


def decide(reading: SumForm, columns: Sequence[AnyArray]) -> tuple[BoolArray, BoolArray]:
    """For every row of the columns: for some alternative all margins are above minus their error, or above it."""
    rows = len(columns[0])
    possible, sure = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    for alternative in reading.alternatives:
        values = [margin_values(margin, columns) for margin in alternative]
        possible |= np.all([value > -error for value, error in values], axis=0)
        sure |= np.all([value > error for value, error in values], axis=0)
    return possible, sure


def margin_values(margin: SumMargin, columns: Sequence[AnyArray]) -> tuple[np.ndarray, float]:
    """A margin at every row, in extended precision, and how far off the model's own arithmetic may be."""
    total = np.full(len(columns[0]), margin.offset, dtype=np.longdouble)
    sizes = abs(margin.offset)
    for part in margin.parts:
        value, size = _part(part, columns)
        total, sizes = total + value, sizes + size
    return total, margin.error + margin.relative_error * sizes


def _part(part: MarginPart, columns: Sequence[AnyArray]) -> tuple[np.ndarray, float]:
    total, sizes = np.zeros(len(columns[0]), dtype=np.longdouble), 0.0
    for tree in part.trees:
        total = total + tree.value[_leaves(tree, columns)]
        sizes += float(np.abs(tree.value[tree.left < 0]).max())
    for term in part.terms:
        added = term.contribution(columns[term.column])
        total, sizes = total + added, sizes + float(np.abs(added).max())
    link = part.link
    if link.kind == "logistic":
        exponent = np.clip(-(link.slope * total + link.shift), -11000.0, 11000.0)
        total = link.scale / (1 + np.exp(exponent))
    elif link.kind == "step":
        total = np.where(total > link.shift, np.longdouble(link.scale), np.longdouble(0.0))
    return total, sizes


def _leaves(tree: RegressionTree, columns: Sequence[AnyArray]) -> np.ndarray:
    """The leaf of every row: children come after their parents, so one pass over the nodes suffices."""
    node = np.zeros(len(columns[0]), dtype=np.intp)
    for place, split in enumerate(tree.splits):
        if split is not None:
            here = np.flatnonzero(node == place)
            left = split.goes_left(columns[split.column][here])
            node[here] = np.where(left, tree.left[place], tree.right[place])
    return node
