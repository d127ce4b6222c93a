"""What a reading asks about features: its tests as sets of codes, and the classes of codes that it cannot tell apart.

Tests that answer yes for the same codes of a feature are one *question*: a forest of a million nodes has a few
thousand. Two codes of a feature are in one class if every question has the same answer for both and every term sees the
same value: the model then computes the same, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.reading import Reading, Test, Tests, Tree, Unreadable
from ironrule.model.tabulate import Columns
from ironrule.model.thresholds import Thresholds
from ironrule.space import Points, Space

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]
Bytes = npt.NDArray[np.uint8]

BLOCK = 512


@dataclass(frozen=True, eq=False)
class Questions:
    """``codes[j]`` has the questions about feature j: per question the codes that answer yes, eight to a byte.

    Questions are numbered feature by feature.
    """

    sizes: tuple[int, ...]
    codes: tuple[Bytes, ...]
    of_tests: dict[int, Ints]  # by identity of a tree's tests: the question of every node, -1 for none
    seen: tuple[tuple[npt.NDArray[Any], ...], ...]  # per feature, what its terms see of every code

    def of(self, tree: Tree) -> Ints:
        """The question of every node of a tree; -1 for a leaf."""
        return np.where(tree.left < 0, -1, self.of_tests[id(tree.tests)])

    @cached_property
    def classes(self) -> tuple[Ints, ...]:
        """The class of every code, feature by feature."""
        return tuple(_classes(*three) for three in zip(self.sizes, self.codes, self.seen, strict=True))

    @cached_property
    def features(self) -> Ints:
        """The feature that every question is about."""
        return np.repeat(np.arange(len(self.codes)), [len(rows) for rows in self.codes])

    @cached_property
    def _bits(self) -> tuple[Bytes, Ints]:
        """All questions end to end, and where each begins."""
        lengths = np.concatenate([[0], *(np.full(len(rows), rows.shape[1]) for rows in self.codes)])
        return np.concatenate([np.empty(0, np.uint8), *(rows.ravel() for rows in self.codes)]), np.cumsum(lengths)

    def yes(self, questions: Ints, points: Points) -> Flags:
        """Whether the answer is yes, to one question for each point."""
        bits, starts = self._bits
        codes = points[np.arange(len(points)), self.features[questions]]
        return np.asarray((bits[starts[questions] + (codes >> 3)] >> (7 - (codes & 7))) & 1, dtype=np.bool_)


def _classes(size: int, rows: Bytes, seen: tuple[npt.NDArray[Any], ...]) -> Ints:
    """The class of every code of one feature."""
    parts = [np.unique(values, return_inverse=True)[1].reshape(-1, 1).astype("<u4").view(np.uint8) for values in seen]
    for start in range(0, len(rows), BLOCK):
        parts.append(np.packbits(np.unpackbits(rows[start : start + BLOCK], axis=1, count=size), axis=0).T)
    if not parts:
        return np.zeros(size, dtype=np.intp)
    _, classes = np.unique(np.ascontiguousarray(np.concatenate(parts, axis=1)), axis=0, return_inverse=True)
    return np.asarray(classes.ravel(), dtype=np.intp)


def questions_of(reading: Reading, columns: Columns, space: Space) -> Questions:
    """All that a reading asks."""
    groups = [group for margins in reading.alternatives for margin in margins for group in margin.groups]
    collected = _Collected(columns, [{} for _ in space.features])
    tests = {id(tree.tests): tree.tests for group in groups for tree in group.trees}
    asked = {key: collected.places(some) for key, some in tests.items()}
    starts = np.concatenate([[0], np.cumsum([len(known) for known in collected.known])])
    terms = sorted({term.column for group in groups for term in group.terms})
    return Questions(
        tuple(space.sizes.tolist()),
        tuple(_rows(known, size) for known, size in zip(collected.known, space.sizes.tolist(), strict=True)),
        {key: np.where(place < 0, -1, starts[feature] + place) for key, (feature, place) in asked.items()},
        tuple(tuple(columns.values[k] for k in terms if columns.features[k] == j) for j in range(len(space))),
    )


def _rows(known: dict[bytes, int], size: int) -> Bytes:
    return np.frombuffer(b"".join(known), dtype=np.uint8).reshape(len(known), (size + 7) // 8)


@dataclass(frozen=True, slots=True)
class _Collected:
    """Per feature the questions that have come up, numbered, by the codes that answer yes."""

    columns: Columns
    known: list[dict[bytes, int]]
    of_test: dict[Test, tuple[int, int]] = field(default_factory=dict)

    def places(self, tests: Tests) -> tuple[Ints, Ints]:
        """For every node the feature that its test asks about and the question's number there; -1 without a test."""
        found = np.full((2, len(tests)), -1, dtype=np.intp)
        for nodes, test in _alike(tests) if isinstance(tests, Thresholds) else _each(tests):
            found[:, nodes] = np.array(self._place(test))[:, None]
        return found[0], found[1]

    def _place(self, test: Test) -> tuple[int, int]:
        if test not in self.of_test:
            if test.column < 0:
                raise Unreadable("a test of its reading asks about nothing that the model sees")
            feature = int(self.columns.features[test.column])
            yes = np.asarray(test.goes_left(self.columns.values[test.column]), dtype=np.bool_)
            number = self.known[feature].setdefault(np.packbits(yes).tobytes(), len(self.known[feature]))
            self.of_test[test] = (feature, number)
        return self.of_test[test]


def _each(tests: Iterable[Test | None]) -> Iterator[tuple[Ints, Test]]:
    """Every node that has a test."""
    for node, test in enumerate(tests):
        if test is not None:
            yield np.array([node]), test


def _alike(tests: Thresholds) -> Iterator[tuple[Ints, Test]]:
    """Nodes with the same test, and that test."""
    keys = np.stack([tests.column.astype(np.float64), tests.threshold, tests.kind.astype(np.float64)], axis=1)
    _, places = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(places.ravel(), kind="stable")
    for nodes in np.split(order, np.cumsum(np.bincount(places.ravel()))[:-1]):
        test = tests[int(nodes[0])]
        if test is not None and tests.column[nodes[0]] >= 0:
            yield nodes, test
    yield from ((np.array([node]), test) for node, test in tests.others.items())
