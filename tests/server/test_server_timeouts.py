"""Who asks and does not read the answer: nothing waits for them for ever, and who reads slowly gets everything."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from ironrule.server.app import bind_socket, build_timeout_protocol
from ironrule.server.settings import ServerSettings

LENGTH, PIECES = 4_000_000, 5


class LongResponse:
    """An application with a long answer, in some pieces; ``ended`` says that it waits for nobody any more."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002
        self.begun.set()
        length = str(LENGTH * PIECES).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        for place in range(PIECES):
            more = place < PIECES - 1
            await send({"type": "http.response.body", "body": b"x" * LENGTH, "more_body": more})
        self.ended.set()


@contextmanager
def open_connection(app: LongResponse, send_seconds: float) -> Iterator[socket.socket]:
    """A connection to a server of the application that has asked for the answer and not read it yet."""
    config = uvicorn.Config(app, http=build_timeout_protocol(10.0, send_seconds), lifespan="off", log_level="error")
    server, listening = uvicorn.Server(config), bind_socket(ServerSettings(port=0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.settimeout(30)
            line.connect(listening.getsockname())
            line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert app.begun.wait(30)
            yield line
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
    assert not thread.is_alive()


def count_received_bytes(line: socket.socket, pause: float) -> int:
    """How many bytes come until the connection ends."""
    size = 0
    try:
        while more := line.recv(1 << 16):
            size += len(more)
            time.sleep(pause)
    except ConnectionResetError:
        pass
    return size


def test_who_does_not_read_is_not_waited_for() -> None:
    app = LongResponse()
    with open_connection(app, 0.3) as line:
        assert app.ended.wait(30)
        assert count_received_bytes(line, 0) < LENGTH * PIECES


def test_a_byte_now_and_then_is_not_reading() -> None:
    app = LongResponse()
    with open_connection(app, 0.5) as line:
        for _ in range(300):
            if app.ended.is_set():
                break
            line.recv(1)
            time.sleep(0.1)
        assert app.ended.is_set()


def test_who_reads_slowly_but_steadily_gets_all() -> None:
    app = LongResponse()
    with open_connection(app, 5.0) as line:
        assert count_received_bytes(line, 0.002) > LENGTH * PIECES
        assert app.ended.wait(30)


@pytest.mark.parametrize("seconds", [0.2, 5.0])
def test_who_reads_at_once_notices_nothing(seconds: float) -> None:
    app = LongResponse()
    with open_connection(app, seconds) as line:
        assert count_received_bytes(line, 0) > LENGTH * PIECES
