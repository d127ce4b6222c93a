"""The application: the routes behind the guard, with what they need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import ironrule
from ironrule.errors import IronruleError
from ironrule.server import api, door, pages
from ironrule.server.access import Sessions
from ironrule.server.answering import Service
from ironrule.server.answers import problem_response
from ironrule.server.applicants import Applicants, Searches
from ironrule.server.audit import AuditLog
from ironrule.server.guard import Guard
from ironrule.server.jobs import Jobs
from ironrule.server.problem import Problem, problem_of
from ironrule.server.refusing import invalid_request, refusal
from ironrule.server.settings import Settings
from ironrule.server.subject import Subject

ABOUT = "Rules without exceptions that explain one decision of a classifier. Every error has the same shape."


def create_app(subject: Subject, settings: Settings | None = None) -> FastAPI:
    """The application that serves one model; opens the audit log, and closes it with everything else at the end."""
    chosen = settings or Settings()
    service = Service(
        subject,
        chosen,
        Applicants.of(subject.explainer),
        AuditLog(chosen.audit),
        Jobs(chosen.limits),
        Searches(chosen.limits.searches),
    )
    app = FastAPI(
        title="Ironrule",
        version=ironrule.__version__,
        description=ABOUT,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.state.service, app.state.sessions = service, Sessions(chosen)
    app.add_middleware(Guard, settings=chosen, sessions=app.state.sessions)
    for part in (api, pages, door):
        app.include_router(part.router)
    _add_handlers(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.service.close()


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        return problem_response(request, invalid_request(error))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        return problem_response(request, refusal(request, error))

    @app.exception_handler(Problem)
    def told(request: Request, error: Problem) -> Response:
        return problem_response(request, error)

    @app.exception_handler(IronruleError)
    def own(request: Request, error: IronruleError) -> Response:
        return problem_response(request, problem_of(error))
