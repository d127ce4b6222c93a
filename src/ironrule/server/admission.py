"""Admission: how many requests are answered at the same time, of whom, and how often a token may be tried.

Users are counted apart from guests, who have shown no token: whatever guests do, users are answered. One user cannot
take all places of the others. Event streams stay open for long and need little, so they have places of their own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from cachetools import LRUCache

from ironrule.server.errors import ApiError, build_busy_error


class Places:
    """Places for requests of one kind: so many in all, and so many for each user."""

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most = what, most
        self._taken: Counter[str | None] = Counter()

    @contextmanager
    def take(self, who: str | None, most_of_one: int) -> Iterator[None]:
        """Take a place for a block; raises a 429 if there is none left for this user, or none at all."""
        if self._taken[who] >= most_of_one:
            raise build_busy_error(f"{most_of_one} {self._what} of yours are in progress already")
        if self._taken.total() >= self._most:
            raise build_busy_error(f"{self._most} {self._what} are in progress already")
        self._taken[who] += 1
        try:
            yield
        finally:
            self._taken[who] -= 1
            if not self._taken[who]:
                del self._taken[who]


class GuestBodies:
    """The bodies of guests that are awaited. Beyond the limit the one that has been awaited longest is given up, so
    that somebody who sends theirs at once is always heard.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: dict[asyncio.Task[bytes], None] = {}  # the oldest first

    async def wait_for(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        """The body; raises a 429 if it is given up."""
        task = asyncio.create_task(reading)
        self._tasks[task] = None
        if len(self._tasks) > self._most:
            oldest = next(iter(self._tasks))
            del self._tasks[oldest]
            oldest.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if task in self._tasks:  # it was not given up: the request itself was cancelled
                raise
            raise build_busy_error(f"{self._most} bodies of requests without a token are awaited already") from None
        finally:
            self._tasks.pop(task, None)


LOGIN_WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 10_000


class LoginAttempts:
    """Tokens that were tried and are unknown, in the last minute: from every address, and from all together."""

    def __init__(self, most_of_one: int, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_of_one, self._clock, self._lock = most_of_one, clock, threading.Lock()
        self._by_address: LRUCache[str, deque[float]] = LRUCache(MAX_ADDRESSES)
        self._all: deque[float] = deque(maxlen=most)

    def check(self, address: str) -> None:
        """Raise a 429 if too many attempts have failed lately."""
        with self._lock:
            wait = self._get_wait(address)
        if wait > 0:
            statement, seconds = "too many unknown tokens were tried", str(math.ceil(wait))
            hint = f"try again in {seconds} s"
            raise ApiError(429, "too-many-attempts", statement, hint=hint, headers={"Retry-After": seconds})

    def record_failure(self, address: str) -> bool:
        """Count an attempt that failed; gives whether that was the last one that is allowed for now."""
        with self._lock:
            key = _group_address(address)
            failures = self._by_address.get(key) or deque(maxlen=self._most_of_one)
            for one in (failures, self._all):
                one.append(self._clock())
            self._by_address[key] = failures
            return self._get_wait(address) > 0

    def _get_wait(self, address: str) -> float:
        """Seconds until the next attempt is allowed; 0 if it is allowed now."""
        now, known = self._clock(), (self._by_address.get(_group_address(address)), self._all)
        full = [one for one in known if one is not None and len(one) == one.maxlen]
        return max((max(0.0, one[0] + LOGIN_WINDOW_SECONDS - now) for one in full), default=0.0)


def _group_address(address: str) -> str:
    """The address, or the network of an IPv6 one: a client often has all addresses of a /64.

    >>> _group_address("10.0.0.7"), _group_address("2001:db8::1:2"), _group_address("unknown")
    ('10.0.0.7', '2001:db8::/64', 'unknown')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
