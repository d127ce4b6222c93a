"""What the handlers share: the service, the user of a request, and how a page is registered with its JSON form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from ironrule.server.auth import User
from ironrule.server.jobs import Job
from ironrule.server.responses import redirect
from ironrule.server.service import RECORD_FOLDERS, Service, wait_for_client

QUICK_SECONDS = 1.0
Handler = Callable[..., Any]


def get_service(request: Request) -> Service:
    """The service behind a request."""
    service: Service = request.app.state.service
    return service


def get_user(request: Request) -> User:
    """The user of a request."""
    user: User = request.state.user
    return user


ServiceDependency = Annotated[Service, Depends(get_service)]
UserDependency = Annotated[User, Depends(get_user)]


def register_page(router: APIRouter, path: str) -> Callable[[Handler], Handler]:
    """Register a page under its address, and its data under the same with ``.json``."""

    def register(handler: Handler) -> Handler:
        for address in (f"{path}.json", path):
            router.add_api_route(address, handler, methods=["GET"], response_model=None)
        return handler

    return register


async def redirect_to_result(request: Request, service: Service, started: Job) -> Response:
    """To the result of a job if there is one soon, else to its progress."""
    await wait_for_client(service, started, request, QUICK_SECONDS)
    return redirect(find_result_path(started) or f"/jobs/{started.name}")


def find_result_path(found: Job) -> str | None:
    """Where the result of a job is shown; None as long as there is none."""
    if found.kind == "batch":
        return f"/batches/{found.name}"
    if not found.has_ended or not isinstance(found.result, int):
        return None
    return f"/{RECORD_FOLDERS[found.kind]}/{found.result}"
