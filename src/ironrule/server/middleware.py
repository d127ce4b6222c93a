"""The middleware around every request.

Handlers see only requests that are small, complete, and from a known user. Every response gets the headers that
restrict what a browser may do with it, and every failure becomes an error of the one shape.
"""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ironrule.errors import IronruleError
from ironrule.server.auth import BrowserSessions, check_content_type, check_host, check_origin, is_public
from ironrule.server.errors import ApiError, build_busy_error, log_unexpected_error, to_api_error
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
    "Cache-Control": "no-store",
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
                _add_headers(message)
            await send(message)

        self._active_requests += 1
        try:
            await self._app(scope, await self._check_request(scope, receive), send_with_headers)
        except Exception as error:  # every one becomes an answer of the one shape
            if started:  # half an answer is out: ending the connection is all that is left
                raise
            await render_error(Request(scope), _convert_error(error))(scope, receive, send_with_headers)
        finally:
            self._active_requests -= 1
        return None

    async def _check_request(self, scope: Scope, receive: Receive) -> Receive:
        """The checks; gives the whole body again to whoever reads it next."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        scope.setdefault("state", {})["who"] = None
        if self._active_requests > self._settings.limits.concurrent_requests:
            raise build_busy_error(f"{self._settings.limits.concurrent_requests} requests are in progress already")
        check_host(headers.get("host", ""), self._settings)
        if len(path) > MAX_PATH_LENGTH or len(scope["query_string"]) > MAX_PATH_LENGTH:
            raise ApiError(
                404,
                "not-found",
                expected=f"an address must have at most {MAX_PATH_LENGTH} characters",
                got=f"{max(len(path), len(scope['query_string'])):,}",
                hint="see /applicants",
            )
        check_origin(method, headers)
        who = self._sessions.identify(headers, cookie_parser(headers.get("cookie", "")))
        if who is None and not is_public(path):
            raise _build_unauthorized_error("authorization" in headers or "cookie" in headers)
        scope["state"]["who"] = who
        body = await _read_body(headers, receive, self._settings.limits)
        check_content_type(path, method, headers, body)
        return _replay_body(body, receive)


async def _read_body(headers: Headers, receive: Receive, limits: ServerLimits) -> bytes:
    """The body, if it is small enough and comes in time."""
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > limits.body_bytes:
        raise _build_too_large_error(limits, f"{int(length[:20]):,}")
    parts, size, end, more = [], 0, time.monotonic() + limits.body_seconds, True
    while more:
        try:
            message = await asyncio.wait_for(receive(), max(0.0, end - time.monotonic()))
        except TimeoutError:
            expected = f"the whole request must arrive within {limits.body_seconds:g} s"
            raise ApiError(
                400, "request-timeout", expected=expected, got=f"{size:,} bytes", hint="send it again"
            ) from None
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


def _add_headers(message: Message) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in SECURITY_HEADERS.items():
        headers.setdefault(name, value)


def _convert_error(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    return to_api_error(error) if isinstance(error, IronruleError) else log_unexpected_error(error)


def _build_unauthorized_error(tried: bool) -> ApiError:
    return ApiError(
        401,
        "unauthorized",
        expected="a token is required",
        got="an unknown or expired token" if tried else "none",
        hint="send Authorization: Bearer TOKEN, or open /login in a browser",
        headers={"WWW-Authenticate": "Bearer"},
    )
