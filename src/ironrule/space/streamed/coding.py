"""From positions to codes: every feature's file of positions is read once more, and its codes are written beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import TableError
from ironrule.progress import track
from ironrule.space.codes import Codes, encode_feature, one_hot_column
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.space.streamed.disk import ROWS, kept_on_disk
from ironrule.space.streamed.gathered import Gathered
from ironrule.space.streamed.growing import read_segments
from ironrule.space.table import Table


def codes_on_disk(gathered: Gathered, space: Space, progress: bool | None) -> Codes:
    """All rows as codes of a space, mapped from files that are made where they are not there yet."""
    folder = gathered.folder / f"codes-{features_key(space)}"
    return kept_on_disk(
        folder,
        lambda: (
            _coded(gathered, feature) for feature in track(space.features, "Encoding", len(space.features), progress)
        ),
    )


def features_key(space: Space) -> str:
    """A hash of the features alone: codes do not depend on constraints."""
    return Space(space.features).fingerprint[:32]


def _coded(gathered: Gathered, feature: Feature) -> Iterator[npt.NDArray[Any]]:
    return _one_hot(gathered, feature) if feature.one_hot else _plain(gathered, feature)


def _plain(gathered: Gathered, feature: Feature) -> Iterator[npt.NDArray[Any]]:
    name = feature.columns[0]
    codes = _codes_of_values(feature, _first(gathered.values, gathered.sizes[name]))
    for positions in read_segments(gathered.file(name), gathered.segments[name], ROWS):
        yield codes[positions]


def _codes_of_values(feature: Feature, values: Table) -> npt.NDArray[Any]:
    try:
        return encode_feature(feature, values)
    except TableError as error:
        raise TableError(
            expected=error.expected,
            got=f"{error.got}, where equal values count once because the data is read in chunks",
            hint=error.hint,
            code=error.code,
        ) from None


def _first(table: Table, count: int) -> Table:
    frame = table.frame[:count]
    return Table(frame.to_native(), table.names, frame)


def _one_hot(gathered: Gathered, feature: Feature) -> Iterator[npt.NDArray[Any]]:
    """All columns of a group together, in step."""
    hot = [one_hot_column(gathered.values.column(name), name) for name in feature.columns]
    readers = [_in_step(gathered, name) for name in feature.columns]
    for parts in zip(*readers, strict=True):
        matrix = np.stack([flags[part] for flags, part in zip(hot, parts, strict=True)], axis=1)
        yield encode_feature(feature, Table(matrix, tuple(feature.columns), None))


def _in_step(gathered: Gathered, name: str) -> Iterator[npt.NDArray[Any]]:
    """The positions of a column, always as many."""
    pending: list[npt.NDArray[Any]] = []
    for positions in read_segments(gathered.file(name), gathered.segments[name], ROWS):
        pending.append(positions.astype(np.uint32))
        joined = np.concatenate(pending)
        whole = len(joined) // ROWS * ROWS
        for first in range(0, whole, ROWS):
            yield joined[first : first + ROWS]
        pending = [joined[whole:]]
    if len(pending[0]):
        yield pending[0]
