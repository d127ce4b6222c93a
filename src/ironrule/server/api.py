"""The HTTP API. Everything under ``/api`` speaks JSON alone; ``/api/openapi.json`` documents it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from ironrule.server import views
from ironrule.server.answering import Service
from ironrule.server.applicants import Outcome
from ironrule.server.bodies import (
    BatchBody,
    CheckBody,
    CounterfactualsBody,
    ExplainBody,
    Explained,
    JobAnswer,
    SearchAnswer,
    SearchBody,
    WhatIfBody,
    plain,
    row_of,
)
from ironrule.server.jobs import Job
from ironrule.server.problem import STATUSES, ErrorAnswer, Problem
from ironrule.server.waiting import finished, record_of

TICK_SECONDS, BEAT_TICKS = 0.1, 100
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorAnswer, "description": text} for code, text in STATUSES.items()
}
router = APIRouter(prefix="/api", responses=ERRORS, tags=["api"])


def service_of(request: Request) -> Service:
    """The service behind a request."""
    service: Service = request.app.state.service
    return service


def asker(request: Request) -> str:
    """Who asks."""
    who: str = request.state.who
    return who


Serving = Annotated[Service, Depends(service_of)]
Asker = Annotated[str, Depends(asker)]
Named = Annotated[str, Path(max_length=64)]


@router.get("/model")
def model(service: Serving) -> dict[str, Any]:
    """The model and the space: features, domains, fingerprints, and whether rules can be proven."""
    return views.model(service)


@router.get("/applicants")
def applicants(
    service: Serving,
    outcome: Outcome = "any",
    page: Annotated[int, Query(ge=1, le=2**53)] = 1,
    size: Annotated[int, Query(ge=1, le=200)] = 25,
    search: Annotated[str | None, Query(max_length=64)] = None,
) -> dict[str, Any]:
    """A page of past rows, by outcome, or of those that a search has found."""
    return views.applicants(service, outcome, page, size, search)


@router.post("/searches")
def search(service: Serving, body: SearchBody) -> SearchAnswer:
    """Search among the past rows; the name that comes back goes to /api/applicants as search."""
    mask = service.applicants.search(body.text)
    return SearchAnswer(search=service.searches.keep(body.text, mask), total=int(mask.sum()))


@router.post("/explain")
async def explain(service: Serving, who: Asker, body: ExplainBody) -> Explained:
    """Explain a row with the undesired outcome by a rule, with what is known of it and the proof, if there is one."""
    return await _recorded(service, service.explain(body.question(row_of(body.row)), who))


@router.post("/counterfactuals")
async def counterfactuals(service: Serving, who: Asker, body: CounterfactualsBody) -> Explained:
    """What would have changed the outcome, nearest first."""
    return await _recorded(service, service.counterfactuals(body.recourse(), who))


@router.post("/check")
async def check(service: Serving, body: CheckBody) -> dict[str, Any]:
    """Check every claim of an explanation against the model and the data; the search has no part in it."""
    found: dict[str, Any] = await finished(service, service.check(body.explanation))
    return found


@router.post("/what-if")
def what_if(service: Serving, body: WhatIfBody) -> dict[str, Any]:
    """Change values of a past row: the outcome then, and whether the rule of an explanation still speaks of it."""
    changes = {name: plain(value) for name, value in body.changes.items()}
    return views.what_if(service, body.row, changes, body.explanation).to_dict()


@router.get("/explanations/{number}")
def explanation(service: Serving, number: Annotated[int, Path(ge=1, le=2**62)]) -> Explained:
    """An answer that was given, from the audit log."""
    return _explained(record_of(service, number))


@router.post("/jobs/explain", status_code=202)
def start_explain(service: Serving, who: Asker, body: ExplainBody) -> JobAnswer:
    """The same as /api/explain, as a job that can be watched and cancelled."""
    return _job(service.explain(body.question(row_of(body.row)), who))


@router.post("/jobs/batch", status_code=202)
def start_batch(service: Serving, who: Asker, body: BatchBody) -> JobAnswer:
    """Explain many rows; the result has a line per row, with the number of its record or why there is none."""
    if len(body.rows) > service.settings.limits.batch_rows:
        most = service.settings.limits.batch_rows
        raise Problem(
            413,
            "too-large",
            expected=f"a batch must have at most {most:,} rows",
            got=f"{len(body.rows):,}",
            hint="split it",
        )
    return _job(service.batch(body.rows, body.question(0), who))


@router.get("/jobs/{name}")
def job(service: Serving, name: Named) -> JobAnswer:
    """A job and how far it is."""
    return _job(service.jobs.find(name))


@router.delete("/jobs/{name}")
def cancel(service: Serving, name: Named) -> JobAnswer:
    """Cancel a job: it ends soon, with the best it has."""
    found = service.jobs.find(name)
    service.jobs.cancel(found)
    return _job(found)


@router.get("/jobs/{name}/events", response_class=StreamingResponse,
            responses={200: {"content": {"text/event-stream": {}}, "description": "server-sent events"}})  # fmt: skip
def events(service: Serving, name: Named) -> StreamingResponse:
    """The job as server-sent events: progress whenever something changed, and end at last."""
    return StreamingResponse(_told(service.jobs.find(name)), media_type="text/event-stream")


async def _told(found: Job) -> AsyncIterator[str]:
    last, quiet = "", 0
    while not found.ended:
        now = json.dumps(found.to_dict())
        quiet = quiet + 1 if now == last else 0
        if quiet == 0:
            yield f"event: progress\ndata: {now}\n\n"
        elif quiet % BEAT_TICKS == 0:
            yield ": still there\n\n"  # so that nothing in between closes the line
        last = now
        await asyncio.sleep(TICK_SECONDS)
    yield f"event: end\ndata: {json.dumps(found.to_dict())}\n\n"


async def _recorded(service: Service, started: Job) -> Explained:
    number = await finished(service, started)
    return _explained(await run_in_threadpool(record_of, service, number))


def _explained(record: Any) -> Explained:
    told = {name: record.facts[name] for name in ("number", "hash", "kind", "row", "at")}
    return Explained(**told, document=record.document)


def _job(found: Job) -> JobAnswer:
    return JobAnswer(**found.to_dict())
