"""Responses in their two forms: a page for people, JSON for programs, from the same data at the same address."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

import ironrule
from ironrule.report import templating
from ironrule.search.algorithms import ALGORITHMS
from ironrule.server.auth import find_needed_role
from ironrule.server.errors import ApiError
from ironrule.server.tokens import Role, has_role

PAGE_LINKS = (
    ("/overview", "Overview"),
    ("/applicants", "Applicants"),
    ("/batches", "Batches"),
    ("/explanations", "Explanations"),
    ("/check", "Check"),
    ("/log", "Log"),
    ("/api", "API"),
)
ANSWER_FOLDERS = ("/ladders/", "/counterfactuals/")  # which belong to the explanations


@cache
def get_environment() -> Environment:
    """The templates; values are escaped, and an unknown name is an error."""
    environment = templating.get_environment("ironrule.server")
    environment.filters["moment"] = lambda at: f"{at[:10]} {at[11:19]} UTC"
    environment.globals |= {"version": ironrule.__version__, "algorithms": ALGORITHMS}
    return environment


def wants_json(request: Request) -> bool:
    """Whether the client wants JSON, by the path or by the Accept header."""
    path, accepts = request.url.path, request.headers.get("accept", "")
    if path.startswith("/api/") or path.endswith(".json"):
        return True
    return "application/json" in accepts and "text/html" not in accepts


def render_response(
    request: Request, template: str, data: dict[str, Any], status: int = 200, drawing: str | None = None
) -> Response:
    """A page, or its data. A ``drawing`` is SVG of our own template, which has escaped what is in it."""
    if wants_json(request):
        return JSONResponse(data, status)
    user = getattr(request.state, "user", None)
    role: Role = "ask" if user is None else user.role
    links = [link for link in PAGE_LINKS if has_role(role, find_needed_role("GET", link[0]))]
    path = request.url.path
    known = {
        "who": getattr(request.state, "who", None),
        "links": links,
        "here": "/explanations" if path.startswith(ANSWER_FOLDERS) else path,
        "drawing": drawing,
        "served_title": None if user is None else _get_served_title(request),  # a guest gets to know nothing
    }
    return HTMLResponse(get_environment().get_template(template).render(**known, **data), status)


def _get_served_title(request: Request) -> str | None:
    """What is served, as its operator calls it; None where no application answers."""
    app = request.scope.get("app")
    return None if app is None else str(app.state.service.served_model.title)


def redirect(path: str) -> Response:
    """A redirect to another page."""
    return RedirectResponse(path, 303)


def build_download(
    text: str, kind: str, name: str, headers: Mapping[str, str] | None = None, is_shown: bool = False
) -> Response:
    """A file to keep, or one that the browser shows itself."""
    disposition = {"Content-Disposition": f'{"inline" if is_shown else "attachment"}; filename="{name}"'}
    return Response(text, media_type=kind, headers=disposition | dict(headers or {}))


def render_error(request: Request, error: ApiError) -> Response:
    """An error as a page or as data; a browser without a token is sent to /login."""
    if error.status == 401 and not wants_json(request):
        return redirect("/login")
    data = error.to_dict()
    if wants_json(request):
        return JSONResponse(data, error.status, headers=dict(error.headers))
    response = render_response(request, "error.html", {"error": error}, error.status)
    response.headers.update(error.headers)
    return response
