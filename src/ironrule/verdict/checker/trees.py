"""Trees over many pieces at once: which nodes a piece can reach, level by level, and the best leaf among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ironrule.model.reading import Floats, Tree
from ironrule.space import Points
from ironrule.space.codes import smallest_type
from ironrule.verdict.checker.answers import Answers
from ironrule.verdict.checker.questions import Flags, Ints, Questions


class Trees(NamedTuple):
    """Several trees: nodes numbered level by level over all trees, the two children of a node next to each other."""

    roots: int
    levels: tuple[slice, ...]  # the nodes below the roots, by depth
    parents: Ints  # per node; a root has none
    answers: Ints  # per node, what the path to it leaves of the feature that was asked about last
    question: Ints  # per node, -1 for a leaf
    child: Ints  # per node, the first of its two children
    value: Floats  # per node
    rising: tuple[Ints, ...]  # the worst leaf of every tree, the next ones of those that have more, and so on
    starts: Ints  # per tree, those with most leaves first, where its own begin in `values`
    values: Floats  # of leaves, tree by tree, rising


def trees_of(trees: Sequence[Tree], answers: Answers) -> Trees:
    """Number the nodes in reach of the roots; what is left of each feature on the way joins the answers."""
    flat, about = _flat(trees, answers.questions), answers.questions.features
    nodes, parents, edges = [flat.roots], [np.full(len(trees), -1)], [np.full(len(trees), -1)]
    left = np.full((len(trees), len(answers.questions.sizes)), -1, dtype=np.intp)  # per node and feature, an answer
    levels, first = list[slice](), 0
    while len(nodes[-1]):
        here = nodes[-1]
        inner = np.flatnonzero(flat.asked[here] >= 0)
        question = np.repeat(flat.asked[here[inner]], 2)
        left, places = np.repeat(left[inner], 2, axis=0), np.arange(len(question))
        given = answers.plain[2 * question + places % 2]
        edges.append(answers.narrowed(left[places, about[question]], given))
        left[places, about[question]] = edges[-1]
        parents.append(np.repeat(first + inner, 2))
        nodes.append(np.stack([flat.left[here[inner]], flat.right[here[inner]]], axis=1).ravel())
        first += len(here)
        levels += [slice(first, first + len(nodes[-1]))] if len(inner) else []
    return _listed(flat, tuple(levels), np.concatenate(nodes), np.concatenate(parents), np.concatenate(edges))


class _Flat(NamedTuple):
    """The nodes of all trees end to end."""

    roots: Ints
    owner: Ints
    left: Ints
    right: Ints
    asked: Ints
    value: Floats


def _flat(trees: Sequence[Tree], questions: Questions) -> _Flat:
    sizes = [len(tree.left) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)])[: len(trees)].astype(np.intp)
    base = np.repeat(roots, sizes)
    empty = np.empty(0, dtype=np.intp)
    left, right = (np.concatenate([empty, *(getattr(tree, name) for tree in trees)]) for name in ("left", "right"))
    asked = np.concatenate([empty, *map(questions.of, trees)])
    value = np.concatenate([np.empty(0), *(tree.value for tree in trees)])
    return _Flat(roots, np.repeat(np.arange(len(trees)), sizes), left + base, right + base, asked, value)


def _listed(flat: _Flat, levels: tuple[slice, ...], nodes: Ints, parents: Ints, answers: Ints) -> Trees:
    question, value, roots = flat.asked[nodes], flat.value[nodes], len(flat.roots)
    child = np.full(len(nodes), -1, dtype=np.intp)
    child[parents[roots::2]] = np.arange(roots, len(nodes), 2)
    ends = np.flatnonzero(question < 0)
    owners = flat.owner[nodes[ends]]
    counts = np.bincount(owners, minlength=roots)
    leaves = ends[np.lexsort((value[ends], owners, -counts[owners]))]
    counts = np.sort(counts)[::-1]
    starts = np.cumsum(counts) - counts
    rising = tuple(leaves[starts[: np.count_nonzero(counts > rank)] + rank] for rank in range(counts.max(initial=0)))
    return Trees(roots, levels, parents, answers, question, child, value, rising, starts, value[leaves])


def best_leaves(trees: Trees, possible: Flags) -> Floats:
    """For every tree, those with most leaves first, and every piece the largest value in reach; ``possible`` says which
    answers each piece meets.
    """
    if trees.roots == 0:
        return np.zeros((0, possible.shape[1]))
    reached = np.empty((len(trees.question), possible.shape[1]), dtype=np.bool_)
    reached[: trees.roots] = True
    for level in trees.levels:
        possible.take(trees.answers[level], axis=0, out=reached[level], mode="clip")  # "clip" needs no copy of `out`
        reached[level] &= reached.take(trees.parents[level], axis=0, mode="clip")
    best = np.zeros((trees.roots, possible.shape[1]), dtype=smallest_type(len(trees.rising)))
    for rank, leaves in enumerate(trees.rising[1:], 1):  # a better leaf in reach replaces a worse one
        here = best[: len(leaves)]
        np.maximum(here, reached.take(leaves, axis=0, mode="clip") * best.dtype.type(rank), out=here)
    return np.asarray(trees.values.take(trees.starts[:, None] + best, mode="clip"))


def values_at(trees: Trees, questions: Questions, points: Points) -> Floats:
    """For every tree and point the value of the leaf that the point reaches."""
    values = np.empty((trees.roots, len(points)))
    for root in range(trees.roots):
        node = np.full(len(points), root, dtype=np.intp)
        going = np.flatnonzero(trees.question[node] >= 0)
        while len(going):
            yes = questions.yes(trees.question[node[going]], points[going])
            node[going] = trees.child[node[going]] + ~yes
            going = going[trees.question[node[going]] >= 0]
        values[root] = trees.value[node]
    return values
