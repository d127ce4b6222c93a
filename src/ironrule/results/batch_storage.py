"""How a batch is stored: one flat row per explained row, in memory or in a folder of Parquet files.

``BatchRow`` is one row of a batch. ``document`` is the explanation as JSON, certificate included, and ``digest`` the
hash that it carries; both are None where documents were not wanted. Boxes are codes, for every feature the first and
the last; only proven rules have them, so that nothing unproven can be taken for a cover of anything.

A batch folder holds a manifest, which says what is explained, and parts, which are Parquet files of finished rows. A
part appears whole or not at all: it is written under a temporary name, synced to disk, and renamed, which is one step
for the file system (atomic write). So after a crash at any moment the folder holds finished rows only, each of them
once, and the next run explains the others. The manifest holds the hashes of all that the answers depend on; a folder
with other hashes is refused. One run at a time may write: a file lock, which the operating system releases if the
process dies.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

from ironrule.errors import InputError, MissingExtraError, StorageError, build_format_error
from ironrule.results.explanation import Explanation, RankedRule
from ironrule.verdict.digest import DIGEST_FIELD
from ironrule.verdict.verdict import Proven

CodeTuple = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """The explanation of one row. ``same_as`` is the row that was explained: an equal one, or the row itself;
    ``covered_by`` is the row that was searched for, where its rule covers this one too.
    """

    row: int
    same_as: int
    covered_by: int | None
    verdict: str
    rule: str
    cardinality: int
    weight: float
    lower_bound: float
    minimum: bool
    coverage: int
    wider: str | None
    wider_coverage: int | None
    wider_is_maximal: bool
    seconds: float
    stopped: str | None
    space: str
    model: str
    digest: str | None
    point: CodeTuple
    low: CodeTuple | None
    high: CodeTuple | None
    wider_low: CodeTuple | None
    wider_high: CodeTuple | None
    document: str | None

    def explanation(self) -> Explanation:
        """The explanation itself; raises InputError if the batch was made without documents."""
        if self.document is None:
            statement = f"the explanation of row {self.row} was not kept: the batch was made without documents"
            hint = "explain the row again, or make the batch with documents=True"
            raise InputError(statement, hint=hint, code="batch-without-documents")
        return Explanation.from_json(self.document)


COLUMNS = tuple(field.name for field in fields(BatchRow))


def build_batch_row(row: int, point: CodeTuple, explanation: Explanation, documents: bool) -> BatchRow:
    """An explanation as a row of a batch."""
    document: dict[str, Any] | None = explanation.to_dict() if documents else None
    wider = explanation.wider
    low, high = _find_proven_box(explanation.ranked[0])
    wider_low, wider_high = _find_proven_box(wider)
    return BatchRow(
        row=row,
        same_as=row,
        covered_by=None,
        verdict=type(explanation.verdict).__name__.lower(),
        rule=str(explanation.rule),
        cardinality=explanation.cardinality,
        weight=float(explanation.weight),
        lower_bound=float(explanation.lower_bound),
        minimum=explanation.minimum,
        coverage=explanation.coverage,
        wider=None if wider is None else str(wider.rule),
        wider_coverage=None if wider is None else wider.coverage,
        wider_is_maximal=explanation.wider_is_maximal,
        seconds=explanation.statistics.seconds,
        stopped=explanation.statistics.stopped,
        space=explanation.space,
        model=explanation.model,
        digest=None if document is None else document[DIGEST_FIELD],
        point=point,
        low=low,
        high=high,
        wider_low=wider_low,
        wider_high=wider_high,
        document=None if document is None else json.dumps(document, ensure_ascii=False),
    )


def _find_proven_box(ranked: RankedRule | None) -> tuple[CodeTuple | None, CodeTuple | None]:
    """The box that a proof speaks about; nothing where there is no proof."""
    if ranked is None or not isinstance(ranked.verdict, Proven):
        return None, None
    return ranked.verdict.certificate.low, ranked.verdict.certificate.high


ROWS_PER_GROUP = 64  # rows that are read together
CODE_COLUMNS = ("point", "low", "high", "wider_low", "wider_high")


def require_parquet() -> Any:
    """Arrow's module for Parquet; raises MissingExtraError now, not after the work."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "writing a batch") from None
    return pq


def encode_parquet(rows: Iterable[BatchRow]) -> bytes:
    """The bytes of a Parquet file with these rows."""
    import pyarrow as pa

    text, whole, codes = pa.string(), pa.int64(), pa.list_(pa.int32())
    kinds = {
        "row": whole, "same_as": whole, "covered_by": whole, "cardinality": pa.int32(), "weight": pa.float64(),
        "lower_bound": pa.float64(), "minimum": pa.bool_(), "coverage": whole, "wider_coverage": whole,
        "wider_is_maximal": pa.bool_(), "seconds": pa.float64(), **dict.fromkeys(CODE_COLUMNS, codes),
    }  # fmt: skip
    items, schema = list(rows), pa.schema([(name, kinds.get(name, text)) for name in COLUMNS])
    table = pa.table({name: [getattr(row, name) for row in items] for name in COLUMNS}, schema=schema)
    target = pa.BufferOutputStream()
    require_parquet().write_table(table, target, compression="zstd", row_group_size=ROWS_PER_GROUP)
    return bytes(target.getvalue())


def read_columns(path: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """Some columns of a part, as Python values."""
    table = require_parquet().read_table(path, columns=list(names), partitioning=None)
    return {name: table.column(name).to_pylist() for name in names}


def read_batch_row(path: Path, place: int) -> BatchRow:
    """The row at a place of a part; only its group of rows is read."""
    with require_parquet().ParquetFile(path) as file:
        group = file.read_row_group(place // ROWS_PER_GROUP)
        return _parse_batch_row(group.slice(place % ROWS_PER_GROUP, 1).to_pylist()[0])


def read_batch_rows(path: Path) -> Iterator[BatchRow]:
    """All rows of a part."""
    with require_parquet().ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield from map(_parse_batch_row, file.read_row_group(group).to_pylist())


def _parse_batch_row(values: dict[str, Any]) -> BatchRow:
    codes = {name: None if values[name] is None else tuple(values[name]) for name in CODE_COLUMNS}
    return BatchRow(**(values | codes))


TEMPORARY_SUFFIX = ".unfinished"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file in one step; raises OSError, and leaves nothing behind, if that fails."""
    unfinished = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, where the operating system can."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


MANIFEST_FORMAT = 3
MANIFEST = "manifest.json"
LOCK = "lock"
PART_NAME = "part-{:06d}.parquet"

MANIFEST_KEYS = {  # the model first: with another one, other rows are denied
    "model_fingerprint": "another model",
    "space_fingerprint": "another space",
    "history_fingerprint": "another history",
    "rows_fingerprint": "other rows",
    "options_fingerprint": "other options (algorithm, budget, seed, restrictions, or reuse of rules)",
}


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """Where the parts of a batch lie."""

    path: Path

    def parts(self) -> list[Path]:
        """The finished parts, in the order in which they were written."""
        return sorted(self.path.glob("part-*.parquet"))

    def finished_row_numbers(self) -> set[int]:
        """The numbers of all rows that are finished."""
        return {row for part in self.parts() for row in read_columns(part, ["row"])["row"]}

    def read_rows(self) -> Iterator[BatchRow]:
        """All finished rows, in the order in which they were written."""
        return (row for part in self.parts() for row in read_batch_rows(part))

    def add(self, rows: Iterable[BatchRow]) -> None:
        """Write finished rows as a part of their own."""
        last = self.parts()[-1:]
        number = int(last[0].stem.removeprefix("part-")) + 1 if last else 0
        try:
            write_atomically(self.path / PART_NAME.format(number), encode_parquet(rows))
        except OSError as error:
            raise StorageError(
                f"cannot write finished rows to {str(self.path)!r}: {error.strerror or error}",
                hint="the parts that are there stay, so free some space and run the same again",
            ) from error

    def manifest(self) -> dict[str, Any]:
        """What the folder is a batch of; raises InputError if it is none."""
        where = str(self.path)
        try:
            manifest = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"not the folder of a batch: {where!r} has no manifest that can be read") from None
        if not isinstance(manifest, dict) or manifest.get("format") != MANIFEST_FORMAT:
            got = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
            remedy = "explain its rows again into another folder"
            raise build_format_error(f"the batch in {where!r}", MANIFEST_FORMAT, got, remedy)
        return manifest


def open_batch_folder(path: Path, keys: Mapping[str, Any]) -> BatchFolder:
    """The folder for a batch, made or found; raises InputError if it holds something else."""
    folder = BatchFolder(path)
    if (path / MANIFEST).exists():
        manifest = folder.manifest()
        other = [what for key, what in MANIFEST_KEYS.items() if manifest.get(key) != keys[key]]
        if other:
            statement = f"the folder {str(path)!r} holds another batch: it was begun with {', '.join(other)}"
            raise InputError(statement, hint="choose another folder, or remove it", code="batch-mismatch")
        for unfinished in path.glob(f"*{TEMPORARY_SUFFIX}"):  # of a run that was killed
            unfinished.unlink()
        return folder
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_atomically(path / MANIFEST, json.dumps({"format": MANIFEST_FORMAT, **keys}, indent=2).encode())
    except OSError as error:
        raise StorageError(f"cannot write to the folder {str(path)!r}: {error.strerror or error}") from error
    return folder


def lock_folder(path: Path) -> IO[bytes]:
    """A lock on the folder, made if need be, held until the file is closed.

    Raises InputError if another process has it, or if the folder holds other things; then it is left as it was.
    """
    left_behind = {LOCK, MANIFEST + TEMPORARY_SUFFIX}  # by a run that was killed before it had begun
    there = {file.name for file in path.iterdir()} if path.is_dir() else {path.name} if path.exists() else set()
    if MANIFEST not in there and there - left_behind:
        raise InputError(
            expected="output must be a new folder or that of the same batch",
            got=f"{str(path)!r}, which {'has other files in it' if path.is_dir() else 'is a file'}",
            hint="choose another folder",
        )
    path.mkdir(parents=True, exist_ok=True)
    file = open(path / LOCK, "ab")  # noqa: SIM115  # the caller closes it
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            statement = f"another run is writing to {str(path)!r}"
            raise InputError(statement, hint="wait until it has ended", code="batch-in-use") from None
    return file


class BatchReader(Protocol):
    """Finished rows, in the order of their numbers."""

    @property
    def row_numbers(self) -> list[int]:
        """Their row numbers."""

    def row_at(self, place: int) -> BatchRow:
        """One of them."""

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""


@dataclass(slots=True)
class InMemoryBatch:
    """Rows in memory."""

    batch_rows: list[BatchRow] = field(default_factory=list)

    @property
    def row_numbers(self) -> list[int]:
        """Their row numbers."""
        return [row.row for row in self.batch_rows]

    def finished_row_numbers(self) -> set[int]:
        """The numbers of all rows that are finished."""
        return set(self.row_numbers)

    def read_rows(self) -> list[BatchRow]:
        """The rows that are finished."""
        return self.batch_rows

    def add(self, rows: Sequence[BatchRow]) -> None:
        """Keep finished rows."""
        self.batch_rows = sorted([*self.batch_rows, *rows], key=lambda row: row.row)

    def row_at(self, place: int) -> BatchRow:
        """One of them."""
        return self.batch_rows[place]

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""
        return {name: [getattr(row, name) for row in self.batch_rows] for name in names}


@dataclass(frozen=True)
class FolderBatchReader:
    """Rows in the parts of a folder, read when they are asked for; parts that are added later are not seen."""

    folder: BatchFolder

    @cached_property
    def _index(self) -> list[tuple[int, Path, int]]:
        """Of every row its number, its part, and its place there."""
        parts = ((part, read_columns(part, ["row"])["row"]) for part in self.folder.parts())
        return sorted((row, part, place) for part, rows in parts for place, row in enumerate(rows))

    @property
    def row_numbers(self) -> list[int]:
        """Their row numbers."""
        return [row for row, _, _ in self._index]

    def row_at(self, place: int) -> BatchRow:
        """One of them."""
        _, part, position = self._index[place]
        return read_batch_row(part, position)

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""
        distinct = list(dict.fromkeys(names))
        parts = {part: read_columns(part, distinct) for part in {part for _, part, _ in self._index}}
        return {name: [parts[part][name][position] for _, part, position in self._index] for name in distinct}
