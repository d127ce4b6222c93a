"""What changes cost in a forest, seen from one instance; and which features of a box may change, stay, or must change.

A box has a set of open cells per feature. A feature whose own cell, that of the instance, is the only open one *stays*;
one whose own cell is closed *changes*; any other is *undecided*. The cost of a box is that of its cheapest point: what
the changed features cost at least, added up, or the largest of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from ironrule.backends.forest.compile import CompiledForest
from ironrule.jit import ONE, ZERO, kernel, kernel_helper
from ironrule.model.normal_form.cells import Cells

if TYPE_CHECKING:
    from ironrule.backends.nearest import ChangeCosts
    from ironrule.oracles.protocol import BoxQuery
    from ironrule.rule.box import Box

# What becomes of a feature in a box.
STAYS, UNDECIDED, CHANGES = 0, 1, 2
NOTHING_LEFT = -1  # the box holds no counterfactual below the limit
LEVELS = (
    8  # of costs, by which the gains of a feature are told apart; under the usual costs changes cost about the same
)


class CellStarts(Protocol):
    """Where the cells of a feature lie among all cells, and their bits in a domain."""

    @property
    def cell_starts(self) -> Int64Array: ...

    @property
    def word_starts(self) -> Int64Array: ...


class HasCells(Protocol):
    """A forest, or what is left of one."""

    @property
    def cells(self) -> CellStarts: ...


class ChangeTables(NamedTuple):
    """What changes cost in a forest, seen from one instance, and the arrays of one search beside its workspace."""

    adds_up: bool  # whether costs of features are added up, or the largest counts
    home: Int64Array  # per feature, the instance's cell
    cell_costs: Float64Array  # per cell among all, its cheapest code of the query's box
    cheapest_cells: Int64Array  # per feature its cells, the instance's first, then the cheapest; as `cell_costs`
    needs_change: BoolArray  # per mask of a leaf, whether it excludes the instance's cell
    mask_costs: Float64Array  # per mask of a leaf, what its cheapest cell costs
    forbidden: BoolArray  # per earlier counterfactual and feature, whether it changes it
    forbidden_limits: Float64Array  # per earlier one, what must cost less that changes all of its features
    limit: Float64Array  # one number: what any counterfactual must cost less than
    best: Int64Array  # the cells of the cheapest counterfactual so far; -1 if there is none
    status: Int64Array  # per feature of the box on top
    least: Float64Array  # per feature of the box on top, what its cheapest open cell costs,
    change: Float64Array  # and the cheapest that is not the instance's own
    shares: Float64Array  # per feature and level, the sum of all trees' shares in the margin that was bounded last
    tree_shares: Float64Array  # the same for one tree
    worth: Float64Array  # per feature, what its gain exceeds the price of its cost by
    kept_leaves: Int64Array  # leaves of one tree that few enough changes reach, and how many changes they ask for
    kept_counts: Int64Array
    start_domain: UInt64Array  # the open cells at the begin


def build_change_tables(
    forest: CompiledForest, costs: ChangeCosts, query: BoxQuery, forbidden: BoolArray
) -> ChangeTables:
    """The tables of a search; the features of a row of ``forbidden`` must not all change, whatever that costs."""
    cells, case, box = forest.cells, query.case, query.box
    home, each = np.asarray(cells.locate(case.instance), dtype=np.int64), costs.list_cell_costs()
    cell_costs, features, masks = np.concatenate(each), len(home), len(forest.leaf_masks)
    most_leaves, levels = int(np.diff(forest.leaf_starts).max(initial=1)), 1 if query.cost is None else LEVELS
    tables = ChangeTables(
        adds_up=costs.adds_up,
        home=home,
        cell_costs=cell_costs,
        cheapest_cells=np.concatenate(
            [np.lexsort((np.arange(len(cost)) != own, cost)) for cost, own in zip(each, home, strict=True)]
        ),
        needs_change=np.zeros(masks, dtype=np.bool_),
        mask_costs=np.zeros(masks),
        forbidden=forbidden,
        forbidden_limits=np.full(len(forbidden), -np.inf),
        limit=np.zeros(1),
        best=np.full(features, -1, dtype=np.int64),
        status=np.zeros(features, dtype=np.int64),
        least=np.zeros(features),
        change=np.zeros(features),
        shares=np.zeros((features, levels)),
        tree_shares=np.zeros((features, levels)),
        worth=np.zeros(features),
        kept_leaves=np.zeros(most_leaves, dtype=np.int64),
        kept_counts=np.zeros(most_leaves, dtype=np.int64),
        start_domain=_open_cells(cells, box, cell_costs < np.inf),
    )
    fill_mask_costs(forest, tables)
    return tables


def _open_cells(cells: Cells, box: Box, allowed: BoolArray) -> UInt64Array:
    """The allowed cells that a box of codes meets, as bits."""
    domain = np.zeros(int(cells.word_starts[-1]), dtype=np.uint64)
    for j, start in enumerate(cells.cell_starts[:-1].tolist()):
        first = cells.code_starts[j]
        met = np.unique(cells.cell_by_code[first + box.low[j] : first + box.high[j] + 1])
        met = met[allowed[start + met]]
        bits = np.left_shift(np.uint64(1), (met & 63).astype(np.uint64))
        np.bitwise_or.at(domain, cells.word_starts[j] + (met >> 6), bits)
    return domain


@kernel
def fill_mask_costs(forest: CompiledForest, tables: ChangeTables) -> None:
    """Per mask of a leaf, whether it excludes the instance's cell, and what its cheapest cell costs."""
    for place in range(tables.needs_change.shape[0]):
        mask = forest.leaf_masks[place]
        feature, words = forest.mask_feature[mask], forest.mask_starts[mask]
        cell = tables.home[feature]
        inside = (forest.mask_words[words + (cell >> 6)] >> np.uint64(cell & 63)) & ONE
        tables.needs_change[place] = inside == ZERO
        # The usual costs do not need what a mask costs.
        if inside == ZERO and tables.shares.shape[1] > 1:
            # The cheapest cells come first, so the first that the mask admits is the one.
            tables.mask_costs[place] = np.inf
            for number in range(forest.cells.cell_starts[feature], forest.cells.cell_starts[feature + 1]):
                cell = tables.cheapest_cells[number]
                if (forest.mask_words[words + (cell >> 6)] >> np.uint64(cell & 63)) & ONE:
                    tables.mask_costs[place] = tables.cell_costs[forest.cells.cell_starts[feature] + cell]
                    break


@kernel_helper
def is_open(forest: HasCells, domain: UInt64Array, feature: int, cell: int) -> bool:
    """Whether a cell is open."""
    word = domain[forest.cells.word_starts[feature] + (cell >> 6)]
    return bool(((word >> np.uint64(cell & 63)) & ONE) != ZERO)


@kernel_helper
def find_cheapest_open(forest: HasCells, tables: ChangeTables, domain: UInt64Array, feature: int) -> int:
    """The cheapest open cell of a feature, which has one."""
    number = forest.cells.cell_starts[feature]
    while not is_open(forest, domain, feature, tables.cheapest_cells[number]):
        number += 1
    return int(tables.cheapest_cells[number])


@kernel_helper
def close_cell(forest: HasCells, domain: UInt64Array, feature: int, cell: int) -> None:
    """Close one cell."""
    domain[forest.cells.word_starts[feature] + (cell >> 6)] &= ~(ONE << np.uint64(cell & 63))


@kernel_helper
def keep_own_cell(forest: HasCells, tables: ChangeTables, domain: UInt64Array, feature: int) -> None:
    """Close all cells of a feature but the instance's own."""
    start, home = forest.cells.word_starts[feature], tables.home[feature]
    for word in range(start, forest.cells.word_starts[feature + 1]):
        domain[word] = ZERO
    domain[start + (home >> 6)] = ONE << np.uint64(home & 63)


@kernel_helper
def close_costly_cells(forest: HasCells, tables: ChangeTables, domain: UInt64Array, feature: int, most: float) -> None:
    """Close the cells of a feature that cost so much or more."""
    start, end = forest.cells.cell_starts[feature], forest.cells.cell_starts[feature + 1]
    # The most expensive cells lie at the end; from there on back to the first that is cheap enough.
    for number in range(end - 1, start - 1, -1):
        cell = tables.cheapest_cells[number]
        if tables.cell_costs[start + cell] < most:
            break
        close_cell(forest, domain, feature, cell)


@kernel_helper
def close_cheap_cells(forest: HasCells, tables: ChangeTables, domain: UInt64Array, feature: int, least: float) -> None:
    """Close the instance's cell of a feature, and all cells that cost less."""
    close_cell(forest, domain, feature, tables.home[feature])
    start, end = forest.cells.cell_starts[feature], forest.cells.cell_starts[feature + 1]
    for number in range(start, end):
        cell = tables.cheapest_cells[number]
        if tables.cell_costs[start + cell] >= least:
            break
        close_cell(forest, domain, feature, cell)


@kernel_helper
def _find_statuses(forest: HasCells, tables: ChangeTables, domain: UInt64Array) -> float:
    """Note whether each feature stays, changes or is undecided, and what its cheapest open cells cost; the cost of the
    box, infinite if a feature has no open cell.
    """
    # One function for all features: handing these tables on for every feature would take longer than the work itself.
    cost = 0.0
    for feature in range(tables.home.shape[0]):
        start, home, stays, changes = forest.cells.cell_starts[feature], tables.home[feature], False, False
        words = forest.cells.word_starts[feature]
        for word in range(words, forest.cells.word_starts[feature + 1]):
            bits = domain[word]
            if word == words + (home >> 6):
                own = ONE << np.uint64(home & 63)
                stays = (bits & own) != ZERO
                bits &= ~own
            changes = changes or bits != ZERO
        change = np.inf
        if changes:  # the first open cell, of the cheapest on
            for number in range(start, forest.cells.cell_starts[feature + 1]):
                cell = tables.cheapest_cells[number]
                if cell != home and (domain[words + (cell >> 6)] >> np.uint64(cell & 63)) & ONE:
                    change = tables.cell_costs[start + cell]
                    break
        elif not stays:
            return np.inf
        tables.change[feature] = change
        tables.least[feature] = 0.0 if stays else change
        tables.status[feature] = (UNDECIDED if changes else STAYS) if stays else CHANGES
        cost = cost + tables.least[feature] if tables.adds_up else max(cost, tables.least[feature])
    return cost


@kernel_helper
def _close_what_costs_more(forest: HasCells, tables: ChangeTables, domain: UInt64Array, left: float) -> int:
    """Close the cells for which too little is left; how many features are undecided then."""
    undecided = 0
    for feature in range(tables.home.shape[0]):
        if tables.status[feature] == STAYS:
            continue
        # What a feature may cost: what is left, beside what it costs anyway; or, if the largest counts, all of it.
        most = left + tables.least[feature] if tables.adds_up else left
        start, words = forest.cells.cell_starts[feature], forest.cells.word_starts[feature]
        for number in range(forest.cells.cell_starts[feature + 1] - 1, start - 1, -1):
            cell = tables.cheapest_cells[number]
            if tables.cell_costs[start + cell] < most:
                break
            domain[words + (cell >> 6)] &= ~(ONE << np.uint64(cell & 63))
        if tables.change[feature] >= most:
            tables.status[feature] = STAYS
        undecided += tables.status[feature] == UNDECIDED
    return undecided


@kernel_helper
def close_cells(forest: HasCells, tables: ChangeTables, domain: UInt64Array) -> tuple[int, float, float]:
    """Close what is too expensive or forbidden; how many undecided features may still change, or NOTHING_LEFT, what
    they may cost together, and what all of the box's changes may cost: less than that.
    """
    features, status, limit = tables.home.shape[0], tables.status, tables.limit[0]
    cost = _find_statuses(forest, tables, domain)
    if cost >= limit:
        return NOTHING_LEFT, 0.0, limit
    # What changes all features of an earlier counterfactual has a limit of its own: if only one of them is left that
    # may stay, and its change costs too much for that limit, it does.
    for earlier in range(tables.forbidden.shape[0]):
        may_stay, last = 0, -1
        for feature in range(features):
            if tables.forbidden[earlier, feature] and status[feature] != CHANGES:
                may_stay += 1
                last = feature
        if may_stay == 0:
            limit = min(limit, tables.forbidden_limits[earlier])
        elif may_stay == 1 and status[last] == UNDECIDED:
            changed = cost + tables.change[last] if tables.adds_up else max(cost, tables.change[last])
            if changed >= tables.forbidden_limits[earlier]:
                keep_own_cell(forest, tables, domain, last)
                status[last] = STAYS
    if cost >= limit:
        return NOTHING_LEFT, 0.0, limit
    left = limit - cost if tables.adds_up else limit
    undecided = _close_what_costs_more(forest, tables, domain, left)
    return _count_affordable(tables, left, undecided) if tables.adds_up else undecided, left, limit


@kernel_helper
def _count_affordable(tables: ChangeTables, left: float, undecided: int) -> int:
    """How many undecided features may change for less than what is left, the cheapest changes first."""
    changes, count = np.empty(undecided), 0
    for feature in range(tables.status.shape[0]):
        if tables.status[feature] == UNDECIDED:
            place = count
            while place > 0 and changes[place - 1] > tables.change[feature]:
                changes[place] = changes[place - 1]
                place -= 1
            changes[place] = tables.change[feature]
            count += 1
    spent = 0.0
    for number in range(count):
        spent += changes[number]
        if spent >= left:
            return number
    return count


@kernel_helper
def measure_cells(forest: HasCells, tables: ChangeTables, point: Int64Array) -> float:
    """What a point given by cells costs."""
    total = 0.0
    for feature in range(point.shape[0]):
        cost = tables.cell_costs[forest.cells.cell_starts[feature] + point[feature]]
        total = total + cost if tables.adds_up else max(total, cost)
    return total


@kernel_helper
def is_cheap(forest: HasCells, tables: ChangeTables, point: Int64Array) -> bool:
    """Whether a point given by cells costs less than its limit: that of every earlier counterfactual all of whose
    features it changes.
    """
    limit = tables.limit[0]
    for earlier in range(tables.forbidden.shape[0]):
        stays = False
        for feature in range(point.shape[0]):
            stays = stays or (tables.forbidden[earlier, feature] and point[feature] == tables.home[feature])
        if not stays:
            limit = min(limit, tables.forbidden_limits[earlier])
    return bool(measure_cells(forest, tables, point) < limit)
