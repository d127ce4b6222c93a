"""The wall around every request.

Whatever is behind it sees only requests that are small, whole, and from somebody known; whatever leaves has the headers
that keep browsers careful, and every failure the one shape of errors.
"""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ironrule.errors import IronruleError
from ironrule.server.access import Sessions, check_content, check_host, check_origin, is_open
from ironrule.server.answers import problem_response
from ironrule.server.logs import unexpected
from ironrule.server.problem import Problem, busy, problem_of
from ironrule.server.settings import Limits, Settings

LONGEST_PATH = 300
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Guard:
    """Middleware: the checks before, the headers after."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions) -> None:
        self._app, self._settings, self._sessions = app, settings, sessions
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = False

        async def careful(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(message)
            await send(message)

        self._under_way += 1
        try:
            await self._app(scope, await self._admitted(scope, receive), careful)
        except Exception as error:  # every one becomes an answer of the one shape
            if started:  # half an answer is out: ending the connection is all that is left
                raise
            await problem_response(Request(scope), _told(error))(scope, receive, careful)
        finally:
            self._under_way -= 1
        return None

    async def _admitted(self, scope: Scope, receive: Receive) -> Receive:
        """The checks; gives the whole body again to whoever reads it next."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        scope.setdefault("state", {})["who"] = None
        if self._under_way > self._settings.limits.requests:
            raise busy(f"{self._settings.limits.requests} requests are in progress already")
        check_host(headers.get("host", ""), self._settings)
        if len(path) > LONGEST_PATH or len(scope["query_string"]) > LONGEST_PATH:
            raise Problem(
                404,
                "not-found",
                expected=f"an address must have at most {LONGEST_PATH} characters",
                got=f"{max(len(path), len(scope['query_string'])):,}",
                hint="see /applicants",
            )
        check_origin(method, headers)
        who = self._sessions.who(headers, cookie_parser(headers.get("cookie", "")))
        if who is None and not is_open(path):
            raise _nobody("authorization" in headers or "cookie" in headers)
        scope["state"]["who"] = who
        body = await _whole(headers, receive, self._settings.limits)
        check_content(path, method, headers, body)
        return _again(body, receive)


async def _whole(headers: Headers, receive: Receive, limits: Limits) -> bytes:
    """The body, if it is small enough and comes in time."""
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > limits.body_bytes:
        raise _too_much(limits, f"{int(length[:20]):,}")
    parts, size, end, more = [], 0, time.monotonic() + limits.body_seconds, True
    while more:
        try:
            message = await asyncio.wait_for(receive(), max(0.0, end - time.monotonic()))
        except TimeoutError:
            expected = f"the whole request must arrive within {limits.body_seconds:g} s"
            raise Problem(
                400, "request-timeout", expected=expected, got=f"{size:,} bytes", hint="send it again"
            ) from None
        part, more = message.get("body", b""), message.get("more_body", False)
        parts.append(part)
        size += len(part)
        if size > limits.body_bytes:
            raise _too_much(limits, "more")
    return b"".join(parts)


def _too_much(limits: Limits, got: str) -> Problem:
    expected = f"a request must have at most {limits.body_bytes:,} bytes"
    return Problem(413, "too-large", expected=expected, got=got, hint="send less at once")


def _again(body: bytes, receive: Receive) -> Receive:
    read = False

    async def give() -> Message:
        nonlocal read
        if read:
            return await receive()  # tells when the client leaves
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


def _add_headers(message: Message) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers.setdefault(name, value)


def _told(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    return problem_of(error) if isinstance(error, IronruleError) else unexpected(error)


def _nobody(tried: bool) -> Problem:
    return Problem(
        401,
        "unauthorized",
        expected="a token is required",
        got="an unknown or expired token" if tried else "none",
        hint="send Authorization: Bearer TOKEN, or open /login in a browser",
        headers={"WWW-Authenticate": "Bearer"},
    )
