"""The overview, and batches: start one, watch it, stop it, look at its results, and download them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from ironrule.errors import InputError
from ironrule.server import schemas
from ironrule.server.batch_run import start_batch
from ironrule.server.batches import format_results_csv
from ironrule.server.jobs import Job
from ironrule.server.responses import build_download, redirect, render_response
from ironrule.server.routes.dependencies import QUICK_SECONDS, ServiceDependency, UserDependency, register_page
from ironrule.server.service import ExplainRequest, Service, wait_for_end
from ironrule.server.views import batches
from ironrule.server.views.overview import build_overview_view
from ironrule.wording import format_count

router = APIRouter(include_in_schema=False)
PageNumber = Annotated[int, Query(alias="page", ge=1, le=2**53)]


@register_page(router, "/overview")
def show_overview(
    request: Request, service: ServiceDependency, by: Annotated[str | None, Query(max_length=200)] = None
) -> Response:
    """How many get which outcome, in which groups, and by which rules."""
    return render_response(request, "overview.html", build_overview_view(service, by))


@register_page(router, "/batches")
def show_batches(
    request: Request,
    service: ServiceDependency,
    user: UserDependency,
    search: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """The user's batches, and the form for another one."""
    return render_response(request, "batches.html", batches.build_batches_view(service, user.name, search))


@router.post("/batches", response_model=None)
async def start(
    service: ServiceDependency, user: UserDependency, form: Annotated[schemas.BatchForm, Form()]
) -> Response:
    """Explain all applicants with the undesired outcome, or those of a search."""
    started = await run_in_threadpool(_start_batch, service, user.name, form)
    return redirect(f"/batches/{started.name}")


def _start_batch(service: Service, who: str, form: schemas.BatchForm) -> Job:
    text, mask = service.searches.find(form.search) if form.search else (None, None)
    rows = service.applicants.row_numbers[service.applicants.select(mask, "undesired")].tolist()
    if not rows:
        expected = "a batch must have at least one applicant with the undesired outcome"
        raise InputError(expected=expected, got="none", hint="search for others", code="empty-batch")
    some = rows if form.most is None else rows[: form.most]
    title = format_count(len(some), "applicant") + (f" found for “{text}”" if text else "")
    request: ExplainRequest = form.to_request()
    return start_batch(service, some, request, who, title)


@register_page(router, "/batches/{name}")
def show_batch(request: Request, service: ServiceDependency, name: str, number: PageNumber = 1) -> Response:
    """How far a batch is, and what it found."""
    return render_response(request, "batch.html", batches.build_batch_view(service, name, number))


@router.post("/batches/{name}/cancel", response_model=None)
async def cancel(service: ServiceDependency, name: str) -> Response:
    """End a batch with what it has."""
    found = service.jobs.find(name)
    service.jobs.cancel(found)
    await wait_for_end(found, QUICK_SECONDS)
    return redirect(f"/batches/{name}")


@router.get("/batches/{name}/results.json")
def download_lines(service: ServiceDependency, name: str) -> Response:
    """All lines of a batch as a JSON file."""
    results = service.batches.find(name)
    texts = batches.describe_rules(service, results)
    lines: list[dict[str, Any]] = [line | {"text": texts.get(line["row"])} for line in list(results.lines)]
    disposition = {"Content-Disposition": 'attachment; filename="batch.json"'}
    return JSONResponse({"title": results.title, "started_at": results.started_at, "lines": lines}, headers=disposition)


@router.get("/batches/{name}/results.csv")
def download_table(service: ServiceDependency, name: str) -> Response:
    """All lines of a batch as a table, safe for spreadsheets."""
    results = service.batches.find(name)
    text = format_results_csv(results, batches.describe_rules(service, results))
    return build_download(text, "text/csv", "batch.csv")
