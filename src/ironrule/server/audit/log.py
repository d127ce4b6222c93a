"""The log in a database: its table, the triggers that keep it append-only, and append, read, verify.

An answer may leave the server only after :meth:`AuditLog.append` has returned: the record is then committed. So a
server that is killed has every answered request in its log, and no half record, because a record is one row.

SQLite survives a crash at any moment in its write-ahead mode; ``synchronous = FULL`` makes a commit survive a loss of
power too. PostgreSQL works as it is. Writers wait for each other: the chain of hashes has one end.
"""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, String
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from ironrule.errors import AuditError, InputError, IronruleError, MissingExtraError, build_format_error
from ironrule.server.audit.record import AUDIT_FORMAT, GENESIS, AuditEntry, AuditRecord

APPEND_ONLY_MESSAGE = "the audit log is append-only"
metadata = sa.MetaData()

records_table = sa.Table(
    "ironrule_audit",
    metadata,
    Column("format", sa.Integer, nullable=False),
    Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    Column("recorded_at", String(40), nullable=False),
    Column("user_name", sa.Text, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("row", sa.BigInteger, nullable=True),
    Column("space", String(64), nullable=False),
    Column("model", String(64), nullable=False),
    Column("rule", sa.Text, nullable=False),
    Column("verdict", sa.Text, nullable=False),
    Column("document_digest", String(64), nullable=False),
    Column("previous_hash", String(64), nullable=False, unique=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("compressed_document", sa.LargeBinary, nullable=False),
)

_SQLITE_TRIGGER = (
    "CREATE TRIGGER IF NOT EXISTS ironrule_audit_{0} BEFORE {0} ON ironrule_audit "
    f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY_MESSAGE}'); END"
)

_POSTGRESQL_TRIGGERS = (
    "CREATE OR REPLACE FUNCTION ironrule_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{APPEND_ONLY_MESSAGE}'; END $$",
    "CREATE OR REPLACE TRIGGER ironrule_audit_rows BEFORE UPDATE OR DELETE ON ironrule_audit "
    "FOR EACH ROW EXECUTE FUNCTION ironrule_audit_refuse()",
    "CREATE OR REPLACE TRIGGER ironrule_audit_all BEFORE TRUNCATE ON ironrule_audit "
    "FOR EACH STATEMENT EXECUTE FUNCTION ironrule_audit_refuse()",
)


def _add_triggers(_table: sa.Table, connection: Connection, **_: Any) -> None:
    """Once the table is there, refuse to change it."""
    sqlite = tuple(_SQLITE_TRIGGER.format(verb) for verb in ("UPDATE", "DELETE"))
    for statement in sqlite if connection.dialect.name == "sqlite" else _POSTGRESQL_TRIGGERS:
        connection.exec_driver_sql(statement)


sa.event.listen(records_table, "after_create", _add_triggers)


def parse_log_url(text: str) -> URL:
    """The address of a log, with our driver for PostgreSQL; raises InputError if it is none that we serve."""
    try:
        url = make_url(text)
    except ArgumentError:
        examples = "sqlite:///audit.sqlite or postgresql://user@host/name"
        raise InputError(f"the audit log must be a URL such as {examples}") from None
    kind = url.get_backend_name()
    if kind not in ("sqlite", "postgresql"):
        raise InputError(expected="the audit log must be in sqlite or postgresql", got=repr(kind))
    return url.set(drivername="postgresql+psycopg") if kind == "postgresql" else url


def build_engine(url: URL, create: bool) -> sa.Engine:
    """An engine for the log; a new SQLite file is for its owner's eyes alone."""
    if url.get_backend_name() == "postgresql":
        try:
            return sa.create_engine(url, pool_pre_ping=True, connect_args={"client_encoding": "utf8"})
        except ModuleNotFoundError:
            raise MissingExtraError("psycopg", "postgres", "an audit log in PostgreSQL") from None
    if url.database and url.database != ":memory:":
        _prepare_sqlite_file(Path(url.database), create)
    engine = sa.create_engine(url, connect_args={"timeout": 60.0, "check_same_thread": False})
    sa.event.listen(engine, "connect", _configure_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite_transaction)
    return engine


def lock_table(connection: Connection) -> None:
    """Block other writers until this transaction ends. SQLite has done so at its beginning."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("LOCK TABLE ironrule_audit IN EXCLUSIVE MODE")


def _prepare_sqlite_file(path: Path, create: bool) -> None:
    if not create and not path.is_file():
        raise InputError(f"audit log not found: {str(path)!r}", hint="check --audit", code="file-not-found")
    if not path.parent.is_dir():
        raise InputError(f"the folder of the audit log does not exist: {str(path.parent)!r}", hint="create it first")
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _configure_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # we say where transactions begin
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite_transaction(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


CHUNK_RECORDS = 500


@dataclass(frozen=True, slots=True)
class ChainVerification:
    """What became of the chain: how many records are whole, the hash of the last one, and the first flaw, if any."""

    count: int
    head: str
    flaw: str | None = None


class AuditLog:
    """An append-only log at a URL; it may be used from several threads, and by several servers at once."""

    def __init__(self, url: str, create: bool = True) -> None:
        self._url, self._opened = parse_log_url(url), False
        self._lock = threading.Lock()
        try:
            self._engine = build_engine(self._url, create)
            if create:
                with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                    metadata.create_all(connection)
            self._require_format()
        except (SQLAlchemyError, OSError) as error:
            raise self._build_error(error) from None
        self._opened = True

    @property
    def display_url(self) -> str:
        """Where the log is, without a password."""
        return self._url.render_as_string(hide_password=True)

    def _require_format(self) -> None:
        """Raise InputError for a log of another format; the first had no field that says so."""
        with self._engine.connect() as connection:
            tables = sa.inspect(connection)
            columns = tables.get_columns(records_table.name) if tables.has_table(records_table.name) else []
            found = 1 if columns else AUDIT_FORMAT
            if "format" in [one["name"] for one in columns]:
                last = sa.select(records_table.c.format).order_by(records_table.c.number.desc()).limit(1)
                found = connection.execute(last).scalar() or AUDIT_FORMAT
        if found != AUDIT_FORMAT:
            self.close()
            what = f"the audit log {self.display_url}"
            raise build_format_error(what, AUDIT_FORMAT, found, "keep it as it is and begin another")

    def append(self, entry: AuditEntry) -> AuditRecord:
        """Commit a record of an answer, and give it."""
        try:
            with self._lock, self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                lock_table(connection)
                columns = records_table.c
                last = sa.select(columns.number, columns.hash).order_by(columns.number.desc()).limit(1)
                end = connection.execute(last).first()
                now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
                number, previous_hash = (0, GENESIS) if end is None else (end.number, end.hash)
                record = AuditRecord.from_entry(entry, now, number + 1, previous_hash)
                values = record.facts | {"compressed_document": record.compressed_document}
                connection.execute(sa.insert(records_table).values(values))
        except SQLAlchemyError as error:
            raise self._build_error(error) from None
        return record

    def read(self, number: int) -> AuditRecord | None:
        """One record by its number."""
        if not 0 < number < 1 << 63:
            return None
        return next(self._select(number, number), None)

    def records(self, first: int = 1, last: int | None = None) -> Iterator[AuditRecord]:
        """All records from one number to another, in order, a portion at a time."""
        top = self.get_last_number() if last is None else last
        for start in range(first, top + 1, CHUNK_RECORDS):
            yield from self._select(start, min(top, start + CHUNK_RECORDS - 1))

    def get_last_number(self) -> int:
        """The number of the last record; 0 if there is none."""
        try:
            with self._engine.connect() as connection:
                return connection.execute(sa.select(sa.func.max(records_table.c.number))).scalar() or 0
        except SQLAlchemyError as error:
            raise self._build_error(error) from None

    def verify(self, known_hash: str | None = None) -> ChainVerification:
        """Follow the chain from its beginning; ``known_hash`` was noted earlier and must be in it."""
        count, head, seen = 0, GENESIS, known_hash is None
        for record in self.records():
            flaw = record.find_flaw(count + 1, head)
            if flaw is not None:
                return ChainVerification(count, head, flaw)
            count, head = record.number, record.hash
            seen = seen or head == known_hash
        flaw = None if seen else "the hash that was kept is not in the chain: records are gone"
        return ChainVerification(count, head, flaw)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _select(self, first: int, last: int) -> Iterator[AuditRecord]:
        number = records_table.c.number
        wanted = sa.select(records_table).where(number.between(first, last)).order_by(number)
        try:
            with self._engine.connect() as connection:
                found = connection.execute(wanted).mappings().all()
        except SQLAlchemyError as error:
            raise self._build_error(error) from None
        yield from (AuditRecord(**row) for row in found)

    def _build_error(self, error: Exception) -> IronruleError:
        cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        if not self._opened:
            return InputError(f"cannot open the audit log {self.display_url}: {cause}")
        return AuditError(f"cannot use the audit log {self.display_url}: {cause}")
