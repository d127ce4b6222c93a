"""The history: the database of past rows with their outcomes under the model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
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

    def __len__(self) -> int:
        return len(self.outcomes)

    def coverage(self, box: Box, sizes: Any) -> int:
        """How many past rows lie in a box."""
        return int(np.count_nonzero(self.codes.inside(box.low, box.high, sizes)))


def history_of(space: Space, codes: Codes, outcomes: npt.NDArray[np.bool_]) -> History:
    """Prepare a history for searches."""
    places = np.flatnonzero(outcomes)
    if len(places) > SEED_ROWS:
        places = np.sort(np.random.default_rng(0).choice(places, SEED_ROWS, replace=False))
    frequencies = tuple(
        np.bincount(column, minlength=size).astype(np.int64)
        for column, size in zip(codes.columns, space.sizes, strict=True)
    )
    return History(codes, outcomes, codes.take(outcomes), codes.points(places), frequencies)


def behaviour(history: History) -> str:
    """A hash of what a model decided on past rows: all that is known of one that can only be asked."""
    rows = history.codes.points(slice(0, BEHAVIOUR_ROWS))
    return hashlib.sha256(rows.tobytes() + history.outcomes[:BEHAVIOUR_ROWS].tobytes()).hexdigest()
