"""The splits of a reading as sets of codes, and what a path through a tree leaves of each feature.

Splits that send the same codes of a feature to the left are one *split set*: a forest of a million nodes has a few
thousand. Two codes of a feature are in one class if they are on the same side of every split set and every term sees
the same value: the model then computes the same for both, to the last bit.

A node is in reach of a piece only if the piece has, for every feature that the path to it asks about, a code that goes
that way at every node: with two thresholds one code must lie between both. So each edge of a tree stands for the *path
set*: the codes that are left of its feature after all splits from the root on. Equal path sets are numbered once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.checker.columns import Column
from ironrule.checker.readings.normal_form import Integers, Mask, Part, Split, SumReading, Tree

Bytes = npt.NDArray[np.uint8]
Points = npt.NDArray[np.int32]

BLOCK = 512
MOST_CELLS = 1 << 24


@dataclass(frozen=True, eq=False)
class SplitSets:
    """``codes[j]`` has the split sets of feature j: per set the codes that go left, eight to a byte. Sets are numbered
    feature by feature.
    """

    sizes: tuple[int, ...]
    codes: tuple[Bytes, ...]
    of_splits: dict[int, Integers]  # by identity of a tree's splits: the set of every node, -1 at a leaf
    seen: tuple[tuple[npt.NDArray[np.generic], ...], ...]  # per feature, what its terms see of every code

    @cached_property
    def classes(self) -> tuple[Integers, ...]:
        """The class of every code, feature by feature."""
        return tuple(_classify(*three) for three in zip(self.sizes, self.codes, self.seen, strict=True))

    @cached_property
    def features(self) -> Integers:
        """The feature of every split set."""
        return np.repeat(np.arange(len(self.codes)), [len(rows) for rows in self.codes])

    @cached_property
    def _flat(self) -> tuple[Bytes, Integers]:
        """All split sets end to end, and where each begins."""
        lengths = np.concatenate([[0], *(np.full(len(rows), rows.shape[1]) for rows in self.codes)])
        return np.concatenate([np.empty(0, np.uint8), *(rows.ravel() for rows in self.codes)]), np.cumsum(lengths)

    def goes_left(self, sets: Integers, points: Points) -> Mask:
        """Whether each point goes left at a split set of its own."""
        flat, starts = self._flat
        codes = points[np.arange(len(points)), self.features[sets]]
        return np.asarray((flat[starts[sets] + (codes >> 3)] >> (7 - (codes & 7))) & 1, dtype=np.bool_)


def _classify(size: int, rows: Bytes, seen: tuple[npt.NDArray[np.generic], ...]) -> Integers:
    """The class of every code of one feature."""
    parts = [np.unique(values, return_inverse=True)[1].reshape(-1, 1).astype("<u4").view(np.uint8) for values in seen]
    for start in range(0, len(rows), BLOCK):
        parts.append(np.packbits(np.unpackbits(rows[start : start + BLOCK], axis=1, count=size), axis=0).T)
    if not parts:
        return np.zeros(size, dtype=np.intp)
    _, classes = np.unique(np.ascontiguousarray(np.concatenate(parts, axis=1)), axis=0, return_inverse=True)
    return np.asarray(classes.ravel(), dtype=np.intp)


def collect_split_sets(reading: SumReading, columns: Sequence[Column], sizes: Sequence[int]) -> SplitSets:
    """All split sets of a reading over columns."""
    parts = [part for margins in reading.alternatives for margin in margins for part in margin.parts]
    found = _SetCollector(columns, [{} for _ in sizes])
    places = {id(tree.splits): found.locate(tree) for part in parts for tree in part.trees}
    starts = np.concatenate([[0], np.cumsum([len(known) for known in found.known])])
    return SplitSets(
        tuple(sizes),
        tuple(_stack(known, size) for known, size in zip(found.known, sizes, strict=True)),
        {key: np.where(place < 0, -1, starts[feature] + place) for key, (feature, place) in places.items()},
        _values_of_terms(parts, columns, len(sizes)),
    )


def _stack(known: dict[bytes, int], size: int) -> Bytes:
    return np.frombuffer(b"".join(known), dtype=np.uint8).reshape(len(known), (size + 7) // 8)


def _values_of_terms(
    parts: Sequence[Part], columns: Sequence[Column], count: int
) -> tuple[tuple[npt.NDArray[np.generic], ...], ...]:
    used = sorted({term.column for part in parts for term in part.terms})
    return tuple(tuple(columns[k].values for k in used if columns[k].feature == j) for j in range(count))


@dataclass(slots=True)
class _SetCollector:
    """Per feature the split sets that have come up, numbered, by the codes that go left."""

    columns: Sequence[Column]
    known: list[dict[bytes, int]]
    of_split: dict[Split, tuple[int, int]] = field(default_factory=dict)
    of_splits: dict[int, tuple[Integers, Integers]] = field(default_factory=dict)

    def locate(self, tree: Tree) -> tuple[Integers, Integers]:
        """For every node the feature of its split and the split set's number there; -1 at a leaf."""
        if id(tree.splits) not in self.of_splits:
            found = [(-1, -1) if split is None else self._locate_split(split) for split in tree.splits]
            features, places = np.array(found, dtype=np.intp).reshape(-1, 2).T
            self.of_splits[id(tree.splits)] = (features, places)
        return self.of_splits[id(tree.splits)]

    def _locate_split(self, split: Split) -> tuple[int, int]:
        if split not in self.of_split:
            column = self.columns[split.column]
            left = np.packbits(np.asarray(split.goes_left(column.values), dtype=np.bool_)).tobytes()
            known = self.known[column.feature]
            self.of_split[split] = (column.feature, known.setdefault(left, len(known)))
        return self.of_split[split]


class Runs(NamedTuple):
    """The codes of path sets as runs of neighbours (first, and one past the last); each set ends with an empty run."""

    owners: Integers  # per set, its first run
    first: Integers
    end: Integers


@dataclass(slots=True, eq=False)
class PathSets:
    """Path sets, numbered as they come up; eight codes to a byte."""

    split_sets: SplitSets
    sets: list[bytes] = field(default_factory=list)
    known: dict[tuple[int, bytes], int] = field(default_factory=dict)
    features: list[int] = field(default_factory=list)
    plain: Integers = field(init=False)  # per split set the path sets left and right, one after the other
    pairs: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plain = []
        for feature, (rows, size) in enumerate(zip(self.split_sets.codes, self.split_sets.sizes, strict=True)):
            everything = np.packbits(np.ones(size, dtype=np.bool_))
            for row in rows:
                plain += [self._number(feature, row), self._number(feature, everything & ~row)]
        self.plain = np.array(plain, dtype=np.intp)

    def _number(self, feature: int, row: Bytes) -> int:
        key = (feature, row.tobytes())
        if key not in self.known:
            self.known[key] = len(self.sets)
            self.sets.append(key[1])
            self.features.append(feature)
        return self.known[key]

    def intersect(self, before: Integers, after: Integers) -> Integers:
        """For pairs of path sets of one feature, the codes in both; -1 before stands for all codes."""
        pairs, places = np.unique(np.stack([before, after], axis=1), axis=0, return_inverse=True)
        found = np.array([self._intersect_pair(int(one), int(other)) for one, other in pairs], dtype=np.intp)
        return found[places.ravel()]

    def _intersect_pair(self, one: int, other: int) -> int:
        if one < 0:
            return other
        if (one, other) not in self.pairs:
            rows = [np.frombuffer(self.sets[place], dtype=np.uint8) for place in (one, other)]
            self.pairs[one, other] = self._number(self.features[one], rows[0] & rows[1])
        return self.pairs[one, other]

    def numbers_of(self, feature: int) -> Integers:
        """The path sets of a feature."""
        return np.flatnonzero(np.array(self.features, dtype=np.intp) == feature)

    def runs(self, feature: int) -> Runs:
        """These as runs."""
        size = self.split_sets.sizes[feature]
        rows = [self.sets[place] for place in self.numbers_of(feature).tolist()]
        return _find_runs(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), (size + 7) // 8), size)


def find_meeting(runs: Runs, size: int, sets: Mask) -> Mask:
    """For every path set of a feature and every set of its codes, whether they have a code in common.

    A set meets a run if the set's first code from the run's beginning on comes before the run's end.
    """
    met = np.zeros((len(runs.owners), len(sets)), dtype=np.bool_)
    step = max(1, MOST_CELLS // max(1, len(runs.first)))
    for start in range(0, len(sets) if len(runs.owners) else 0, step):
        part = sets[start : start + step]
        following = np.full((len(part), size + 1), size, dtype=np.int32)  # per code, the next one in the set
        following[:, :-1] = np.where(part, np.arange(size), size)
        following = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
        inside = following[:, runs.first] < runs.end
        met[:, start : start + step] = np.logical_or.reduceat(inside, runs.owners, axis=1).T
    return met


def _find_runs(rows: Bytes, size: int) -> Runs:
    firsts, ends, counts = [], [], []
    for start in range(0, len(rows), BLOCK):
        padded = np.zeros((len(rows[start : start + BLOCK]), size + 2), dtype=np.int8)
        padded[:, 1:-1] = np.unpackbits(rows[start : start + BLOCK], axis=1, count=size)
        steps = np.diff(padded, axis=1, append=0)  # one column more, for the empty run at the end
        begins, stops = steps == 1, steps == -1
        begins[:, size], stops[:, size + 1] = True, True
        firsts.append(np.nonzero(begins)[1])
        ends.append(np.nonzero(stops)[1] % (size + 1))
        counts.append(begins.sum(axis=1))
    if not counts:
        return Runs(*(np.empty(0, dtype=np.intp) for _ in range(3)))
    owners = np.concatenate([[0], np.cumsum(np.concatenate(counts))[:-1]])
    return Runs(owners.astype(np.intp), np.concatenate(firsts), np.concatenate(ends))
