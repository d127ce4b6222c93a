"""The protocol of a source: a table that is too long for memory and comes in chunks.

Each kind of source is a module of this folder. Chunks are Arrow tables of the same columns; their types may differ
where a chunk happens to hold whole numbers only, or nothing. ``to_pandas`` gives such values the types that the whole
table would have in pandas, so rules and models see the same values however the data came.
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

    @property
    def row_count(self) -> int | None:
        """How many rows it has, where that is known beforehand."""

    def chunks(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows, some at a time, as Arrow tables of these columns."""

    def to_pandas(self, table: Any) -> Any:
        """Values of such an Arrow table as they come in a pandas table of the whole."""

    def fingerprint(self) -> str | None:
        """What changes when the data does; None if that cannot be told."""
