"""The pieces that a cover cuts a box into: for every piece and every feature the codes that are left.

A cut sends some codes of one feature to its first part and all others to its second, so the pieces are a partition of
the box whatever the cuts are; nobody needs to look for gaps. Most pieces share most of their sets of codes: every
distinct set of a feature is kept once, and a piece is a row of numbers of sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

CLOSED = -1
Split = tuple[int, tuple[tuple[int, int], ...]]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]


class Fails(Exception):  # noqa: N818  # an answer about a claim, not a failure of the checker
    """Why a claim is false."""


@dataclass(frozen=True, slots=True)
class Cover:
    """How a box is cut into pieces."""

    splits: tuple[Split, ...]
    tree: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """``sets[j]`` has the distinct sets of feature j, one row of flags over its codes each; ``rows`` has for every
    piece the numbers of its sets. No set is empty: a piece with nothing in it needs no proof.
    """

    sets: tuple[Mask, ...]
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def codes(self, piece: int) -> list[npt.NDArray[np.intp]]:
        """For every feature the codes of one piece."""
        return [np.flatnonzero(sets[row]) for sets, row in zip(self.sets, self.rows[piece], strict=True)]

    def some(self, chosen: npt.NDArray[np.intp]) -> Pieces:
        """Some of the pieces."""
        return Pieces(self.sets, self.rows[chosen])


def pieces_of(cover: Cover, low: Sequence[int], high: Sequence[int], sizes: Sequence[int]) -> Pieces:
    """Cut a box as a cover says; raises Fails if the cover is not well formed."""
    cuts = [_cut(split, sizes) for split in cover.splits]
    known = [_Sets.of(first, last) for first, last in zip(low, high, strict=True)]
    rows, pending = list[list[int]](), [[0] * len(sizes)]
    for place in cover.tree:
        if not pending or not CLOSED <= place < len(cuts):
            raise Fails("a cover's tree must name every part once and only cuts that are listed, but this one does not")
        here = pending.pop()
        if place == CLOSED:
            rows.append(here)
            continue
        feature, inside = cuts[place]
        other = here.copy()
        here[feature], other[feature] = known[feature].divided(here[feature], place, inside)
        pending += [other, here]
    if pending:
        raise Fails("a cover's tree must name every part once, but this one ends early")
    return _filled(known, np.array(rows, dtype=np.int32).reshape(-1, len(sizes)), sizes)


def _cut(split: Split, sizes: Sequence[int]) -> tuple[int, int]:
    """The feature of a cut, and the codes of its first part, as bits."""
    feature, ranges = split
    if not 0 <= feature < len(sizes):
        raise Fails(f"a cut must name a feature from 0 to {len(sizes) - 1}, but {feature} came")
    inside, end = 0, -1
    for first, last in ranges:
        if not end < first <= last < sizes[feature]:
            raise Fails(f"the ranges of a cut must be codes of its feature, in order, but {first} to {last} came")
        inside |= _bits(first, last)
        end = last
    return feature, inside


def _bits(first: int, last: int) -> int:
    return (1 << last + 1) - (1 << first)


@dataclass(slots=True)
class _Sets:
    """The distinct sets of one feature, as bits, numbered as they come up."""

    masks: list[int]
    numbers: dict[int, int]
    parts: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, low: int, high: int) -> _Sets:
        mask = _bits(low, high)
        return cls([mask], {mask: 0})

    def flags(self, size: int) -> Mask:
        """A row of flags over the codes for every set."""
        width = (size + 7) // 8
        packed = np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in self.masks), dtype=np.uint8)
        return np.unpackbits(packed.reshape(-1, width), axis=1, count=size, bitorder="little").astype(np.bool_)

    def divided(self, number: int, cut: int, inside: int) -> tuple[int, int]:
        """The numbers of the two parts that a cut makes of a set."""
        if (number, cut) not in self.parts:
            whole = self.masks[number]
            self.parts[number, cut] = (self._number(whole & inside), self._number(whole & ~inside))
        return self.parts[number, cut]

    def _number(self, mask: int) -> int:
        if mask not in self.numbers:
            self.numbers[mask] = len(self.masks)
            self.masks.append(mask)
        return self.numbers[mask]


def _filled(known: list[_Sets], rows: Ints, sizes: Sequence[int]) -> Pieces:
    """The pieces that have something in them."""
    sets = tuple(one.flags(size) for one, size in zip(known, sizes, strict=True))
    there = np.ones(len(rows), dtype=np.bool_)
    for j, some in enumerate(sets):
        there &= np.asarray(some.any(axis=1))[rows[:, j]]
    return Pieces(sets, rows[there])
