"""Time by two clocks: on the wall, and of the processor (all threads), which other programs disturb less."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ironrule import Budget

Result = TypeVar("Result")
UNTIMED = Budget(evaluations=5_000_000)  # what is measured here ends by itself, never by the clock


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds that some work took."""

    wall: float
    cpu: float


def timed(work: Callable[[], Result]) -> tuple[Result, Taken]:
    """The result of some work, and what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, Taken(time.perf_counter() - wall, time.process_time() - cpu)


def best(work: Callable[[], object], repeats: int) -> Taken:
    """The shortest of several runs, by each clock."""
    taken = [timed(work)[1] for _ in range(repeats)]
    return Taken(min(t.wall for t in taken), min(t.cpu for t in taken))
