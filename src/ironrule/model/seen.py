"""What an estimator sees of a table: a dense matrix.

Libraries turn whole numbers into float32 or float64, at once or one after the other. Where float64 holds a number
exactly, all of these ways agree, so it stands for the number here; where it does not, they may differ next to a
threshold, and the model is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ironrule.model.reading import Unreadable
from ironrule.space.feature import is_missing

EXACT = 2**53  # up to here float64 holds every whole number


@dataclass(frozen=True, slots=True)
class Intake:
    """What a library makes of tables that do not hold floating-point numbers, row by row."""

    single_integers: bool = False  # an array of whole numbers becomes float32, where others make it float64
    absent_is_missing: bool = False  # what a sparse matrix does not store is missing, where for others it is zero


PLAIN = Intake()


def seen_by(
    transform: Callable[[Any], Any] | None, table: Any, intake: Intake = PLAIN, names: Sequence[str] = ()
) -> npt.NDArray[Any]:
    """What the final estimator sees of a table, as a dense matrix: numbers where all columns are, objects otherwise.

    Raises Unreadable if a whole number among them is not exact in float64; ``names`` are those of an array's columns.
    """
    seen = table if transform is None else transform(table)
    inexact = next(_inexact_columns(seen, names), None)
    if inexact is not None:
        refuse_inexact(inexact if transform is None else next(_inexact_columns(table, names), inexact))
    if hasattr(seen, "toarray"):
        return _dense(seen, intake)
    if intake.single_integers and isinstance(seen, np.ndarray) and seen.dtype.kind in "iu":
        seen = seen.astype(np.float32)
        return seen.reshape(len(seen), -1).astype(np.float64)
    return as_matrix(seen)


def refuse_inexact(column: str) -> NoReturn:
    """Raise Unreadable about a column of whole numbers that float64 does not hold."""
    raise Unreadable(
        f"column {column!r} holds whole numbers beyond 2**53, which float64 cannot hold exactly; make it a string if "
        f"it is an identifier, or rescale it (seconds instead of nanoseconds)"
    )


def as_matrix(table: Any) -> npt.NDArray[Any]:
    """A table as a dense matrix: numbers where all columns are, objects otherwise."""
    if hasattr(table, "toarray"):
        table = table.toarray()
    if isinstance(table, np.ndarray):
        matrix = table.reshape(len(table), -1)
        return matrix.astype(np.float64) if matrix.dtype.kind in "biu" else matrix
    frame = nw.from_native(table, eager_only=True)
    columns = [_column(frame[name]) for name in frame.columns]
    common = np.dtype(object) if any(c.dtype.kind == "O" for c in columns) else np.result_type(*columns)
    matrix = np.empty((len(frame), len(columns)), dtype=common)
    for place, column in enumerate(columns):
        matrix[:, place] = column
    return matrix


def is_exact(number: int) -> bool:
    """Whether float64 holds a whole number exactly."""
    return -EXACT <= number <= EXACT or (abs(number) < 2**1023 and int(float(number)) == number)


def _dense(seen: Any, intake: Intake) -> npt.NDArray[Any]:
    """A sparse matrix in full."""
    matrix = as_matrix(seen)
    if intake.absent_is_missing:
        stored = seen.tocoo()
        absent = np.ones(matrix.shape, dtype=np.bool_)
        absent[stored.row, stored.col] = False
        matrix = np.where(absent, np.nan, matrix)
    return matrix


def _inexact_columns(table: Any, names: Sequence[str]) -> Iterator[str]:
    """The names of the columns that hold whole numbers which are not exact in float64."""
    if hasattr(table, "toarray"):
        table = table.toarray() if table.dtype.kind in "iuO" else np.empty((0, 0))
    if isinstance(table, np.ndarray):
        matrix = table.reshape(len(table), -1) if table.dtype.kind in "iuO" and len(table) else np.empty((0, 0))
        named = names if len(names) == matrix.shape[1] else [str(place) for place in range(matrix.shape[1])]
        yield from (name for name, column in zip(named, matrix.T, strict=True) if _has_inexact(column))
        return
    frame = nw.from_native(table, eager_only=True)
    for name in frame.columns:
        series = frame[name]
        if series.dtype.is_integer():
            inexact = _has_inexact(series.drop_nulls().to_numpy())
        else:
            others = not series.dtype.is_float() and series.dtype not in (nw.Boolean, nw.String)
            inexact = others and any_inexact(series.to_list())
        if inexact:
            yield name


def _has_inexact(column: npt.NDArray[Any]) -> bool:
    if column.dtype.kind not in "iu":
        return any_inexact(column.tolist())
    far = column[(column > EXACT) | (column < -EXACT)] if column.dtype.itemsize == 8 else column[:0]
    return any_inexact(np.unique(far).tolist())


def any_inexact(values: Iterable[Any]) -> bool:
    """Whether a whole number among these values is not exact in float64."""
    return any(isinstance(value, (int, np.integer)) and not is_exact(int(value)) for value in values)


def _column(series: nw.Series[Any]) -> npt.NDArray[Any]:
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
