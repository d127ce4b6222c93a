"""The application, and how it is run: one process, one event loop, workers in threads, timeouts on slow connections.

uvicorn waits for ever until the head of a request, its first line and its headers, is complete; a client that opens
many connections and sends a byte now and then could hold all of them (slowloris). It also waits for ever until a client
takes what it sends; a client that asks and does not read, or reads a byte now and then, could hold a request, and the
connection after it. So uvicorn's protocol gets two timeouts here. (The body of a request is read by the middleware,
which has a timeout of its own.)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

import ironrule
from ironrule.errors import InputError, IronruleError
from ironrule.server.applicants import Applicants, SavedSearches
from ironrule.server.audit.log import AuditLog
from ironrule.server.auth import BrowserSessions
from ironrule.server.errors import ApiError, convert_http_exception, convert_validation_error, to_api_error
from ironrule.server.jobs import JobQueue
from ironrule.server.middleware import SecurityMiddleware
from ironrule.server.responses import render_error
from ironrule.server.routes import api, downloads, login, pages
from ironrule.server.served_model import ServedModel
from ironrule.server.service import Service
from ironrule.server.settings import ServerLimits, ServerSettings

API_DESCRIPTION = "Rules without exceptions that explain one decision of a classifier. Every error has the same shape."


def create_app(served_model: ServedModel, settings: ServerSettings | None = None) -> FastAPI:
    """The application that serves one model; opens the audit log, and closes it with everything else at the end."""
    chosen = settings or ServerSettings()
    service = Service(
        served_model,
        chosen,
        Applicants.from_explainer(served_model.explainer),
        AuditLog(chosen.audit),
        JobQueue(chosen.limits),
        SavedSearches(chosen.limits.searches),
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
    )
    app.state.service, app.state.sessions = service, BrowserSessions(chosen)
    app.add_middleware(SecurityMiddleware, settings=chosen, sessions=app.state.sessions)
    for part in (api, pages, login, downloads):
        app.include_router(part.router)
    _add_handlers(app)
    return app


@asynccontextmanager
async def _close_at_end(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.service.close()


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    def handle_validation_error(request: Request, error: RequestValidationError) -> Response:
        return render_error(request, convert_validation_error(error))

    @app.exception_handler(HTTPException)
    def handle_http_exception(request: Request, error: HTTPException) -> Response:
        return render_error(request, convert_http_exception(request, error))

    @app.exception_handler(ApiError)
    def handle_api_error(request: Request, error: ApiError) -> Response:
        return render_error(request, error)

    @app.exception_handler(IronruleError)
    def handle_library_error(request: Request, error: IronruleError) -> Response:
        return render_error(request, to_api_error(error))


MIN_TAKEN_BYTES = 16_384  # that a client must take each time, unless less is left


def build_timeout_protocol(head_seconds: float, send_seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol with a limit on the time from a connection's start, or a head's first byte, to its last; and
    one on the time in which a client must take 16 kB of what waits to be sent.
    """

    class TimeoutProtocol(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None
        _send_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            self._head_timer = self.loop.call_later(head_seconds, transport.close)
            transport.set_write_buffer_limits(high=0)  # so that pause_writing is called whenever bytes wait

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._cancel_head_timer()
            elif self._head_timer is None:  # the head of a further request has begun
                self._head_timer = self.loop.call_later(head_seconds, self.transport.close)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._schedule_send_check()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._cancel_send_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_head_timer()
            self._cancel_send_timer()
            super().connection_lost(exc)

        def _schedule_send_check(self) -> None:
            waiting = self.transport.get_write_buffer_size()
            self._cancel_send_timer()
            self._send_timer = self.loop.call_later(send_seconds, self._check_send, waiting)

        def _check_send(self, before: int) -> None:
            if self.transport.get_write_buffer_size() > before - MIN_TAKEN_BYTES:
                self.transport.abort()  # to close it would wait until all is sent
            else:
                self._schedule_send_check()

        def _cancel_head_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _cancel_send_timer(self) -> None:
            if self._send_timer is not None:
                self._send_timer.cancel()
                self._send_timer = None

    return TimeoutProtocol


SHUTDOWN_SECONDS = 5


def serve(served_model: ServedModel, settings: ServerSettings, access_log: bool = False) -> int:
    """Serve until interrupted; gives how many explanations were given in that time."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s: %(message)s")
    with contextlib.closing(bind_socket(settings)) as listening:
        app = create_app(served_model, settings)
        audit: AuditLog = app.state.service.audit
        before = audit.get_last_number()
        _announce(served_model.title, listening, audit)
        with contextlib.suppress(KeyboardInterrupt):  # it has ended in order by then
            build_server(app, access_log).run(sockets=[listening])
        given = audit.get_last_number() - before
        audit.close()
        return given


def _announce(title: str, listening: socket.socket, audit: AuditLog) -> None:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"Serving {title}", f"  audit log: {audit.display_url}", sep="\n", file=sys.stderr)
    print(f"  http://{shown}:{port}/ (Ctrl-C ends it)", file=sys.stderr, flush=True)


def build_server(app: FastAPI, access_log: bool = False) -> uvicorn.Server:
    """A server for the application that says nothing about itself, and writes no addresses down unless asked to."""
    limits: ServerLimits = app.state.service.settings.limits
    config = uvicorn.Config(
        app,
        http=build_timeout_protocol(limits.head_seconds, limits.send_seconds),
        log_level="info" if access_log else "warning",
        access_log=access_log,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


def bind_socket(settings: ServerSettings) -> socket.socket:
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
