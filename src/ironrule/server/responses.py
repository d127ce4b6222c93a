"""Responses in their two forms: a page for people, JSON for programs, from the same data at the same address."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

import ironrule
from ironrule.search.algorithms import ALGORITHMS
from ironrule.server.errors import ApiError
from ironrule.wording import format_count


@cache
def get_environment() -> Environment:
    """The templates, everything escaped; a name that is not there is an error, not a gap."""
    made = Environment(
        loader=PackageLoader("ironrule.server", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["grouped"] = lambda number: f"{number:,}"
    made.filters["counted"] = format_count
    made.filters["moment"] = lambda at: f"{at[:10]} {at[11:19]} UTC"
    made.globals["version"] = ironrule.__version__
    made.globals["algorithms"] = ALGORITHMS
    return made


def wants_json(request: Request) -> bool:
    """Whether a program asks: by the address, or by what it accepts."""
    path, accepts = request.url.path, request.headers.get("accept", "")
    if path.startswith("/api/") or path.endswith(".json"):
        return True
    return "application/json" in accepts and "text/html" not in accepts


def render_response(request: Request, template: str, data: dict[str, Any], status: int = 200) -> Response:
    """A page, or its data."""
    if wants_json(request):
        return JSONResponse(data, status)
    known = {"who": getattr(request.state, "who", None), "here": request.url.path}
    return HTMLResponse(get_environment().get_template(template).render(**known, **data), status)


def redirect(path: str) -> Response:
    """See there instead."""
    return RedirectResponse(path, 303)


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
