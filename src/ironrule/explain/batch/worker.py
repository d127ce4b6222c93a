"""A worker: another process that explains rows for a batch.

It reads from standard input where the pickled explainer is, then which rows to explain, and writes results to what was
its standard output; what a user's model prints goes to standard error instead. When the process that started it ends,
for whatever reason, standard input ends, and so does the worker.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ironrule.arrays import BoolArray, Int64Array, Points
from ironrule.backends.parallel import use_one_core
from ironrule.errors import IronruleError
from ironrule.explain.context import EncodedRow
from ironrule.explain.options import SearchOptions
from ironrule.explain.query import ConfirmationQueue
from ironrule.interrupts import InterruptFlag, get_interrupt_flag, use_interrupt_flag
from ironrule.progress import leave_announcements_to_others
from ironrule.results.batch_storage import BatchRow, StoredRow, build_batch_row, build_ladder_row

if TYPE_CHECKING:
    from ironrule.explain.ladder import LadderOptions


class EncodedRows(Protocol):
    """Rows whose codes can be had, some at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: Any) -> Points: ...


Task = tuple[tuple[int, ...], Points]
"""The numbers of some rows, and their codes."""

PendingRows = tuple[Sequence[int] | Int64Array, EncodedRows]
"""The numbers of many rows, and their codes, which may lie on disk."""

IsCovered = Callable[[Points], BoolArray]
"""Which of some rows need not be explained any more."""


StoredT = TypeVar("StoredT", bound=StoredRow)
StoredT_co = TypeVar("StoredT_co", bound=StoredRow, covariant=True)


class TaskRunner(Protocol[StoredT_co]):
    """Works out what a batch keeps of some rows; it is pickled, and sent to other processes."""

    def explain_task(self, task: Task) -> Sequence[StoredT_co]:
        """What is kept of the rows of a task."""


@dataclass(frozen=True, slots=True, eq=False)
class RowExplainer:
    """An explainer, and the options with which it explains every row of a batch."""

    explainer: Any
    options: SearchOptions
    documents: bool
    changes: bool = False  # whether changes are suggested; they can take longer than the search for the rule
    ladder: LadderOptions | None = None  # where every row gets a ladder too

    def explain_row(self, row: int, point: Points, confirmations: ConfirmationQueue) -> BatchRow:
        """The explanation of one row; raises KeyboardInterrupt if any phase of it was interrupted.

        Every interruption sets the flag of this context: by itself, or when a search noted that it ended early.
        """
        with use_interrupt_flag(get_interrupt_flag() or InterruptFlag()) as flag:
            encoded = EncodedRow(point, confirmations)
            if self.ladder is not None:
                finished = self._build_ladder_row(row, encoded, self.ladder, flag)
            else:
                explanation = self.explainer.explain(encoded, progress=False, **self.options.to_kwargs())
                flag.check()
                if self.changes:
                    explanation = self.explainer.add_changes(explanation, cost=self.options.change_cost)
                finished = build_batch_row(row, tuple(point.tolist()), explanation, self.documents)
            flag.check()
        return finished

    def _build_ladder_row(self, row: int, encoded: EncodedRow, chosen: LadderOptions, flag: InterruptFlag) -> BatchRow:
        """The ladder of one row; its last rung is the explanation of the row."""
        kwargs = chosen.to_kwargs() | self.options.to_kwargs()
        ladder = self.explainer.ladder(encoded, progress=False, **kwargs)
        flag.check()
        if self.changes:
            explanation = self.explainer.add_changes(ladder.explanation, cost=self.options.change_cost)
            ladder = replace(ladder, explanation=explanation)
        return build_ladder_row(row, tuple(encoded.codes.tolist()), ladder)

    def explain_task(self, task: Task) -> list[BatchRow]:
        """The explanations of several rows, confirmed by the model, in one thread: the cores share out rows."""
        confirmations = ConfirmationQueue()
        with use_one_core():
            rows = [self.explain_row(row, point, confirmations) for row, point in zip(*task, strict=True)]
            confirmations.confirm()
        return rows


def run_worker() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process is interrupted too, and decides
    leave_announcements_to_others()
    from ironrule.explain.batch.process_pool import read_pickle

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tasks = sys.stdin.buffer
    with contextlib.suppress(EOFError, BrokenPipeError):  # the parent process has ended
        runner: TaskRunner[StoredRow] = read_pickle(Path(pickle.load(tasks)))
        answer: Any = "ready"
        while True:
            pickle.dump(answer, answers, protocol=5)
            answers.flush()
            answer = run_task(runner, pickle.load(tasks))
    os._exit(0)  # what is still in the pipe can go nowhere


def run_task(runner: TaskRunner[StoredT], task: Task) -> Sequence[StoredT] | Exception:
    """Explained rows, or what went wrong."""
    try:
        return runner.explain_task(task)
    except Exception as error:  # raised again by the parent process
        return _make_picklable(error)


def _make_picklable(error: Exception) -> Exception:
    """The error itself if it survives the way to another process, else its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # a library's own kind of error; what it says is what counts
        return IronruleError(f"{type(error).__name__}: {error}")
    return error
