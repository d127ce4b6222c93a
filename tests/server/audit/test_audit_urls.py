"""No password of an audit URL is ever shown."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from ironrule import IronruleError
from ironrule.cli import main
from ironrule.errors import InputError
from ironrule.server.audit.database import hide_secrets, parse_log_url, render_url
from ironrule.server.audit.log import AuditLog
from ironrule.server.settings import ServerSettings

SECRET = "s3cret-w0rd"
URLS = (
    f"postgresql://ann:{SECRET}@127.0.0.1:1/none",
    f"postgresql://ann@127.0.0.1:1/none?password={SECRET}",
    f"postgresql://127.0.0.1:1/none?user=ann&password={SECRET}",
    f"postgresql://ann@127.0.0.1:1/none?sslpassword={SECRET}&connect_timeout=1",
    f"postgresql://ann@127.0.0.1:1/none?passfile=/{SECRET}",
    f"postgresql://ann@127.0.0.1:1/none?options={SECRET}",
    f"postgresql://ann@127.0.0.1:1/none?nonsense={SECRET}",
    f"postgresql://ann@127.0.0.1:1/none?password={SECRET}&password={SECRET}",
    f"postgresql://ann:{SECRET}@127.0.0.1:1/none?sslmode=nonsense",
    f"postgresql://ann:{SECRET}@127.0.0.1:port/none",
    f"postgresql://ann:{SECRET}@[::1/none",
    f"postgresql://127.0.0.1:1/host=127.0.0.1 password={SECRET} port=1",
    f"postgresql+asyncpg://ann:{SECRET}@127.0.0.1:1/none",
    f"mysql://ann:{SECRET}@127.0.0.1/none",
    f"sqlite:///audit.sqlite?password={SECRET}",
    f"ann:{SECRET}@127.0.0.1/none",
)


@pytest.mark.parametrize("url", URLS)
def test_a_password_is_in_no_error_and_no_traceback(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IronruleError) as refusal:
        AuditLog(url)
    error = refusal.value
    messages = [str(error), repr(error), *traceback.format_exception_only(error), str(error.got), str(error.hint)]
    assert SECRET not in "".join(messages)
    assert error.__suppress_context__ or error.__context__ is None


@pytest.mark.parametrize("url", URLS)
def test_a_password_is_not_printed_by_a_command(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IRONRULE_DEBUG", "1")
    for command in (["audit", "verify"], ["audit", "create"], ["audit", "verify", "--json"]):
        assert main([*command, "--audit", url]) == 2
        told = capsys.readouterr()
        assert SECRET not in told.out + told.err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:w@host:5432/db", "postgresql://ann:***@host:5432/db"),
        ("postgresql://ann@/db?host=/tmp&password=w", "postgresql://ann@/db?host=/tmp&password=***"),
        ("postgresql://ann@host/db?sslmode=require", "postgresql://ann@host/db?sslmode=require"),
        ("postgresql://ann@host/db?sslkey=w&sslpassword=w", "postgresql://ann@host/db?sslkey=***&sslpassword=***"),
        ("postgresql://host/user=ann password=w", "postgresql://host/hidden"),
        ("sqlite:///audit.sqlite", "sqlite:///audit.sqlite"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    assert render_url(parse_log_url(url)) == shown


def test_texts_of_the_driver_lose_the_secrets() -> None:
    url = parse_log_url("postgresql://ann:one%20word@host/db?password=two&password=three&host=there&sslpassword=one")
    text = "one word, two, three, one and there"
    assert hide_secrets(text, url) == "***, ***, ***, *** and there"


def test_settings_do_not_show_the_address() -> None:
    assert SECRET not in "".join(repr(ServerSettings(audit=url)) for url in URLS)


def test_an_address_that_is_none_is_not_repeated() -> None:
    with pytest.raises(InputError, match="the audit log must be a URL such as"):
        AuditLog(SECRET)
