"""Work in threads: a few workers, a bounded queue, progress that others can look at, and cancel.

A job is stopped by the library's own mechanism: its budget has a watch (:class:`ironrule.Budget`), which raises
KeyboardInterrupt in the search's thread once somebody has cancelled the job; the search then gives the best it has.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ironrule.errors import IronruleError
from ironrule.server.problem import Problem, brief, busy, missing, problem_of
from ironrule.server.settings import Limits
from ironrule.verdict import Budget, Meter

State = Literal["waiting", "running", "done", "failed", "cancelled"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is. ``best`` is what the best rule so far weighs, ``at_least`` what none can weigh less than."""

    seconds: float = 0.0
    evaluations: int = 0
    candidates: int = 0
    oracle_calls: int = 0
    best: float | None = None
    at_least: float = 0.0
    doing: Literal["preparing", "searching"] = "searching"  # preparing: a part of the space that is new
    done: int = 0  # rows of a batch
    total: int = 1


@dataclass(slots=True, eq=False)
class Job:
    """One piece of work. Only its worker changes it, except for the wish to stop."""

    name: str
    kind: str
    row: int | None = None
    state: State = "waiting"
    progress: Progress = field(default_factory=Progress)
    result: Any = None
    problem: Problem | None = None
    wish: threading.Event = field(default_factory=threading.Event)
    future: Future[None] = field(default_factory=Future)
    finished: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.state in ENDED

    def watch(self, meter: Meter) -> None:
        """Look at a search, and stop it if somebody wants that."""
        glance = meter.glance()
        self.progress = replace(
            self.progress,
            seconds=meter.elapsed,
            evaluations=meter.evaluations,
            candidates=meter.events["candidates"],
            oracle_calls=meter.events["oracle calls"],
            best=glance.best,
            at_least=glance.at_least,
        )
        if self.wish.is_set():
            raise KeyboardInterrupt

    def budget(self, seconds: float, evaluations: int) -> Budget:
        """A budget under which the job can be watched and stopped."""
        return Budget(evaluations=evaluations, seconds=seconds, watch=self.watch)

    def to_dict(self) -> dict[str, Any]:
        """The job as plain data."""
        progress = {name: getattr(self.progress, name) for name in Progress.__slots__}
        told = None if self.problem is None else self.problem.to_dict()["error"]
        return {
            "job": self.name,
            "kind": self.kind,
            "row": self.row,
            "state": self.state,
            "progress": progress,
            "result": self.result if self.ended else None,
            "error": told,
        }


class Jobs:
    """The workers and what they work on. The oldest jobs that have ended are forgotten."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._lock = limits, threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="ironrule-job")

    def start(self, kind: str, work: Callable[[Job], Any], row: int | None = None) -> Job:
        """Start work, or put it in the queue; raises a 429 where that is full."""
        job = Job(secrets.token_urlsafe(16), kind, row)
        with self._lock:
            if self.unfinished >= self._limits.workers + self._limits.waiting:
                raise busy(f"{self._limits.waiting} jobs are waiting already")
            self._jobs[job.name] = job
            self._forget()
        job.future = self._pool.submit(_run, job, work)
        return job

    @property
    def unfinished(self) -> int:
        """How many jobs wait or run."""
        return sum(not job.ended for job in self._jobs.values())

    def find(self, name: str) -> Job:
        """A job by its name; raises a 404 if it is unknown or was dropped."""
        with self._lock:
            if name not in self._jobs:
                raise missing(f"job {brief(name)}", "old jobs are dropped: start another")
            return self._jobs[name]

    def cancel(self, job: Job) -> None:
        """Ask a job to end with the best it has; one that waits ends at once."""
        job.wish.set()
        if job.future.cancel():
            job.finished, job.state = time.monotonic(), "cancelled"

    def close(self) -> None:
        """End everything."""
        for job in list(self._jobs.values()):
            if not job.ended:
                self.cancel(job)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _forget(self) -> None:
        surplus = len(self._jobs) - self._limits.kept_jobs
        for name in [name for name, job in self._jobs.items() if job.ended][: max(0, surplus)]:
            del self._jobs[name]


def _run(job: Job, work: Callable[[Job], Any]) -> None:
    job.state = "running"
    state: State = "failed"
    try:
        job.result = work(job)
        state = "cancelled" if job.wish.is_set() else "done"
    except (KeyboardInterrupt, CancelledError):
        state = "cancelled"
    except Problem as problem:
        job.problem = problem
    except IronruleError as error:
        job.problem = problem_of(error)
    except Exception as error:  # of a user's model, or of ours: the job says so, and the log has all of it
        from ironrule.server.logs import unexpected

        job.problem = unexpected(error)
    finally:
        job.finished = time.monotonic()
        job.state = state  # last: who sees it ended sees all of it
