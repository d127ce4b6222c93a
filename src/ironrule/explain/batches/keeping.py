"""Where finished lines are kept, and how they are read again: in memory, or in the folder of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from ironrule.explain.batches.folder import Folder
from ironrule.explain.batches.line import Line
from ironrule.explain.batches.parquet import read_column, read_columns, read_line


class Kept(Protocol):
    """Finished lines, in the order of their rows."""

    @property
    def rows(self) -> list[int]:
        """Their row numbers."""
        ...

    def line(self, place: int) -> Line:
        """One of them."""
        ...

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""
        ...


@dataclass(slots=True)
class InMemory:
    """Lines in memory."""

    lines: list[Line] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        """Their row numbers."""
        return [line.row for line in self.lines]

    def finished(self) -> set[int]:
        """The numbers of all rows that are finished."""
        return set(self.rows)

    def written(self) -> list[Line]:
        """The lines that are there."""
        return self.lines

    def add(self, lines: Sequence[Line]) -> None:
        """Keep finished lines."""
        self.lines = sorted([*self.lines, *lines], key=lambda line: line.row)

    def line(self, place: int) -> Line:
        """One of them."""
        return self.lines[place]

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""
        return {name: [getattr(line, name) for line in self.lines] for name in names}


@dataclass(frozen=True)
class InFolder:
    """Lines in the parts of a folder, read when they are asked for; parts that are added later are not seen."""

    folder: Folder

    @cached_property
    def _where(self) -> list[tuple[int, Path, int]]:
        """Of every line its row, its part, and its place there."""
        found = [
            (row, part, place) for part in self.folder.parts() for place, row in enumerate(read_column(part, "row"))
        ]
        return sorted(found)

    @property
    def rows(self) -> list[int]:
        """Their row numbers."""
        return [row for row, _, _ in self._where]

    def line(self, place: int) -> Line:
        """One of them."""
        _, part, position = self._where[place]
        return read_line(part, position)

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""
        wanted = list(dict.fromkeys(names))
        parts = {part: read_columns(part, wanted) for part in {part for _, part, _ in self._where}}
        return {name: [parts[part][name][position] for _, part, position in self._where] for name in wanted}
