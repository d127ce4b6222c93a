"""Files that a command is to read: there, or refused with what to do about it."""

from __future__ import annotations

import difflib
from pathlib import Path

from ironrule.errors import InputError


def existing(path: Path, what: str, do: str = "check the path", error: type[InputError] = InputError) -> Path:
    """The path, if it is a file; else an error with a hint: a file with a similar name, or ``do``."""
    if path.is_file():
        return path
    if path.is_dir():
        raise error(expected=f"the {what} must be a file", got=f"the folder {str(path)!r}", hint="name the file in it")
    if path.exists():
        raise error(f"the {what} must be a regular file, but {str(path)!r} is not one")
    near = _like(path)
    hint = f"did you mean {str(near)!r}?" if near is not None else do
    raise error(f"{what} not found: {str(path)!r}", hint=hint, code="file-not-found")


def _like(path: Path) -> Path | None:
    """A file in the same folder with a name like it, and the same ending."""
    try:
        names = [one.name for one in path.parent.iterdir() if one.is_file()]
    except OSError:  # no such folder, or none that may be read
        return None
    alike = [name for name in names if name.lower().endswith(path.suffix.lower())]
    close = difflib.get_close_matches(path.name, alike, 1)
    return path.with_name(close[0]) if close else None
