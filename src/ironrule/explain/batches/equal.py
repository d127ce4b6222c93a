"""Which of many rows are equal: by a hash of each, of which eight bytes are kept, and then by the rows themselves.

Two rows with one hash are compared before they are called equal, so a collision costs a little time and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.space import Points

SCATTER, HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)

Integers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


def first_equal(points: Any, chunk: int) -> Integers:
    """For every row the place of the first one equal to it; codes are read so many rows at a time."""
    if len(points) == 0:
        return np.empty(0, dtype=np.int64)
    hashes = np.concatenate([_hashes(points[start : start + chunk]) for start in range(0, len(points), chunk)])
    _, places, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    first = np.asarray(places[inverse.ravel()], dtype=np.int64)
    others = np.concatenate([_unlike(points, first, start, chunk) for start in range(0, len(points), chunk)])
    if len(others):
        _, places, inverse = np.unique(points[others], axis=0, return_index=True, return_inverse=True)
        first[others] = others[places[inverse.ravel()]]
    return first


def _hashes(points: Points) -> Hashes:
    """A hash of every row."""
    mixed = np.zeros(len(points), dtype=np.uint64)
    for column in points.T:
        mixed = (mixed ^ (mixed >> HALF) ^ column.astype(np.uint64)) * SCATTER
    return mixed


def _unlike(points: Any, first: Integers, start: int, chunk: int) -> Integers:
    """The places, within a chunk, of rows that are not what the first row with their hash is."""
    differ = (points[start : start + chunk] != points[first[start : start + chunk]]).any(axis=1)
    return start + np.flatnonzero(differ)
