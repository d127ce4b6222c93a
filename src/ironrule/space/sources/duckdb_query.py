"""DuckDB: a relation (``connection.sql("select ...")``), run when the rows are wanted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ironrule.space.sources.protocol import CHUNK_ROWS


@dataclass(frozen=True)
class DuckDbQuery:
    """A relation of DuckDB. ``version`` is your word that the data is the same as long as it is: codes are then used
    again.
    """

    relation: Any = field(repr=False)
    version: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(self.relation.columns)

    @property
    def rows(self) -> None:
        """Nobody knows before the end."""
        return

    def chunks(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows, some at a time."""
        import pyarrow as pa

        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        chosen = self.relation.project(quoted)
        read = chosen.to_arrow_reader if hasattr(chosen, "to_arrow_reader") else chosen.fetch_record_batch
        for batch in read(CHUNK_ROWS):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])

    def as_frame(self, table: Any) -> Any:
        """As pandas has them; numbers with a fixed point become floats."""
        return with_floats(table).to_pandas()

    def stamp(self) -> str | None:
        """The version that was given, with the query."""
        if self.version is None:
            return None
        query = self.relation.sql_query() if hasattr(self.relation, "sql_query") else ""
        return hashlib.sha256(f"{self.version}\n{query}".encode()).hexdigest()


def with_floats(table: Any) -> Any:
    """The table with numbers of a fixed point, which databases like, as floats."""
    import pyarrow as pa

    for place, one in enumerate(table.schema):
        if pa.types.is_decimal(one.type):
            numbers = np.array([np.nan if value is None else float(value) for value in table.column(place).to_pylist()])
            table = table.set_column(place, one.name, pa.array(numbers, from_pandas=True))
    return table
