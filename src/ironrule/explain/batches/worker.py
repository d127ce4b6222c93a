"""A worker: another process that explains rows for a batch.

It is told by standard input where the explainer lies, then which rows to explain, and answers on what was its standard
output; whatever a user's model prints goes to standard error instead. When the process that started it ends, however it
ends, standard input ends, and so does the worker.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ironrule.explain.batches.line import Line, line_of
from ironrule.explain.confirming import Unconfirmed
from ironrule.explain.question import KnownPoint, Question
from ironrule.space import Points


class Coded(Protocol):
    """Rows whose codes can be had, some at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: Any) -> Points: ...


Task = tuple[tuple[int, ...], Points]
"""The numbers of some rows, and their codes."""

Waiting = tuple[Sequence[int] | npt.NDArray[np.int64], Coded]
"""The numbers of many rows, and their codes, which may lie on disk."""

Needless = Callable[[Points], npt.NDArray[np.bool_]]
"""Which of some rows need not be explained any more."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What every row is asked, and of whom."""

    explainer: Any
    question: Question
    documents: bool

    def line(self, row: int, point: Points, unconfirmed: Unconfirmed) -> Line:
        """The explanation of one row; raises KeyboardInterrupt where the search was interrupted."""
        found = self.explainer.explain(KnownPoint(point, unconfirmed), **self.question.arguments())
        if found.statistics.stopped == "interrupted":
            raise KeyboardInterrupt
        return line_of(row, tuple(point.tolist()), found, self.documents)

    def lines(self, task: Task) -> list[Line]:
        """The explanations of several rows, confirmed by the model, in one thread: it is rows that are shared out
        between the cores.
        """
        from ironrule.oracles.threads import one_core

        unconfirmed = Unconfirmed()
        with one_core():
            lines = [self.line(row, point, unconfirmed) for row, point in zip(*task, strict=True)]
            unconfirmed.confirm()
        return lines


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us is interrupted too, and decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tasks = sys.stdin.buffer
    with contextlib.suppress(EOFError, BrokenPipeError):  # so it is told that nobody is left to work for
        work = _loaded(Path(pickle.load(tasks)))
        answer: Any = "ready"
        while True:
            pickle.dump(answer, answers, protocol=5)
            answers.flush()
            answer = answered(work, pickle.load(tasks))
    os._exit(0)  # what is still in the pipe can go nowhere


def _loaded(path: Path) -> Work:
    from ironrule.explain.batches.handover import read

    work: Work = read(path)
    return work


def answered(work: Work, task: Task) -> list[Line] | Exception:
    """Lines, or what went wrong."""
    try:
        return work.lines(task)
    except Exception as error:  # raised again by whoever asked
        return _portable(error)


def _portable(error: Exception) -> Exception:
    """The error itself if it survives the way to another process, else its text."""
    from ironrule.errors import IronruleError

    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # a library's own kind of error; what it says is what counts
        return IronruleError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    main()
