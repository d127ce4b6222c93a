"""One pass over a table that comes in chunks: the distinct values of every column, and all rows as positions on disk.

The raw table is never in memory, and is read once. What stays is short: the distinct values, laid out as a small table
of the user's own kind. Whatever is asked of the whole table's columns (their types, their domains, which of them form a
one-hot group) can be asked of that small one, which starts with real rows and goes on with every value of every column.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import TableError
from ironrule.progress import Bar
from ironrule.space.infer import same_prefix
from ironrule.space.sources.protocol import Source
from ironrule.space.streamed.growing import GrowingColumn, Segment
from ironrule.space.streamed.hot import HotGroup
from ironrule.space.table import Table, read_table

MOST_SPELLINGS = 16  # of 0 and 1: 1, 1.0, True
SAMPLED, EACH = 512, 32  # rows that are kept as they are, and how many of a chunk
GATHERED, LIKE, VALUES, COLUMN = "gathered.json", "like.arrow", "values.arrow", "column-{}.positions"

Places = Mapping[str, npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Gathered:
    """What a pass left behind in a folder."""

    folder: Path
    rows: int
    like: Table = field(repr=False)  # the small table
    values: Table = field(repr=False)  # every column's distinct values by position, again from the first where it ends
    sizes: Mapping[str, int]  # how many there are
    segments: Mapping[str, list[Segment]]

    def file(self, name: str) -> Path:
        """The positions of a column."""
        return self.folder / COLUMN.format(list(self.sizes).index(name))


def gather(source: Source, columns: Sequence[str], folder: Path, progress: bool | None) -> None:
    """Read the source, once, into a folder."""
    import pyarrow as pa

    sampled: list[Any] = []
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(folder / COLUMN.format(j), "wb")) for j in range(len(columns))]
        growing = {name: GrowingColumn(name, file) for name, file in zip(columns, files, strict=True)}
        groups = [HotGroup(names) for names in same_prefix(columns).values()]
        bar, rows = stack.enter_context(Bar("Reading", source.rows, progress)), 0
        for chunk in source.chunks(columns):
            positions = {name: growing[name].add(chunk.column(name)) for name in columns}
            _add_to_groups(groups, growing, positions)
            if len(sampled) * EACH < SAMPLED:
                sampled.append(pa.table({name: positions[name][:EACH] for name in columns}))
            rows += len(chunk)
            bar.reach(rows)
    if rows == 0:
        raise TableError(expected="the table must have at least one row", got="none")
    real = pa.concat_tables(sampled)
    _write(folder, growing, groups, {name: real.column(name).to_numpy() for name in columns}, rows)


def _add_to_groups(groups: list[HotGroup], growing: Mapping[str, GrowingColumn], positions: Any) -> None:
    names = {name for group in groups if group.broken is None for name in group.names}
    hot = {name: _ones(growing[name].values) for name in names}
    for group in groups:
        group.add(positions, hot)


def _ones(values: Any) -> npt.NDArray[np.bool_] | None:
    """Which values are a 1; None if there are others than 0 and 1."""
    numbers = [_as_number(value) for value in values.slice(0, MOST_SPELLINGS).to_pylist()]
    if len(values) > MOST_SPELLINGS or any(number not in (0, 1) for number in numbers):
        return None
    return np.array(numbers, dtype=np.bool_)


def _as_number(value: Any) -> Any:
    """A field of a text file as the number that it may be; all else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return float({"true": "1", "false": "0"}.get(value.lower(), value))
    except ValueError:
        return value


def _write(
    folder: Path,
    growing: Mapping[str, GrowingColumn],
    groups: list[HotGroup],
    real: Mapping[str, npt.NDArray[np.int64]],
    rows: int,
) -> None:
    """Write the small tables, and what else is known."""
    length = max(len(column.values) for column in growing.values())
    circles = {name: np.arange(length) % len(column.values) for name, column in growing.items()}
    _write_table(folder / VALUES, growing, circles)
    _write_table(folder / LIKE, growing, _lined_up(groups, real, circles))
    known = {
        "rows": rows,
        "real": len(next(iter(real.values()))),
        "sizes": {name: len(column.values) for name, column in growing.items()},
        "segments": {name: column.segments for name, column in growing.items()},
    }
    (folder / GATHERED).write_text(json.dumps(known), encoding="utf-8")


def _lined_up(groups: list[HotGroup], real: Places, circles: Places) -> Places:
    """Real rows, all values of every column, and whole rows of the groups: one that shows why a group is none, or all
    that the group has.
    """
    length = len(next(iter(circles.values())))
    ends = {name: np.concatenate([real[name], circle]) for name, circle in circles.items()}
    for group in groups:
        patterns = group.patterns if group.broken is None else [group.broken]
        for place, name in enumerate(group.names):
            column = np.array([pattern[place] for pattern in patterns])
            if group.broken is None:
                ends[name][len(real[name]) :] = column[np.arange(length) % len(column)]
            else:
                ends[name] = np.concatenate([ends[name], column])
    longest = max(map(len, ends.values()))
    return {name: _filled(column, longest) for name, column in ends.items()}


def _filled(column: npt.NDArray[np.int64], longest: int) -> npt.NDArray[np.int64]:
    """A column made as long as the longest, by what it begins with: a real row, which breaks nothing."""
    return np.concatenate([column, np.full(longest - len(column), column[0])])


def _write_table(path: Path, growing: Mapping[str, GrowingColumn], places: Places) -> None:
    import pyarrow as pa

    table = pa.table({name: _as_declared(column, places[name]) for name, column in growing.items()})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _as_declared(column: GrowingColumn, places: npt.NDArray[np.int64]) -> Any:
    """Values of a column at some places; those of categories with all that the column declares."""
    import pyarrow as pa

    values = column.values.take(pa.array(places))
    if column.categories is None:
        return values
    listed, ordered = column.categories
    where = {value: place for place, value in enumerate(listed)}
    codes = pa.array([None if value is None else where[value] for value in values.to_pylist()], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(listed, column.values.type), ordered=ordered)


def read_gathered(source: Source, folder: Path) -> Gathered:
    """What a pass left behind."""
    known = json.loads((folder / GATHERED).read_text(encoding="utf-8"))
    like, values = (_read_table(source, folder / name) for name in (LIKE, VALUES))
    segments = {name: [(kind, count) for kind, count in some] for name, some in known["segments"].items()}
    checked = Table(like.native, like.names, like.frame, real=known["real"])
    return Gathered(folder, known["rows"], checked, values, known["sizes"], segments)


def _read_table(source: Source, path: Path) -> Table:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return read_table(source.as_frame(pa.ipc.open_file(file).read_all()))
