"""Who asks and does not read the answer: nothing waits for them for ever, and who reads slowly gets everything."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from server_examples import run_server

from ironrule.server.app import bind_socket, build_timeout_protocol
from ironrule.server.settings import ServerSettings
from waiting import PATIENCE, PAUSE, AdvancingLoop, wait_until

LENGTH, PIECES = 4_000_000, 5
LIMIT = 600.0  # seconds of the loop, in which a client must take 16 kB
BUFFERED = 1 << 16  # bytes that the system keeps for a connection, so that reading is noticed by the server


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
def open_connection(app: LongResponse) -> Iterator[tuple[socket.socket, AdvancingLoop]]:
    """A connection to a server of the application that has asked for the answer and not read it yet."""
    config = uvicorn.Config(app, http=build_timeout_protocol(LIMIT, LIMIT), lifespan="off", log_level="error")
    server, listening, loop = uvicorn.Server(config), bind_socket(ServerSettings(port=0)), AdvancingLoop()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFERED)
    thread = threading.Thread(target=run_server, args=(server, listening, loop))
    thread.start()
    try:
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.settimeout(PATIENCE)
            line.connect(listening.getsockname())
            line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert app.begun.wait(PATIENCE)
            yield line, loop
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
    assert not thread.is_alive()


def count_received_bytes(line: socket.socket, loop: AdvancingLoop, seconds: float) -> int:
    """How many bytes come until the connection ends, if some seconds pass after every million of them."""
    size, passed = 0, 0
    try:
        while more := line.recv(1 << 16):
            size += len(more)
            if size // 1_000_000 > passed:
                passed += 1
                loop.advance(seconds)
    except ConnectionResetError:
        pass
    return size


def test_who_does_not_read_is_not_waited_for() -> None:
    app = LongResponse()
    with open_connection(app) as (line, loop):

        def has_ended() -> bool:
            loop.advance(LIMIT + 1)
            return app.ended.wait(PAUSE)

        wait_until(has_ended, "the end of the response")
        assert count_received_bytes(line, loop, 0) < LENGTH * PIECES


def test_a_byte_now_and_then_is_not_reading() -> None:
    app = LongResponse()
    with open_connection(app) as (line, loop):

        def has_ended() -> bool:
            with suppress(ConnectionResetError):  # what was sent before the end is lost, too
                line.recv(1)
            loop.advance(LIMIT / 3)
            return app.ended.wait(PAUSE)

        wait_until(has_ended, "the end of the response")


def test_who_reads_slowly_but_steadily_gets_all() -> None:
    app = LongResponse()
    with open_connection(app) as (line, loop):
        assert count_received_bytes(line, loop, LIMIT * 2 / 3) > LENGTH * PIECES
        assert app.ended.wait(PATIENCE)


def test_who_reads_at_once_notices_nothing() -> None:
    app = LongResponse()
    with open_connection(app) as (line, loop):
        assert count_received_bytes(line, loop, 0) > LENGTH * PIECES
