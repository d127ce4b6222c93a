"""A box question as the plain problem that every solver of other_oracles gets: choose a cell per feature, and with it a
leaf per tree, so that the leaves sum to more than a bound.

Only what the box leaves is in it: cells that it meets, leaves that it can reach, and cells that none of those leaves
tells apart count as one. Preparing this is not counted against the solvers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.proof_queries import Query
from ironrule import Explainer
from ironrule.backends.forest.compile import CompiledForest, decide_points
from ironrule.rule.box import Box

Answer = dict[str, Any]
Flags = npt.NDArray[np.bool_]


def forest_of(explainer: Explainer) -> CompiledForest:
    """The one forest of a model whose margin is a plain sum of trees; raises if it is anything else."""
    exact = explainer._context.compiled_model
    if exact is None or len(exact.alternatives) != 1:
        raise RuntimeError(f"the model must be read as one forest, but: {explainer.unreadable_reason or 'more'}")
    forest = exact.alternatives[0]
    if len(forest.offset) != 1 or forest.links[:, 0].any() or forest.is_constraint.any():
        raise RuntimeError("the model's margin must be one plain sum of trees, but it is not")
    return forest


def problem_of(explainer: Explainer, query: Query) -> Answer:
    """The problem: per feature how many merged cells; per tree its leaves; what their sum must exceed.

    A leaf is its value and, per feature that matters, the list of the merged cells that lead to it. ``codes`` has for
    every merged cell one code of the box.
    """
    forest = forest_of(explainer)
    met = [_met(forest, feature, query) for feature in range(len(query.low))]
    trees = [_leaves(forest, tree, met) for tree in range(len(forest.root))]
    merged = [_merged(feature, met[feature], trees) for feature in range(len(met))]
    return {
        "cells": [int(into.max()) + 1 for into in merged],
        "codes": [_codes(forest, feature, query, into) for feature, into in enumerate(merged)],
        "trees": [[[value, _cells(merged, conditions)] for value, conditions in leaves] for leaves in trees],
        "more than": -float(forest.offset[0]),
    }


def _met(forest: CompiledForest, feature: int, query: Query) -> Flags:
    """Which cells of a feature the box meets."""
    start, first = forest.cells.code_starts[feature], forest.cells.cell_starts[feature]
    inside = forest.cells.cell_by_code[start + query.low[feature] : start + query.high[feature] + 1]
    met = np.zeros(int(forest.cells.cell_starts[feature + 1] - first), dtype=np.bool_)
    met[inside] = True
    return met


def _leaves(forest: CompiledForest, tree: int, met: list[Flags]) -> list[tuple[float, dict[int, Flags]]]:
    """The leaves of a tree that the box reaches, with what they demand of features, where that excludes something."""
    leaves = []
    for leaf in range(forest.leaf_starts[tree], forest.leaf_starts[tree + 1]):
        conditions: dict[int, Flags] = {}
        for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
            condition = forest.leaf_masks[place]
            feature = int(forest.mask_feature[condition])
            conditions[feature] = conditions.get(feature, met[feature]) & _admitted(
                forest, condition, len(met[feature])
            )
        if all(admitted.any() for admitted in conditions.values()):
            told = {feature: some for feature, some in conditions.items() if (some != met[feature]).any()}
            leaves.append((float(forest.leaf_values[leaf]), told))
    return leaves


def _admitted(forest: CompiledForest, condition: int, cells: int) -> Flags:
    admitted = np.zeros(cells, dtype=np.bool_)
    for run in range(forest.run_starts[condition], forest.run_starts[condition + 1]):
        admitted[forest.run_first[run] : forest.run_last[run] + 1] = True
    return admitted


def _merged(feature: int, met: Flags, trees: list[list[tuple[float, dict[int, Flags]]]]) -> npt.NDArray[np.int64]:
    """Per cell the merged cell that it belongs to, in the order of their first cells; -1 outside the box."""
    asked = {told[feature].tobytes() for leaves in trees for _, told in leaves if feature in told}
    answers = np.array([np.frombuffer(one, dtype=np.bool_) for one in asked] or [met])[:, met]
    _, first, inverse = np.unique(answers, axis=1, return_index=True, return_inverse=True)
    into = np.full(len(met), -1, dtype=np.int64)
    into[met] = np.argsort(np.argsort(first))[inverse.ravel()]
    return into


def _cells(merged: list[npt.NDArray[np.int64]], conditions: dict[int, Flags]) -> Answer:
    return {str(feature): np.unique(merged[feature][admitted]).tolist() for feature, admitted in conditions.items()}


def _codes(forest: CompiledForest, feature: int, query: Query, into: npt.NDArray[np.int64]) -> list[int]:
    start, low, high = forest.cells.code_starts[feature], query.low[feature], query.high[feature]
    inside = into[forest.cells.cell_by_code[start + low : start + high + 1]]
    return [int(low + np.flatnonzero(inside == cell)[0]) for cell in range(int(into.max()) + 1)]


def judged(explainer: Explainer, query: Query, problem: Answer, answer: Answer) -> Answer:
    """A solver's answer, with what our reading of the model says about the point that it found."""
    if answer["answer"] != "found":
        return answer
    point = [codes[cell] for codes, cell in zip(problem["codes"], answer["cells"], strict=True)]
    points = np.array([point], dtype=np.int32)
    possible, sure = decide_points(forest_of(explainer), points)
    inside = bool(Box(query.low, query.high).contains(points)[0])
    return answer | {"desired": inside and bool(sure[0]), "maybe": inside and bool(possible[0])}
