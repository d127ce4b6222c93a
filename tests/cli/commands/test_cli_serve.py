"""ironrule serve and ironrule audit, as commands."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from loans import Files, Run

from ironrule.server.audit.record import AuditEntry
from processes import process
from waiting import PATIENCE

TOKEN = "a-secret-of-many-letters"


@pytest.mark.parametrize("title", ["", "  ", "x" * 81, "two\nlines", "\x1b[2J"])
def test_a_title_is_one_short_line(run: Callable[..., Run], title: str) -> None:
    refused = run("serve", "--title", title)
    assert refused.code == 2
    assert "--title must be one line of at most 80 characters" in refused.err


def test_ones_own_model_is_served_and_every_answer_is_in_the_log(
    files: Files, run: Callable[..., Run], tmp_path: Path
) -> None:
    ask = ["--model", files.model, "--data", files.data, "--target", "paid", "--desired", "yes"]
    with process(tmp_path, *ask, "--title", "Consumer loans") as (server, root):
        with httpx.Client(base_url=root, timeout=PATIENCE, trust_env=False) as client:
            said = client.post("/api/explain", json={"row": files.denied}).json()
            assert client.get("/api/model").json()["title"] == "Consumer loans"
            assert "· Consumer loans</title>" in client.get("/applicants").text
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=PATIENCE)
        assert (server.returncode, out, err) == (0, "Explanations given: 1.\n", "")
    url = f"sqlite:///{tmp_path}/ironrule-audit.sqlite"
    shown = run("audit", "show", "1", "--audit", url, "--output", str(tmp_path / "why.json"))
    assert shown.code == 0
    assert said["hash"] in shown.out
    check = ["--model", files.model, "--data", files.data, "--target", "paid"]
    assert run("check", str(tmp_path / "why.json"), *check).code == 0

    verified = run("audit", "verify", "--audit", url, "--json").json
    assert verified == {"intact": True, "records": 1, "head": said["hash"], "flaw": None}
    assert run("audit", "verify", "--audit", url, "--head", "0" * 64).code == 1
    for name in ("log.jsonl", "log.csv"):
        exported = run("audit", "export", "--audit", url, "--output", str(tmp_path / name))
        assert (exported.code, "1 record in" in exported.text) == (0, True)
    assert json.loads((tmp_path / "log.jsonl").read_text())["document"] == said["document"]
    assert (tmp_path / "log.csv").read_text().startswith("format,number,recorded_at,user_name")

    with sqlite3.connect(tmp_path / "ironrule-audit.sqlite") as log:
        log.execute("DROP TRIGGER ironrule_audit_update")
        log.execute("UPDATE ironrule_audit SET rule = 'another'")
    log.close()
    broken = run("audit", "verify", "--audit", url)
    assert broken.code == 1
    assert "The log is broken: record 1 was altered." in broken.text


def test_tokens_of_a_file_have_names(files: Files, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"ann {TOKEN}1\n\nbob {TOKEN}2\n")
    (tmp_path / "tokens").chmod(0o600)
    options = ["--model", files.model, "--data", files.data, "--target", "paid", "--desired", "yes"]
    with process(tmp_path, *options, "--tokens", "tokens", "--host", "0.0.0.0") as (_, root):
        root = root.replace("0.0.0.0", "127.0.0.1")
        bearer = {"authorization": f"Bearer {TOKEN}2"}
        with httpx.Client(base_url=root, timeout=PATIENCE, trust_env=False) as client:
            assert client.get("/api/model").status_code == 401
            number = client.post("/api/explain", json={"row": files.denied}, headers=bearer).json()["number"]
            assert client.get(f"/explanations/{number}.json", headers=bearer).json()["record"]["user_name"] == "bob"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "must have a token, got host '0.0.0.0' without one; set IRONRULE_TOKEN"),
        (["--token", "short"], "at least 16 characters, got 5"),
        (["--token", ""], "--token must be a token, got an empty text; leave out --token"),
        (["--token", " "], "--token must be a token, got an empty text"),
        (["--tokens", "empty"], "the tokens file must have a token, got none"),
        (["--tokens", "comments"], "the tokens file must have a token, got none"),
        (["--tokens", "open"], "only its owner may read or write the tokens file, got mode 0644; run chmod 600 open"),
        (["--tokens", "good", "--batch-seconds", "0"], "the limit batch_seconds must be positive, got 0.0"),
        (["--idle-minutes", "0"], "the limit session_idle_seconds must be positive, got 0.0"),
        (["--session-hours", "-1"], "the limit session_seconds must be positive, got -3600.0"),
        (["--port", "123456"], "the port must be from 0 to 65535, got 123456"),
        (["--seconds", "0"], "the limit seconds must be positive, got 0.0"),
        (["--workers", "0"], "the limit workers must be positive, got 0"),
        (["--model", "model.skops"], "--model and --data must be given together, got --model alone"),
        (["--tokens", "no-such-file"], "tokens file not found: 'no-such-file'"),
        (["--audit", "nonsense"], "the audit log must be a URL"),
        (["--audit", "sqlite:////no/such/folder/log"], "the folder of the audit log does not exist: '/no/such/folder'"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_is(
    refused: Callable[..., str], options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"empty": "", "comments": f"# ann {TOKEN}\n", "open": f"ann {TOKEN}\n", "good": f"ann {TOKEN}\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644 if name == "open" else 0o600)
    assert message in refused("serve", "--port", "0", *options)


def test_an_empty_variable_is_no_server_without_tokens(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IRONRULE_TOKEN", "")
    assert "IRONRULE_TOKEN must be a token, got an empty text; leave out IRONRULE_TOKEN" in refused("serve")


@pytest.mark.parametrize(
    ("command", "package"), [("serve", "fastapi"), ("serve", "python_multipart"), ("audit", "sqlalchemy")]
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(command: str, package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from ironrule.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = [command] if command == "serve" else [command, "verify"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    told = f"error: ironrule {command} needs {package}, which is not installed; run pip install 'ironrule[server]'\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_a_port_that_is_taken_is_refused(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot listen at 127.0.0.1:" in refused("serve", "--port", str(taken.getsockname()[1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify"], "audit log not found: 'ironrule-audit.sqlite'"),
        (["verify", "--audit", "mysql://there/log"], "must be in sqlite or postgresql, got 'mysql'"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_a_log_that_is_not_there_is_refused(
    refused: Callable[..., str], arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IRONRULE_AUDIT", raising=False)
    assert message in refused("audit", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_export_and_a_record_must_be_named(refused: Callable[..., str], tmp_path: Path) -> None:
    from ironrule.server.audit.log import AuditLog

    url = f"sqlite:///{tmp_path}/audit.sqlite"
    AuditLog(url).close()
    assert "audit export needs a file to write to; add --output" in refused("audit", "export", "--audit", url)
    assert "audit show needs the number of a record" in refused("audit", "show", "--audit", url)
    assert "not found: record 3; the log has 0 records" in refused("audit", "show", "3", "--audit", url)
    assert "must end in .jsonl or .csv" in refused(
        "audit", "export", "--audit", url, "--output", str(tmp_path / "x.txt")
    )


def test_a_server_writes_heads_with_a_key_of_its_own(run: Callable[..., Run], tmp_path: Path) -> None:
    for name in ("served", "keys", "other"):
        (tmp_path / name).mkdir()
    key, heads = tmp_path / "keys" / "audit.key", tmp_path / "other" / "heads.txt"
    made = run("audit", "key", "--output", str(key), "--json").json
    assert made["file"] == str(key)
    assert run("audit", "key", "--audit-key", str(key)).text == f"The key {made['key_id']} is in {key}."
    with process(tmp_path / "served", "--audit-key", str(key), "--audit-heads", str(heads)) as (_, root):
        ask = {"json": {"row": 1}, "timeout": 60, "trust_env": False}
        hashes = [httpx.post(f"{root}/api/explain", **ask).json()["hash"] for _ in range(2)]
    assert [line.split()[2] for line in heads.read_text().splitlines()] == hashes
    url = f"sqlite:///{tmp_path}/served/ironrule-audit.sqlite"
    verify = ["audit", "verify", "--audit", url, "--heads", str(heads)]
    assert run(*verify, "--audit-key", str(key), "--json").json == {
        "intact": True,
        "records": 2,
        "head": hashes[-1],
        "flaw": None,
        "heads": 2,
        "without_head": [],
        "without_head_count": 0,
    }
    whole = run(*verify, "--audit-key", str(key))
    assert whole.text == f"The chain is whole: 2 records. 2 heads agree with it. {hashes[-1]}"
    heads.write_text(heads.read_text().splitlines(keepends=True)[0])
    assert "1 record has no head, though earlier ones have: 2." in run(*verify, "--audit-key", str(key)).text
    heads.write_text(f"1 2026-11-18T10:00:00.000000+00:00 {'0' * 64}\n")
    broken = run(*verify, "--audit-key", str(key))
    assert (broken.code, "The log is broken: record 1 was rewritten: line 1 of" in broken.text) == (1, True)


def test_a_key_is_found_by_the_variable_and_must_be_the_one_of_the_log(
    run: Callable[..., Run], refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ironrule.server.audit.log import AuditLog

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    assert "audit key not found" in refused("audit", "key")
    (tmp_path / "keys").mkdir()
    for name in ("mine", "other"):
        assert run("audit", "key", "--output", str(tmp_path / "keys" / name)).code == 0
    assert "the key file already exists" in refused("audit", "key", "--output", str(tmp_path / "keys" / "mine"))
    url = f"sqlite:///{tmp_path}/audit.sqlite"
    assert run("audit", "create", "--audit", url).text == f"{url} now has an audit log."
    log = AuditLog(url, key_file=tmp_path / "keys" / "mine")
    log.append(build_entry())
    log.close()
    assert "was written with the key" in refused("audit", "verify", "--audit", url)
    monkeypatch.setenv("IRONRULE_AUDIT_KEY_FILE", str(tmp_path / "keys" / "mine"))
    assert run("audit", "verify", "--audit", url).code == 0
    monkeypatch.setenv("IRONRULE_AUDIT_KEY_FILE", str(tmp_path / "keys" / "other"))
    assert "record 1 was written with another key" in run("audit", "verify", "--audit", url).text
    assert "record 1 was written with another key" in refused("audit", "show", "1", "--audit", url)
    assert "was written with the key" in refused("serve", "--port", "0", "--audit", url)


def test_a_log_in_another_folder_does_not_start_a_server_once_it_is_broken(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    from ironrule.server.audit.log import AuditLog

    url = f"sqlite:///{tmp_path}/audit.sqlite"
    log = AuditLog(url)
    log.append(build_entry())
    log.close()
    with sqlite3.connect(tmp_path / "audit.sqlite") as owner:
        owner.execute("DROP TRIGGER ironrule_audit_insert")
    owner.close()
    told = refused("serve", "--port", "0", "--audit", url)
    assert "is broken: the trigger ironrule_audit_insert of the audit log is missing; see ironrule audit verify" in told


def build_entry() -> AuditEntry:
    return AuditEntry("ann", "explanation", 1, "s", "m", "rule", "proven", {})
