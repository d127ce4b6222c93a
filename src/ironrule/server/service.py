"""From a request to an answer that is in the audit log. Every explanation that leaves the server comes from here.

A request starts a job; the job explains, appends a record to the log, and its result is the number of that record. A
handler waits for the job without blocking other requests, then reads the record back; if its client leaves, the job is
cancelled.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import Request

from ironrule.explain.explainer import Explainer
from ironrule.explain.options import SearchOptions, parse_budget
from ironrule.report.ladder import describe_rung
from ironrule.report.text import describe_scope, get_verdict_name
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.server.applicants import Applicants, SavedSearches
from ironrule.server.audit.log import AuditLog
from ironrule.server.audit.record import AuditEntry, AuditRecord
from ironrule.server.batches import BatchRegistry
from ironrule.server.counterfactuals import CounterfactualsRequest, find_recorded_counterfactuals
from ironrule.server.errors import LOG_HINT, ApiError, build_not_found_error
from ironrule.server.jobs import Job, JobQueue
from ironrule.server.served_model import RowInput, ServedModel, validate_constraints
from ironrule.server.settings import ServerSettings
from ironrule.verdict.bounded import DEFAULT_CONFIDENCE
from ironrule.verdict.budget import Budget
from ironrule.wording import format_count

RECORD_FOLDERS = {"explanation": "explanations", "ladder": "ladders", "counterfactuals": "counterfactuals"}


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A row to explain, and how to search for a rule."""

    row: RowInput
    options: SearchOptions = field(default_factory=SearchOptions)
    where: tuple[str, ...] = ()  # constraints on what can occur, on top of those that are served


@dataclass(frozen=True, slots=True)
class LadderRequest:
    """A row to explain by short rules too: how long they may be, and how certain their bounds."""

    explain: ExplainRequest
    most: int = 6
    nested: bool = True
    at_least: float | None = None
    confidence: float = DEFAULT_CONFIDENCE


@dataclass(frozen=True, slots=True)
class Service:
    """Everything that a request may need."""

    served_model: ServedModel
    settings: ServerSettings
    applicants: Applicants
    audit: AuditLog
    jobs: JobQueue
    searches: SavedSearches
    batches: BatchRegistry

    def start_explanation(self, request: ExplainRequest, who: str) -> Job:
        """Start the search for a rule; the job's result is the number of the record."""
        row, asked = self._check_row(request.row), self.validate_request(request)

        def record_explanation(job: Job) -> int:
            found = self.explain(self.prepare_explainer(asked, job), asked, job)
            return self.audit.append(build_explanation_entry(found, row, who)).number

        return self.jobs.start("explanation", record_explanation, who, row)

    def start_ladder(self, request: LadderRequest, who: str) -> Job:
        """Start the search for a ladder; the job's result is the number of the record."""
        row, asked = self._check_row(request.explain.row), self.validate_request(request.explain)

        def record_ladder(job: Job) -> int:
            found = self._build_ladder(replace(request, explain=asked), job)
            return self.audit.append(build_ladder_entry(found, row, who)).number

        return self.jobs.start("ladder", record_ladder, who, row)

    def start_counterfactuals(self, request: CounterfactualsRequest, who: str) -> Job:
        """Start the search for counterfactuals; the result is the number of the record."""
        row, explainer = self._check_row(request.row), self.served_model.explainer

        def record_counterfactuals(job: Job) -> int:
            answer = find_recorded_counterfactuals(explainer, request, self._limit_budget(request.options, job))
            found, document = answer.found, dict(answer.document)
            count, status = format_count(len(found), "counterfactual"), "proven" if found.proven else "found"
            space, model = explainer.space.fingerprint, explainer.fingerprint
            entry = AuditEntry(who, "counterfactuals", row, space, model, rule=count, verdict=status, document=document)
            return self.audit.append(entry).number

        return self.jobs.start("counterfactuals", record_counterfactuals, who, row)

    def start_check(self, document: Any, who: str) -> Job:
        """Check an explanation; nothing is recorded, since nothing is explained."""
        return self.jobs.start("check", lambda _: self.served_model.check(document).to_dict(), who)

    def close(self) -> None:
        """End all jobs, and close the log."""
        self.jobs.close()
        self.audit.close()

    def _check_row(self, row: RowInput) -> int | None:
        if not isinstance(row, int):
            return None
        self.applicants.find_position(row)
        return row

    def validate_request(self, request: ExplainRequest) -> ExplainRequest:
        """The request with valid constraints; whether any row satisfies them is found by the job."""
        return replace(request, where=validate_constraints(request.where, self.served_model.space))

    def prepare_explainer(self, request: ExplainRequest, job: Job) -> Explainer:
        """The explainer of the subspace that is asked about."""
        job.progress = replace(job.progress, phase="preparing")
        explainer = self.served_model.get_subspace(request.where).explainer
        job.progress = replace(job.progress, phase="searching")
        return explainer

    def explain(
        self, explainer: Explainer, request: ExplainRequest, job: Job, seconds: float | None = None
    ) -> Explanation:
        """The explanation of one row, within the limits of the server and in at most so many seconds."""
        budget = self._limit_budget(request.options, job)
        if seconds is not None:
            budget = replace(budget, seconds=min(budget.seconds or seconds, seconds))
        options = replace(request.options, budget=budget)
        return explainer.explain(request.row, progress=False, **options.to_kwargs())

    def _build_ladder(self, request: LadderRequest, job: Job) -> Ladder:
        explainer, asked = self.prepare_explainer(request.explain, job), request.explain
        options = replace(asked.options, budget=self._limit_budget(asked.options, job))
        return explainer.ladder(
            asked.row,
            request.most,
            nested=request.nested,
            at_least=request.at_least,
            confidence=request.confidence,
            progress=False,
            **options.to_kwargs(),
        )

    def _limit_budget(self, options: SearchOptions, job: Job) -> Budget:
        """What is asked for, but no more than the server allows, under which the job can be watched and stopped."""
        asked, limits = parse_budget(options.budget), self.settings.limits
        return replace(
            asked,
            seconds=min(asked.seconds or limits.seconds, limits.seconds),
            evaluations=min(asked.evaluations or limits.evaluations, limits.evaluations),
            callback=job.update_progress,
        )


def build_explanation_entry(explanation: Explanation, row: int | None, who: str) -> AuditEntry:
    """The record of an explanation."""
    rule, document = " ".join([str(explanation.rule), *describe_scope(explanation)]), explanation.to_dict()
    space, model, verdict = explanation.space, explanation.model, get_verdict_name(explanation.verdict)
    return AuditEntry(who, "explanation", row, space, model, rule=rule, verdict=verdict, document=document)


def build_ladder_entry(ladder: Ladder, row: int | None, who: str) -> AuditEntry:
    """The record of a ladder. Its rule and verdict are those of the rung that is read first."""
    rule, verdict = describe_rung(ladder, ladder.short), get_verdict_name(ladder.short.verdict)
    space, model = ladder.explanation.space, ladder.explanation.model
    return AuditEntry(who, "ladder", row, space, model, rule=rule, verdict=verdict, document=ladder.to_dict())


GRACE_SECONDS = 30.0


async def wait_for_end(job: Job, seconds: float) -> bool:
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


async def wait_for_client(service: Service, job: Job, request: Request, seconds: float) -> bool:
    """Whether a job ends in time, for a client who waits for it; if the client leaves, the job is cancelled."""
    leaving = asyncio.create_task(_wait_for_leave(request))
    ending = asyncio.create_task(wait_for_end(job, seconds))
    try:
        await asyncio.wait((leaving, ending), return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            service.jobs.cancel(job)
            raise ApiError(503, "cancelled", "the client left before there was a result", hint="ask again")
        return ending.result()
    finally:
        leaving.cancel()
        ending.cancel()


async def _wait_for_leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def wait_for_result(service: Service, job: Job, request: Request) -> Any:
    """The result of a job; raises its error if it failed, and a 503 if it was cancelled or takes too long."""
    limit = service.settings.limits.seconds + GRACE_SECONDS
    if not await wait_for_client(service, job, request, limit):
        service.jobs.cancel(job)
        raise ApiError(503, "timeout", f"no answer within {limit:g} s", hint="start a job and watch it")
    if job.error is not None:
        raise job.error
    if job.result is None:
        raise ApiError(503, "cancelled", "the job was cancelled before it had a result", hint="start another")
    return job.result


def read_record(service: Service, number: int, kind: str | None = None) -> AuditRecord:
    """A record of the audit log; raises a 404 for an unknown number, or one of another kind."""
    record = service.audit.read(number)
    if record is None or kind not in (None, record.kind):
        raise build_not_found_error(f"{kind or 'explanation'} {number}", LOG_HINT)
    return record
