"""Who asks, and from where: tokens, sessions of browsers, host names, and the origin of a request.

A page of another site that is open in the same browser must get nothing done here. So the name under which the server
was reached must be one of its own (else a foreign name was made to point here: DNS rebinding), and a request that
changes something must come from the server's own pages: browsers say so in ``Sec-Fetch-Site``, older ones in
``Origin``. Programs that are no browsers send neither, and bring no cookies along.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping

from ironrule.server.errors import ApiError, format_brief
from ironrule.server.settings import ServerSettings

SESSION_COOKIE = "ironrule-session"
LOCAL_USER = "local"  # who asks where no token is needed: somebody on this machine
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
PUBLIC_PATHS = ("/login", "/static/")


class BrowserSessions:
    """Browsers that have shown a token: a random name each, the longest unused forgotten."""

    def __init__(self, settings: ServerSettings) -> None:
        self._tokens, self._max_sessions = settings.tokens, settings.limits.sessions
        self._user_by_session: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def find_owner(self, secret: str) -> str | None:
        """Whose token this is; every token is compared, and each in constant time."""
        found = [who for token, who in self._tokens.items() if hmac.compare_digest(token.encode(), secret.encode())]
        return found[0] if found else None

    def open_session(self, secret: str) -> str | None:
        """A new session for a token; None if it is nobody's."""
        who, name = self.find_owner(secret), secrets.token_urlsafe(24)
        if who is None:
            return None
        with self._lock:
            self._user_by_session[name] = who
            while len(self._user_by_session) > self._max_sessions:
                self._user_by_session.popitem(last=False)
        return name

    def close_session(self, name: str) -> None:
        """End a session."""
        with self._lock:
            self._user_by_session.pop(name, None)

    def identify(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> str | None:
        """Who asks: by token, or by session; None if nobody knows."""
        if not self._tokens:
            return LOCAL_USER
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.find_owner(secret.strip())
        with self._lock:
            name = cookies.get(SESSION_COOKIE, "")
            if name in self._user_by_session:
                self._user_by_session.move_to_end(name)
            return self._user_by_session.get(name)


def check_host(host: str, settings: ServerSettings) -> None:
    """Refuse a name that is not the server's own; an address cannot be made to point elsewhere, so any will do."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    known = {"localhost", settings.host.lower(), *(one.lower() for one in settings.host_names)}
    if name.lower() in known or _is_ip_address(name.strip("[]")):
        return
    raise ApiError(
        400,
        "unknown-host",
        expected="the Host header must be a name of this server",
        got=format_brief(host),
        hint="start the server with --allow-host NAME if the name is yours",
    )


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Refuse what changes something if a page of another site sent it."""
    if method in SAFE_METHODS:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        allowed = site in ("same-origin", "none")
    else:
        allowed = origin is None or origin.partition("://")[2] == headers.get("host")
    if not allowed:
        raise ApiError(
            403,
            "cross-site-request",
            expected="a request that changes something must come from this server's own pages",
            got=f"one from {format_brief(site or origin)}",
            hint="open the page on this server and try again",
        )


def check_content_type(path: str, method: str, headers: Mapping[str, str], body: bytes) -> None:
    """The API reads JSON alone, which no form of another site can send."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if not path.startswith("/api/") or method in SAFE_METHODS or not body or kind == "application/json":
        return
    raise ApiError(
        415,
        "not-json",
        expected="the content type must be application/json",
        got=format_brief(kind) if kind else "none",
        hint="send Content-Type: application/json",
    )


def is_public(path: str) -> bool:
    """Whether a path is for everybody."""
    return path.startswith(PUBLIC_PATHS)


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
