"""The application, and how it is run: one process, one event loop, workers in threads, timeouts on slow connections.

uvicorn waits without limit for the head of a request (its first line and its headers), so a client could block many
connections by sending a byte now and then (slowloris). It also waits without limit for a client to read the response,
and for the rest of a body after the response was sent. So uvicorn's protocol gets three timeouts here, and a limit of
connections that wait for a head. The body of a request is read by the middleware, which has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import h11
import python_multipart  # noqa: F401  # FastAPI needs it for forms; without it ironrule serve names the missing extra
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

import ironrule
from ironrule.errors import InputError
from ironrule.server.applicants import Applicants, SavedSearches
from ironrule.server.audit.log import AuditLog
from ironrule.server.auth import BrowserSessions
from ironrule.server.batches import BatchRegistry
from ironrule.server.errors import convert_http_exception, convert_validation_error
from ironrule.server.jobs import JobQueue
from ironrule.server.middleware import SecurityMiddleware
from ironrule.server.responses import render_error
from ironrule.server.routes import api, applicants, batches, downloads, login, pages
from ironrule.server.served_model import ServedModel
from ironrule.server.service import Service
from ironrule.server.settings import ServerLimits, ServerSettings
from ironrule.server.views.records import AnswerSummaries
from ironrule.wording import escape_controls

API_DESCRIPTION = "Rules without exceptions that explain one decision of a classifier. Every error has the same shape."


def create_app(served_model: ServedModel, settings: ServerSettings | None = None) -> FastAPI:
    """The application that serves one model; opens the audit log, and closes it with everything else at the end."""
    chosen = settings or ServerSettings()
    service = Service(
        served_model=served_model,
        settings=chosen,
        applicants=Applicants.from_explainer(served_model.explainer),
        audit=open_audit_log(chosen),
        jobs=JobQueue(chosen.limits),
        searches=SavedSearches(chosen.limits.searches),
        batches=BatchRegistry(chosen.limits.kept_batches),
    )
    app = FastAPI(
        title="Ironrule",
        version=ironrule.__version__,
        description=API_DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_close_at_end,
        redirect_slashes=False,
        exception_handlers=dict.fromkeys((RequestValidationError, HTTPException), _render_framework_error),
    )
    app.state.service, app.state.sessions = service, BrowserSessions(chosen)
    app.state.summaries = AnswerSummaries()
    app.add_middleware(SecurityMiddleware, settings=chosen, sessions=app.state.sessions)
    for part in (api, applicants, batches, pages, login, downloads):
        app.include_router(part.router)
    app.mount("/static", StaticFiles(packages=[("ironrule.server", "static")]))
    return app


def open_audit_log(settings: ServerSettings) -> AuditLog:
    """The audit log of a server; raises InputError if its chain is broken."""
    log = AuditLog(settings.audit, key_file=settings.audit_key, heads=settings.audit_heads)
    try:
        return log.require_intact()
    except BaseException:
        log.close()
        raise


async def _render_framework_error(request: Request, error: Any) -> Response:
    """An error of FastAPI or Starlette; all others reach the middleware."""
    if isinstance(error, RequestValidationError):
        return render_error(request, convert_validation_error(error))
    return render_error(request, convert_http_exception(request, error))


@contextlib.asynccontextmanager
async def _close_at_end(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.service.close()


MIN_TAKEN_BYTES = 16_384  # that a client must take each time, unless less is left


UNREAD_SECONDS = 2.0  # for a client to notice that its request was answered before the body had come


class TimeoutProtocol(H11Protocol):
    """uvicorn's protocol with a limit on the time from a connection's start, or a head's first byte, to its last; and
    one on the time in which a client must take 16 kB of what waits to be sent. If more than ``max_waiting`` connections
    wait for a head, the one that has waited longest is closed, so that new ones always find a place.

    uvicorn makes one object per connection, of a class; so what all connections of a server share belongs to the class
    that :func:`build_timeout_protocol` makes for it.
    """

    head_seconds: float
    send_seconds: float
    max_waiting: int
    waiting: dict[H11Protocol, None]  # for a head, the longest first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._timers = {"head": self.loop.call_later(self.head_seconds, transport.close)}
        transport.set_write_buffer_limits(high=0)  # so that pause_writing is called whenever bytes wait
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.SEND_BODY or not self.cycle.response_complete:
            self._cancel_timer("unread")  # the rest of the body has come
        if self.conn.their_state is not h11.IDLE:
            self._cancel_timer("head")
            self.waiting.pop(self, None)
        elif "head" not in self._timers:  # the head of a further request has begun
            self._timers["head"] = self.loop.call_later(self.head_seconds, self.transport.close)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.SEND_BODY:  # answered without the body, which nothing awaits
            self._timers["unread"] = self.loop.call_later(UNREAD_SECONDS, self.transport.close)
        elif self.conn.their_state is h11.IDLE:
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        self.waiting[self] = None
        if len(self.waiting) > self.max_waiting:
            longest = next(iter(self.waiting))
            del self.waiting[longest]
            longest.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._schedule_send_check()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_timer("send")

    def connection_lost(self, exc: Exception | None) -> None:
        for name in tuple(self._timers):
            self._cancel_timer(name)
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def _cancel_timer(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()

    def _schedule_send_check(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._cancel_timer("send")
        self._timers["send"] = self.loop.call_later(self.send_seconds, self._check_send, unsent)

    def _check_send(self, before: int) -> None:
        if self.transport.get_write_buffer_size() > before - MIN_TAKEN_BYTES:
            self.transport.abort()  # to close it would wait until all is sent
        else:
            self._schedule_send_check()


def build_timeout_protocol(head_seconds: float, send_seconds: float, max_waiting: int = 400) -> type[TimeoutProtocol]:
    """The protocol of one server."""
    shared = {
        "head_seconds": head_seconds,
        "send_seconds": send_seconds,
        "max_waiting": max_waiting,
        "waiting": dict[H11Protocol, None](),
    }
    return type("ServerTimeoutProtocol", (TimeoutProtocol,), shared)


SHUTDOWN_SECONDS = 5


def serve(served_model: ServedModel, settings: ServerSettings, access_log: bool = False) -> int:
    """Serve until interrupted; gives how many explanations were recorded in that time."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s: %(message)s")
    logging.getLogger("ironrule.server.login").setLevel(logging.INFO)  # who logs in is told too
    with contextlib.closing(bind_socket(settings)) as listening:
        app = create_app(served_model, settings)
        audit: AuditLog = app.state.service.audit
        before = audit.get_last_number()
        host, port = listening.getsockname()[:2]
        address = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        log_lines = f"  audit log: {audit.display_url}", f"  audit key: {audit.key_file} (keep a copy)"
        lines = f"Serving {served_model.title}", *log_lines, f"  {address} (Ctrl-C ends it)"
        print(*map(escape_controls, lines), sep="\n", file=sys.stderr, flush=True)
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn has shut down in order by then
            build_server(app, access_log).run(sockets=[listening])
        count = audit.get_last_number() - before
        audit.close()
        return count


def build_server(app: FastAPI, access_log: bool = False) -> uvicorn.Server:
    """A server for the application, without a Server header, and without an access log unless requested."""
    limits: ServerLimits = app.state.service.settings.limits
    config = uvicorn.Config(
        app,
        http=build_timeout_protocol(limits.head_seconds, limits.send_seconds, limits.waiting_connections),
        log_level="info" if access_log else "warning",
        access_log=access_log,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


def bind_socket(settings: ServerSettings) -> socket.socket:
    """A socket that listens; raises InputError if the address is in use or does not belong to this machine."""
    try:
        family, *_, address = socket.getaddrinfo(settings.host.strip("[]"), settings.port, type=socket.SOCK_STREAM)[0]
        dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=512, dualstack_ipv6=dual)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise InputError(f"cannot listen at {where}: {error.strerror}", hint="try another --port or --host") from None
