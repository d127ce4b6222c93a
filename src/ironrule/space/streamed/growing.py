"""One column of a table that comes in chunks: its distinct values so far, and every row as a position among them.

Positions are given in the order in which values first appear, so a row's never changes. They are written to a file as
narrow as they fit: a byte each while there are at most 256 values, then two, then four. In the end the values are put
in their order, and positions become codes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import TableError
from ironrule.space.codes import smallest_type

Integers = npt.NDArray[np.int64]
Segment = tuple[str, int]
"""So many rows of one type."""


@dataclass(slots=True)
class GrowingColumn:
    """The distinct values of a column, as an Arrow array, and the file with its positions."""

    name: str
    file: IO[bytes]
    values: Any = None
    categories: Any = None  # of a column of categories: all that it declares, and whether they have an order
    segments: list[Segment] = field(default_factory=list)

    def add(self, column: Any) -> Integers:
        """Take the column of a chunk; gives the positions of its rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        flat = pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
        coded = pc.dictionary_encode(self._plain(flat), null_encoding="encode")
        new = self._agreed(coded.dictionary)
        places = pc.index_in(new, value_set=self.values)
        unknown = new.filter(pc.is_null(places))
        if len(unknown):
            self.values = pa.concat_arrays([self.values, unknown])
            places = pc.index_in(new, value_set=self.values)
        positions = places.to_numpy(zero_copy_only=False).astype(np.int64)[coded.indices.to_numpy()]
        self._write(positions)
        return np.asarray(positions)

    def _plain(self, flat: Any) -> Any:
        """A column of categories as its values; what it declares is kept."""
        import pyarrow as pa

        if not pa.types.is_dictionary(flat.type):
            return flat
        known = [] if self.categories is None else self.categories[0]
        listed = [*known, *(value for value in flat.dictionary.to_pylist() if value not in known)]
        self.categories = listed, flat.type.ordered
        return flat.cast(flat.type.value_type)

    def _agreed(self, values: Any) -> Any:
        """New values in the type of the known ones; where that cannot be, both in a type that holds both."""
        import pyarrow as pa

        if self.values is None:
            self.values = values.slice(0, 0)
        if values.type == self.values.type:
            return values
        schemas = [pa.schema([(self.name, one.type)]) for one in (self.values, values)]
        try:
            common = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
            self.values = self.values.cast(common)
            return values.cast(common)
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            raise TableError(
                expected=f"column {self.name!r} must have one type",
                got=f"{self.values.type} in some rows and {values.type} in others",
            ) from None

    def _write(self, positions: Integers) -> None:
        kind = np.dtype(smallest_type(len(self.values)))
        self.file.write(positions.astype(kind).data)
        if self.segments and self.segments[-1][0] == kind.str:
            self.segments[-1] = (kind.str, self.segments[-1][1] + len(positions))
        else:
            self.segments.append((kind.str, len(positions)))


def read_segments(path: Path, segments: list[Segment], rows: int) -> Any:
    """The positions of all rows, about ``rows`` at a time."""
    begins = 0
    for kind, count in segments:
        mapped = np.memmap(path, dtype=kind, mode="r", offset=begins, shape=(count,))
        for first in range(0, count, rows):
            yield np.asarray(mapped[first : first + rows])
        begins += count * np.dtype(kind).itemsize
