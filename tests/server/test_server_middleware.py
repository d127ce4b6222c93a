"""Safe by default: who may ask, from where, how much, and what browsers are told."""

from __future__ import annotations

import itertools
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from server_examples import DENIED, Gate, build_gated_model, open_client

from ironrule.errors import InputError
from ironrule.server.auth import check_host
from ironrule.server.errors import ApiError
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerLimits, ServerSettings, is_loopback
from waiting import PATIENCE, PAUSE, AdvancingLoop, receive_while_time_passes, wait_until

TOKEN = "a-secret-of-many-letters"
PAGES = ("/applicants", "/applicants/1", "/applicants/1/what-if", "/check", "/api", "/login", "/nothing", "/api/model",
         "/explanations", "/log", "/overview", "/batches", "/applicants/new")  # fmt: skip


def test_a_server_that_others_can_reach_needs_a_token() -> None:
    assert ServerSettings().host == "127.0.0.1"
    for host in ("0.0.0.0", "::", "example.org", "192.168.0.1"):
        with pytest.raises(InputError, match="must have a token, got host"):
            ServerSettings(host=host)
        assert ServerSettings(host=host, tokens={TOKEN: "ann"}).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.8.8"])
def test_this_machine_is_known_under_all_its_names(host: str) -> None:
    assert is_loopback(host)


def test_a_short_token_and_senseless_limits_are_refused() -> None:
    with pytest.raises(InputError, match="at least 16 characters, got 5"):
        ServerSettings(tokens={"short": "ann"})
    with pytest.raises(InputError, match="the limit workers must be positive, got 0"):
        ServerLimits(workers=0)
    with pytest.raises(InputError, match="the port must be from 0 to 65535, got 70000"):
        ServerSettings(port=70000)


def test_settings_never_show_a_token() -> None:
    assert TOKEN not in repr(ServerSettings(tokens={TOKEN: "ann"}))


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_tells_browsers_to_be_careful(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_script_or_a_style_inside_it_or_anything_from_elsewhere(client: httpx.Client, path: str) -> None:
    text = client.get(path).text
    assert "style=" not in text
    assert "<style" not in text
    assert "<script>" not in text
    assert "onclick" not in text
    assert "//" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8000", 200),
        ("[::1]:8000", 200),
        ("10.0.0.7", 200),
        ("evil.example", 400),
        ("evil.example:8000", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("", 400),
    ],
)
def test_a_foreign_name_that_points_here_gets_nothing(client: httpx.Client, host: str, status: int) -> None:
    assert client.get("/applicants", headers={"host": host}).status_code == status


def test_a_name_of_ones_own_can_be_allowed() -> None:
    check_host("loans.example:8000", ServerSettings(host_names=("Loans.example",)))
    with pytest.raises(ApiError):
        check_host("loans.example:8000", ServerSettings())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_what_another_site_sends_is_refused(client: httpx.Client, headers: dict[str, str], status: int) -> None:
    for path in ("/api/searches", "/api/what-if"):
        body = {"text": "own"} if path.endswith("searches") else {"row": 1}
        assert client.post(path, json=body, headers=headers).status_code == status
    ours = f"http://{client.base_url.host}:{client.base_url.port}"
    assert client.post("/api/searches", json={"text": "own"}, headers={"origin": ours}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_the_api_reads_json_alone(client: httpx.Client, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    answer = client.post("/api/searches", content=b'{"text": "own"}', headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "not-json")


def test_a_token_is_asked_for_and_names_who_asks(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path, tokens={TOKEN: "ann"}) as client:
        assert client.get("/api/model").status_code == 401
        assert client.get("/api/model").headers["www-authenticate"] == "Bearer"
        assert client.get("/applicants").headers["location"] == "/login"
        for wrong in ("Bearer nothing", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer é"):
            assert client.get("/api/model", headers={"authorization": wrong.encode()}).status_code == 401
        assert client.get("/api/model", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/static/ironrule.css").status_code == 200


def test_a_browser_enters_with_its_token_and_leaves_again(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path, tokens={TOKEN: "ann"}) as client:
        wrong = client.post("/login", data={"token": "nothing"})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        entered = client.post("/login", data={"token": TOKEN})
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert "Log out (ann)" in client.get("/applicants").text
        client.post("/logout")
        assert client.get("/applicants").status_code == 303


def test_too_much_at_once_is_refused(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path, ServerLimits(body_bytes=1000)) as client:
        headers = {"content-type": "application/json"}
        assert client.post("/api/check", content=b"x" * 1001, headers=headers).status_code == 413
        pieces = client.post("/api/check", content=iter([b"x" * 600, b"y" * 600]), headers=headers)
        assert (pieces.status_code, pieces.json()["error"]["code"]) == (413, "too-large")
        assert client.post("/api/searches", json={"text": "own"}).status_code == 200


def test_who_sends_too_slowly_is_refused(german: ServedModel, tmp_path: Path) -> None:
    loop, limits = AdvancingLoop(), ServerLimits(body_seconds=600, head_seconds=1e9)
    with open_client(german, tmp_path, limits, loop) as client:
        address = urlsplit(str(client.base_url))
        with socket.create_connection((address.hostname, address.port), timeout=PATIENCE) as line:
            line.sendall(b"POST /api/searches HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
            assert b"400 Bad Request" in receive_while_time_passes(line, loop, 601)


@pytest.mark.parametrize(
    ("begun", "earlier"),
    [(b"", 0), (b"GET /api/model HTTP/1.1\r\nHost: local", 0), (b"GET /api/model HTTP/1.1\r\nHost: local", 2)],
    ids=["nothing", "half a head", "half a head after others"],
)
def test_a_head_that_does_not_come_in_time_ends_the_connection(
    german: ServedModel, tmp_path: Path, begun: bytes, earlier: int
) -> None:
    loop = AdvancingLoop()
    with open_client(german, tmp_path, ServerLimits(head_seconds=600), loop) as client:
        address = urlsplit(str(client.base_url))
        with socket.create_connection((address.hostname, address.port), timeout=PATIENCE) as line:
            for _ in range(earlier):
                line.sendall(b"GET /static/mark.svg HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while not answer.endswith(b"</svg>\n"):
                    answer += line.recv(4096)
            line.sendall(begun)
            assert receive_while_time_passes(line, loop, 601) == b""


def test_letters_now_and_then_keep_no_connection(german: ServedModel, tmp_path: Path) -> None:
    loop, letters = AdvancingLoop(), itertools.cycle(b"GET /api/model HTTP/1.1 ")
    with open_client(german, tmp_path, ServerLimits(head_seconds=600), loop) as client:
        address = urlsplit(str(client.base_url))
        with socket.create_connection((address.hostname, address.port), timeout=PAUSE) as line:

            def send_letter() -> bool:
                """Whether the connection is closed, after another letter and 100 s."""
                try:
                    line.sendall(bytes([next(letters)]))
                    return line.recv(64) == b""
                except TimeoutError:
                    loop.advance(100)
                    return False
                except (ConnectionResetError, BrokenPipeError):
                    return True

            wait_until(send_letter, "the end of the connection")
        assert client.get("/api/model").status_code == 200


def test_a_search_that_takes_longer_than_a_head_may_is_answered(tmp_path: Path) -> None:
    gate, served_model = build_gated_model()
    loop, limits = AdvancingLoop(), ServerLimits(head_seconds=600, seconds=1e6, workers=1)
    with open_client(served_model, tmp_path, limits, loop) as client, ThreadPoolExecutor(1) as pool:
        row = client.get("/api/applicants?outcome=undesired").json()["applicants"][0]["row"]
        gate.asked.clear()
        gate.open.clear()
        try:
            answer = pool.submit(client.post, "/api/explain", json={"row": row})
            assert gate.asked.wait(PATIENCE)
            loop.advance(601)
        finally:
            gate.open.set()
        assert answer.result().status_code == 200


def test_no_more_requests_are_under_way_than_allowed(tmp_path: Path) -> None:
    gate, served_model = build_gated_model()
    with open_client(served_model, tmp_path, ServerLimits(concurrent_requests=1, workers=1)) as client:
        row = client.get("/api/applicants?outcome=undesired").json()["applicants"][0]["row"]
        assert _ask_while_held(gate, client, row).status_code == 429
        assert client.get("/api/model").status_code == 200


def _ask_while_held(gate: Gate, client: httpx.Client, row: int) -> Any:
    """What a second request gets while a first one is under way."""
    address = urlsplit(str(client.base_url))
    body = b'{"row": %d}' % row
    gate.asked.clear()
    gate.open.clear()
    try:
        with socket.create_connection((address.hostname, address.port), timeout=PATIENCE) as line:
            head = "POST /api/explain HTTP/1.1", "Host: localhost", "Content-Type: application/json"
            line.sendall("\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body)
            assert gate.asked.wait(PATIENCE)
            answer = client.get("/api/model")
            gate.open.set()
            assert line.recv(64).startswith(b"HTTP/1.1 200")
            return answer
    finally:
        gate.open.set()


def test_no_value_of_an_applicant_is_in_an_address_or_in_a_log(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    found = client.post("/applicants", data={"text": "radio/television", "outcome": "undesired"})
    assert "radio" not in found.headers["location"]
    page = client.get(found.headers["location"])
    assert "radio/television" in page.text
    client.post("/applicants/1/what-if", data={"f4": "5951"})
    client.post("/api/explain", json={"row": {"purpose": "a secret purpose"}})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("ironrule", "uvicorn"))]
    assert not [line for line in ours if "radio" in line or "5951" in line or "secret" in line]


def test_a_failure_of_the_server_is_told_without_what_was_asked(
    german: ServedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret purpose")

    monkeypatch.delenv("IRONRULE_DEBUG", raising=False)
    monkeypatch.setattr("ironrule.server.views.cases.build_applicant_view", broken)
    with open_client(german, tmp_path) as client:
        page, data = client.get("/applicants/1"), client.get("/applicants/1.json")
    assert (page.status_code, data.status_code) == (500, 500)
    assert data.json()["error"]["code"] == "internal-error"
    assert "secret" not in page.text + data.text + caplog.text
    assert "RuntimeError at " in caplog.text


@pytest.mark.parametrize("name", ["../app.py", "..%2Fapp.py", "app.py", ".", "nothing.css", "%2e%2e%2fapp.py"])
def test_only_the_files_of_the_pages_are_served(client: httpx.Client, name: str) -> None:
    assert client.get(f"/static/{name}").status_code in (404, 405)


def test_what_comes_from_the_data_is_escaped(tmp_path: Path) -> None:
    import numpy as np
    import pandas as pd

    evil = "<script>alert(1)</script>"
    table = pd.DataFrame({'a"><b>': [evil, "fine"] * 20, "n": np.arange(40)})
    served_model = ServedModel.from_model(lambda rows: (rows.n > 20).to_numpy(dtype=float), table, evil)
    with open_client(served_model, tmp_path) as client:
        assert client.post("/api/explain", json={"row": 4}).status_code == 200
        for path in (
            "/applicants",
            "/applicants/4",
            "/applicants/4/what-if",
            "/explanations/1",
            "/explanations",
            "/log",
            "/overview",
            "/batches",
            "/applicants/new",
            "/applicants?sort=feature:n",
            client.post("/batches", data={}).headers["location"],
            "/api",
        ):
            text = client.get(path).text
            assert evil not in text
            assert '"><b>' not in text
            assert "&lt;script&gt;" in text or path.startswith(("/explanations", "/log"))


def test_nothing_can_be_loaded_as_a_pickle(client: httpx.Client) -> None:
    import pickle

    content = pickle.dumps({"row": DENIED})
    for kind in ("application/octet-stream", "application/json"):
        answer = client.post("/api/explain", content=content, headers={"content-type": kind})
        assert answer.status_code in (400, 415, 422)
