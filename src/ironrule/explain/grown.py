"""Past rows with more rows behind them: what is known of the old ones is not worked out again.

Old rows are recoded, since new values may have come into the domains; the model is asked about the new rows alone,
unless a column has got another type by them, so that the model would see the old rows differently too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from uuid import uuid4

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError, TableError
from ironrule.explain.past import Asked, InMemory, Mask, OnDisk, Past
from ironrule.explain.prepared import Prepared
from ironrule.model.blackbox import BlackBox
from ironrule.space import Codes, Feature, Space, Table, Value, read_table
from ironrule.space.codes import smallest_type
from ironrule.space.sources import as_source
from ironrule.space.streamed import open_source
from ironrule.space.streamed.disk import ROWS, chosen_rows, kept_on_disk
from ironrule.space.streamed.scratch import Scratch

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grown:
    """Old past rows, and new ones behind them."""

    old: Prepared = field(repr=False)
    new: Past
    table: Table = field(repr=False)
    alike: bool  # whether the columns have the types that they had
    scratch: Scratch | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.old.past) + len(self.new)

    @property
    def breakpoints(self) -> Mapping[str, tuple[Value, ...]]:
        """The numbers in the domains of the old rows that no row has."""
        return self.old.breakpoints or {}

    @property
    def numbers(self) -> Integers | None:
        """The row numbers in the data of the rows that are left."""
        if self.old.rows is None:
            return None
        first = len(self.old.past)
        return np.concatenate([self.old.rows, np.arange(first, first + len(self.new))])

    def encode(self, space: Space, progress: bool | None) -> Codes:
        """The old rows recoded, the new ones encoded."""
        luts = [_recoded(self.old.space, feature) for feature in space.features]
        old, new = self.old.history.codes.columns, self.new.encode(space, progress).columns
        return self._kept(
            chain(_pieces(column, lut), _pieces(more, None)) for column, lut, more in zip(old, luts, new, strict=True)
        )

    def take(self, codes: Codes, rows: Mask, name: str | None) -> Codes:  # noqa: ARG002  # made anew every time
        """The chosen rows."""
        return self._kept(chosen_rows(codes.columns, rows))

    def outcomes(self, asked: Asked, codes: Codes, name: str | None, progress: bool | None) -> Mask:  # noqa: ARG002
        """The old rows' outcomes, and what the model says of the new ones."""
        if not self.alike:
            return asked.outcomes(codes, progress)
        known = self.old.outcomes if isinstance(asked, BlackBox) else self.old.history.outcomes
        if len(codes) == len(known):
            return known
        return np.concatenate([known, asked.outcomes(codes.take(slice(len(known), None)), progress)])

    def settled(self) -> Settled:
        """What is still needed when all is encoded: the old rows are not."""
        return Settled(self.table, len(self), self.scratch)

    def _kept(self, columns: Any) -> Codes:
        if self.scratch is None:
            return Codes(tuple(np.concatenate(list(pieces)) for pieces in columns))
        return kept_on_disk(self.scratch.path / uuid4().hex, lambda: columns)


@dataclass(frozen=True)
class Settled:
    """Past rows that are encoded; ``scratch`` is where, if on disk."""

    table: Table = field(repr=False)
    total: int
    scratch: Scratch | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.total


def grown(ready: Prepared, more: Any, inferred: bool, progress: bool | None) -> Grown:
    """The past rows of an explainer with more rows; raises TableError if they do not fit."""
    source, columns = as_source(more), ready.model.own.layout.names
    used = [name for name in ready.table.names if name in ready.space.columns]
    if source is not None:
        new: Past = OnDisk(open_source(source, tuple(used), None, progress))
    else:
        names = ready.table.names if isinstance(more, np.ndarray) else None
        new = InMemory(_chosen(read_table(more, names), used))
    table, alike = _joined(_every_value(ready, columns), new.table, inferred)
    on_disk = not isinstance(ready.past, InMemory) or source is not None
    return Grown(ready, new, table, alike, Scratch.new(None) if on_disk else None)


def _chosen(table: Table, used: list[str]) -> Table:
    absent = [name for name in used if name not in table.names]
    if absent:
        raise TableError(
            expected=f"the new rows must have the column {absent[0]!r}",
            got=f"columns {', '.join(table.names)}",
            code="missing-columns",
        )
    if table.frame is None:
        return Table(table.native[:, [table.names.index(name) for name in used]], tuple(used), None)
    frame = table.frame.select(used)
    return Table(frame.to_native(), tuple(used), frame)


def _every_value(ready: Prepared, columns: tuple[str, ...]) -> Table:
    """A small table of the user's own kind with every value of the old rows."""
    if ready.table.real is not None:
        return ready.table
    if set(columns) != set(ready.space.columns):
        raise InputError("rows cannot be appended: the model does not use every column of the space")
    sizes = ready.space.sizes
    points = (np.arange(int(sizes.max()))[:, None] % sizes[None, :]).astype(np.int32)
    decoded = ready.model.own.layout.decode(points)
    return read_table(decoded, columns if isinstance(decoded, np.ndarray) else None)


def _joined(old: Table, new: Table, inferred: bool) -> tuple[Table, bool]:
    """The new rows, then every value of the old ones, and whether that leaves the types of the columns as they were."""
    names, real = new.names, new.real or len(new)
    if old.frame is None or new.frame is None:
        if old.frame is not new.frame:
            raise TableError("the new rows must be the same kind of table as the old ones: only one is an array")
        order = [old.names.index(name) for name in names]
        matrix = np.concatenate([new.native, old.native[:, order]])
        return Table(matrix, names, None, real), matrix.dtype == old.native.dtype
    try:
        parts = [new.frame.select(list(names)), old.frame.select(list(names))]
        frame = nw.concat(parts, how="vertical") if _same_kind(parts) else _by_pandas(parts)
    except Exception as error:  # every library has its own
        raise TableError(f"cannot append the new rows to the old ones: {str(error).splitlines()[0]}") from None
    alike = not inferred or all(frame.schema[name] == old.frame.schema[name] for name in names)
    return Table(frame.to_native(), names, frame, real), alike


def _same_kind(parts: list[Any]) -> bool:
    return not parts[0].implementation.is_pandas()


def _by_pandas(parts: list[Any]) -> Any:
    import pandas as pd

    return nw.from_native(pd.concat([part.to_native() for part in parts], ignore_index=True), eager_only=True)


def _recoded(old: Space, feature: Feature) -> npt.NDArray[Any] | None:
    """The new code for every old code of a feature; None if all stay."""
    if feature.name not in old.names or old[feature.name].columns != feature.columns:
        raise InputError(
            f"the new rows change which columns form the feature {feature.name!r}",
            hint="make a new explainer of all rows",
        )
    before = old[feature.name]
    values = [*before.values, *([None] if before.missing else [])]
    lut = np.array([feature.code(value) for value in values], dtype=smallest_type(feature.size))
    same = np.array_equal(lut, np.arange(len(lut))) and smallest_type(before.size) == smallest_type(feature.size)
    return None if same else lut


def _pieces(column: npt.NDArray[Any], lut: npt.NDArray[Any] | None) -> Iterator[npt.NDArray[Any]]:
    for first in range(0, len(column), ROWS):
        piece = column[first : first + ROWS]
        yield piece if lut is None else lut[piece]
