"""Where a log is kept: its address, which is never shown with a password, and its connections.

A file that is removed or replaced while it is open still takes records, and nobody would find them: so the files are
known by their numbers in the file system, and looked at around every record.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from ironrule.errors import AuditError, InputError, IronruleError, MissingExtraError, build_format_error
from ironrule.server.audit import schema
from ironrule.server.audit.record import AUDIT_FORMAT

SHOWN_PARAMETERS = ("host", "port", "dbname", "user", "sslmode", "connect_timeout", "application_name")
HIDDEN = "***"


def parse_log_url(text: str) -> URL:
    """The address of a log, with our driver for PostgreSQL; raises InputError, without its text, if it is of no use."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # whose texts may contain a password
        examples = "sqlite:///audit.sqlite or postgresql://user@host/name"
        raise InputError(f"the audit log must be a URL such as {examples}") from None
    kind = url.get_backend_name()
    if kind not in ("sqlite", "postgresql"):
        raise InputError(expected="the audit log must be in sqlite or postgresql", got=repr(kind))
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if not url.database or url.database == ":memory:" or url.database.startswith("file:") or url.query or url.host:
        hint = "such as sqlite:///audit.sqlite"
        raise InputError("the audit log in sqlite must be a file, without parameters", hint=hint)
    return url


def render_url(url: URL) -> str:
    """An address for people: no password, and no parameter that may be or may hold a secret.

    >>> render_url(make_url("postgresql://ann:word@host/db?password=word&sslmode=require"))
    'postgresql://ann:***@host/db?password=***&sslmode=require'
    """
    shown = url.set(drivername=url.get_backend_name(), query={})
    if url.database and url.get_backend_name() == "postgresql" and ("=" in url.database or "://" in url.database):
        shown = shown.set(database="hidden")  # libpq takes it for a whole list of parameters
    query = [(name, value if name in SHOWN_PARAMETERS else HIDDEN) for name, value in url.query.items()]
    parameters = "&".join(f"{name}={value if isinstance(value, str) else ','.join(value)}" for name, value in query)
    return shown.render_as_string(hide_password=True) + (f"?{parameters}" if parameters else "")


def hide_secrets(text: str, url: URL) -> str:
    """A text of the driver without the secrets of the address."""
    hidden = [value for name, value in url.query.items() if name not in SHOWN_PARAMETERS]
    flat = [part for value in hidden for part in ((value,) if isinstance(value, str) else value)]
    secrets = [str(url.password or ""), *flat]
    if url.database and "=" in url.database:
        secrets += [url.database, *re.split(r"[=\s]+", url.database)[1::2]]
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """A file by its device and its number there: another file of the same name is another one."""

    path: Path
    device: int
    inode: int

    @classmethod
    def from_path(cls, path: Path) -> FileIdentity:
        """That of the file which has this path now."""
        found = path.stat()
        return cls(path, found.st_dev, found.st_ino)

    def require_same(self, what: str) -> None:
        """Raise AuditError if the file was removed, or another one has its path."""
        try:
            same = FileIdentity.from_path(self.path) == self
        except OSError:
            same = False
        if not same:
            statement = f"{what} was removed or replaced while it was in use: {str(self.path)!r}"
            raise AuditError(statement, hint="put it back, or end this server and begin another log")


def build_engine(url: URL, create: bool) -> sa.Engine:
    """An engine for the log; a new SQLite file is for its owner's eyes alone."""
    if url.get_backend_name() == "postgresql":
        try:
            return sa.create_engine(
                url,
                pool_pre_ping=True,
                hide_parameters=True,
                isolation_level="READ COMMITTED",  # who has waited for another server must see what it appended
                connect_args={"client_encoding": "utf8"},
            )
        except ModuleNotFoundError:
            raise MissingExtraError("psycopg", "postgres", "an audit log in PostgreSQL") from None
    path = Path(str(url.database))
    _prepare_sqlite_file(path, create)
    address = f"{path.absolute().as_uri()}?mode=rw"  # a file that is gone is not made again, empty

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=60.0, check_same_thread=False)

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=QueuePool, hide_parameters=True)
    sa.event.listen(engine, "connect", _configure_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite_transaction)
    return engine


def _prepare_sqlite_file(path: Path, create: bool) -> None:
    if not create and not path.is_file():
        raise InputError(f"audit log not found: {str(path)!r}", hint="check --audit", code="file-not-found")
    if not path.parent.is_dir():
        raise InputError(f"the folder of the audit log does not exist: {str(path.parent)!r}", hint="create it first")
    if create:  # and only then: to close a file takes away the locks that this process has on it
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _configure_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # we say where transactions begin
    connection.text_factory = lambda content: content.decode("utf-8", "surrogateescape")  # any bytes may be in a file
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite_transaction(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class LogDatabase:
    """The database of a log, with its table and triggers; ``is_new`` says whether these were created now."""

    def __init__(self, url: str, create: bool) -> None:
        self._url, self._opened = parse_log_url(url), False
        with self.translate_errors():
            self._engine = build_engine(self._url, create)
            try:
                self.is_new, self.flaws = self._prepare(create)
                self._files = self._identify_files()
            except BaseException:
                self.close()
                raise
        self._opened = True

    @property
    def path(self) -> Path | None:
        """The file of an SQLite database."""
        return Path(str(self._url.database)).absolute() if self._url.get_backend_name() == "sqlite" else None

    @property
    def display_url(self) -> str:
        """Where the log is, without a password."""
        return render_url(self._url)

    def read(self) -> Connection:
        """A connection that reads."""
        return self._engine.connect()

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction that writes; other servers wait until it ends."""
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            schema.lock_log(connection)
            yield connection

    def require_same_files(self) -> None:
        """Raise AuditError if a file that holds records was removed or replaced."""
        for file in self._files:
            file.require_same("the audit log")

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors of the database as our own."""
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            if isinstance(error, IronruleError):
                raise
            raise self._build_error(error) from None

    def _prepare(self, create: bool) -> tuple[bool, schema.SchemaFlaws]:
        """Create what is not there: whether that was done, and the flaws of what is there."""
        with self.read() as connection:
            self._require_format(schema.detect_old_format(connection))
            missing = not sa.inspect(connection).has_table(schema.TABLE)
        is_new = False
        if create and missing:  # a role that may only insert and select finds the table there
            with self.write() as connection:
                is_new = schema.create_schema(connection)
        with self.read() as connection:
            flaws = schema.find_schema_flaws(connection)
            last = None if flaws.table else connection.execute(schema.LAST_RECORD).first()
        if last is not None and type(last.format) is int and last.format > AUDIT_FORMAT:
            self._require_format(last.format)
        return is_new, flaws

    def _require_format(self, found: int | None) -> None:
        if found is not None:
            what = f"the audit log {self.display_url}"
            raise build_format_error(what, AUDIT_FORMAT, found, "keep it as it is and begin another")

    def _identify_files(self) -> tuple[FileIdentity, ...]:
        """The files that hold committed records: the database, and its write-ahead log as long as it is open."""
        if self.path is None:
            return ()
        target = self.path.resolve()  # beside which SQLite keeps the other file, where the path is a link
        paths = (self.path, target.with_name(f"{target.name}-wal"))
        return tuple(FileIdentity.from_path(one) for one in paths if one.exists())

    def _build_error(self, error: Exception) -> IronruleError:
        text = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        cause = hide_secrets(text, self._url)
        if self._opened:
            return AuditError(f"cannot use the audit log {self.display_url}: {cause}")
        denied = getattr(getattr(error, "orig", None), "sqlstate", None) == "42501"  # insufficient privilege
        hint = "create it as its owner with ironrule audit create, and grant this role SELECT and INSERT on it"
        return InputError(f"cannot open the audit log {self.display_url}: {cause}", hint=hint if denied else None)


def is_corruption(error: Exception) -> bool:
    """Whether an error says that an SQLite file is damaged."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", 0) or 0
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
