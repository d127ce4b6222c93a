"""Every cell of the table of attacks in docs/server.md: the attack is made, and found or not found as it says."""

from __future__ import annotations

import contextlib
import hashlib
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from audit_examples import (
    OTHER_KEY,
    build_entry,
    execute,
    execute_without_triggers,
    find_flaw,
    get_path,
    insert_record,
    rewrite_log,
    write_log,
)
from sqlalchemy.exc import DBAPIError

from ironrule.errors import InputError
from ironrule.server.audit.key import AuditKey, find_default_key_file, read_key
from ironrule.server.audit.log import AuditLog
from ironrule.server.audit.record import AuditRecord, ChainEnd
from ironrule.verdict.digest import to_canonical_json

PAGE = Path(__file__).parents[3] / "docs" / "server.md"
COLUMNS = {  # whether the attacker has the key, and whether heads are compared
    "without the key": (False, False),
    "without the key, heads compared": (False, True),
    "with the key": (True, False),
    "with the key, heads compared": (True, True),
}
Attack = Callable[[str, list[AuditRecord], AuditKey | None], None]


def make_chain(url: str, entries: list[tuple[int | None, str]], times: list[str], key: AuditKey | None) -> None:
    """Write a whole log anew, chained with the key; without it with another one, under the id of the true one."""
    execute_without_triggers(url, "DELETE FROM ironrule_audit")
    true_id, end = read_key(find_default_key_file()).id, ChainEnd()
    for (row, rule), time in zip(entries, times, strict=True):
        forged = AuditRecord.from_entry(build_entry(row, rule=rule), time, end, key or OTHER_KEY)
        if key is None:
            unsigned = replace(forged, key_id=true_id)
            content = {name: value for name, value in unsigned.facts.items() if name != "hash"}
            forged = replace(unsigned, hash=OTHER_KEY.sign(to_canonical_json(content).encode()))
        insert_record(url, forged)
        end = forged.end


def list_entries(records: list[AuditRecord]) -> tuple[list[tuple[int | None, str]], list[str]]:
    """What a chain is made of."""
    return [(one.row, one.rule) for one in records], [one.recorded_at for one in records]


def alter_record(url: str, records: list[AuditRecord], key: AuditKey | None) -> None:
    """Change what was said in record 2, and chain everything again."""
    entries, times = list_entries(records)
    make_chain(url, [*entries[:1], (1, "forged"), *entries[2:]], times, key)


def remove_from_the_middle(url: str, records: list[AuditRecord], key: AuditKey | None) -> None:
    """Leave record 2 out, and chain and number the others again."""
    entries, times = list_entries(records)
    make_chain(url, [*entries[:1], *entries[2:]], [*times[:1], *times[2:]], key)


def insert_in_the_middle(url: str, records: list[AuditRecord], key: AuditKey | None) -> None:
    """Put one more record after the first."""
    entries, times = list_entries(records)
    make_chain(url, [*entries[:1], (9, "forged"), *entries[1:]], [*times[:1], *times], key)


def add_at_the_end(url: str, records: list[AuditRecord], key: AuditKey | None) -> None:
    """Append what the server never said; the triggers let a record pass that follows."""
    last = records[-1]
    insert_record(url, AuditRecord.from_entry(build_entry(9), last.recorded_at, last.end, key or OTHER_KEY))


def remove_the_last(url: str, _: list[AuditRecord], __: AuditKey | None) -> None:
    """Cut the log off."""
    execute_without_triggers(url, "DELETE FROM ironrule_audit WHERE number > 2")


def remove_all(url: str, _: list[AuditRecord], __: AuditKey | None) -> None:
    """Empty the log."""
    execute_without_triggers(url, "DELETE FROM ironrule_audit")


def put_another_log(url: str, _: list[AuditRecord], __: AuditKey | None) -> None:
    """Put the records of another log in its place, which a server wrote with the same key."""
    execute_without_triggers(url, "DELETE FROM ironrule_audit")
    write_log(url, 6)


def remove_triggers(url: str, _: list[AuditRecord], __: AuditKey | None) -> None:
    """Remove what stands in the way, and leave it so."""
    name = "ironrule_audit_update" if url.startswith("sqlite") else "ironrule_audit_rows ON ironrule_audit"
    execute(url, f"DROP TRIGGER {name}")


ATTACKS: dict[str, Attack] = {
    "alter a record or its document": alter_record,
    "remove a record from the middle": remove_from_the_middle,
    "insert a record in the middle": insert_in_the_middle,
    "add a record at the end": add_at_the_end,
    "remove the last records, or put back an older copy": remove_the_last,
    "remove all records": remove_all,
    "put another log with the same key in its place": put_another_log,
    "remove or alter the triggers, for good": remove_triggers,
}


def read_table() -> dict[str, dict[str, str]]:
    """The table of the page: attack, column, what is said."""
    text = PAGE.read_text().split("### What an attacker can do")[1]
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.MULTILINE)
    ]
    header, _, *rows = lines
    return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}


TABLE = read_table()
CELLS = [(attack, column, said) for attack, row in TABLE.items() for column, said in row.items()]


def test_the_table_has_the_attacks_of_this_file() -> None:
    assert list(TABLE) == list(ATTACKS)
    assert all(list(row) == list(COLUMNS) for row in TABLE.values())
    assert {said for _, _, said in CELLS} == {"found", "not found", "listed"}


@pytest.mark.parametrize(("attack", "column", "said"), CELLS)
def test_what_the_table_says_is_so(url: str, tmp_path: Path, attack: str, column: str, said: str) -> None:
    has_key, has_heads = COLUMNS[column]
    (tmp_path / "elsewhere").mkdir()
    heads = tmp_path / "elsewhere" / "heads"
    records = write_log(url, 4, heads=str(heads))
    assert find_flaw(url, heads=[heads]) is None
    ATTACKS[attack](url, records, read_key(find_default_key_file()) if has_key else None)
    options = {"heads": str(heads)} if has_heads else {}
    with contextlib.closing(AuditLog(url, **options)) as log:
        found = log.verify(heads=[heads] if has_heads else [])
        if said == "found":
            assert found.flaw is not None
            with pytest.raises(InputError, match="is broken"):
                log.require_intact()
            return
        assert found.flaw is None
        assert list(found.without_head) == ([5] if said == "listed" else [])
        log.require_intact()


def test_an_older_copy_of_the_file_is_put_back(sqlite: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    heads = tmp_path / "elsewhere" / "heads"
    write_log(sqlite, 2, heads=str(heads))
    older = get_path(sqlite).read_bytes()
    write_log(sqlite, 2, heads=str(heads))
    get_path(sqlite).write_bytes(older)
    assert find_flaw(sqlite) is None
    assert "record 3 is gone" in str(find_flaw(sqlite, heads=[heads]))


def test_the_chain_of_an_earlier_version_cannot_be_forged_into_this_one(url: str) -> None:
    """The attack that was possible while hashes had no key: rewrite, and chain again with SHA-256."""
    records = write_log(url)
    execute_without_triggers(url, "DELETE FROM ironrule_audit")
    previous = ChainEnd().hash
    for record in records:
        forged = replace(record, rule="forged", previous_hash=previous)
        content = {name: value for name, value in forged.facts.items() if name != "hash"}
        forged = replace(forged, hash=hashlib.sha256(to_canonical_json(content).encode()).hexdigest())
        insert_record(url, forged)
        previous = forged.hash
    assert find_flaw(url) == "record 1 was altered"


def test_records_are_exchanged(url: str) -> None:
    write_log(url)
    swap = "UPDATE ironrule_audit SET number = {} WHERE number = {}"
    execute_without_triggers(url, swap.format(9, 2), swap.format(2, 3), swap.format(3, 9))
    assert find_flaw(url) == "record 2 does not follow from the one before it"


def test_documents_are_exchanged(url: str) -> None:
    records = write_log(url)
    statement = "UPDATE ironrule_audit SET compressed_document = :other WHERE number = 2"
    execute_without_triggers(url, statement, other=records[2].compressed_document)
    assert find_flaw(url) == "the document of record 2 was altered"


def test_heads_that_the_attacker_can_change_protect_nothing(url: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    heads = tmp_path / "elsewhere" / "heads"
    write_log(url, 4, heads=str(heads))
    remove_the_last(url, [], None)
    heads.write_text("".join(heads.read_text().splitlines(keepends=True)[:2]))
    assert find_flaw(url, heads=[heads]) is None


def test_who_controls_the_server_can_record_false_answers(url: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    heads = tmp_path / "elsewhere" / "heads"
    records = write_log(url, 2, heads=str(heads))
    with contextlib.closing(AuditLog(url, heads=str(heads))) as log:
        log.append(build_entry(rule="false"))
    assert find_flaw(url, heads=[heads]) is None
    rewrite_log(url, records, ["false"] * 2, read_key(find_default_key_file()))
    assert "record 1 was rewritten" in str(find_flaw(url, heads=[heads]))


def test_ordinary_sql_without_owning_the_table_changes_nothing(url: str) -> None:
    write_log(url)
    with pytest.raises(DBAPIError, match="append-only"):
        execute(url, "DELETE FROM ironrule_audit WHERE number = 4")
    assert find_flaw(url) is None


def test_who_has_the_file_can_read_it(sqlite: str) -> None:
    write_log(sqlite)
    with contextlib.closing(sqlite3.connect(get_path(sqlite))) as reader:
        assert reader.execute("SELECT count(*), max(user_name) FROM ironrule_audit").fetchone() == (4, "ann")
