"""The table of the log, and the triggers that keep it append-only, for SQLite and PostgreSQL.

SQLite forgives a crash at any moment in its write-ahead mode; ``synchronous = FULL`` makes a commit survive a loss of
power too. Writers wait for each other: the chain of hashes has one end.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Column, Engine, LargeBinary, MetaData, String, Table, Text, create_engine, event
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError

from ironrule.errors import InputError, MissingExtraError

REFUSAL = "the audit log is append-only"

metadata = MetaData()
records = Table(
    "ironrule_audit",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", String(40), nullable=False),
    Column("who", Text, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("row", BigInteger, nullable=True),
    Column("space", String(64), nullable=False),
    Column("model", String(64), nullable=False),
    Column("rule", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("previous", String(64), nullable=False, unique=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("packed", LargeBinary, nullable=False),
)

_SQLITE = (
    "CREATE TRIGGER IF NOT EXISTS ironrule_audit_{0} BEFORE {0} ON ironrule_audit "
    f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
)
_POSTGRESQL = (
    "CREATE OR REPLACE FUNCTION ironrule_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$",
    "CREATE OR REPLACE TRIGGER ironrule_audit_rows BEFORE UPDATE OR DELETE ON ironrule_audit "
    "FOR EACH ROW EXECUTE FUNCTION ironrule_audit_refuse()",
    "CREATE OR REPLACE TRIGGER ironrule_audit_all BEFORE TRUNCATE ON ironrule_audit "
    "FOR EACH STATEMENT EXECUTE FUNCTION ironrule_audit_refuse()",
)


def _guard(_table: Table, connection: Connection, **_: Any) -> None:
    """Once the table is there, refuse to change it."""
    sqlite = tuple(_SQLITE.format(verb) for verb in ("UPDATE", "DELETE"))
    for statement in sqlite if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.exec_driver_sql(statement)


event.listen(records, "after_create", _guard)


def chosen_url(text: str) -> URL:
    """The address of a log, with our driver for PostgreSQL; raises InputError if it is none that we serve."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise InputError(
            "the audit log must be a URL such as sqlite:///audit.sqlite or postgresql://user@host/name"
        ) from None
    kind = url.get_backend_name()
    if kind not in ("sqlite", "postgresql"):
        raise InputError(expected="the audit log must be in sqlite or postgresql", got=repr(kind))
    return url.set(drivername="postgresql+psycopg") if kind == "postgresql" else url


def new_engine(url: URL, create: bool) -> Engine:
    """An engine for the log; a new SQLite file is for its owner's eyes alone."""
    if url.get_backend_name() == "postgresql":
        try:
            return create_engine(url, pool_pre_ping=True, connect_args={"client_encoding": "utf8"})
        except ModuleNotFoundError:
            raise MissingExtraError("psycopg", "postgres", "an audit log in PostgreSQL") from None
    if url.database and url.database != ":memory:":
        _touch(Path(url.database), create)
    engine = create_engine(url, connect_args={"timeout": 60.0, "check_same_thread": False})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def lock(connection: Connection) -> None:
    """Let nobody else append until this transaction ends. SQLite has done so as it began."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("LOCK TABLE ironrule_audit IN EXCLUSIVE MODE")


def _touch(path: Path, create: bool) -> None:
    if not create and not path.is_file():
        raise InputError(f"audit log not found: {str(path)!r}", hint="check --audit", code="file-not-found")
    if not path.parent.is_dir():
        raise InputError(f"the folder of the audit log does not exist: {str(path.parent)!r}", hint="create it first")
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # we say where transactions begin
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
