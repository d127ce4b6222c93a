"""Log in and out: a browser shows its token once and gets a session."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from ironrule.server.auth import HOME_PATHS, SESSION_COOKIE, BrowserSessions, get_address
from ironrule.server.responses import redirect, render_response

router = APIRouter(include_in_schema=False)


def get_sessions(request: Request) -> BrowserSessions:
    """The sessions of browsers."""
    sessions: BrowserSessions = request.app.state.sessions
    return sessions


@router.get("/login")
def show_login(request: Request) -> Response:
    """Ask for the token."""
    return render_response(request, "login.html", {"wrong": False})


@router.post("/login", response_model=None)
def log_in(request: Request, token: Annotated[str, Form()] = "") -> Response:
    """Open a session for a token."""
    opened = get_sessions(request).open_session(token.strip(), get_address(request))
    if opened is None:
        return render_response(request, "login.html", {"wrong": True}, 401)
    name, user = opened
    response = redirect(HOME_PATHS[user.role])
    secure = request.url.scheme == "https"
    response.set_cookie(SESSION_COOKIE, name, httponly=True, samesite="strict", secure=secure)
    return response


@router.post("/logout", response_model=None)
def log_out(request: Request) -> Response:
    """End the session."""
    get_sessions(request).close_session(request.cookies.get(SESSION_COOKIE, ""))
    response = redirect("/login")
    response.delete_cookie(SESSION_COOKIE)
    return response
