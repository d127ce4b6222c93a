"""The door for browsers where a token is needed, the downloads, the page about the API, and the files of the pages."""

from __future__ import annotations

import json
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from ironrule.server import forms, views
from ironrule.server.access import COOKIE, Sessions
from ironrule.server.answers import go, page
from ironrule.server.api import Serving
from ironrule.server.pages import shown_at
from ironrule.server.problem import LOG, brief, missing
from ironrule.server.report import Voice, file_name, report_html
from ironrule.server.waiting import record_of

KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"
router = APIRouter(include_in_schema=False)


def sessions_of(request: Request) -> Sessions:
    """The sessions of browsers."""
    sessions: Sessions = request.app.state.sessions
    return sessions


@router.get("/login")
def login(request: Request) -> Response:
    """Ask for the token."""
    return page(request, "login.html", {"wrong": False})


@router.post("/login", response_model=None)
async def enter(request: Request) -> Response:
    """Open a session for a token."""
    name = sessions_of(request).enter(forms.one(await forms.fields_of(request), "token"))
    if name is None:
        return page(request, "login.html", {"wrong": True}, 401)
    response = go("/applicants")
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, name, httponly=True, samesite="strict", secure=secure)
    return response


@router.post("/logout", response_model=None)
def leave(request: Request) -> Response:
    """End the session."""
    sessions_of(request).leave(request.cookies.get(COOKIE, ""))
    response = go("/login")
    response.delete_cookie(COOKIE)
    return response


@router.get("/explanations/{number:int}/explanation.json")
def document(service: Serving, number: int) -> Response:
    """The explanation with its certificate, as a file for ``ironrule check``."""
    record = record_of(service, number)
    text = json.dumps(record.document, indent=2, ensure_ascii=False)
    return _file(text, "application/json", file_name(record))


@router.get("/explanations/{number:int}/report.html")
def report(service: Serving, number: int, voice: Voice = "person") -> Response:
    """The report, as a file that needs nothing else."""
    record = record_of(service, number)
    if record.kind != "explanation":
        raise missing(f"explanation {number}", LOG)
    text = report_html(record, service.subject, voice)
    return _file(text, "text/html", f"report-{number}-{voice}.html", REPORT_POLICY)


@shown_at("/api")
def api(request: Request, service: Serving) -> Response:
    """The API in one page, and what is served."""
    paths = request.app.openapi()["paths"]
    calls = [
        {"method": method.upper(), "path": path, "about": what.get("description", what["summary"])}
        for path, methods in paths.items()
        for method, what in methods.items()
    ]
    return page(request, "api.html", {"model": views.model(service), "calls": calls})


@router.get("/static/{name}")
def static(name: str) -> Response:
    """A file of the pages."""
    found = files("ironrule.server").joinpath("static", name)
    ending = name[name.rfind(".") :]
    if ending not in KINDS or not name.replace(".", "").replace("-", "").isalnum() or not found.is_file():
        raise missing(f"file {brief(name)}")
    return Response(
        found.read_text(encoding="utf-8"), media_type=KINDS[ending], headers={"Cache-Control": "max-age=3600"}
    )


def _file(text: str, kind: str, name: str, policy: str | None = None) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if policy is not None:
        headers["Content-Security-Policy"] = policy
    return Response(text, media_type=kind, headers=headers) if policy is None else HTMLResponse(text, headers=headers)
