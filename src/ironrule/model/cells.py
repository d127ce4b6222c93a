"""Questions and cells: what all tests of a reading can tell apart.

Tests that send the same codes of a feature to the left are one *question*. Codes with the same answers to all
questions are one *cell*; cells of a feature are numbered by their first codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model.coded import Within
from ironrule.model.reading import Mask, Test, Tests, Tree, Unreadable
from ironrule.model.tabulate import Columns
from ironrule.model.thresholds import Make, Thresholds, alike

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

MOST_BYTES = 1 << 29
BLOCK = 1024
NO_VALUES = np.empty(0)


class Cells(NamedTuple):
    """Which cell every code belongs to, and which codes every cell has. Arrays of all features lie end to end."""

    word_starts: Ints  # a feature's words in a domain
    cell_starts: Ints  # a feature's cells among all
    code_starts: Ints  # a feature's codes among all
    cell_of: Ints  # per code, its cell within the feature
    codes_starts: Ints  # per cell among all, its codes in `codes`
    codes: Ints  # the codes of a cell, rising


def starts_of(counts: npt.NDArray[Any]) -> Ints:
    """Where each of so many begins when all lie end to end, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@dataclass(slots=True, eq=False)
class Questions:
    """The questions of all trees that were added: per question its feature, and a bit per code (packed)."""

    columns: Columns
    numbers: dict[tuple[int, bytes], int] = field(default_factory=dict)
    of_test: dict[Test, int] = field(default_factory=dict)
    of_tests: dict[int, Ints] = field(default_factory=dict)  # by identity: many trees share their tests
    size: int = 0

    def add(self, trees: Iterable[Tree]) -> None:
        """Number the questions of these trees."""
        distinct = {id(tree.tests): tree.tests for tree in trees}
        packed: dict[Make, list[Thresholds]] = {}
        for tests in distinct.values():
            if isinstance(tests, Thresholds):
                packed.setdefault(tests.make, []).append(tests)
            else:
                self._add_plain(tests)
        for make, some in packed.items():
            self._add_packed(make, some)

    def of(self, tree: Tree) -> Ints:
        """Per node of a tree that was added the number of its question, -1 at a leaf."""
        return np.where(tree.left < 0, -1, self.of_tests[id(tree.tests)])

    def _add_plain(self, tests: Tests) -> None:
        numbers = [-1 if test is None else self._number(test) for test in tests]
        self.of_tests[id(tests)] = np.array(numbers, dtype=np.int64)

    def _add_packed(self, make: Make, some: list[Thresholds]) -> None:
        column, threshold, kind = (
            np.concatenate([getattr(tests, name) for tests in some]) for name in ("column", "threshold", "kind")
        )
        numbers = np.full(len(column), -1, dtype=np.int64)
        for each in np.unique(column[column >= 0]).tolist():
            here = np.flatnonzero(column == each)
            first, classes = alike(threshold[here], kind[here], self.columns.values[each])
            asked = zip(threshold[here[first]].tolist(), kind[here[first]].tolist(), strict=True)
            numbers[here] = np.array([self._number(make(each, *one)) for one in asked], dtype=np.int64)[classes]
        parts = np.split(numbers, starts_of(np.array([len(tests) for tests in some]))[1:-1])
        for tests, part in zip(some, parts, strict=True):
            for node, test in tests.others.items():
                part[node] = self._number(test)
            self.of_tests[id(tests)] = part

    def _number(self, test: Test) -> int:
        known = self.of_test.get(test)
        if known is not None:
            return known
        feature, flags = self._asked(test)
        left = np.packbits(flags).tobytes()
        before = len(self.numbers)
        number = self.numbers.setdefault((feature, left), before)
        self.size += len(left) * (len(self.numbers) - before)
        if self.size > MOST_BYTES:
            raise Unreadable(
                f"it tells too many values apart for exact search ({len(self.numbers):,} questions, features of up to "
                f"{max(map(len, self.columns.values)):,} values); a space with coarser grids would help"
            )
        self.of_test[test] = number
        return number

    def _asked(self, test: Test) -> tuple[int, Mask]:
        """The feature that a test asks about, and which of its codes go left."""
        if isinstance(test, Within):
            return test.feature, test.goes_left(NO_VALUES)
        return int(self.columns.features[test.column]), test.goes_left(self.columns.values[test.column])

    def of_features(self, count: int) -> list[tuple[Ints, Bytes]]:
        """Per feature the numbers of its questions, and their codes, a row each."""
        numbers: list[list[int]] = [[] for _ in range(count)]
        rows: list[list[bytes]] = [[] for _ in range(count)]
        for (feature, left), number in self.numbers.items():
            numbers[feature].append(number)
            rows[feature].append(left)
        return [
            (np.array(some, dtype=np.int64), np.frombuffer(b"".join(left), dtype=np.uint8).reshape(len(some), width))
            for some, left in zip(numbers, rows, strict=True)
            for width in [len(left[0]) if left else 0]
        ]


def cells_of(sizes: list[int], asked: list[tuple[Ints, Bytes]]) -> tuple[Cells, list[Ints]]:
    """The cells, and per feature the first code of each."""
    of_code, firsts = [], []
    for size, (_, rows) in zip(sizes, asked, strict=True):
        answers = _per_code(rows, size)
        _, first, inverse = np.unique(answers, axis=0, return_index=True, return_inverse=True)
        of_code.append(np.argsort(np.argsort(first))[inverse.ravel()].astype(np.int64))
        firsts.append(np.sort(first).astype(np.int64))
    counts = np.array([len(first) for first in firsts], dtype=np.int64)
    flat = np.concatenate([codes + start for codes, start in zip(of_code, starts_of(counts), strict=False)])
    codes = np.concatenate([np.argsort(cells, kind="stable") for cells in of_code]).astype(np.int64)
    codes_starts = starts_of(np.bincount(flat, minlength=int(counts.sum())))
    word_starts, code_starts = starts_of((counts + 63) // 64), starts_of(np.array(sizes))
    return Cells(word_starts, starts_of(counts), code_starts, np.concatenate(of_code), codes_starts, codes), firsts


def _per_code(rows: Bytes, size: int) -> Bytes:
    """The answers to questions, a row per code instead of a row per question; in blocks, to save memory."""
    if len(rows) == 0:
        return np.zeros((size, 1), dtype=np.uint8)
    blocks = (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))
    return np.concatenate([np.packbits(np.unpackbits(some, axis=1, count=size), axis=0) for some in blocks]).T


def masks_of(first: Ints, rows: Bytes) -> Words:
    """Questions about a feature as masks of its cells, bit c standing for cell c, in rows of words."""
    masks = np.zeros((len(rows), 8 * ((len(first) + 63) // 64)), dtype=np.uint8)
    for start in range(0, len(rows), BLOCK):
        left = np.unpackbits(rows[start : start + BLOCK], axis=1)[:, first]
        masks[start : start + BLOCK, : (len(first) + 7) // 8] = np.packbits(left, axis=1, bitorder="little")
    return masks.view("<u8").astype(np.uint64)
