"""Waiting for a job's end without holding up anybody else, and reading what it left in the audit log."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import Any

from ironrule.server.answering import Service
from ironrule.server.audit import Record
from ironrule.server.jobs import Job
from ironrule.server.problem import LOG, Problem, missing

GRACE_SECONDS = 30.0


async def ended_within(job: Job, seconds: float) -> bool:
    """Whether a job ends in time; it runs on if not."""
    waiting = asyncio.wrap_future(job.future)
    try:
        await asyncio.wait_for(asyncio.shield(waiting), seconds)
    except TimeoutError:
        return False
    except (asyncio.CancelledError, CancelledError):
        if not job.future.cancelled():
            raise
    return True


async def finished(service: Service, job: Job) -> Any:
    """The result of a job; raises its problem if it failed, and a 503 if it takes too long."""
    if not await ended_within(job, service.settings.limits.seconds + GRACE_SECONDS):
        service.jobs.cancel(job)
        limit = service.settings.limits.seconds + GRACE_SECONDS
        raise Problem(503, "timeout", f"no answer within {limit:g} s", hint="start a job and watch it")
    return result_of(job)


def result_of(job: Job) -> Any:
    """The result of a job that has ended; raises its problem if it failed or was cancelled before it had any."""
    if job.problem is not None:
        raise job.problem
    if job.result is None:
        raise Problem(503, "cancelled", "the job was cancelled before it had a result", hint="start another")
    return job.result


def record_of(service: Service, number: int) -> Record:
    """A record of the audit log; raises a 404 for an unknown number."""
    record = service.audit.read(number)
    if record is None:
        raise missing(f"explanation {number}", LOG)
    return record
