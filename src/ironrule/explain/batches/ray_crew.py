"""The crew of a batch on many machines: Ray's workers.

The explainer is pickled once, its arrays apart, and put into Ray's object store. There it lies once per machine, and
every worker on a machine reads large arrays where they lie, without copies. Rows go out in portions, as many as take
about a quarter of a second, a few per processor at a time; a worker that dies is replaced by Ray, and what it had been
asked is asked again. Answers come back as they are finished, and do not depend on who gave them.

Histories that are mapped from files travel along: other machines need not see those files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np

from ironrule.counting import counted
from ironrule.errors import InputError, IronruleError, MissingExtraError
from ironrule.explain.batches.crew import Tasks, checked
from ironrule.explain.batches.handover import pickled
from ironrule.explain.batches.line import Line
from ironrule.explain.batches.worker import Needless, Task, Waiting, Work, answered

SHARED_BYTES = 1 << 20  # smaller arrays are copied, so that they can be written to
AHEAD = 2  # portions per processor that are under way
RETRIES = 3
_LOADED: dict[str, Work] = {}  # in a worker: the work that it was handed last


def require_ray() -> Any:
    """Ray; raises MissingExtraError now, not after the work."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray", "a batch on Ray") from None
    return ray


def explained_by_ray(
    work: Work, waiting: Waiting, needless: Needless | None, *, workers: int | None = None, address: str | None = None
) -> Iterator[list[Line]]:
    """The lines of all rows, as they are finished: by the cluster at an address, or by one of this machine's own."""
    if not len(waiting[0]):
        return
    ray = require_ray()
    with _connected(ray, workers, address):
        handed, name = _placed(ray, work), uuid.uuid4().hex
        listed = [ray.put(handed)]  # one reference, since every one that a task is given costs its driver time
        remote = ray.remote(max_retries=RETRIES, num_cpus=1)(_answer)
        processors = workers or int(ray.cluster_resources().get("CPU", 1))
        tasks = Tasks(waiting, AHEAD * processors, needless)
        yield from _answers(ray, lambda task: remote.remote(name, listed, task), tasks, AHEAD * processors)


def _answers(ray: Any, ask: Any, tasks: Tasks, most: int) -> Iterator[list[Line]]:
    """Keep some portions under way until all are answered."""
    under_way: list[Any] = []
    try:
        while True:
            while len(under_way) < most and (task := tasks.take()) is not None:
                under_way.append(ask(task))
            if not under_way:
                return
            finished, under_way = ray.wait(under_way)
            for one in finished:
                lines = checked(_fetched(ray, one))
                tasks.learn(lines)
                yield lines
    finally:
        for one in under_way:
            ray.cancel(one, force=True)


def _fetched(ray: Any, one: Any) -> list[Line] | Exception:
    try:
        answer: list[Line] | Exception = ray.get(one)
    except ray.exceptions.RayError as error:
        return IronruleError(
            f"a Ray worker died {counted(RETRIES + 1, 'time')}: {error}",
            hint="check that it has enough memory",
            code="worker-died",
        )
    return answer


@contextlib.contextmanager
def _connected(ray: Any, workers: int | None, address: str | None) -> Iterator[None]:
    """Ray as it is, where it is connected already; else connected for this batch alone."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    os.environ.setdefault("RAY_worker_niceness", "0")  # else 15: others would come first
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False, "include_dashboard": False}
    known = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
    try:
        if address is None:
            ray.init(num_cpus=workers or os.cpu_count() or 1, runtime_env=known, **quiet)
        else:
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        what = "start Ray" if address is None else f"connect to the Ray cluster at {address!r}"
        raise InputError(f"cannot {what}: {error}", code="ray-unavailable") from None
    try:
        yield
    finally:
        ray.shutdown()


def _placed(ray: Any, work: Work) -> list[Any]:
    """References to the pickled work and to its arrays, in the object store."""
    try:
        content, buffers = pickled(work, in_files=False)
    except Exception as error:  # pickling fails in as many ways as there are models
        raise InputError(
            f"cannot pickle the model to send it to other machines: {type(error).__name__}: {error}",
            code="model-not-picklable",
        ) from None
    return [ray.put(content), *(ray.put(np.frombuffer(one.raw(), dtype=np.uint8)) for one in buffers)]


def _answer(name: str, listed: list[Any], task: Task) -> list[Line] | Exception:
    """In a worker: lines, or what went wrong."""
    if name not in _LOADED:
        _LOADED.clear()
        _LOADED[name] = _taken(require_ray().get(listed[0]))
    return answered(_LOADED[name], task)


def _taken(handed: list[Any]) -> Work:
    content, *arrays = require_ray().get(handed)
    buffers = [one if one.nbytes >= SHARED_BYTES else one.copy() for one in arrays]
    work: Work = pickle.loads(content, buffers=buffers)  # of whoever started the batch
    return work
