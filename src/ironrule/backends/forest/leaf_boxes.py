"""The leaves that points reach, as boxes: per leaf a few sets of cells, each of one feature.

A set of cells of one feature is a mask of 64-bit words; equal masks are stored once (:class:`MaskPool`).

All trees are walked at once, level by level. The walk knows for every node the masks that lead to it, in the order in
which its path first narrowed their features. A branch that no cell leads to is not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int32Array, Int64Array, UInt64Array
from ironrule.model.normal_form.cells import compute_starts
from ironrule.model.protocol import Unreadable

MAX_MASK_BYTES = 1 << 28
FULL_MASK = 0


@dataclass(slots=True, eq=False)
class MaskPool:
    """The masks of one feature in the order in which they came; the first is the whole feature."""

    words: UInt64Array  # a row each, with room for more
    numbers: dict[bytes, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def number_masks(self, masks: UInt64Array) -> Int64Array:
        """The numbers of masks, a row each; new ones are added."""
        before, width = len(self), 8 * masks.shape[1]
        packed, of = masks.tobytes(), self.numbers
        # The bytes of a row are the key; a row that is new gets the next number.
        found = [of.setdefault(packed[at : at + width], len(of)) for at in range(0, len(packed), width)]
        numbers = np.array(found, dtype=np.int64)
        # New numbers begin at `before`; of each the first row is appended, in the order of the numbers.
        if len(self) > before:
            new, first = np.unique(numbers, return_index=True)
            self._append(masks[first[new >= before]], before)
        return numbers

    def _append(self, masks: UInt64Array, before: int) -> None:
        # Grow by doubling, so that appending stays cheap on average.
        if len(self) > len(self.words):
            if 8 * len(self) * masks.shape[1] > MAX_MASK_BYTES:
                raise Unreadable("its leaves tell too many values apart for exact search; coarser grids would help")
            larger = np.empty((2 * len(self), masks.shape[1]), dtype=np.uint64)
            larger[:before] = self.words[:before]
            self.words = larger
        self.words[before : len(self)] = masks

    def compute_shares(self) -> Float64Array:
        """The part of the feature's cells that each mask has."""
        counts = np.array([int.from_bytes(mask, "little").bit_count() for mask in self.numbers], dtype=np.int64)
        return np.asarray(counts / counts[FULL_MASK])


def build_mask_pool(cells: int) -> MaskPool:
    """A pool for a feature of so many cells."""
    width = (cells + 63) // 64
    whole = np.zeros((1, 8 * width), dtype=np.uint8)
    whole[0, : (cells + 7) // 8] = np.packbits(np.ones(cells, dtype=np.uint8), bitorder="little")
    pool = MaskPool(np.empty((0, width), dtype=np.uint64))
    pool.number_masks(whole.view("<u8").astype(np.uint64))
    return pool


def concatenate_masks(
    pools: Sequence[MaskPool], features: Int64Array, numbers: Int64Array
) -> tuple[UInt64Array, Int64Array]:
    """Masks end to end, and where each begins."""
    widths = np.array([pool.words.shape[1] for pool in pools], dtype=np.int64)[features]
    starts = compute_starts(widths)
    words = np.empty(int(starts[-1]), dtype=np.uint64)
    # Masks of one feature have the same width, so a feature's masks are copied in one step.
    for feature, pool in enumerate(pools):
        here = np.flatnonzero(features == feature)
        places = starts[here][:, None] + np.arange(pool.words.shape[1])
        words[places] = pool.words[numbers[here]]
    return words, starts


def find_runs(words: UInt64Array, starts: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The runs of neighbouring cells in masks that lie end to end: where each mask's begin, their firsts and lasts."""
    # The neighbouring bits across word borders; none across the border of two masks.
    before, after = np.zeros_like(words), np.zeros_like(words)
    before[1:], after[:-1] = words[:-1] >> np.uint64(63), words[1:] << np.uint64(63)
    before[starts[:-1]], after[starts[1:] - 1] = 0, 0
    # A run begins at a one whose lower neighbour is zero, and ends at a one whose upper neighbour is zero.
    first = words & ~((words << np.uint64(1)) | before)
    last = words & ~((words >> np.uint64(1)) | after)
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    (at, low), (end, high) = _find_set_bits(first), _find_set_bits(last)
    counts = np.bincount(owners[at], minlength=len(starts) - 1)
    return compute_starts(counts), 64 * (at - starts[owners[at]]) + low, 64 * (end - starts[owners[end]]) + high


def _find_set_bits(words: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """Where words have ones: the words' places, and the bits."""
    some = np.flatnonzero(words)
    bits = np.unpackbits(words[some].astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    rows, columns = np.nonzero(bits)
    return some[rows], columns


class FlatNodes(NamedTuple):
    """The nodes of all trees end to end."""

    root: Int64Array
    feature: Int64Array
    left_mask: Int64Array  # the mask of the cells that go left, -1 at a leaf
    left: Int64Array
    right: Int64Array
    value: Float64Array  # zero where it is no leaf


class LeafBoxes(NamedTuple):
    """Leaves tree by tree, in falling order of value; of each its masks, those that are missed most often first."""

    leaf_starts: Int64Array  # per tree
    leaf_values: Float64Array
    mask_starts: Int64Array  # per leaf
    feature: Int64Array
    mask: Int64Array  # by its number in the feature's pool


@dataclass(frozen=True, slots=True, eq=False)
class WalkLevel:
    """Nodes of one depth that some point reaches; a slot holds a feature (-1: none) and its mask."""

    tree: Int64Array
    node: Int64Array
    parent: Int64Array  # its place on the level above
    is_right: BoolArray
    is_leaf: BoolArray
    features: Int32Array
    masks: Int32Array


def build_leaf_boxes(nodes: FlatNodes, pools: Sequence[MaskPool]) -> LeafBoxes:
    """The leaves of all trees but those that stand for what cannot occur; new masks are added to the pools."""
    levels = _walk_levels(nodes, pools)
    tree = np.concatenate([level.tree[level.is_leaf] for level in levels])
    node = np.concatenate([level.node[level.is_leaf] for level in levels])
    # Leaves of equal value keep a fixed order, so that results are the same every time.
    beside = zip(levels, _count_leaves_to_right(levels), strict=True)
    place = np.concatenate([place[level.is_leaf] for level, place in beside])
    counts, features, masks = _collect_leaf_masks(levels, pools)
    # Tree by tree, falling by value; leaves of minus infinity stand for what cannot occur and are left out.
    order = np.lexsort((place, -nodes.value[node], tree))
    order = order[nodes.value[node[order]] > -np.inf]
    used = concatenate_ranges(compute_starts(counts)[:-1][order], counts[order])
    leaf_starts = compute_starts(np.bincount(tree[order], minlength=len(nodes.root)))
    return LeafBoxes(leaf_starts, nodes.value[node[order]], compute_starts(counts[order]), features[used], masks[used])


def concatenate_ranges(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """The numbers of all ranges, end to end."""
    ends = compute_starts(lengths)
    return np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1])


def _walk_levels(nodes: FlatNodes, pools: Sequence[MaskPool]) -> list[WalkLevel]:
    """All levels; of masks only those of leaves are kept."""
    count = len(nodes.root)
    none, slots = np.zeros(count, dtype=np.int64), np.full((count, 1), -1, dtype=np.int32)
    level = WalkLevel(
        tree=np.arange(count),
        node=nodes.root,
        parent=none,
        is_right=none > 0,
        is_leaf=nodes.left_mask[nodes.root] < 0,
        features=slots,
        masks=slots,
    )
    levels = []
    # One level at a time, from the roots, until a level has only leaves.
    while True:
        leaf = level.is_leaf
        levels.append(replace(level, features=level.features[leaf], masks=level.masks[leaf]))
        if leaf.all():
            return levels
        level = _descend(nodes, pools, level)


def _descend(nodes: FlatNodes, pools: Sequence[MaskPool], level: WalkLevel) -> WalkLevel:
    """The level of a level's children."""
    inner = np.flatnonzero(~level.is_leaf)
    node, features, masks = level.node[inner], level.features[inner], level.masks[inner]
    feature = nodes.feature[node]
    # The slot of the feature that each node asks: the one it has on this path already, or the next free one.
    asked = features == feature[:, None]
    known = asked.any(axis=1)
    slot = np.where(known, asked.argmax(axis=1), np.count_nonzero(features >= 0, axis=1))
    here = np.where(known, masks[np.arange(len(node)), slot % features.shape[1]], FULL_MASK)
    if (slot == features.shape[1]).any():  # one more slot for every node
        features, masks = (np.pad(array, ((0, 0), (0, 1)), constant_values=-1) for array in (features, masks))
    sides = _split_masks(pools, feature, here, nodes.left_mask[node])
    # Left children, then right children; only those that some cell leads to.
    parts = []
    for is_right, (child, part) in enumerate(zip((nodes.left[node], nodes.right[node]), sides, strict=True)):
        rows = np.flatnonzero(part >= 0)
        parts.append((child[rows], inner[rows], np.full(len(rows), bool(is_right)), features[rows], masks[rows]))
        # A split that takes nothing away leaves the slots as they are.
        narrowed = np.flatnonzero(part[rows] != here[rows])
        changed = rows[narrowed]
        parts[-1][3][narrowed, slot[changed]] = feature[changed]
        parts[-1][4][narrowed, slot[changed]] = part[changed]
    below, parent, right, features, masks = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return WalkLevel(
        tree=level.tree[parent],
        node=below,
        parent=parent,
        is_right=right,
        is_leaf=nodes.left_mask[below] < 0,
        features=features,
        masks=masks,
    )


def _split_masks(pools: Sequence[MaskPool], feature: Int64Array, here: Int64Array, left_mask: Int64Array) -> Int64Array:
    """The masks left and right of splits where some cells are left already; -1 where no cell is."""
    sides = np.empty((2, len(feature)), dtype=np.int64)
    order = np.argsort(feature, kind="stable")
    # Feature by feature, because each has its own pool; rows of a feature are split at once.
    for rows in np.split(order, np.flatnonzero(np.diff(feature[order])) + 1):
        pool = pools[feature[rows[0]]]
        cells, mask = pool.words[here[rows]], pool.words[left_mask[rows]]
        # -1 where nothing is left, the old mask where nothing was taken away, otherwise the number of the new mask.
        for side, part in enumerate((cells & mask, cells & ~mask)):
            some = part.any(axis=1)
            narrowed = some & (part != cells).any(axis=1)
            sides[side, rows] = np.where(some, here[rows], -1)
            sides[side, rows[narrowed]] = pool.number_masks(part[narrowed])
    return sides


def _count_leaves_to_right(levels: Sequence[WalkLevel]) -> list[Int64Array]:
    """For every node the number of leaves of its tree that lie to its right: ties are kept in that order."""
    counts = [level.is_leaf.astype(np.int64) for level in levels]
    # From the deepest level upwards: the number of leaves below every node.
    for above, below, count in zip(counts[-2::-1], levels[:0:-1], counts[:0:-1], strict=True):
        np.add.at(above, below.parent, count)
    places = [np.zeros(len(levels[0].node), dtype=np.int64)]
    # From the root downwards: a left child has its sibling's leaves to its right, and all that its parent has there.
    for below, count in zip(levels[1:], counts[1:], strict=True):
        beside = np.zeros(len(places[-1]), dtype=np.int64)
        beside[below.parent[below.is_right]] = count[below.is_right]
        places.append(places[-1][below.parent] + np.where(below.is_right, 0, beside[below.parent]))
    return places


def _collect_leaf_masks(levels: Sequence[WalkLevel], pools: Sequence[MaskPool]) -> tuple[Int64Array, ...]:
    """How many masks the leaves have, and these end to end, those with the fewest cells first."""
    starts = compute_starts(np.array([len(pool) for pool in pools]))
    shares = np.concatenate([*(pool.compute_shares() for pool in pools), [np.inf]])  # the last stands for no mask
    counts, features, masks = [], [], []
    # Small masks first: they are missed most often, so a search that tests a leaf can stop early.
    for level in levels:
        used = level.features >= 0
        order = np.argsort(shares[np.where(used, starts[level.features] + level.masks, -1)], axis=1, kind="stable")
        counts.append(np.count_nonzero(used, axis=1))
        used = np.take_along_axis(used, order, axis=1)
        features.append(np.take_along_axis(level.features, order, axis=1)[used].astype(np.int64))
        masks.append(np.take_along_axis(level.masks, order, axis=1)[used].astype(np.int64))
    return np.concatenate(counts), np.concatenate(features), np.concatenate(masks)
