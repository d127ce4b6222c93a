"""The one seam between Ironrule and tables that are too long for memory: somebody who hands out chunks of one.

A source is a file of its own in this folder. Chunks are Arrow tables of the same columns; their types may differ where
a chunk happens to hold whole numbers only, or nothing. ``as_frame`` makes of such values the pandas table that the
whole would be, had it been read at once: rules and models then speak about the same values whichever way data came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

CHUNK_ROWS = 1 << 18


class Source(Protocol):
    """A table that comes in chunks."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        ...

    @property
    def rows(self) -> int | None:
        """How many rows it has, where that is known beforehand."""
        ...

    def chunks(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows, some at a time, as Arrow tables of these columns."""
        ...

    def as_frame(self, table: Any) -> Any:
        """Values of such an Arrow table as they come in a pandas table of the whole."""
        ...

    def stamp(self) -> str | None:
        """What changes when the data does; None if nobody can tell."""
        ...
