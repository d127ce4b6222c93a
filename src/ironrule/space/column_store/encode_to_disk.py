"""Encode an ingested table: read each feature's positions once more, and write its codes beside them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ironrule.arrays import AnyArray
from ironrule.errors import TableError
from ironrule.progress import track
from ironrule.space.codes import EncodedTable, encode_feature, read_one_hot_column
from ironrule.space.column_store.ingest import IngestedTable, read_segments
from ironrule.space.column_store.storage import BLOCK_ROWS, open_or_write_columns
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.space.table import Table


def encode_to_disk(table: IngestedTable, space: Space, progress: bool | None) -> EncodedTable:
    """All rows as codes of a space, mapped from files that are made where they are not there yet."""
    # Codes do not depend on constraints: a hash of the features alone.
    folder = table.folder / f"codes-{Space(space.features).fingerprint[:32]}"
    return open_or_write_columns(
        folder,
        lambda: (
            (_encode_one_hot_blocks if feature.one_hot else _encode_plain_blocks)(table, feature)
            for feature in track(space.features, "Encoding", len(space.features), progress)
        ),
    )


def _encode_plain_blocks(table: IngestedTable, feature: Feature) -> Iterator[AnyArray]:
    name = feature.columns[0]
    codes = _encode_distinct_values(feature, _take_first_rows(table.values, table.distinct_counts[name]))
    for positions in read_segments(table.positions_path(name), table.segments[name], BLOCK_ROWS):
        yield codes[positions]


def _encode_distinct_values(feature: Feature, values: Table) -> AnyArray:
    try:
        return encode_feature(feature, values)
    except TableError as error:
        raise TableError(
            expected=error.expected,
            got=f"{error.got}, where equal values count once because the data is read in chunks",
            hint=error.hint,
            code=error.code,
        ) from None


def _take_first_rows(table: Table, count: int) -> Table:
    frame = table.frame[:count]
    return Table(frame.to_native(), table.names, frame)


def _encode_one_hot_blocks(table: IngestedTable, feature: Feature) -> Iterator[AnyArray]:
    """All columns of a group together, in step."""
    hot = [read_one_hot_column(table.values.column(name), name) for name in feature.columns]
    readers = [_read_equal_blocks(table, name) for name in feature.columns]
    for parts in zip(*readers, strict=True):
        matrix = np.stack([flags[part] for flags, part in zip(hot, parts, strict=True)], axis=1)
        yield encode_feature(feature, Table(matrix, tuple(feature.columns), None))


def _read_equal_blocks(table: IngestedTable, name: str) -> Iterator[AnyArray]:
    """The positions of a column, always as many."""
    pending: list[AnyArray] = []
    for positions in read_segments(table.positions_path(name), table.segments[name], BLOCK_ROWS):
        pending.append(positions.astype(np.uint32))
        joined = np.concatenate(pending)
        whole = len(joined) // BLOCK_ROWS * BLOCK_ROWS
        for first in range(0, whole, BLOCK_ROWS):
            yield joined[first : first + BLOCK_ROWS]
        pending = [joined[whole:]]
    if len(pending[0]):
        yield pending[0]
