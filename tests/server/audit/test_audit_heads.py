"""Heads in a second place: written with every record, and compared with the log."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
from audit_examples import build_entry, execute_without_triggers, find_flaw, get_path, write_log

from ironrule.errors import AuditError, InputError
from ironrule.server.audit import heads as heads_module
from ironrule.server.audit.heads import format_head, read_heads
from ironrule.server.audit.log import AuditLog


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file in another folder than the log's."""
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere" / "heads.txt"


def test_the_head_of_every_record_is_written(url: str, kept: Path) -> None:
    records = write_log(url, heads=str(kept))
    assert kept.read_text() == "".join(f"{one.number} {one.recorded_at} {one.hash}\n" for one in records)
    with contextlib.closing(AuditLog(url)) as log:
        found = log.verify(heads=[kept])
    assert (found.flaw, found.heads, list(found.without_head)) == (None, 4, [])


def test_a_log_that_was_cut_off_is_found_and_takes_no_record(url: str, kept: Path) -> None:
    write_log(url, heads=str(kept))
    execute_without_triggers(url, "DELETE FROM ironrule_audit WHERE number >= 3")
    assert find_flaw(url) is None
    assert find_flaw(url, heads=[kept]) == f"record 3 is gone: its head is line 3 of {str(kept)!r}, and the log has 2"
    with (
        contextlib.closing(AuditLog(url, heads=str(kept))) as log,
        pytest.raises(InputError, match="is broken: record 3 is gone"),
    ):
        log.append(build_entry())
    assert len(kept.read_text().splitlines()) == 4


def test_another_log_does_not_agree_with_the_heads(sqlite: str, kept: Path, tmp_path: Path) -> None:
    write_log(sqlite, heads=str(kept))
    other = f"sqlite:///{tmp_path}/other.sqlite"
    write_log(other, 5)
    assert find_flaw(other, heads=[kept]) == f"record 1 was rewritten: line 1 of {str(kept)!r} has another hash"


def test_heads_that_begin_later_begin_with_the_end_of_the_log(url: str, kept: Path) -> None:
    first = write_log(url, 3)
    second = write_log(url, 2, heads=str(kept))
    assert kept.read_text().splitlines() == [format_head(one) for one in (first[-1], *second)]
    assert find_flaw(url, heads=[kept]) is None


def test_records_without_a_head_are_listed(url: str, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(url, 2, heads=str(kept))
    write_log(url, 2)
    write_log(url, 1, heads=str(kept))
    with contextlib.closing(AuditLog(url)) as log:
        found = log.verify(heads=[kept])
        monkeypatch.setattr("ironrule.server.audit.log.MAX_LISTED", 1)
        fewer = log.verify(heads=[kept])
    assert (found.flaw, found.heads, list(found.without_head), found.without_head_count) == (None, 3, [3, 4], 2)
    assert (list(fewer.without_head), fewer.without_head_count) == ([3], 2)


def test_heads_of_several_servers_are_compared_together(url: str, kept: Path) -> None:
    others = kept.with_name("others")
    for path in (kept, others, kept):
        write_log(url, 2, heads=str(path))
    assert others.read_text().startswith("2 ")  # the end that it found
    with contextlib.closing(AuditLog(url)) as log:
        found = log.verify(heads=[kept, others])
    assert (found.flaw, found.heads, list(found.without_head)) == (None, 7, [])


def test_a_line_that_was_cut_off_is_passed_over(sqlite: str, kept: Path) -> None:
    write_log(sqlite, 2, heads=str(kept))
    kept.write_bytes(kept.read_bytes()[:-30])
    write_log(sqlite, 1, heads=str(kept))
    assert [head.number for head in read_heads(kept)] == [1, 3]
    assert find_flaw(sqlite, heads=[kept]) is None
    kept.write_text("1 2026")
    write_log(sqlite, 1, heads=str(kept))
    assert [head.number for head in read_heads(kept)] == [3, 4]


def test_lines_of_a_system_log_are_understood(tmp_path: Path) -> None:
    head = f"7 2026-11-18T10:00:00.000000+00:00 {'ab' * 32}"
    path = tmp_path / "auth.log"
    lines = ["Nov 18 10:00:00 host sshd[1]: hello", f"Nov 18 10:00:01 host ironrule audit head {head}", "x" * 30_000]
    path.write_bytes("\n".join([*lines, head, f"forged {head}", "\x1b"]).encode() + b"\xff\n")
    assert [(one.number, one.place[:6]) for one in read_heads(path)] == [(7, "line 2"), (7, "line 4")]


def test_a_file_without_heads_is_refused(sqlite: str, kept: Path) -> None:
    write_log(sqlite)
    kept.write_text("nothing of the kind\n")
    with contextlib.closing(AuditLog(sqlite)) as log:
        with pytest.raises(InputError, match="must have lines such as 'NUMBER TIME HASH', got none"):
            log.verify(heads=[kept])
        with pytest.raises(InputError, match="file of heads not found"):
            log.verify(heads=[kept.with_name("no-such-file")])
    with (
        contextlib.closing(AuditLog(sqlite, heads=str(kept))) as log,
        pytest.raises(InputError, match="must have lines such as"),
    ):
        log.append(build_entry())
    assert kept.read_text() == "nothing of the kind\n"


def test_heads_that_were_removed_under_the_server_stop_it(sqlite: str, kept: Path) -> None:
    with contextlib.closing(AuditLog(sqlite, heads=str(kept))) as log:
        log.append(build_entry())
        kept.unlink()
        with pytest.raises(AuditError, match="the file of heads of the audit log was removed or replaced"):
            log.append(build_entry())
        assert log.get_last_number() == 1


def test_an_answer_whose_head_cannot_be_written_is_not_given(
    sqlite: str, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with contextlib.closing(AuditLog(sqlite, heads=str(kept))) as log:
        log.append(build_entry())
        with monkeypatch.context() as patch:
            patch.setattr(heads_module.os, "fsync", fail)
            with pytest.raises(
                AuditError, match=r"cannot write a head of the audit log to .*: No space left on device"
            ):
                log.append(build_entry())
        log.append(build_entry())
        assert log.verify(heads=[kept]).flaw is None


def test_a_folder_that_does_not_exist_is_named(sqlite: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write heads of the audit log to .*: No such file or directory"):
        AuditLog(sqlite, heads=str(tmp_path / "none" / "heads"))


def test_heads_go_to_the_local_system_log(sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "log"
    monkeypatch.setattr(heads_module, "LOCAL_SYSLOG", dict.fromkeys(("linux", "darwin"), str(place)))
    with pytest.raises(InputError, match="cannot reach the system log 'syslog:': No such file or directory"):
        AuditLog(sqlite, heads="syslog:")
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as daemon:
        daemon.bind(str(place))
        log = AuditLog(sqlite, heads="syslog:")
        record = log.append(build_entry())
        assert daemon.recv(1000).decode() == f"<38>ironrule audit head {format_head(record)}"
    with pytest.raises(AuditError, match="cannot write a head of the audit log to 'syslog:'"):
        log.append(build_entry())
    place.unlink()
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as daemon:  # restarted
        daemon.bind(str(place))
        record = log.append(build_entry())
        assert daemon.recv(1000).decode().endswith(format_head(record))
    log.close()


def test_heads_go_to_another_machine(sqlite: str) -> None:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as daemon:
        daemon.bind(("127.0.0.1", 0))
        with contextlib.closing(AuditLog(sqlite, heads=f"syslog:127.0.0.1:{daemon.getsockname()[1]}")) as log:
            record = log.append(build_entry())
        assert daemon.recv(1000).decode() == f"<38>ironrule audit head {format_head(record)}"


@pytest.mark.parametrize("target", ["syslog:host", "syslog:host:", "syslog:host:0", "syslog:host:99999", "syslog::514"])
def test_a_system_log_must_have_a_host_and_a_port(sqlite: str, target: str) -> None:
    with pytest.raises(InputError, match="the system log must be syslog: or syslog:host:port"):
        AuditLog(sqlite, heads=target)


def test_a_log_that_is_gone_while_heads_are_left_is_not_begun_anew(sqlite: str, kept: Path) -> None:
    write_log(sqlite, heads=str(kept))
    get_path(sqlite).unlink()
    with (
        contextlib.closing(AuditLog(sqlite, heads=str(kept))) as log,
        pytest.raises(InputError, match="record 1 is gone"),
    ):
        log.append(build_entry())
