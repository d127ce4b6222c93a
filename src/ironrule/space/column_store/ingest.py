"""Ingest a source: one pass over a table that comes in chunks, to distinct values in memory and positions on disk.

The raw table is never in memory, and is read once. Each column is dictionary-encoded: its distinct values so far, and
for every row a position among them. Positions are given in the order in which values first appear, so a row's position
never changes; they are written as narrow as they fit, a byte each while there are at most 256 values, then two, then
four. Later the values are put in order, and positions become codes (:mod:`.encode`).

What stays in memory is short: the distinct values, laid out as a small sample table of the user's own kind, which
starts with real rows and goes on with every value of every column. Whatever is asked of the whole table's columns
(their types, their domains, which of them form a one-hot group) can be asked of the sample. Columns that may form a
one-hot group are watched during the pass: the first row without exactly one 1 rules the group out and is kept in the
sample.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from ironrule.arrays import BoolArray, Int64Array
from ironrule.errors import TableError
from ironrule.progress import ProgressBar
from ironrule.space.codes import choose_code_type
from ironrule.space.column_store.storage import TempFolder, create_folder, report_write_errors
from ironrule.space.infer import group_by_prefix
from ironrule.space.sources.protocol import Source
from ironrule.space.table import Table, read_table, require_columns

Segment = tuple[str, int]  # so many rows of one type


@dataclass(slots=True)
class DictionaryColumn:
    """The distinct values of a column, as an Arrow array, and the file with its positions."""

    name: str
    file: IO[bytes]
    values: Any = None
    categories: Any = None  # of a column of categories: all that it declares, and whether they have an order
    segments: list[Segment] = field(default_factory=list)

    def add(self, column: Any) -> Int64Array:
        """Take the column of a chunk; gives the positions of its rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        flat = pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
        coded = pc.dictionary_encode(self._unwrap_categories(flat), null_encoding="encode")
        new = self._unify_types(coded.dictionary)
        places = pc.index_in(new, value_set=self.values)
        unknown = new.filter(pc.is_null(places))
        if len(unknown):
            self.values = pa.concat_arrays([self.values, unknown])
            places = pc.index_in(new, value_set=self.values)
        positions = places.to_numpy(zero_copy_only=False).astype(np.int64)[coded.indices.to_numpy()]
        self._write(positions)
        return np.asarray(positions)

    def _unwrap_categories(self, flat: Any) -> Any:
        """A column of categories as its values; what it declares is kept."""
        import pyarrow as pa

        if not pa.types.is_dictionary(flat.type):
            return flat
        declared = [] if self.categories is None else self.categories[0]
        listed = [*declared, *(value for value in flat.dictionary.to_pylist() if value not in declared)]
        self.categories = listed, flat.type.ordered
        return flat.cast(flat.type.value_type)

    def _unify_types(self, values: Any) -> Any:
        """New values in the type of the known ones; where that cannot be, both in a type that holds both."""
        import pyarrow as pa

        if self.values is None:
            self.values = values.slice(0, 0)
        if values.type == self.values.type:
            return values
        schemas = [pa.schema([(self.name, array.type)]) for array in (self.values, values)]
        try:
            common = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
            self.values = self.values.cast(common)
            return values.cast(common)
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            raise TableError(
                expected=f"column {self.name!r} must have one type",
                got=f"{self.values.type} in some rows and {values.type} in others",
            ) from None

    def _write(self, positions: Int64Array) -> None:
        kind = np.dtype(choose_code_type(len(self.values)))
        self.file.write(positions.astype(kind).data)
        if self.segments and self.segments[-1][0] == kind.str:
            self.segments[-1] = (kind.str, self.segments[-1][1] + len(positions))
        else:
            self.segments.append((kind.str, len(positions)))


def read_segments(path: Path, segments: list[Segment], rows: int) -> Any:
    """The positions of all rows, about ``rows`` at a time."""
    begins = 0
    for kind, count in segments:  # parts of the file whose positions are equally wide
        mapped = np.memmap(path, dtype=kind, mode="r", offset=begins, shape=(count,))
        for first in range(0, count, rows):
            yield np.asarray(mapped[first : first + rows])
        begins += count * np.dtype(kind).itemsize


ColumnPositions = Mapping[str, Int64Array]


@dataclass(slots=True)
class OneHotDetector:
    """Columns that share a prefix. ``patterns`` are the distinct rows seen while the group is one, as positions;
    ``violation`` is the first row that no one-hot group has.
    """

    names: Sequence[str]
    patterns: list[tuple[int, ...]] = field(default_factory=list)
    violation: tuple[int, ...] | None = None

    def add(self, positions: ColumnPositions, hot: Mapping[str, BoolArray | None]) -> None:
        """Take a chunk: the positions of its rows, and for every column which of them are a 1; None if others occur."""
        if self.violation is not None:
            return
        flags = [hot[name] for name in self.names]
        ones = [flag[positions[name]] for flag, name in zip(flags, self.names, strict=True) if flag is not None]
        if len(ones) < len(self.names):
            self.violation = self._row(positions, 0)
            return
        wrong = np.flatnonzero(np.sum(ones, axis=0) != 1)
        if len(wrong):
            self.violation = self._row(positions, int(wrong[0]))
            return
        for column in ones:  # a pattern per column of the group: the first row of the chunk that has its 1
            seen = np.flatnonzero(column)
            if len(seen):
                pattern = self._row(positions, int(seen[0]))
                self.patterns += [] if pattern in self.patterns else [pattern]

    def _row(self, positions: ColumnPositions, place: int) -> tuple[int, ...]:
        return tuple(int(positions[name][place]) for name in self.names)


MAX_SPELLINGS = 16  # of 0 and 1: 1, 1.0, True
MAX_SAMPLE_ROWS, SAMPLE_ROWS_PER_CHUNK = 512, 32  # rows that are kept as they are, and how many of a chunk

SUMMARY_NAME, SAMPLE_NAME, VALUES_NAME = "summary.json", "sample.arrow", "values.arrow"
POSITIONS_NAME = "column-{}.positions"


@dataclass(frozen=True)
class IngestedTable:
    """What a pass left behind in a folder."""

    folder: Path
    row_count: int
    sample: Table = field(repr=False)  # the small table
    values: Table = field(repr=False)  # every column's distinct values by position, again from the first where it ends
    distinct_counts: Mapping[str, int]  # how many there are
    segments: Mapping[str, list[Segment]]

    def positions_path(self, name: str) -> Path:
        """The positions of a column."""
        return self.folder / POSITIONS_NAME.format(list(self.distinct_counts).index(name))


def ingest_source(source: Source, columns: Sequence[str], folder: Path, progress: bool | None) -> None:
    """Read the source, once, into a folder."""
    import pyarrow as pa

    sampled: list[Any] = []
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(folder / POSITIONS_NAME.format(j), "wb")) for j in range(len(columns))]
        dictionaries = {name: DictionaryColumn(name, file) for name, file in zip(columns, files, strict=True)}
        groups = [OneHotDetector(names) for names in group_by_prefix(columns).values()]
        bar, rows = stack.enter_context(ProgressBar("Reading", source.row_count, progress)), 0
        for chunk in source.chunks(columns):  # the one pass over the data: chunks are forgotten behind it
            positions = {name: dictionaries[name].add(chunk.column(name)) for name in columns}
            _add_to_groups(groups, dictionaries, positions)
            if len(sampled) * SAMPLE_ROWS_PER_CHUNK < MAX_SAMPLE_ROWS:
                sampled.append(pa.table({name: positions[name][:SAMPLE_ROWS_PER_CHUNK] for name in columns}))
            rows += len(chunk)
            bar.update(rows)
    if rows == 0:
        raise TableError(expected="the table must have at least one row", got="none")
    real = pa.concat_tables(sampled)
    _write_summary(folder, dictionaries, groups, {name: real.column(name).to_numpy() for name in columns}, rows)


def _add_to_groups(groups: list[OneHotDetector], dictionaries: Mapping[str, DictionaryColumn], positions: Any) -> None:
    names = {name for group in groups if group.violation is None for name in group.names}
    hot = {name: _flag_ones(dictionaries[name].values) for name in names}
    for group in groups:
        group.add(positions, hot)


def _flag_ones(values: Any) -> BoolArray | None:
    """Which values are a 1; None if there are others than 0 and 1."""
    numbers = [_parse_number(value) for value in values.slice(0, MAX_SPELLINGS).to_pylist()]
    if len(values) > MAX_SPELLINGS or any(number not in (0, 1) for number in numbers):
        return None
    return np.array(numbers, dtype=np.bool_)


def _parse_number(value: Any) -> Any:
    """A field of a text file as the number that it may be; all else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return float({"true": "1", "false": "0"}.get(value.lower(), value))
    except ValueError:
        return value


def _write_summary(
    folder: Path,
    dictionaries: Mapping[str, DictionaryColumn],
    groups: list[OneHotDetector],
    real: ColumnPositions,
    rows: int,
) -> None:
    """Write the small tables, and what else is known."""
    length = max(len(column.values) for column in dictionaries.values())
    circles = {name: np.arange(length) % len(column.values) for name, column in dictionaries.items()}
    _write_table(folder / VALUES_NAME, dictionaries, circles)
    _write_table(folder / SAMPLE_NAME, dictionaries, _lay_out_sample(groups, real, circles))
    summary = {
        "row_count": rows,
        "real_rows": len(next(iter(real.values()))),
        "distinct_counts": {name: len(column.values) for name, column in dictionaries.items()},
        "segments": {name: column.segments for name, column in dictionaries.items()},
    }
    (folder / SUMMARY_NAME).write_text(json.dumps(summary), encoding="utf-8")


def _lay_out_sample(groups: list[OneHotDetector], real: ColumnPositions, circles: ColumnPositions) -> ColumnPositions:
    """Real rows, all values of every column, and whole rows of the groups, or one that shows why a group is none."""
    length = len(next(iter(circles.values())))
    ends = {name: np.concatenate([real[name], circle]) for name, circle in circles.items()}
    # A group gets its own rows instead of each column's values, which together would be no one-hot rows.
    for group in groups:
        patterns = group.patterns if group.violation is None else [group.violation]
        for place, name in enumerate(group.names):
            column = np.array([pattern[place] for pattern in patterns])
            if group.violation is None:
                ends[name][len(real[name]) :] = column[np.arange(length) % len(column)]
            else:
                ends[name] = np.concatenate([ends[name], column])
    longest = max(map(len, ends.values()))
    # shorter columns are filled up by what they begin with: a value of a real row, which breaks nothing
    return {name: np.append(column, np.full(longest - len(column), column[0])) for name, column in ends.items()}


def _write_table(path: Path, dictionaries: Mapping[str, DictionaryColumn], places: ColumnPositions) -> None:
    import pyarrow as pa

    table = pa.table({name: _build_declared_array(column, places[name]) for name, column in dictionaries.items()})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _build_declared_array(column: DictionaryColumn, places: Int64Array) -> Any:
    """Values of a column at some places; those of categories with all that the column declares."""
    import pyarrow as pa

    values = column.values.take(pa.array(places))
    if column.categories is None:
        return values
    listed, ordered = column.categories
    where = {value: place for place, value in enumerate(listed)}
    codes = pa.array([None if value is None else where[value] for value in values.to_pylist()], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(listed, column.values.type), ordered=ordered)


def read_ingested(source: Source, folder: Path) -> IngestedTable:
    """What a pass left behind."""
    summary = json.loads((folder / SUMMARY_NAME).read_text(encoding="utf-8"))
    sample, values = (_read_table(source, folder / name) for name in (SAMPLE_NAME, VALUES_NAME))
    segments = {name: [(kind, count) for kind, count in pairs] for name, pairs in summary["segments"].items()}
    checked = Table(sample.native, sample.names, sample.frame, real_rows=summary["real_rows"])
    rows, counts = summary["row_count"], summary["distinct_counts"]
    return IngestedTable(folder, rows, checked, values=values, distinct_counts=counts, segments=segments)


def _read_table(source: Source, path: Path) -> Table:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return read_table(source.to_pandas(pa.ipc.open_file(file).read_all()))


CACHE_FORMAT = 2  # part of a folder's name: what another version left in the cache is passed over, not read


@dataclass(frozen=True)
class OpenedSource:
    """A source that was read, and its temporary folder if it has one, which goes with the last reference to it."""

    table: IngestedTable
    folder: TempFolder | None = field(default=None, repr=False)


def open_source(source: Source, columns: Sequence[str], cache: Path | None, progress: bool | None) -> OpenedSource:
    """Read a source, or find what an earlier pass over the same data left in the cache."""
    require_columns(columns, source.names)
    fingerprint = source.fingerprint()
    if cache is None or fingerprint is None:
        temporary = TempFolder.create(cache)
        with report_write_errors("positions", temporary.path):
            ingest_source(source, columns, temporary.path, progress)
        return OpenedSource(read_ingested(source, temporary.path), temporary)
    folder = cache / hashlib.sha256(repr((CACHE_FORMAT, fingerprint, tuple(columns))).encode()).hexdigest()[:32]
    if not folder.exists():
        with report_write_errors("positions", folder), create_folder(folder) as unfinished:
            ingest_source(source, columns, unfinished, progress)
    return OpenedSource(read_ingested(source, folder))
