"""The pieces that a cover splits a box into: for every piece and every feature the codes that are left.

A split sends some codes of one feature to its first piece and all others to its second, so the pieces are a partition
of the box whatever the splits are; there is nothing left out to look for. Most pieces share most of their sets of
codes: every distinct set of a feature is kept once, and a piece is a row of numbers of sets.

Where the numbers between two values count too, a code stands for all of them from its own value up to the next one,
both included, if the box has both: these make up all numbers of the box. To bound a piece over them is to bound it over
the values at both ends of every such gap (:meth:`Pieces.reach_across_gaps`), for what is seen of them lies in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Int32Array, IntpArray
from ironrule.checker.document import NO_SPLIT, CoverClaim
from ironrule.checker.result import ClaimFailed

CHUNK_POINTS = 1 << 16
CodeSets = Sequence[IntpArray]  # some codes of every feature


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """``sets[j]`` has the distinct sets of feature j, one row of flags over its codes each; ``rows`` has for every
    piece the numbers of its sets. No set is empty: a piece with nothing in it needs no proof. ``gaps`` has for some
    features the codes of the box that stand for further numbers, up to the next code.
    """

    sets: tuple[BoolArray, ...]
    rows: Int32Array
    gaps: Mapping[int, BoolArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def codes(self, piece: int) -> CodeSets:
        """For every feature the codes of one piece."""
        return [np.flatnonzero(sets[row]) for sets, row in zip(self.sets, self.rows[piece], strict=True)]

    def select(self, chosen: IntpArray) -> Pieces:
        """Some of the pieces."""
        return Pieces(self.sets, self.rows[chosen], self.gaps)

    def with_gaps(self, gaps: Mapping[int, BoolArray], high: Sequence[int]) -> Pieces:
        """The pieces of a box with these last codes, where the numbers in gaps count: ``gaps`` says of some features,
        for every value but the last, whether numbers lie between it and the next.
        """
        flags = {j: np.zeros(self.sets[j].shape[1], dtype=np.bool_) for j in gaps}
        for j, opened in gaps.items():
            inside = opened[: high[j]]  # of a gap behind the last code the box has one end alone
            flags[j][: len(inside)] = inside
        return replace(self, gaps=flags)

    def reach_across_gaps(self) -> Pieces:
        """The pieces with the codes at the other ends of their gaps. They are no partition any more."""
        sets = list(self.sets)
        for feature, flags in self.gaps.items():
            sets[feature] = sets[feature].copy()
            sets[feature][:, 1:] |= (self.sets[feature] & flags)[:, :-1]
        return Pieces(tuple(sets), self.rows)

    def flag_gaps(self) -> BoolArray:
        """Which pieces stand for numbers between the values of a domain."""
        found = np.zeros(len(self), dtype=np.bool_)
        for feature, flags in self.gaps.items():
            found |= np.asarray((self.sets[feature] & flags).any(axis=1))[self.rows[:, feature]]
        return found


PieceTest = Callable[[Pieces], BoolArray]  # which pieces pass it


def split_box(cover: CoverClaim, low: Sequence[int], high: Sequence[int], sizes: Sequence[int]) -> Pieces:
    """Split a box as a cover says; raises ClaimFailed if the cover is not well formed."""
    splits = [_read_split(feature, ranges, sizes) for feature, ranges in cover.splits]
    boxes = [_build_range_mask(first, last) for first, last in zip(low, high, strict=True)]
    known = [_SetRegistry([mask], {mask: 0}) for mask in boxes]
    # The tree lists the parts depth first, so the parts still to be described wait on a stack.
    rows, waiting = list[list[int]](), [[0] * len(sizes)]
    for place in cover.tree:
        if not waiting or not NO_SPLIT <= place < len(splits):
            raise ClaimFailed("a cover's tree must name every part once, and only cuts that are listed")
        here = waiting.pop()
        if place == NO_SPLIT:
            rows.append(here)
            continue
        feature, inside = splits[place]
        other = here.copy()
        here[feature], other[feature] = known[feature].divide(here[feature], place, inside)
        waiting += [other, here]
    if waiting:
        raise ClaimFailed("a cover's tree must name every part once, but this one ends early")
    return _drop_empty_pieces(known, np.array(rows, dtype=np.int32).reshape(-1, len(sizes)), sizes)


def _read_split(feature: int, ranges: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[int, int]:
    """The feature of a split, and the codes of its first part as bits."""
    if not 0 <= feature < len(sizes):
        raise ClaimFailed(f"a cut must name a feature from 0 to {len(sizes) - 1}, got {feature}")
    inside, end = 0, -1
    for first, last in ranges:
        if not end < first <= last < sizes[feature]:
            raise ClaimFailed(f"the ranges of a cut must be codes of its feature in order, got {first} to {last}")
        inside |= _build_range_mask(first, last)
        end = last
    return feature, inside


def _build_range_mask(first: int, last: int) -> int:
    return (1 << last + 1) - (1 << first)


@dataclass(slots=True)
class _SetRegistry:
    """The distinct sets of one feature, as bits, numbered as they come up."""

    masks: list[int]
    numbers_by_mask: dict[int, int]
    parts: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def flags(self, size: int) -> BoolArray:
        """A row of flags over the codes for every set."""
        width = (size + 7) // 8
        packed = np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in self.masks), dtype=np.uint8)
        return np.unpackbits(packed.reshape(-1, width), axis=1, count=size, bitorder="little").astype(np.bool_)

    def divide(self, number: int, split: int, inside: int) -> tuple[int, int]:
        """The numbers of the two parts that a split makes of a set."""
        if (number, split) not in self.parts:
            whole = self.masks[number]
            self.parts[number, split] = (self._number(whole & inside), self._number(whole & ~inside))
        return self.parts[number, split]

    def _number(self, mask: int) -> int:
        if mask not in self.numbers_by_mask:
            self.numbers_by_mask[mask] = len(self.masks)
            self.masks.append(mask)
        return self.numbers_by_mask[mask]


def _drop_empty_pieces(known: list[_SetRegistry], rows: Int32Array, sizes: Sequence[int]) -> Pieces:
    """The pieces that have something in them, and the sets without the empty one."""
    sets, there = [one.flags(size) for one, size in zip(known, sizes, strict=True)], np.ones(len(rows), dtype=np.bool_)
    filled = [np.asarray(some.any(axis=1)) for some in sets]
    for j, some in enumerate(filled):
        there &= some[rows[:, j]]
    kept = rows[there]
    for j, some in enumerate(filled):
        kept[:, j] = (np.cumsum(some) - 1)[kept[:, j]]  # the set's number among those that are not empty
    return Pieces(tuple(one[some] for one, some in zip(sets, filled, strict=True)), kept)


def iterate_points(low: AnyArray, high: AnyArray) -> Iterator[Int32Array]:
    """All points of a box in order, some at a time."""
    free = np.flatnonzero(high > low)  # a NumPy array has fewer dimensions than a space may have features
    shape = tuple((high - low + 1)[free].tolist())
    for start in range(0, math.prod(shape), CHUNK_POINTS):
        flat = np.arange(start, min(start + CHUNK_POINTS, math.prod(shape)))
        points = np.repeat(low[None, :].astype(np.int32), len(flat), axis=0)
        for j, steps in zip(free, np.unravel_index(flat, shape) if shape else (), strict=True):
            points[:, j] += steps.astype(np.int32)
        yield points


def halve_pieces(pieces: Pieces, features: IntpArray, cells: Sequence[IntpArray]) -> Pieces:
    """Both halves of every piece, one after the other: of one feature the codes of the first half of the cells, and all
    others. A piece whose codes are of one cell is kept. Equal sets are split once.
    """
    sets, rows, known = [list(some) for some in pieces.sets], list[Int32Array](), dict[tuple[int, int], list[int]]()
    for row, feature in zip(pieces.rows, features.tolist(), strict=True):
        number = int(row[feature])
        if (feature, number) not in known:
            whole, of = pieces.sets[feature][number], cells[feature]
            present = np.unique(of[whole])
            known[feature, number] = [number]
            if len(present) > 1:
                first = whole & (of <= present[(len(present) - 1) // 2])
                known[feature, number] = [len(sets[feature]), len(sets[feature]) + 1]
                sets[feature] += [first, whole & ~first]
        for part in known[feature, number]:
            rows.append(row.copy())
            rows[-1][feature] = part
    return Pieces(tuple(map(np.array, sets)), np.array(rows, dtype=np.int32).reshape(-1, len(sets)), pieces.gaps)
