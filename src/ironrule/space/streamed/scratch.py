"""A folder that is removed when nobody holds it any more.

Whoever made it holds a lock on a file in it, which the operating system takes back from a process that dies, however it
dies. So a folder whose lock is free was left behind by such a process, and the next one that makes a folder beside it
removes it. It gets its lasting name when the lock is held, so that nobody takes a new folder for one that was left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import IO, Any

LOCK = "in-use"
NEW, HELD = "ironrule-new-", "ironrule-held-"


class Scratch:
    """A folder of one's own. Copies of it, such as another process gets, do not remove it."""

    def __init__(self, path: Path, lock: IO[bytes] | None = None) -> None:
        self.path = path
        self._removal = None if lock is None else weakref.finalize(self, _remove, path, lock)

    @classmethod
    def new(cls, inside: Path | None) -> Scratch:
        """A new folder, with nothing in it but its lock; those that were left behind beside it are removed."""
        home = Path(tempfile.gettempdir()) if inside is None else inside
        home.mkdir(parents=True, exist_ok=True)
        _sweep(home)
        made = Path(tempfile.mkdtemp(prefix=NEW, dir=home))
        lock = open(made / LOCK, "ab")  # noqa: SIM115  # held as long as the folder
        held = _held(lock)
        return cls(made.rename(home / made.name.replace(NEW, HELD, 1)) if held else made, lock)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        if self._removal is not None:
            self._removal()

    def __reduce__(self) -> tuple[Any, ...]:
        return Scratch, (self.path,)


def _remove(path: Path, lock: IO[bytes]) -> None:
    lock.close()
    shutil.rmtree(path, ignore_errors=True)


def _held(lock: IO[bytes]) -> bool:
    """Whether the lock could be taken: it is free, and there are locks here."""
    if os.name != "posix":
        return False
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody has it, or the file system knows no locks
        return False
    return True


def _sweep(home: Path) -> None:
    """Remove the folders of one's own processes that died; what cannot be removed is left alone."""
    for path in home.glob(f"{HELD}*"):
        with contextlib.suppress(OSError):  # another process removes it too
            if path.lstat().st_uid == os.getuid():
                with open(path / LOCK, "rb") as lock:
                    if _held(lock):
                        shutil.rmtree(path, ignore_errors=True)
