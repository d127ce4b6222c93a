"""Jobs: work in threads, with a few workers, a share for every user, progress, and cancel.

Every user has a queue; workers take from the queues in turn, so a user with many jobs delays only these. A job of one
row goes before batches. A batch is done row by row: after each row its worker takes what is next, and batches never
hold all workers at the same time. A user of whom nothing runs gets a worker even when others hold all of them, up to
twice as many. All threads share one interpreter, so more of them would only slow each other down.

A job is stopped by the library's own mechanism: its budget has a callback (:class:`ironrule.Budget`), which raises
KeyboardInterrupt in the thread of the search once the job is cancelled; the search then returns the best it has.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter, OrderedDict, deque
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
    who: str
    row: int | None = None
    by_rows: bool = False  # a batch, which is done row by row
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


UNFINISHED = object()  # what the work on a batch gives for every row but the last
Work = Callable[[Job], Any]


class FairQueue:
    """Jobs that wait: first come, first served for each user, and all users in turn."""

    def __init__(self) -> None:
        self._by_user: OrderedDict[str, deque[Job]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._by_user.values()))

    def put(self, job: Job) -> None:
        """Add a job behind the others of its user."""
        self._by_user.setdefault(job.who, deque()).append(job)

    def take(self, may_run: Callable[[str], bool]) -> Job | None:
        """The next job of the first user who may run one; this user is then the last."""
        for who, jobs in self._by_user.items():
            if may_run(who):
                found = jobs.popleft()
                del self._by_user[who]
                if jobs:
                    self._by_user[who] = jobs
                return found
        return None

    def remove(self, job: Job) -> None:
        """Take out a job that need not wait any more."""
        jobs = self._by_user.get(job.who, deque())
        if job in jobs:
            jobs.remove(job)
        if not jobs:
            self._by_user.pop(job.who, None)


ROWS_BEFORE_BATCH = 10  # single rows that may go before the row of a batch, one after the other


class JobQueue:
    """The workers and their jobs. The oldest jobs of a user that have ended are dropped; a cache of cachetools would
    also drop jobs that still run.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits, self._lock = limits, threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._work: dict[str, Work] = {}  # of jobs that have not ended
        self._rows, self._batch_rows = FairQueue(), FairQueue()
        self._running: Counter[str] = Counter()  # by user
        self._running_batches = self._rows_in_sequence = 0
        self._closed = False
        self._pool = ThreadPoolExecutor(2 * limits.workers, thread_name_prefix="ironrule-job")

    def start(self, kind: str, work: Work, who: str, row: int | None = None, by_rows: bool = False) -> Job:
        """Start work, or put it in the queue; raises a 429 where that of the user is full."""
        job = Job(secrets.token_urlsafe(16), kind, who, row, by_rows)
        with self._lock:
            if self.count_unfinished(who) >= self._limits.workers + self._limits.queued_jobs:
                raise build_busy_error(f"{self._limits.queued_jobs} jobs are waiting already")
            self._jobs[job.name], self._work[job.name] = job, work
            self._drop_old_jobs(who)
            self._put(job)
            self._start_next()
        return job

    def count_unfinished(self, who: str) -> int:
        """How many jobs of a user wait or run."""
        return sum(job.who == who and not job.has_ended for job in self._jobs.values())

    def find(self, name: str) -> Job:
        """A job by its name; raises a 404 if it is unknown or was dropped."""
        found = self.find_or_none(name)
        if found is None:
            raise build_not_found_error(f"job {format_brief(name)}", "old jobs are dropped: start another")
        return found

    def find_or_none(self, name: str) -> Job | None:
        """A job by its name; None if it is unknown or was dropped."""
        with self._lock:
            return self._jobs.get(name)

    def cancel(self, job: Job) -> None:
        """Ask a job to end with the best it has; one that waits ends at once."""
        job.cancel_requested.set()
        with self._lock:
            if job.future.cancel():
                self._rows.remove(job)
                self._batch_rows.remove(job)
                self._work.pop(job.name, None)
                job.state = "cancelled"

    def close(self) -> None:
        """End everything."""
        for job in list(self._jobs.values()):
            if not job.has_ended:
                self.cancel(job)
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _drop_old_jobs(self, who: str) -> None:
        own = [job for job in self._jobs.values() if job.who == who]
        for job in [job for job in own if job.has_ended][: max(0, len(own) - self._limits.kept_jobs)]:
            del self._jobs[job.name]

    def _put(self, job: Job) -> None:
        (self._batch_rows if job.by_rows else self._rows).put(job)

    def _start_next(self) -> None:
        """Give work to the workers as long as there is some that may run."""
        while not self._closed and (job := self._take_next()) is not None:
            self._running[job.who] += 1
            self._running_batches += job.by_rows
            self._pool.submit(self._run, job, self._work[job.name])

    def _take_next(self) -> Job | None:
        """A single row, or after some of these a row of a batch that waits."""
        if self._rows_in_sequence >= ROWS_BEFORE_BATCH and (job := self._take_batch_row()) is not None:
            return job
        if (job := self._rows.take(self._may_run_row)) is not None:
            self._rows_in_sequence = self._rows_in_sequence + 1 if len(self._batch_rows) else 0
            return job
        return self._take_batch_row()

    def _take_batch_row(self) -> Job | None:
        most = max(1, self._limits.workers - 1)
        if self._running_batches >= most or self._running.total() >= self._limits.workers:
            return None
        self._rows_in_sequence = 0
        return self._batch_rows.take(lambda _: True)

    def _may_run_row(self, who: str) -> bool:
        running, workers = self._running.total(), self._limits.workers
        return running < workers or (running < 2 * workers and not self._running[who])

    def _run(self, job: Job, work: Work) -> None:
        """Do a job, or a row of it, unless it was cancelled in the meantime; then see what is next."""
        ended = True
        if job.state == "running" or job.future.set_running_or_notify_cancel():
            ended = _advance(job, work)
        with self._lock:
            self._running[job.who] -= 1
            if not self._running[job.who]:
                del self._running[job.who]
            self._running_batches -= job.by_rows
            if ended:
                self._work.pop(job.name, None)
            else:
                self._put(job)
            self._start_next()


def _advance(job: Job, work: Work) -> bool:
    """Do a job, or a row of it; gives whether that was all."""
    job.state = "running"
    state: JobState = "failed"
    try:
        result = work(job)
        if result is UNFINISHED:
            state = "running"
            return False
        job.result = result
        state = "cancelled" if job.cancel_requested.is_set() else "done"
    except (KeyboardInterrupt, CancelledError):
        state = "cancelled"
    except Exception as error:  # of the library, of a user's model, or a failure of the server
        job.error = to_api_error(error)
    finally:
        job.state = state  # last, so that a job that has ended is complete
        if job.has_ended:
            job.future.set_result(None)
    return True
