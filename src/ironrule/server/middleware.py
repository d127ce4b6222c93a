"""The middleware around every request.

Handlers see only requests that are small, complete, and from a known user. Every response gets the headers that
restrict what a browser may do with it, and every failure becomes an error of the one shape.
"""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ironrule.server.auth import BrowserSessions, check_content_type, check_form_encoding, check_host, check_origin
from ironrule.server.errors import ApiError, build_busy_error, to_api_error
from ironrule.server.responses import render_error
from ironrule.server.settings import ServerLimits, ServerSettings

MAX_PATH_LENGTH = 300

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)

SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityMiddleware:
    """Middleware: the checks before, the headers after."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, sessions: BrowserSessions) -> None:
        self._app, self._settings, self._sessions = app, settings, sessions
        self._active_requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                static = scope["path"].startswith("/static/") and message["status"] < 400
                headers.setdefault("Cache-Control", "max-age=3600" if static else "no-store")
            await send(message)

        self._active_requests += 1
        try:
            await self._app(scope, await self._check_request(scope, receive), send_with_headers)
        except Exception as error:  # every error becomes a response of the one shape
            if started:  # part of the response was sent: the connection can only be closed
                raise
            await render_error(Request(scope), to_api_error(error))(scope, receive, send_with_headers)
        finally:
            self._active_requests -= 1
        return None

    async def _check_request(self, scope: Scope, receive: Receive) -> Receive:
        """The checks; gives a ``receive`` that has the whole body."""
        request = Request(scope)
        headers, path, method = request.headers, scope["path"], scope["method"]
        scope.setdefault("state", {})["who"] = None
        if self._active_requests > self._settings.limits.concurrent_requests:
            raise build_busy_error(f"{self._settings.limits.concurrent_requests} requests are in progress already")
        check_host(headers.get("host", ""), self._settings)
        if len(path) > MAX_PATH_LENGTH or len(scope["query_string"]) > MAX_PATH_LENGTH:
            expected = f"an address must have at most {MAX_PATH_LENGTH} characters"
            got = f"{max(len(path), len(scope['query_string'])):,}"
            raise ApiError(404, "not-found", expected=expected, got=got, hint="see /applicants")
        check_origin(method, headers)
        scope["state"]["who"] = self._sessions.authenticate(request)
        body = await _read_body(headers, receive, self._settings.limits)
        check_content_type(path, method, headers, body)
        check_form_encoding(headers, body)
        return _replay_body(body, receive)


async def _read_body(headers: Headers, receive: Receive, limits: ServerLimits) -> bytes:
    """The body, if it is small enough and arrives in time: neither Starlette nor uvicorn limits that."""
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > limits.body_bytes:
        raise _build_too_large_error(limits, f"{int(length[:20]):,}")
    parts, size, end, more = [], 0, time.monotonic() + limits.body_seconds, True
    while more:
        try:
            message = await asyncio.wait_for(receive(), max(0.0, end - time.monotonic()))
        except TimeoutError:
            expected, got = f"the whole request must arrive within {limits.body_seconds:g} s", f"{size:,} bytes"
            raise ApiError(400, "request-timeout", expected=expected, got=got, hint="send it again") from None
        part, more = message.get("body", b""), message.get("more_body", False)
        parts.append(part)
        size += len(part)
        if size > limits.body_bytes:
            raise _build_too_large_error(limits, "more")
    return b"".join(parts)


def _build_too_large_error(limits: ServerLimits, got: str) -> ApiError:
    expected = f"a request must have at most {limits.body_bytes:,} bytes"
    return ApiError(413, "too-large", expected=expected, got=got, hint="send less at once")


def _replay_body(body: bytes, receive: Receive) -> Receive:
    read = False

    async def receive_again() -> Message:
        nonlocal read
        if read:
            return await receive()  # tells when the client leaves
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
