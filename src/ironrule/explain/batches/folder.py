"""The folder of a batch: a manifest that says what is explained, and parts, Parquet files of finished rows.

A part appears whole or not at all: it is written under another name, brought to the disk, and then renamed, which is
one step for the file system. So after a crash at any moment the folder holds finished rows only, each of them once, and
the next run explains the others. The manifest holds the hashes of all that the answers depend on; a folder with other
hashes is refused. One run at a time: a lock, which the operating system takes back from a process that dies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ironrule.errors import InputError, StorageError
from ironrule.explain.batches.durable import UNFINISHED, remove_unfinished, write_durably
from ironrule.explain.batches.line import Line
from ironrule.explain.batches.parquet import read_column, read_lines, table_bytes

FORMAT = 2
MANIFEST = "manifest.json"
LOCK = "lock"
PART = "part-{:06d}.parquet"
KEYS = {  # the model first: with another one, other rows are denied
    "model": "another model",
    "space": "another space",
    "history": "another history",
    "rows": "other rows",
    "question": "another question (algorithm, budget, seed, permitted rules, or reuse of rules)",
}


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the parts of a batch lie."""

    path: Path

    def parts(self) -> list[Path]:
        """The finished parts, in the order in which they were written."""
        return sorted(self.path.glob("part-*.parquet"))

    def finished(self) -> set[int]:
        """The numbers of all rows that are finished."""
        return {row for part in self.parts() for row in read_column(part, "row")}

    def written(self) -> Iterator[Line]:
        """All finished lines, in the order in which they were written."""
        return (line for part in self.parts() for line in read_lines(part))

    def add(self, lines: Iterable[Line]) -> None:
        """Write finished rows as a part of their own."""
        last = self.parts()[-1:]
        number = int(last[0].stem.removeprefix("part-")) + 1 if last else 0
        try:
            write_durably(self.path / PART.format(number), table_bytes(lines))
        except OSError as error:
            raise StorageError(
                f"cannot write finished rows to {str(self.path)!r}: {error.strerror or error}",
                hint="the parts that are there stay, so free some space and run the same again",
            ) from error

    def manifest(self) -> dict[str, Any]:
        """What the folder is a batch of; raises InputError if it is none."""
        try:
            found = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(
                f"not the folder of a batch: {str(self.path)!r} has no manifest that can be read"
            ) from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            got = repr(found.get("format"))[:40] if isinstance(found, dict) else type(found).__name__
            expected = f"the batch in {str(self.path)!r} must have format {FORMAT}"
            raise InputError(expected=expected, got=got, code="wrong-format")
        return found


def begun(path: Path, keys: Mapping[str, Any]) -> Folder:
    """The folder for a batch, made or found; raises InputError if it holds something else."""
    folder = Folder(path)
    if (path / MANIFEST).exists():
        _refuse_others(path, folder.manifest(), keys)
        remove_unfinished(path)
        return folder
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_durably(path / MANIFEST, json.dumps({"format": FORMAT, **keys}, indent=2).encode())
    except OSError as error:
        raise StorageError(f"cannot write to the folder {str(path)!r}: {error.strerror or error}") from error
    return folder


def _refuse_others(path: Path, found: Mapping[str, Any], keys: Mapping[str, Any]) -> None:
    other = [what for key, what in KEYS.items() if found.get(key) != keys[key]]
    if other:
        raise InputError(
            f"the folder {str(path)!r} holds another batch: it was begun with {', '.join(other)}",
            hint="choose another folder, or remove it",
            code="batch-mismatch",
        )


def locked(path: Path) -> IO[bytes]:
    """A lock on the folder, made if need be, held until the file is closed.

    Raises InputError if somebody else has it, or if the folder holds other things; then it is left as it was.
    """
    left_behind = {LOCK, MANIFEST + UNFINISHED}  # by a run that was killed before it had begun
    there = {file.name for file in path.iterdir()} if path.is_dir() else {path.name} if path.exists() else set()
    if MANIFEST not in there and there - left_behind:
        raise InputError(
            expected="output must be a new folder or that of the same batch",
            got=f"{str(path)!r}, which {'has other files in it' if path.is_dir() else 'is a file'}",
            hint="choose another folder",
        )
    path.mkdir(parents=True, exist_ok=True)
    file = open(path / LOCK, "ab")  # noqa: SIM115  # whoever asked closes it
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(
                f"another run is writing to {str(path)!r}", hint="wait until it has ended", code="batch-in-use"
            ) from None
    return file
