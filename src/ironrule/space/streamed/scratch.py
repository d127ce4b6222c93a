"""A folder that is removed when nobody holds it any more."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any


class Scratch:
    """A folder of one's own. Copies of it, such as another process gets, do not remove it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def new(cls, inside: Path | None) -> Scratch:
        """A new, empty folder."""
        if inside is not None:
            inside.mkdir(parents=True, exist_ok=True)
        scratch = cls(Path(tempfile.mkdtemp(prefix="ironrule-", dir=inside)))
        weakref.finalize(scratch, shutil.rmtree, scratch.path, ignore_errors=True)
        return scratch

    def __reduce__(self) -> tuple[Any, ...]:
        return Scratch, (self.path,)
