"""The log itself: append, read, verify.

An answer may leave the server only after :meth:`AuditLog.append` has returned: the record is then committed. So a
server that is killed has every answered request in its log, and no half record, since a record is one row.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import func, insert, select
from sqlalchemy.exc import SQLAlchemyError

from ironrule.errors import AuditError, InputError, IronruleError
from ironrule.server.audit.record import GENESIS, Entry, Record
from ironrule.server.audit.schema import chosen_url, lock, metadata, new_engine, records

PORTION = 500


@dataclass(frozen=True, slots=True)
class Verified:
    """What became of the chain: how many records are whole, the hash of the last one, and the first flaw, if any."""

    count: int
    head: str
    flaw: str | None = None


class AuditLog:
    """An append-only log at a URL; it may be used from several threads, and by several servers at once."""

    def __init__(self, url: str, create: bool = True) -> None:
        self._url, self._opened = chosen_url(url), False
        self._lock = threading.Lock()
        try:
            self._engine = new_engine(self._url, create)
            if create:
                with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                    metadata.create_all(connection)
        except (SQLAlchemyError, OSError) as error:
            raise self._unusable(error) from None
        self._opened = True

    @property
    def shown(self) -> str:
        """Where the log is, without a password."""
        return self._url.render_as_string(hide_password=True)

    def append(self, entry: Entry) -> Record:
        """Commit a record of an answer, and give it."""
        try:
            with self._lock, self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                lock(connection)
                last = select(records.c.number, records.c.hash).order_by(records.c.number.desc()).limit(1)
                end = connection.execute(last).first()
                number, previous = (0, GENESIS) if end is None else (end.number, end.hash)
                record = Record.of(entry, _now(), number + 1, previous)
                connection.execute(insert(records).values(**record.facts, packed=record.packed))
        except SQLAlchemyError as error:
            raise self._unusable(error) from None
        return record

    def read(self, number: int) -> Record | None:
        """One record by its number."""
        if not 0 < number < 1 << 63:
            return None
        return next(self._selected(number, number), None)

    def records(self, first: int = 1, last: int | None = None) -> Iterator[Record]:
        """All records from one number to another, in order, a portion at a time."""
        top = self.count_to() if last is None else last
        for start in range(first, top + 1, PORTION):
            yield from self._selected(start, min(top, start + PORTION - 1))

    def count_to(self) -> int:
        """The number of the last record; 0 if there is none."""
        try:
            with self._engine.connect() as connection:
                return connection.execute(select(func.max(records.c.number))).scalar() or 0
        except SQLAlchemyError as error:
            raise self._unusable(error) from None

    def verify(self, kept: str | None = None) -> Verified:
        """Follow the chain from its beginning; ``kept`` is a hash noted earlier, which must be in it."""
        count, head, seen = 0, GENESIS, kept is None
        for record in self.records():
            flaw = record.flaw(count + 1, head)
            if flaw is not None:
                return Verified(count, head, flaw)
            count, head = record.number, record.hash
            seen = seen or head == kept
        return Verified(count, head, None if seen else "the hash that was kept is not in the chain: records are gone")

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def _selected(self, first: int, last: int) -> Iterator[Record]:
        wanted = select(records).where(records.c.number.between(first, last)).order_by(records.c.number)
        try:
            with self._engine.connect() as connection:
                found = connection.execute(wanted).mappings().all()
        except SQLAlchemyError as error:
            raise self._unusable(error) from None
        yield from (Record(**row) for row in found)

    def _unusable(self, error: Exception) -> IronruleError:
        cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        if not self._opened:
            return InputError(f"cannot open the audit log {self.shown}: {cause}")
        return AuditError(f"cannot use the audit log {self.shown}: {cause}")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
