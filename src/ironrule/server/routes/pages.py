"""The pages. Each is also there as JSON: at the same address with ``.json``, or where only JSON is accepted.

Row numbers, record numbers and random names stand in addresses; values of applicants never do. What is typed comes by
POST. The pages work without JavaScript: progress is then shown by loading the page again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ironrule.server import schemas, views
from ironrule.server.applicants import OutcomeFilter
from ironrule.server.auth import HOME_PATHS, check_role
from ironrule.server.counterfactuals_view import build_counterfactuals_view, render_counterfactuals_drawing
from ironrule.server.jobs import Job
from ironrule.server.responses import redirect, render_response, wants_json
from ironrule.server.routes.dependencies import ServiceDependency, UserDependency
from ironrule.server.service import (
    ExplainRequest,
    LadderRequest,
    Service,
    WhatIfResult,
    parse_typed_value,
    read_record,
    wait_for_client,
    wait_for_end,
    wait_for_result,
)
from ironrule.wording import format_value

QUICK_SECONDS = 1.0
ROW_PATTERN = re.compile(r"(?:row|#)\s*(\d{1,15})", re.IGNORECASE)
Handler = Callable[..., Any]
router = APIRouter(include_in_schema=False)


def register_page(path: str) -> Callable[[Handler], Handler]:
    """Register a page under its address, and its data under the same with ``.json``."""

    def register(handler: Handler) -> Handler:
        for address in (f"{path}.json", path):
            router.add_api_route(address, handler, methods=["GET"], response_model=None)
        return handler

    return register


@router.get("/")
def redirect_home(user: UserDependency) -> Response:
    """The list is home, or what the user's role permits."""
    return redirect(HOME_PATHS[user.role])


@register_page("/applicants")
def show_applicants(
    request: Request,
    service: ServiceDependency,
    outcome: OutcomeFilter = "any",
    number: Annotated[int, Query(alias="page", ge=1, le=2**53)] = 1,
    search: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """The list."""
    listed = views.build_applicants_view(service, outcome, number, 25, search)
    return render_response(request, "applicants.html", listed)


@router.post("/applicants", response_model=None)
def search_applicants(
    service: ServiceDependency, text: Annotated[str, Form()] = "", outcome: Annotated[OutcomeFilter, Form()] = "any"
) -> Response:
    """Search, and redirect to the rows found, under a random name."""
    text = text.strip()
    if not text:
        return redirect(f"/applicants?outcome={outcome}")
    if row := ROW_PATTERN.fullmatch(text):
        return redirect(f"/applicants/{int(row[1])}")
    mask = service.applicants.search(text)
    return redirect(f"/applicants?outcome={outcome}&search={service.searches.save(text, mask)}")


@register_page("/applicants/{row:int}")
def show_applicant(request: Request, service: ServiceDependency, row: int) -> Response:
    """One applicant."""
    return render_response(request, "applicant.html", views.build_applicant_view(service, row))


@router.post("/applicants/{row:int}/explain", response_model=None)
async def explain_applicant(
    request: Request,
    service: ServiceDependency,
    user: UserDependency,
    row: int,
    form: Annotated[schemas.ExplainForm, Form()],
) -> Response:
    """Explain; a quick result is shown at once, a slow one with its progress."""
    return await _redirect_to_result(request, service, service.start_explanation(form.to_request(row), user.name))


@router.post("/applicants/{row:int}/ladder", response_model=None)
async def build_ladder(request: Request, service: ServiceDependency, user: UserDependency, row: int) -> Response:
    """Explain by short rules, in the same way."""
    wanted = LadderRequest(ExplainRequest(row))
    return await _redirect_to_result(request, service, service.start_ladder(wanted, user.name))


@register_page("/ladders/{number:int}")
def show_ladder(request: Request, service: ServiceDependency, number: int) -> Response:
    """A ladder that was given."""
    return render_response(request, "ladder.html", views.build_ladder_view(service, number))


@router.post("/applicants/{row:int}/counterfactuals", response_model=None)
async def find_counterfactuals(
    request: Request,
    service: ServiceDependency,
    user: UserDependency,
    row: int,
    form: Annotated[schemas.CounterfactualsForm, Form()],
) -> Response:
    """Search for counterfactuals, in the same way."""
    wanted = form.to_request(row, service.served_model)
    return await _redirect_to_result(request, service, service.start_counterfactuals(wanted, user.name))


@register_page("/counterfactuals/{number:int}")
def show_counterfactuals(request: Request, service: ServiceDependency, number: int) -> Response:
    """Counterfactuals that were given."""
    data = build_counterfactuals_view(service, number)
    about = None if data["row"] is None else views.build_applicant_view(service, data["row"])
    drawing = None if wants_json(request) else render_counterfactuals_drawing(service, number)
    return render_response(request, "counterfactuals.html", data | {"applicant": about}, drawing=drawing)


@register_page("/explanations")
def show_log(
    request: Request, service: ServiceDependency, number: Annotated[int, Query(alias="page", ge=1, le=2**53)] = 1
) -> Response:
    """What was said so far."""
    return render_response(request, "log.html", views.build_log_view(service, number))


@register_page("/explanations/{number:int}")
def show_explanation(request: Request, service: ServiceDependency, number: int) -> Response:
    """An explanation that was given."""
    data = views.build_explanation_view(service, number)
    about = None if data["row"] is None or not data["is_current"] else views.build_applicant_view(service, data["row"])
    return render_response(request, "explanation.html", data | {"applicant": about})


@register_page("/applicants/{row:int}/what-if")
def show_what_if_form(
    request: Request,
    service: ServiceDependency,
    row: int,
    number: Annotated[int | None, Query(alias="explanation", ge=1)] = None,
) -> Response:
    """The form for a what-if."""
    about = views.build_applicant_view(service, row)
    return render_response(request, "what_if.html", _build_what_if_view(about, number, None))


@router.post("/applicants/{row:int}/what-if", response_model=None)
async def show_what_if(request: Request, service: ServiceDependency, row: int) -> Response:
    """What the model decides with some values changed; the answer is on this page, so no value is in an address."""
    fields = await schemas.read_form(request, service.settings.limits.body_bytes)
    number = schemas.parse_number(fields.get("explanation", ""))
    features = {f"f{place}": feature for place, feature in enumerate(service.served_model.space.features)}
    typed = {features[name]: text for name, text in fields.items() if name in features}
    changes = {feature.name: parse_typed_value(feature, text) for feature, text in typed.items()}
    found = await run_in_threadpool(views.answer_what_if, service, row, changes, number)
    about = views.build_applicant_view(service, row)
    return render_response(request, "what_if.html", _build_what_if_view(about, number, found))


@register_page("/jobs/{name}")
def show_job(request: Request, service: ServiceDependency, name: str) -> Response:
    """How far a job is; where to go when it has ended."""
    found = service.jobs.find(name)
    following = _find_result_path(found)
    if following is not None and not wants_json(request):
        return redirect(following)
    return render_response(request, "job.html", {"job": found.to_dict(), "result_path": following})


@router.post("/jobs/{name}/cancel", response_model=None)
async def cancel_job(service: ServiceDependency, name: str) -> Response:
    """Cancel a job, and look at what it had."""
    found = service.jobs.find(name)
    service.jobs.cancel(found)
    await wait_for_end(found, QUICK_SECONDS)
    return redirect(_find_result_path(found) or f"/jobs/{name}")


@register_page("/check")
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


def _build_what_if_view(about: dict[str, Any], number: int | None, result: WhatIfResult | None) -> dict[str, Any]:
    """The form of a what-if, filled in as it was sent, and the answer."""
    texts = {one["feature"]: one["text"] for one in about["values"]}
    if result is not None:
        texts = {name: format_value(value, "unquoted") for name, value in result.values.items()}
    answer = None if result is None else result.to_dict()
    return {"applicant": about, "row": about["row"], "explanation": number, "texts": texts, "answer": answer}


async def _redirect_to_result(request: Request, service: Service, started: Job) -> Response:
    await wait_for_client(service, started, request, QUICK_SECONDS)
    return redirect(_find_result_path(started) or f"/jobs/{started.name}")


def _find_result_path(found: Job) -> str | None:
    """Where the result of a job is shown; None as long as there is none."""
    if not found.has_ended or not isinstance(found.result, int):
        return None
    return f"/{views.RECORD_FOLDERS[found.kind]}/{found.result}"


@register_page("/api")
def show_api(request: Request, service: ServiceDependency) -> Response:
    """The API in one page, and what is served."""
    paths = request.app.openapi()["paths"]
    calls = [
        {"method": method.upper(), "path": path, "about": what.get("description", what["summary"])}
        for path, methods in paths.items()
        for method, what in methods.items()
    ]
    return render_response(request, "api.html", {"model": views.build_model_view(service), "calls": calls})
