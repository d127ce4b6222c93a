"""A log file that is removed or replaced under the running server is noticed: no answer without a record."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from audit_examples import build_entry, execute_without_triggers, find_flaw, get_path, rewrite_log, write_log
from server_examples import DENIED, open_client

from ironrule.errors import AuditError, InputError
from ironrule.server.audit.key import find_default_key_file, read_key
from ironrule.server.audit.log import AuditLog
from ironrule.server.served_model import ServedModel


def remove(path: Path) -> None:
    """Remove the database."""
    path.unlink()


def move_away(path: Path) -> None:
    """Give it another name."""
    path.rename(path.with_name("moved"))


def replace_by_copy(path: Path) -> None:
    """Put a copy in its place."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def replace_by_nothing(path: Path) -> None:
    """Put an empty file in its place."""
    path.with_name("empty").touch()
    path.with_name("empty").replace(path)


def remove_write_ahead_log(path: Path) -> None:
    """Remove the file that holds the newest records."""
    path.with_name(f"{path.name}-wal").unlink()


CHANGES = (remove, move_away, replace_by_copy, replace_by_nothing, remove_write_ahead_log)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("before", [0, 2])
def test_a_file_that_is_not_the_same_takes_no_record(sqlite: str, change: Callable[[Path], None], before: int) -> None:
    write_log(sqlite, 2)
    with contextlib.closing(AuditLog(sqlite).require_intact()) as log:
        for row in range(before):
            log.append(build_entry(row))
        change(get_path(sqlite))
        for _ in range(2):
            with pytest.raises(AuditError, match="the audit log was removed or replaced while it was in use"):
                log.append(build_entry())


def test_the_write_ahead_log_behind_a_link_is_watched_too(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "real" / "audit.sqlite")
    write_log(f"sqlite:///{tmp_path}/real/audit.sqlite", 1)
    with contextlib.closing(AuditLog(f"sqlite:///{tmp_path}/link.sqlite")) as log:
        log.append(build_entry())
        remove_write_ahead_log(tmp_path / "real" / "audit.sqlite")
        with pytest.raises(AuditError, match="the audit log was removed or replaced while it was in use"):
            log.append(build_entry())


def test_a_file_that_changes_while_a_record_is_written_gives_no_answer(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ironrule.server.audit import log as log_module

    with contextlib.closing(AuditLog(sqlite).require_intact()) as log:
        build = log_module.AuditRecord.from_entry

        def build_and_remove(*arguments: object) -> object:
            get_path(sqlite).unlink()
            return build(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(log_module.AuditRecord, "from_entry", build_and_remove)
        with pytest.raises(AuditError, match="the audit log was removed or replaced while it was in use"):
            log.append(build_entry())


def test_a_server_whose_log_is_removed_gives_no_answer(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path) as client:
        assert client.post("/api/explain", json={"row": DENIED}).status_code == 200
        (tmp_path / "audit.sqlite").unlink()
        answer = client.post("/api/explain", json={"row": DENIED})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "audit")
        assert "rules" not in answer.text
        assert not (tmp_path / "audit.sqlite").exists()


def test_a_server_does_not_start_on_a_broken_log(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path) as client:
        assert client.post("/api/explain", json={"row": DENIED}).status_code == 200
    url = f"sqlite:///{tmp_path}/audit.sqlite"
    execute_without_triggers(url, "UPDATE ironrule_audit SET rule = 'another'")
    with pytest.raises(InputError, match="is broken: record 1 was altered"), open_client(german, tmp_path):
        pass


def test_records_that_vanish_from_the_end_under_a_server_stop_it(url: str) -> None:
    with contextlib.closing(AuditLog(url)) as log:
        for row in range(3):
            log.append(build_entry(row))
        execute_without_triggers(url, "DELETE FROM ironrule_audit WHERE number = 3")
        with pytest.raises(AuditError, match="record 3, which this server knows, is gone or was altered"):
            log.append(build_entry())
    assert find_flaw(url) is None  # as the next start would find it: heads show what is gone


def test_a_log_that_is_rewritten_under_a_server_with_its_own_key_stops_it(url: str) -> None:
    with contextlib.closing(AuditLog(url)) as log:
        records = [log.append(build_entry(row)) for row in range(3)]
        rewrite_log(url, records, ["other"] * 3, read_key(find_default_key_file()))
        with pytest.raises(AuditError, match="record 3, which this server knows, is gone or was altered"):
            log.append(build_entry())


def test_what_others_append_under_a_server_must_follow(url: str) -> None:
    with contextlib.closing(AuditLog(url)) as log:
        log.append(build_entry())
        write_log(url, 3)
        execute_without_triggers(url, "UPDATE ironrule_audit SET rule = 'another' WHERE number = 3")
        with pytest.raises(AuditError, match="is broken: record 3 was altered"):
            log.append(build_entry())


@pytest.mark.parametrize(
    "text", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true", "sqlite:///x?a=b"]
)
def test_a_log_in_memory_is_none(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="the audit log in sqlite must be a file, without parameters"):
        AuditLog(text)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_may_change_under_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with contextlib.closing(AuditLog("sqlite:///audit.sqlite")) as log:
        log.append(build_entry())
        monkeypatch.chdir(tmp_path / "two")
        assert log.append(build_entry()).number == 2
    assert list((tmp_path / "two").iterdir()) == []
