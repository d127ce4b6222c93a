"""The log: append, read, verify.

An answer may leave the server only after :meth:`AuditLog.append` has returned: the record is then committed, and its
head is written. So a server that is killed has every answered request in its log, and no half record, because a record
is one row.

A record is appended only to a chain that was verified. The whole chain is verified once, before the first record; from
then on the log knows its end, verifies what other servers have appended since, and notices a file that was removed,
replaced or cut off.

SQLite survives a crash at any moment in its write-ahead mode; ``synchronous = FULL`` makes a commit survive a loss of
power too. PostgreSQL works as it is. Writers wait for each other: the chain has one end.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import logging
import re
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from ironrule.errors import AuditError, InputError
from ironrule.progress import ProgressBar
from ironrule.server.audit import schema
from ironrule.server.audit.database import LogDatabase, is_corruption
from ironrule.server.audit.heads import SYSLOG_PREFIX, HeadWriter, KeptHead, open_head_writer, read_head_portions
from ironrule.server.audit.key import NAME_HINT, AuditKey, open_key
from ironrule.server.audit.record import AuditEntry, AuditRecord, ChainEnd

READ_AT_A_TIME = 16  # records: each may be long
HEADS_AT_A_TIME = 500
MAX_LISTED = 1000
REPAIR_HINT = "see ironrule audit verify; keep this log as it is, find out what happened, and begin another log"


@dataclass(frozen=True, slots=True)
class ChainVerification:
    """What became of the chain: how many records are whole, the hash of the last one, and the first flaw, if any.

    ``heads`` counts the heads that were compared. ``without_head`` are the first records after a head that have none,
    of ``without_head_count``: a server without heads wrote them, or one was killed between a record and its head, or
    somebody with the key did.
    """

    count: int
    head: str
    flaw: str | None = None
    heads: int = 0
    without_head: Sequence[int] = ()
    without_head_count: int = 0


class AuditLog:
    """An append-only log at a URL; it may be used from several threads, and by several servers at once.

    ``key_file`` is where its key is; by default in the user's configuration folder, made with the first log. ``heads``
    is where the head of every record is written: a file, or ``syslog:``.
    """

    def __init__(
        self, url: str, create: bool = True, *, key_file: Path | None = None, heads: str | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._end: ChainEnd | None = None  # of the chain as far as it was verified
        self._head_writer: HeadWriter | None = None
        self._heads_file = Path(heads) if heads and not heads.startswith(SYSLOG_PREFIX) else None
        self._database = LogDatabase(url, create)
        self.display_url = self._database.display_url  # without a password
        try:
            self.key, self.key_file = self._open_key(key_file, create)
            for what, path in (("the audit key", self.key_file), ("the file of heads", self._heads_file)):
                self._require_other_folder(what, path)
            self._head_writer = open_head_writer(heads) if heads else None
        except BaseException:
            self.close()
            raise

    def require_intact(self) -> AuditLog:
        """This log, verified from its first record to its last; raises InputError if it is broken."""
        with self._lock:
            self._verify_before_appending()
        return self

    def append(self, entry: AuditEntry) -> AuditRecord:
        """Commit a record of an answer, write its head, and give it."""
        with self._lock, self._database.translate_errors():
            if self._end is None:
                self._verify_before_appending()
            self._database.require_same_files()
            if self._head_writer is not None:
                self._head_writer.check()
            with self._database.write() as connection:
                self._follow_chain(connection)
                record = AuditRecord.from_entry(entry, self._get_time(), self._get_end(), self.key)
                values = record.facts | {"compressed_document": record.compressed_document}
                connection.execute(schema.INSERTION, values)
            self._database.require_same_files()
            self._end = record.end
            if self._head_writer is not None:
                self._head_writer.write(record.end)
        return record

    def read(self, number: int) -> AuditRecord | None:
        """One record by its number; raises AuditError if it is not as it was written."""
        if not 0 < number < 1 << 63:
            return None
        with contextlib.closing(self.records(number, number)) as found:
            return next(found, None)

    def records(self, first: int = 1, last: int | None = None) -> Generator[AuditRecord, None, None]:
        """All records from one number to another, in order; raises AuditError at one that is not as it was written."""
        if self._database.flaws.table is not None:
            raise AuditError(self._database.flaws.table, hint=REPAIR_HINT)
        condition = "number >= :first" + ("" if last is None else " AND number <= :last")
        with self._database.translate_errors(), self._database.read() as connection:
            for record in _stream_records(connection, condition, {"first": first, "last": last}):
                flaw = record.find_alteration(self.key)
                if flaw is not None:
                    raise AuditError(flaw, hint=REPAIR_HINT)
                yield record

    def get_last_number(self) -> int:
        """The number of the last record; 0 if there is none."""
        with self._database.translate_errors(), self._database.read() as connection:
            found = None if self._database.flaws.table else connection.execute(schema.LAST_RECORD).first()
        return 0 if found is None else int(found.number)

    def verify(self, known_hash: str | None = None, heads: Sequence[Path] = ()) -> ChainVerification:
        """Follow the chain from its beginning. ``known_hash`` was noted earlier and must be in it, and so must every
        head in the files ``heads``.
        """
        with self._database.translate_errors(), self._database.read() as connection:
            found, _ = self._verify_chain(connection, known_hash)
            return found if found.flaw else _compare_heads(connection, found, heads)

    def close(self) -> None:
        """Close all connections, and the file of heads."""
        self._database.close()
        if self._head_writer is not None:
            self._head_writer.close()
            self._head_writer = None

    def _open_key(self, path: Path | None, create: bool) -> tuple[AuditKey, Path]:
        """The key; a new one only for a log without records."""
        is_empty = self._database.flaws.table is None and self.get_last_number() == 0
        try:
            return open_key(path, create and is_empty)
        except InputError as error:
            if error.code != "file-not-found" or is_empty:
                raise
            named = self._get_named_key()
            statement = f"the audit log {self.display_url} was written with the key {named}; {error.statement}"
            raise InputError(statement, hint=NAME_HINT, code="audit-key-missing") from None

    def _require_other_folder(self, what: str, path: Path | None) -> None:
        """Raise InputError for a file beside the database: who gets one of them would get both."""
        if path is None or self._database.path is None:
            return
        if path.resolve().parent == self._database.path.resolve().parent:
            expected = f"{what} must not be in the folder of the audit log"
            raise InputError(expected=expected, got=repr(str(path)), hint="keep it where others cannot change both")

    def _verify_before_appending(self) -> None:
        self._require_key_of_log()
        with self._database.translate_errors(), self._database.read() as connection:
            found, end = self._verify_chain(connection)
            if found.flaw is None and self._heads_file is not None and self._head_writer is not None:
                if not self._head_writer.is_new:
                    found = _compare_heads(connection, found, [self._heads_file])
                elif end.number:
                    self._head_writer.write(end)
        if found.flaw is not None:
            raise InputError(f"the audit log {self.display_url} is broken: {found.flaw}", hint=REPAIR_HINT)
        self._end = end

    def _get_named_key(self) -> str | None:
        """The id of the key that the first record names; None if there is no record, or what it names is no id."""
        with self._database.translate_errors(), self._database.read() as connection:
            found = None if self._database.flaws.table else connection.execute(schema.FIRST_KEY).scalar()
        return found if isinstance(found, str) and re.fullmatch("[0-9a-f]{16}", found) else None

    def _require_key_of_log(self) -> None:
        """Raise InputError if the log names another key: most likely the wrong file was given."""
        named = self._get_named_key()
        if named not in (None, self.key.id):
            expected = f"the audit log {self.display_url} was written with the key {named} and needs it"
            got = f"the key {self.key.id} in {str(self.key_file)!r}"
            raise InputError(expected=expected, got=got, hint=NAME_HINT, code="audit-key-differs")

    def _verify_chain(
        self, connection: Connection, known_hash: str | None = None
    ) -> tuple[ChainVerification, ChainEnd]:
        """Follow the chain in one snapshot of the database, in time linear in the number of records."""
        flaws = schema.find_schema_flaws(connection)
        end, flaw, seen = ChainEnd(), flaws.table, known_hash is None
        try:
            if flaw is None and connection.dialect.name == "sqlite":
                flaw = _find_damage(connection)
            if flaw is None:
                total = connection.exec_driver_sql("SELECT count(*) FROM ironrule_audit").scalar()
                with ProgressBar("verifying the audit log", total) as bar:
                    for record in _stream_records(connection):
                        flaw = record.find_flaw(end, self.key)
                        if flaw is not None:
                            break
                        end = record.end
                        seen = seen or end.hash == known_hash
                        bar.update(end.number)
        except SQLAlchemyError as error:
            if not is_corruption(error):
                raise
            flaw = "the database is damaged and cannot be read further"
        if flaw is None and not seen:
            flaw = "the hash that was kept is not in the chain: records are gone"
        return ChainVerification(end.number, end.hash, flaw or flaws.triggers), end

    def _follow_chain(self, connection: Connection) -> None:
        """Move the known end to that of the log, past what other servers have appended; raises AuditError for records
        that do not follow from the known end.
        """
        known = self._get_end()
        found = connection.execute(schema.LAST_RECORD).first()
        last = (0, ChainEnd().hash) if found is None else (found.number, found.hash)
        if last == (known.number, known.hash):
            return
        flaw = None
        if known.number:
            same = connection.execute(schema.HASH_OF_RECORD, {"number": known.number})
            if same.scalar() != known.hash:
                flaw = f"record {known.number}, which this server knows, is gone or was altered"
        if flaw is None:
            for record in _stream_records(connection, "number > :first", {"first": known.number}):
                flaw = record.find_flaw(known, self.key)
                if flaw is not None:
                    break
                known = record.end
        if flaw is not None:
            raise AuditError(f"the audit log {self.display_url} is broken: {flaw}", hint=REPAIR_HINT)
        self._end = known

    def _get_end(self) -> ChainEnd:
        assert self._end is not None
        return self._end

    def _get_time(self) -> str:
        """Now, but never before the last record: clocks are sometimes set back."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        last = self._get_end().recorded_at
        if now < last:
            logging.getLogger(__name__).warning("the clock is behind the last record of the audit log, at %s", last)
        return max(now, last)


def _stream_records(
    connection: Connection, condition: str = "", values: dict[str, int | None] | None = None
) -> Iterator[AuditRecord]:
    """Records in order, few in memory at a time; what is in them may be anything."""
    wanted = schema.build_selection(connection.dialect.name, condition)
    given = {name: value for name, value in (values or {}).items() if f":{name}" in condition}
    options = {"yield_per": READ_AT_A_TIME}
    with contextlib.closing(connection.execute(wanted, given, execution_options=options)) as found:
        for row in found.mappings():
            yield AuditRecord(**row)


def _find_damage(connection: Connection) -> str | None:
    found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    return None if found == "ok" else "the database is damaged: its own check of its pages fails"


def _compare_heads(connection: Connection, found: ChainVerification, files: Sequence[Path]) -> ChainVerification:
    """Look for every head in a chain that was verified, some heads at a time."""
    covered, first, compared = bytearray(found.count + 1), found.count + 1, 0
    for portion in read_head_portions(files, HEADS_AT_A_TIME):
        flaw = _find_head_flaw(connection, portion, found.count)
        if flaw is not None:
            return replace(found, flaw=flaw, heads=compared)
        compared += len(portion)
        for head in portion:
            covered[head.number] = 1
            first = min(first, head.number)
    missing = (number for number in range(first, found.count + 1) if not covered[number])
    listed = list(itertools.islice(missing, MAX_LISTED))
    return replace(found, heads=compared, without_head=listed, without_head_count=covered.count(0, first))


def _find_head_flaw(connection: Connection, heads: Sequence[KeptHead], count: int) -> str | None:
    wanted = sa.text("SELECT number, hash FROM ironrule_audit WHERE number IN :numbers")
    wanted = wanted.bindparams(sa.bindparam("numbers", expanding=True))
    numbers = sorted({head.number for head in heads if head.number <= count})
    hashes = {row.number: row.hash for row in connection.execute(wanted, {"numbers": numbers})} if numbers else {}
    for head in heads:
        if head.number > count:
            return f"record {head.number} is gone: its head is {head.place}, and the log has {count}"
        if hashes.get(head.number) != head.hash:
            return f"record {head.number} was rewritten: {head.place} has another hash"
    return None
