"""What an estimator sees of a table: a dense matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ironrule.space.feature import is_missing


def seen_by(transform: Callable[[Any], Any] | None, table: Any) -> npt.NDArray[Any]:
    """What the final estimator sees of a table, as a dense matrix: numbers where all columns are, objects otherwise."""
    seen = table if transform is None else transform(table)
    if hasattr(seen, "toarray"):
        seen = seen.toarray()
    if isinstance(seen, np.ndarray):
        matrix = seen.reshape(len(seen), -1)
        return matrix.astype(np.float64) if matrix.dtype.kind in "biu" else matrix
    frame = nw.from_native(seen, eager_only=True)
    columns = [_column(frame[name]) for name in frame.columns]
    common = np.dtype(object) if any(c.dtype.kind == "O" for c in columns) else np.result_type(*columns)
    matrix = np.empty((len(frame), len(columns)), dtype=common)
    for place, column in enumerate(columns):
        matrix[:, place] = column
    return matrix


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
