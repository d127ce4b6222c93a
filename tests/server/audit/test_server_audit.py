"""The audit log: append-only, chained, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import csv
import io
import json
import threading
from pathlib import Path

import httpx
import pytest
from audit_examples import build_entry, execute, execute_without_triggers
from hypothesis import given, strategies as st
from server_examples import DENIED, open_client

from ironrule.errors import AuditError, InputError
from ironrule.progress import ProgressBar
from ironrule.server.audit.log import AuditLog
from ironrule.server.audit.record import escape_formula, export_csv, export_json_lines
from ironrule.server.served_model import ServedModel


def test_what_is_appended_can_be_read_again_and_is_numbered_from_one(url: str) -> None:
    log = AuditLog(url)
    first, second = log.append(build_entry()), log.append(build_entry(None, "bob"))
    assert (first.number, second.number, second.previous_hash) == (1, 2, first.hash)
    assert log.read(1) == first
    assert log.read(2) == second
    assert second.document == {"row": None, "text": "ä\u2028=1+1"}
    assert log.read(3) is None
    assert log.read(1 << 80) is None
    log.close()


def test_a_log_goes_on_where_it_ended(url: str) -> None:
    for number in (1, 2, 3):
        log = AuditLog(url)
        assert log.append(build_entry()).number == number
        log.close()
    log = AuditLog(url)
    assert (log.verify().count, log.verify().flaw) == (3, None)
    log.close()


@pytest.mark.parametrize(
    ("statement", "flaw", "whole"),
    [
        ("UPDATE ironrule_audit SET rule = 'another' WHERE number = 2", "record 2 was altered", 1),
        ("UPDATE ironrule_audit SET row = NULL WHERE number = 3", "record 3 was altered", 2),
        (
            "UPDATE ironrule_audit SET compressed_document = 'x' WHERE number = 2",
            "the document of record 2 was altered",
            1,
        ),
        ("DELETE FROM ironrule_audit WHERE number = 2", "record 2 is missing", 1),
        ("DELETE FROM ironrule_audit WHERE number = 1", "record 1 is missing", 0),
    ],
)
def test_a_change_without_the_triggers_breaks_the_chain(url: str, statement: str, flaw: str, whole: int) -> None:
    log = AuditLog(url)
    for row in range(4):
        log.append(build_entry(row))
    if url.startswith("sqlite"):
        statement = statement.replace("compressed_document = 'x'", "compressed_document = x'00'")
    execute_without_triggers(url, statement)
    found = log.verify()
    assert (found.flaw, found.count) == (flaw, whole)
    log.close()


def test_removing_the_last_records_shows_against_a_hash_that_was_kept(url: str) -> None:
    log = AuditLog(url)
    kept = [log.append(build_entry(row)).hash for row in range(3)]
    assert log.verify(kept[1]).flaw is None
    execute_without_triggers(url, "DELETE FROM ironrule_audit WHERE number = 3")
    assert log.verify().flaw is None
    assert log.verify(kept[1]).flaw is None
    assert log.verify(kept[2]).flaw == "the hash that was kept is not in the chain: records are gone"
    log.close()


def append_from_threads(url: str) -> None:
    """Append 40 records with two logs and four threads, and verify them."""
    logs = [AuditLog(url), AuditLog(url)]
    threads = [
        threading.Thread(target=lambda log=log: [log.append(build_entry(n)) for n in range(10)]) for log in logs * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (logs[0].verify().count, logs[0].verify().flaw) == (40, None)
    for log in logs:
        log.close()


def test_many_writers_make_one_chain(url: str) -> None:
    append_from_threads(url)


def test_a_database_with_stricter_transactions_makes_no_difference(postgresql: str) -> None:
    append_from_threads(f"{postgresql}&options=-c%20default_transaction_isolation=serializable")


def test_verification_says_how_far_it_is(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []

    class RecordingBar(ProgressBar):
        def __init__(self, description: str, total: int | None) -> None:
            super().__init__(description, total)
            shown.append((description, total))

        def update(self, done: int) -> None:
            shown.append(done)

    monkeypatch.setattr("ironrule.server.audit.log.ProgressBar", RecordingBar)
    log = AuditLog(url).require_intact()
    for row in range(3):
        log.append(build_entry(row))
    shown.clear()
    assert log.verify().count == 3
    assert shown == [("verifying the audit log", 3), 1, 2, 3]
    log.close()


def test_an_export_has_every_record(url: str) -> None:
    log = AuditLog(url)
    records = [log.append(build_entry(row, rule="=HYPERLINK(1)")) for row in range(3)]
    lines = [json.loads(line) for line in export_json_lines(log.records())]
    assert lines == [record.facts | {"document": record.document} for record in records]
    rows = list(csv.DictReader(io.StringIO("".join(export_csv(log.records())))))
    assert [row["number"] for row in rows] == ["1", "2", "3"]
    assert {row["rule"] for row in rows} == {"'=HYPERLINK(1)"}
    log.close()


@pytest.mark.parametrize("create", [True, False])
def test_a_log_of_another_format_is_refused_and_left_as_it_is(url: str, create: bool) -> None:
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///")).touch()
    execute(url, "CREATE TABLE ironrule_audit (number BIGINT, at TEXT, who TEXT, previous TEXT)")
    with pytest.raises(InputError, match=r"the audit log .* must have format 3, got 1") as older:
        AuditLog(url, create)
    assert (older.value.code, older.value.got) == ("wrong-format", "1")
    assert older.value.hint == "keep it as it is and begin another, or use the version of ironrule that wrote it"
    execute(url, "INSERT INTO ironrule_audit VALUES (1, '', '', '')", "ALTER TABLE ironrule_audit ADD format BIGINT")
    with pytest.raises(
        InputError, match=r"the audit log .* must have format 3, got 2; keep it as it is and begin another"
    ):
        AuditLog(url, create)
    execute(url, "DROP TABLE ironrule_audit")
    log = AuditLog(url)
    log.append(build_entry())
    log.close()
    execute_without_triggers(url, "UPDATE ironrule_audit SET format = 4")
    with pytest.raises(InputError, match=r"must have format 3, got 4; install a newer version of ironrule"):
        AuditLog(url, create)


@given(st.text())
def test_no_cell_begins_like_a_formula(cell: str) -> None:
    assert not escape_formula(cell).lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert escape_formula(cell).removeprefix("'") == cell.removeprefix("'")


def test_some_records_can_be_read(url: str) -> None:
    log = AuditLog(url)
    for row in range(40):
        log.append(build_entry(row))
    assert [record.number for record in log.records()] == list(range(1, 41))
    assert [record.number for record in log.records(2, 4)] == [2, 3, 4]
    assert [record.number for record in log.records(39)] == [39, 40]
    log.close()


def test_two_servers_continue_each_others_chain(url: str) -> None:
    first, second = AuditLog(url), AuditLog(url)
    numbers = [log.append(build_entry()).number for log in (first, second, second, first, second)]
    assert numbers == [1, 2, 3, 4, 5]
    assert (first.verify().count, first.verify().flaw) == (5, None)
    first.close()
    second.close()


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    AuditLog(f"sqlite:///{tmp_path}/audit.sqlite").close()
    assert (tmp_path / "audit.sqlite").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "the audit log must be a URL such as sqlite:///audit.sqlite"),
        ("mysql://there/log", "the audit log must be in sqlite or postgresql, got 'mysql'"),
        ("sqlite:////no/such/folder/log.sqlite", "the folder of the audit log does not exist: '/no/such/folder'"),
    ],
)
def test_a_log_that_cannot_be_is_refused(url: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AuditLog(url)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "audit.sqlite").write_text("no database, and long enough to be read as one" * 100)
    with pytest.raises(InputError, match="cannot open the audit log "):
        AuditLog(f"sqlite:///{tmp_path}/audit.sqlite")


def test_every_answer_of_a_server_is_in_its_log(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path, tokens={"a-token-of-sixteen": "ann"}) as client:
        client.headers["authorization"] = "Bearer a-token-of-sixteen"
        said = client.post("/api/explain", json={"row": DENIED}).json()
        varied = client.post("/api/counterfactuals", json={"row": DENIED}).json()
        client.post("/api/explain", json={"row": 0})  # refused: nothing is said
        client.post("/api/check", json={"explanation": said["document"]})
    log = AuditLog(f"sqlite:///{tmp_path}/audit.sqlite")
    first, second = log.records()
    assert (first.user_name, first.kind, first.row, first.verdict) == ("ann", "explanation", DENIED, "proven")
    assert (first.document, second.document) == (said["document"], varied["document"])
    assert (first.model, first.space) == (german.explainer.fingerprint, german.space.fingerprint)
    assert german.check(first.document).status == "proven"
    assert (log.verify().flaw, log.verify().head) == (None, varied["hash"])
    log.close()


def test_without_a_record_there_is_no_answer(
    german: ServedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise AuditError("the audit log must take every record, but the disk is full")

    monkeypatch.setattr(AuditLog, "append", full)
    with open_client(german, tmp_path) as client:
        answer = client.post("/api/explain", json={"row": DENIED})
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "audit"
        assert "rules" not in answer.text
        assert httpx.codes.is_server_error(client.post("/api/counterfactuals", json={"row": DENIED}).status_code)
