"""Explain the rows of a batch in several processes on one machine.

Processes and not threads: between two calls of compiled code, which would let other threads run, an explanation spends
most of its time in Python, which does not. They are started afresh, not forked, because OpenMP, which many models use,
does not survive a fork. A process that dies is replaced, and its task is given to another.

This process explains too, in a thread: signals come to the main thread, which must be free to write what is finished
and to end, while compiled code that nothing can interrupt is running.

A worker that is done takes the next few rows, as many as take about a quarter of a second, fewer at the end, so that
all workers end together. The answers do not depend on which worker gave them: a row is explained by itself, from its
own seed.

The explainer is handed over without copies. It is pickled once, its arrays apart (pickle protocol 5): they stand one
behind the other in a file, which every process maps into its memory, so that the operating system keeps one copy for
all. Arrays that are mapped from files already, such as the codes of a long history, stay in those files. Writes to a
mapped array are private to the process.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import pickle
import subprocess
import warnings
from collections.abc import Generator, Sequence
from contextvars import copy_context
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import IO, Any, cast

import numpy as np

from ironrule.arrays import AnyArray
from ironrule.errors import IronruleError, StorageError
from ironrule.explain.batch.import_folders import build_worker_command, build_worker_environment
from ironrule.explain.batch.worker import IsCovered, PendingRows, StoredT, Task, TaskRunner
from ironrule.interrupts import InterruptFlag, use_interrupt_flag
from ironrule.results.batch_storage import StoredRow
from ironrule.space.column_store.storage import TempFolder
from ironrule.wording import format_count

ALIGNMENT = 64
MIN_MAPPED_BYTES = 1 << 20  # arrays from files that are smaller are copied


def write_pickle(thing: Any, folder: Path) -> Path:
    """Write anything that can be pickled, functions of a script included; raises what pickling it raises."""
    content, buffers = pickle_with_buffers(thing)
    path, sizes = folder / "handover", [buffer.raw().nbytes for buffer in buffers]
    with open(path, "wb") as file:
        for buffer in buffers:
            file.write(buffer.raw())
            file.write(bytes(-file.tell() % ALIGNMENT))
        begins = file.tell()
        pickle.dump((sizes, content), file)
        file.write(begins.to_bytes(8, "little"))
    return path


def pickle_with_buffers(thing: Any, in_files: bool = True) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """A thing and, apart, its arrays; those that are mapped from files stay there, or come along as others do."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _make_pickler(stream, buffers, in_files).dump(thing)
    return stream.getvalue(), buffers


def read_pickle(path: Path) -> Any:
    """What was written, its arrays mapped."""
    with open(path, "rb") as file:
        file.seek(-8, io.SEEK_END)
        file.seek(int.from_bytes(file.read(8), "little"))
        sizes, pickled = pickle.load(file)  # our own
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    begins = np.cumsum([0, *(size + -size % ALIGNMENT for size in sizes)]).tolist()
    return pickle.loads(pickled, buffers=[content[a : a + size] for a, size in zip(begins, sizes, strict=False)])


def _make_pickler(stream: io.BytesIO, buffers: list[pickle.PickleBuffer], in_files: bool) -> Any:
    """One that also takes functions of a script, and may leave arrays that are mapped from a file in it."""
    try:
        import cloudpickle  # type: ignore[import-untyped,unused-ignore]  # joblib needs it, and scikit-learn joblib
    except ImportError:
        from joblib.externals import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            origin = _find_mapped_file(thing) if in_files and isinstance(thing, np.ndarray) else None
            return super().reducer_override(thing) if origin is None else (_map_file, origin)

    return Pickler(stream, protocol=5, buffer_callback=buffers.append)


def _find_mapped_file(array: AnyArray) -> tuple[str, str, int, tuple[int, ...]] | None:
    """The file, type, place and shape of an array that is mapped from a file."""
    base: Any = array
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    if not isinstance(base, np.memmap) or not array.flags.c_contiguous or array.nbytes < MIN_MAPPED_BYTES:
        return None
    while isinstance(base.base, np.memmap):
        base = base.base
    place = base.offset + array.ctypes.data - base.ctypes.data
    return str(base.filename), array.dtype.str, place, array.shape


def _map_file(file: str, dtype: str, place: int, shape: tuple[int, ...]) -> Any:
    return np.asarray(np.memmap(file, dtype=dtype, mode="c", offset=place, shape=shape))


TASK_SECONDS = 0.25
LEAST_SHARE = 10  # of a task's usual rows that the last tasks have
MAX_TASK_ROWS = 256
MAX_WORKER_DEATHS = 3
WORKER_STATEMENT = "from ironrule.explain.batch.worker import run_worker; run_worker()"


class TaskQueue:
    """Rows that wait to be explained, and how many take from them. Any thread may take some.

    Rows that are covered when their turn comes are left out; ``needed`` counts the others.
    """

    def __init__(self, pending: PendingRows, workers: int = 1, is_covered: IsCovered | None = None) -> None:
        self._rows, self._points = pending
        self._workers, self._is_covered = workers, is_covered
        self.needed = len(self._rows)
        self._next, self._seconds, self._done = 0, 0.0, 0
        self._returned: list[Task] = []
        self._lock = Lock()

    def take(self) -> Task | None:
        """The next few rows; None if all are taken."""
        with self._lock:
            if self._returned:
                return self._returned.pop()
            while self._next < len(self._rows):
                first = self._next
                self._next = min(len(self._rows), first + self._choose_task_size())
                rows, points = self._rows[first : self._next], self._points[first : self._next]
                if self._is_covered is not None:
                    needed = np.flatnonzero(~self._is_covered(points))
                    self.needed -= len(rows) - len(needed)
                    rows, points = [rows[place] for place in needed.tolist()], points[needed]
                if len(rows):
                    return tuple(int(row) for row in rows), points
            return None

    def put_back(self, task: Task) -> None:
        """Rows that were taken and will not be explained by the worker that took them."""
        with self._lock:
            self._returned.append(task)

    def record_times(self, rows: Sequence[StoredRow]) -> None:
        """How long rows take."""
        with self._lock:
            self._seconds += sum(row.seconds for row in rows)
            self._done += len(rows)

    def _choose_task_size(self) -> int:
        if not self._done:
            return 1
        # As many rows as take a moment, and towards the end fewer, so that no worker waits for the last one.
        soon, left = int(TASK_SECONDS * self._done / max(self._seconds, 1e-9)), len(self._rows) - self._next
        fair = left if self._workers == 1 else -(-left // (2 * self._workers))
        # The model confirms the answers of a task together, which takes it much the same time for one as for many.
        return max(1, min(MAX_TASK_ROWS, soon, max(fair, soon // LEAST_SHARE)))


POLL_SECONDS = 0.1  # after which the main thread looks whether it was interrupted
JOIN_SECONDS = 1.0  # for which the thread of an interrupted search is waited for
Answers = SimpleQueue[Any]


def explain_in_processes(
    runner: TaskRunner[StoredT],
    pending: PendingRows,
    is_covered: IsCovered | None,
    flag: InterruptFlag,
    *,
    workers: int,
) -> Generator[Sequence[StoredT], None, None]:
    """The explanations of all rows, as they are finished, by a thread of this process and ``workers - 1`` others.

    A worker that is still starting when the last row is finished is not waited for. Raises KeyboardInterrupt soon after
    ``flag`` is set; what was finished by then is handed out first.
    """
    others = min(workers, len(pending[0])) - 1
    tasks, answers = TaskQueue(pending, others + 1, is_covered), Answers()
    with TempFolder.create(None) if others > 0 else contextlib.nullcontext() as temp_dir:
        path = None if temp_dir is None else _write_runner(runner, temp_dir.path)
        with contextlib.ExitStack() as stack:
            local_worker = _LocalWorker(runner, tasks, answers)
            stack.callback(local_worker.close)
            for _ in range(0 if path is None else others):
                stack.callback(_WorkerHandle(cast(Path, path), tasks, answers).close)
            yield from _run_tasks(local_worker, tasks, answers, flag)


def _run_tasks(
    local_worker: _LocalWorker, tasks: TaskQueue, answers: Answers, flag: InterruptFlag
) -> Generator[Sequence[Any], None, None]:
    """Hand out what is finished, here or in other processes, and keep this process's own worker busy."""
    done = 0
    while done < tasks.needed:
        # This process takes rows like the others, so that one worker needs no other process.
        if not flag.is_set and local_worker.is_idle and (task := tasks.take()) is not None:
            local_worker.start(task)
        try:
            answer = answers.get(timeout=0.0 if flag.is_set else POLL_SECONDS)
        except Empty:
            flag.check()
            continue
        if answer is not None:  # else a worker died, and gave back what it had taken
            rows = unwrap_result(answer)
            done += len(rows)
            yield rows


class _LocalWorker:
    """Explains rows in a thread of this process, so that the main thread, to which signals come, is always free.

    The thread ends soon after it is closed. If it is inside compiled code just then, it ends after that, and is not
    waited for any longer than a moment.
    """

    def __init__(self, runner: TaskRunner[StoredRow], tasks: TaskQueue, answers: Answers) -> None:
        self._runner, self._tasks, self._answers = runner, tasks, answers
        self._next_tasks, self._flag, self.is_idle = SimpleQueue[Task | None](), InterruptFlag(), True
        self._thread = Thread(target=copy_context().run, args=(self._serve,), daemon=True)
        self._thread.start()

    def start(self, task: Task) -> None:
        """Explain some rows; whatever comes of it is put among the answers."""
        self.is_idle = False
        self._next_tasks.put(task)

    def close(self) -> None:
        """End the thread, whether or not work is left."""
        self._flag.set()
        self._next_tasks.put(None)
        self._thread.join(JOIN_SECONDS)

    def _serve(self) -> None:
        with use_interrupt_flag(self._flag):
            while (task := self._next_tasks.get()) is not None:
                answer = self._explain(task)
                self.is_idle = True
                self._answers.put(answer)

    def _explain(self, task: Task) -> Sequence[StoredRow] | BaseException:
        try:
            rows = self._runner.explain_task(task)
        except BaseException as error:  # raised again by the main thread, interrupts included
            return error
        self._tasks.record_times(rows)
        return rows


def unwrap_result(answer: Sequence[StoredT] | BaseException) -> Sequence[StoredT]:
    """The explained rows; raises what went wrong instead."""
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _write_runner(runner: TaskRunner[StoredRow], folder: Path) -> Path | None:
    try:
        return write_pickle(runner, folder)
    except OSError as error:
        raise StorageError(
            f"cannot write the explainer to {str(folder.parent)!r} for worker processes: {error.strerror or error}",
            hint="free some space there, set TMPDIR to another folder, or use one worker",
        ) from error
    except Exception as error:  # pickling fails in as many ways as there are models
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(f"the model cannot be sent to other processes, so only this one works: {reason}", stacklevel=2)
        return None


class _WorkerHandle:
    """One place for a worker, and the thread that serves it."""

    def __init__(self, path: Path, tasks: TaskQueue, answers: Answers) -> None:
        self._path, self._tasks, self._answers = path, tasks, answers
        self._deaths, self._closed = 0, False
        self._process = self._start_process()
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the worker, whether or not work is left."""
        self._closed = True
        self._process.kill()
        self._thread.join()
        self._terminate()

    def _terminate(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # what was not sent yet
                cast(IO[bytes], pipe).close()

    def _start_process(self) -> subprocess.Popen[bytes]:
        command, environment = build_worker_command(WORKER_STATEMENT), build_worker_environment()
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def _serve(self) -> None:
        """Have the worker explain what waits, from when it is ready until nothing does."""
        ready, task = False, None
        while not self._closed:
            try:
                if not ready:
                    self._send(str(self._path))
                    ready = bool(self._receive())
                task = self._tasks.take()
                if task is None:
                    return
                self._send(task)
                answer = self._receive()
            except (EOFError, OSError, ValueError, pickle.UnpicklingError):
                if task is not None:
                    self._tasks.put_back(task)
                    self._answers.put(None)
                ready, task = False, None
                if not self._replace_process():
                    return
                continue
            task = None
            if not isinstance(answer, Exception):
                self._tasks.record_times(answer)
            self._answers.put(answer)

    def _receive(self) -> Any:
        return pickle.load(cast(IO[bytes], self._process.stdout))  # of our own worker

    def _replace_process(self) -> bool:
        """Whether there is a new worker for the one that died; one that always dies is given up."""
        self._deaths += 1
        if self._closed:
            return False
        if self._deaths >= MAX_WORKER_DEATHS:
            died = f"a worker process died {format_count(MAX_WORKER_DEATHS, 'time')}"
            self._answers.put(IronruleError(died, hint="check that it has enough memory", code="worker-died"))
            return False
        self._terminate()
        self._process = self._start_process()
        return True

    def _send(self, message: Any) -> None:
        pipe = cast(IO[bytes], self._process.stdin)
        pickle.dump(message, pipe, protocol=5)
        pipe.flush()
