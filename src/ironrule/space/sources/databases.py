"""Databases as sources: a DuckDB relation, or a query to any database that SQLAlchemy speaks to, such as PostgreSQL.

The query runs when the rows are read; they stay on the server until then. Decimal numbers become floats, as pandas has
them. A database cannot say whether its data changed, so the caller may name a version under which codes are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ironrule.errors import MissingExtraError, TableError
from ironrule.space.sources.protocol import CHUNK_ROWS


@dataclass(frozen=True)
class DuckDbQuery:
    """A relation of DuckDB. ``version`` is your word that the data is the same: codes are used again under it."""

    relation: Any = field(repr=False)
    version: str | None = None
    row_count: ClassVar[None] = None  # not known before all rows were read

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(self.relation.columns)

    def chunks(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows, some at a time."""
        import pyarrow as pa

        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        chosen = self.relation.project(quoted)
        read = chosen.to_arrow_reader if hasattr(chosen, "to_arrow_reader") else chosen.fetch_record_batch
        for batch in read(CHUNK_ROWS):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])

    def to_pandas(self, table: Any) -> Any:
        """As pandas has them; numbers with a fixed point become floats."""
        return convert_decimals(table).to_pandas()

    def fingerprint(self) -> str | None:
        """The version that was given, with the query."""
        query = self.relation.sql_query() if hasattr(self.relation, "sql_query") else ""
        return _hash_version(self.version, query)


def convert_decimals(table: Any) -> Any:
    """The table with numbers of a fixed point, which databases like, as floats."""
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        if pa.types.is_decimal(column.type):
            numbers = np.array([np.nan if value is None else float(value) for value in table.column(place).to_pylist()])
            table = table.set_column(place, column.name, pa.array(numbers, from_pandas=True))
    return table


SQL_CHUNK_ROWS = 1 << 15  # which come as Python values, and so take more room


@dataclass(frozen=True)
class SqlQuery:
    """A query to a database. ``database`` is an address such as ``postgresql+psycopg://user@host/name``, or an engine
    of SQLAlchemy; ``version`` is your word that the data is the same as long as it is: codes are then used again.

    The rows must come in the same order every time, or row numbers mean nothing: end the query with ``order by``.
    """

    database: Any = field(repr=False)
    query: str
    version: str | None = None
    row_count: ClassVar[None] = None  # not known before all rows were read

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        with self._execute(1) as result:
            return tuple(result.keys())

    def chunks(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows, some at a time, by a cursor on the server where the database has one."""
        import pyarrow as pa

        with self._execute(SQL_CHUNK_ROWS) as result:
            places = [list(result.keys()).index(name) for name in columns]
            for rows in result.partitions(SQL_CHUNK_ROWS):
                values = [[float(v) if isinstance(v := row[place], Decimal) else v for row in rows] for place in places]
                named = zip(columns, values, strict=True)
                yield pa.table({name: _build_arrow_array(name, column) for name, column in named})

    @contextmanager
    def _execute(self, rows: int) -> Iterator[Any]:
        try:
            import sqlalchemy as sa
        except ImportError:
            raise MissingExtraError("SQLAlchemy", "sql", "reading from a database") from None
        engine = sa.create_engine(self.database) if isinstance(self.database, str) else self.database
        try:
            with engine.connect() as connection:
                streaming = connection.execution_options(stream_results=True, max_row_buffer=rows)
                yield streaming.execute(sa.text(self.query))
        except sa.exc.SQLAlchemyError as error:
            raise TableError(f"the query failed: {str(error).splitlines()[0]}") from None
        finally:
            if engine is not self.database:
                engine.dispose()

    def to_pandas(self, table: Any) -> Any:
        """As pandas has them."""
        return table.to_pandas()

    def fingerprint(self) -> str | None:
        """The version that was given, with the query."""
        return _hash_version(self.version, self.query)


def _hash_version(version: str | None, query: str) -> str | None:
    return None if version is None else hashlib.sha256(f"{version}\n{query}".encode()).hexdigest()


def _build_arrow_array(name: str, values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except pa.ArrowInvalid as error:
        raise TableError(f"column {name!r} holds values of several types: {str(error).splitlines()[0]}") from None
