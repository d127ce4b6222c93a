"""Work that is done by several threads at the same time: the kernels hold no interpreter lock, so threads are enough.

The threads are started once and serve everybody. Whoever has a core to himself, such as the worker of a batch beside
others, says so, and does all his work in his own thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

T = TypeVar("T")

_most: ContextVar[int | None] = ContextVar("most", default=None)


def cores() -> int:
    """How many cores may be used here."""
    return _most.get() or _cores_of_this_process()


@contextmanager
def one_core() -> Iterator[None]:
    """For as long as this lasts, one core is used."""
    token = _most.set(1)
    try:
        yield
    finally:
        _most.reset(token)


def all_done(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """What jobs come to, done at the same time if there are cores for it; jobs have no jobs done themselves."""
    if len(jobs) < 2 or cores() < 2:
        return [job() for job in jobs]
    others = [_pool().submit(job) for job in jobs[1:]]
    try:
        return [jobs[0](), *(other.result() for other in others)]
    finally:
        wait(others)  # nobody may still write to what the jobs were given


def _cores_of_this_process() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores_of_this_process(), thread_name_prefix="ironrule")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
