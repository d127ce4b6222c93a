"""The backend for single decision trees in a space without constraints: all answers follow from the leaves.

A tree is compiled as a forest is; what is no such tree is left to :mod:`ironrule.backends.forest.backend`.
"""

from __future__ import annotations

from dataclasses import replace

from ironrule.backends.backend import NearestRequest, OracleRequest
from ironrule.backends.forest.backend import FOREST
from ironrule.backends.forest.deferred_forests import DeferredForests
from ironrule.backends.tree.compile import compile_leaf_tree
from ironrule.backends.tree.nearest import TreeNearestSearch
from ironrule.backends.tree.oracle import TreeOracle


def build_oracle(request: OracleRequest) -> TreeOracle | None:
    """The leaves, where the model is a single tree, confirms them, and everything can occur."""
    if request.model is None or request.space.constraints or isinstance(request.alternatives, DeferredForests):
        return None
    tree = compile_leaf_tree(request.alternatives, request.model, request.space)
    return None if tree is None else TreeOracle(tree, tuple(request.alternatives))


def build_nearest_search(request: NearestRequest) -> TreeNearestSearch | None:
    """The nearest points of the leaves, where these are known and everything can occur, under the usual costs."""
    query = request.query
    if not isinstance(request.oracle, TreeOracle) or query.case.feasible.predicates or query.cost is not None:
        return None
    return TreeNearestSearch.build(request.oracle, query.case, query.box)


TREE = replace(FOREST, build_oracle=build_oracle, build_nearest_search=build_nearest_search)
