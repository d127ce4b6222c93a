"""An upper bound of every margin over the changes below a limit of cost, by messages between features and trees.

For any price, what a counterfactual below the limit brings is no more than

    price * limit + the largest value of (the sum of the trees - price * cost).

Cost is a sum over features, so each feature's cost can be shared out among the trees that ask about it: a *message*
says what a tree pays for a cell. Whatever the messages are, as long as those of a cell add up to its price, every tree
can then choose its own leaf and cells, and the sum of what they choose is a bound (dual decomposition). Where trees
choose different cells of a feature, messages are moved so that all of them want each cell alike, which never makes the
bound larger (min-sum diffusion; Werner, "A linear programming approach to max-sum problem: a review", 2007). A cell for
which the bound does not reach zero is closed; a leaf for which it does not is dead.

Cells of a feature that one tree does not tell apart form an *atom* of the tree: what it brings with them is the same.

Messages stay valid in every part of the box, so that a search goes on with those of the box before. What they add up to
is kept for every cell, and what that differs from the price of the cell counts for itself: so prices may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ironrule.arrays import Float64Array, Int64Array, UInt64Array
from ironrule.backends.forest.change_tables import ChangeTables, find_cheapest_open
from ironrule.jit import ONE, ZERO, kernel_helper, lowest_bit

if TYPE_CHECKING:
    from ironrule.backends.forest.change_problem import ChangeProblem

FIRST_PRICE_STEP = 0.1  # the share by which a price changes
PRICE_RANGE = 256.0  # how many times larger, or smaller, than at first a price may become


class Messages(NamedTuple):
    """The messages of one search, and what is known of the box that was bounded last."""

    prices: Float64Array  # per margin
    least_prices: Float64Array  # between which they may change
    largest_prices: Float64Array
    messages: Float64Array  # per use and cell of its feature
    paid: Float64Array  # per margin and cell, the sum of all its messages
    sizes: Float64Array  # per use, the largest size of its messages so far
    size: Float64Array  # per margin, the sum of these
    atom_least: Float64Array  # per atom, its least message for an open cell; infinite if it has none
    atom_most: Float64Array  # per atom, the most that its tree brings with a cell of it, before the message
    mask_gap: Float64Array  # per mask, by how much its least message exceeds its use's; infinite if it has no open cell
    use_least: Float64Array  # per use, its least message for an open cell
    free_most: Float64Array  # per use, the largest score of the leaves that take any cell, and which leaf that is
    free_best: Int64Array
    values: Float64Array  # per leaf, its value; minus infinity if it is dead
    leaf_scores: Float64Array  # per leaf, its value less the gaps of its masks
    tree_base: Float64Array  # per tree, what its uses' least messages take away
    tree_best: Int64Array  # per tree, the leaf with the largest score
    tree_most: Float64Array  # and that score, less the least messages
    rest: Float64Array  # per feature, the most of what is paid for an open cell less its price
    open_cells: Int64Array  # per feature its open cells
    open_count: Int64Array
    totals: Float64Array  # per cell, what all trees together bring with it
    chosen: Int64Array  # per feature, the cell that brought most
    begins: Float64Array  # per cell, as in a workspace
    ends: Float64Array
    price_steps: Float64Array  # per margin, the share by which its price changes next
    price_signs: Float64Array  # and whether it rose last (1) or fell (-1)


def allocate_messages(problem: ChangeProblem, prices: Float64Array) -> Messages:
    """Messages that are all zero, at a price for each margin."""
    cells, features, margins = len(problem.forest_cells), len(problem.cells.cell_starts) - 1, len(problem.offset)
    uses, masks, trees = len(problem.use_tree), len(problem.mask_use), len(problem.tree_margin)
    return Messages(
        prices=prices,
        least_prices=prices / PRICE_RANGE,
        largest_prices=prices * PRICE_RANGE,
        messages=np.zeros(int(problem.use_cells[-1])),
        paid=np.zeros((margins, cells)),
        sizes=np.zeros(uses),
        size=np.zeros(margins),
        atom_least=np.zeros(int(problem.atom_starts[-1])),
        atom_most=np.zeros(int(problem.atom_starts[-1])),
        mask_gap=np.zeros(masks),
        use_least=np.zeros(uses),
        free_most=np.zeros(uses),
        free_best=np.zeros(uses, dtype=np.int64),
        values=problem.leaf_values.copy(),
        leaf_scores=np.zeros(len(problem.leaf_values)),
        tree_base=np.zeros(trees),
        tree_best=np.zeros(trees, dtype=np.int64),
        tree_most=np.zeros(trees),
        rest=np.zeros(features),
        open_cells=np.zeros(cells, dtype=np.int64),
        open_count=np.zeros(features, dtype=np.int64),
        totals=np.zeros(cells),
        chosen=np.zeros(features, dtype=np.int64),
        begins=np.zeros(cells),
        ends=np.zeros(cells),
        price_steps=np.full(margins, FIRST_PRICE_STEP),
        price_signs=np.zeros(margins),
    )


@kernel_helper
def list_open_cells(problem: ChangeProblem, state: Messages, domain: UInt64Array, feature: int) -> int:
    """Note the open cells of a feature; how many there are."""
    start, count = problem.cells.cell_starts[feature], 0
    first = problem.cells.word_starts[feature]
    for word in range(first, problem.cells.word_starts[feature + 1]):
        left = domain[word]
        while left != ZERO:
            state.open_cells[start + count] = 64 * (word - first) + lowest_bit(left)
            count += 1
            left &= left - ONE
    state.open_count[feature] = count
    return count


@kernel_helper
def has_cell(problem: ChangeProblem, mask: int, cell: int) -> bool:
    """Whether a mask has a cell of its feature."""
    word = problem.mask_words[problem.mask_starts[mask] + (cell >> 6)]
    return bool(((word >> np.uint64(cell & 63)) & ONE) != ZERO)


@kernel_helper
def _find_least_messages(problem: ChangeProblem, state: Messages) -> None:
    """The least messages of all uses, of their atoms and masks, over the open cells."""
    for use in range(problem.use_tree.shape[0]):
        feature = problem.use_feature[use]
        start, first, use_least = problem.cells.cell_starts[feature], problem.use_cells[use], np.inf
        for atom in range(problem.atom_starts[use], problem.atom_starts[use + 1]):
            state.atom_least[atom] = np.inf
        for place in range(start, start + state.open_count[feature]):
            cell = first + state.open_cells[place]
            message = state.messages[cell]
            atom = problem.cell_atoms[cell]
            use_least = min(use_least, message)
            if message < state.atom_least[atom]:
                state.atom_least[atom] = message
        state.use_least[use] = use_least
        for mask in range(problem.use_mask_starts[use], problem.use_mask_starts[use + 1]):
            least = np.inf
            for place in range(problem.mask_atom_starts[mask], problem.mask_atom_starts[mask + 1]):
                least = min(least, state.atom_least[problem.mask_atoms[place]])
            state.mask_gap[mask] = least - use_least


@kernel_helper
def _score_trees(problem: ChangeProblem, state: Messages) -> bool:
    """Score the leaves of all trees; whether each has one in reach."""
    reached = True
    for tree in range(problem.tree_margin.shape[0]):
        base, best, most = 0.0, -1, -np.inf
        for place in range(problem.tree_use_starts[tree], problem.tree_use_starts[tree + 1]):
            base -= state.use_least[problem.tree_uses[place]]
        for leaf in range(problem.leaf_starts[tree], problem.leaf_starts[tree + 1]):
            score = state.values[leaf]
            for place in range(problem.leaf_mask_starts[leaf], problem.leaf_mask_starts[leaf + 1]):
                score -= state.mask_gap[problem.leaf_masks[place]]
            state.leaf_scores[leaf] = score
            if score > most:
                most, best = score, leaf
        state.tree_base[tree], state.tree_best[tree], state.tree_most[tree] = base, best, most + base
        reached = reached and most > -np.inf
    return reached


@kernel_helper
def start_box(
    problem: ChangeProblem, tables: ChangeTables, state: Messages, domain: UInt64Array, dead: UInt64Array
) -> bool:
    """Score all leaves by the messages as they are; False if a tree has none in reach."""
    features = state.open_count.shape[0]
    for feature in range(features):
        if list_open_cells(problem, state, domain, feature) == 0:
            return False
        state.chosen[feature] = find_cheapest_open(problem, tables, domain, feature)  # unless a tree asks for it
    for leaf in range(problem.leaf_values.shape[0]):
        is_dead = ((dead[leaf >> 6] >> np.uint64(leaf & 63)) & ONE) != ZERO
        state.values[leaf] = -np.inf if is_dead else problem.leaf_values[leaf]
    _find_least_messages(problem, state)
    return _score_trees(problem, state)


@kernel_helper
def measure_error(problem: ChangeProblem, state: Messages, margin: int, limit: float) -> float:
    """More than rounding can change in the bound of a margin."""
    size = problem.size[margin] + state.size[margin] + state.prices[margin] * limit
    return float(problem.rounding[0] * size)


@kernel_helper
def bound_margin(problem: ChangeProblem, tables: ChangeTables, state: Messages, margin: int, limit: float) -> float:
    """The bound of a margin by the messages as they are."""
    price = state.prices[margin]
    bound = problem.offset[margin] + price * limit
    for tree in range(problem.tree_margin.shape[0]):
        if problem.tree_margin[tree] == margin:
            bound += state.tree_most[tree]
    for feature in range(state.open_count.shape[0]):
        start, most = problem.cells.cell_starts[feature], -np.inf
        for place in range(start, start + state.open_count[feature]):
            cell = start + state.open_cells[place]
            most = max(most, state.paid[margin, cell] - price * tables.cell_costs[cell])
        state.rest[feature] = most
        bound += most
    return float(bound)


@kernel_helper
def _find_totals(problem: ChangeProblem, state: Messages, feature: int, first: int, end: int) -> float:
    """What the trees of some uses together bring at most with each open cell of the feature, before their messages;
    what they bring at most by the messages as they are.
    """
    start, most_of_all = problem.cells.cell_starts[feature], 0.0
    stop = start + state.open_count[feature]
    for place in range(start, stop):
        state.totals[start + state.open_cells[place]] = 0.0
    for use in range(first, end):
        tree, atoms, atoms_end = problem.use_tree[use], problem.atom_starts[use], problem.atom_starts[use + 1]
        most_of_all += state.tree_most[tree]
        lift, best, is_free = state.tree_base[tree] + state.use_least[use], state.tree_best[tree], True
        for atom in range(atoms, atoms_end):
            state.atom_most[atom] = -np.inf
        for mask in range(problem.use_mask_starts[use], problem.use_mask_starts[use + 1]):
            gap, most = state.mask_gap[mask], -np.inf
            if gap == np.inf:
                continue
            for place in range(problem.mask_leaf_starts[mask], problem.mask_leaf_starts[mask + 1]):
                leaf = problem.mask_leaves[place]
                is_free = is_free and leaf != best
                most = max(most, state.leaf_scores[leaf])
            most += gap + lift
            for place in range(problem.mask_atom_starts[mask], problem.mask_atom_starts[mask + 1]):
                atom = problem.mask_atoms[place]
                state.atom_most[atom] = max(state.atom_most[atom], most)
        # The best leaf that takes any cell: often the best of all.
        free_most, free_best = (state.leaf_scores[best], best) if is_free else (-np.inf, -1)
        if not is_free:
            for place in range(problem.free_leaf_starts[use], problem.free_leaf_starts[use + 1]):
                leaf = problem.free_leaves[place]
                if state.leaf_scores[leaf] > free_most:
                    free_most, free_best = state.leaf_scores[leaf], leaf
        state.free_most[use], state.free_best[use] = free_most, free_best
        for atom in range(atoms, atoms_end):
            state.atom_most[atom] = max(state.atom_most[atom], free_most + lift)
        cells = problem.use_cells[use]
        for place in range(start, stop):
            cell = state.open_cells[place]
            state.totals[start + cell] += state.atom_most[problem.cell_atoms[cells + cell]]
    return most_of_all


@kernel_helper
def _share_totals(problem: ChangeProblem, state: Messages, feature: int, first: int, end: int, margin: int) -> float:
    """Set the messages of some uses so that their trees want every open cell of the feature by the same share of its
    total; what they bring at most then.
    """
    start, most_of_all, share = problem.cells.cell_starts[feature], 0.0, 1.0 / (end - first)
    stop = start + state.open_count[feature]
    for use in range(first, end):
        tree, cells, largest, use_least = problem.use_tree[use], problem.use_cells[use], 0.0, np.inf
        for atom in range(problem.atom_starts[use], problem.atom_starts[use + 1]):
            state.atom_least[atom] = np.inf
        for place in range(start, stop):
            cell = state.open_cells[place]
            atom = problem.cell_atoms[cells + cell]
            message = state.atom_most[atom] - state.totals[start + cell] * share
            state.messages[cells + cell] = message
            state.atom_least[atom] = min(state.atom_least[atom], message)
            use_least = min(use_least, message)
            largest = max(largest, abs(message))
        state.use_least[use] = use_least
        if largest > state.sizes[use]:
            state.size[margin] += largest - state.sizes[use]
            state.sizes[use] = largest
        base = 0.0
        for place in range(problem.tree_use_starts[tree], problem.tree_use_starts[tree + 1]):
            base -= state.use_least[problem.tree_uses[place]]
        most, best = state.free_most[use], state.free_best[use]
        for mask in range(problem.use_mask_starts[use], problem.use_mask_starts[use + 1]):
            least = np.inf
            for place in range(problem.mask_atom_starts[mask], problem.mask_atom_starts[mask + 1]):
                least = min(least, state.atom_least[problem.mask_atoms[place]])
            state.mask_gap[mask] = least - use_least
        for mask in range(problem.use_mask_starts[use], problem.use_mask_starts[use + 1]):
            for place in range(problem.mask_leaf_starts[mask], problem.mask_leaf_starts[mask + 1]):
                leaf = problem.mask_leaves[place]
                score = state.values[leaf]
                for own in range(problem.leaf_mask_starts[leaf], problem.leaf_mask_starts[leaf + 1]):
                    score -= state.mask_gap[problem.leaf_masks[own]]
                state.leaf_scores[leaf] = score
                if score > most:
                    most, best = score, leaf
        state.tree_base[tree], state.tree_best[tree], state.tree_most[tree] = base, best, most + base
        most_of_all += most + base
    return most_of_all


@kernel_helper
def pass_messages(
    problem: ChangeProblem,
    tables: ChangeTables,
    state: Messages,
    domain: UInt64Array,
    margin: int,
    feature: int,
    bound: float,
    limit: float,
) -> float:
    """Move the messages of one feature so that all trees want each of its cells alike, and close cells with which the
    margin cannot be positive; the new bound, minus infinity if no cell is left.
    """
    row = margin * state.open_count.shape[0] + feature
    first, end = problem.use_starts[row], problem.use_starts[row + 1]
    start, price = problem.cells.cell_starts[feature], state.prices[margin]
    if first == end or state.open_count[feature] == 1:
        return bound
    others = bound - state.rest[feature] - _find_totals(problem, state, feature, first, end)
    most, words, kept = -np.inf, problem.cells.word_starts[feature], 0
    slack, error = problem.slack[margin], measure_error(problem, state, margin, limit)
    for place in range(start, start + state.open_count[feature]):
        cell = state.open_cells[place]
        total = state.totals[start + cell] - price * tables.cell_costs[start + cell]
        if others + total + error <= -slack:
            domain[words + (cell >> 6)] &= ~(ONE << np.uint64(cell & 63))
            continue
        if total > most:
            most, state.chosen[feature] = total, cell
        state.totals[start + cell] = total
        state.paid[margin, start + cell] = price * tables.cell_costs[start + cell]
        state.open_cells[start + kept] = cell
        kept += 1
    state.open_count[feature] = kept
    if kept == 0:
        return -np.inf
    state.rest[feature] = 0.0
    return float(others + _share_totals(problem, state, feature, first, end, margin))


@kernel_helper
def drop_leaves(
    problem: ChangeProblem, state: Messages, dead: UInt64Array, margin: int, bound: float, error: float
) -> None:
    """Note the leaves of a margin's trees as dead with which the margin cannot be positive."""
    for tree in range(problem.tree_margin.shape[0]):
        if problem.tree_margin[tree] != margin:
            continue
        others = bound - state.tree_most[tree] + state.tree_base[tree]
        for leaf in range(problem.leaf_starts[tree], problem.leaf_starts[tree + 1]):
            if state.values[leaf] > -np.inf and others + state.leaf_scores[leaf] + error <= -problem.slack[margin]:
                dead[leaf >> 6] |= ONE << np.uint64(leaf & 63)
                state.values[leaf] = state.leaf_scores[leaf] = -np.inf
