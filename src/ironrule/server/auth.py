"""Authentication: tokens, sessions of browsers, host names, and the origin of a request.

A page of another site that is open in the same browser must not be able to use the server. So the host name of a
request must be one of the server's own (else a foreign name may point here: DNS rebinding), and a request that changes
something must come from the server's own pages: browsers say so in ``Sec-Fetch-Site``, older ones in ``Origin``.
Programs other than browsers send neither header, and no cookies.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from cachetools import LRUCache
from starlette.requests import Request

from ironrule.server.errors import ApiError, format_brief
from ironrule.server.settings import ServerSettings, parse_ip_address

SESSION_COOKIE = "ironrule-session"
LOCAL_USER = "local"  # the user where no token is needed: anyone on this machine
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
PUBLIC_PATHS = ("/login", "/static/")


class BrowserSessions:
    """The tokens, and the browsers that have shown one: a random name each, the least recently used dropped."""

    def __init__(self, settings: ServerSettings) -> None:
        self._tokens = settings.tokens
        self._user_by_session: LRUCache[str, str] = LRUCache(settings.limits.sessions)
        self._lock = threading.Lock()

    def find_owner(self, secret: str) -> str | None:
        """The owner of a token; every token is compared, each in constant time."""
        found = [who for token, who in self._tokens.items() if hmac.compare_digest(token.encode(), secret.encode())]
        return found[0] if found else None

    def open_session(self, secret: str) -> str | None:
        """A new session for a token; None if the token is unknown."""
        who, name = self.find_owner(secret), secrets.token_urlsafe(24)
        if who is None:
            return None
        with self._lock:
            self._user_by_session[name] = who
        return name

    def close_session(self, name: str) -> None:
        """End a session."""
        with self._lock:
            self._user_by_session.pop(name, None)

    def authenticate(self, request: Request) -> str | None:
        """The user of a request, by token or by session; raises a 401 if there is none and the path needs one."""
        who = self._identify(request)
        path = request.scope["path"]  # not request.url, which depends on the Host header
        if who is None and not path.startswith(PUBLIC_PATHS):
            tried = "authorization" in request.headers or "cookie" in request.headers
            got = "an unknown or expired token" if tried else "none"
            hint = "send Authorization: Bearer TOKEN, or open /login in a browser"
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, "unauthorized", expected="a token is required", got=got, hint=hint, headers=headers)
        return who

    def _identify(self, request: Request) -> str | None:
        if not self._tokens:
            return LOCAL_USER
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.find_owner(secret.strip())
        with self._lock:
            who: str | None = self._user_by_session.get(request.cookies.get(SESSION_COOKIE, ""))
        return who


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


def check_form_encoding(headers: Mapping[str, str], body: bytes) -> None:
    """Refuse a form that is not UTF-8: Starlette would replace what it cannot decode."""
    if _parse_content_type(headers) != "application/x-www-form-urlencoded":
        return
    try:
        unquote_to_bytes(body).decode("utf-8")
    except UnicodeDecodeError as error:
        got = f"a byte {error.object[error.start]:#04x} at position {error.start:,}"
        raise ApiError(422, "invalid-request", expected="a form must be encoded in UTF-8", got=got) from None


def _parse_content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()
