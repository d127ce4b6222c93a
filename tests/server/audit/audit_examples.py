"""What the tests of the audit log share: entries, and what somebody can do who has the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import text

from ironrule.server.audit.database import build_engine, parse_log_url
from ironrule.server.audit.key import AuditKey
from ironrule.server.audit.log import AuditLog
from ironrule.server.audit.record import AuditEntry, AuditRecord, ChainEnd

OTHER_KEY = AuditKey(b"x" * 32)
TRIGGERS = {
    "sqlite": ("ironrule_audit_insert", "ironrule_audit_update", "ironrule_audit_delete"),
    "postgresql": ("ironrule_audit_insert", "ironrule_audit_rows", "ironrule_audit_truncate"),
}


def build_entry(row: int | None = 3, who: str = "ann", rule: str = "Everyone gets: 'bad'.") -> AuditEntry:
    """An answer to be recorded."""
    return AuditEntry(who, "explanation", row, "s" * 64, "m" * 64, rule, "proven", {"row": row, "text": "ä\u2028=1+1"})


def write_log(url: str, count: int = 4, **options: Any) -> list[AuditRecord]:
    """The records of a log that were appended, one per row."""
    log = AuditLog(url, **options)
    records = [log.append(build_entry(row)) for row in range(count)]
    log.close()
    return records


def find_flaw(url: str, **asked: Any) -> str | None:
    """What ironrule audit verify finds."""
    log = AuditLog(url, create=False)
    try:
        return log.verify(**asked).flaw
    finally:
        log.close()


def read_rows(url: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    """What a statement gives."""
    engine = build_engine(parse_log_url(url), create=False)
    try:
        with engine.begin() as connection:
            return [tuple(row) for row in connection.execute(text(statement), values)]
    finally:
        engine.dispose()


def execute(url: str, *statements: str, **values: Any) -> None:
    """Ordinary SQL."""
    engine = build_engine(parse_log_url(url), create=False)
    try:
        with engine.execution_options(writes=True).begin() as connection:
            for statement in statements:
                connection.execute(text(statement), values)
    finally:
        engine.dispose()


def execute_without_triggers(url: str, *statements: str, **values: Any) -> None:
    """What the owner of the database can do: remove the triggers, and put them back afterwards."""
    if url.startswith("postgresql"):
        enable = [f"ALTER TABLE ironrule_audit ENABLE ALWAYS TRIGGER {name}" for name in TRIGGERS["postgresql"]]
        execute(url, "ALTER TABLE ironrule_audit DISABLE TRIGGER ALL", *statements, *enable, **values)
        return
    listed = read_rows(url, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    removed, restored = [f"DROP TRIGGER {name}" for name, _ in listed], [sql for _, sql in listed]
    execute(url, *removed, *statements, **values)
    execute(url, *restored)


def insert_record(url: str, record: AuditRecord) -> None:
    """Put a record into the database, as somebody with an SQL client does."""
    values = {**record.facts, "compressed_document": record.compressed_document}
    columns = ", ".join(f'"{name}"' for name in values)
    placeholders = ", ".join(f":{name}" for name in values)
    execute(url, f"INSERT INTO ironrule_audit ({columns}) VALUES ({placeholders})", **values)


def rewrite_log(url: str, records: list[AuditRecord], rules: list[str], key: AuditKey) -> None:
    """Make a log anew with other rules, chained with a key, as its owner can."""
    execute_without_triggers(url, "DELETE FROM ironrule_audit")
    end = ChainEnd()
    for record, rule in zip(records, rules, strict=True):
        forged = AuditRecord.from_entry(build_entry(record.row, rule=rule), record.recorded_at, end, key)
        insert_record(url, forged)
        end = forged.end


def get_path(url: str) -> Path:
    """The file of an SQLite log."""
    return Path(url.removeprefix("sqlite:///"))
