"""The clock of searches: it runs while work is done, and stands still while code is compiled.

Compiling happens once per machine, and loading what was compiled once per process. If a budget in seconds were
charged for it, the same call would give a shorter answer the first time than afterwards. So every meter reads this
clock. It counts the whole process: while any thread compiles, the clock stands still for all of them, since the
interpreter can run little else then; a search that goes on at the same time gets that much more than its budget, once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class WorkClock:
    """Seconds from some point in time, without those for which it was paused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paused_seconds = 0.0
        self._pauses = 0  # open ones, of all threads
        self._paused_since = 0.0

    def read(self) -> float:
        """The seconds now; differences count."""
        with self._lock:
            now = self._paused_since if self._pauses else time.perf_counter()
            return now - self._paused_seconds

    @property
    def paused_seconds(self) -> float:
        """For how long it was paused, in all, by pauses that have ended."""
        return self._paused_seconds

    @property
    def is_paused(self) -> bool:
        """Whether some thread compiles now."""
        return self._pauses > 0

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Within this block, no time passes; blocks may be nested, and overlap between threads."""
        with self._lock:
            if self._pauses == 0:
                self._paused_since = time.perf_counter()
            self._pauses += 1
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if self._pauses == 0:
                    self._paused_seconds += time.perf_counter() - self._paused_since


WORK_CLOCK = WorkClock()
"""The one clock of this process."""
