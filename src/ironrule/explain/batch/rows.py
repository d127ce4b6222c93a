"""Which rows a batch explains: the undesired ones of a table or of the history, equal ones once.

Past rows stay where they are, which may be on disk, and are read in chunks, so that a batch of all of them takes a few
bytes per row of memory. Rows that a margin or another version of the model puts out of reach of any rule are counted,
not explained.

Equal rows are found by a hash of eight bytes per row. Rows with the same hash are compared before they are called
equal, so a collision costs a little time and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Int64Array, Points, UInt64Array
from ironrule.errors import ConstraintError, InputError
from ironrule.explain.batch.worker import EncodedRows
from ironrule.explain.context import ExplainerContext
from ironrule.explain.extend import extend_to_table
from ironrule.model.categories import restore_pandas_categories
from ironrule.space.table import Table, parse_row_number, read_table

HASH_FACTOR, HASH_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def find_first_equal(points: Any, chunk: int) -> Int64Array:
    """For every row the place of the first one equal to it; codes are read so many rows at a time."""
    if len(points) == 0:
        return np.empty(0, dtype=np.int64)
    hashes = np.concatenate([_hash_rows(points[start : start + chunk]) for start in range(0, len(points), chunk)])
    _, places, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    first = np.asarray(places[inverse.ravel()], dtype=np.int64)
    others = np.concatenate([_find_collisions(points, first, start, chunk) for start in range(0, len(points), chunk)])
    if len(others):
        _, places, inverse = np.unique(points[others], axis=0, return_index=True, return_inverse=True)
        first[others] = others[places[inverse.ravel()]]
    return first


def _hash_rows(points: Points) -> UInt64Array:
    """A hash of every row."""
    mixed = np.zeros(len(points), dtype=np.uint64)
    for column in points.T:
        mixed = (mixed ^ (mixed >> HASH_SHIFT) ^ column.astype(np.uint64)) * HASH_FACTOR
    return mixed


def _find_collisions(points: Any, first: Int64Array, start: int, chunk: int) -> Int64Array:
    """The places, within a chunk, of rows that are not what the first row with their hash is."""
    differ = (points[start : start + chunk] != points[first[start : start + chunk]]).any(axis=1)
    return start + np.flatnonzero(differ)


CHUNK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class SelectedRows:
    """Some of many rows, which are read where they lie, by position."""

    read: Callable[[Any], Points]
    positions: Int64Array

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, chosen: Any) -> Points:
        return self.read(self.positions[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class UndesiredRows:
    """The undesired rows, in order: their numbers, their codes, and for each the place of the first equal one."""

    numbers: Int64Array
    points: EncodedRows
    first_equal: Int64Array
    desired: int = 0  # rows that needed no explanation
    out_of_reach: int = 0  # undesired ones that no rule can explain: their score lies within the margin

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def fingerprint(self) -> str:
        """A hash of the rows and their numbers."""
        digest = hashlib.sha256(self.numbers.tobytes())
        for start in range(0, len(self.points), CHUNK_ROWS):
            digest.update(np.ascontiguousarray(self.points[start : start + CHUNK_ROWS]).tobytes())
        return digest.hexdigest()


def extend_to_rows(context: ExplainerContext, rows: Any) -> ExplainerContext:
    """The context whose domains have all values of the rows that a caller gave; past rows have no others."""
    return context if rows is None or _are_row_numbers(rows) else extend_to_table(context, _read_rows(context, rows))


def _read_rows(context: ExplainerContext, rows: Any) -> Table:
    names = context.space.columns if isinstance(rows, np.ndarray) else None
    return read_table(restore_pandas_categories(context.arguments.models[0], rows), names)


def select_undesired_rows(context: ExplainerContext, rows: Any, own_model_only: bool = False) -> UndesiredRows:
    """The undesired rows of what a caller gave: a table, row numbers of the data, or None for all past rows.

    ``own_model_only``: the model as it is counts, without the margin and the other models that rules must withstand.
    """
    if rows is None or _are_row_numbers(rows):
        numbers = None if rows is None else _parse_row_numbers(context, rows)
        return _select_from_history(context, numbers, own_model_only)
    encoded = context.space.encode(_read_rows(context, rows), progress=False)
    points = _require_feasible(context, encoded.points())
    own = context.model.primary.desired(points)
    within = context.model.desired(points) if context.is_robust and not own_model_only else own
    kept = np.flatnonzero(~own & ~within)
    return _build_undesired_rows(kept.astype(np.int64), points[kept], own, within)


def _parse_row_numbers(context: ExplainerContext, rows: Any) -> Int64Array:
    """Row numbers of the data; raises TableError if there is no such row."""
    return np.array([parse_row_number(number, context.row_count) for number in rows], dtype=np.int64)


def _select_from_history(context: ExplainerContext, numbers: Int64Array | None, own_model_only: bool) -> UndesiredRows:
    """Past rows: their codes and outcomes are known."""
    places = np.arange(len(context.history)) if numbers is None else context.find_positions(numbers)
    own = context.outcomes[places]
    within = own if own_model_only else context.history.outcomes[places]
    kept = places[~own & ~within]
    points = SelectedRows(context.history.codes.points, kept)
    return _build_undesired_rows(context.get_row_numbers(kept), points, own, within)


def _build_undesired_rows(numbers: Int64Array, points: EncodedRows, own: BoolArray, within: BoolArray) -> UndesiredRows:
    first_equal = find_first_equal(points, CHUNK_ROWS)
    return UndesiredRows(numbers, points, first_equal, int(own.sum()), int((within & ~own).sum()))


def _are_row_numbers(rows: Any) -> bool:
    """Whether rows of the data are meant by their numbers."""
    if isinstance(rows, np.ndarray):
        return rows.ndim == 1 and rows.dtype.kind in "iu"
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        return False
    others = [row for row in rows if not isinstance(row, (int, np.integer)) or isinstance(row, bool)]
    if others:
        expected = "rows must be a table or a list of row numbers of the data"
        raise InputError(expected=expected, got=f"a list with {others[0]!r}")
    return True


def _require_feasible(context: ExplainerContext, points: Points) -> Points:
    for predicate in context.space.feasible.predicates:
        broken = np.flatnonzero(~np.asarray(predicate(points, None)))
        if len(broken):
            statement = f"row {broken[0]} does not satisfy {str(predicate.constraint)!r}"
            raise ConstraintError(statement, hint="leave it out", code="row-violates-constraint")
    return points
