"""Where the server listens, its tokens, and the limits of requests."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ironrule.errors import InputError

MIN_TOKEN_LENGTH = 16


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of sizes, numbers and times. ``seconds`` and ``evaluations`` are those of one explanation."""

    body_bytes: int = 8_000_000
    head_seconds: float = 10.0  # for the first line of a request and its headers
    body_seconds: float = 30.0
    send_seconds: float = 60.0  # in which a client must take some of the response
    concurrent_requests: int = 200  # answered at the same time
    workers: int = field(default_factory=lambda: max(2, os.cpu_count() or 1))
    queued_jobs: int = 100  # jobs that may wait for a worker
    kept_jobs: int = 500
    searches: int = 200
    sessions: int = 1000
    seconds: float = 60.0
    evaluations: int = 5_000_000
    batch_rows: int = 10_000
    page_rows: int = 200

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not value > 0:
                raise InputError(expected=f"the limit {name} must be positive", got=repr(value))


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How one server runs. ``tokens`` maps secrets to names for the audit log; without any, the server can be reached
    from this machine only, by every user of it.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    host_names: tuple[str, ...] = ()  # further host names under which the server is reached
    audit: str = "sqlite:///ironrule-audit.sqlite"
    limits: ServerLimits = field(default_factory=ServerLimits)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise InputError(expected="the port must be from 0 to 65535", got=self.port)
        if not self.tokens and not is_loopback(self.host):
            expected = "a server that other machines can reach must have a token"
            hint = "set IRONRULE_TOKEN or add --tokens FILE, or leave out --host"
            raise InputError(expected=expected, got=f"host {self.host!r} without one", hint=hint)
        least = min(map(len, self.tokens), default=MIN_TOKEN_LENGTH)
        if least < MIN_TOKEN_LENGTH:
            expected = f"a token must have at least {MIN_TOKEN_LENGTH} characters"
            raise InputError(expected=expected, got=least, hint="choose a longer one")


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
