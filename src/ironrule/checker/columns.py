"""The columns that an estimator sees, as tables: for every column the feature it comes from and its value per code.

A feature has finitely many codes, so preprocessing that works column by column is a table: the user's own transformer
is run on every value of every domain, once. Preprocessing that mixes columns is noticed, because a column then depends
on two features, or because points put together from the tables differ from what the transformer really gives.

Values keep the type in which they reach the estimator, so that a reading can cast them as the library does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ironrule.checker.readings.normal_form import Unreadable, Values

Points = npt.NDArray[np.int32]

CHECKED_POINTS = 2048
MOST_PROBES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column that the estimator sees; one that no feature changes belongs to feature 0."""

    feature: int
    values: Values


def tabulate_columns(
    see: Callable[[Points], Any], sizes: npt.NDArray[Any], past: Points, absent: float = 0.0
) -> tuple[Column, ...]:
    """The tables of what ``see`` gives for points, checked on past rows and random points; raises Unreadable.

    ``absent`` is what the estimator's library takes an entry for that a sparse matrix does not store.
    """
    if int(sizes.sum()) * 4 > MOST_PROBES:
        raise Unreadable(f"the domains have {int(sizes.sum()):,} values in all, too many to tabulate")
    base, starts = past[0], np.concatenate([[0], np.cumsum(sizes)])
    probes = np.repeat(base[None, :], int(sizes.sum()), axis=0)  # every value of every feature once
    for j, size in enumerate(sizes.tolist()):
        probes[starts[j] : starts[j + 1], j] = np.arange(size)
    columns = []
    for values in split_columns(see(probes), absent):
        blocks = [values[starts[j] : starts[j + 1]] for j in range(len(sizes))]
        moved = [j for j, block in enumerate(blocks) if not _are_same(block, block[base[j]]).all()]
        if len(moved) > 1:
            raise Unreadable(f"the preprocessing mixes columns: features {moved[0]} and {moved[1]} meet in one")
        feature = moved[0] if moved else 0
        columns.append(Column(feature, _require_exact(blocks[feature])))
    _check_tables(columns, lambda points: split_columns(see(points), absent), sizes, past)
    return tuple(columns)


def split_columns(seen: Any, absent: float) -> list[Values]:
    """The columns of what reaches an estimator: a matrix, dense or sparse, or a table of any library."""
    if hasattr(seen, "tocoo"):
        stored, dense = seen.tocoo(), np.full(seen.shape, absent, dtype=np.result_type(seen.dtype, np.float32))
        dense[stored.row, stored.col] = stored.data
        seen = dense
    if isinstance(seen, np.ndarray):
        matrix = seen.reshape(len(seen), -1)
        return [np.ascontiguousarray(matrix[:, k]) for k in range(matrix.shape[1])]
    frame = nw.from_native(seen, eager_only=True)
    return [_read_series(frame[name]) for name in frame.columns]


def _read_series(series: nw.Series[Any]) -> Values:
    """Numbers in their own type, as floats with NaN where some are missing; anything else as its values, or None."""
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        plain = series.to_numpy()
        if plain.dtype.kind in "biuf":
            return plain
        numbers = [np.nan if value is None or value != value else value for value in series.to_list()]
        return np.array(numbers, dtype=np.float64)
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    values[series.is_null().to_numpy().astype(np.bool_)] = None
    return values


def _require_exact(values: Values) -> Values:
    """The values; raises Unreadable for whole numbers that float64 cannot hold, since libraries round them each in
    their own way.
    """
    whole = [value for value in values.tolist() if isinstance(value, int)] if values.dtype.kind in "iuO" else []
    if any(abs(value) > 2**53 and int(float(value)) != value for value in whole):
        raise Unreadable("a column holds integers beyond 2**53 that float64 cannot hold; rescale it, or use strings")
    return values


def _are_same(left: Values, right: Any) -> npt.NDArray[np.bool_]:
    """Equal, or both missing."""
    return np.asarray((left == right) | ((left != left) & (right != right)), dtype=np.bool_)


def _check_tables(columns: Sequence[Column], see: Callable[[Points], list[Values]], sizes: Any, past: Points) -> None:
    random = np.random.default_rng(0).integers(0, sizes, size=(CHECKED_POINTS, len(sizes)), dtype=np.int32)
    points = np.concatenate([random, past[np.unique(np.linspace(0, len(past) - 1, CHECKED_POINTS).astype(np.intp))]])
    for column, values in zip(columns, see(points), strict=True):
        if not _are_same(values, column.values[points[:, column.feature]]).all():
            raise Unreadable("the preprocessing mixes columns: what it gives does not follow from single values")
