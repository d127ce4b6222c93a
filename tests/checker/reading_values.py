"""What a reading says about rows, by walking its trees in plain Python: slow, simple, and apart from the checker."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ironrule.checker.readings.normal_form import Margin, Part, SumReading, Tree


def tree_values(tree: Tree, columns: Sequence[np.ndarray]) -> np.ndarray:
    """The value of the leaf that each row comes to; every split is asked about all rows at once."""
    answers = [None if split is None else split.goes_left(columns[split.column]) for split in tree.splits]
    nodes = []
    for row in range(len(columns[0])):
        node = 0
        while answers[node] is not None:
            node = int((tree.left if answers[node][row] else tree.right)[node])
        nodes.append(node)
    return tree.value[nodes]


def part_values(part: Part, columns: Sequence[np.ndarray]) -> np.ndarray:
    """The link of the sum of trees and terms at each row."""
    adds = [tree_values(tree, columns) for tree in part.trees]
    adds += [term.add(columns[term.column]) for term in part.terms]
    rows = len(columns[0])
    sums = np.array([math.fsum(add[row] for add in adds) for row in range(rows)])
    link = part.link
    if link.kind == "identity":
        return sums
    if link.kind == "step":
        return link.scale * (sums > link.shift)
    return np.array([link.scale * _logistic(link.slope * value + link.shift) for value in sums])


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700.0 else 0.0


def margin_values(margin: Margin, columns: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
    """The margin at each row, and how far the model's own may be from it."""
    parts = [part_values(part, columns) for part in margin.parts]
    rows = len(columns[0])
    sums = np.array([math.fsum([margin.offset, *(part[row] for part in parts)]) for row in range(rows)])
    sizes = abs(margin.offset) + sum(abs(tree.value).max() for part in margin.parts for tree in part.trees)
    return sums, margin.error + margin.relative * float(sizes)


def decide(reading: SumReading, columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Which rows may have the desired outcome, and which have it for sure."""
    possible = np.zeros(len(columns[0]), dtype=bool)
    sure = np.zeros(len(columns[0]), dtype=bool)
    for margins in reading.alternatives:
        values = [margin_values(margin, columns) for margin in margins]
        possible |= np.all([sums > -error for sums, error in values], axis=0)
        sure |= np.all([sums > error for sums, error in values], axis=0)
    return possible, sure
