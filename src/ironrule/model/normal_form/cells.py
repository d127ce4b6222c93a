"""Cells: the codes of a feature that no split of a model tells apart.

Splits that send the same codes of a feature to the left count as one (:class:`DistinctSplits`). Codes with the same
answers to all splits are one *cell*; cells of a feature are numbered by their first codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Int64Array, UInt8Array, UInt64Array
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.splits import CodeRangeSplit, SplitFactory, ThresholdSplits, group_equivalent_thresholds
from ironrule.model.normal_form.tree_sum import Tree, TreeSplit
from ironrule.model.protocol import Unreadable

MAX_SPLIT_BYTES = 1 << 29
BLOCK_ROWS = 1024
NO_VALUES = np.empty(0)
REVERSED_BITS = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, ::-1], axis=1).ravel()


class Cells(NamedTuple):
    """Which cell every code belongs to, and which codes every cell has. Arrays of all features lie end to end."""

    word_starts: Int64Array  # a feature's words in a domain
    cell_starts: Int64Array  # a feature's cells among all
    code_starts: Int64Array  # a feature's codes among all
    cell_by_code: Int64Array  # per code, its cell within the feature
    cell_code_starts: Int64Array  # per cell among all, its codes in `codes`
    codes: Int64Array  # the codes of a cell, rising

    def locate(self, points: AnyArray) -> Int64Array:
        """Points as cells."""
        return np.asarray(self.cell_by_code[points + self.code_starts[:-1]])


def compute_starts(counts: AnyArray) -> Int64Array:
    """Where each of so many begins when all lie end to end, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@dataclass(slots=True, eq=False)
class DistinctSplits:
    """The distinct splits of all trees that were added: per split its feature, and a bit per code (packed)."""

    columns: TabulatedColumns
    numbers: dict[tuple[int, bytes], int] = field(default_factory=dict)
    number_by_split: dict[TreeSplit, int] = field(default_factory=dict)
    numbers_by_splits: dict[int, Int64Array] = field(default_factory=dict)  # by identity: many trees share their splits
    size: int = 0

    def add(self, trees: Iterable[Tree]) -> None:
        """Number the splits of these trees."""
        distinct = {id(tree.splits): tree.splits for tree in trees}
        packed: dict[SplitFactory, list[ThresholdSplits]] = {}
        for splits in distinct.values():  # those in arrays are numbered together, by what makes them
            if isinstance(splits, ThresholdSplits):
                packed.setdefault(splits.make_split, []).append(splits)
            else:
                numbers = [-1 if split is None else self._number_split(split) for split in splits]
                self.numbers_by_splits[id(splits)] = np.array(numbers, dtype=np.int64)
        for make, packed_splits in packed.items():
            self._add_packed(make, packed_splits)

    def number_nodes(self, tree: Tree) -> Int64Array:
        """Per node of a tree that was added the number of its split, -1 at a leaf."""
        return np.where(tree.left < 0, -1, self.numbers_by_splits[id(tree.splits)])

    def _add_packed(self, make: SplitFactory, packed: list[ThresholdSplits]) -> None:
        arrays = ([getattr(splits, name) for splits in packed] for name in ("column", "threshold", "kind"))
        column, threshold, kind = map(np.concatenate, arrays)
        numbers = np.full(len(column), -1, dtype=np.int64)
        # Of all splits of a column, one of each class with the same answers is made an object and asked.
        for each in np.unique(column[column >= 0]).tolist():
            nodes = np.flatnonzero(column == each)
            first, classes = group_equivalent_thresholds(threshold[nodes], kind[nodes], self.columns.values[each])
            distinct = zip(threshold[nodes[first]].tolist(), kind[nodes[first]].tolist(), strict=True)
            class_numbers = [self._number_split(make(each, *threshold_and_kind)) for threshold_and_kind in distinct]
            numbers[nodes] = np.array(class_numbers, dtype=np.int64)[classes]
        parts = np.split(numbers, compute_starts(np.array([len(splits) for splits in packed]))[1:-1])
        for splits, part in zip(packed, parts, strict=True):  # back to one array of numbers per tree
            for node, split in splits.other_splits.items():
                part[node] = self._number_split(split)
            self.numbers_by_splits[id(splits)] = part

    def _number_split(self, split: TreeSplit) -> int:
        number = self.number_by_split.get(split)
        if number is not None:
            return number
        feature, flags = self._find_left_codes(split)
        left = np.packbits(flags).tobytes()
        before = len(self.numbers)
        number = self.numbers.setdefault((feature, left), before)
        self.size += len(left) * (len(self.numbers) - before)
        if self.size > MAX_SPLIT_BYTES:
            raise Unreadable(
                f"it tells too many values apart for exact search ({len(self.numbers):,} splits, features of up to "
                f"{max(map(len, self.columns.values)):,} values); a space with coarser grids would help"
            )
        self.number_by_split[split] = number
        return number

    def _find_left_codes(self, split: TreeSplit) -> tuple[int, BoolArray]:
        """The feature that a split asks about, and which of its codes go left."""
        if isinstance(split, CodeRangeSplit):
            return split.feature, split.goes_left(NO_VALUES)
        return int(self.columns.features[split.column]), split.goes_left(self.columns.values[split.column])

    def group_by_feature(self, count: int) -> list[tuple[Int64Array, UInt8Array]]:
        """Per feature the numbers of its splits, and their codes, a row each."""
        numbers: list[list[int]] = [[] for _ in range(count)]
        rows: list[list[bytes]] = [[] for _ in range(count)]
        for (feature, left), number in self.numbers.items():
            numbers[feature].append(number)
            rows[feature].append(left)
        return [
            (np.array(own, dtype=np.int64), np.frombuffer(b"".join(left), dtype=np.uint8).reshape(len(own), width))
            for own, left in zip(numbers, rows, strict=True)
            for width in [len(left[0]) if left else 0]
        ]


def build_cells(sizes: list[int], splits: list[tuple[Int64Array, UInt8Array]]) -> tuple[Cells, list[Int64Array]]:
    """The cells, and per feature the first code of each; ``splits`` has the numbers and codes of every feature's."""
    of_code, firsts = [], []
    for size, (_, rows) in zip(sizes, splits, strict=True):  # a feature each: equal columns of answers are one cell
        answers = _transpose_bits(rows, size)
        _, first, inverse = np.unique(answers, axis=0, return_index=True, return_inverse=True)
        # Cells are numbered by their first codes, not by their answers, in whose order np.unique has them.
        of_code.append(np.argsort(np.argsort(first))[inverse.ravel()].astype(np.int64))
        firsts.append(np.sort(first).astype(np.int64))
    counts = np.array([len(first) for first in firsts], dtype=np.int64)
    flat = np.concatenate([codes + start for codes, start in zip(of_code, compute_starts(counts), strict=False)])
    codes = np.concatenate([np.argsort(cells, kind="stable") for cells in of_code]).astype(np.int64)
    codes_starts = compute_starts(np.bincount(flat, minlength=int(counts.sum())))
    word_starts, code_starts = compute_starts((counts + 63) // 64), compute_starts(np.array(sizes))
    return Cells(word_starts, compute_starts(counts), code_starts, np.concatenate(of_code), codes_starts, codes), firsts


def _transpose_bits(rows: UInt8Array, size: int) -> UInt8Array:
    """The answers to splits, a row per code instead of a row per split; in blocks, to save memory."""
    if len(rows) == 0:
        return np.zeros((size, 1), dtype=np.uint8)
    blocks = (rows[start : start + BLOCK_ROWS] for start in range(0, len(rows), BLOCK_ROWS))
    return np.concatenate([np.packbits(np.unpackbits(block, axis=1, count=size), axis=0) for block in blocks]).T


def build_cell_masks(first: Int64Array, rows: UInt8Array) -> UInt64Array:
    """Splits of a feature as masks of its cells, bit c standing for cell c, in rows of words."""
    masks = np.zeros((len(rows), 8 * ((len(first) + 63) // 64)), dtype=np.uint8)
    if rows.shape[1] == (len(first) + 7) // 8 and first[-1] == len(first) - 1:  # every code is a cell of its own
        masks[:, : rows.shape[1]] = REVERSED_BITS[rows]
        masks[:, rows.shape[1] - 1] &= 255 >> (-len(first) % 8)  # codes beyond the last cell's first are none
        return masks.view("<u8").astype(np.uint64)
    for start in range(0, len(rows), BLOCK_ROWS):
        left = np.unpackbits(rows[start : start + BLOCK_ROWS], axis=1)[:, first]
        masks[start : start + BLOCK_ROWS, : (len(first) + 7) // 8] = np.packbits(left, axis=1, bitorder="little")
    return masks.view("<u8").astype(np.uint64)
