"""The folder of a batch: finished rows in Parquet files, safe from crashes, full disks and damage.

    manifest.json         what is explained, written once: hashes of all that the answers depend on
    part-000000.parquet   finished rows, a part of the batch
    parts.jsonl           the index: a line for every part, with its length and its checksum (SHA-256)
    lock                  held by the one run that may write; the operating system releases it if that run dies

Only what the index lists belongs to the batch. A copy of a part, or any other file, is left alone, with a warning. A
part whose bytes are not those that the index speaks of is damaged: the next run names it, sets it aside as
``*.damaged`` and explains its rows again; who only reads the batch is refused, because rows would be wrong or missing.

A part is added in three steps, each of which happens wholly or not at all:

1. its bytes are written to ``part-N.parquet.unfinished`` and brought to the disk;
2. the index is replaced by one that lists the part too (a new file, renamed over the old one);
3. ``part-N.parquet.unfinished`` is renamed to ``part-N.parquet``.

Whatever ends a run between two steps, or within one, the next run can tell by looking. An ``.unfinished`` file that the
index does not list was never finished (before 2): it is removed, and its rows are explained again. One that the index
lists is whole, if its checksum is right (between 2 and 3): it is renamed now. A reader leaves it out, as it would have
a moment before. A listed part that is there under neither name was deleted by somebody: it is named, as damaged. So
every finished row is stored once, and no row is lost but those of the last few seconds. The same holds on a full disk:
the step that fails is undone, and the run ends with StorageError.

A line of the index that cannot be read costs its part alone; numbers of parts are never used twice.

``StoredBatch`` is what batches of explanations and of counterfactuals share, whether they are in a folder or in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from ironrule.errors import InputError, StorageError, build_format_error
from ironrule.results.batch_storage import (
    BatchReader,
    BatchRow,
    StoredRow,
    encode_parquet,
    read_batch_row,
    read_batch_rows,
    read_columns,
)
from ironrule.space.space import Space
from ironrule.wording import format_count

MANIFEST_FORMAT = 4
MANIFEST, INDEX, LOCK = "manifest.json", "parts.jsonl", "lock"
PART_NAME = "part-{:06d}.parquet"
PART_PATTERN = re.compile(r"part-(\d{6,})\.parquet")
UNFINISHED, DAMAGED = ".unfinished", ".damaged"
MAX_NAMED = 3  # files that a message names
CHECKSUM_FIELD = "sha256"

MANIFEST_KEYS = {  # the model first: with another one, other rows are denied
    "model_fingerprint": "another model",
    "space_fingerprint": "another space",
    "history_fingerprint": "another history",
    "rows_fingerprint": "other rows",
    "options_fingerprint": "other options (algorithm, budget, seed, restrictions, reuse of rules, or ladders)",
}
KIND_FIELD, EXPLANATIONS, COUNTERFACTUALS = "kind", "explanations", "counterfactuals"


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and bring it to the disk; raises OSError, and leaves no such file behind, if that fails."""
    try:
        with open(path, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file in one step; raises OSError, and leaves nothing behind, if that fails."""
    unfinished = path.with_name(path.name + UNFINISHED)
    write_durably(unfinished, content)
    try:
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


@dataclass(frozen=True, slots=True)
class PartRecord:
    """A line of the index: a part's name, how many rows and bytes it has, and its checksum."""

    part: str
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def parse(cls, line: str) -> PartRecord | None:
        """What a line says; None if it cannot be read."""
        try:
            record = cls(**json.loads(line))
        except (ValueError, TypeError, RecursionError):
            return None
        whole = isinstance(record.rows, int) and isinstance(record.bytes, int) and isinstance(record.sha256, str)
        return record if whole and isinstance(record.part, str) and PART_PATTERN.fullmatch(record.part) else None

    @property
    def number(self) -> int:
        """The number in the name."""
        return int(self.part.removeprefix("part-").removesuffix(".parquet"))

    def matches(self, path: Path) -> bool:
        """Whether a file is there and has these bytes."""
        try:
            if path.stat().st_size != self.bytes:
                return False
            with open(path, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except OSError:  # not there, or not readable: a sector that is lost, too
            return False


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """Where the parts of a batch lie. What was found whole once is read again only if the file has changed since."""

    path: Path
    row_type: type[StoredRow] = BatchRow
    _known_whole: set[tuple[PartRecord, int]] = field(default_factory=set, repr=False, compare=False)

    # Reading.

    def read_index(self) -> list[PartRecord]:
        """The parts that belong to the batch, in the order in which they were written."""
        try:
            lines = (self.path / INDEX).read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:  # nothing is finished yet
            return []
        records = {record.part: record for line in lines if (record := PartRecord.parse(line)) is not None}
        return sorted(records.values(), key=lambda record: record.number)

    def count_listed_rows(self) -> int:
        """How many rows are finished, by the index."""
        return sum(record.rows for record in self.read_index())

    def parts(self) -> list[Path]:
        """The finished parts, whole and unaltered; raises InputError if one is damaged, and warns of other files."""
        whole, damaged = list[Path](), list[str]()
        index = self.read_index()
        for record in index:
            path = self.path / record.part
            # One that a run is just adding, or was when it was killed, is not there yet. The third look is for one that
            # was renamed between the first two.
            if self._is_whole(record):
                whole.append(path)
            elif not path.exists() and record.matches(self._find_unfinished(record)):
                continue
            elif self._is_whole(record):
                whole.append(path)
            else:
                damaged.append(record.part)
        if damaged:
            statement = f"the batch in {str(self.path)!r} is damaged: {_join_names(damaged)} is not as it was written"
            hint = f"make the call again that made the batch, with output={str(self.path)!r}: it explains the rows anew"
            raise InputError(statement, hint=hint, code="batch-damaged")
        self._warn_of_foreign_files(index)
        return whole

    def finished_row_numbers(self) -> set[int]:
        """The numbers of all rows that are finished."""
        return {row for part in self.parts() for row in read_columns(part, ["row"])["row"]}

    def read_rows(self) -> Iterator[Any]:
        """All finished rows, in the order in which they were written."""
        return (self.row_type.from_columns(row) for part in self.parts() for row in read_batch_rows(part))

    def manifest(self) -> dict[str, Any]:
        """What the folder is a batch of; raises InputError if it is none."""
        where = str(self.path)
        try:
            manifest = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            raise InputError(f"not the folder of a batch: {where!r} has no manifest that can be read") from None
        if not isinstance(manifest, dict) or manifest.get("format") != MANIFEST_FORMAT:
            got = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
            remedy = "explain its rows again into another folder"
            raise build_format_error(f"the batch in {where!r}", MANIFEST_FORMAT, got, remedy)
        if manifest.pop(CHECKSUM_FIELD, None) != _hash_manifest(manifest):
            statement = f"the manifest of the batch in {where!r} was altered after it was written"
            raise InputError(statement, hint="explain its rows again into another folder", code="manifest-altered")
        return manifest

    def _is_whole(self, record: PartRecord) -> bool:
        """Whether a part is there and unaltered."""
        path = self.path / record.part
        try:
            key = record, path.stat().st_mtime_ns
        except OSError:
            return False
        if key not in self._known_whole and record.matches(path):
            self._known_whole.add(key)
        return key in self._known_whole

    def _find_unfinished(self, record: PartRecord) -> Path:
        return self.path / (record.part + UNFINISHED)

    def _warn_of_foreign_files(self, index: Sequence[PartRecord]) -> None:
        """Name the files that do not belong to the batch; hidden ones are the operating system's."""
        own = {MANIFEST, INDEX, LOCK, *(record.part for record in index)}
        names = sorted(file.name for file in self.path.iterdir())
        suffixes = (UNFINISHED, DAMAGED)
        foreign = [name for name in names if name not in own and not name.startswith(".")]
        foreign = [name for name in foreign if not name.endswith(suffixes)]
        if foreign:
            said = f"ignored {_join_names(foreign)} in {str(self.path)!r}: no part of the batch by its index"
            warnings.warn(said, stacklevel=3)

    # Writing, by the one run that holds the lock.

    def repair(self) -> None:
        """Finish what a run that was killed left unfinished, and set damaged parts aside, so that they are redone."""
        index = self.read_index()
        damaged = list[PartRecord]()
        for record in index:
            path, unfinished = self.path / record.part, self._find_unfinished(record)
            if self._is_whole(record):
                continue
            if not path.exists() and record.matches(unfinished):
                os.replace(unfinished, path)
                continue
            damaged.append(record)
            if path.exists():
                os.replace(path, path.with_name(path.name + DAMAGED))
        for leftover in self.path.glob(f"*{UNFINISHED}"):  # never finished
            leftover.unlink()
        if damaged:
            names = _join_names([record.part for record in damaged])
            rows = sum(record.rows for record in damaged)
            said = f"{names} in {str(self.path)!r} was damaged or removed: its {rows} rows are explained again"
            warnings.warn(said, stacklevel=3)
            self._write_index([record for record in index if record not in damaged])

    def add(self, rows: Iterable[StoredRow]) -> None:
        """Write finished rows as a part of their own."""
        items, index = list(rows), self.read_index()
        part = PART_NAME.format(self._choose_number(index))
        path, content = self.path / part, encode_parquet(items, self.row_type)
        record = PartRecord(part, len(items), len(content), hashlib.sha256(content).hexdigest())
        unfinished = self._find_unfinished(record)
        with self._report_full_disk():
            write_durably(unfinished, content)
            try:
                self._write_index([*index, record])
            except OSError:
                with contextlib.suppress(OSError):
                    if record not in self.read_index():  # else it is finished, and the next run renames it
                        unfinished.unlink()
                raise
            os.replace(unfinished, path)
            sync_folder(self.path)

    def _choose_number(self, index: Sequence[PartRecord]) -> int:
        """One more than any that a file here, or a line of the index, has: also of parts that were set aside."""
        names = [file.name for file in self.path.iterdir()]
        used = [int(found[1]) for name in names if (found := PART_PATTERN.match(name)) is not None]
        return max([*used, *(record.number for record in index)], default=-1) + 1

    def _write_index(self, records: Sequence[PartRecord]) -> None:
        lines = "".join(json.dumps(asdict(record)) + "\n" for record in records)
        write_atomically(self.path / INDEX, lines.encode())

    @contextlib.contextmanager
    def _report_full_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"cannot write finished rows to {str(self.path)!r}: {error.strerror or error}",
                hint="the parts that are there stay, so free some space and run the same again",
            ) from error


def _join_names(names: Sequence[str]) -> str:
    """Some file names, shortened where there are many."""
    more = len(names) - MAX_NAMED
    return ", ".join(map(repr, names[:MAX_NAMED])) + (f" and {more} more" if more > 0 else "")


def _hash_manifest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def open_batch_folder(path: Path, keys: Mapping[str, Any], row_type: type[StoredRow] = BatchRow) -> BatchFolder:
    """The folder for a batch, made or found and repaired; raises InputError if it holds something else."""
    folder = BatchFolder(path, row_type)
    try:
        if not (path / MANIFEST).exists():
            path.mkdir(parents=True, exist_ok=True)
            manifest = json.loads(json.dumps({"format": MANIFEST_FORMAT, **keys}))  # as it will be read
            manifest[CHECKSUM_FIELD] = _hash_manifest(manifest)
            write_atomically(path / MANIFEST, json.dumps(manifest, indent=2).encode())
            return folder
        manifest = folder.manifest()
        require_kind(path, manifest, keys.get(KIND_FIELD, EXPLANATIONS))
        other = [what for key, what in MANIFEST_KEYS.items() if manifest.get(key) != keys[key]]
        if other:
            statement = f"the folder {str(path)!r} holds another batch: it was begun with {', '.join(other)}"
            raise InputError(statement, hint="choose another folder, or remove it", code="batch-mismatch")
        folder.repair()
    except OSError as error:
        raise _build_storage_error(path, error) from error
    return folder


def require_kind(path: Path, manifest: Mapping[str, Any], kind: str) -> None:
    """Raise InputError unless a folder holds this kind of batch; one of explanations need not say so."""
    got = manifest.get(KIND_FIELD, EXPLANATIONS)
    if got != kind:
        reader = "CounterfactualsBatch.open" if got == COUNTERFACTUALS else "Batch.open"
        raise InputError(
            expected=f"the folder {str(path)!r} must hold a batch of {kind}",
            got=f"one of {got}",
            hint=f"open it with {reader}, or choose another folder",
            code="batch-mismatch",
        )


def _build_storage_error(path: Path, error: OSError) -> StorageError:
    statement = f"cannot write to the folder {str(path)!r}: {error.strerror or error}"
    return StorageError(statement, hint="free some space there, or choose another folder")


def lock_folder(path: Path) -> IO[bytes]:
    """A lock on the folder, made if need be, held until the file is closed.

    Raises InputError if another process has it, or if the folder holds other things; then it is left as it was.
    """
    left_behind = {LOCK, MANIFEST + UNFINISHED}  # by a run that was killed before it had begun
    there = {file.name for file in path.iterdir()} if path.is_dir() else {path.name} if path.exists() else set()
    if MANIFEST not in there and there - left_behind:
        raise InputError(
            expected="output must be a new folder or that of the same batch",
            got=f"{str(path)!r}, which {'has other files in it' if path.is_dir() else 'is a file'}",
            hint="choose another folder",
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = open(path / LOCK, "ab")  # noqa: SIM115  # the caller closes it
    except OSError as error:
        raise _build_storage_error(path, error) from error
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            statement = f"another run is writing to {str(path)!r}"
            raise InputError(statement, hint="wait until it has ended", code="batch-in-use") from None
    return file


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

    def row_at(self, place: int) -> Any:
        """One of them."""
        _, part, position = self._index[place]
        return self.folder.row_type.from_columns(read_batch_row(part, position))

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""
        distinct = list(dict.fromkeys(names))
        parts = {part: read_columns(part, distinct) for part in {part for _, part, _ in self._index}}
        return {name: [parts[part][name][position] for _, part, position in self._index] for name in distinct}


_Item = TypeVar("_Item")
_Row = TypeVar("_Row", bound=StoredRow)


@dataclass(frozen=True)
class StoredBatch(Sequence[_Item], Generic[_Item, _Row]):
    """What all kinds of batches have in common: an item for every finished row, read from storage when it is needed.

    ``counts`` says how many rows there are ``to_explain``, and how many are not, and why.
    """

    storage: BatchReader[_Row] = field(repr=False)
    counts: Mapping[str, int]
    space: Space = field(repr=False)

    KIND: ClassVar[str]  # what the manifest of a folder says
    ROW_TYPE: ClassVar[type[StoredRow]]
    COUNTED: ClassVar[tuple[str, ...]]  # the names of the counts
    ITEM: ClassVar[str]  # what people call an item
    MISSING: ClassVar[str]  # what is said of a batch without some row

    def _read_item(self, stored: _Row) -> _Item:
        """The item of a stored row."""
        raise NotImplementedError

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """The batch in a folder, finished or not."""
        batch_folder = BatchFolder(Path(folder), cls.ROW_TYPE)
        manifest = batch_folder.manifest()
        require_kind(batch_folder.path, manifest, cls.KIND)
        counts = {name: manifest[name] for name in cls.COUNTED}
        return cls(FolderBatchReader(batch_folder), counts, Space.from_dict(manifest["space"]))

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The numbers of the rows that are finished."""
        return tuple(self.storage.row_numbers)

    @property
    def complete(self) -> bool:
        """Whether every row is finished."""
        return len(self) == self.counts["to_explain"]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"index {place} is out of range: the batch has {format_count(len(self), self.ITEM)}")
        return self._read_item(self.storage.row_at(place % len(self)))

    def __iter__(self) -> Iterator[_Item]:  # not by Sequence's: that would take an IndexError for the end
        return (self[place] for place in range(len(self)))

    def get_batch_row(self, row: int) -> _Row:
        """What is kept of the row with a number; raises InputError if it is not in the batch."""
        place = int(np.searchsorted(self.rows, row))
        if place == len(self) or self.rows[place] != row:
            statement = f"the batch {self.MISSING} row {row}: it may have the desired outcome"
            raise InputError(statement, code="row-not-in-batch")
        return self.storage.row_at(place)
