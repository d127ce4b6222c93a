"""The pages of people: the list with its search, one applicant, a new one, and a what-if.

What is typed comes by POST, so that no value stands in an address. A form that cannot be used is shown again as it was
sent, with what is wrong beside each field; programs get the first problem as an error.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ironrule.errors import ConstraintError, InputError
from ironrule.results.explanation import Explanation
from ironrule.server import schemas
from ironrule.server.applicants import ListQuery, OutcomeFilter, SortOrder
from ironrule.server.errors import ApiError, to_api_error
from ironrule.server.responses import redirect, render_response, wants_json
from ironrule.server.routes.dependencies import (
    ServiceDependency,
    UserDependency,
    redirect_to_result,
    register_page,
)
from ironrule.server.service import ExplainRequest, LadderRequest, Service, read_record
from ironrule.server.typed_values import TypedRow, parse_typed_row
from ironrule.server.views import cases
from ironrule.wording import format_value

ROW_PATTERN = re.compile(r"(?:row|applicant|#)?\s*(\d{1,15})", re.IGNORECASE)
router = APIRouter(include_in_schema=False)
SortKey = Annotated[str, Query(max_length=250)]


@register_page(router, "/applicants")
def show_applicants(
    request: Request,
    service: ServiceDependency,
    outcome: OutcomeFilter = "any",
    number: Annotated[int, Query(alias="page", ge=1, le=2**53)] = 1,
    search: Annotated[str | None, Query(max_length=64)] = None,
    sort: SortKey = "row",
    order: SortOrder = "ascending",
) -> Response:
    """The list."""
    query = ListQuery(outcome=outcome, page=number, search=search, sort=sort, order=order)
    return render_response(request, "applicants.html", cases.build_applicants_view(service, query))


@router.post("/applicants", response_model=None)
async def search_applicants(
    request: Request, service: ServiceDependency, form: Annotated[schemas.SearchForm, Form()]
) -> Response:
    """Search, and redirect to the rows found, under a random name; a search that cannot be used is shown again."""
    text, query = form.build_text(), form.build_query()
    if not text:
        return redirect(query)
    if (row := ROW_PATTERN.fullmatch(text)) and not form.column:
        return redirect(f"/applicants/{int(row[1])}")
    try:
        mask = await run_in_threadpool(service.applicants.search, text)
    except (ApiError, InputError) as error:
        if wants_json(request):
            raise
        problem = to_api_error(error)
        listed = ListQuery(outcome=form.outcome)
        data = await run_in_threadpool(cases.build_applicants_view, service, listed, text, problem)
        return render_response(request, "applicants.html", data, 422)
    return redirect(f"{query}&search={service.searches.save(text, mask)}")


@register_page(router, "/applicants/new")
def show_new_applicant_form(
    request: Request,
    service: ServiceDependency,
    number: Annotated[int | None, Query(alias="explanation", ge=1, le=2**62)] = None,
) -> Response:
    """The form for a person who is not among the past rows; with the values of an explanation, to change them."""
    texts = None if number is None else _read_instance_texts(service, number)
    return render_response(request, "new_applicant.html", cases.build_new_applicant_view(service, texts))


@router.post("/applicants/new", response_model=None)
async def answer_new_applicant(request: Request, service: ServiceDependency, user: UserDependency) -> Response:
    """Decide; a person with the undesired outcome is explained, in the same way as a past row."""
    fields = await schemas.read_form(request, service.settings.limits.body_bytes)
    typed = parse_typed_row(service.served_model.space, fields, is_whole=True)
    if typed.errors:
        return _refuse(request, service, typed, None)
    try:
        found = await run_in_threadpool(cases.answer_new_applicant, service, typed.values)
    except ConstraintError as error:
        return _refuse(request, service, typed, to_api_error(error))
    action = fields.get("action", "ladder")
    if found.desired or action == "decide":
        data = await run_in_threadpool(cases.build_new_applicant_view, service, None, typed, found)
        return render_response(request, "new_applicant.html", data)
    wanted = ExplainRequest(typed.values)
    if action == "explain":
        return await redirect_to_result(request, service, service.start_explanation(wanted, user.name))
    return await redirect_to_result(request, service, service.start_ladder(LadderRequest(wanted), user.name))


def _refuse(request: Request, service: Service, typed: TypedRow, problem: ApiError | None) -> Response:
    """The form with what is wrong, or for a program the first problem as an error."""
    if wants_json(request):
        typed.require_valid(service.served_model.space)
        assert problem is not None
        raise problem
    message = None if problem is None else problem.message
    data = cases.build_new_applicant_view(service, typed=typed, problem=message)
    return render_response(request, "new_applicant.html", data, 422)


def _read_instance_texts(service: Service, number: int) -> dict[str, str]:
    """The values of the row that was explained, for the features that are served."""
    record = read_record(service, number)
    document = record.document.get("explanation", record.document)
    if record.kind == "counterfactuals":
        return {}
    instance = Explanation.from_dict(document).instance
    names = service.served_model.space.names
    return {name: format_value(value, "unquoted") for name, value in instance.items() if name in names}


@register_page(router, "/applicants/{row:int}")
def show_applicant(request: Request, service: ServiceDependency, row: int) -> Response:
    """One applicant."""
    return render_response(request, "applicant.html", cases.build_applicant_view(service, row))


@router.post("/applicants/{row:int}/explain", response_model=None)
async def explain_applicant(
    request: Request,
    service: ServiceDependency,
    user: UserDependency,
    row: int,
    form: Annotated[schemas.ExplainForm, Form()],
) -> Response:
    """Explain; a quick result is shown at once, a slow one with its progress."""
    return await redirect_to_result(request, service, service.start_explanation(form.to_request(row), user.name))


@router.post("/applicants/{row:int}/ladder", response_model=None)
async def build_ladder(request: Request, service: ServiceDependency, user: UserDependency, row: int) -> Response:
    """Explain by short rules, in the same way."""
    wanted = LadderRequest(ExplainRequest(row))
    return await redirect_to_result(request, service, service.start_ladder(wanted, user.name))


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
    return await redirect_to_result(request, service, service.start_counterfactuals(wanted, user.name))


@register_page(router, "/applicants/{row:int}/what-if")
def show_what_if_form(
    request: Request,
    service: ServiceDependency,
    row: int,
    number: Annotated[int | None, Query(alias="explanation", ge=1)] = None,
) -> Response:
    """The form for a what-if."""
    return render_response(request, "what_if.html", cases.build_what_if_view(service, row, number))


@router.post("/applicants/{row:int}/what-if", response_model=None)
async def show_what_if(request: Request, service: ServiceDependency, row: int) -> Response:
    """What the model decides with some values changed; the answer is on this page, so no value is in an address."""
    fields = await schemas.read_form(request, service.settings.limits.body_bytes)
    number = schemas.parse_number(fields.get("explanation", ""))
    typed = parse_typed_row(service.served_model.space, fields, is_whole=False)
    if typed.errors and wants_json(request):
        typed.require_valid(service.served_model.space)
    result: Any = None
    if not typed.errors:
        result = await run_in_threadpool(cases.answer_what_if, service, row, typed.values, number)
    data = await run_in_threadpool(cases.build_what_if_view, service, row, number, typed, result)
    return render_response(request, "what_if.html", data, 422 if typed.errors else 200)
