"""What is left of a forest where only cells below a limit of cost are open: a smaller forest, for many bounds.

Leaves that no open cell leads to are dropped, and so are trees that have one leaf left. Open cells that no leaf which
is left tells apart become one cell, which costs what the cheapest of them costs. Where a tree asks for a feature is
called a *use*: it has the sets of cells (masks) that the tree's leaves ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, Int32Array, Int64Array, UInt64Array
from ironrule.backends.forest.branch_and_bound import reaches_leaf
from ironrule.backends.forest.compile import CompiledForest
from ironrule.jit import ONE, ZERO, kernel
from ironrule.model.normal_form.cells import compute_starts

if TYPE_CHECKING:
    from ironrule.backends.forest.change_tables import ChangeTables

ROUNDING = 2.0**-49  # of the sizes that are added up, for each of them: some times more than what rounding can lose


class CellLayout(NamedTuple):
    """Where the cells of a feature lie among all cells, and their bits in a domain."""

    cell_starts: Int64Array
    word_starts: Int64Array


class ChangeProblem(NamedTuple):
    """Trees over few cells. Uses lie in the order of margins, features and trees; masks in the order of uses."""

    cells: CellLayout
    forest_cells: Int64Array  # per cell, the cell of the forest that it stands for
    offset: Float64Array  # per margin
    slack: Float64Array
    size: Float64Array  # per margin, how large what is added up can be
    rounding: Float64Array  # one number: the share of all sizes that rounding may change in a bound
    tree_margin: Int64Array
    leaf_starts: Int64Array  # per tree
    leaf_values: Float64Array  # falling within a tree
    leaf_mask_starts: Int64Array  # per leaf, its masks in `leaf_masks`
    leaf_masks: Int64Array
    tree_use_starts: Int64Array  # per tree, its uses in `tree_uses`
    tree_uses: Int64Array
    use_starts: Int64Array  # per margin and feature, its uses
    use_tree: Int64Array
    use_feature: Int64Array
    use_cells: Int64Array  # per use, where its cells begin among the cells of all uses
    use_mask_starts: Int64Array  # per use, its masks
    mask_use: Int64Array
    mask_starts: Int64Array  # per mask, where its words begin
    mask_words: UInt64Array
    mask_leaf_starts: Int64Array  # per mask, the leaves that ask for it
    mask_leaves: Int64Array
    free_leaf_starts: Int64Array  # per use, the leaves of its tree that take any cell
    free_leaves: Int64Array
    atom_starts: Int64Array  # per use, its atoms: sets of cells that no mask of the use tells apart
    cell_atoms: Int32Array  # per use and cell, its atom among those of all uses
    mask_atom_starts: Int64Array  # per mask, its atoms
    mask_atoms: Int32Array


def build_change_problem(
    forest: CompiledForest, tables: ChangeTables, domain: UInt64Array, merges: bool = True
) -> tuple[ChangeProblem, ChangeTables] | None:
    """The problem of the open cells of a domain, and its tables; None if a tree has no leaf there. Without ``merges``
    every open cell stays a cell of its own.
    """
    kept = np.zeros(len(forest.leaf_values), dtype=np.bool_)
    find_reachable_leaves(forest, domain, kept)
    leaves_before = compute_starts(kept)
    if (np.diff(leaves_before[forest.leaf_starts]) == 0).any():
        return None
    places, leaf_of_place = _list_places(forest, np.flatnonzero(kept))
    merged = [_merge_cells(forest, tables, domain, j, places=places, merges=merges) for j in range(len(tables.home))]
    return _assemble(forest, tables, merged, np.flatnonzero(kept), places=places, leaf_of_place=leaf_of_place)


@kernel
def find_reachable_leaves(forest: CompiledForest, domain: UInt64Array, kept: BoolArray) -> None:
    """Which leaves some point of a domain reaches; those of what cannot occur are none."""
    for leaf in range(kept.shape[0]):
        kept[leaf] = forest.leaf_values[leaf] > -np.inf and reaches_leaf(forest, leaf, domain)


def _list_places(forest: CompiledForest, leaves: AnyArray) -> tuple[AnyArray, AnyArray]:
    """The places of some leaves' masks, and for each the number of its leaf among these."""
    starts, counts = forest.leaf_mask_starts[leaves], np.diff(forest.leaf_mask_starts)[leaves]
    number = np.repeat(np.arange(len(leaves)), counts)
    within = np.arange(len(number)) - np.repeat(compute_starts(counts)[:-1], counts)
    return starts[number] + within, number


class _MergedCells(NamedTuple):
    """The cells of one feature: which cell of the forest each stands for, and in which masks each lies."""

    forest_cells: Int64Array
    masks: Int64Array  # masks of the forest that tell open cells apart, rising
    number: Int64Array  # per such mask, the number of its set of cells
    sets: BoolArray  # per set and cell


def _merge_cells(
    forest: CompiledForest, tables: ChangeTables, domain: UInt64Array, j: int, places: AnyArray, merges: bool
) -> _MergedCells:
    start, end = int(forest.cells.cell_starts[j]), int(forest.cells.cell_starts[j + 1])
    words = slice(int(forest.cells.word_starts[j]), int(forest.cells.word_starts[j + 1]))
    open_cells = np.flatnonzero(_unpack(domain[None, words], end - start)[0])
    used = np.unique(forest.leaf_masks[places])
    used = used[forest.mask_feature[used] == j]
    begins = forest.mask_starts[used][:, None] + np.arange(words.stop - words.start)
    inside = _unpack(forest.mask_words[begins], end - start)[:, open_cells]
    telling = ~inside.all(axis=1)
    used, inside = used[telling], inside[telling]
    # Of cells in the same masks the cheapest stays; the instance's own is the first of its equals.
    rank = np.empty(end - start, dtype=np.int64)
    rank[tables.cheapest_cells[start:end]] = np.arange(end - start)
    columns = [column.tobytes() for column in np.packbits(inside, axis=0).T] if len(used) else [b""] * len(open_cells)
    chosen: dict[bytes, int] = {}
    for place in np.argsort(rank[open_cells]).tolist():
        chosen.setdefault(columns[place] if merges else place.to_bytes(8, "little"), place)
    stay = np.sort(np.array(list(chosen.values()), dtype=np.int64))
    numbers: dict[bytes, int] = {}
    number = [numbers.setdefault(row.tobytes(), len(numbers)) for row in inside[:, stay]]
    sets = np.array([np.frombuffer(row, dtype=np.bool_) for row in numbers]).reshape(len(numbers), len(stay))
    return _MergedCells(open_cells[stay], used, np.array(number, dtype=np.int64), sets)


def _unpack(words: UInt64Array, count: int) -> BoolArray:
    """Rows of words as rows of so many bits."""
    if words.size == 0:
        return np.zeros((len(words), count), dtype=np.bool_)
    octets = np.ascontiguousarray(words).astype("<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, count=count, bitorder="little").astype(np.bool_)


def _pack(sets: BoolArray) -> UInt64Array:
    """Rows of bits as rows of words."""
    padded = np.zeros((len(sets), (sets.shape[1] + 63) // 64 * 64), dtype=np.bool_)
    padded[:, : sets.shape[1]] = sets
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


class _Places(NamedTuple):
    """The masks of leaves that tell open cells apart: of each its leaf, its use, and the number of its set."""

    leaf: Int64Array
    key: Int64Array  # of its use: rising with margin, feature and tree
    sets: Int64Array


def _assemble(
    forest: CompiledForest,
    tables: ChangeTables,
    merged: list[_MergedCells],
    leaves: AnyArray,
    places: AnyArray,
    leaf_of_place: AnyArray,
) -> tuple[ChangeProblem, ChangeTables]:
    """All arrays of the problem."""
    # Of every place the number of its set; -1 where the mask tells no open cells apart.
    set_of_mask = np.full(len(forest.mask_feature), -1, dtype=np.int64)
    for one in merged:
        set_of_mask[one.masks] = one.number
    sets = set_of_mask[forest.leaf_masks[places]]
    places, leaf_of_place, sets = places[sets >= 0], leaf_of_place[sets >= 0], sets[sets >= 0]
    # Trees that tell no open cells apart add a constant, the value of their best leaf, which comes first.
    tree_of_leaf = np.searchsorted(forest.leaf_starts, leaves, "right") - 1
    margin_of_tree = forest.group_margin[forest.tree_group]
    trees = np.unique(tree_of_leaf[leaf_of_place])
    constant = np.setdiff1d(np.arange(len(forest.root)), trees)
    first_leaf = leaves[np.searchsorted(tree_of_leaf, constant)]
    offset, size = forest.offset.copy(), np.abs(forest.offset)
    np.add.at(offset, margin_of_tree[constant], forest.leaf_values[first_leaf])
    np.add.at(size, margin_of_tree[tree_of_leaf], np.abs(forest.leaf_values[leaves]))  # more than is added up
    kept, new_leaf = np.isin(tree_of_leaf, trees), np.full(len(leaves), -1)
    new_leaf[kept] = np.arange(kept.sum())
    tree, margin = np.searchsorted(trees, tree_of_leaf[kept]), margin_of_tree[trees]
    leaf_of_place = new_leaf[leaf_of_place]
    feature, tree_of_place = forest.mask_feature[forest.leaf_masks[places]], tree[leaf_of_place]
    key = (margin[tree_of_place] * len(merged) + feature) * max(1, len(trees)) + tree_of_place
    problem = _build_uses(
        merged,
        _Places(leaf_of_place, key, sets),
        forest=forest,
        offset=offset,
        size=size,
        tree_margin=margin,
        leaf_starts=compute_starts(np.bincount(tree, minlength=len(trees))),
        leaf_values=forest.leaf_values[leaves[kept]],
    )
    return problem, _reduce_tables(forest, tables, merged, problem)


def _build_uses(
    merged: list[_MergedCells], places: _Places, *, forest: CompiledForest, tree_margin: Int64Array, **others: Any
) -> ChangeProblem:
    """The problem, given its trees and leaves: where trees ask for features, and with which masks."""
    trees, features = max(1, len(tree_margin)), len(merged)
    uses, use_of_place = np.unique(places.key, return_inverse=True)
    widest = max(1, *(len(one.sets) for one in merged))
    masks, mask_of_place = np.unique(use_of_place.ravel() * widest + places.sets, return_inverse=True)
    use_feature, use_tree, mask_use = uses // trees % features, uses % trees, masks // widest
    counts = np.array([len(one.forest_cells) for one in merged], dtype=np.int64)
    packed = [_pack(one.sets) for one in merged]
    sets = zip(use_feature[mask_use].tolist(), (masks % widest).tolist(), strict=True)
    words = [packed[feature][number] for feature, number in sets]
    margin_starts = np.arange(len(forest.offset) * features + 1) * trees
    return assemble_problem(
        counts,
        use_feature,
        mask_use,
        mask_words=np.concatenate([np.zeros(0, dtype=np.uint64), *words]),
        leaf_of_place=places.leaf,
        leaf_masks=mask_of_place.ravel().astype(np.int64),
        forest_cells=np.concatenate([one.forest_cells for one in merged]),
        slack=forest.slack,
        rounding=np.array([ROUNDING * (len(uses) + len(tree_margin) + features + 16)]),
        tree_margin=tree_margin,
        use_starts=np.searchsorted(uses, margin_starts).astype(np.int64),
        use_tree=use_tree,
        **others,
    )


def assemble_problem(
    counts: Int64Array,
    use_feature: Int64Array,
    mask_use: Int64Array,
    *,
    mask_words: UInt64Array,
    leaf_of_place: Int64Array,
    leaf_masks: Int64Array,
    **others: Any,
) -> ChangeProblem:
    """The problem, given how many cells features have, and where its parts belong; a place is a mask of a leaf."""
    use_tree, leaf_starts = others["use_tree"], others["leaf_starts"]
    use_cells = compute_starts(counts[use_feature])
    use_mask_starts = np.searchsorted(mask_use, np.arange(len(use_tree) + 1)).astype(np.int64)
    mask_starts = compute_starts(((counts + 63) // 64)[use_feature[mask_use]])
    leaf_lists = _list_leaves(leaf_of_place, leaf_masks, use_tree, mask_use, leaf_starts)
    atoms = number_atoms(use_cells, use_mask_starts, mask_starts, mask_words)
    return ChangeProblem(
        cells=CellLayout(compute_starts(counts), compute_starts((counts + 63) // 64)),
        leaf_mask_starts=compute_starts(np.bincount(leaf_of_place, minlength=int(leaf_starts[-1]))),
        leaf_masks=leaf_masks,
        tree_use_starts=compute_starts(np.bincount(use_tree, minlength=len(leaf_starts) - 1)),
        tree_uses=np.argsort(use_tree, kind="stable").astype(np.int64),
        use_feature=use_feature,
        use_cells=use_cells,
        use_mask_starts=use_mask_starts,
        mask_use=mask_use,
        mask_starts=mask_starts,
        mask_words=mask_words,
        mask_leaf_starts=leaf_lists[0],
        mask_leaves=leaf_lists[1],
        free_leaf_starts=leaf_lists[2],
        free_leaves=leaf_lists[3],
        atom_starts=atoms[0],
        cell_atoms=atoms[1],
        mask_atom_starts=atoms[2],
        mask_atoms=atoms[3],
        **others,
    )


def _list_leaves(
    leaf_of_place: Int64Array,
    leaf_masks: Int64Array,
    use_tree: Int64Array,
    mask_use: Int64Array,
    leaf_starts: Int64Array,
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """The leaves of every mask, and those that ask for none of a use's masks."""
    order = np.argsort(leaf_masks, kind="stable")
    starts = compute_starts(np.bincount(leaf_masks, minlength=len(mask_use)))
    # Every use with every leaf of its tree, less the pairs that have a mask.
    leaves = np.diff(leaf_starts)[use_tree]
    pair_starts, use = compute_starts(leaves), mask_use[leaf_masks]
    is_free = np.ones(int(pair_starts[-1]), dtype=np.bool_)
    is_free[pair_starts[use] + leaf_of_place - leaf_starts[use_tree[use]]] = False
    pair_use = np.repeat(np.arange(len(use_tree)), leaves)
    pair_leaf = np.arange(len(is_free)) - pair_starts[pair_use] + leaf_starts[use_tree[pair_use]]
    free_starts = compute_starts(np.bincount(pair_use[is_free], minlength=len(use_tree)))
    return starts, leaf_of_place[order], free_starts, pair_leaf[is_free]


@kernel
def number_atoms(
    use_cells: Int64Array, use_mask_starts: Int64Array, mask_starts: Int64Array, mask_words: UInt64Array
) -> tuple[Int64Array, Int32Array, Int64Array, Int32Array]:
    """The atoms of all uses: where those of a use begin, and of which each cell is; and the atoms of every mask."""
    uses, masks = use_cells.shape[0] - 1, mask_starts.shape[0] - 1
    cell_atoms = np.zeros(use_cells[uses], dtype=np.int32)
    atom_starts = np.zeros(uses + 1, dtype=np.int64)
    parts = np.zeros(2 * cell_atoms.shape[0] + 2, dtype=np.int32)  # what becomes of an atom outside a mask, and inside
    for use in range(uses):
        # All cells are one atom at first, which one mask after the other divides.
        first, end, count = use_cells[use], use_cells[use + 1], 1
        for mask in range(use_mask_starts[use], use_mask_starts[use + 1]):
            parts[: 2 * count] = -1
            count = 0
            for place in range(first, end):
                word = mask_words[mask_starts[mask] + ((place - first) >> 6)]
                part = 2 * cell_atoms[place] + np.int64((word >> np.uint64((place - first) & 63)) & ONE)
                if parts[part] < 0:
                    parts[part] = count
                    count += 1
                cell_atoms[place] = parts[part]
        for place in range(first, end):
            cell_atoms[place] += atom_starts[use]
        atom_starts[use + 1] = atom_starts[use] + count
    last = np.full(atom_starts[uses], -1, dtype=np.int64)  # per atom, the last mask that was seen to have it
    mask_atom_starts = np.zeros(masks + 1, dtype=np.int64)
    mask_atoms = np.zeros(masks * 4, dtype=np.int32)
    for use in range(uses):
        for mask in range(use_mask_starts[use], use_mask_starts[use + 1]):
            count = mask_atom_starts[mask]
            for place in range(use_cells[use], use_cells[use + 1]):
                cell, atom = place - use_cells[use], cell_atoms[place]
                word = mask_words[mask_starts[mask] + (cell >> 6)]
                if ((word >> np.uint64(cell & 63)) & ONE) != ZERO and last[atom] != mask:
                    last[atom] = mask
                    if count == mask_atoms.shape[0]:
                        mask_atoms = np.append(mask_atoms, np.zeros_like(mask_atoms))
                    mask_atoms[count] = atom
                    count += 1
            mask_atom_starts[mask + 1] = count
    return atom_starts, cell_atoms, mask_atom_starts, mask_atoms[: mask_atom_starts[masks]].copy()


def _reduce_tables(
    forest: CompiledForest, tables: ChangeTables, merged: list[_MergedCells], problem: ChangeProblem
) -> ChangeTables:
    """The tables over the problem's cells; the limit is the same array."""
    home, costs, cheapest = [], [], []
    for j, one in enumerate(merged):
        start = int(forest.cells.cell_starts[j])
        cost = tables.cell_costs[start + one.forest_cells]
        own = np.flatnonzero(one.forest_cells == tables.home[j])
        home.append(int(own[0]) if len(own) else -1)
        costs.append(cost)
        cheapest.append(np.lexsort((one.forest_cells != tables.home[j], cost)))
    domain = np.zeros(int(problem.cells.word_starts[-1]), dtype=np.uint64)
    for j, one in enumerate(merged):
        words = _pack(np.ones((1, len(one.forest_cells)), dtype=np.bool_))[0]
        domain[problem.cells.word_starts[j] : problem.cells.word_starts[j + 1]] = words
    return tables._replace(
        home=np.array(home, dtype=np.int64),
        cell_costs=np.concatenate(costs),
        cheapest_cells=np.concatenate(cheapest),
        status=np.zeros_like(tables.status),
        least=np.zeros_like(tables.least),
        change=np.zeros_like(tables.change),
        start_domain=domain,
    )
