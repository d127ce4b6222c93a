"""The checker that goes with what is served, made when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ironrule.checker import Check, Checker

MOST_DECISIONS = 8


class Checks:
    """One check at a time, since a checker keeps what it learns of every kind of decision.

    Documents come from anybody, so a checker that has met with many kinds gives way to a new one.
    """

    def __init__(self, new: Callable[[], Checker]) -> None:
        self._new, self._lock = new, threading.Lock()
        self._checker: Checker | None = None
        self._decisions: set[str] = set()

    def check(self, document: Any) -> Check:
        """Check an explanation."""
        with self._lock:
            self._decisions.add(repr(document.get("decision")) if isinstance(document, Mapping) else "")
            if self._checker is None or len(self._decisions) > MOST_DECISIONS:
                self._decisions.clear()
                self._checker = self._new()
            return self._checker.check(document)
