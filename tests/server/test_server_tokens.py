"""Tokens: what a file of them may say, what a role may do, and that a token which is taken away stops working."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from server_examples import DENIED, build_gated_model, open_client
from starlette.requests import Request

import ironrule.server.tokens as tokens_module
from ironrule.errors import InputError
from ironrule.server.auth import BrowserSessions
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerLimits, ServerSettings
from ironrule.server.tokens import AccessToken, TokenStore, compute_digest, parse_tokens, read_tokens_file

ANN, BOB, EVE = "Qm9yZWQgb2YgdG9rZW5z", "V2h5IG5vdCBhbm90aGVy", "ZXZlIG1heSBjaGVjaw=="


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def write_tokens(path: Path, text: str, mode: int = 0o600) -> Path:
    """Replace the file as a whole, as an operator should."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.chmod(mode)
    return new.replace(path)


def test_comments_roles_and_last_days_are_read() -> None:
    text = f"\ufeff# who may ask\n\n  # {EVE}\nann {ANN}\nbob\t{BOB} read expires=2027-01-31\neve {EVE} check\n"
    found = parse_tokens(text.removeprefix("\ufeff"))
    assert [(token.name, token.role) for token in found] == [("ann", "ask"), ("bob", "read"), ("eve", "check")]
    assert found[1].last_day == datetime.date(2027, 1, 31)
    assert ANN not in repr(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the tokens file must have a token, got none"),
        ("\n# ann comes later\n", "the tokens file must have a token, got none"),
        ("a-token-without-a-name", "line 1 of the tokens file: a line must be 'name token'"),
        (f"# x\nann {ANN[:15]}", "line 2 of the tokens file: a token must have at least 16 characters, got 15"),
        ("ann aaaaaaaaaaaaaaaaaaaaaaaa", "must have at least 8 different characters, got 1"),
        ("ann Qm9yZWQgb2YgdG9rZW5é", "must consist of ASCII letters, digits and signs"),
        (f"ann {ANN}\nbob {ANN}", "every token must be different, got the same for 'ann' and 'bob'"),
        (f"ann {ANN} king", "got another word 3; the roles are check, read, ask"),
        (f"ann {ANN} read ask", "got another word 4"),
        (f"ann {ANN} expires=2027-01-31 read", "got another word 3"),
        (f"ann {ANN} expires=31.1.2027", "must be written as expires=2027-01-31, got '31.1.2027'"),
        (f"ann {ANN} expires=2027-02-30", "must be written as expires=2027-01-31"),
        (f"local {ANN}", "the name of a token must not be 'local'"),
        (f"a\x1b[2J {ANN}", "must have 1 to 64 printable characters"),
        (f"{'n' * 65} {ANN}", "must have 1 to 64 printable characters"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_no_secret_is_shown(tmp_path: Path, text: str, message: str) -> None:
    path = write_tokens(tmp_path / "tokens", text)
    with pytest.raises(InputError) as refused:
        ServerSettings(tokens_file=path)
    assert message in str(refused.value)
    assert ANN not in str(refused.value)
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o660])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = write_tokens(tmp_path / "the tokens", f"ann {ANN}\n", mode)
    with pytest.raises(InputError) as refused:
        read_tokens_file(path)
    assert refused.value.got == f"mode {mode:04o}"
    assert f"run chmod 600 '{path}'" in (refused.value.hint or "")
    path.chmod(0o400)
    assert read_tokens_file(path)[0].name == "ann"


def test_what_is_no_file_of_text_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "bytes").write_bytes(b"ann \xff\xfe")
    for name in ("pipe", "bytes", "nothing"):
        with pytest.raises(InputError, match="tokens file"):
            read_tokens_file(tmp_path / name)


def test_one_secret_in_the_file_and_on_the_command_line_is_refused(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "tokens", f"ann {ANN}\n")
    with pytest.raises(InputError, match="every token must be different, got the same for 'token' and 'ann'"):
        ServerSettings(tokens={ANN: "token"}, tokens_file=path)


def test_a_token_works_until_the_end_of_its_last_day(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "tokens", f"ann {ANN} expires=2027-01-31\nbob {BOB}\n")
    day = [datetime.date(2027, 1, 31)]
    store = TokenStore({}, path, lambda: day[0])
    assert [token.name for token in store.list_tokens()] == ["ann", "bob"]
    day[0] = datetime.date(2027, 2, 1)
    assert [token.name for token in store.list_tokens()] == ["bob"]
    assert store.find(compute_digest(ANN)) is None


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, reads = write_tokens(tmp_path / "tokens", f"ann {ANN}\n"), list[Path]()
    whole = tokens_module.read_private_file
    monkeypatch.setattr(tokens_module, "RECENT_NANOSECONDS", 0)
    monkeypatch.setattr(tokens_module, "read_private_file", lambda path: reads.append(path) or whole(path))  # type: ignore[func-returns-value]
    store = TokenStore({}, path)
    for _ in range(5):
        assert store.find(compute_digest(ANN)) is not None
    assert len(reads) == 2  # once at the start, once to know its state
    write_tokens(path, f"bob {ANN}\n")
    found = store.find(compute_digest(ANN))
    assert found is not None
    assert (found.name, len(reads)) == ("bob", 3)


@pytest.mark.parametrize(
    ("text", "mode", "working"),
    [
        (f"bob {BOB}\n", 0o600, {"bob"}),
        (f"bob {BOB}\neve {EVE}\n", 0o600, {"bob", "eve"}),
        (f"bob {BOB}\neve {EVE} king\n", 0o600, {"bob"}),
        (f"bob {BOB}\neve {EVE}\n", 0o644, {"bob"}),
        (f"# ann {ANN}\n# bob {BOB}x\n", 0o600, {"ann"}),
        ("", 0o600, set()),
        (None, 0o600, set()),
    ],
    ids=["removed", "added", "faulty line", "others may read", "all are comments", "empty", "gone"],
)
def test_a_changed_file_counts_at_once_and_a_faulty_one_adds_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | None, mode: int, working: set[str]
) -> None:
    path = write_tokens(tmp_path / "tokens", f"ann {ANN}\nbob {BOB}\n")
    store = TokenStore({}, path)
    assert {token.name for token in store.list_tokens()} == {"ann", "bob"}
    if text is None:
        path.unlink()
    else:
        write_tokens(path, text, mode)
    for _ in range(3):
        assert {token.name for token in store.list_tokens()} == working
    assert store.is_required
    faulty = text is None or mode != 0o600 or "king" in text or not text.startswith("bob")
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == faulty
    assert ANN not in caplog.text
    write_tokens(path, f"ann {ANN}\nbob {BOB}\n")
    assert {token.name for token in store.list_tokens()} == {"ann", "bob"}


@contextlib.contextmanager
def open_with_file(served_model: ServedModel, folder: Path, text: str) -> Iterator[tuple[httpx.Client, Path]]:
    path = write_tokens(folder / "tokens", text)
    with open_client(served_model, folder, tokens_file=path) as client:
        yield client, path


def test_a_token_is_revoked_and_another_added_without_a_restart(german: ServedModel, tmp_path: Path) -> None:
    with open_with_file(german, tmp_path, f"ann {ANN}\nbob {BOB}\n") as (client, path):
        assert client.get("/api/model", headers=bearer(EVE)).status_code == 401
        client.post("/login", data={"token": BOB})
        assert client.get("/applicants").status_code == 200  # by the session
        write_tokens(path, f"ann {ANN}\neve {EVE}\n")
        assert client.get("/api/model", headers=bearer(BOB)).status_code == 401
        assert client.get("/applicants").headers["location"] == "/login"
        assert client.get("/api/model", headers=bearer(ANN)).status_code == 200
        assert client.get("/api/model", headers=bearer(EVE)).status_code == 200


def test_the_event_stream_of_a_revoked_token_ends(tmp_path: Path) -> None:
    gate, served_model = build_gated_model()
    with open_with_file(served_model, tmp_path, f"ann {ANN}\nbob {BOB}\n") as (client, path):
        listed = client.get("/api/applicants?outcome=undesired", headers=bearer(BOB)).json()["applicants"]
        gate.open.clear()
        try:
            started = client.post("/api/jobs/explain", json={"row": listed[0]["row"]}, headers=bearer(BOB)).json()
            with client.stream("GET", f"/api/jobs/{started['job']}/events", headers=bearer(BOB)) as stream:
                lines = stream.iter_lines()
                assert next(lines) == "event: progress"
                write_tokens(path, f"ann {ANN}\n")
                assert "event: end" not in list(lines)  # it ends although the job has not
        finally:
            gate.open.set()


MAY: dict[str, tuple[tuple[str, str], ...]] = {
    "check": (("GET", "/check"), ("POST", "/api/check"), ("GET", "/api/openapi.json")),
    "read": (
        ("GET", "/explanations"),
        ("GET", "/log"),
        ("GET", "/log.json"),
        ("GET", "/explanations/1"),
        ("GET", "/explanations/1.json"),
        ("GET", "/explanations/1/explanation.json"),
        ("GET", "/explanations/1/report.html"),
        ("GET", "/explanations/1/report.html?show=true"),
        ("GET", "/api/explanations/1"),
        ("GET", "/api/model"),
        ("GET", "/api"),
    ),
    "ask": (
        ("GET", "/applicants"),
        ("GET", "/applicants/new"),
        ("POST", "/applicants/new"),
        ("GET", "/overview"),
        ("GET", "/overview.json"),
        ("GET", "/batches"),
        ("POST", "/batches"),
        ("GET", "/batches/x"),
        ("POST", "/batches/x/cancel"),
        ("GET", "/batches/x/results.csv"),
        ("GET", "/batches/x/results.json"),
        ("GET", f"/applicants/{DENIED}"),
        ("GET", "/api/applicants"),
        ("POST", "/api/explain"),
        ("POST", "/api/jobs/explain"),
        ("POST", "/api/jobs/batch"),
        ("POST", "/api/ladder"),
        ("POST", "/api/jobs/ladder"),
        ("POST", "/api/counterfactuals"),
        ("POST", "/api/what-if"),
        ("POST", "/api/searches"),
        ("POST", f"/applicants/{DENIED}/explain"),
        ("POST", f"/applicants/{DENIED}/ladder"),
        ("GET", "/api/jobs/x"),
        ("DELETE", "/api/jobs/x"),
        ("GET", "/api/jobs/x/events"),
        ("POST", "/jobs/x/cancel"),
    ),
}


def test_every_role_may_do_what_it_is_for_and_no_more(german: ServedModel, tmp_path: Path) -> None:
    text = f"ann {ANN} ask\nbob {BOB} read\neve {EVE} check\n"
    with open_with_file(german, tmp_path, text) as (client, _):
        document = client.post("/api/explain", json={"row": DENIED}, headers=bearer(ANN)).json()["document"]
        bodies: dict[str, Any] = {"/api/check": {"explanation": document}}
        for place, (secret, role) in enumerate(((EVE, "check"), (BOB, "read"), (ANN, "ask"))):
            for level, (needed, requests) in enumerate(MAY.items()):
                for method, path in requests:
                    body = {"json": bodies.get(path, {})} if method == "POST" else {}
                    answer = client.request(method, path, headers=bearer(secret), **body)  # type: ignore[arg-type]
                    assert (answer.status_code == 403) == (level > place), (role, needed, method, path)
        refused = client.post("/api/explain", json={"row": 1}, headers=bearer(BOB)).json()["error"]
        assert refused["message"].startswith("the role 'ask' is required, got a token with the role 'read'; ")
        by_number = {"data": {"number": "1"}, "headers": {**bearer(EVE), "accept": "application/json"}}
        assert client.post("/check", **by_number).status_code == 403  # type: ignore[arg-type]
        assert client.post("/check", data={"number": "1"}, headers=bearer(BOB)).status_code == 200


def test_every_address_of_the_server_needs_a_role(german: ServedModel, tmp_path: Path) -> None:
    from ironrule.server.app import create_app
    from ironrule.server.auth import find_needed_role

    app = create_app(german, ServerSettings(audit=f"sqlite:///{tmp_path}/audit.sqlite"))
    app.state.service.close()
    lesser = {
        path
        for path, methods in app.openapi()["paths"].items()
        for method in methods
        if find_needed_role(method.upper(), path) != "ask"
    }
    assert lesser == {"/api/check", "/api/model", "/api/explanations/{number}"}


@pytest.mark.parametrize(
    ("secret", "home", "links"),
    [(ANN, "/applicants", 7), (BOB, "/explanations", 4), (EVE, "/check", 1)],
    ids=["ask", "read", "check"],
)
def test_pages_link_to_what_a_role_may_see(
    german: ServedModel, tmp_path: Path, secret: str, home: str, links: int
) -> None:
    text = f"ann {ANN} ask\nbob {BOB} read\neve {EVE} check\n"
    with open_with_file(german, tmp_path, text) as (client, _):
        assert client.post("/login", data={"token": secret}).headers["location"] == home
        assert client.get("/").headers["location"] == home
        page = client.get(home)
        assert page.status_code == 200
        navigation = page.text.split("<nav")[1].split("</nav>")[0]
        assert navigation.count("<a href=") == links


def find_user(sessions: BrowserSessions, name: str) -> str | None:
    cookie = [(b"cookie", f"ironrule-session={name}".encode())]
    found = sessions.authenticate(Request({"type": "http", "method": "GET", "path": "/login", "headers": cookie}))
    return None if found is None else found.name


def test_a_session_ends_when_it_is_not_used_and_after_some_hours_in_any_case() -> None:
    now = [0.0]
    limits = ServerLimits(session_idle_seconds=100, session_seconds=250)
    sessions = BrowserSessions(ServerSettings(tokens={ANN: "ann"}, limits=limits), lambda: now[0])
    names = [opened[0] for _ in range(2) if (opened := sessions.open_session(ANN, "10.0.0.1"))]
    for moment, used in ((90.0, True), (110.0, False), (190.0, True), (250.0, True), (251.0, False)):
        now[0] = moment
        if moment == 110.0:  # the second was never used
            assert find_user(sessions, names[1]) is None
        else:
            assert (find_user(sessions, names[0]) == "ann") == used


def test_a_weak_token_is_refused_wherever_it_comes_from() -> None:
    for secret in ("short", "aaaaaaaaaaaaaaaaaaaaaaaa", "with a space inside it"):
        with pytest.raises(InputError, match="a token must"):
            ServerSettings(tokens={secret: "ann"})
    with pytest.raises(InputError, match="the name of a token"):
        AccessToken("", ANN)
