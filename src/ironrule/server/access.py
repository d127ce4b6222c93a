"""Who asks, and from where: tokens, sessions of browsers, host names, and the origin of a request.

A page of another site that is open in the same browser must get nothing done here. So the name under which the server
was reached must be one of its own (else a foreign name was made to point here: DNS rebinding), and what changes
something must come from the server's own pages: browsers say so in ``Sec-Fetch-Site``, older ones in ``Origin``.
Programs that are no browsers send neither, and bring no cookies along.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping

from ironrule.server.problem import Problem, brief
from ironrule.server.settings import Settings

COOKIE = "ironrule-session"
ANYBODY = "local"  # who asks where no token is needed: somebody on this machine
SAFE = ("GET", "HEAD", "OPTIONS")
OPEN = ("/login", "/static/")


class Sessions:
    """Browsers that have shown a token: a random name each, the longest unused forgotten."""

    def __init__(self, settings: Settings) -> None:
        self._tokens, self._most = settings.tokens, settings.limits.sessions
        self._open: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def owner(self, secret: str) -> str | None:
        """Whose token this is; every token is compared, and each in constant time."""
        found = [who for token, who in self._tokens.items() if hmac.compare_digest(token.encode(), secret.encode())]
        return found[0] if found else None

    def enter(self, secret: str) -> str | None:
        """A new session for a token; None if it is nobody's."""
        who, name = self.owner(secret), secrets.token_urlsafe(24)
        if who is None:
            return None
        with self._lock:
            self._open[name] = who
            while len(self._open) > self._most:
                self._open.popitem(last=False)
        return name

    def leave(self, name: str) -> None:
        """End a session."""
        with self._lock:
            self._open.pop(name, None)

    def who(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> str | None:
        """Who asks: by token, or by session; None if nobody knows."""
        if not self._tokens:
            return ANYBODY
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.owner(secret.strip())
        with self._lock:
            name = cookies.get(COOKIE, "")
            if name in self._open:
                self._open.move_to_end(name)
            return self._open.get(name)


def check_host(host: str, settings: Settings) -> None:
    """Refuse a name that is not the server's own; an address cannot be made to point elsewhere, so any will do."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    known = {"localhost", settings.host.lower(), *(one.lower() for one in settings.names)}
    if name.lower() in known or _is_address(name.strip("[]")):
        return
    raise Problem(
        400,
        "unknown-host",
        expected="the Host header must be a name of this server",
        got=brief(host),
        hint="start the server with --allow-host NAME if the name is yours",
    )


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Refuse what changes something if a page of another site sent it."""
    if method in SAFE:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        allowed = site in ("same-origin", "none")
    else:
        allowed = origin is None or origin.partition("://")[2] == headers.get("host")
    if not allowed:
        raise Problem(
            403,
            "cross-site-request",
            expected="a request that changes something must come from this server's own pages",
            got=f"one from {brief(site or origin)}",
            hint="open the page on this server and try again",
        )


def check_content(path: str, method: str, headers: Mapping[str, str], body: bytes) -> None:
    """The API reads JSON alone, which no form of another site can send."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if not path.startswith("/api/") or method in SAFE or not body or kind == "application/json":
        return
    raise Problem(
        415,
        "not-json",
        expected="the content type must be application/json",
        got=brief(kind) if kind else "none",
        hint="send Content-Type: application/json",
    )


def is_open(path: str) -> bool:
    """Whether a path is for everybody."""
    return path.startswith(OPEN)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
