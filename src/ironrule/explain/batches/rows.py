"""Which rows a batch explains: the undesired ones of a table or of the history, equal ones once.

Past rows stay where they are, which may be on disk, and are read some at a time, so that a batch of all of them takes a
few bytes per row of memory and not all its codes. Rows that a margin or another version of the model puts out of reach
of any rule are counted, not explained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import ConstraintError, InputError
from ironrule.explain.batches.equal import first_equal
from ironrule.explain.batches.worker import Coded
from ironrule.explain.prepared import Prepared
from ironrule.space import Codes, Points, read_table

CHUNK = 1 << 16

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """Some of many rows: of codes, or of points."""

    rows: Coded
    places: Integers

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, chosen: Any) -> Points:
        return self.rows[self.places[chosen]]


@dataclass(frozen=True, slots=True, eq=False)
class PastRows:
    """The rows of the history, where they lie."""

    codes: Codes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, chosen: Any) -> Points:
        return self.codes.points(chosen)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The undesired rows, in order: their numbers, their codes, and for each the place of the first equal one."""

    numbers: Integers
    points: Coded
    first: Integers
    desired: int = 0  # rows that needed no explanation
    beyond: int = 0  # undesired ones that no rule can explain: their score lies within the margin

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def fingerprint(self) -> str:
        """A hash of the rows and their numbers."""
        digest = hashlib.sha256(self.numbers.tobytes())
        for chunk in chunks(self.points):
            digest.update(np.ascontiguousarray(chunk).tobytes())
        return digest.hexdigest()


def chunks(points: Coded) -> Iterator[Points]:
    """The codes of all rows, some rows at a time."""
    return (points[start : start + CHUNK] for start in range(0, len(points), CHUNK))


def chosen_rows(ready: Prepared, rows: Any) -> Rows:
    """The undesired rows of what a caller gave: a table, row numbers of the data, or None for all past rows."""
    if rows is None or _are_numbers(rows):
        return _of_history(ready, None if rows is None else np.asarray(rows, dtype=np.int64))
    names = ready.space.columns if isinstance(rows, np.ndarray) else None
    points = _occurring(ready, ready.space.encode(read_table(rows, names), progress=False).points())
    own = ready.model.own.desired(points)
    within = ready.model.desired(points) if ready.withstands else own
    kept = np.flatnonzero(~own & ~within)
    return _counted(kept.astype(np.int64), points[kept], own, within)


def _of_history(ready: Prepared, numbers: Integers | None) -> Rows:
    """Past rows: their codes and outcomes are known."""
    places = np.arange(len(ready.history)) if numbers is None else ready.places_of(numbers)
    own, within = ready.outcomes[places], ready.history.outcomes[places]
    kept = places[~own & ~within]
    return _counted(ready.numbers_of(kept), Some(PastRows(ready.history.codes), kept), own, within)


def _counted(numbers: Integers, points: Coded, own: Mask, within: Mask) -> Rows:
    return Rows(numbers, points, first_equal(points, CHUNK), int(own.sum()), int((within & ~own).sum()))


def _are_numbers(rows: Any) -> bool:
    """Whether rows of the data are meant by their numbers."""
    if isinstance(rows, np.ndarray):
        return rows.ndim == 1 and rows.dtype.kind in "iu"
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        return False
    others = [row for row in rows if not isinstance(row, (int, np.integer)) or isinstance(row, bool)]
    if others:
        raise InputError(
            expected="rows must be a table or a list of row numbers of the data", got=f"a list with {others[0]!r}"
        )
    return True


def _occurring(ready: Prepared, points: Points) -> Points:
    for predicate in ready.space.feasible.predicates:
        broken = np.flatnonzero(~np.asarray(predicate(points, None)))
        if len(broken):
            raise ConstraintError(
                f"row {broken[0]} does not satisfy {str(predicate.constraint)!r}",
                hint="leave it out",
                code="row-violates-constraint",
            )
    return points
