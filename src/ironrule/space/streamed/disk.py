"""Columns of codes on disk: one file each, mapped into memory: the operating system decides what stays there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import StorageError
from ironrule.space.codes import Codes
from ironrule.space.streamed.scratch import Scratch

COLUMN = "column-{}.{}"
ROWS = 1 << 20


def write_columns(folder: Path, columns: Iterable[Iterator[npt.NDArray[Any]]]) -> None:
    """Write every column, which comes in pieces, to a file of its own, in a folder that appears when all is there."""
    try:
        with Scratch.new(folder.parent) as scratch:
            unfinished = scratch.path / folder.name
            unfinished.mkdir()
            for place, pieces in enumerate(columns):
                _write(unfinished, place, pieces)
            if not folder.exists():  # else another process was faster
                unfinished.rename(folder)
    except OSError as error:
        raise StorageError(
            f"cannot write codes to {str(folder)!r}: {error.strerror or error}",
            hint="free some disk space, or use another cache",
        ) from error


def _write(folder: Path, place: int, pieces: Iterator[npt.NDArray[Any]]) -> None:
    kind, path = "", folder / f"column-{place}"
    with open(path, "wb") as file:
        for piece in pieces:
            kind = piece.dtype.str[1:]
            file.write(np.ascontiguousarray(piece).data)
    path.rename(folder / COLUMN.format(place, kind))


def open_columns(folder: Path) -> Codes:
    """The columns in a folder, mapped."""
    files = sorted(folder.iterdir(), key=lambda file: int(file.stem.removeprefix("column-")))
    return Codes(tuple(_mapped(file) for file in files))


def _mapped(file: Path) -> npt.NDArray[Any]:
    kind = np.dtype(file.suffix[1:])
    if file.stat().st_size == 0:  # nothing to map
        return np.empty(0, dtype=kind)
    return np.memmap(file, dtype=kind, mode="c")


def kept_on_disk(folder: Path, make: Callable[[], Iterable[Iterator[npt.NDArray[Any]]]]) -> Codes:
    """The columns in a folder, written first where they are not there yet."""
    if not folder.exists():
        write_columns(folder, make())
    return open_columns(folder)


def chosen_rows(columns: Sequence[npt.NDArray[Any]], mask: npt.NDArray[np.bool_]) -> Iterator[Iterator[Any]]:
    """The rows that a mask chooses, column by column, in pieces."""

    def pieces(column: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
        for first in range(0, len(column), ROWS):
            yield column[first : first + ROWS][mask[first : first + ROWS]]

    return (pieces(column) for column in columns)
