"""The database refuses every change but the next record, and a log whose triggers are not ours is found broken."""

from __future__ import annotations

import contextlib

import pytest
from audit_examples import build_entry, execute, find_flaw, insert_record, read_rows, write_log
from sqlalchemy.exc import DBAPIError

from ironrule.errors import AuditError, InputError
from ironrule.server.audit.key import AuditKey
from ironrule.server.audit.log import AuditLog
from ironrule.server.audit.record import AuditRecord, ChainEnd

COLUMNS = (
    'format, number, recorded_at, user_name, kind, "row", space, model, rule, verdict, document_digest, key_id, '
    "previous_hash, hash, compressed_document"
)
COPY = f"{COLUMNS.replace('rule', repr('forged'), 1)} FROM ironrule_audit"

BOTH = {
    "update": "UPDATE ironrule_audit SET user_name = 'eve'",
    "update of the number": "UPDATE ironrule_audit SET number = 9 WHERE number = 4",
    "delete": "DELETE FROM ironrule_audit",
    "delete the last": "DELETE FROM ironrule_audit WHERE number = 4",
    "insert one again": f"INSERT INTO ironrule_audit ({COLUMNS}) SELECT {COPY} WHERE number = 2",
    "insert a number that is far away": (
        f"INSERT INTO ironrule_audit ({COLUMNS}) SELECT {COPY.replace('number,', '4611686018427387904,', 1)} "
        "WHERE number = 4"
    ),
    "insert a negative number": (
        f"INSERT INTO ironrule_audit ({COLUMNS}) SELECT {COPY.replace('number,', '-1,', 1)} WHERE number = 4"
    ),
    "insert the next with another hash before": (
        f"INSERT INTO ironrule_audit ({COLUMNS}) SELECT {COPY.replace('number,', '5,', 1)} WHERE number = 4"
    ),
    "upsert": (
        f"INSERT INTO ironrule_audit ({COLUMNS}) SELECT {COPY} WHERE number = 2 "
        "ON CONFLICT (number) DO UPDATE SET rule = 'forged'"
    ),
}
SQLITE = {
    "insert or replace": f"INSERT OR REPLACE INTO ironrule_audit ({COLUMNS}) SELECT {COPY} WHERE number = 2",
    "replace": f"REPLACE INTO ironrule_audit ({COLUMNS}) SELECT {COPY} WHERE number = 4",
    "update or replace": "UPDATE OR REPLACE ironrule_audit SET number = 1 WHERE number = 2",
    "insert or ignore": f"INSERT OR IGNORE INTO ironrule_audit ({COLUMNS}) SELECT {COPY} WHERE number = 2",
}
POSTGRESQL = {"truncate": "TRUNCATE ironrule_audit", "truncate all": "TRUNCATE ironrule_audit CASCADE"}


def require_refused(url: str, statement: str) -> None:
    """The statement is refused, and leaves everything as it was."""
    write_log(url)
    before = read_rows(url, f"SELECT {COLUMNS} FROM ironrule_audit ORDER BY number")
    with pytest.raises(DBAPIError, match="the audit log is append-only"):
        execute(url, statement)
    assert read_rows(url, f"SELECT {COLUMNS} FROM ironrule_audit ORDER BY number") == before
    assert find_flaw(url) is None


@pytest.mark.parametrize("statement", BOTH.values(), ids=BOTH)
def test_ordinary_sql_cannot_change_a_record(url: str, statement: str) -> None:
    require_refused(url, statement)


@pytest.mark.parametrize("statement", SQLITE.values(), ids=SQLITE)
def test_conflict_clauses_of_sqlite_cannot_change_a_record(sqlite: str, statement: str) -> None:
    require_refused(sqlite, statement)


@pytest.mark.parametrize("statement", POSTGRESQL.values(), ids=POSTGRESQL)
def test_postgresql_cannot_be_emptied(postgresql: str, statement: str) -> None:
    require_refused(postgresql, statement)


def test_a_replica_session_is_refused_too(postgresql: str) -> None:
    write_log(postgresql)
    with pytest.raises(DBAPIError, match="the audit log is append-only"):
        execute(postgresql, "SET session_replication_role = replica", "DELETE FROM ironrule_audit")


def test_a_temporary_table_of_the_same_name_does_not_mislead_the_trigger(postgresql: str) -> None:
    write_log(postgresql)
    with pytest.raises(DBAPIError, match="the audit log is append-only"):
        execute(
            postgresql,
            "CREATE TEMPORARY TABLE ironrule_audit AS SELECT * FROM public.ironrule_audit WHERE number = 1",
            f"INSERT INTO public.ironrule_audit ({COLUMNS}) SELECT {COPY.replace('ironrule', 'public.ironrule')} "
            "WHERE number = 2",
        )


def test_a_record_that_only_follows_can_be_inserted_and_is_found(url: str) -> None:
    records = write_log(url)
    forged = AuditRecord.from_entry(build_entry(), records[-1].recorded_at, records[-1].end, AuditKey(b"x" * 32))
    insert_record(url, forged)
    assert "record 5 was written with another key" in str(find_flaw(url))


def test_a_first_record_must_have_the_number_one(url: str) -> None:
    AuditLog(url).close()
    later = AuditRecord.from_entry(build_entry(), "2026-11-18T10:00:00.000000+00:00", ChainEnd(6), AuditKey(bytes(32)))
    with pytest.raises(DBAPIError, match="the audit log is append-only"):
        insert_record(url, later)


FLAWS = {
    "sqlite": {
        "DROP TRIGGER ironrule_audit_insert": "the trigger ironrule_audit_insert of the audit log is missing",
        "DROP TRIGGER ironrule_audit_update": "the trigger ironrule_audit_update of the audit log is missing",
        "DROP TRIGGER ironrule_audit_delete": "the trigger ironrule_audit_delete of the audit log is missing",
        "CREATE TRIGGER mine AFTER INSERT ON ironrule_audit BEGIN SELECT 1; END": "does not create: 'mine'",
        "CREATE INDEX mine ON ironrule_audit (rule)": "does not create: 'mine'",
        "ALTER TABLE ironrule_audit ADD note TEXT": "the table of the audit log is not the one that ironrule creates",
        "ALTER TABLE ironrule_audit RENAME TO other": "the table of the audit log is missing",
    },
    "postgresql": {
        "DROP TRIGGER ironrule_audit_insert ON ironrule_audit": "the trigger ironrule_audit_insert of the audit log is",
        "DROP TRIGGER ironrule_audit_rows ON ironrule_audit": "the trigger ironrule_audit_rows of the audit log is",
        "DROP TRIGGER ironrule_audit_truncate ON ironrule_audit": "ironrule_audit_truncate of the audit log",
        "ALTER TABLE ironrule_audit DISABLE TRIGGER ironrule_audit_rows": "ironrule_audit_rows of the audit log is not",
        "ALTER TABLE ironrule_audit ENABLE TRIGGER ironrule_audit_rows": "ironrule_audit_rows of the audit log is not",
        "CREATE OR REPLACE FUNCTION ironrule_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RETURN NEW; END $$": "the trigger ironrule_audit_rows of the audit log is not",
        "CREATE TRIGGER mine BEFORE INSERT ON ironrule_audit FOR EACH ROW EXECUTE FUNCTION "
        "suppress_redundant_updates_trigger()": "does not create: 'mine'",
        "CREATE RULE mine AS ON DELETE TO ironrule_audit DO INSTEAD NOTHING": "the table of the audit log is not",
        "ALTER TABLE ironrule_audit ENABLE ROW LEVEL SECURITY": "the table of the audit log is not",
        "ALTER TABLE ironrule_audit ADD note text": "the table of the audit log is not",
        "ALTER TABLE ironrule_audit DROP CONSTRAINT ironrule_audit_pkey": "the table of the audit log is not",
        "CREATE TABLE child () INHERITS (ironrule_audit)": "the table of the audit log is not",
        "ALTER TABLE ironrule_audit RENAME TO other": "the table of the audit log is missing",
    },
}
CASES = [(kind, statement, flaw) for kind, found in FLAWS.items() for statement, flaw in found.items()]


@pytest.mark.parametrize(("kind", "statement", "flaw"), CASES)
def test_a_log_with_other_tables_or_triggers_is_broken_and_takes_no_record(
    request: pytest.FixtureRequest, kind: str, statement: str, flaw: str
) -> None:
    url = request.getfixturevalue(kind)
    log = AuditLog(url)
    log.append(build_entry())
    execute(url, statement)
    assert flaw in str(log.verify().flaw)
    log.close()
    assert flaw in str(find_flaw(url))
    if "RENAME" not in statement:  # else there is no log, and a new one is begun
        with (
            pytest.raises(InputError, match=r"the audit log .* is broken: .*; see ironrule audit verify") as refusal,
            contextlib.closing(AuditLog(url)) as again,
        ):
            again.append(build_entry())
        assert flaw in str(refusal.value)


ENDLESS = (
    "CREATE VIEW ironrule_audit AS WITH RECURSIVE n(format, number, key_id) AS "
    "(SELECT 3, 1, 'x' UNION ALL SELECT 3, number + 1, 'x' FROM n) SELECT * FROM n"
)


def test_a_view_that_never_ends_is_not_read(url: str) -> None:
    write_log(url, 1)
    execute(url, "ALTER TABLE ironrule_audit RENAME TO other", ENDLESS)
    assert find_flaw(url) == "the table of the audit log is not the one that ironrule creates"
    with contextlib.closing(AuditLog(url)) as log:
        with pytest.raises(AuditError, match="the table of the audit log is"):
            log.read(1)
        with pytest.raises(InputError, match="the table of the audit log is"):
            log.append(build_entry())
