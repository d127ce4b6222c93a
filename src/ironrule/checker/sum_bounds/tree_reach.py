"""Trees over many pieces at once: which nodes a piece can reach, level by level, and the best leaf among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ironrule.checker.readings.normal_form import Floats, Integers, Mask, Tree
from ironrule.checker.sum_bounds.split_sets import PathSets, Points, SplitSets


class TreeLevels(NamedTuple):
    """Several trees: nodes numbered level by level over all trees, the two children of a node next to each other."""

    roots: int
    levels: tuple[slice, ...]  # the nodes below the roots, by depth
    parents: Integers  # per node; a root has none
    path_sets: Integers  # per node, what the path to it leaves of the feature that was asked about last
    split_set: Integers  # per node, -1 for a leaf
    child: Integers  # per node, the first of its two children
    value: Floats  # per node
    rising: tuple[Integers, ...]  # the worst leaf of every tree, the next ones of those that have more, and so on
    starts: Integers  # per tree, those with most leaves first, where its own begin in `values`
    values: Floats  # of leaves, tree by tree, rising


def arrange_trees(trees: Sequence[Tree], path_sets: PathSets) -> TreeLevels:
    """Number the nodes in reach of the roots; what is left of each feature on the way joins the path sets."""
    flat, feature_of = _flatten(trees, path_sets.split_sets), path_sets.split_sets.features
    nodes, parents, edges = [flat.roots], [np.full(len(trees), -1)], [np.full(len(trees), -1)]
    left = np.full((len(trees), len(path_sets.split_sets.sizes)), -1, dtype=np.intp)  # per node and feature a path set
    levels, first = list[slice](), 0
    while len(nodes[-1]):  # level by level: from the nodes of one depth to their children
        here = nodes[-1]
        inner = np.flatnonzero(flat.split_set[here] >= 0)
        asked = np.repeat(flat.split_set[here[inner]], 2)
        left, places = np.repeat(left[inner], 2, axis=0), np.arange(len(asked))
        taken = path_sets.plain[2 * asked + places % 2]
        edges.append(path_sets.intersect(left[places, feature_of[asked]], taken))
        left[places, feature_of[asked]] = edges[-1]
        parents.append(np.repeat(first + inner, 2))
        nodes.append(np.stack([flat.left[here[inner]], flat.right[here[inner]]], axis=1).ravel())
        first += len(here)
        levels += [slice(first, first + len(nodes[-1]))] if len(inner) else []
    return _rank_leaves(flat, tuple(levels), np.concatenate(nodes), np.concatenate(parents), np.concatenate(edges))


class _Flat(NamedTuple):
    """The nodes of all trees end to end."""

    roots: Integers
    owner: Integers
    left: Integers
    right: Integers
    split_set: Integers
    value: Floats


def _flatten(trees: Sequence[Tree], split_sets: SplitSets) -> _Flat:
    sizes = [len(tree.left) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)])[: len(trees)].astype(np.intp)
    base = np.repeat(roots, sizes)
    empty = np.empty(0, dtype=np.intp)
    left, right = (np.concatenate([empty, *(getattr(tree, name) for tree in trees)]) for name in ("left", "right"))
    asked = [np.where(tree.left < 0, -1, split_sets.of_splits[id(tree.splits)]) for tree in trees]
    value = np.concatenate([np.empty(0), *(tree.value for tree in trees)])
    owner = np.repeat(np.arange(len(trees)), sizes)
    return _Flat(roots, owner, left + base, right + base, np.concatenate([empty, *asked]), value)


def _rank_leaves(
    flat: _Flat, levels: tuple[slice, ...], nodes: Integers, parents: Integers, path_sets: Integers
) -> TreeLevels:
    split_set, value, roots = flat.split_set[nodes], flat.value[nodes], len(flat.roots)
    child = np.full(len(nodes), -1, dtype=np.intp)
    child[parents[roots::2]] = np.arange(roots, len(nodes), 2)
    ends = np.flatnonzero(split_set < 0)
    owners = flat.owner[nodes[ends]]
    counts = np.bincount(owners, minlength=roots)
    leaves = ends[np.lexsort((value[ends], owners, -counts[owners]))]
    counts = np.sort(counts)[::-1]
    starts = np.cumsum(counts) - counts
    rising = tuple(leaves[starts[: np.count_nonzero(counts > rank)] + rank] for rank in range(counts.max(initial=0)))
    return TreeLevels(roots, levels, parents, path_sets, split_set, child, value, rising, starts, value[leaves])


def find_best_leaves(trees: TreeLevels, possible: Mask) -> Floats:
    """For every tree, those with most leaves first, and every piece the largest value in reach; ``possible`` says which
    path sets each piece meets.
    """
    if trees.roots == 0:
        return np.zeros((0, possible.shape[1]))
    reached = np.empty((len(trees.split_set), possible.shape[1]), dtype=np.bool_)
    reached[: trees.roots] = True
    for level in trees.levels:
        possible.take(trees.path_sets[level], axis=0, out=reached[level], mode="clip")  # "clip" needs no copy of `out`
        reached[level] &= reached.take(trees.parents[level], axis=0, mode="clip")
    best = np.zeros((trees.roots, possible.shape[1]), dtype=np.min_scalar_type(len(trees.rising)))
    for rank, leaves in enumerate(trees.rising[1:], 1):  # a better leaf in reach replaces a worse one
        here = best[: len(leaves)]
        np.maximum(here, reached.take(leaves, axis=0, mode="clip") * best.dtype.type(rank), out=here)
    return np.asarray(trees.values.take(trees.starts[:, None] + best, mode="clip"))


def evaluate_trees(trees: TreeLevels, split_sets: SplitSets, points: Points) -> Floats:
    """For every tree and point the value of the leaf that the point reaches."""
    values = np.empty((trees.roots, len(points)))
    for root in range(trees.roots):
        node = np.full(len(points), root, dtype=np.intp)
        going = np.flatnonzero(trees.split_set[node] >= 0)
        while len(going):  # the points that have not reached a leaf yet go one node down
            left = split_sets.goes_left(trees.split_set[node[going]], points[going])
            node[going] = trees.child[node[going]] + ~left
            going = going[trees.split_set[node[going]] >= 0]
        values[root] = trees.value[node]
    return values
