"""The table of a log, and the triggers that let records only be appended.

The triggers require the next number and the hash of the last record of every row that is inserted, and refuse every
other change, in SQLite and in PostgreSQL. The owner of the database can remove them, so :func:`find_schema_flaws`
compares what is there with what Ironrule creates; that no record was altered is the business of the keyed chain.

The statements are written out here, rather than generated, so that they are the same with every version of SQLAlchemy.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ironrule.server.audit.record import FIELD_TYPES, GENESIS, MAX_DOCUMENT_BYTES, MAX_FACTS_BYTES

TABLE = "ironrule_audit"
APPEND_ONLY_MESSAGE = "the audit log is append-only"
NEXT_RECORD_MESSAGE = f"{APPEND_ONLY_MESSAGE}: a record must have the next number and the hash of the last one"
ADVISORY_LOCK = 0x1205A0D1  # any number that no other program uses


def lock_log(connection: Connection) -> None:
    """Block other servers that append until this transaction ends. SQLite has done so at its beginning.

    An advisory lock, since a role that may only insert and select cannot lock the table itself.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:space, 0)"), {"space": ADVISORY_LOCK})


_SQLITE_TYPES = {int: "INTEGER", str: "TEXT", bytes: "BLOB"}
_POSTGRESQL_TYPES = {int: "bigint", str: "text", bytes: "bytea"}


def _format_columns(types: dict[type, str]) -> str:
    ends = dict.fromkeys(FIELD_TYPES, " NOT NULL") | {"row": "", "number": " PRIMARY KEY"}
    return ", ".join(f'"{name}" {types[kind]}{ends[name]}' for name, kind in FIELD_TYPES.items())


_SQLITE_SCHEMA = (
    f"CREATE TABLE ironrule_audit ({_format_columns(_SQLITE_TYPES)})",
    "CREATE TRIGGER ironrule_audit_insert BEFORE INSERT ON ironrule_audit "
    "WHEN typeof(NEW.number) IS NOT 'integer' "
    "OR NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM ironrule_audit) "
    "OR NEW.previous_hash IS NOT "
    f"coalesce((SELECT hash FROM ironrule_audit ORDER BY number DESC LIMIT 1), '{GENESIS}') "
    f"BEGIN SELECT RAISE(ABORT, '{NEXT_RECORD_MESSAGE}'); END",
    *(
        f"CREATE TRIGGER ironrule_audit_{verb.lower()} BEFORE {verb} ON ironrule_audit "
        f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY_MESSAGE}'); END"
        for verb in ("UPDATE", "DELETE")
    ),
)

# The functions fix their search path, and name the table by its schema: otherwise a temporary table of the same name
# would be asked instead.
_FUNCTION_PATH = "pg_catalog, pg_temp"
_POSTGRESQL_REFUSE = f" BEGIN RAISE EXCEPTION '{APPEND_ONLY_MESSAGE}'; END "
_POSTGRESQL_APPEND = f"""
DECLARE
    last_number bigint;
    last_hash text;
BEGIN
    EXECUTE 'SELECT number, hash FROM ' || quote_ident(TG_TABLE_SCHEMA) || '.' || quote_ident(TG_TABLE_NAME)
        || ' ORDER BY number DESC LIMIT 1' INTO last_number, last_hash;
    IF NEW.number IS DISTINCT FROM coalesce(last_number, 0) + 1
        OR NEW.previous_hash IS DISTINCT FROM coalesce(last_hash, '{GENESIS}') THEN
        RAISE EXCEPTION '{NEXT_RECORD_MESSAGE}';
    END IF;
    RETURN NEW;
END
"""


def _build_function(name: str, body: str) -> str:
    head = f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path = {_FUNCTION_PATH}"
    return f"{head} AS $body${body}$body$"


def _build_trigger(name: str, events: str, each: str, function: str) -> tuple[str, str]:
    """A trigger that replication does not leave out either."""
    made = f"CREATE TRIGGER {name} BEFORE {events} ON ironrule_audit FOR EACH {each} EXECUTE FUNCTION {function}()"
    return made, f"ALTER TABLE ironrule_audit ENABLE ALWAYS TRIGGER {name}"


_POSTGRESQL_SCHEMA = (
    f"CREATE TABLE ironrule_audit ({_format_columns(_POSTGRESQL_TYPES)})",
    _build_function("ironrule_audit_refuse", _POSTGRESQL_REFUSE),
    _build_function("ironrule_audit_append", _POSTGRESQL_APPEND),
    *_build_trigger("ironrule_audit_insert", "INSERT", "ROW", "ironrule_audit_append"),
    *_build_trigger("ironrule_audit_rows", "UPDATE OR DELETE", "ROW", "ironrule_audit_refuse"),
    *_build_trigger("ironrule_audit_truncate", "TRUNCATE", "STATEMENT", "ironrule_audit_refuse"),
)


def create_schema(connection: Connection) -> bool:
    """Create the table with its triggers, unless there is one of that name; whether that was done."""
    lock_log(connection)
    if sa.inspect(connection).has_table(TABLE):
        return False
    for statement in _SQLITE_SCHEMA if connection.dialect.name == "sqlite" else _POSTGRESQL_SCHEMA:
        connection.exec_driver_sql(statement)
    return True


class SchemaFlaws(NamedTuple):
    """How table and triggers differ from those that Ironrule creates; None where they do not. Records of a table with
    a flaw are not read: it might be a view that never ends.
    """

    table: str | None
    triggers: str | None


def find_schema_flaws(connection: Connection) -> SchemaFlaws:
    """Compare table and triggers with those that Ironrule creates."""
    find = _find_sqlite_flaws if connection.dialect.name == "sqlite" else _find_postgresql_flaws
    return find(connection)


def _find_sqlite_flaws(connection: Connection) -> SchemaFlaws:
    listed = "SELECT name, type, sql FROM sqlite_master WHERE tbl_name = 'ironrule_audit' COLLATE NOCASE"
    found = {str(name): (kind, statement) for name, kind, statement in connection.exec_driver_sql(listed)}
    model = sqlite3.connect(":memory:")
    try:
        for statement in _SQLITE_SCHEMA:
            model.execute(statement)
        expected = {name: (kind, statement) for name, kind, statement in model.execute(listed)}
    finally:
        model.close()
    return _compare_parts(expected, found)


def _find_postgresql_flaws(connection: Connection) -> SchemaFlaws:
    """Compare by the system's catalogues, whose fields do not depend on how a statement was written."""
    this = "pg_catalog.to_regclass('ironrule_audit')"
    table = connection.exec_driver_sql(
        "SELECT c.relkind::text, c.relpersistence::text, c.relrowsecurity, c.relforcerowsecurity, "
        "EXISTS (SELECT 1 FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid), "
        "EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i WHERE c.oid IN (i.inhparent, i.inhrelid)), "
        "EXISTS (SELECT 1 FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid AND x.indisprimary AND x.indisvalid "
        "AND x.indkey::text = (SELECT a.attnum::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid "
        f"AND a.attname = 'number')) FROM pg_catalog.pg_class c WHERE c.oid = {this}"
    ).all()
    columns = connection.exec_driver_sql(
        "SELECT attname, pg_catalog.format_type(atttypid, atttypmod), attnotnull, attgenerated::text "
        f"FROM pg_catalog.pg_attribute WHERE attrelid = {this} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    ).all()
    triggers = connection.exec_driver_sql(
        "SELECT t.tgname, t.tgtype, t.tgenabled::text, t.tgqual IS NULL, p.prosrc, p.proconfig, p.prosecdef, l.lanname "
        "FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid "
        f"JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE t.tgrelid = {this} AND NOT t.tgisinternal"
    ).all()
    found = {TABLE: ([tuple(row) for row in table], [tuple(row) for row in columns])} if table else {}
    wanted = [(name, _POSTGRESQL_TYPES[kind], name != "row", "") for name, kind in FIELD_TYPES.items()]
    expected: dict[str, Any] = {TABLE: ([("r", "p", False, False, False, False, True)], wanted)}
    for name, kind, body in (
        ("ironrule_audit_insert", 7, _POSTGRESQL_APPEND),  # 1: each row, 2: before, 4: insert
        ("ironrule_audit_rows", 27, _POSTGRESQL_REFUSE),  # 8: delete, 16: update
        ("ironrule_audit_truncate", 34, _POSTGRESQL_REFUSE),  # 32: truncate
    ):
        expected[name] = (kind, "A", True, body, [f"search_path={_FUNCTION_PATH}"], False, "plpgsql")
    return _compare_parts(expected, found | {str(name): tuple(rest) for name, *rest in triggers})


def _compare_parts(expected: dict[str, Any], found: dict[str, Any]) -> SchemaFlaws:
    """The first part that is missing, altered, or one too many."""
    flaws: dict[bool, str] = {}
    for name, part in expected.items():
        what = "the table of the audit log" if name == TABLE else f"the trigger {name} of the audit log"
        if name not in found:
            flaws.setdefault(name == TABLE, f"{what} is missing")
        elif found[name] != part:
            flaws.setdefault(name == TABLE, f"{what} is not the one that ironrule creates")
    for name in sorted(set(found) - set(expected)):
        flaws.setdefault(False, f"the audit log has something that ironrule does not create: {name[:60]!r}")
    return SchemaFlaws(flaws.get(True), flaws.get(False))


def detect_old_format(connection: Connection) -> int | None:
    """The format of a log that an earlier version wrote, by its columns; None if there is none."""
    tables = sa.inspect(connection)
    names = [one["name"] for one in tables.get_columns(TABLE)] if tables.has_table(TABLE) else []
    if not names or "key_id" in names:
        return None
    return 2 if "format" in names else 1


def build_selection(dialect: str, condition: str = "") -> sa.TextClause:
    """The statement that reads records in order. A value that is longer than any that we write is read as null."""
    columns = []
    for name, kind in FIELD_TYPES.items():
        quoted, limit = f'"{name}"', MAX_DOCUMENT_BYTES if kind is bytes else MAX_FACTS_BYTES
        length = f"length(CAST({quoted} AS BLOB))" if dialect == "sqlite" else f"octet_length({quoted})"
        bounded = dialect == "sqlite" or kind is not int
        columns.append(f"CASE WHEN {length} <= {limit} THEN {quoted} END AS {quoted}" if bounded else quoted)
    where = f" WHERE {condition}" if condition else ""
    return sa.text(f"SELECT {', '.join(columns)} FROM {TABLE}{where} ORDER BY {TABLE}.number")


INSERTION = sa.text(
    "INSERT INTO ironrule_audit ({}) VALUES ({})".format(
        ", ".join(f'"{name}"' for name in FIELD_TYPES), ", ".join(f":{name}" for name in FIELD_TYPES)
    )
)
# Of values that are read before anything is verified only so much is read as ours have, and one more character.
LAST_RECORD = sa.text(
    "SELECT number, substr(hash, 1, 65) AS hash, CASE WHEN format BETWEEN 0 AND 1000000 THEN format END AS format "
    "FROM ironrule_audit ORDER BY number DESC LIMIT 1"
)
FIRST_KEY = sa.text("SELECT substr(key_id, 1, 17) FROM ironrule_audit ORDER BY number LIMIT 1")
HASH_OF_RECORD = sa.text("SELECT substr(hash, 1, 65) FROM ironrule_audit WHERE number = :number")
