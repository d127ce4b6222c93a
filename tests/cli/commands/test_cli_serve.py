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

from processes import process

TOKEN = "a-secret-of-many-letters"


def test_ones_own_model_is_served_and_every_answer_is_in_the_log(
    files: Files, run: Callable[..., Run], tmp_path: Path
) -> None:
    ask = ["--model", files.model, "--data", files.data, "--target", "paid", "--desired", "yes"]
    with process(tmp_path, *ask) as (server, root):
        with httpx.Client(base_url=root, timeout=60, trust_env=False) as client:
            said = client.post("/api/explain", json={"row": files.denied}).json()
            assert client.get("/api/model").json()["title"] == "model.skops on loans.csv"
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=30)
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
        log.execute("DROP TRIGGER ironrule_audit_UPDATE")
        log.execute("UPDATE ironrule_audit SET rule = 'another'")
    log.close()
    broken = run("audit", "verify", "--audit", url)
    assert broken.code == 1
    assert "The chain is broken: record 1 was altered." in broken.text


def test_tokens_of_a_file_have_names(files: Files, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"ann {TOKEN}1\n\nbob {TOKEN}2\n")
    options = ["--model", files.model, "--data", files.data, "--target", "paid", "--desired", "yes"]
    with process(tmp_path, *options, "--tokens", "tokens", "--host", "0.0.0.0") as (_, root):
        root = root.replace("0.0.0.0", "127.0.0.1")
        bearer = {"authorization": f"Bearer {TOKEN}2"}
        with httpx.Client(base_url=root, timeout=60, trust_env=False) as client:
            assert client.get("/api/model").status_code == 401
            number = client.post("/api/explain", json={"row": files.denied}, headers=bearer).json()["number"]
            assert client.get(f"/explanations/{number}.json", headers=bearer).json()["record"]["user_name"] == "bob"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "must have a token, got host '0.0.0.0' without one; set IRONRULE_TOKEN"),
        (["--token", "short"], "at least 16 characters, got 5"),
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
    assert message in refused("serve", *options)


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
