"""Authentication: the user of a request, by token or by session; roles; host names; and the origin of a request.

A page of another site that is open in the same browser must not be able to use the server. So the host name of a
request must be one of the server's own (else a foreign name may point here: DNS rebinding), and a request that changes
something must come from the server's own pages: browsers say so in ``Sec-Fetch-Site``, older ones in ``Origin``.
Programs other than browsers send neither header, and no cookies.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote_to_bytes

from cachetools import LRUCache
from starlette.requests import Request

from ironrule.server.admission import LoginAttempts
from ironrule.server.errors import ApiError, format_brief
from ironrule.server.settings import ServerSettings, parse_ip_address
from ironrule.server.tokens import LOCAL_USER, AccessToken, Role, compute_digest, has_role
from ironrule.wording import escape_controls

SESSION_COOKIE = "ironrule-session"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
LOGIN_PATH, STATIC_FOLDER = "/login", "/static/"
CHECK_PATHS = ("/", "/check", "/check.json", "/api/check", "/logout", "/api/openapi.json")
READ_PATHS = ("/explanations", "/explanations.json", "/log", "/log.json", "/api", "/api.json", "/api/model")
READ_FOLDERS = ("/explanations/", "/ladders/", "/counterfactuals/", "/api/explanations/")
HOME_PATHS: dict[Role, str] = {"ask": "/applicants", "read": "/explanations", "check": "/check"}

CHARSET_PATTERN = re.compile(r"charset\s*=\s*[\"']?([^\"';\s]*)", re.IGNORECASE)
SURROGATE_PATTERN = re.compile(rb"\\u[dD][89a-fA-F]")  # half of a pair, or alone

logger = logging.getLogger("ironrule.server.login")


@dataclass(frozen=True, slots=True)
class User:
    """Who has sent a request; ``digest`` is that of the token, None where no token is needed."""

    name: str
    role: Role
    digest: bytes | None = None

    @classmethod
    def from_token(cls, token: AccessToken) -> User:
        """The owner of a token."""
        return cls(token.name, token.role, token.digest)


LOCAL = User(LOCAL_USER, "ask")


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that has shown a token: which one, when it did, and when it was last heard of."""

    digest: bytes
    opened: float
    used: float


class BrowserSessions:
    """The tokens, and the browsers that have shown one: a random name each, the least recently used dropped.

    A session ends when its token does, some time after its last use, and some time after it began.
    """

    def __init__(self, settings: ServerSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock, self._lock = settings.limits, clock, threading.Lock()
        self.tokens = settings.build_token_store()
        self._attempts = LoginAttempts(self._limits.login_failures, self._limits.all_login_failures, clock)
        self._sessions: LRUCache[str, BrowserSession] = LRUCache(self._limits.sessions)

    def open_session(self, secret: str, address: str) -> tuple[str, User] | None:
        """A new session for a token; None if the token is unknown, and a 429 after too many such attempts."""
        self._attempts.check(address)
        token, name, now = self.tokens.find(compute_digest(secret)), secrets.token_urlsafe(24), self._clock()
        if token is None:
            self._record_failure(address)
            return None
        with self._lock:
            self._sessions[name] = BrowserSession(token.digest, now, now)
        logger.info("login of %s from %s", escape_controls(token.name), escape_controls(address))
        return name, User.from_token(token)

    def close_session(self, name: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(name, None)

    def authenticate(self, request: Request) -> User | None:
        """The user of a request, by token or by session, who must have the role for the path; raises a 401 if there is
        none and the path needs one. None for a guest.
        """
        user, path = self._identify(request), request.scope["path"]  # not request.url, which depends on the Host header
        if path == LOGIN_PATH or path.startswith(STATIC_FOLDER):
            return user
        if user is None:
            tried = "authorization" in request.headers or "cookie" in request.headers
            got = "an unknown or expired token" if tried else "none"
            hint = "send Authorization: Bearer TOKEN, or open /login in a browser"
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, "unauthorized", expected="a token is required", got=got, hint=hint, headers=headers)
        check_role(user, find_needed_role(request.scope["method"], path))
        return user

    def is_current(self, user: User) -> bool:
        """Whether the token by which a user was known still works."""
        return user.digest is None or self.tokens.find(user.digest) is not None

    def _identify(self, request: Request) -> User | None:
        if not self.tokens.is_required:
            return LOCAL
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            token = self.tokens.find(compute_digest(secret.strip()))
            if token is None:  # a known token is taken at any time: nobody can lock out its owner
                address = get_address(request)
                self._attempts.check(address)
                self._record_failure(address)
        else:
            token = self._find_session_token(request.cookies.get(SESSION_COOKIE, ""))
        return None if token is None else User.from_token(token)

    def _find_session_token(self, name: str) -> AccessToken | None:
        with self._lock:
            session: BrowserSession | None = self._sessions.get(name)
            if session is None:
                return None
            now = self._clock()
            idle, age = now - session.used, now - session.opened
            if idle > self._limits.session_idle_seconds or age > self._limits.session_seconds:
                del self._sessions[name]
                return None
            self._sessions[name] = replace(session, used=now)
        return self.tokens.find(session.digest)

    def _record_failure(self, address: str) -> None:
        last = self._attempts.record_failure(address)
        further = "; further attempts are refused for a while" if last else ""
        logger.warning("an unknown token was tried from %s%s", escape_controls(address), further)


def get_address(request: Request) -> str:
    """The address of a client."""
    return "unknown" if request.client is None else request.client.host


def find_needed_role(method: str, path: str) -> Role:
    """The role that a request needs; where nothing else is said, the one with all rights.

    >>> find_needed_role("GET", "/explanations/7"), find_needed_role("POST", "/check"), find_needed_role("GET", "/x")
    ('read', 'check', 'ask')
    """
    if path in CHECK_PATHS:
        return "check"
    if method in SAFE_METHODS and (path in READ_PATHS or path.startswith(READ_FOLDERS)):
        return "read"
    return "ask"


def check_role(user: User, needed: Role) -> None:
    """Refuse a user whose role does not suffice."""
    if not has_role(user.role, needed):
        expected, got = f"the role {needed!r} is required", f"a token with the role {user.role!r}"
        hint = "ask the operator of the server for another token"
        raise ApiError(403, "role-required", expected=expected, got=got, hint=hint)


def check_host(host: str, settings: ServerSettings) -> None:
    """Refuse a host name that is not the server's own. Any IP address is accepted: it cannot point elsewhere.

    Starlette's TrustedHostMiddleware accepts listed names only, so not every address, and answers in plain text.
    """
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    known = {"localhost", settings.host.lower(), *(one.lower() for one in settings.host_names)}
    if name.lower() in known or parse_ip_address(name) is not None:
        return
    expected = "the Host header must be a name of this server"
    hint = "start the server with --allow-host NAME if the name is yours"
    raise ApiError(400, "unknown-host", expected=expected, got=format_brief(host), hint=hint)


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a request that changes something if a page of another site sent it."""
    if method in SAFE_METHODS:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        allowed = site in ("same-origin", "none")
    else:
        allowed = origin is None or origin.partition("://")[2] == headers.get("host")
    if not allowed:
        expected = "a request that changes something must come from this server's own pages"
        got, hint = f"one from {format_brief(site or origin)}", "open the page on this server and try again"
        raise ApiError(403, "cross-site-request", expected=expected, got=got, hint=hint)


def check_content_type(path: str, method: str, headers: Mapping[str, str], body: bytes) -> None:
    """Refuse a body of the API that is not JSON: a form of another site cannot send JSON."""
    kind = _parse_content_type(headers)
    if not path.startswith("/api/") or method in SAFE_METHODS or not body or kind == "application/json":
        return
    expected = "the content type must be application/json"
    got = format_brief(kind) if kind else "none"
    raise ApiError(415, "not-json", expected=expected, got=got, hint="send Content-Type: application/json")


def announces_body(headers: Mapping[str, str]) -> bool:
    """Whether the head of a request says that a body follows."""
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


def check_no_body(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a body that nothing would read, before any of it is awaited."""
    if not announces_body(headers):
        return
    expected = f"a {method} request to this address must have no body"
    got = f"one of {format_brief(headers.get('content-length', 'unknown'))} bytes"
    raise ApiError(400, "body-not-allowed", expected=expected, got=got, hint="leave it out")


def check_charset(headers: Mapping[str, str]) -> None:
    """Refuse a body in another encoding than UTF-8: some of Python's encodings give half characters."""
    match = CHARSET_PATTERN.search(headers.get("content-type", ""))
    if match is not None and match[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        got = format_brief(match[1])
        raise ApiError(415, "unknown-charset", expected="the charset must be utf-8", got=got, hint="leave it out")


def check_form_encoding(headers: Mapping[str, str], body: bytes) -> None:
    """Refuse a form that is not UTF-8: Starlette would replace what it cannot decode."""
    if _parse_content_type(headers) != "application/x-www-form-urlencoded":
        return
    try:
        unquote_to_bytes(body).decode("utf-8")
    except UnicodeDecodeError as error:
        got = f"a byte {error.object[error.start]:#04x} at position {error.start:,}"
        raise ApiError(422, "invalid-request", expected="a form must be encoded in UTF-8", got=got) from None


def check_json_text(headers: Mapping[str, str], body: bytes) -> None:
    """Refuse JSON with half a character (a lone surrogate such as ``"\\ud800"``): it cannot be written in UTF-8."""
    if SURROGATE_PATTERN.search(body) is None or not _parse_content_type(headers).endswith("json"):
        return
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):  # what reads the body says so
        return
    check_unicode(parsed)


def check_unicode(value: Any) -> None:
    """Refuse a value of JSON that has a lone surrogate in one of its texts."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        expected = "all texts must be valid Unicode"
        got = f"the lone surrogate {error.object[error.start]!a}"
        raise ApiError(422, "invalid-request", expected=expected, got=got, hint="send whole characters") from None


def _parse_content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()
