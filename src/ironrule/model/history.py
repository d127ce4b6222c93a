"""The history: past rows as codes, with their outcomes under the model, and how many of them lie in boxes.

A search counts past rows in many boxes that lie inside one box. :class:`RowCounter` finds the rows of that box once,
and then reads only them, and only the features in which the boxes differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Int32Array, Int64Array, Points
from ironrule.rule.box import Box
from ironrule.space.codes import EncodedTable
from ironrule.space.reduced import ReducedSpace
from ironrule.space.space import Space

SEED_ROWS = 50_000
FINGERPRINT_ROWS = 4096
COMPILED_TYPES = (np.uint8, np.uint16, np.uint32)  # of codes that the compiled passes know


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class History:
    """Past rows as codes, which of them are desired, and what searches read again and again.

    ``desired`` holds the desired rows alone, column by column (data consistency looks at no others); ``seeds`` a
    fixed choice of at most 50,000 of them as points; ``frequencies`` how often every code of every feature occurs.
    """

    codes: EncodedTable
    outcomes: BoolArray
    desired: EncodedTable
    seeds: Points
    frequencies: tuple[Int64Array, ...]
    addresses: Int64Array = field(init=False, repr=False)  # where in memory every column begins
    item_sizes: Int64Array = field(init=False, repr=False)  # how many bytes a code of it takes

    def __post_init__(self) -> None:
        types = [column.dtype if column.dtype in COMPILED_TYPES else np.uint32 for column in self.codes.columns]
        columns = tuple(map(np.ascontiguousarray, self.codes.columns, types))
        object.__setattr__(self, "codes", EncodedTable(columns))
        object.__setattr__(self, "addresses", np.array([column.ctypes.data for column in columns], dtype=np.int64))
        object.__setattr__(self, "item_sizes", np.array([column.itemsize for column in columns], dtype=np.int64))

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has its columns elsewhere in memory."""
        return History, (self.codes, self.outcomes, self.desired, self.seeds, self.frequencies)

    def __len__(self) -> int:
        return len(self.outcomes)

    def reduce(self, reduced: ReducedSpace) -> History:
        """The same past rows in some features alone."""
        if reduced.is_whole:
            return self
        codes, desired = reduced.reduce_table(self.codes), reduced.reduce_table(self.desired)
        frequencies = tuple(self.frequencies[j] for j in reduced.kept.tolist())
        return History(codes, self.outcomes, desired, reduced.reduce(self.seeds), frequencies)

    def fingerprint(self) -> str:
        """A hash of all past rows and their outcomes."""
        digest = hashlib.sha256(np.ascontiguousarray(self.outcomes).tobytes())
        for column in self.codes.columns:
            digest.update(column.dtype.str.encode())
            digest.update(column.data)
        return digest.hexdigest()

    def count_covered(self, box: Box, sizes: Any) -> int:
        """How many past rows lie in a box."""
        from ironrule.rule.kernels import count_rows_inside

        return count_rows_inside((self.addresses, self.item_sizes), (box.low, box.high), sizes, len(self))


def build_history(
    space: Space, codes: EncodedTable, outcomes: BoolArray, desired: EncodedTable | None = None
) -> History:
    """Prepare a history for searches; ``desired`` are its desired rows, where they are at hand already."""
    places = np.flatnonzero(outcomes)
    if len(places) > SEED_ROWS:
        places = np.sort(np.random.default_rng(0).choice(places, SEED_ROWS, replace=False))
    columns = zip(codes.columns, space.sizes, strict=True)
    frequencies = tuple(np.bincount(column, minlength=size).astype(np.int64) for column, size in columns)
    return History(codes, outcomes, desired or codes.take(outcomes), codes.points(places), frequencies)


def fingerprint_outcomes(codes: EncodedTable, outcomes: BoolArray) -> str:
    """A hash of what a model decided on past rows: all that is known of one that can only be asked."""
    rows = codes.points(slice(0, FINGERPRINT_ROWS))
    return hashlib.sha256(rows.tobytes() + outcomes[:FINGERPRINT_ROWS].tobytes()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, eq=False)
class RowCounter:
    """Past rows, as far as some features tell them apart."""

    columns: tuple[AnyArray, ...]
    addresses: Int64Array  # where in memory every column begins
    item_sizes: Int64Array  # how many bytes a code of it takes
    features: Int64Array  # which feature it is of
    sizes: Int32Array  # how many codes that has
    rows: int

    @classmethod
    def from_history(cls, history: History, sizes: Int32Array) -> RowCounter:
        """All past rows."""
        arrays = history.codes.columns, history.addresses, history.item_sizes
        return cls(*arrays, np.arange(len(sizes)), sizes, len(history))

    def count(self, box: Box) -> int:
        """How many of the rows lie in a box."""
        from ironrule.rule.kernels import count_rows_inside

        return count_rows_inside(*self._build_arguments(box))

    def count_each(self, boxes: Box) -> Int64Array:
        """How many of the rows lie in each of many boxes."""
        from ironrule.rule.kernels import count_rows_inside_each

        counts = np.empty(len(boxes.low), dtype=np.int64)
        count_rows_inside_each(counts, *self._build_arguments(boxes))
        return counts

    def restrict(self, box: Box, features: Sequence[int]) -> RowCounter:
        """The rows in a box, to be counted in boxes inside it that differ from it in some features alone."""
        from ironrule.rule.kernels import list_rows_inside

        rows = np.empty(self.count(box) + 1, dtype=np.int64)
        list_rows_inside(rows, *self._build_arguments(box))
        chosen = np.array([np.flatnonzero(self.features == feature)[0] for feature in features], dtype=np.int64)
        columns = tuple(self.columns[place][rows[:-1]] for place in chosen)
        places = np.array([column.ctypes.data for column in columns], dtype=np.int64)
        kept, sizes = self.features[chosen], self.sizes[chosen]
        return RowCounter(columns, places, self.item_sizes[chosen], features=kept, sizes=sizes, rows=len(rows) - 1)

    def _build_arguments(self, box: Box) -> tuple[Any, ...]:
        restricted = box.low[..., self.features], box.high[..., self.features]
        return (self.addresses, self.item_sizes), restricted, self.sizes, self.rows
