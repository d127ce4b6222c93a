"""The backend for sums of trees and of single columns' contributions: branch and bound over cells."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.backends.backend import Backend, NearestRequest, OracleRequest, decide_any
from ironrule.backends.forest.compile import CompiledForest, compile_tree_sum, decide_points as decide_forest_points
from ironrule.backends.forest.deferred_forests import DeferredForests, defer_forests
from ironrule.backends.forest.nearest import ForestNearestSearch
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.nearest import ChangeCosts, NearestSearch, NoCounterfactuals
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.cells import DistinctSplits
from ironrule.model.normal_form.splits import list_split_columns
from ironrule.model.normal_form.tree_sum import LinkedGroup, TreeSum
from ironrule.model.protocol import NormalForm
from ironrule.model.read_model import TabulatedModel
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.space import Space


def is_tree_sum(normal_form: NormalForm) -> bool:
    """Whether a normal form is a sum of trees."""
    return isinstance(normal_form, TreeSum)


def find_used_columns(tabulated_model: TabulatedModel) -> set[int]:
    """The columns that a split asks about or a term is made of, unless they are the same everywhere."""
    groups, values = tabulated_model.tree_sum.groups, tabulated_model.columns.values
    every = {id(tree.splits): tree.splits for group in groups for tree in group.trees}.values()  # many trees share them
    named = {term.column for group in groups for term in group.terms}.union(*map(list_split_columns, every))
    return {column for column in named if (values[column] != values[column][0]).any()}


def hash_tree_sum(tabulated_model: TabulatedModel) -> str:
    """A hash of how a sum of trees decides."""
    normal_form, columns, digest = tabulated_model.tree_sum, tabulated_model.columns, hashlib.sha256()
    splits = DistinctSplits(columns)
    splits.add(tree for group in normal_form.groups for tree in group.trees)
    for feature, left in splits.numbers:
        digest.update(feature.to_bytes(4, "little") + left)
    for margins in normal_form.alternatives:
        digest.update(b"alternative")
        for margin in margins:
            digest.update(np.array([margin.offset, margin.error, margin.relative_error]).tobytes())
            for group in margin.groups:
                _hash_group(digest, group, columns, splits)
    return digest.hexdigest()


def _hash_group(digest: Any, group: LinkedGroup, columns: TabulatedColumns, splits: DistinctSplits) -> None:
    digest.update(repr(group.link).encode())
    for tree in group.trees:
        for part in (splits.number_nodes(tree), tree.left, tree.right, tree.value):
            digest.update(part.tobytes())
    for term in group.terms:
        values = term.contribution(columns.values[term.column])
        digest.update(int(columns.features[term.column]).to_bytes(4, "little"))
        digest.update(np.asarray(values, dtype=np.float64).tobytes())


def compile_forests(model: TabulatedModel, space: Space, feasible: FeasibleRegion) -> Sequence[CompiledForest]:
    """One forest for every alternative; of some models when they are first needed."""
    deferred = defer_forests(model, space, feasible)
    return compile_tree_sum(model.tree_sum, model.columns, space, feasible) if deferred is None else deferred


def decide_points(forests: Sequence[CompiledForest], points: Points) -> tuple[BoolArray, BoolArray]:
    """Which points may be desired by one of the forests, and which surely are."""
    if isinstance(forests, DeferredForests):
        return forests.decide_points(points)
    return decide_any(decide_forest_points, forests, points)


def build_oracle(request: OracleRequest) -> ForestOracle:
    """Ascent, then branch and bound over cells."""
    return ForestOracle(request.alternatives, gaps=request.gaps)


def build_nearest_search(request: NearestRequest) -> NearestSearch:
    """Branch and bound over changes, with the compiled forests of the model's own oracle where they serve."""
    case, own = request.query.case, request.oracle
    if isinstance(own, ForestOracle) and case.feasible is case.space.feasible:
        oracle = replace(own, limit=request.limit, gaps=None)
    else:
        oracle = ForestOracle(compile_forests(request.tabulated_model, case.space, case.feasible), request.limit)
    if not oracle.forests:
        return NoCounterfactuals()
    costs = ChangeCosts.build(request.query, oracle.forests[0].cells)
    return ForestNearestSearch(oracle.forests, oracle, request.query, costs, request.limit)


FOREST = Backend(
    accepts=is_tree_sum,
    find_used_columns=find_used_columns,
    compute_fingerprint=hash_tree_sum,
    compile=compile_forests,
    decide_points=decide_points,
    build_oracle=build_oracle,
    build_nearest_search=build_nearest_search,
)
