"""An upper bound of every margin over the changes below a limit of cost, by messages between features and trees.

For any price, what a counterfactual below the limit brings is no more than

    price * limit + the largest value of (the sum of the trees - price * cost).

Cost is a sum over features, so each feature's cost can be shared out among the trees that ask about it: a *message*
says what a tree pays for a cell. Whatever the messages are, as long as those of a cell add up to its price, every tree
can then choose its own leaf and cells, and the sum of what they choose is a bound (dual decomposition). Where trees
choose different cells of a feature, messages are moved so that all of them want each cell alike, which never makes the
bound larger (min-sum diffusion; Werner, "A linear programming approach to max-sum problem: a review", 2007). A cell for
which the bound does not reach zero is closed.

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

ROUNDING = 2.0**-50  # of the sizes that are added up, for each of them: some times more than what rounding can lose
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
    wanted: Float64Array  # per use and cell, the most that its tree brings with the cell, before the message
    mask_least: Float64Array  # per mask, its least message for an open cell; infinite if it has none
    mask_most: Float64Array  # per mask, the most that a leaf with it brings
    use_least: Float64Array  # per use, its least message for an open cell
    leaf_scores: Float64Array  # per leaf, its value less the messages; minus infinity if it is out of reach
    tree_best: Int64Array  # per tree, the leaf with the largest score
    tree_most: Float64Array  # and that score
    rest: Float64Array  # per feature, the most of what is paid for an open cell less its price
    open_cells: Int64Array  # per feature its open cells
    open_count: Int64Array
    totals: Float64Array  # per cell, what all trees together bring with it
    chosen: Int64Array  # per feature, the cell that brought most
    begins: Float64Array  # per cell, as in a workspace
    ends: Float64Array


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
        wanted=np.zeros(int(problem.use_cells[-1])),
        mask_least=np.zeros(masks),
        mask_most=np.zeros(masks),
        use_least=np.zeros(uses),
        leaf_scores=np.zeros(len(problem.leaf_values)),
        tree_best=np.zeros(trees, dtype=np.int64),
        tree_most=np.zeros(trees),
        rest=np.zeros(features),
        open_cells=np.zeros(cells, dtype=np.int64),
        open_count=np.zeros(features, dtype=np.int64),
        totals=np.zeros(cells),
        chosen=np.zeros(features, dtype=np.int64),
        begins=np.zeros(cells),
        ends=np.zeros(cells),
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
def _find_least_messages(problem: ChangeProblem, state: Messages, use: int, feature: int) -> None:
    """Fill in the least message of a use, and of each of its masks, over the open cells."""
    start, first = problem.cells.cell_starts[feature], problem.use_cells[use]
    least = np.inf
    for place in range(start, start + state.open_count[feature]):
        least = min(least, state.messages[first + state.open_cells[place]])
    state.use_least[use] = least
    for mask in range(problem.use_mask_starts[use], problem.use_mask_starts[use + 1]):
        least = np.inf
        for place in range(start, start + state.open_count[feature]):
            cell = state.open_cells[place]
            if has_cell(problem, mask, cell):
                least = min(least, state.messages[first + cell])
        state.mask_least[mask] = least


@kernel_helper
def _score_tree(problem: ChangeProblem, state: Messages, tree: int) -> float:
    """Score the leaves of a tree; the largest score, minus infinity if no leaf is in reach."""
    base = 0.0
    for place in range(problem.tree_use_starts[tree], problem.tree_use_starts[tree + 1]):
        base -= state.use_least[problem.tree_uses[place]]
    best, most = -1, -np.inf
    for leaf in range(problem.leaf_starts[tree], problem.leaf_starts[tree + 1]):
        score = problem.leaf_values[leaf] + base
        for place in range(problem.leaf_mask_starts[leaf], problem.leaf_mask_starts[leaf + 1]):
            mask = problem.leaf_masks[place]
            score -= state.mask_least[mask] - state.use_least[problem.mask_use[mask]]
        state.leaf_scores[leaf] = score
        if score > most:
            most, best = score, leaf
    state.tree_most[tree], state.tree_best[tree] = most, best
    return float(most)


@kernel_helper
def start_box(problem: ChangeProblem, tables: ChangeTables, state: Messages, domain: UInt64Array) -> bool:
    """Score all leaves by the messages as they are; False if a tree has none in reach."""
    features = state.open_count.shape[0]
    for feature in range(features):
        if list_open_cells(problem, state, domain, feature) == 0:
            return False
        state.chosen[feature] = find_cheapest_open(problem, tables, domain, feature)  # unless a tree asks for it
    for margin in range(problem.offset.shape[0]):
        for feature in range(features):
            row = margin * features + feature
            for use in range(problem.use_starts[row], problem.use_starts[row + 1]):
                _find_least_messages(problem, state, use, feature)
    reached = True
    for tree in range(problem.tree_margin.shape[0]):
        reached = reached and _score_tree(problem, state, tree) > -np.inf
    return reached


@kernel_helper
def measure_error(problem: ChangeProblem, state: Messages, margin: int, limit: float) -> float:
    """More than rounding can change in the bound of a margin."""
    size = problem.size[margin] + state.size[margin] + state.prices[margin] * limit
    count: int = problem.tree_margin.shape[0] + problem.use_tree.shape[0] + state.open_count.shape[0]
    return float(ROUNDING * (count + 16) * size)


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
def _find_wanted(problem: ChangeProblem, state: Messages, use: int, feature: int) -> None:
    """What the tree of a use brings at most with each open cell, before the message; added to the totals."""
    tree, start, first = problem.use_tree[use], problem.cells.cell_starts[feature], problem.use_cells[use]
    for mask in range(problem.use_mask_starts[use], problem.use_mask_starts[use + 1]):
        state.mask_most[mask] = -np.inf
    free = -np.inf  # of leaves that take any cell
    for leaf in range(problem.leaf_starts[tree], problem.leaf_starts[tree + 1]):
        score, asked = state.leaf_scores[leaf], -1
        if score == -np.inf:
            continue
        for place in range(problem.leaf_mask_starts[leaf], problem.leaf_mask_starts[leaf + 1]):
            if problem.mask_use[problem.leaf_masks[place]] == use:
                asked = problem.leaf_masks[place]
                break
        if asked < 0:
            free = max(free, score + state.use_least[use])
        else:
            state.mask_most[asked] = max(state.mask_most[asked], score + state.mask_least[asked])
    for place in range(start, start + state.open_count[feature]):
        cell, most = state.open_cells[place], free
        for mask in range(problem.use_mask_starts[use], problem.use_mask_starts[use + 1]):
            if state.mask_most[mask] > most and has_cell(problem, mask, cell):
                most = state.mask_most[mask]
        state.wanted[first + cell] = most
        state.totals[start + cell] += most


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
    count, start, price = end - first, problem.cells.cell_starts[feature], state.prices[margin]
    if count == 0 or state.open_count[feature] == 1:
        return bound
    others = bound - state.rest[feature]
    for place in range(start, start + state.open_count[feature]):
        state.totals[start + state.open_cells[place]] = 0.0
    for use in range(first, end):
        others -= state.tree_most[problem.use_tree[use]]
        _find_wanted(problem, state, use, feature)
    most, words, slack = -np.inf, problem.cells.word_starts[feature], problem.slack[margin]
    for place in range(start, start + state.open_count[feature]):
        cell = state.open_cells[place]
        total = state.totals[start + cell] - price * tables.cell_costs[start + cell]
        if others + total + measure_error(problem, state, margin, limit) <= -slack:
            domain[words + (cell >> 6)] &= ~(ONE << np.uint64(cell & 63))
            continue
        if total > most:
            most, state.chosen[feature] = total, cell
        for use in range(first, end):
            message = state.wanted[problem.use_cells[use] + cell] - total / count
            state.messages[problem.use_cells[use] + cell] = message
            if abs(message) > state.sizes[use]:
                state.size[margin] += abs(message) - state.sizes[use]
                state.sizes[use] = abs(message)
        state.paid[margin, start + cell] = price * tables.cell_costs[start + cell]
    if most == -np.inf:
        return -np.inf
    list_open_cells(problem, state, domain, feature)
    state.rest[feature] = 0.0
    for use in range(first, end):
        _find_least_messages(problem, state, use, feature)
        others += _score_tree(problem, state, problem.use_tree[use])
    return float(others)
