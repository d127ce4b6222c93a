"""Tables that are never in memory as a whole: read once, kept as codes on disk, used again as long as the data is the
same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ironrule.errors import StorageError, TableError
from ironrule.space.sources.protocol import Source
from ironrule.space.streamed.coding import codes_on_disk
from ironrule.space.streamed.gathered import Gathered, gather, read_gathered
from ironrule.space.streamed.scratch import Scratch

__all__ = ["Gathered", "Opened", "codes_on_disk", "open_source"]

FORMAT = 1


@dataclass(frozen=True)
class Opened:
    """A source that was read, and the folder that goes when nobody needs it any more, if it does."""

    gathered: Gathered
    scratch: Scratch | None = field(default=None, repr=False)


def open_source(source: Source, columns: Sequence[str], cache: Path | None, progress: bool | None) -> Opened:
    """Read a source, or find what an earlier pass over the same data left in the cache."""
    absent = [name for name in columns if name not in source.names]
    if absent:
        raise TableError(
            expected=f"the data must have the column {absent[0]!r}",
            got=f"columns {', '.join(source.names)}",
            code="missing-columns",
        )
    stamp = source.stamp()
    if cache is None or stamp is None:
        scratch = Scratch.new(cache)
        _gather(source, columns, scratch.path, progress)
        return Opened(read_gathered(source, scratch.path), scratch)
    folder = cache / hashlib.sha256(repr((FORMAT, stamp, tuple(columns))).encode()).hexdigest()[:32]
    if not folder.exists():
        _gather_into(source, columns, folder, progress)
    return Opened(read_gathered(source, folder))


def _gather_into(source: Source, columns: Sequence[str], folder: Path, progress: bool | None) -> None:
    """In a folder that appears when all is there."""
    with Scratch.new(folder.parent) as scratch:
        unfinished = scratch.path / folder.name
        unfinished.mkdir()
        _gather(source, columns, unfinished, progress)
        if not folder.exists():  # else another process was faster
            unfinished.rename(folder)


def _gather(source: Any, columns: Sequence[str], folder: Path, progress: bool | None) -> None:
    try:
        gather(source, columns, folder, progress)
    except OSError as error:
        if error.errno is None:
            raise
        raise StorageError(
            f"cannot write positions to {str(folder)!r}: {error.strerror or error}",
            hint="free some disk space, or use another cache",
        ) from error
