"""The pages. Each is also there as JSON: at the same address with ``.json``, or where only JSON is accepted.

Row numbers, record numbers and random names stand in addresses; values of applicants never do. What is typed comes by
POST. The pages work without JavaScript: progress is then shown by loading the page again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ironrule.server import schemas
from ironrule.server.auth import HOME_PATHS, check_role
from ironrule.server.counterfactuals import CounterfactualsRequest
from ironrule.server.errors import ApiError
from ironrule.server.responses import redirect, render_response, wants_json
from ironrule.server.routes.dependencies import (
    QUICK_SECONDS,
    ServiceDependency,
    UserDependency,
    find_result_path,
    redirect_to_result,
    register_page,
)
from ironrule.server.service import read_record, wait_for_end, wait_for_result
from ironrule.server.views import cases, explanations, records
from ironrule.server.views.counterfactuals import build_counterfactuals_view, render_counterfactuals_drawing

PageNumber = Annotated[int, Query(alias="page", ge=1, le=2**53)]
router = APIRouter(include_in_schema=False)


@router.get("/")
def redirect_home(user: UserDependency) -> Response:
    """The list is home, or what the user's role permits."""
    return redirect(HOME_PATHS[user.role])


@register_page(router, "/ladders/{number:int}")
def show_ladder(request: Request, service: ServiceDependency, number: int) -> Response:
    """A ladder that was given."""
    return render_response(request, "ladder.html", explanations.build_ladder_view(service, number))


@register_page(router, "/counterfactuals/{number:int}")
def show_counterfactuals(request: Request, service: ServiceDependency, number: int) -> Response:
    """Counterfactuals that were given."""
    data = build_counterfactuals_view(service, number)
    about = None if data["row"] is None else cases.build_applicant_view(service, data["row"])
    drawing = None if wants_json(request) else render_counterfactuals_drawing(service, number)
    return render_response(request, "counterfactuals.html", data | {"applicant": about}, drawing=drawing)


@router.post("/counterfactuals/{number:int}/menu", response_model=None)
async def find_menu(request: Request, service: ServiceDependency, user: UserDependency, number: int) -> Response:
    """All minimal sets of features, for the row, the cost and the target of counterfactuals that were given."""
    record = await run_in_threadpool(read_record, service, number, "counterfactuals")
    if record.row is None or "asked" not in record.document:
        expected = "a menu must be asked for about counterfactuals of a past row"
        got, hint = "others", "ask for them with the menu: POST /api/counterfactuals"
        raise ApiError(422, "no-menu", expected=expected, got=got, hint=hint)
    wanted = replace(CounterfactualsRequest.from_document(record.row, record.document), menu=True)
    return await redirect_to_result(request, service, service.start_counterfactuals(wanted, user.name))


@register_page(router, "/explanations")
def show_answers(request: Request, service: ServiceDependency, number: PageNumber = 1) -> Response:
    """What was answered so far, for those who work with it."""
    summaries: records.AnswerSummaries = request.app.state.summaries
    return render_response(request, "answers.html", records.build_answers_view(service, summaries, number))


@register_page(router, "/log")
def show_log(request: Request, service: ServiceDependency, number: PageNumber = 1) -> Response:
    """The audit log, record by record."""
    return render_response(request, "log.html", records.build_log_view(service, number))


@register_page(router, "/explanations/{number:int}")
def show_explanation(request: Request, service: ServiceDependency, number: int) -> Response:
    """An explanation that was given."""
    data = explanations.build_explanation_view(service, number)
    about = None if data["row"] is None or not data["is_current"] else cases.build_applicant_view(service, data["row"])
    return render_response(request, "explanation.html", data | {"applicant": about})


@register_page(router, "/jobs/{name}")
def show_job(request: Request, service: ServiceDependency, name: str) -> Response:
    """How far a job is; where to go when it has ended."""
    found = service.jobs.find(name)
    following = find_result_path(found)
    if following is not None and not wants_json(request):
        return redirect(following)
    return render_response(request, "job.html", {"job": found.to_dict(), "result_path": following})


@router.post("/jobs/{name}/cancel", response_model=None)
async def cancel_job(service: ServiceDependency, name: str) -> Response:
    """Cancel a job, and look at what it had."""
    found = service.jobs.find(name)
    service.jobs.cancel(found)
    await wait_for_end(found, QUICK_SECONDS)
    return redirect(find_result_path(found) or f"/jobs/{name}")


@register_page(router, "/check")
def show_check_form(request: Request) -> Response:
    """The form for a check."""
    return render_response(request, "check.html", {"check": None, "number": None})


@router.post("/check", response_model=None)
async def show_check(request: Request, service: ServiceDependency, user: UserDependency) -> Response:
    """Check an explanation that was pasted, or one of the log by its number, for those who may read the log."""
    fields = await schemas.read_form(request, service.settings.limits.body_bytes)
    number = schemas.parse_number(fields.get("number", ""))
    if number is None:
        document = schemas.parse_pasted_explanation(fields.get("explanation", ""))
    else:
        check_role(user, "read")
        document = (await run_in_threadpool(read_record, service, number)).document
    found = await wait_for_result(service, service.start_check(document, user.name), request)
    return render_response(request, "check.html", {"check": found, "number": number})


@register_page(router, "/api")
def show_api(request: Request, service: ServiceDependency) -> Response:
    """The API in one page, and what is served."""
    paths = request.app.openapi()["paths"]
    calls = [
        {"method": method.upper(), "path": path, "about": what.get("description", what["summary"])}
        for path, methods in paths.items()
        for method, what in methods.items()
    ]
    return render_response(request, "api.html", {"model": cases.build_model_view(service), "calls": calls})
