"""Append rows to the history of an explainer without computing anything again for the old rows.

Old rows are recoded, since new values may have come into the domains. The model is asked about the new rows alone,
unless a column got another type, so that the model would see the old rows differently too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import narwhals as nw
import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Int64Array
from ironrule.errors import InputError, TableError
from ironrule.explain.row_store import InMemoryRows, OnDiskRows, OutcomeSource, RowStore
from ironrule.model.blackbox import BlackBox
from ironrule.model.categories import restore_pandas_categories
from ironrule.space.codes import EncodedTable, build_recoding, look_up_codes
from ironrule.space.column_store.ingest import open_source
from ironrule.space.column_store.storage import BLOCK_ROWS, TempFolder, open_or_write_columns, select_rows
from ironrule.space.feature import Feature, Value
from ironrule.space.sources import as_source
from ironrule.space.space import Space
from ironrule.space.table import Table, read_table

if TYPE_CHECKING:
    from ironrule.explain.context import ExplainerContext


@dataclass(frozen=True)
class AppendedRows:
    """Old past rows, then new ones."""

    old: ExplainerContext = field(repr=False)
    new: RowStore
    table: Table = field(repr=False)
    same_types: bool  # whether the columns have the types that they had
    temp_dir: TempFolder | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.old.row_count + len(self.new)

    @property
    def breakpoints(self) -> Mapping[str, tuple[Value, ...]]:
        """The numbers in the domains of the old rows that no row has, the new ones among them."""
        return {name: self._drop_seen(name, numbers) for name, numbers in (self.old.breakpoints or {}).items()}

    def _drop_seen(self, name: str, numbers: tuple[Value, ...]) -> tuple[Value, ...]:
        """Those of the numbers that no new row has."""
        if not numbers:
            return ()
        present = self.new.table.column(self.old.space[name].columns[0]).present
        seen = {*np.unique(look_up_codes(Feature(name, numbers, ordered=True), present)).tolist()}
        return tuple(number for place, number in enumerate(numbers) if place not in seen)

    @property
    def row_numbers(self) -> Int64Array | None:
        """The row numbers in the data of the rows that are left."""
        if self.old.row_numbers is None:
            return None
        first = self.old.row_count
        return np.concatenate([self.old.row_numbers, np.arange(first, first + len(self.new))])

    def encode(self, space: Space, progress: bool | None) -> EncodedTable:
        """The old rows recoded, the new ones encoded."""
        luts = [_build_recoding(self.old.space, feature) for feature in space.features]
        old, new = self.old.history.codes.columns, self.new.encode(space, progress).columns
        columns = zip(old, luts, new, strict=True)
        return self._store(chain(_iterate_chunks(a, lut), _iterate_chunks(b, None)) for a, lut, b in columns)

    def take(self, codes: EncodedTable, rows: BoolArray, _: str | None) -> EncodedTable:
        """The chosen rows."""
        return self._store(select_rows(codes.columns, rows))

    def compute_outcomes(
        self, source: OutcomeSource, codes: EncodedTable, _: str | None, progress: bool | None
    ) -> BoolArray:
        """The old rows' outcomes, and what the model says of the new ones."""
        # In a column of another type the model may read old rows differently: it is asked about all again.
        if not self.same_types:
            return source.compute_outcomes(codes, progress)
        old = self.old.outcomes if isinstance(source, BlackBox) else self.old.history.outcomes
        if len(codes) == len(old):
            return old
        return np.concatenate([old, source.decide_rows(codes.take(slice(len(old), None)), progress)])

    def _store(self, columns: Any) -> EncodedTable:
        if self.temp_dir is None:
            return EncodedTable(tuple(np.concatenate(list(pieces)) for pieces in columns))
        return open_or_write_columns(self.temp_dir.path / uuid4().hex, lambda: columns)


@dataclass(frozen=True)
class AppendedRowTable:
    """What is still needed of past rows when they are encoded; ``temp_dir`` is where, if on disk."""

    table: Table = field(repr=False)
    temp_dir: TempFolder | None = field(default=None, repr=False)


def append_rows(context: ExplainerContext, more: Any, inferred: bool, progress: bool | None) -> AppendedRows:
    """The past rows of an explainer with more rows; raises TableError if they do not fit."""
    source, columns = as_source(more), context.model.primary.layout.names
    used = [name for name in context.table.names if name in context.space.columns]
    if source is not None:
        new: RowStore = OnDiskRows(open_source(source, tuple(used), None, progress))
    else:
        names = context.table.names if isinstance(more, np.ndarray) else None
        typed = restore_pandas_categories(context.arguments.models[0], more)
        new = InMemoryRows(_select_columns(read_table(typed, names), used))
    table, alike = _join_tables(_build_value_table(context, columns), new.table, inferred)
    on_disk = not isinstance(context.row_store, InMemoryRows) or source is not None
    return AppendedRows(context, new, table, alike, TempFolder.create(None) if on_disk else None)


def _select_columns(table: Table, used: list[str]) -> Table:
    absent = [name for name in used if name not in table.names]
    if absent:
        expected = f"the new rows must have the column {absent[0]!r}"
        raise TableError(expected=expected, got=f"columns {', '.join(table.names)}", code="missing-columns")
    if table.frame is None:
        return Table(table.native[:, [table.names.index(name) for name in used]], tuple(used), None)
    frame = table.frame.select(used)
    return Table(frame.to_native(), tuple(used), frame)


def _build_value_table(context: ExplainerContext, columns: tuple[str, ...]) -> Table:
    """A small table of the user's own kind with every value of the old rows."""
    if context.table.real_rows is not None:
        return context.table
    if set(columns) != set(context.space.columns):
        raise InputError("rows cannot be appended: the model does not use every column of the space")
    sizes = context.space.sizes
    # As many rows as the largest domain has values; the values of the others come round again.
    points = (np.arange(int(sizes.max()))[:, None] % sizes[None, :]).astype(np.int32)
    decoded = context.model.primary.layout.decode(points)
    return read_table(decoded, columns if isinstance(decoded, np.ndarray) else None)


def _join_tables(old: Table, new: Table, inferred: bool) -> tuple[Table, bool]:
    """The new rows, then every value of the old ones, and whether that leaves the types of the columns as they were."""
    names, real = new.names, new.real_rows or len(new)
    if old.frame is None or new.frame is None:
        if old.frame is not new.frame:
            raise TableError("the new rows must be the same kind of table as the old ones: only one is an array")
        order = [old.names.index(name) for name in names]
        matrix = np.concatenate([new.native, old.native[:, order]])
        return Table(matrix, names, None, real), matrix.dtype == old.native.dtype
    try:
        parts = [new.frame.select(list(names)), old.frame.select(list(names))]
        by_pandas = parts[0].implementation.is_pandas()
        frame = _concatenate_by_pandas(parts) if by_pandas else nw.concat(parts, how="vertical")
    except Exception as error:  # every library has its own
        raise TableError(f"cannot append the new rows to the old ones: {str(error).splitlines()[0]}") from None
    alike = not inferred or all(frame.schema[name] == old.frame.schema[name] for name in names)
    return Table(frame.to_native(), names, frame, real), alike


def _concatenate_by_pandas(parts: list[Any]) -> Any:
    import pandas as pd

    return nw.from_native(pd.concat([part.to_native() for part in parts], ignore_index=True), eager_only=True)


def _build_recoding(old: Space, feature: Feature) -> AnyArray | None:
    """The new code for every old code of a feature; None if all stay."""
    if feature.name not in old.names or old[feature.name].columns != feature.columns:
        statement = f"the new rows change which columns form the feature {feature.name!r}"
        raise InputError(statement, hint="make a new explainer of all rows")
    return build_recoding(old[feature.name], feature)


def _iterate_chunks(column: AnyArray, lut: AnyArray | None) -> Iterator[AnyArray]:
    for first in range(0, len(column), BLOCK_ROWS):
        piece = column[first : first + BLOCK_ROWS]
        yield piece if lut is None else lut[piece]
