"""The history: the database of past rows with their outcomes under the model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.rule import Box
from ironrule.space import Codes, Points, Space

SEED_ROWS = 50_000
BEHAVIOUR_ROWS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Past rows as codes, which of them are desired, and what searches read again and again.

    ``desired`` holds the desired rows alone, column by column (data consistency looks at no others); ``seeds`` a
    fixed choice of at most 50,000 of them as points; ``frequencies`` how often every code of every feature occurs.
    """

    codes: Codes
    outcomes: npt.NDArray[np.bool_]
    desired: Codes
    seeds: Points
    frequencies: tuple[npt.NDArray[np.int64], ...]
    places: npt.NDArray[np.int64] = field(init=False, repr=False)  # where in memory every column begins
    sizes: npt.NDArray[np.int64] = field(init=False, repr=False)  # how many bytes a code of it takes

    def __post_init__(self) -> None:
        columns = tuple(np.ascontiguousarray(column, dtype=_unsigned(column)) for column in self.codes.columns)
        object.__setattr__(self, "codes", Codes(columns))
        object.__setattr__(self, "places", np.array([column.ctypes.data for column in columns], dtype=np.int64))
        object.__setattr__(self, "sizes", np.array([column.itemsize for column in columns], dtype=np.int64))

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has its columns elsewhere in memory."""
        return History, (self.codes, self.outcomes, self.desired, self.seeds, self.frequencies)

    def __len__(self) -> int:
        return len(self.outcomes)

    def fingerprint(self) -> str:
        """A hash of all past rows and their outcomes."""
        digest = hashlib.sha256(np.ascontiguousarray(self.outcomes).tobytes())
        for column in self.codes.columns:
            digest.update(column.dtype.str.encode())
            digest.update(column.data)
        return digest.hexdigest()

    def coverage(self, box: Box, sizes: Any) -> int:
        """How many past rows lie in a box."""
        from ironrule.rule.count_kernels import count_inside

        return count_inside((self.places, self.sizes), (box.low, box.high), sizes, len(self))


def _unsigned(column: npt.NDArray[Any]) -> npt.DTypeLike:
    """A type that the compiled pass knows: the column's own, as a rule."""
    return column.dtype if column.dtype in (np.uint8, np.uint16, np.uint32) else np.dtype(np.uint32)


def history_of(space: Space, codes: Codes, outcomes: npt.NDArray[np.bool_], desired: Codes | None = None) -> History:
    """Prepare a history for searches; ``desired`` are its desired rows, where somebody has them already."""
    places = np.flatnonzero(outcomes)
    if len(places) > SEED_ROWS:
        places = np.sort(np.random.default_rng(0).choice(places, SEED_ROWS, replace=False))
    frequencies = tuple(
        np.bincount(column, minlength=size).astype(np.int64)
        for column, size in zip(codes.columns, space.sizes, strict=True)
    )
    return History(codes, outcomes, desired or codes.take(outcomes), codes.points(places), frequencies)


def behaviour(history: History) -> str:
    """A hash of what a model decided on past rows: all that is known of one that can only be asked."""
    rows = history.codes.points(slice(0, BEHAVIOUR_ROWS))
    return hashlib.sha256(rows.tobytes() + history.outcomes[:BEHAVIOUR_ROWS].tobytes()).hexdigest()
