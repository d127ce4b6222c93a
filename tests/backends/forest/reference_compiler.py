"""Compile a sum of trees leaf by leaf and split by split: slow, and what the compiler of the package must equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.backends.forest.compile import (
    LINK_CODES,
    CompiledForest,
    bound_sum_error,
    compute_slack,
    convert_terms_to_trees,
)
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.cells import Cells
from ironrule.model.normal_form.splits import CodeRangeSplit
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSplit, TreeSum
from ironrule.space.space import Space

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def compile_reference(tree_sum: TreeSum, columns: TabulatedColumns, space: Space) -> tuple[CompiledForest, ...]:
    """One forest per alternative, over the cells of the whole sum."""
    alternatives = [
        [convert_terms_to_trees(margin, columns) for margin in margins] for margins in tree_sum.alternatives
    ]
    tables = _SplitTables(columns)
    for margins in alternatives:
        for tree in (tree for margin in margins for group in margin.groups for tree in group.trees):
            tables.add(tree)
    cells, members = _cells(space, tables.masks)
    return tuple(_Compiler(cells, members, tables).forest(margins) for margins in alternatives)


@dataclass(slots=True)
class _SplitTables:
    """For every split the feature that it asks about, and which of its codes go left; equal splits are stored once."""

    columns: TabulatedColumns
    answers: dict[TreeSplit, tuple[int, bytes]] = field(default_factory=dict)
    masks: dict[tuple[int, bytes], npt.NDArray[np.bool_]] = field(default_factory=dict)

    def add(self, tree: Tree) -> None:
        for split in tree.splits:
            if split is not None and split not in self.answers:
                feature = (
                    split.feature if isinstance(split, CodeRangeSplit) else int(self.columns.features[split.column])
                )
                left = split.goes_left(self.columns.values[split.column])
                self.answers[split] = (feature, left.tobytes())
                self.masks[self.answers[split]] = left


def _cells(space: Space, masks: dict[tuple[int, bytes], npt.NDArray[np.bool_]]) -> tuple[Cells, list[Ints]]:
    """Codes with the same answers to all splits are one cell; cells are numbered by their first code."""
    of_code: list[Ints] = []
    for j, size in enumerate(space.sizes.tolist()):
        asked = [mask for (feature, _), mask in masks.items() if feature == j]
        answers = np.packbits(np.array(asked), axis=0).T if asked else np.zeros((size, 1), dtype=np.uint8)
        _, first, inverse = np.unique(answers, axis=0, return_index=True, return_inverse=True)
        of_code.append(np.argsort(np.argsort(first))[inverse.ravel()].astype(np.int64))
    counts = np.array([codes.max() + 1 for codes in of_code], dtype=np.int64)
    flat = np.concatenate([codes + start for codes, start in zip(of_code, _starts(counts), strict=False)])
    codes = np.concatenate([np.argsort(cells, kind="stable") for cells in of_code]).astype(np.int64)
    codes_starts = _starts(np.bincount(flat, minlength=int(counts.sum())))
    starts = _starts(space.sizes.astype(np.int64))
    cells = Cells(_starts((counts + 63) // 64), _starts(counts), starts, np.concatenate(of_code), codes_starts, codes)
    return cells, of_code


def _starts(counts: npt.NDArray[Any]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@dataclass(slots=True)
class _Compiler:
    """Collects leaves, masks and nodes. Masks are Python integers here, bit c standing for cell c."""

    cells: Cells
    of_code: list[Ints]
    tables: _SplitTables
    bits: dict[tuple[int, bytes], int] = field(default_factory=dict)
    places: dict[tuple[int, int], int] = field(default_factory=dict)
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    words: list[int] = field(default_factory=list)
    feature_masks: list[tuple[int, int]] = field(default_factory=list)
    leaf_starts: list[int] = field(default_factory=lambda: [0])
    leaf_values: list[float] = field(default_factory=list)
    leaf_masks: list[list[int]] = field(default_factory=list)
    nodes: list[tuple[int, int, int, int, float]] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    def forest(self, margins: Sequence[Margin]) -> CompiledForest:
        groups = [(place, group) for place, margin in enumerate(margins) for group in margin.groups]
        for _, group in groups:
            for tree in group.trees:
                self._add(tree)
        owners = np.repeat(np.arange(len(groups)), [len(group.trees) for _, group in groups])
        return self._packed(margins, groups, owners)

    def _mask(self, split: TreeSplit) -> tuple[int, int]:
        """The feature that a split asks about, and its cells that go left."""
        key = self.tables.answers[split]
        if key not in self.bits:
            feature = key[0]
            count = int(self.cells.cell_starts[feature + 1] - self.cells.cell_starts[feature])
            left = np.zeros(count, dtype=np.bool_)
            left[self.of_code[feature]] = self.tables.masks[key]
            self.bits[key] = int.from_bytes(np.packbits(left, bitorder="little").tobytes(), "little")
        return key[0], self.bits[key]

    def _place(self, feature: int, mask: int) -> int:
        """Where the words of a mask begin."""
        key = (feature, mask)
        if key not in self.places:
            self.places[key] = len(self.words)
            count = int(self.cells.word_starts[feature + 1] - self.cells.word_starts[feature])
            self.words += [mask >> 64 * word & 0xFFFFFFFFFFFFFFFF for word in range(count)]
        return self.places[key]

    def _number_mask(self, feature: int, mask: int) -> int:
        key = (feature, mask)
        if key not in self.numbers:
            self.numbers[key] = len(self.feature_masks)
            self.feature_masks.append(key)
        return self.numbers[key]

    def _add(self, tree: Tree) -> None:
        """A tree's nodes, and its leaves that some point reaches, best first."""
        base = len(self.nodes)
        self.roots.append(base)
        asked = [
            None if split is None or left < 0 else self._mask(split)
            for split, left in zip(tree.splits, tree.left, strict=True)
        ]
        for place, split in enumerate(asked):
            if split is None:
                self.nodes.append((0, 0, -1, -1, float(tree.value[place])))
            else:
                left, right = base + int(tree.left[place]), base + int(tree.right[place])
                self.nodes.append((split[0], self._place(*split), left, right, 0.0))
        leaves = sorted(self._leaves(tree, asked), key=lambda leaf: -leaf[0])
        self.leaf_values += [value for value, _ in leaves]
        self.leaf_masks += [[self._number_mask(*item) for item in self._narrow_first(box)] for _, box in leaves]
        self.leaf_starts.append(len(self.leaf_values))

    def _leaves(self, tree: Tree, asked: list[tuple[int, int] | None]) -> list[tuple[float, dict[int, int]]]:
        leaves: list[tuple[float, dict[int, int]]] = []
        pending: list[tuple[int, dict[int, int]]] = [(0, {})]
        while pending:
            place, box = pending.pop()
            split = asked[place]
            if split is None:
                leaves.append((float(tree.value[place]), box))
                continue
            feature, mask = split
            here = box.get(feature, self._all(feature))
            for child, part in ((tree.left[place], here & mask), (tree.right[place], here & ~mask)):
                if part:
                    pending.append((int(child), box if part == here else {**box, feature: part}))
        return leaves

    def _all(self, feature: int) -> int:
        return (1 << int(self.cells.cell_starts[feature + 1] - self.cells.cell_starts[feature])) - 1

    def _narrow_first(self, box: dict[int, int]) -> list[tuple[int, int]]:
        """A leaf's masks, those that are missed most often first."""
        return sorted(box.items(), key=lambda item: item[1].bit_count() / self._all(item[0]).bit_count())

    def _packed(
        self, margins: Sequence[Margin], groups: list[tuple[int, LinkedGroup]], owners: npt.NDArray[np.intp]
    ) -> CompiledForest:
        runs = [_runs(mask) for _, mask in self.feature_masks]
        places = [self._place(*mask) for mask in self.feature_masks]
        columns = list(zip(*self.nodes, strict=True)) if self.nodes else [(), (), (), (), ()]
        asked = [number for masks in self.leaf_masks for number in masks]
        begins = [int(self.cells.cell_starts[feature]) for feature, _ in self.feature_masks]
        values = self.leaf_values
        ends = zip(self.leaf_starts, self.leaf_starts[1:], strict=False)
        return CompiledForest(
            self.cells,
            _ints(self.leaf_starts),
            _floats(self.leaf_values),
            _floats([value - values[end - 1] for start, end in ends for value in values[start:end]]),
            _starts(np.array([len(masks) for masks in self.leaf_masks], dtype=np.int64)),
            _ints(asked),
            _ints([begins[number] + runs[number][0][0] for number in asked]),
            _ints([begins[number] + runs[number][-1][1] for number in asked]),
            _ints([len(runs[number]) > 1 for number in asked]),
            _ints([feature for feature, _ in self.feature_masks]),
            _ints(places),
            _starts(np.array([len(parts) for parts in runs], dtype=np.int64)),
            _ints([first for parts in runs for first, _ in parts]),
            _ints([last for parts in runs for _, last in parts]),
            np.array(self.words, dtype=np.uint64),
            owners.astype(np.int64),
            np.zeros(len(owners), dtype=np.int64),
            _ints([place for place, _ in groups]),
            np.array([_link(group) for _, group in groups], dtype=np.float64).reshape(-1, 5),
            _floats([margin.offset for margin in margins]),
            _floats([compute_slack(margin) for margin in margins]),
            _ints(self.roots),
            _ints(columns[0]),
            _ints(columns[1]),
            _ints(columns[2]),
            _ints(columns[3]),
            _floats(columns[4]),
        )


def _link(group: LinkedGroup) -> list[float]:
    link = group.link
    off = 0.0 if link.kind == "identity" else bound_sum_error(group)
    return [LINK_CODES[link.kind], link.scale, link.slope, link.shift, off]


def _runs(mask: int) -> list[tuple[int, int]]:
    """The runs of neighbouring ones in a mask."""
    runs: list[tuple[int, int]] = []
    place = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        length = (~mask & (mask + 1)).bit_length() - 1
        runs.append((place + skip, place + skip + length - 1))
        mask >>= length
        place += skip + length
    return runs


def _ints(values: Sequence[Any]) -> Ints:
    return np.array(values, dtype=np.int64)


def _floats(values: Sequence[Any]) -> Floats:
    return np.array(values, dtype=np.float64)
