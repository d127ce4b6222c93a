"""What the tests of the server share: the bundled model behind a client, and a small model that takes its time."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import uvicorn
from fastapi import FastAPI

from ironrule.cli.commands.demo import DESIRED_CLASS, build_demo_model
from ironrule.server.app import bind_socket, build_server, create_app
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerLimits, ServerSettings
from waiting import PATIENCE

DENIED, GRANTED = 1, 0  # row numbers of the bundled data


def build_demo() -> ServedModel:
    """The bundled data and its tree."""
    model, data, space = build_demo_model()
    return ServedModel.from_model(model, data, "German credit", {"space": space}, desired=DESIRED_CLASS)


class Gate:
    """A black box that waits, once it is closed, until it is opened again."""

    def __init__(self) -> None:
        self.open, self.asked = threading.Event(), threading.Event()
        self.open.set()

    def __call__(self, rows: pd.DataFrame) -> Any:
        self.asked.set()
        assert self.open.wait(PATIENCE)
        return (rows.a * rows.b + rows.c > 30).to_numpy(dtype=float)


def build_gated_model() -> tuple[Gate, ServedModel]:
    """A model that tests can hold up."""
    gate = Gate()
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 12, (300, 3)), columns=list("abc"))
    return gate, ServedModel.from_model(gate, table, "a model that waits")


def run_server(server: uvicorn.Server, listening: socket.socket, loop: asyncio.AbstractEventLoop | None) -> None:
    """Run a server until it is told to end, in an event loop of its own or in a given one."""
    if loop is None:
        server.run(sockets=[listening])
        return
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(server.serve(sockets=[listening]))


@contextmanager
def open_client(
    served_model: ServedModel,
    folder: Path,
    limits: ServerLimits | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
    **settings: Any,
) -> Iterator[httpx.Client]:
    """A client of a new server, in a thread, with an audit log of its own."""
    with open_server(served_model, folder, limits, loop, **settings) as (client, _):
        yield client


def open_connection(client: httpx.Client) -> socket.socket:
    """A further connection to the server of a client, for what no client sends."""
    assert client.base_url.port is not None
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=PATIENCE)


@contextmanager
def open_server(
    served_model: ServedModel,
    folder: Path,
    limits: ServerLimits | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
    **settings: Any,
) -> Iterator[tuple[httpx.Client, FastAPI]]:
    """The same, and the application."""
    url = f"sqlite:///{folder}/audit.sqlite"
    chosen = ServerSettings(port=0, audit=url, limits=limits or ServerLimits(), **settings)
    app = create_app(served_model, chosen)
    server = build_server(app)
    listening = bind_socket(chosen)
    thread = threading.Thread(target=run_server, args=(server, listening, loop))
    thread.start()
    root = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        with httpx.Client(base_url=root, timeout=PATIENCE, trust_env=False) as client:
            yield client, app
    finally:  # a test that fails must not leave a thread that nothing ends
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
    assert not thread.is_alive()
