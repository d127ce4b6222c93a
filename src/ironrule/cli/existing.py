"""Files that a command is to read: there, or refused with what to do about it."""

from __future__ import annotations

import difflib
from pathlib import Path

from ironrule.errors import InputError


def existing(path: Path, what: str, do: str = "check the path", error: type[InputError] = InputError) -> Path:
    """The path, if a file is there; else an error that names what is like it beside it, or what to do."""
    if path.is_file():
        return path
    if path.is_dir():
        raise error(f"{what} must be a file, but {str(path)!r} is a folder; name the file in it")
    if path.exists():
        raise error(f"{what} must be a plain file, but {str(path)!r} is none; name another")
    near = _like(path)
    hint = f"did you mean {str(near)!r}?" if near is not None else do
    raise error(f"{what} must exist, but there is no file {str(path)!r}; {hint}")


def _like(path: Path) -> Path | None:
    """A file in the same folder with a name like it, and the same ending."""
    try:
        names = [one.name for one in path.parent.iterdir() if one.is_file()]
    except OSError:  # no such folder, or none that may be read
        return None
    alike = [name for name in names if name.lower().endswith(path.suffix.lower())]
    close = difflib.get_close_matches(path.name, alike, 1)
    return path.with_name(close[0]) if close else None
