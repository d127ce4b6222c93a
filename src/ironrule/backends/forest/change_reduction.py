"""What is left of a problem in one of its boxes, as a smaller problem.

Deep in a search most leaves are dead and most cells are closed. What is left is built anew, as the problem itself was
built from the forest: leaves that are in reach, the masks that still tell open cells apart, and cells that these
masks tell apart. Messages go along, so that the bound is no larger than before.
"""

from __future__ import annotations

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, Int64Array, UInt64Array
from ironrule.backends.forest.change_messages import Messages, allocate_messages
from ironrule.backends.forest.change_problem import ChangeProblem, assemble_problem
from ironrule.backends.forest.change_tables import ChangeTables
from ironrule.jit import ONE, ZERO, kernel, kernel_helper
from ironrule.model.normal_form.cells import compute_starts


def reduce_problem(
    problem: ChangeProblem,
    tables: ChangeTables,
    state: Messages,
    *,
    domain: UInt64Array,
    dead: UInt64Array,
    merges: bool = True,
) -> tuple[ChangeProblem, ChangeTables, Messages] | None:
    """The problem of a box, with its tables and messages; None if a tree has no leaf there. Without ``merges`` every
    open cell stays a cell of its own.
    """
    alive, telling = np.zeros(len(problem.leaf_values), np.bool_), np.zeros(len(problem.mask_use), np.bool_)
    if not find_alive_leaves(problem, domain, dead, alive, telling):
        return None
    masks = np.flatnonzero(telling)
    uses = np.unique(problem.mask_use[masks])
    cells, starts = merge_cells(problem, tables.cheapest_cells, domain, masks, merges)
    smaller = _select(problem, np.flatnonzero(alive), masks, uses, cells=cells, starts=starts)
    new_state = _select_messages(problem, smaller, state, uses, cells)
    return smaller, _select_tables(smaller, tables, cells, problem.cells.cell_starts), new_state


def _select(
    problem: ChangeProblem, leaves: AnyArray, masks: AnyArray, uses: AnyArray, *, cells: Int64Array, starts: Int64Array
) -> ChangeProblem:
    """The problem of some leaves, masks, uses and cells."""
    trees, tree_count = np.unique(problem.use_tree[uses]), len(problem.tree_margin)
    tree_of_leaf = np.repeat(np.arange(tree_count), np.diff(problem.leaf_starts))[leaves]
    new_tree, new_mask = _renumber(trees, tree_count), _renumber(masks, len(problem.mask_use))
    # Trees that tell no open cells apart add a constant, the value of their best leaf, which comes first.
    is_constant, offset = new_tree[tree_of_leaf] < 0, problem.offset.copy()
    constant, first = np.unique(tree_of_leaf[is_constant], return_index=True)
    np.add.at(offset, problem.tree_margin[constant], problem.leaf_values[leaves[is_constant][first]])
    leaves, tree_of_leaf = leaves[~is_constant], tree_of_leaf[~is_constant]
    leaf_of_place = np.repeat(_renumber(leaves, len(problem.leaf_values)), np.diff(problem.leaf_mask_starts))
    mask_of_place = new_mask[problem.leaf_masks]
    kept = (leaf_of_place >= 0) & (mask_of_place >= 0)
    return assemble_problem(
        np.diff(starts),
        problem.use_feature[uses],
        _renumber(uses, len(problem.use_tree))[problem.mask_use[masks]],
        mask_words=fill_words(problem, masks, starts, cells),
        leaf_of_place=leaf_of_place[kept],
        leaf_masks=mask_of_place[kept],
        forest_cells=problem.forest_cells[cells],
        offset=offset,
        slack=problem.slack,
        size=problem.size,
        rounding=problem.rounding,
        tree_margin=problem.tree_margin[trees],
        leaf_starts=compute_starts(np.bincount(new_tree[tree_of_leaf], minlength=len(trees))),
        leaf_values=problem.leaf_values[leaves],
        use_starts=np.searchsorted(uses, problem.use_starts).astype(np.int64),
        use_tree=new_tree[problem.use_tree[uses]],
    )


def _renumber(kept: AnyArray, count: int) -> Int64Array:
    """The new number of each, -1 for those that are not kept."""
    numbers = np.full(count, -1, dtype=np.int64)
    numbers[kept] = np.arange(len(kept))
    return numbers


@kernel
def find_alive_leaves(
    problem: ChangeProblem, domain: UInt64Array, dead: UInt64Array, alive: BoolArray, telling: BoolArray
) -> bool:
    """Which leaves some point of a box reaches, and which of their masks tell open cells apart; whether every tree has
    such a leaf.
    """
    meets, tells = np.zeros(telling.shape[0], dtype=np.bool_), np.zeros(telling.shape[0], dtype=np.bool_)
    for mask in range(telling.shape[0]):
        start = problem.cells.word_starts[problem.use_feature[problem.mask_use[mask]]]
        first = problem.mask_starts[mask]
        for word in range(problem.mask_starts[mask + 1] - first):
            both = domain[start + word] & problem.mask_words[first + word]
            meets[mask] = meets[mask] or both != ZERO
            tells[mask] = tells[mask] or both != domain[start + word]
    for tree in range(problem.tree_margin.shape[0]):
        reached = False
        for leaf in range(problem.leaf_starts[tree], problem.leaf_starts[tree + 1]):
            alive[leaf] = ((dead[leaf >> 6] >> np.uint64(leaf & 63)) & ONE) == ZERO
            for place in range(problem.leaf_mask_starts[leaf], problem.leaf_mask_starts[leaf + 1]):
                alive[leaf] = alive[leaf] and meets[problem.leaf_masks[place]]
            if alive[leaf]:
                reached = True
                for place in range(problem.leaf_mask_starts[leaf], problem.leaf_mask_starts[leaf + 1]):
                    telling[problem.leaf_masks[place]] = tells[problem.leaf_masks[place]]
        if not reached:
            return False
    return True


@kernel_helper
def _find_kinds(
    problem: ChangeProblem, domain: UInt64Array, masks: Int64Array, merges: bool, kinds: Int64Array
) -> None:
    """Per open cell its kind, one for all cells of a feature that are in the same masks; -1 if it is closed."""
    starts = problem.cells.cell_starts
    features = starts.shape[0] - 1
    for feature in range(features):
        for place in range(starts[feature], starts[feature + 1]):
            cell = place - starts[feature]
            word = domain[problem.cells.word_starts[feature] + (cell >> 6)]
            is_open = ((word >> np.uint64(cell & 63)) & ONE) != ZERO
            kinds[place] = (0 if merges else cell) if is_open else -1
    if not merges:
        return
    # All open cells of a feature are one kind at first, which one mask after the other divides.
    counts, parts = np.ones(features, dtype=np.int64), np.zeros((kinds.shape[0] + 1, 2), dtype=np.int64)
    for number in range(masks.shape[0]):
        mask = masks[number]
        feature = problem.use_feature[problem.mask_use[mask]]
        parts[: counts[feature]] = -1
        counts[feature] = 0
        for place in range(starts[feature], starts[feature + 1]):
            kind, cell = kinds[place], place - starts[feature]
            if kind >= 0:
                word = problem.mask_words[problem.mask_starts[mask] + (cell >> 6)]
                inside = np.int64((word >> np.uint64(cell & 63)) & ONE)
                if parts[kind, inside] < 0:
                    parts[kind, inside] = counts[feature]
                    counts[feature] += 1
                kinds[place] = parts[kind, inside]


@kernel
def merge_cells(
    problem: ChangeProblem, cheapest_cells: Int64Array, domain: UInt64Array, masks: Int64Array, merges: bool
) -> tuple[Int64Array, Int64Array]:
    """Of open cells in the same masks the cheapest, in the order of all cells, and where those of a feature begin."""
    starts = problem.cells.cell_starts
    features, cells = starts.shape[0] - 1, starts[starts.shape[0] - 1]
    kinds = np.zeros(cells, dtype=np.int64)
    _find_kinds(problem, domain, masks, merges, kinds)
    new_starts, stays = np.zeros(features + 1, dtype=np.int64), np.zeros(cells, dtype=np.bool_)
    seen = np.full(cells + 1, -1, dtype=np.int64)  # per kind, the last feature that was seen to have it
    for feature in range(features):
        new_starts[feature + 1] = new_starts[feature]
        for number in range(starts[feature], starts[feature + 1]):
            place = starts[feature] + cheapest_cells[number]
            if kinds[place] >= 0 and seen[kinds[place]] != feature:
                seen[kinds[place]] = feature
                stays[place] = True
                new_starts[feature + 1] += 1
    return np.flatnonzero(stays), new_starts


@kernel
def fill_words(problem: ChangeProblem, masks: Int64Array, starts: Int64Array, cells: Int64Array) -> UInt64Array:
    """The words of masks over some cells, of which those of a feature begin at its start."""
    size = 0
    for number in range(masks.shape[0]):
        feature = problem.use_feature[problem.mask_use[masks[number]]]
        size += (starts[feature + 1] - starts[feature] + 63) >> 6
    words, first = np.zeros(size, dtype=np.uint64), 0
    for number in range(masks.shape[0]):
        mask = masks[number]
        feature = problem.use_feature[problem.mask_use[mask]]
        for place in range(starts[feature], starts[feature + 1]):
            cell, new = cells[place] - problem.cells.cell_starts[feature], place - starts[feature]
            word = problem.mask_words[problem.mask_starts[mask] + (cell >> 6)]
            words[first + (new >> 6)] |= ((word >> np.uint64(cell & 63)) & ONE) << np.uint64(new & 63)
        first += (starts[feature + 1] - starts[feature] + 63) >> 6
    return words


def _select_tables(
    smaller: ChangeProblem, tables: ChangeTables, cells: Int64Array, old_starts: Int64Array
) -> ChangeTables:
    """The tables over the cells that are left; the limit is the same array."""
    starts, words = smaller.cells.cell_starts, smaller.cells.word_starts
    feature, new_cell = np.repeat(np.arange(len(tables.home)), np.diff(starts)), _renumber(cells, int(old_starts[-1]))
    home = np.where(tables.home >= 0, new_cell[old_starts[:-1] + tables.home], -1)
    ordered = new_cell[np.repeat(old_starts[:-1], np.diff(old_starts)) + tables.cheapest_cells]
    domain, within = np.zeros(int(words[-1]), dtype=np.uint64), np.arange(len(cells)) - starts[feature]
    bits = np.left_shift(np.uint64(1), (within & 63).astype(np.uint64))
    np.bitwise_or.at(domain, words[feature] + (within >> 6), bits)
    return tables._replace(
        home=np.where(home >= 0, home - starts[:-1], -1),
        cell_costs=tables.cell_costs[cells],
        cheapest_cells=ordered[ordered >= 0] - starts[feature],
        start_domain=domain,
    )


def _select_messages(
    problem: ChangeProblem, smaller: ChangeProblem, state: Messages, uses: AnyArray, cells: Int64Array
) -> Messages:
    """The messages of the uses and cells that are left, at the same prices."""
    new = allocate_messages(smaller, state.prices)
    copy_messages(problem, smaller, state.messages, uses, cells, new.messages, new.paid)
    new.sizes[:], new.size[:] = state.sizes[uses], state.size  # of the messages that were dropped too
    new.least_prices[:], new.largest_prices[:] = state.least_prices, state.largest_prices
    new.price_steps[:], new.price_signs[:] = state.price_steps, state.price_signs
    return new


@kernel
def copy_messages(
    problem: ChangeProblem,
    smaller: ChangeProblem,
    messages: Float64Array,
    uses: Int64Array,
    cells: Int64Array,
    new: Float64Array,
    paid: Float64Array,
) -> None:
    """Messages over the cells that are left, and what they add up to."""
    features = smaller.cells.cell_starts.shape[0] - 1
    for margin in range(smaller.offset.shape[0]):
        for feature in range(features):
            row, start = margin * features + feature, smaller.cells.cell_starts[feature]
            for use in range(smaller.use_starts[row], smaller.use_starts[row + 1]):
                before, after = problem.use_cells[uses[use]], smaller.use_cells[use]
                for place in range(start, smaller.cells.cell_starts[feature + 1]):
                    message = messages[before + cells[place] - problem.cells.cell_starts[feature]]
                    new[after + place - start] = message
                    paid[margin, place] += message
