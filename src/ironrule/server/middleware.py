"""The middleware around every request.

Handlers see only requests that are small, complete, and from a known user; of guests, only those to /login and to
static files. Everything that the head of a request says is checked first: host, origin, user and role; then the limits;
only then is the body awaited. Every response gets the headers that restrict what a browser may do with it, and every
failure becomes an error of the one shape.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AbstractContextManager

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ironrule.server.admission import GuestBodies, Places
from ironrule.server.auth import (
    LOGIN_PATH,
    SAFE_METHODS,
    BrowserSessions,
    User,
    announces_body,
    check_charset,
    check_content_type,
    check_form_encoding,
    check_host,
    check_json_text,
    check_no_body,
    check_origin,
)
from ironrule.server.errors import ApiError, to_api_error
from ironrule.server.responses import render_error
from ironrule.server.settings import ServerSettings

MAX_PATH_LENGTH = 300
STREAM_PATTERN = re.compile(r"/api/jobs/[^/]+/events")

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
        limits = settings.limits
        self._requests = Places("requests", limits.concurrent_requests)
        self._streams = Places("event streams", limits.streams)
        self._guest_requests = Places("requests without a token", limits.guest_requests)
        self._guest_bodies = GuestBodies(limits.guest_bodies)

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

        try:
            user = self._check_head(scope)
            if user is None or scope["path"] == LOGIN_PATH:  # the user is not known before the login
                replay = await self._check_body(scope, receive, guest=True)
                with self._guest_requests.take(None, self._settings.limits.guest_requests):
                    await self._app(scope, replay, send_with_headers)
            else:
                with self._take_place(scope["path"], user):
                    await self._app(scope, await self._check_body(scope, receive), send_with_headers)
        except Exception as error:  # every error becomes a response of the one shape
            if started:  # part of the response was sent: the connection can only be closed
                raise
            await render_error(Request(scope), to_api_error(error))(scope, receive, send_with_headers)
        return None

    def _check_head(self, scope: Scope) -> User | None:
        """What can be known before the body is read; gives the user, None for a guest."""
        request = Request(scope)
        headers, path, method = request.headers, scope["path"], scope["method"]
        scope.setdefault("state", {}).update(who=None, user=None)
        check_host(headers.get("host", ""), self._settings)
        if len(path) > MAX_PATH_LENGTH or len(scope["query_string"]) > MAX_PATH_LENGTH:
            expected = f"an address must have at most {MAX_PATH_LENGTH} characters"
            got = f"{max(len(path), len(scope['query_string'])):,}"
            raise ApiError(404, "not-found", expected=expected, got=got, hint="see /applicants")
        check_origin(method, headers)
        user = self._sessions.authenticate(request)
        if method in SAFE_METHODS or (user is None and path != LOGIN_PATH):
            check_no_body(method, headers)
        if user is not None:
            scope["state"].update(who=user.name, user=user)
        return user

    def _take_place(self, path: str, user: User) -> AbstractContextManager[None]:
        limits = self._settings.limits
        if STREAM_PATTERN.fullmatch(path):
            return self._streams.take(user.name, limits.streams_per_user)
        shared = self._sessions.tokens.count_users() > 1
        return self._requests.take(user.name, limits.requests_per_user if shared else limits.concurrent_requests)

    async def _check_body(self, scope: Scope, receive: Receive, guest: bool = False) -> Receive:
        """The body, and what must hold of it; gives a ``receive`` that has the whole of it."""
        limits, headers = self._settings.limits, Headers(scope=scope)
        if guest and announces_body(headers):
            reading = _read_body(headers, receive, limits.guest_body_bytes, limits.guest_body_seconds)
            body = await self._guest_bodies.wait_for(reading)
        else:
            body = await _read_body(headers, receive, limits.body_bytes, limits.body_seconds)
        check_charset(headers)
        check_content_type(scope["path"], scope["method"], headers, body)
        check_form_encoding(headers, body)
        check_json_text(headers, body)
        return _replay_body(body, receive)


async def _read_body(headers: Headers, receive: Receive, max_bytes: int, seconds: float) -> bytes:
    """The body, if it is small enough and arrives in time: neither Starlette nor uvicorn limits that."""
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > max_bytes:
        raise _build_too_large_error(max_bytes, f"{int(length[:20]):,}")
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):  # not wait_for, which in Python 3.11 may miss that it is cancelled
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":  # the client is gone, and the body is incomplete
                    statement = "the connection ended before the whole request had arrived"
                    raise ApiError(400, "request-incomplete", statement)
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > max_bytes:
                    raise _build_too_large_error(max_bytes, "more")
    except TimeoutError:
        expected, got = f"the whole request must arrive within {seconds:g} s", f"{len(body):,} bytes"
        raise ApiError(400, "request-timeout", expected=expected, got=got, hint="send it again") from None
    return bytes(body)


def _build_too_large_error(max_bytes: int, got: str) -> ApiError:
    expected = f"a request must have at most {max_bytes:,} bytes"
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
