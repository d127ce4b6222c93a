"""Listening: one process, one loop, workers in threads."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys

import uvicorn
from fastapi import FastAPI

from ironrule.errors import InputError
from ironrule.server.app import create_app
from ironrule.server.audit import AuditLog
from ironrule.server.patience import patient_for
from ironrule.server.settings import Limits, Settings
from ironrule.server.subject import Subject

LINGER_SECONDS = 5


def serve(subject: Subject, settings: Settings, access_log: bool = False) -> int:
    """Serve until interrupted; gives how many explanations were given in that time."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s: %(message)s")
    with contextlib.closing(bound(settings)) as listening:
        app = create_app(subject, settings)
        audit: AuditLog = app.state.service.audit
        before = audit.count_to()
        _announce(subject.title, listening, audit)
        with contextlib.suppress(KeyboardInterrupt):  # it has ended in order by then
            new_server(app, access_log).run(sockets=[listening])
        given = audit.count_to() - before
        audit.close()
        return given


def _announce(title: str, listening: socket.socket, audit: AuditLog) -> None:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"Serving {title}", f"  audit log: {audit.shown}", sep="\n", file=sys.stderr)
    print(f"  http://{shown}:{port}/ (Ctrl-C ends it)", file=sys.stderr, flush=True)


def new_server(app: FastAPI, access_log: bool = False) -> uvicorn.Server:
    """A server for the application that says nothing about itself, and writes no addresses down unless asked to."""
    limits: Limits = app.state.service.settings.limits
    config = uvicorn.Config(
        app,
        http=patient_for(limits.head_seconds, limits.send_seconds),
        log_level="info" if access_log else "warning",
        access_log=access_log,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=LINGER_SECONDS,
    )
    return uvicorn.Server(config)


def bound(settings: Settings) -> socket.socket:
    """A socket that listens; raises InputError if the address is taken or not ours."""
    try:
        found = socket.getaddrinfo(settings.host.strip("[]"), settings.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(512)
        except OSError:
            made.close()
            raise
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise InputError(f"cannot listen at {where}: {error.strerror}", hint="try another --port or --host") from None
    return made
