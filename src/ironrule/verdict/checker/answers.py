"""What a path through a tree leaves of a feature: sets of codes, and which of them a piece of the space meets.

A node is in reach of a piece only if the piece has, for every feature that the path to it asks about, a code that gives
all the answers on the path: with two thresholds one code must lie between both. So each edge of a tree stands for the
set of codes that are left of its feature after all the answers from the root on. Equal sets are one *answer*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ironrule.verdict.checker.questions import BLOCK, Bytes, Flags, Ints, Questions

MOST_CELLS = 1 << 24


class Runs(NamedTuple):
    """The codes of each set as runs of neighbours (first, and one past the last). Every set ends with an empty run."""

    owners: Ints  # per set, its first run
    first: Ints
    end: Ints


@dataclass(slots=True, eq=False)
class Answers:
    """Sets of codes, numbered as they come up; eight codes to a byte."""

    questions: Questions
    sets: list[bytes] = field(default_factory=list)
    known: dict[tuple[int, bytes], int] = field(default_factory=dict)
    features: list[int] = field(default_factory=list)
    plain: Ints = field(init=False)  # per question the answers yes and no, one after the other
    pairs: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plain = []
        for feature, (rows, size) in enumerate(zip(self.questions.codes, self.questions.sizes, strict=True)):
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

    def narrowed(self, before: Ints, answer: Ints) -> Ints:
        """For pairs of answers about one feature, the codes that give both; -1 before stands for all codes."""
        both, places = np.unique(np.stack([before, answer], axis=1), axis=0, return_inverse=True)
        found = np.array([self._both(int(one), int(other)) for one, other in both], dtype=np.intp)
        return found[places.ravel()]

    def _both(self, one: int, other: int) -> int:
        if one < 0:
            return other
        if (one, other) not in self.pairs:
            rows = [np.frombuffer(self.sets[place], dtype=np.uint8) for place in (one, other)]
            self.pairs[one, other] = self._number(self.features[one], rows[0] & rows[1])
        return self.pairs[one, other]

    def about(self, feature: int) -> Ints:
        """The answers about a feature."""
        return np.flatnonzero(np.array(self.features, dtype=np.intp) == feature)

    def runs(self, feature: int) -> Runs:
        """These as runs."""
        size, rows = self.questions.sizes[feature], [self.sets[place] for place in self.about(feature).tolist()]
        return _runs(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), (size + 7) // 8), size)


def meets(runs: Runs, size: int, sets: Flags) -> Flags:
    """For every answer about a feature and every set of its codes, whether some code of the set gives it.

    A set meets a run if the set's first code from the run's beginning on comes before the run's end.
    """
    met = np.zeros((len(runs.owners), len(sets)), dtype=np.bool_)
    step = max(1, MOST_CELLS // max(1, len(runs.first)))
    for part in (slice(start, start + step) for start in range(0, len(sets) if len(runs.owners) else 0, step)):
        following = np.full((len(sets[part]), size + 1), size, dtype=np.int32)
        following[:, :-1] = np.where(sets[part], np.arange(size), size)
        following = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
        inside = following[:, runs.first] < runs.end
        met[:, part] = np.logical_or.reduceat(inside, runs.owners, axis=1).T
    return met


def _runs(rows: Bytes, size: int) -> Runs:
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
