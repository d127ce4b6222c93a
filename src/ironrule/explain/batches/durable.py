"""Files that appear whole or not at all: written under another name, brought to the disk, then renamed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

UNFINISHED = ".unfinished"


def write_durably(path: Path, content: bytes) -> None:
    """Write a file in one step; raises OSError, and leaves nothing behind, if that fails."""
    unfinished = path.with_name(path.name + UNFINISHED)
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


def remove_unfinished(path: Path) -> None:
    """Remove what a run that was killed left behind."""
    for file in path.glob(f"*{UNFINISHED}"):
        file.unlink()
