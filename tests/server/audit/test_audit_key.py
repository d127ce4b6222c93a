"""The key of a log: where it is, who may read it, and what happens without it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit_examples import build_entry, find_flaw, write_log

from ironrule.errors import InputError
from ironrule.server.audit.key import AuditKey, create_key, find_default_key_file, open_key, read_key
from ironrule.server.audit.log import AuditLog
from ironrule.server.settings import ServerSettings


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder without a key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration"


def test_a_new_key_is_for_its_owner_alone_and_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    key = create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path) == key
    assert create_key(tmp_path / "other").id != key.id
    with pytest.raises(InputError, match="the key file already exists"):
        create_key(path)
    assert read_key(path) == key


def test_neither_the_key_nor_settings_show_a_secret(tmp_path: Path) -> None:
    key = create_key(tmp_path / "audit.key")
    assert key.secret.hex() not in repr(key) + str(key)
    assert str(key.secret) not in repr(key)
    assert "word" not in repr(ServerSettings(audit="postgresql://ann:word@host/db?password=word"))


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such modes")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602, 0o644])
def test_a_key_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "audit.key"
    create_key(path)
    path.chmod(mode)
    with pytest.raises(
        InputError, match=f"only its owner may read or write the audit key .*, got mode {mode:o}; run chmod"
    ):
        read_key(path)


@pytest.mark.parametrize("content", [b"", b"short", b"g" * 64, b"a" * 63, b"a" * 65, b"\xff" * 64, b"a" * 5000])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "audit.key"
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(InputError, match="must be 64 hexadecimal digits, got something else") as refusal:
        read_key(path)
    assert "gggg" not in str(refusal.value)


def test_a_key_has_32_bytes() -> None:
    with pytest.raises(InputError, match="an audit key must have 32 bytes, got 3"):
        AuditKey(b"abc")


def test_the_first_log_creates_the_key_in_the_configuration_folder(sqlite: str, configuration: Path) -> None:
    write_log(sqlite)
    path = configuration / "ironrule" / "audit.key"
    assert path == find_default_key_file()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert find_flaw(sqlite) is None


@pytest.mark.parametrize(
    ("platform", "parts"),
    [("linux", ".config"), ("darwin", "Library/Application Support"), ("win32", "AppData/Roaming")],
)
def test_the_configuration_folder_follows_the_platform(
    platform: str, parts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", platform)
    assert find_default_key_file() == tmp_path / parts / "ironrule" / "audit.key"


def test_a_user_without_a_home_is_told_to_name_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "home", fail)
    with pytest.raises(InputError, match="no home folder for the audit key; name its file with --audit-key"):
        find_default_key_file()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(
        InputError, match=r"cannot create the folder of the audit key .*; create one with: ironrule audit key"
    ):
        open_key(None, create=True)


def test_a_key_that_another_server_has_just_created_is_used(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = open_key(None, create=True)
    monkeypatch.setattr(Path, "exists", lambda _: False)  # as it was a moment ago
    assert open_key(None, create=True) == (key, configuration / "ironrule" / "audit.key")


@pytest.mark.parametrize("create", [True, False])
def test_a_log_without_its_key_is_refused_and_no_other_key_is_made(
    sqlite: str, configuration: Path, create: bool
) -> None:
    write_log(sqlite)
    path = configuration / "ironrule" / "audit.key"
    path.unlink()
    with pytest.raises(
        InputError, match=r"was written with the key [0-9a-f]{16}; audit key not found: .*; name its file with"
    ) as refusal:
        AuditLog(sqlite, create)
    assert refusal.value.code == "audit-key-missing"
    assert not path.exists()


def test_with_another_key_nothing_is_appended_and_the_log_does_not_verify(sqlite: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    mine, other = create_key(keys / "mine"), create_key(keys / "other")
    write_log(sqlite, key_file=keys / "mine")
    with contextlib.closing(AuditLog(sqlite, key_file=keys / "other")) as log:
        with pytest.raises(InputError, match=f"written with the key {mine.id} and needs it, got the key {other.id} in"):
            log.append(build_entry())
        assert log.verify().flaw == (
            f"record 1 was written with another key ({mine.id}) than the one given ({other.id})"
        )
    with contextlib.closing(AuditLog(sqlite, key_file=keys / "mine")) as log:
        assert (log.verify().flaw, log.verify().count) == (None, 4)


def test_records_name_the_key_and_do_not_contain_it(sqlite: str, configuration: Path) -> None:
    records = write_log(sqlite)
    key = read_key(configuration / "ironrule" / "audit.key")
    assert {record.key_id for record in records} == {key.id}
    assert key.secret not in Path(sqlite.removeprefix("sqlite:///")).read_bytes()
    assert key.secret.hex().encode() not in Path(sqlite.removeprefix("sqlite:///")).read_bytes()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("key_file", "the audit key must not be in the folder of the audit log"),
        ("heads", "the file of heads must not be in the folder of the audit log"),
    ],
)
def test_nothing_secret_is_kept_beside_the_database(sqlite: str, tmp_path: Path, name: str, message: str) -> None:
    convert: dict[str, Callable[[Path], Any]] = {"key_file": Path, "heads": str}
    create_key(tmp_path / "beside")
    with pytest.raises(InputError, match=message):
        AuditLog(sqlite, **{name: convert[name](tmp_path / "beside")})
