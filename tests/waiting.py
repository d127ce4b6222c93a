"""Waiting for what others do, as long as it takes: a slow machine makes a test slow, and never makes it fail.

The limits are there only so that a test whose event never comes ends at all.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

PATIENCE = 600.0  # seconds, for waits that the awaited event ends
POLLS, PAUSE = 12_000, 0.05

Found = TypeVar("Found")


def wait_until(look: Callable[[], Found | None], awaited: str) -> Found:
    """What is found at last, by looking again and again."""
    for _ in range(POLLS):
        if found := look():
            return found
        time.sleep(PAUSE)
    raise AssertionError(f"waited in vain for {awaited}")


def count_readings_as_seconds(monkeypatch: pytest.MonkeyPatch, tick: float) -> None:
    """Make up the clock of searches: every look at it takes so many seconds, so budgets end at the same place."""
    readings = itertools.count(1)
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings) * tick)


class AdvancingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test puts forward: no test sits out a limit, and none has to be faster than one."""

    def __init__(self) -> None:
        self._ahead = 0.0
        super().__init__()

    def time(self) -> float:
        """The time of this loop."""
        return super().time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Let time pass, from any thread."""
        self.call_soon_threadsafe(self._put_forward, seconds)

    def _put_forward(self, seconds: float) -> None:
        self._ahead += seconds


def receive_while_time_passes(line: socket.socket, loop: AdvancingLoop, seconds: float) -> bytes:
    """The next bytes on a connection (none if it is closed), with some seconds of the loop before each look."""
    line.settimeout(PAUSE)

    def look() -> list[bytes]:
        try:
            return [line.recv(4096)]
        except TimeoutError:
            loop.advance(seconds)
            return []
        except ConnectionResetError:
            return [b""]

    return wait_until(look, "bytes, or the end of the connection")[0]
