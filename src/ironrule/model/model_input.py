"""What a model sees of a table: a dense matrix, and for every column of it a table over one feature's codes.

Libraries turn whole numbers into float32 or float64, at once or one after the other. Where float64 holds a number
exactly, all of these ways agree, so it stands for the number here; where it does not, they may differ next to a
threshold, and the model is not read.

A feature has finitely many values, so any preprocessing that works column by column (scaling, imputing, one-hot or
ordinal or target encoding, binning) is a table: run the user's own transformer on every value of every domain, once,
and look what comes out (:func:`tabulate`). Preprocessing that mixes columns cannot be written so; it is noticed,
because a column then depends on two features, or because points put together from the tables differ from what the
transformer really gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import narwhals as nw
import numpy as np

from ironrule.arrays import AnyArray, BoolArray, IntpArray, Points
from ironrule.errors import TableError
from ironrule.model.protocol import Unreadable
from ironrule.space.feature import is_missing
from ironrule.space.space import Space
from ironrule.space.table import read_table, require_columns

MAX_EXACT_INTEGER = 2**53  # up to here float64 holds every whole number


@dataclass(frozen=True, slots=True)
class InputConversion:
    """What a library makes of tables that do not hold floating-point numbers, row by row."""

    integers_as_float32: bool = False  # an array of whole numbers becomes float32, where others make it float64
    unstored_is_missing: bool = False  # what a sparse matrix does not store is missing, where for others it is zero
    members_differ: bool = False  # the members of an ensemble make different things of them


DEFAULT_CONVERSION = InputConversion()


def compute_model_input(
    transform: Callable[[Any], Any] | None,
    table: Any,
    conversion: InputConversion = DEFAULT_CONVERSION,
    names: Sequence[str] = (),
) -> AnyArray:
    """What the final estimator sees of a table, as a dense matrix: numbers where all columns are, objects otherwise.

    Raises Unreadable if a whole number among them is not exact in float64; ``names`` are those of an array's columns.
    """
    seen = table if transform is None else transform(table)
    inexact = next(_find_inexact_columns(seen, names), None)
    if inexact is not None:
        raise_inexact_column(inexact if transform is None else next(_find_inexact_columns(table, names), inexact))
    if conversion.members_differ and (hasattr(seen, "toarray") or getattr(seen, "dtype", np.dtype("f8")).kind in "iu"):
        raise Unreadable(
            "its members take a sparse table, or an array of whole numbers, in different ways; make it a dense one of "
            "float64"
        )
    if hasattr(seen, "toarray"):
        return _to_dense(seen, conversion)
    if conversion.integers_as_float32 and isinstance(seen, np.ndarray) and seen.dtype.kind in "iu":
        seen = seen.astype(np.float32)
        return seen.reshape(len(seen), -1).astype(np.float64)
    return as_matrix(seen)


def raise_inexact_column(column: str) -> NoReturn:
    """Raise Unreadable about a column of whole numbers that float64 does not hold."""
    raise Unreadable(
        f"column {column!r} holds whole numbers beyond 2**53, which float64 cannot hold exactly; make it a string if "
        f"it is an identifier, or rescale it (seconds instead of nanoseconds)"
    )


def as_matrix(table: Any) -> AnyArray:
    """A table as a dense matrix: numbers where all columns are, objects otherwise."""
    if hasattr(table, "toarray"):
        table = table.toarray()
    if isinstance(table, np.ndarray):
        matrix = table.reshape(len(table), -1)
        return matrix.astype(np.float64) if matrix.dtype.kind in "biu" else matrix
    frame = nw.from_native(table, eager_only=True)
    columns = [_series_to_array(frame[name]) for name in frame.columns]
    common = np.dtype(object) if any(c.dtype.kind == "O" for c in columns) else np.result_type(*columns)
    matrix = np.empty((len(frame), len(columns)), dtype=common)
    for place, column in enumerate(columns):
        matrix[:, place] = column
    return matrix


def read_columns(table: Any, names: Sequence[str]) -> dict[str, AnyArray]:
    """These columns of a table as a model sees them; an array must have just them, in this order."""
    if isinstance(table, np.ndarray):
        if table.ndim != 2 or table.shape[1] != len(names):
            raise TableError(expected=f"an array must have the columns {', '.join(names)}", got=f"shape {table.shape}")
        seen = as_matrix(table)
        return {name: seen[:, place] for place, name in enumerate(names)}
    read = read_table(table)
    require_columns(names, read.names)
    return {name: as_matrix(read.frame.select(name).to_native())[:, 0] for name in names}


def is_exact_in_float64(number: int) -> bool:
    """Whether float64 holds a whole number exactly."""
    return -MAX_EXACT_INTEGER <= number <= MAX_EXACT_INTEGER or (abs(number) < 2**1023 and int(float(number)) == number)


def _to_dense(seen: Any, conversion: InputConversion) -> AnyArray:
    """A sparse matrix in full."""
    matrix = as_matrix(seen)
    if conversion.unstored_is_missing:
        stored = seen.tocoo()
        absent = np.ones(matrix.shape, dtype=np.bool_)
        absent[stored.row, stored.col] = False
        matrix = np.where(absent, np.nan, matrix)
    return matrix


def _find_inexact_columns(table: Any, names: Sequence[str]) -> Iterator[str]:
    """The names of the columns that hold whole numbers which are not exact in float64."""
    if hasattr(table, "toarray"):
        table = table.toarray() if table.dtype.kind in "iuO" else np.empty((0, 0))
    if isinstance(table, np.ndarray):
        matrix = table.reshape(len(table), -1) if table.dtype.kind in "iuO" and len(table) else np.empty((0, 0))
        # An array may have other columns than the model names; then a column is called by its place.
        named = names if len(names) == matrix.shape[1] else [str(place) for place in range(matrix.shape[1])]
        yield from (name for name, column in zip(named, matrix.T, strict=True) if _has_inexact_column(column))
        return
    frame = nw.from_native(table, eager_only=True)
    for name in frame.columns:
        series = frame[name]
        if series.dtype.is_integer():
            inexact = _has_inexact_column(series.drop_nulls().to_numpy())
        else:
            others = not series.dtype.is_float() and series.dtype not in (nw.Boolean, nw.String)
            inexact = others and has_inexact_integer(series.to_list())
        if inexact:
            yield name


def _has_inexact_column(column: AnyArray) -> bool:
    if column.dtype.kind not in "iu":
        return has_inexact_integer(column.tolist())
    if column.dtype.itemsize < 8:
        return False
    far = column[(column > MAX_EXACT_INTEGER) | (column < -MAX_EXACT_INTEGER)]
    return has_inexact_integer(np.unique(far).tolist())


def has_inexact_integer(values: Iterable[Any]) -> bool:
    """Whether a whole number among these values is not exact in float64."""
    listed = list(values)
    kinds = {kind for kind in set(map(type, listed)) if issubclass(kind, (int, np.integer))}
    if not kinds:  # text most often, of which no single value need be looked at
        return False
    whole = [int(value) for value in listed if type(value) in kinds]
    if min(whole) >= -MAX_EXACT_INTEGER and max(whole) <= MAX_EXACT_INTEGER:
        return False
    return not all(map(is_exact_in_float64, whole))


def _series_to_array(series: nw.Series[Any]) -> AnyArray:
    """Numbers as floats with NaN where missing; anything else as its values with None where missing."""
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        plain = series.to_numpy()
        if plain.dtype.kind == "f":
            return plain
        if plain.dtype.kind in "biu":
            return plain.astype(np.float64)
        return np.array([np.nan if is_missing(value) else value for value in series.to_list()], dtype=np.float64)
    objects = np.empty(len(series), dtype=object)
    objects[:] = series.to_list()
    objects[series.is_null().to_numpy().astype(np.bool_)] = None
    return objects


CHECKED_POINTS = 2048
CHECKED_ALONE = 32
MAX_PROBES = 4_000_000
MAX_PROBED_CODES = 1 << 26  # in all probes; beyond, features are probed many at a time


@dataclass(frozen=True, slots=True, eq=False)
class TabulatedColumns:
    """The columns that a model sees: for each the feature that it comes from, and its value for every code.

    A column that no feature changes belongs to feature 0 and has the same value everywhere.
    """

    features: IntpArray
    values: tuple[AnyArray, ...]

    def look_up(self, points: Points) -> AnyArray:
        """What the model sees at points, put together from the tables."""
        columns = [table[points[:, j]] for j, table in zip(self.features, self.values, strict=True)]
        return np.stack(columns, axis=1)


def tabulate(
    preprocess: Callable[[Points], AnyArray], space: Space, past: Points, *, alone: bool = False
) -> TabulatedColumns:
    """The tables of what a model sees, checked on past rows and on random points, with ``alone`` also on single rows;
    raises Unreadable if columns mix, or rows.
    """
    values = int(space.sizes.sum())
    in_groups = values * len(space) > MAX_PROBED_CODES
    rows = int(space.sizes.max()) * (2 * len(space).bit_length() + 1) if in_groups else values
    if rows * 4 > MAX_PROBES:
        raise Unreadable(f"the domains are too long to tabulate ({values:,} values in all)")
    columns = (_tabulate_in_groups if in_groups else _tabulate_each)(preprocess, space, past[0])
    _check_columns(columns, preprocess, space, past, alone)
    return columns


def _tabulate_each(preprocess: Callable[[Points], AnyArray], space: Space, base: Points) -> TabulatedColumns:
    """The tables from probes that change one feature of a point at a time."""
    seen = preprocess(_build_probes(space, base))
    starts = np.concatenate([[0], np.cumsum(space.sizes)])
    blocks = [seen[starts[j] : starts[j + 1]] for j in range(len(space))]
    home = np.stack([block[base[j]] for j, block in enumerate(blocks)])
    moves = np.stack([~_is_same(block, home[j]).all(axis=0) for j, block in enumerate(blocks)])
    mixed = np.flatnonzero(moves.sum(axis=0) > 1)
    if len(mixed):
        names = [space.names[j] for j in np.flatnonzero(moves[:, mixed[0]])]
        raise Unreadable(f"the preprocessing mixes columns: {', '.join(names[:3])} meet in one")
    features = moves.argmax(axis=0)
    return TabulatedColumns(features, tuple(blocks[j][:, k] for k, j in enumerate(features)))


def _tabulate_in_groups(preprocess: Callable[[Points], AnyArray], space: Space, base: Points) -> TabulatedColumns:
    """The same from probes that change many features at once, for wide spaces.

    If every column comes from one feature, its table can be read off where all features change together. Which feature
    it is follows from two probes for every binary digit of a feature's number: one changes the features that have this
    digit, one all others, and the column must change in exactly one of them.
    """
    places = np.arange(len(space))
    seen = preprocess(_build_group_probes(space, base, places))
    moves, features = _find_moves(seen), np.zeros(seen.shape[1], dtype=np.intp)
    for digit in range((len(space) - 1).bit_length()):
        has_digit = (places >> digit & 1).astype(np.bool_)
        with_digit, without = (
            _find_moves(preprocess(_build_group_probes(space, base, group))) if len(group) else np.zeros_like(moves)
            for group in (places[has_digit], places[~has_digit])
        )
        if (moves & (with_digit == without)).any() or (~moves & (with_digit | without)).any():
            raise Unreadable("the preprocessing mixes columns: one depends on several features")
        features |= with_digit.astype(np.intp) << digit
    tables = [seen[: space.sizes[j], k].copy() for k, j in enumerate(features)]  # a column of none is constant
    return TabulatedColumns(features, tuple(tables))


def _build_group_probes(space: Space, base: Points, group: IntpArray) -> Points:
    """As many points as the longest domain has values; in them these features take all their values, over and over."""
    points = np.repeat(base[None, :], int(space.sizes.max()), axis=0)
    points[:, group] = np.arange(len(points), dtype=np.int32)[:, None] % space.sizes[group]
    return points


def _find_moves(seen: AnyArray) -> BoolArray:
    """Which columns are not the same in all rows."""
    return np.asarray(~_is_same(seen, seen[:1]).all(axis=0))


def _build_probes(space: Space, base: Points) -> Points:
    """Every value of every feature once, the other features as in the base point."""
    points = np.repeat(base[None, :], int(space.sizes.sum()), axis=0)
    start = 0
    for j, size in enumerate(space.sizes.tolist()):
        points[start : start + size, j] = np.arange(size)
        start += size
    return points


def _is_same(left: AnyArray, right: AnyArray) -> BoolArray:
    """Equal, or both missing."""
    equal = left == right
    return np.asarray(equal | ((left != left) & (right != right)), dtype=np.bool_)


def _check_columns(
    columns: TabulatedColumns, preprocess: Callable[[Points], AnyArray], space: Space, past: Points, alone: bool
) -> None:
    rng = np.random.default_rng(0)
    random = rng.integers(0, space.sizes, size=(CHECKED_POINTS, len(space)), dtype=np.int32)
    rows = past[np.unique(np.linspace(0, len(past) - 1, CHECKED_POINTS).astype(np.intp))]
    points = np.concatenate([random, rows])
    if not _is_same(preprocess(points), columns.look_up(points)).all():
        reason = "the preprocessing mixes columns: what it gives for a row does not follow from its single values"
        raise Unreadable(reason)
    for point in points[:CHECKED_ALONE] if alone else ():
        if not _is_same(preprocess(point[None, :]), columns.look_up(point[None, :])).all():
            raise Unreadable("the preprocessing mixes rows: what it gives for a row depends on those beside it")
