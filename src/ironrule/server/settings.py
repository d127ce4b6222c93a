"""Where the server listens, its tokens, and the limits of requests."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ironrule.errors import InputError
from ironrule.server.tokens import TokenStore


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of sizes, numbers and times. ``seconds`` and ``evaluations`` are those of one explanation.

    A guest is who has shown no token yet: of guests, the server answers /login and its static files alone.
    """

    body_bytes: int = 8_000_000
    head_seconds: float = 10.0  # for the first line of a request and its headers
    body_seconds: float = 30.0
    send_seconds: float = 60.0  # in which a client must take some of the response
    concurrent_requests: int = 200  # of users, answered at the same time; without event streams
    requests_per_user: int = 100  # of these, where several users have tokens
    streams: int = 200  # event streams at the same time
    streams_per_user: int = 20
    waiting_connections: int = 400  # that have sent no whole head; beyond, the one that waited longest is closed
    guest_requests: int = 50  # of guests, answered at the same time
    guest_bodies: int = 20  # of guests, awaited at the same time; beyond, the oldest is given up
    guest_body_bytes: int = 4_096
    guest_body_seconds: float = 5.0
    login_failures: int = 10  # in a minute from one address; beyond, no token is tried
    all_login_failures: int = 100  # in a minute from all addresses
    workers: int = field(default_factory=lambda: max(2, os.cpu_count() or 1))
    queued_jobs: int = 100  # of one user that may wait for a worker
    kept_jobs: int = 500  # of one user that have ended
    searches: int = 200
    sessions: int = 1000
    session_idle_seconds: float = 3_600.0  # after which a session that is not used ends
    session_seconds: float = 43_200.0  # after which every session ends
    seconds: float = 60.0
    evaluations: int = 5_000_000
    batch_rows: int = 10_000
    kept_batches: int = 6  # whose results the pages show; older ones are in the audit log alone
    batch_seconds: float = 3_600.0  # of work on one batch, without the time in which it waits for others
    page_rows: int = 200

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not value > 0:
                raise InputError(expected=f"the limit {name} must be positive", got=repr(value))


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How one server runs. ``tokens`` maps secrets to names for the audit log; ``tokens_file`` has further ones, with
    roles, and may change while the server runs. Without either, the server can be reached from this machine only, by
    every user of it.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens_file: Path | None = None
    host_names: tuple[str, ...] = ()  # further host names under which the server is reached
    audit: str = field(default="sqlite:///ironrule-audit.sqlite", repr=False)  # a URL may contain a password
    audit_key: Path | None = field(default=None, repr=False)  # None: in the user's configuration folder
    audit_heads: str | None = None  # a file, or "syslog:"
    limits: ServerLimits = field(default_factory=ServerLimits)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise InputError(expected="the port must be from 0 to 65535", got=self.port)
        if not self.build_token_store().is_required and not is_loopback(self.host):
            expected = "a server that other machines can reach must have a token"
            hint = "set IRONRULE_TOKEN or add --tokens FILE, or leave out --host"
            raise InputError(expected=expected, got=f"host {self.host!r} without one", hint=hint)

    def build_token_store(self) -> TokenStore:
        """The tokens; raises InputError for one that is too weak, and for a file that cannot be used."""
        return TokenStore(self.tokens, self.tokens_file)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    address = parse_ip_address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def parse_ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address, with or without brackets; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
