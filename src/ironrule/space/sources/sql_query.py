"""SQL databases (PostgreSQL and whatever SQLAlchemy speaks to): a query whose rows stay on the server until wanted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from ironrule.errors import MissingExtraError, TableError

CHUNK_ROWS = 1 << 15  # which come as Python values, and so take more room


@dataclass(frozen=True)
class SqlQuery:
    """A query to a database. ``database`` is an address such as ``postgresql+psycopg://user@host/name``, or an engine
    of SQLAlchemy; ``version`` is your word that the data is the same as long as it is: codes are then used again.

    The rows must come in the same order every time, or row numbers mean nothing: end the query with ``order by``.
    """

    database: Any = field(repr=False)
    query: str
    version: str | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        with self._answer(1) as result:
            return tuple(result.keys())

    @property
    def rows(self) -> None:
        """Nobody knows before the end."""
        return

    def chunks(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows, some at a time, by a cursor on the server where the database has one."""
        import pyarrow as pa

        with self._answer(CHUNK_ROWS) as result:
            places = [list(result.keys()).index(name) for name in columns]
            for rows in result.partitions(CHUNK_ROWS):
                values = [[_plain(row[place]) for row in rows] for place in places]
                yield pa.table({name: _array(name, one) for name, one in zip(columns, values, strict=True)})

    @contextmanager
    def _answer(self, rows: int) -> Iterator[Any]:
        try:
            import sqlalchemy as sa
        except ImportError:
            raise MissingExtraError("SQLAlchemy", "sql", "reading from a database") from None
        engine = sa.create_engine(self.database) if isinstance(self.database, str) else self.database
        try:
            with engine.connect() as connection:
                told = connection.execution_options(stream_results=True, max_row_buffer=rows)
                yield told.execute(sa.text(self.query))
        except sa.exc.SQLAlchemyError as error:
            raise TableError(f"the query failed: {str(error).splitlines()[0]}") from None
        finally:
            if engine is not self.database:
                engine.dispose()

    def as_frame(self, table: Any) -> Any:
        """As pandas has them."""
        return table.to_pandas()

    def stamp(self) -> str | None:
        """The version that was given, with the query."""
        return None if self.version is None else hashlib.sha256(f"{self.version}\n{self.query}".encode()).hexdigest()


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _array(name: str, values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except pa.ArrowInvalid as error:
        raise TableError(f"column {name!r} holds values of several types: {str(error).splitlines()[0]}") from None
