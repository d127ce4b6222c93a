"""A process of its own per task, so that a row which hangs or crashes costs that row and not the run.

A compiled search cannot be interrupted from within, so the limit is kept by the parent: it ends the process and starts
another. Every answer is a dictionary; one with "failed" says in words what went wrong.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

Answer = dict[str, Any]
START_LIMIT = 900.0  # compiling everything for the first time takes minutes on a busy machine
STARTS = 3  # a process that cannot be prepared is not tried for every row
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def load() -> float | None:
    """How busy the machine is, other programs included."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def serve(connection: Connection, prepare: Callable[..., tuple[Any, Answer]], given: tuple[Any, ...]) -> None:
    """The process: prepare once, then answer one question after the other."""
    try:
        state, first = prepare(*given)
    except Exception:
        connection.send({"failed": traceback.format_exc(limit=-3)})
        return
    connection.send(first)
    with contextlib.suppress(EOFError, BrokenPipeError):  # the parent is gone
        while True:
            question, arguments = connection.recv()
            connection.send(_answered(question, state, arguments) | {"load": load()})


def _answered(question: Callable[..., Answer], state: Any, arguments: tuple[Any, ...]) -> Answer:
    try:
        return question(state, *arguments)
    except Exception:
        return {"failed": traceback.format_exc(limit=-3)}


@dataclass(slots=True)
class Worker:
    """A process that is started when it is first asked, and anew after it was lost.

    ``prepare`` makes, in the process, the state that questions work on, and says what that took.
    """

    prepare: Callable[..., tuple[Any, Answer]]
    given: tuple[Any, ...]
    process: Any = None
    connection: Any = None
    prepared: Answer = field(default_factory=dict)
    vain: int = 0  # starts that failed

    def start(self) -> Answer:
        """What preparing gave; an answer with "failed" where it did not end well."""
        if self.process is None:
            os.environ.update(ONE_THREAD)
            context = multiprocessing.get_context("spawn")
            self.connection, theirs = context.Pipe()
            self.process = context.Process(target=serve, args=(theirs, self.prepare, self.given), daemon=True)
            self.process.start()
            theirs.close()
            self.prepared = self._answer(START_LIMIT)
        return self.prepared

    def ask(self, question: Callable[..., Answer], *arguments: Any, limit: float) -> Answer:
        """The answer to a question, or what went wrong."""
        if self.vain >= STARTS or "failed" in self.start():
            self.vain += 1
            self.stop()
            return {"failed": f"the process could not be prepared: {self.prepared['failed']}"}
        self.connection.send((question, arguments))
        return self._answer(limit)

    def _answer(self, limit: float) -> Answer:
        try:
            if self.connection.poll(limit):
                answer: Answer = self.connection.recv()
                return answer
            failed = f"no answer within {limit:.0f} s"
        except (EOFError, OSError):
            failed = f"the process died, exit code {self._exit_code()}"
        self.stop()
        return {"failed": failed, "load": load()}

    def _exit_code(self) -> int | None:
        self.process.join(10)
        return self.process.exitcode

    def stop(self) -> None:
        """End the process; the next question starts another."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
        self.process = None
