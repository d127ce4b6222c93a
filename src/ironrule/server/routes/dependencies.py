"""The dependencies of the handlers: the service, and the user of a request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from ironrule.server.service import Service


def get_service(request: Request) -> Service:
    """The service behind a request."""
    service: Service = request.app.state.service
    return service


def get_user(request: Request) -> str:
    """The user of a request."""
    who: str = request.state.who
    return who


ServiceDependency = Annotated[Service, Depends(get_service)]
UserDependency = Annotated[str, Depends(get_user)]
