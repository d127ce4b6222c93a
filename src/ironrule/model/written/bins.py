"""What one column adds to a score that is written down: points per bin of numbers, per value, and for missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ironrule.counting import counted
from ironrule.errors import InputError, ModelError, TableError
from ironrule.model.seen import as_matrix
from ironrule.space.feature import Value, is_missing
from ironrule.space.plain import from_plain, to_plain
from ironrule.space.table import read_table

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
KEYS = {"column", "edges", "points", "values", "missing", "other"}


@dataclass(frozen=True, slots=True)
class Bins:
    """The points of one column.

    A value listed in ``values`` (a category, or a number that stands for itself, such as a code for "no record") has
    the points listed there. Any other number has those of its bin: bin k holds ``edges[k - 1] <= x < edges[k]``, so
    there is one bin more than edges. Missing has ``missing``, and whatever is left has ``other``; None there means
    that such a value is refused.

    >>> age = Bins("age", edges=(25, 40), points=(0, 12, 20), missing=5)
    >>> age.of(np.array([24.5, 25, 90, np.nan])).tolist()
    [0.0, 12.0, 20.0, 5.0]
    >>> Bins("home", values={"own": 15, "rent": 3}, other=0).of(np.array(["rent", "boat"], dtype=object)).tolist()
    [3.0, 0.0]
    """

    column: str
    edges: Sequence[float] = ()
    points: Sequence[float] = ()
    values: Mapping[Value, float] | Sequence[tuple[Value, float]] = ()
    missing: float | None = None
    other: float | None = None

    def __post_init__(self) -> None:
        pairs = self.values.items() if isinstance(self.values, Mapping) else self.values
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        object.__setattr__(self, "points", tuple(float(points) for points in self.points))
        object.__setattr__(self, "values", tuple((value, float(points)) for value, points in pairs))
        for name in ("missing", "other"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else float(given))
        self._check()

    def _check(self) -> None:
        if self.points and len(self.points) != len(self.edges) + 1:
            raise InputError(
                expected=f"{self.column!r} must have points for one bin more than it has edges",
                got=f"{counted(len(self.points), 'point')} for {counted(len(self.edges), 'edge')}",
            )
        if (self.edges and not self.points) or any(low >= high for low, high in pairwise(self.edges)):
            raise InputError(
                expected=f"the edges of {self.column!r} must be strictly increasing, with points for their bins",
                got=f"edges {self.edges} and points {self.points}",
            )
        if len({value for value, _ in self.listed}) < len(self.listed) or any(is_missing(v) for v, _ in self.listed):
            raise InputError(
                expected=f"the values of {self.column!r} must be distinct and not missing",
                got=repr([value for value, _ in self.listed]),
                hint="give the points of a missing value as missing=",
            )
        if not all(map(math.isfinite, (*self.edges, *self.table))):
            raise InputError(
                expected=f"the edges and points of {self.column!r} must be finite numbers",
                got=f"edges {self.edges} and points {self.table}",
            )

    @property
    def listed(self) -> tuple[tuple[Value, float], ...]:
        """The values that stand for themselves, with their points."""
        return cast(tuple[tuple[Value, float], ...], self.values)

    @property
    def table(self) -> tuple[float, ...]:
        """All points, by place: those of the bins, of the values, of missing and of anything else."""
        rest = [points for points in (self.missing, self.other) if points is not None]
        return (*self.points, *(points for _, points in self.listed), *rest)

    def places(self, values: npt.NDArray[Any]) -> Places:
        """For every value its place in the table; raises ModelError if one has none."""
        numbers = _numbers(values)
        after = len(self.points) + len(self.listed)
        rest = after + (self.missing is not None) if self.other is not None else -1
        places = np.searchsorted(np.array(self.edges), numbers, "right") if self.points else np.full(len(values), rest)
        places[np.isnan(numbers)] = rest
        for place, (value, _) in enumerate(self.listed, start=len(self.points)):
            places[np.asarray(values == value, dtype=np.bool_)] = place
        places[_missing(values)] = after if self.missing is not None else -1
        if (places < 0).any():
            odd = values[np.flatnonzero(places < 0)[0]]
            raise ModelError(f"the model has no points for {odd!r} in column {self.column!r}")
        return places

    def of(self, values: npt.NDArray[Any]) -> Floats:
        """The points of every value."""
        return np.array(self.table)[self.places(values)]

    def to_dict(self) -> dict[str, Any]:
        """The points as plain data, without what is not set."""
        values = [[to_plain(value), points] for value, points in self.listed]
        data = {"column": self.column, "edges": list(self.edges), "points": list(self.points), "values": values}
        return {name: item for name, item in data.items() if item} | {
            name: getattr(self, name) for name in ("missing", "other") if getattr(self, name) is not None
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bins:
        """The points that :meth:`to_dict` wrote; raises InputError if the data is malformed."""
        if "column" not in data or not set(data) <= KEYS:
            raise InputError(
                expected=f"points must have the key 'column', and no keys but {sorted(KEYS)}",
                got=f"keys {sorted(data)}",
            )
        values = tuple((from_plain(value), points) for value, points in data.get("values", ()))
        return cls(**{**data, "values": values})


def _numbers(values: npt.NDArray[Any]) -> Floats:
    """Values as numbers, NaN where they are none."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([float(v) if isinstance(v, (int, float, np.number)) else np.nan for v in values], dtype=np.float64)


def _missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if values.dtype.kind in "biuf":
        return np.asarray(values != values, dtype=np.bool_)
    return np.fromiter(map(is_missing, values), np.bool_, len(values))


def names_of(parts: Sequence[Bins]) -> tuple[str, ...]:
    """The columns of these, each once, in order."""
    return tuple(dict.fromkeys(part.column for part in parts))


def columns_of(table: Any, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """These columns of a table as a model sees them; an array must have just them, in this order."""
    if isinstance(table, np.ndarray):
        if table.ndim != 2 or table.shape[1] != len(names):
            raise TableError(expected=f"an array must have the columns {', '.join(names)}", got=f"shape {table.shape}")
        seen = as_matrix(table)
        return {name: seen[:, place] for place, name in enumerate(names)}
    read = read_table(table)
    absent = [name for name in names if name not in read.names]
    if absent:
        raise TableError(
            expected=f"the table must have the column {absent[0]!r}",
            got=f"columns {', '.join(map(repr, read.names))}",
            code="missing-columns",
        )
    return {name: as_matrix(read.frame.select(name).to_native())[:, 0] for name in names}
