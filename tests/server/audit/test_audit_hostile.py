"""Whatever a database holds, verify ends with a flaw: no endless loop, no traceback, no memory without bound."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit_examples import (
    build_entry,
    execute,
    execute_without_triggers,
    find_flaw,
    get_path,
    read_rows,
    write_log,
)

from ironrule.errors import AuditError, InputError
from ironrule.server.audit import record as record_module, schema
from ironrule.server.audit.key import AuditKey, find_default_key_file, read_key
from ironrule.server.audit.log import AuditLog
from ironrule.server.audit.record import AuditRecord, ChainEnd, compress_document, unpack_pieces

NUMBERS = {
    "2^62": ("4611686018427387904", "record 4 is missing"),
    "the largest": ("9223372036854775807", "record 4 is missing"),
    "a gap": ("5", "record 4 is missing"),
    "negative": ("-3", "there is a record with the number -3, and the first must have 1"),
    "the smallest": ("-9223372036854775808", "with the number -9223372036854775808, and the first must have 1"),
    "zero": ("0", "there is a record with the number 0, and the first must have 1"),
}


@pytest.mark.parametrize(("number", "flaw"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_out_of_order_are_flaws(url: str, number: str, flaw: str) -> None:
    write_log(url)
    execute_without_triggers(url, f"UPDATE ironrule_audit SET number = {number} WHERE number = 4")
    assert flaw in str(find_flaw(url))
    with contextlib.closing(AuditLog(url)) as log:
        assert log.get_last_number() > 0
        with pytest.raises(InputError, match="is broken"):
            log.append(build_entry())


VALUES = {
    "text for a number": ("format", "'three'", "format of record 2 is no integer"),
    "a real for a number": ('"row"', "1.5", "row of record 2 is no integer"),
    "infinity": ('"row"', "9e999", "row of record 2 is no integer"),
    "an integer for text": ("rule", "x'00ff'", "rule of record 2 is no text"),
    "bytes for a hash": ("hash", "x'00'", "hash of record 2 is no text"),
    "bytes for a key": ("key_id", "x'00'", "key_id of record 2 is no text"),
    "text for bytes": ("compressed_document", "'abc'", "compressed_document of record 2 is no sequence of bytes"),
    "a number for bytes": ("compressed_document", "1000000000000", "compressed_document of record 2 is no sequence"),
    "no UTF-8": ("user_name", "CAST(x'ff00fe' AS TEXT)", "record 2 was altered"),
    "another format": ("format", "2", "record 2 must have format 3, got 2"),
    "a hash with odd letters": ("hash", "'ä'", "record 2 was altered"),
    "a key with odd letters": ("key_id", "'\x1b[2J'", "record 2 was written with another key (another id)"),
}


@pytest.mark.parametrize(("column", "value", "flaw"), VALUES.values(), ids=VALUES)
def test_values_of_another_type_are_flaws(sqlite: str, column: str, value: str, flaw: str) -> None:
    write_log(sqlite)
    execute_without_triggers(sqlite, f"UPDATE ironrule_audit SET {column} = {value} WHERE number = 2")
    assert flaw in str(find_flaw(sqlite))
    with contextlib.closing(AuditLog(sqlite)) as log, pytest.raises(AuditError, match="record 2"):
        log.read(2)


def alter_facts(url: str, **facts: Any) -> None:
    """Alter a record and sign it with the true key, as only its owner can."""
    key = read_key(find_default_key_file())
    with contextlib.closing(AuditLog(url)) as log:
        found = log.read(2)
    assert found is not None
    values = {**found.facts, **facts}
    del values["hash"]
    signed = key.sign(record_module.to_canonical_json(values).encode())
    sets = ", ".join(f"{name} = :{name}" for name in facts)
    execute_without_triggers(
        url, f"UPDATE ironrule_audit SET {sets}, hash = :hash WHERE number = 2", **facts, hash=signed
    )


@pytest.mark.parametrize(
    ("time", "flaw"),
    [
        ("1999-01-01T00:00:00.000000+00:00", "record 2 is older than the one before it"),
        ("yesterday", "the time of record 2 is no time"),
        ("2999-01-01T00:00:00.000000+00:00", "record 3 does not follow from the one before it"),
    ],
)
def test_times_that_go_back_are_flaws(url: str, time: str, flaw: str) -> None:
    write_log(url)
    alter_facts(url, recorded_at=time)
    assert find_flaw(url) == flaw


def test_a_clock_that_is_set_back_does_not_break_the_chain(sqlite: str, caplog: pytest.LogCaptureFixture) -> None:
    (first,) = write_log(sqlite, 1)
    later = "2999-01-01T00:00:00.000000+00:00"
    alter = "UPDATE ironrule_audit SET recorded_at = :at, hash = :hash"
    values = {name: value for name, value in first.facts.items() if name != "hash"} | {"recorded_at": later}
    signed = read_key(find_default_key_file()).sign(record_module.to_canonical_json(values).encode())
    execute_without_triggers(sqlite, alter, at=later, hash=signed)
    with contextlib.closing(AuditLog(sqlite)) as log:
        assert log.append(build_entry()).recorded_at == later
        assert log.verify().flaw is None
    assert "the clock is behind the last record of the audit log" in caplog.text


def build_bomb(size: int) -> bytes:
    """Few bytes that unpack to many."""
    packer, zeros = zlib.compressobj(9), bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(size >> 20)) + packer.flush()


def test_a_document_that_unpacks_to_too_much_is_a_flaw(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "MAX_DOCUMENT_BYTES", 1 << 24)
    write_log(url)
    bomb = build_bomb(1 << 28)
    execute_without_triggers(url, "UPDATE ironrule_audit SET compressed_document = :bomb WHERE number = 2", bomb=bomb)
    tracemalloc.start()
    try:
        assert find_flaw(url) == "the document of record 2 was altered"
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
    with contextlib.closing(AuditLog(url)) as log, pytest.raises(AuditError, match="document of record 2 was altered"):
        log.read(2)


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off": lambda whole: whole[:-3],
    "longer": lambda whole: whole + b"more",
    "other bytes": lambda _: b"nonsense" * 9,
    "another document": lambda _: zlib.compress(b'{"row": NaN}'),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_document_is_a_flaw(url: str, damage: Callable[[bytes], bytes]) -> None:
    records = write_log(url)
    damaged = damage(records[1].compressed_document)
    execute_without_triggers(url, "UPDATE ironrule_audit SET compressed_document = :it WHERE number = 2", it=damaged)
    assert find_flaw(url) == "the document of record 2 was altered"


def test_a_value_that_is_too_long_is_not_even_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.server.audit.schema.MAX_FACTS_BYTES", 100_000)
    write_log(url)
    execute_without_triggers(url, "UPDATE ironrule_audit SET rule = :long WHERE number = 2", long="x" * 100_001)
    assert find_flaw(url) == "rule of record 2 is no text, or is too long"


def test_little_is_read_before_anything_is_verified(url: str) -> None:
    write_log(url)
    long = "UPDATE ironrule_audit SET hash = :long, key_id = :long, previous_hash = :long"
    execute_without_triggers(url, long, long="x" * 100_000)
    for statement in (schema.LAST_RECORD, schema.FIRST_KEY, schema.HASH_OF_RECORD):
        values = {"number": 2} if ":number" in statement.text else {}
        assert max(len(str(value)) for (*row,) in read_rows(url, statement.text, **values) for value in row) <= 65
    assert "was written with another key (another id)" in str(find_flaw(url))


def test_an_answer_that_is_too_long_for_the_log_is_not_given(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(AuditLog(sqlite)) as log:
        monkeypatch.setattr(record_module, "MAX_FACTS_BYTES", 2000)
        with pytest.raises(
            AuditError, match=r"a record must have at most 2,000 bytes besides its document, got \d,\d+"
        ):
            log.append(build_entry(rule="x" * 2500))
        monkeypatch.setattr(record_module, "MAX_DOCUMENT_BYTES", 10)
        with pytest.raises(AuditError, match="a document in the audit log must have at most 10 bytes, got 3"):
            log.append(build_entry())
        assert log.get_last_number() == 0


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_a_document_is_unpacked_whole_whatever_its_length(size: int) -> None:
    document = {"text": "x" * size}
    compressed, _ = compress_document(document)
    assert json.loads(b"".join(unpack_pieces(compressed))) == document


def test_a_damaged_page_is_found_and_nothing_is_appended(sqlite: str) -> None:
    with contextlib.closing(AuditLog(sqlite)) as log:
        for row in range(40):
            log.append(build_entry(row, rule="x" * 500))
    path = get_path(sqlite)
    content = bytearray(path.read_bytes())
    pages = len(content) // 4096
    content[4096 * (pages // 2) : 4096 * (pages // 2) + 60] = b"\xff" * 60
    path.write_bytes(content)
    assert "the database is damaged" in str(find_flaw(sqlite))
    with contextlib.closing(AuditLog(sqlite)) as log, pytest.raises(InputError, match="the database is damaged"):
        log.append(build_entry())


def test_an_index_cannot_hide_a_record(sqlite: str) -> None:
    """There is none: records are found by the number of their row."""
    write_log(sqlite)
    assert read_rows(sqlite, "SELECT name FROM sqlite_master WHERE type = 'index'") == []


def test_a_schema_that_was_written_over_is_found(sqlite: str) -> None:
    write_log(sqlite)
    with contextlib.closing(sqlite3.connect(get_path(sqlite), isolation_level=None)) as owner:
        owner.execute("PRAGMA writable_schema = ON")
        owner.execute("UPDATE sqlite_master SET sql = replace(sql, 'BEFORE DELETE', 'BEFORE UPDATE')")
    execute(sqlite, "DELETE FROM ironrule_audit WHERE number = 4")
    assert (
        find_flaw(sqlite) == "the trigger ironrule_audit_delete of the audit log is not the one that ironrule creates"
    )


def test_verification_keeps_few_records_in_memory(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = most = 0

    class CountedRecord(AuditRecord):
        __slots__ = ()

        def __init__(self, **fields: Any) -> None:
            nonlocal alive, most
            super().__init__(**fields)
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    write_log(url, 60)
    monkeypatch.setattr("ironrule.server.audit.log.AuditRecord", CountedRecord)
    assert find_flaw(url) is None
    assert 1 <= most <= 20


def test_records_and_heads_are_read_once_each(sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the time linear in the number of records."""
    (tmp_path / "kept").mkdir()
    records = write_log(sqlite, 60, heads=str(tmp_path / "kept" / "heads"))
    looked: list[int] = []
    look = AuditRecord.find_flaw

    def count(self: AuditRecord, end: ChainEnd, key: AuditKey) -> str | None:
        looked.append(self.number)
        return look(self, end, key)

    monkeypatch.setattr(AuditRecord, "find_flaw", count)
    assert find_flaw(sqlite, heads=[tmp_path / "kept" / "heads"]) is None
    assert looked == [record.number for record in records]
