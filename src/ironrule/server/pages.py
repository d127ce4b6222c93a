"""The pages. Each is also there as JSON: at the same address with ``.json``, or where only JSON is accepted.

Row numbers, record numbers and random names stand in addresses; values of applicants never do. What is typed comes by
POST. The pages work without JavaScript: progress is then shown by loading the page again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ironrule.server import forms, views
from ironrule.server.answers import go, page, wants_json
from ironrule.server.api import Asker, Serving
from ironrule.server.applicants import Outcome
from ironrule.server.jobs import Job
from ironrule.server.subject import text_of
from ironrule.server.waiting import ended_within, finished, record_of
from ironrule.server.whatif import WhatIf

PATIENCE_SECONDS = 1.0
ROW = re.compile(r"(?:row|#)\s*(\d{1,15})", re.IGNORECASE)
Handler = Callable[..., Any]
router = APIRouter(include_in_schema=False)


def shown_at(path: str) -> Callable[[Handler], Handler]:
    """Register a page under its address, and its data under the same with ``.json``."""

    def register(handler: Handler) -> Handler:
        for address in (f"{path}.json", path):
            router.add_api_route(address, handler, methods=["GET"], response_model=None)
        return handler

    return register


@router.get("/")
def home() -> Response:
    """The list is home."""
    return go("/applicants")


@shown_at("/applicants")
def applicants(
    request: Request,
    service: Serving,
    outcome: Outcome = "any",
    number: Annotated[int, Query(alias="page", ge=1, le=2**53)] = 1,
    search: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """The list."""
    return page(request, "applicants.html", views.applicants(service, outcome, number, 25, search))


@router.post("/applicants", response_model=None)
async def search(request: Request, service: Serving) -> Response:
    """Search, then look at what was found under a random name."""
    fields = await forms.fields_of(request)
    outcome, text = forms.one(fields, "outcome", "any"), forms.one(fields, "text")
    outcome = outcome if outcome in ("desired", "undesired") else "any"
    if not text:
        return go(f"/applicants?outcome={outcome}")
    if row := ROW.fullmatch(text):
        return go(f"/applicants/{int(row[1])}")
    mask = await run_in_threadpool(service.applicants.search, text)
    return go(f"/applicants?outcome={outcome}&search={service.searches.keep(text, mask)}")


@shown_at("/applicants/{row:int}")
def applicant(request: Request, service: Serving, row: int) -> Response:
    """One applicant."""
    return page(request, "applicant.html", views.applicant(service, row))


@router.post("/applicants/{row:int}/explain", response_model=None)
async def explain(request: Request, service: Serving, who: Asker, row: int) -> Response:
    """Explain; what is quick is shown at once, what is slow with its progress."""
    question = forms.question_of(await forms.fields_of(request), row)
    return await _quick(service.explain(question, who))


@router.post("/applicants/{row:int}/counterfactuals", response_model=None)
async def vary(request: Request, service: Serving, who: Asker, row: int) -> Response:
    """Search for counterfactuals, in the same way."""
    recourse = forms.recourse_of(await forms.fields_of(request), row)
    return await _quick(service.counterfactuals(recourse, who))


@shown_at("/counterfactuals/{number:int}")
def counterfactuals(request: Request, service: Serving, number: int) -> Response:
    """Counterfactuals that were given."""
    data = views.counterfactuals(service, number)
    row = data["row"]
    about = None if row is None else views.applicant(service, row)
    return page(request, "counterfactuals.html", data | {"applicant": about})


@shown_at("/explanations")
def log(
    request: Request, service: Serving, number: Annotated[int, Query(alias="page", ge=1, le=2**53)] = 1
) -> Response:
    """What was said so far."""
    return page(request, "log.html", views.log(service, number))


@shown_at("/explanations/{number:int}")
def explanation(request: Request, service: Serving, number: int) -> Response:
    """An explanation that was given."""
    data = views.explanation(service, number)
    about = None if data["row"] is None or not data["same"] else views.applicant(service, data["row"])
    return page(request, "explanation.html", data | {"applicant": about})


@shown_at("/applicants/{row:int}/what-if")
def ask_what_if(
    request: Request, service: Serving, row: int, number: Annotated[int | None, Query(alias="explanation", ge=1)] = None
) -> Response:
    """The form for a what-if."""
    about = views.applicant(service, row)
    return page(request, "what_if.html", _asked(about, number, None))


@router.post("/applicants/{row:int}/what-if", response_model=None)
async def what_if(request: Request, service: Serving, row: int) -> Response:
    """What the model decides with some values changed; the answer is on this page, so no value is in an address."""
    fields = await forms.fields_of(request)
    text = forms.one(fields, "explanation")
    number = int(text) if text.isdecimal() and len(text) < 19 else None
    changes = forms.changes_of(fields, service.subject.space)
    found = await run_in_threadpool(views.what_if, service, row, changes, number)
    return page(request, "what_if.html", _asked(views.applicant(service, row), number, found))


@shown_at("/jobs/{name}")
def job(request: Request, service: Serving, name: str) -> Response:
    """How far a job is; where to go when it has ended."""
    found = service.jobs.find(name)
    following = _next(found)
    if following is not None and not wants_json(request):
        return go(following)
    return page(request, "job.html", {"job": found.to_dict(), "next": following})


@router.post("/jobs/{name}/cancel", response_model=None)
async def cancel(service: Serving, name: str) -> Response:
    """Cancel a job, and look at what it had."""
    found = service.jobs.find(name)
    service.jobs.cancel(found)
    await ended_within(found, PATIENCE_SECONDS)
    return go(_next(found) or f"/jobs/{name}")


@shown_at("/check")
def ask_check(request: Request) -> Response:
    """The form for a check."""
    return page(request, "check.html", {"check": None, "number": None})


@router.post("/check", response_model=None)
async def check(request: Request, service: Serving) -> Response:
    """Check an explanation that was pasted, or one of the log by its number."""
    fields = await forms.fields_of(request)
    text = forms.one(fields, "number")
    number = int(text) if text.isdecimal() and len(text) < 19 else None
    if number is None:
        document = forms.document_of(fields)
    else:
        document = (await run_in_threadpool(record_of, service, number)).document
    found = await finished(service, service.check(document))
    return page(request, "check.html", {"check": found, "number": number})


def _asked(about: dict[str, Any], number: int | None, found: WhatIf | None) -> dict[str, Any]:
    """The form of a what-if, filled in as it was sent, and the answer."""
    texts = {one["feature"]: one["text"] for one in about["values"]}
    if found is not None:
        texts = {name: text_of(value) for name, value in found.values.items()}
    answer = None if found is None else found.to_dict()
    return {"applicant": about, "row": about["row"], "explanation": number, "texts": texts, "answer": answer}


async def _quick(started: Job) -> Response:
    await ended_within(started, PATIENCE_SECONDS)
    return go(_next(started) or f"/jobs/{started.name}")


def _next(found: Job) -> str | None:
    """Where the result of a job is shown; None as long as there is none."""
    if not found.ended or not isinstance(found.result, int):
        return None
    return f"/explanations/{found.result}" if found.kind == "explanation" else f"/counterfactuals/{found.result}"
