"""Whatever somebody without a token does, users are answered; and one user cannot take the places of the others."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from server_examples import DENIED, build_gated_model, open_client, open_connection

import ironrule.server.app as server_app
from ironrule.server.admission import LoginAttempts
from ironrule.server.errors import ApiError
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerLimits

ANN, BOB = "Qm9yZWQgb2YgdG9rZW5z", "V2h5IG5vdCBhbm90aGVy"
TOKENS = {ANN: "ann", BOB: "bob"}
FORM = "Content-Type: application/x-www-form-urlencoded"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@contextlib.contextmanager
def hold_connections(client: httpx.Client, count: int, request: str) -> Iterator[list[socket.socket]]:
    """Many connections that have sent the same bytes and go on waiting."""
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(open_connection(client)) for _ in range(count)]
        for line in lines:
            line.sendall(request.replace("\n", "\r\n").encode())
        yield lines


@pytest.mark.parametrize(
    "request_text",
    [
        f"POST /login HTTP/1.1\nHost: localhost\n{FORM}\nContent-Length: 50\n\nt",
        "GET /static/ironrule.css HTTP/1.1\nHost: localhost\nContent-Length: 50\n\nx",
        "GET /login HTTP/1.1\nHost: localhost\nContent-Length: 50\n\nx",
        "POST /static/ironrule.css HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n1",
        "POST /api/explain HTTP/1.1\nHost: localhost\nContent-Length: 50\n\n{",
        "GET /applicants HTTP/1.1\nHost: lo",
    ],
    ids=["login", "static", "login page", "chunks", "API", "half a head"],
)
def test_many_who_have_no_token_and_send_a_byte_lock_nobody_out(
    german: ServedModel, tmp_path: Path, request_text: str
) -> None:
    with open_client(german, tmp_path, tokens=TOKENS) as client, hold_connections(client, 210, request_text):
        for _ in range(3):
            assert client.get("/api/model", headers=bearer(ANN)).status_code == 200
        assert client.post("/api/explain", json={"row": DENIED}, headers=bearer(BOB)).status_code == 200
        assert client.post("/login", data={"token": ANN}).status_code == 303
        assert client.get("/applicants").status_code == 200  # by the session


def test_many_event_streams_of_one_user_leave_places_for_others(tmp_path: Path) -> None:
    gate, served_model = build_gated_model()
    with open_client(served_model, tmp_path, tokens=TOKENS) as client:
        listed = client.get("/api/applicants?outcome=undesired", headers=bearer(ANN)).json()["applicants"]
        gate.open.clear()
        try:
            started = client.post("/api/jobs/explain", json={"row": listed[0]["row"]}, headers=bearer(ANN)).json()
            head = f"GET /api/jobs/{started['job']}/events HTTP/1.1\nHost: localhost\nAuthorization: Bearer {ANN}\n\n"
            with hold_connections(client, 205, head) as lines:
                told = [line.recv(12) for line in lines]
                assert told.count(b"HTTP/1.1 200") == ServerLimits().streams_per_user
                assert told.count(b"HTTP/1.1 429") == 205 - ServerLimits().streams_per_user
                assert client.get("/api/model", headers=bearer(BOB)).status_code == 200
                assert client.get("/api/model", headers=bearer(ANN)).status_code == 200
        finally:
            gate.open.set()


def test_slow_requests_of_one_user_leave_places_for_others(german: ServedModel, tmp_path: Path) -> None:
    head = f"POST /api/explain HTTP/1.1\nHost: localhost\nAuthorization: Bearer {ANN}\nContent-Length: 50\n\n{{"
    with open_client(german, tmp_path, tokens=TOKENS) as client, hold_connections(client, 210, head) as lines:
        assert lines[-1].recv(12) == b"HTTP/1.1 429"
        assert client.get("/api/model", headers=bearer(BOB)).status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("path", ["/static/ironrule.css", "/login", "/api/model", "/applicants"])
def test_a_body_that_nothing_reads_is_refused_before_it_comes(
    german: ServedModel, tmp_path: Path, method: str, path: str
) -> None:
    head = f"{method} {path} HTTP/1.1\nHost: localhost\nAuthorization: Bearer {ANN}\nContent-Length: 9\n\n"
    limits = ServerLimits(body_seconds=600, guest_body_seconds=600)  # nothing is said because time is up
    with open_client(german, tmp_path, limits, tokens=TOKENS) as client, hold_connections(client, 1, head) as (line,):
        assert line.recv(12) == b"HTTP/1.1 400"


def test_who_has_no_token_hears_so_before_a_body_is_awaited(german: ServedModel, tmp_path: Path) -> None:
    head = "POST /api/explain HTTP/1.1\nHost: localhost\nContent-Length: 5000000\n\n"
    with open_client(german, tmp_path, tokens=TOKENS) as client, hold_connections(client, 1, head) as (line,):
        assert line.recv(12) == b"HTTP/1.1 401"


def test_a_body_that_goes_on_after_the_answer_ends_the_connection(
    german: ServedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_app, "UNREAD_SECONDS", 0.2)
    head = "POST /api/explain HTTP/1.1\nHost: localhost\nContent-Length: 5000000\n\n"
    with open_client(german, tmp_path, tokens=TOKENS) as client, hold_connections(client, 1, head) as (line,):
        assert line.recv(12) == b"HTTP/1.1 401"
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            line.sendall(b"x" * 100)
            while line.recv(4096):  # until the connection ends
                pass


def test_a_body_that_comes_whole_after_the_answer_leaves_the_connection_open(
    german: ServedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, made = server_app.build_timeout_protocol, list[Any]()

    def build_recorded(*arguments: Any) -> Any:
        class RecordedProtocol(build(*arguments)):  # type: ignore[misc]
            def connection_made(self, transport: Any) -> None:
                made.append(self)
                super().connection_made(transport)

        return RecordedProtocol

    monkeypatch.setattr(server_app, "build_timeout_protocol", build_recorded)
    monkeypatch.setattr(server_app, "UNREAD_SECONDS", 600.0)
    head = "POST /api/explain HTTP/1.1\nHost: localhost\nContent-Length: 2\n\n"
    with open_client(german, tmp_path, tokens=TOKENS) as client, hold_connections(client, 1, head) as (line,):
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 401")
        line.sendall(b"{}GET /static/mark.svg HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while b"HTTP/1.1 200" not in answer or not answer.endswith(b"</svg>\n"):
            answer += line.recv(1 << 16)
        (protocol,) = made
        assert "unread" not in protocol._timers  # which would close the connection during a later request


def test_a_guest_may_send_little_and_has_little_time(german: ServedModel, tmp_path: Path) -> None:
    slow = f"POST /login HTTP/1.1\nHost: localhost\n{FORM}\nContent-Length: 50\n\nt"
    with open_client(german, tmp_path, ServerLimits(guest_body_seconds=0.2), tokens=TOKENS) as client:
        assert client.post("/login", data={"token": "x" * 5000}).status_code == 413
        with hold_connections(client, 1, slow) as (line,):
            assert line.recv(12) == b"HTTP/1.1 400"
        assert (
            client.post("/api/check", json={"explanation": {"a": "x" * 5000}}, headers=bearer(ANN)).status_code == 422
        )


def test_of_many_who_log_in_slowly_the_first_is_given_up(german: ServedModel, tmp_path: Path) -> None:
    slow = f"POST /login HTTP/1.1\nHost: localhost\n{FORM}\nContent-Length: 50\n\nt"
    limits = ServerLimits(guest_bodies=2, guest_body_seconds=600)
    with open_client(german, tmp_path, limits, tokens=TOKENS) as client, hold_connections(client, 3, slow) as lines:
        first, _, _ = select.select(lines, [], [], 60)
        assert [line.recv(12) for line in first] == [b"HTTP/1.1 429"]
        assert client.post("/login", data={"token": ANN}).status_code == 303


def test_beyond_the_limit_the_connection_that_waited_longest_is_closed(german: ServedModel, tmp_path: Path) -> None:
    limits = ServerLimits(waiting_connections=3, head_seconds=600)
    with open_client(german, tmp_path, limits) as client, hold_connections(client, 5, "GET /") as lines:
        for line in lines[:2]:
            with contextlib.suppress(ConnectionResetError):  # which is an end too
                assert line.recv(1) == b""
        assert client.get("/api/model").status_code == 200


def test_unknown_tokens_are_counted_logged_and_refused_after_some(
    german: ServedModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ironrule.server.login")
    with open_client(german, tmp_path, ServerLimits(login_failures=3), tokens=TOKENS) as client:
        tried = [client.post("/login", data={"token": f"a-secret-guess-{place}"}) for place in range(4)]
        assert [answer.status_code for answer in tried] == [401, 401, 401, 429]
        assert 1 <= int(tried[-1].headers["retry-after"]) <= 60
        assert client.post("/login", data={"token": ANN}).status_code == 429
        assert client.get("/api/model", headers=bearer("a-secret-guess-by-API")).status_code == 429
        assert client.get("/api/model", headers=bearer(ANN)).status_code == 200  # nobody locks out who has a token
    told = [record.getMessage() for record in caplog.records if record.name == "ironrule.server.login"]
    assert told == [
        "an unknown token was tried from 127.0.0.1",
        "an unknown token was tried from 127.0.0.1",
        "an unknown token was tried from 127.0.0.1; further attempts are refused for a while",
    ]


def test_a_login_is_logged_without_the_token(
    german: ServedModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ironrule.server.login")
    with open_client(german, tmp_path, tokens=TOKENS) as client:
        client.post("/login", data={"token": ANN})
    assert "login of ann from 127.0.0.1" in caplog.text
    assert ANN not in caplog.text


def test_attempts_are_counted_by_address_and_together_and_forgotten_after_a_minute() -> None:
    now = [0.0]
    attempts = LoginAttempts(most_of_one=2, most=5, clock=lambda: now[0])
    assert not attempts.record_failure("10.0.0.1")
    attempts.check("10.0.0.1")
    assert attempts.record_failure("10.0.0.1")
    attempts.check("10.0.0.2")
    now[0] = 59.5
    with pytest.raises(ApiError) as refused:
        attempts.check("10.0.0.1")
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "1")
    now[0] = 60.0
    attempts.check("10.0.0.1")
    for place in range(5):
        attempts.record_failure(f"10.0.1.{place}")
    with pytest.raises(ApiError):
        attempts.check("10.0.0.9")


def test_all_addresses_of_one_network_count_as_one() -> None:
    attempts = LoginAttempts(most_of_one=2, most=100, clock=lambda: 0.0)
    attempts.record_failure("2001:db8::1")
    attempts.record_failure("2001:db8::2")
    attempts.check("2001:db8:1::1")
    with pytest.raises(ApiError):
        attempts.check("2001:db8::3")
