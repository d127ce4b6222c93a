"""Run compiled work on several threads. Kernels release the interpreter lock, so threads are enough.

The pool is started once and shared. Batch workers, which run beside others, enter :func:`use_one_core`.
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
_core_limit: ContextVar[int | None] = ContextVar("core_limit", default=None)


def count_cores() -> int:
    """How many cores may be used here."""
    return _core_limit.get() or _count_process_cores()


@contextmanager
def use_one_core() -> Iterator[None]:
    """Within this context, only one core is used."""
    token = _core_limit.set(1)
    try:
        yield
    finally:
        _core_limit.reset(token)


def run_parallel(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """The results of jobs, run at the same time if there are cores for it.

    A job must not call this function itself: it could wait for a thread of the pool forever.
    """
    if len(jobs) < 2 or count_cores() < 2:
        return [job() for job in jobs]
    # The calling thread does the first job itself instead of waiting idly.
    others = [_get_pool().submit(job) for job in jobs[1:]]
    try:
        return [jobs[0](), *(other.result() for other in others)]
    finally:
        wait(others)  # also after an error: no job may still write to its arrays when this returns


def _count_process_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _get_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_count_process_cores(), thread_name_prefix="ironrule")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_get_pool.cache_clear)  # threads do not survive a fork
