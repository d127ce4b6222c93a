"""Jobs: work in threads, with a few workers, a bounded queue, progress, and cancel.

A job is stopped by the library's own mechanism: its budget has a callback (:class:`ironrule.Budget`), which raises
KeyboardInterrupt in the thread of the search once the job is cancelled; the search then returns the best it has.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from ironrule.server.errors import ApiError, build_busy_error, build_not_found_error, format_brief, to_api_error
from ironrule.server.settings import ServerLimits
from ironrule.verdict.budget import Meter

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]
ENDED_STATES: tuple[JobState, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is."""

    seconds: float = 0.0
    evaluations: int = 0
    candidates: int = 0
    oracle_calls: int = 0
    best_weight: Annotated[float | None, Field(description="of the best rule so far, which may be unproven")] = None
    lower_bound: Annotated[float, Field(description="no rule weighs less")] = 0.0
    phase: Annotated[Literal["preparing", "searching"], Field(description="preparing: a new subspace")] = "searching"
    rows_done: Annotated[int, Field(description="of a batch")] = 0
    rows_total: int = 1


@dataclass(slots=True, eq=False)
class Job:
    """One piece of work. Only its worker changes it, except for ``cancel_requested``."""

    name: str
    kind: str
    row: int | None = None
    state: JobState = "waiting"
    progress: JobProgress = field(default_factory=JobProgress)
    result: Any = None
    error: ApiError | None = None
    cancel_requested: threading.Event = field(default_factory=threading.Event)
    future: Future[None] = field(default_factory=Future)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come."""
        return self.state in ENDED_STATES

    def update_progress(self, meter: Meter) -> None:
        """Look at a search, and stop it if the job was cancelled."""
        report = meter.report_progress()
        self.progress = replace(
            self.progress,
            seconds=meter.elapsed,
            evaluations=meter.evaluations,
            candidates=meter.events["candidates"],
            oracle_calls=meter.events["oracle calls"],
            best_weight=report.best,
            lower_bound=report.lower_bound,
        )
        if self.cancel_requested.is_set():
            raise KeyboardInterrupt

    def to_dict(self) -> dict[str, Any]:
        """The job as plain data."""
        return {
            "job": self.name,
            "kind": self.kind,
            "row": self.row,
            "state": self.state,
            "progress": asdict(self.progress),
            "result": self.result if self.has_ended else None,
            "error": None if self.error is None else self.error.to_dict()["error"],
        }


class JobQueue:
    """The workers and their jobs. The oldest jobs that have ended are dropped; a cache of cachetools would also drop
    jobs that still run.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits, self._lock = limits, threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="ironrule-job")

    def start(self, kind: str, work: Callable[[Job], Any], row: int | None = None) -> Job:
        """Start work, or put it in the queue; raises a 429 where that is full."""
        job = Job(secrets.token_urlsafe(16), kind, row)
        with self._lock:
            if self.unfinished_count >= self._limits.workers + self._limits.queued_jobs:
                raise build_busy_error(f"{self._limits.queued_jobs} jobs are waiting already")
            self._jobs[job.name] = job
            self._drop_old_jobs()
        job.future = self._pool.submit(_run_job, job, work)
        return job

    @property
    def unfinished_count(self) -> int:
        """How many jobs wait or run."""
        return sum(not job.has_ended for job in self._jobs.values())

    def find(self, name: str) -> Job:
        """A job by its name; raises a 404 if it is unknown or was dropped."""
        with self._lock:
            if name not in self._jobs:
                raise build_not_found_error(f"job {format_brief(name)}", "old jobs are dropped: start another")
            return self._jobs[name]

    def cancel(self, job: Job) -> None:
        """Ask a job to end with the best it has; one that waits ends at once."""
        job.cancel_requested.set()
        if job.future.cancel():
            job.state = "cancelled"

    def close(self) -> None:
        """End everything."""
        for job in list(self._jobs.values()):
            if not job.has_ended:
                self.cancel(job)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _drop_old_jobs(self) -> None:
        surplus = len(self._jobs) - self._limits.kept_jobs
        for name in [name for name, job in self._jobs.items() if job.has_ended][: max(0, surplus)]:
            del self._jobs[name]


def _run_job(job: Job, work: Callable[[Job], Any]) -> None:
    job.state = "running"
    state: JobState = "failed"
    try:
        job.result = work(job)
        state = "cancelled" if job.cancel_requested.is_set() else "done"
    except (KeyboardInterrupt, CancelledError):
        state = "cancelled"
    except Exception as error:  # of the library, of a user's model, or a failure of the server
        job.error = to_api_error(error)
    finally:
        job.state = state  # last, so that a job that has ended is complete
