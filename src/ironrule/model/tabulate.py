"""From what a model sees back to codes: every column that reaches the model is a table over one feature's codes.

A feature has finitely many values, so any preprocessing that works column by column (scaling, imputing, one-hot or
ordinal or target encoding, binning) is a table: run the user's own transformer on every value of every domain, once,
and look what comes out. Preprocessing that mixes columns cannot be written so; it is noticed, because a column then
depends on two features, or because points put together from the tables differ from what the transformer really gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.reading import Unreadable
from ironrule.space import Points, Space

CHECKED_POINTS = 2048
MOST_PROBES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns that a model sees: for each the feature that it comes from, and its value for every code.

    A column that no feature changes belongs to feature 0 and has the same value everywhere.
    """

    features: npt.NDArray[np.intp]
    values: tuple[npt.NDArray[Any], ...]

    def at(self, points: Points) -> npt.NDArray[Any]:
        """What the model sees at points, put together from the tables."""
        columns = [table[points[:, j]] for j, table in zip(self.features, self.values, strict=True)]
        return np.stack(columns, axis=1)


def tabulate(see: Callable[[Points], npt.NDArray[Any]], space: Space, past: Points) -> Columns:
    """The tables of what a model sees, checked on past rows and on random points; raises Unreadable if columns mix."""
    if int(space.sizes.sum()) * 4 > MOST_PROBES:
        raise Unreadable(f"the domains are too long to tabulate ({int(space.sizes.sum()):,} values in all)")
    base = past[0]
    seen = see(_probes(space, base))
    starts = np.concatenate([[0], np.cumsum(space.sizes)])
    blocks = [seen[starts[j] : starts[j + 1]] for j in range(len(space))]
    home = np.stack([block[base[j]] for j, block in enumerate(blocks)])
    moves = np.stack([~_same(block, home[j]).all(axis=0) for j, block in enumerate(blocks)])
    mixed = np.flatnonzero(moves.sum(axis=0) > 1)
    if len(mixed):
        names = [space.names[j] for j in np.flatnonzero(moves[:, mixed[0]])]
        raise Unreadable(f"the preprocessing mixes columns: {', '.join(names[:3])} meet in one")
    features = moves.argmax(axis=0)
    columns = Columns(features, tuple(blocks[j][:, k] for k, j in enumerate(features)))
    _check(columns, see, space, past)
    return columns


def _probes(space: Space, base: Points) -> Points:
    """Every value of every feature once, the other features as in the base point."""
    points = np.repeat(base[None, :], int(space.sizes.sum()), axis=0)
    start = 0
    for j, size in enumerate(space.sizes.tolist()):
        points[start : start + size, j] = np.arange(size)
        start += size
    return points


def _same(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Equal, or both missing."""
    equal = left == right
    return np.asarray(equal | ((left != left) & (right != right)), dtype=np.bool_)


def _check(columns: Columns, see: Callable[[Points], npt.NDArray[Any]], space: Space, past: Points) -> None:
    rng = np.random.default_rng(0)
    random = rng.integers(0, space.sizes, size=(CHECKED_POINTS, len(space)), dtype=np.int32)
    rows = past[np.unique(np.linspace(0, len(past) - 1, CHECKED_POINTS).astype(np.intp))]
    points = np.concatenate([random, rows])
    if not _same(see(points), columns.at(points)).all():
        raise Unreadable(
            "the preprocessing mixes columns: what it gives for a row does not follow from its single values"
        )
