"""Files of the column store: temporary folders that remove themselves, and columns of codes mapped from disk.

A temporary folder holds a lock on a file in it, which the operating system releases when the process dies, however it
dies. So a folder whose lock is free was left behind, and the next process that makes a folder beside it removes it. A
new folder gets its lasting name once the lock is held, so that no process mistakes it for one that was left behind.

Every column of codes is one file, written in pieces and mapped into memory: the operating system decides what stays
there. A folder of columns appears under its name only when all of it has been written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray
from ironrule.errors import StorageError
from ironrule.space.codes import EncodedTable

LOCK_NAME = "in-use"
NEW_PREFIX, HELD_PREFIX = "ironrule-new-", "ironrule-held-"


class TempFolder:
    """A folder of one's own. Copies of it, such as another process gets, do not remove it."""

    def __init__(self, path: Path, lock: IO[bytes] | None = None) -> None:
        self.path = path
        self._removal = None if lock is None else weakref.finalize(self, _remove, path, lock)

    @classmethod
    def create(cls, parent: Path | None) -> TempFolder:
        """A new folder, with nothing in it but its lock; those that were left behind beside it are removed."""
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent)
        made = Path(tempfile.mkdtemp(prefix=NEW_PREFIX, dir=parent))
        lock = open(made / LOCK_NAME, "ab")  # noqa: SIM115  # held as long as the folder
        held = _try_lock(lock)
        return cls(made.rename(parent / made.name.replace(NEW_PREFIX, HELD_PREFIX, 1)) if held else made, lock)

    def __enter__(self) -> TempFolder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._removal is not None:
            self._removal()

    def __reduce__(self) -> tuple[Any, ...]:
        return TempFolder, (self.path,)


def _remove(path: Path, lock: IO[bytes]) -> None:
    lock.close()
    shutil.rmtree(path, ignore_errors=True)


def _try_lock(lock: IO[bytes]) -> bool:
    """Whether the lock could be taken: it is free, and there are locks here."""
    if os.name != "posix":
        return False
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has it, or the file system knows no locks
        return False
    return True


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of one's own processes that died; what cannot be removed is left alone."""
    for path in parent.glob(f"{HELD_PREFIX}*"):
        with contextlib.suppress(OSError):  # another process removes it too
            if path.lstat().st_uid == os.getuid():
                with open(path / LOCK_NAME, "rb") as lock:
                    if _try_lock(lock):
                        shutil.rmtree(path, ignore_errors=True)


COLUMN_NAME = "column-{}.{}"
BLOCK_ROWS = 1 << 20


def write_columns(folder: Path, columns: Iterable[Iterator[AnyArray]]) -> None:
    """Write every column, which comes in pieces, to a file of its own, in a folder that appears when all is there."""
    with report_write_errors("codes", folder), create_folder(folder) as unfinished:
        for place, pieces in enumerate(columns):
            _write_column(unfinished, place, pieces)


@contextlib.contextmanager
def create_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to write to, which becomes ``folder`` when all is there."""
    with TempFolder.create(folder.parent) as temporary:
        unfinished = temporary.path / folder.name
        unfinished.mkdir()
        yield unfinished
        if not folder.exists():  # else another process was faster
            unfinished.rename(folder)


@contextlib.contextmanager
def report_write_errors(what: str, folder: Path) -> Iterator[None]:
    """Raise StorageError, naming what could not be written, for the operating system's errors."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not of the operating system, such as a StorageError
            raise
        raise StorageError(
            f"cannot write {what} to {str(folder)!r}: {error.strerror or error}",
            hint="free some disk space, or use another cache",
        ) from error


def _write_column(folder: Path, place: int, pieces: Iterator[AnyArray]) -> None:
    kind, path = "", folder / f"column-{place}"
    with open(path, "wb") as file:
        for piece in pieces:
            kind = piece.dtype.str[1:]
            file.write(np.ascontiguousarray(piece).data)
    path.rename(folder / COLUMN_NAME.format(place, kind))


def open_columns(folder: Path) -> EncodedTable:
    """The columns in a folder, mapped."""
    files = sorted(folder.iterdir(), key=lambda file: int(file.stem.removeprefix("column-")))
    return EncodedTable(tuple(_map_column(file) for file in files))


def _map_column(file: Path) -> AnyArray:
    kind = np.dtype(file.suffix[1:])
    if file.stat().st_size == 0:  # nothing to map
        return np.empty(0, dtype=kind)
    return np.memmap(file, dtype=kind, mode="c")


def open_or_write_columns(folder: Path, build_columns: Callable[[], Iterable[Iterator[AnyArray]]]) -> EncodedTable:
    """The columns in a folder, written first where they are not there yet."""
    if not folder.exists():
        write_columns(folder, build_columns())
    return open_columns(folder)


def select_rows(columns: Sequence[AnyArray], mask: BoolArray) -> Iterator[Iterator[Any]]:
    """The rows that a mask chooses, column by column, in pieces."""

    def pieces(column: AnyArray) -> Iterator[AnyArray]:
        for first in range(0, len(column), BLOCK_ROWS):
            yield column[first : first + BLOCK_ROWS][mask[first : first + BLOCK_ROWS]]

    return (pieces(column) for column in columns)
