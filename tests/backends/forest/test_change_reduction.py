"""What is left of a problem of many cells, whose masks have several words, against sets of cells."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from test_change_bounds import (
    Problem,
    assert_exact,
    assert_stands_for,
    build_problem,
    build_random_tree,
    build_stump,
    build_sum,
    list_points,
    no_leaves,
)

from ironrule.arrays import BoolArray, UInt64Array
from ironrule.backends.forest.change_messages import allocate_messages
from ironrule.backends.forest.change_problem import ChangeProblem
from ironrule.backends.forest.change_reduction import fill_words, find_alive_leaves, merge_cells, reduce_problem
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree
from ironrule.rule.cost import CostTable
from ironrule.space.feature import Feature
from random_tree_sums import Among, constrained_space
from tiny_cases import case_of

CELLS = 160  # of the first feature: two whole words and a half


def build_wide_problem(seed: int, sizes: tuple[int, ...]) -> Problem:
    """A problem in which every code is a cell; trees ask for ranges and scattered codes, and no limit closes any."""
    rng, features = np.random.default_rng(seed), [Feature(f"f{j}", tuple(range(n)), True) for j, n in enumerate(sizes)]
    trees = [build_random_tree(rng, sizes, 3) for _ in range(20)]
    for tree in trees[::2]:
        for split in filter(None, tree.splits):
            some = rng.choice(sizes[split.column], sizes[split.column] // 2, replace=False).tolist()
            trees.append(replace_split(tree, split, Among(split.column, frozenset(some))))
    trees += [build_stump(j, rng.normal(size=size).tolist()) for j, size in enumerate(sizes)]
    origin = np.array([rng.integers(0, size) for size in sizes], dtype=np.int32)
    space = constrained_space(tuple(features), [])
    case = case_of(space, np.zeros(sizes, dtype=np.bool_), origin, origin[None, :])
    costs = [np.where(np.arange(size) == own, 0.0, rng.random(size)) for size, own in zip(sizes, origin, strict=True)]
    whole = build_sum(case, (Margin(0.0, (LinkedGroup(tuple(trees)),)),), CostTable(tuple(costs)), 1e6)
    left = build_problem(whole, merges=False)
    assert left is not None
    assert np.diff(left.problem.cells.cell_starts).tolist() == list(sizes)
    return left


def replace_split(tree: Tree, old: Among, new: Among) -> Tree:
    return dataclasses.replace(tree, splits=tuple(new if split is old else split for split in tree.splits))


def unpack(problem: ChangeProblem, words: UInt64Array, feature: int) -> BoolArray:
    """Words as one truth per cell of a feature."""
    count = int(np.diff(problem.cells.cell_starts)[feature])
    return np.array([int(words[cell >> 6]) >> (cell & 63) & 1 for cell in range(count)], dtype=np.bool_)


def list_mask_cells(problem: ChangeProblem) -> list[tuple[int, BoolArray]]:
    """Per mask its feature, and which cells it has."""
    features = problem.use_feature[problem.mask_use].tolist()
    return [
        (feature, unpack(problem, problem.mask_words[problem.mask_starts[mask] :], feature))
        for mask, feature in enumerate(features)
    ]


def list_boxes(seed: int) -> Iterator[list[list[int]]]:
    """Open cells that lie in one word alone, in two, or anywhere; and next to the ends of words."""
    rng, ranges = np.random.default_rng(seed), [(0, 64), (64, 128), (128, 160), (0, 128), (64, 160), (0, 160)]
    for first, end in ranges:
        for share in (0.1, 0.9):
            some = [cell for cell in range(first, end) if rng.random() < share] or [first]
            yield [some, [0, 2], np.flatnonzero(rng.random(70) < share).tolist() or [69]]
    for pair in ([63, 64], [0, 127], [127, 128], [0, 64, 128], [159]):
        yield [pair, [1], [0, 63, 64]]


@pytest.mark.parametrize("seed", range(3))
def test_every_word_of_a_mask_counts(seed: int) -> None:
    """For which leaves are in reach, which masks tell open cells apart, which cells are merged, and the new masks."""
    left = build_wide_problem(seed, (CELLS, 3, 70))
    problem, masks, rng = left.problem, list_mask_cells(left.problem), np.random.default_rng(seed)
    starts, reached = problem.cells.cell_starts, set[bool]()
    for chosen in list_boxes(seed):
        domain = left.build_domain(chosen)
        is_open = [np.isin(np.arange(count), cells) for count, cells in zip(np.diff(starts), chosen, strict=True)]
        is_dead = rng.random(len(problem.leaf_values)) < 0.1
        dead = no_leaves(problem)
        for leaf in np.flatnonzero(is_dead):
            dead[leaf >> 6] |= np.uint64(1) << np.uint64(leaf & 63)
        own = [problem.leaf_masks[a:b] for a, b in itertools.pairwise(problem.leaf_mask_starts.tolist())]
        expected = np.array(
            [
                not gone and all((masks[mask][1] & is_open[masks[mask][0]]).any() for mask in some)
                for gone, some in zip(is_dead, own, strict=True)
            ]
        )
        telling = np.zeros(len(masks), dtype=np.bool_)
        for leaf in np.flatnonzero(expected):
            for mask in own[leaf]:
                feature, cells = masks[mask]
                telling[mask] |= (is_open[feature] & ~cells).any()
        alive, found = np.zeros(len(expected), dtype=np.bool_), np.zeros(len(masks), dtype=np.bool_)
        every = all(expected[a:b].any() for a, b in itertools.pairwise(problem.leaf_starts.tolist()))
        assert find_alive_leaves(problem, domain, dead, alive, found) == every
        reached.add(every)
        if every:
            assert (alive == expected).all()
            assert (found == telling).all()
            assert_merged(left, domain, np.flatnonzero(telling), is_open, masks)
    assert reached == {True, False}


def assert_merged(
    left: Problem, domain: UInt64Array, telling: BoolArray, is_open: list[BoolArray], masks: list[tuple[int, BoolArray]]
) -> None:
    """The cells that stay are the cheapest of those in the same masks, and the new masks are the old ones over them."""
    problem, tables = left.problem, left.tables
    cells, starts = merge_cells(problem, tables.cheapest_cells, domain, telling, True)
    every = np.flatnonzero(np.concatenate(is_open))
    assert merge_cells(problem, tables.cheapest_cells, domain, telling, False)[0].tolist() == every.tolist()
    words, first = fill_words(problem, telling, starts, cells), 0
    for feature, begin in enumerate(problem.cells.cell_starts[:-1].tolist()):
        kept = cells[starts[feature] : starts[feature + 1]] - begin
        kinds = np.array([own for number, own in map(masks.__getitem__, telling) if number == feature])
        seen = dict[bytes, int]()
        end = problem.cells.cell_starts[feature + 1]
        for cell in tables.cheapest_cells[begin:end].tolist():
            if is_open[feature][cell]:
                seen.setdefault(kinds[:, cell].tobytes() if len(kinds) else b"", cell)
        assert kept.tolist() == sorted(seen.values())
    for mask in telling:
        feature, own = masks[mask]
        kept = cells[starts[feature] : starts[feature + 1]] - problem.cells.cell_starts[feature]
        assert [int(words[first + (new >> 6)]) >> (new & 63) & 1 for new in range(len(kept))] == own[kept].tolist()
        first += (len(kept) + 63) >> 6
    assert first == len(words)


@pytest.mark.parametrize("merges", [False, True])
def test_problems_of_cells_in_one_word_have_the_values_of_their_points(merges: bool) -> None:
    """Each point of the smaller problem counts for exactly what it is worth, wherever its cells lay before."""
    left = build_wide_problem(0, (CELLS, 2))
    for cells in ([0, 3, 40, 63], [64, 90, 127], [128, 150, 159], [2, 64, 159], list(range(60, 140))):
        domain, dead = left.build_domain([cells, [0, 1]]), no_leaves(left.problem)
        state = allocate_messages(left.problem, np.array([0.1]))
        reduced = reduce_problem(left.problem, left.tables, state, domain=domain, dead=dead, merges=merges)
        assert reduced is not None
        smaller = list_points(left.whole, *reduced[:2])
        assert_stands_for(smaller, left, left.contains(domain))
        for place in range(0, len(smaller.cells), 3):
            assert_exact(smaller, reduced[2], place)
