"""Explain the rows of a batch on many machines: Ray's workers.

The explainer is pickled once, its arrays apart, and put into Ray's object store. There it is kept once per machine, and
every worker on a machine reads large arrays in place, without copies. Rows go out in tasks, as many rows as take about
a quarter of a second, a few tasks per processor at a time; a worker that dies is replaced by Ray, and its task is run
again. Results come back as they are finished, and do not depend on which worker gave them.

Histories that are mapped from files are sent along: other machines need not see those files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import sys
import tempfile
import uuid
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np

from ironrule.errors import InputError, IronruleError, MissingExtraError
from ironrule.explain.batch.import_folders import list_import_folders
from ironrule.explain.batch.process_pool import POLL_SECONDS, TaskQueue, pickle_with_buffers, unwrap_result
from ironrule.explain.batch.worker import IsCovered, PendingRows, StoredT, Task, TaskRunner, run_task
from ironrule.interrupts import InterruptFlag
from ironrule.results.batch_storage import StoredRow
from ironrule.wording import format_count

MIN_SHARED_BYTES = 1 << 20  # smaller arrays are copied, so that they can be written to
TASKS_PER_PROCESSOR = 2  # that are under way at a time
RETRIES = 3
_LOADED_EXPLAINERS: dict[str, TaskRunner[StoredRow]] = {}  # in a worker: the one that it was given last


def require_ray() -> Any:
    """Ray; raises MissingExtraError now, not after the work."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray", "a batch on Ray") from None
    return ray


def explain_on_ray(
    runner: TaskRunner[StoredT],
    pending: PendingRows,
    is_covered: IsCovered | None,
    flag: InterruptFlag,
    *,
    workers: int | None = None,
    address: str | None = None,
) -> Generator[Sequence[StoredT], None, None]:
    """The explanations of all rows, as they are finished: by the cluster at an address, or by one on this machine."""
    if not len(pending[0]):
        return
    ray = require_ray()
    with _connect(ray, workers, address):
        name, references = uuid.uuid4().hex, _put_runner(ray, runner)
        listed = [ray.put(references)]  # one reference, since every one that a task is given costs its driver time
        remote = ray.remote(max_retries=RETRIES, num_cpus=1)(_run_remote_task)
        max_tasks = TASKS_PER_PROCESSOR * (workers or int(ray.cluster_resources().get("CPU", 1)))
        tasks = TaskQueue(pending, max_tasks, is_covered)
        yield from _iterate_results(ray, lambda task: remote.remote(name, listed, task), tasks, max_tasks, flag)


def _iterate_results(
    ray: Any, submit: Any, tasks: TaskQueue, max_tasks: int, flag: InterruptFlag
) -> Generator[Sequence[Any], None, None]:
    """Keep some tasks under way until all are done; raises KeyboardInterrupt soon after the flag is set."""
    under_way: list[Any] = []
    try:
        while True:
            while not flag.is_set and len(under_way) < max_tasks and (task := tasks.take()) is not None:
                under_way.append(submit(task))
            if not under_way:
                flag.check()
                return
            finished, under_way = ray.wait(under_way, timeout=POLL_SECONDS)
            if not finished:
                flag.check()
            for reference in finished:
                rows = unwrap_result(_fetch_result(ray, reference))
                tasks.record_times(rows)
                yield rows
    finally:
        for reference in under_way:
            ray.cancel(reference, force=True)


def _fetch_result(ray: Any, reference: Any) -> Sequence[Any] | Exception:
    try:
        answer: Sequence[Any] | Exception = ray.get(reference)
    except ray.exceptions.RayError as error:
        return IronruleError(
            f"a Ray worker died {format_count(RETRIES + 1, 'time')}: {error}",
            hint="check that it has enough memory",
            code="worker-died",
        )
    return answer


@contextlib.contextmanager
def _connect(ray: Any, workers: int | None, address: str | None) -> Iterator[None]:
    """Ray as it is, where it is connected already; else connected for this batch alone."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage report is sent
    os.environ.setdefault("RAY_worker_niceness", "0")  # else 15: others would come first
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False, "include_dashboard": False}
    with tempfile.TemporaryDirectory(prefix="ironrule-") as empty_folder:
        environment = _build_environment(empty_folder, address is not None)
        try:
            if address is None:
                ray.init(num_cpus=workers or os.cpu_count() or 1, runtime_env=environment, **quiet)
            else:
                ray.init(address=address, runtime_env=environment, logging_level=logging.ERROR, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            what = "start Ray" if address is None else f"connect to the Ray cluster at {address!r}"
            raise InputError(f"cannot {what}: {error}", code="ray-unavailable") from None
        try:
            yield
        finally:
            ray.shutdown()


def _build_environment(empty_folder: str, is_cluster: bool) -> dict[str, Any]:
    """How workers start. Ray lets them import from the current folder before all others, where a data folder may hold
    anything, unless it is told to work in another one: so they work in an empty one.
    """
    folders = list_import_folders()
    if is_cluster:  # other machines have their own installation; only a script's folder comes before it, as with Ray
        script = os.path.dirname(os.path.realpath(sys.argv[0]))
        folders = [script] * (script in folders) + ["${PYTHONPATH}"]
    variables = {"PYTHONPATH": os.pathsep.join(folders), "PYTHONSAFEPATH": "1"}
    return {"env_vars": variables, "working_dir": empty_folder}


def _put_runner(ray: Any, runner: TaskRunner[StoredRow]) -> list[Any]:
    """References to the pickled explainer and to its arrays, in the object store."""
    try:
        content, buffers = pickle_with_buffers(runner, in_files=False)
    except Exception as error:  # pickling fails in as many ways as there are models
        statement = f"cannot pickle the model to send it to other machines: {type(error).__name__}: {error}"
        raise InputError(statement, code="model-not-picklable") from None
    return [ray.put(content), *(ray.put(np.frombuffer(buffer.raw(), dtype=np.uint8)) for buffer in buffers)]


def _run_remote_task(name: str, listed: list[Any], task: Task) -> Sequence[StoredRow] | Exception:
    """In a worker: explained rows, or what went wrong."""
    if name not in _LOADED_EXPLAINERS:
        _LOADED_EXPLAINERS.clear()
        ray = require_ray()
        content, *arrays = ray.get(ray.get(listed[0]))
        buffers = [array if array.nbytes >= MIN_SHARED_BYTES else array.copy() for array in arrays]
        _LOADED_EXPLAINERS[name] = pickle.loads(content, buffers=buffers)  # made by the process that started the batch
    return run_task(_LOADED_EXPLAINERS[name], task)
