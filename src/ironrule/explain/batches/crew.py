"""The crew of a batch: this process, and other ones beside it.

Processes and not threads: between two calls of compiled code, which would let other threads run, an explanation spends
most of its time in Python, which does not. They are started afresh, not forked, because OpenMP, which many models use,
does not survive a fork. A process that dies is replaced, and what it had been asked is asked again.

Whoever finishes takes the next few rows, as many as will take about a quarter of a second, fewer at the end, so that
all end together. The answers do not depend on who gave them: a row is explained by itself, from its own seed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import IO, Any, cast

import numpy as np

from ironrule.counting import counted
from ironrule.errors import IronruleError, StorageError
from ironrule.explain.batches.handover import written
from ironrule.explain.batches.line import Line
from ironrule.explain.batches.worker import Needless, Task, Waiting, Work
from ironrule.space.streamed.scratch import Scratch

PORTION_SECONDS = 0.25
MOST_ROWS = 256
MOST_DEATHS = 3
WORKER = "from ironrule.explain.batches.worker import main; main()"


class Tasks:
    """Rows that wait to be explained, and how many take from them. Any thread may take some.

    Rows that are ``needless`` when their turn comes are left out; ``wanted`` counts the others.
    """

    def __init__(self, waiting: Waiting, takers: int = 1, needless: Needless | None = None) -> None:
        self._rows, self._points = waiting
        self._takers, self._needless = takers, needless
        self.wanted = len(self._rows)
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
                self._next = min(len(self._rows), first + self._portion())
                rows, points = self._rows[first : self._next], self._points[first : self._next]
                if self._needless is not None:
                    needed = np.flatnonzero(~self._needless(points))
                    self.wanted -= len(rows) - len(needed)
                    rows, points = [rows[place] for place in needed.tolist()], points[needed]
                if len(rows):
                    return tuple(int(row) for row in rows), points
            return None

    def give_back(self, task: Task) -> None:
        """Rows that somebody took and will not explain."""
        with self._lock:
            self._returned.append(task)

    def learn(self, lines: list[Line]) -> None:
        """How long rows take."""
        with self._lock:
            self._seconds += sum(line.seconds for line in lines)
            self._done += len(lines)

    def _portion(self) -> int:
        if not self._done:
            return 1
        soon = int(PORTION_SECONDS * self._done / max(self._seconds, 1e-9))
        fair = -(-(len(self._rows) - self._next) // (2 * self._takers))
        return max(1, min(MOST_ROWS, soon, fair))


def explained(work: Work, waiting: Waiting, needless: Needless | None, *, workers: int) -> Iterator[list[Line]]:
    """The lines of all rows, as they are finished, by this process and ``workers - 1`` others.

    A worker that is still starting when the last row is finished is not waited for.
    """
    others = min(workers, len(waiting[0])) - 1
    tasks, answers = Tasks(waiting, others + 1, needless), SimpleQueue[Any]()
    with Scratch.new(None) if others > 0 else contextlib.nullcontext() as scratch:
        path = None if scratch is None else _handed_over(work, scratch.path)
        posts = [] if path is None else [_Post(path, tasks, answers) for _ in range(others)]
        try:
            yield from _until_done(work, tasks, answers)
        finally:
            for post in posts:
                post.close()


def _until_done(work: Work, tasks: Tasks, answers: SimpleQueue[Any]) -> Iterator[list[Line]]:
    """Work of our own; between two portions, and when nothing is left to take, what others have finished."""
    done = 0
    while done < tasks.wanted:
        task = tasks.take()
        if task is not None:
            lines = work.lines(task)
            tasks.learn(lines)
            done += len(lines)
            yield lines
        while done < tasks.wanted and (task is None or not answers.empty()):
            answer = answers.get()
            if answer is None:  # a worker died, and gave back what it had taken
                break
            lines = checked(answer)
            done += len(lines)
            yield lines


def checked(answer: list[Line] | Exception) -> list[Line]:
    """The lines; raises what went wrong instead."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def _handed_over(work: Work, folder: Path) -> Path | None:
    try:
        return written(work, folder)
    except OSError as error:
        raise StorageError(
            f"cannot write the explainer to {str(folder.parent)!r} for worker processes: {error.strerror or error}",
            hint="free some space there, set TMPDIR to another folder, or use one worker",
        ) from error
    except Exception as error:  # pickling fails in as many ways as there are models
        warnings.warn(
            f"the model cannot be sent to other processes, so only this one works: {type(error).__name__}: {error}",
            stacklevel=2,
        )
        return None


class _Post:
    """One place for a worker, and the thread that serves it."""

    def __init__(self, path: Path, tasks: Tasks, answers: SimpleQueue[Any]) -> None:
        self._path, self._tasks, self._answers = path, tasks, answers
        self._deaths, self._closed = 0, False
        self._process = self._started()
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the worker home: its input ends; if work is left it is not waited for."""
        self._closed = True
        self._process.kill()
        self._thread.join()
        self._bury()

    def _bury(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # what was not sent yet
                cast(IO[bytes], pipe).close()

    def _started(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", WORKER]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def _serve(self) -> None:
        """Have the worker explain what waits, from when it is ready until nothing does."""
        ready, task = False, None
        while not self._closed:
            try:
                if not ready:
                    self._send(str(self._path))
                    ready = bool(self._received())
                task = self._tasks.take()
                if task is None:
                    return
                self._send(task)
                answer = self._received()
            except (EOFError, OSError, ValueError, pickle.UnpicklingError):
                if task is not None:
                    self._tasks.give_back(task)
                    self._answers.put(None)
                ready, task = False, None
                if not self._replaced():
                    return
                continue
            task = None
            if not isinstance(answer, Exception):
                self._tasks.learn(answer)
            self._answers.put(answer)

    def _received(self) -> Any:
        return pickle.load(cast(IO[bytes], self._process.stdout))  # of our own worker

    def _replaced(self) -> bool:
        """Whether there is a new worker for the one that died; one that always dies is given up."""
        self._deaths += 1
        if self._closed:
            return False
        if self._deaths >= MOST_DEATHS:
            died = f"a worker process died {counted(MOST_DEATHS, 'time')}"
            self._answers.put(IronruleError(died, hint="check that it has enough memory", code="worker-died"))
            return False
        self._bury()
        self._process = self._started()
        return True

    def _send(self, message: Any) -> None:
        pipe = cast(IO[bytes], self._process.stdin)
        pickle.dump(message, pipe, protocol=5)
        pipe.flush()
