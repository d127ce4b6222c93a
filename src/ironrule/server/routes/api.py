"""The HTTP API. Everything under ``/api`` speaks JSON alone; ``/api/openapi.json`` documents it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from ironrule.server import schemas
from ironrule.server.applicants import ListQuery, OutcomeFilter, SortOrder
from ironrule.server.audit.record import AuditRecord
from ironrule.server.auth import BrowserSessions
from ironrule.server.batch_run import start_batch
from ironrule.server.errors import STATUS_TITLES, ErrorResponse
from ironrule.server.jobs import Job
from ironrule.server.routes.dependencies import ServiceDependency, UserDependency
from ironrule.server.service import Service, read_record, wait_for_result
from ironrule.server.views import cases

TICK_SECONDS, HEARTBEAT_TICKS = 0.1, 100

ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorResponse, "description": text} for code, text in STATUS_TITLES.items()
}

router = APIRouter(prefix="/api", responses=ERROR_RESPONSES, tags=["api"])
JobName = Annotated[str, Path(max_length=64)]


@router.get("/model")
def get_model(service: ServiceDependency) -> dict[str, Any]:
    """The model and the space: features, domains, fingerprints, and whether rules can be proven."""
    return cases.build_model_view(service)


@router.get("/applicants")
def list_applicants(
    service: ServiceDependency,
    outcome: OutcomeFilter = "any",
    page: Annotated[int, Query(ge=1, le=2**53)] = 1,
    size: Annotated[int, Query(ge=1, le=200)] = 25,
    search: Annotated[str | None, Query(max_length=64)] = None,
    sort: Annotated[str, Query(max_length=250, description="row, outcome, score or feature:NAME")] = "row",
    order: SortOrder = "ascending",
) -> dict[str, Any]:
    """A page of past rows, by outcome, or of those that a search has found, sorted."""
    query = ListQuery(outcome=outcome, page=page, size=size, search=search, sort=sort, order=order)
    return cases.build_applicants_view(service, query)


@router.post("/searches")
def search_applicants(service: ServiceDependency, body: schemas.ApplicantSearchBody) -> schemas.ApplicantSearchResponse:
    """Search among the past rows; the name that comes back goes to /api/applicants as search."""
    mask = service.applicants.search(body.text)
    return schemas.ApplicantSearchResponse(search=service.searches.save(body.text, mask), total=int(mask.sum()))


@router.post("/explain")
async def explain_row(
    request: Request, service: ServiceDependency, user: UserDependency, body: schemas.ExplainBody
) -> schemas.RecordResponse:
    """Explain a row with the undesired outcome by a rule, with what is known of it and the proof, if there is one."""
    wanted = body.to_request(schemas.convert_row(body.row))
    return await _wait_for_record(request, service, service.start_explanation(wanted, user.name))


@router.post("/ladder")
async def build_ladder(
    request: Request, service: ServiceDependency, user: UserDependency, body: schemas.LadderBody
) -> schemas.RecordResponse:
    """Explain a row by short rules, each with a measured bound on its exceptions, and by the whole rule."""
    return await _wait_for_record(request, service, service.start_ladder(body.to_ladder_request(), user.name))


@router.post("/counterfactuals")
async def find_counterfactuals(
    request: Request, service: ServiceDependency, user: UserDependency, body: schemas.CounterfactualsBody
) -> schemas.RecordResponse:
    """What would have changed the outcome, nearest first."""
    return await _wait_for_record(request, service, service.start_counterfactuals(body.to_request(), user.name))


@router.post("/check")
async def check_explanation(
    request: Request, service: ServiceDependency, user: UserDependency, body: schemas.CheckBody
) -> dict[str, Any]:
    """Check every claim of an explanation or a ladder against the model and the data; the search has no part in it."""
    found: dict[str, Any] = await wait_for_result(service, service.start_check(body.explanation, user.name), request)
    return found


@router.post("/what-if")
def evaluate_changes(service: ServiceDependency, body: schemas.WhatIfBody) -> dict[str, Any]:
    """Change values of a past row: the outcome then, and whether the rule of an explanation still applies."""
    changes = {name: schemas.convert_value(value) for name, value in body.changes.items()}
    return cases.answer_what_if(service, body.row, changes, body.explanation).to_dict()


@router.get("/explanations/{number}")
def get_explanation(service: ServiceDependency, number: Annotated[int, Path(ge=1, le=2**62)]) -> schemas.RecordResponse:
    """An answer that was given, from the audit log."""
    return _to_response(read_record(service, number))


@router.post("/jobs/explain", status_code=202, response_model=schemas.JobResponse)
def start_explain_job(service: ServiceDependency, user: UserDependency, body: schemas.ExplainBody) -> dict[str, Any]:
    """The same as /api/explain, as a job that can be watched and cancelled."""
    return service.start_explanation(body.to_request(schemas.convert_row(body.row)), user.name).to_dict()


@router.post("/jobs/ladder", status_code=202, response_model=schemas.JobResponse)
def start_ladder_job(service: ServiceDependency, user: UserDependency, body: schemas.LadderBody) -> dict[str, Any]:
    """The same as /api/ladder, as a job that can be watched and cancelled."""
    return service.start_ladder(body.to_ladder_request(), user.name).to_dict()


@router.post("/jobs/batch", status_code=202, response_model=schemas.JobResponse)
def start_batch_job(service: ServiceDependency, user: UserDependency, body: schemas.BatchBody) -> dict[str, Any]:
    """Explain many rows; the result has a line per row, with the number of its record or why there is none."""
    return start_batch(service, body.rows, body.to_request(0), user.name).to_dict()


@router.get("/jobs/{name}", response_model=schemas.JobResponse)
def get_job(service: ServiceDependency, name: JobName) -> dict[str, Any]:
    """A job and how far it is."""
    return service.jobs.find(name).to_dict()


@router.delete("/jobs/{name}", response_model=schemas.JobResponse)
def cancel_job(service: ServiceDependency, name: JobName) -> dict[str, Any]:
    """Cancel a job: it ends soon, with the best it has."""
    found = service.jobs.find(name)
    service.jobs.cancel(found)
    return found.to_dict()


@router.get("/jobs/{name}/events", response_class=StreamingResponse,
            responses={200: {"content": {"text/event-stream": {}}, "description": "server-sent events"}})  # fmt: skip
def stream_job_events(
    request: Request, service: ServiceDependency, user: UserDependency, name: JobName
) -> StreamingResponse:
    """The job as server-sent events: progress whenever something changed, and end at last."""
    sessions: BrowserSessions = request.app.state.sessions
    events = _iterate_events(service.jobs.find(name), lambda: sessions.is_current(user))
    return StreamingResponse(events, media_type="text/event-stream")


async def _iterate_events(found: Job, is_permitted: Callable[[], bool]) -> AsyncIterator[str]:
    last, quiet = "", 0
    while not found.has_ended:
        if not is_permitted():  # the token was revoked in the meantime, or has expired
            return
        now = json.dumps(found.to_dict())
        quiet = quiet + 1 if now == last else 0
        if quiet == 0:
            yield f"event: progress\ndata: {now}\n\n"
        elif quiet % HEARTBEAT_TICKS == 0:
            yield ": still there\n\n"  # so that no proxy closes the connection
        last = now
        await asyncio.sleep(TICK_SECONDS)
    yield f"event: end\ndata: {json.dumps(found.to_dict())}\n\n"


async def _wait_for_record(request: Request, service: Service, started: Job) -> schemas.RecordResponse:
    number = await wait_for_result(service, started, request)
    return _to_response(await run_in_threadpool(read_record, service, number))


def _to_response(record: AuditRecord) -> schemas.RecordResponse:
    return schemas.RecordResponse.model_validate(record, from_attributes=True)
