"""The dependencies of the handlers: the service, and the user of a request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from ironrule.server.auth import User
from ironrule.server.service import Service


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
