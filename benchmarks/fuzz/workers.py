"""Many cases in processes: which cases are run is decided by their numbers, time only says when to stop."""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.fuzz.cases import Case, Effort, run_case
from benchmarks.fuzz.families import Family, registry

PER_SEED = 1_000_000
"""Seed s runs the cases from s million on."""


def turns(families: Sequence[Family], seed: int) -> Iterator[tuple[Family, int]]:
    """Families and case numbers in their order, without end: every family has its turn in every round."""
    number = seed * PER_SEED
    while True:
        for family in families:
            if number % family.every == 0:
                yield family, number
        number += 1


def run_cases(
    names: Sequence[str],
    seed: int,
    effort: Effort,
    seconds: float,
    workers: int,
    seen: Callable[[Case], None],
    most: int | None = None,
) -> None:
    """Run cases until the time is over or ``most`` have been run; ``seen`` gets each one when it is finished."""
    if workers <= 1:
        until = time.monotonic() + seconds
        for case in _own_cases(names, seed, effort, 0, 1, most):
            seen(case)
            if time.monotonic() > until:
                return
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    context = multiprocessing.get_context("spawn")
    found: Any = context.Queue()
    until = time.time() + seconds
    processes = [
        context.Process(target=_work, args=(names, seed, effort, place, workers, most, until, found), daemon=True)
        for place in range(workers)
    ]
    for process in processes:
        process.start()
    running = workers
    while running:
        try:
            case = found.get(timeout=5)
        except queue.Empty:
            if not any(process.is_alive() for process in processes):
                raise RuntimeError(
                    "the workers ended before their cases did; run with --workers 1 to see why"
                ) from None
            continue
        if case is None:
            running -= 1
        else:
            seen(case)
    for process in processes:
        process.join()


def _work(
    names: Sequence[str],
    seed: int,
    effort: Effort,
    place: int,
    workers: int,
    most: int | None,
    until: float,
    found: Any,
) -> None:
    """What a worker does: every case whose turn is its own."""
    for case in _own_cases(names, seed, effort, place, workers, most):
        found.put(case)
        if time.time() > until:
            break
    found.put(None)


def _own_cases(
    names: Sequence[str], seed: int, effort: Effort, place: int, workers: int, most: int | None
) -> Iterator[Case]:
    known = registry()
    for turn, (family, number) in enumerate(turns([known[name] for name in names], seed)):
        if most is not None and turn >= most:
            return
        if turn % workers == place:
            yield run_case(family, number, effort)
