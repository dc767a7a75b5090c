"""What every route works with: the engine, who may do what, and whether the service is about to end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Protocol

from fastapi import Depends, Request

from penstock.engine.engine import Engine
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.service.access import Caller


class Authenticator(Protocol):
    def authenticate(self, token: str) -> Caller:
        """Whose token it is. Raises `Unauthenticated`."""


class BrowserGrants(Protocol):
    def caller(self, path: str, cookies: Mapping[str, str]) -> Caller | None:
        """Who was granted to open that path in a browser."""


@dataclass
class Service:
    home: Home
    engine: Engine
    tokens: Authenticator
    browser_grants: BrowserGrants | None = None
    closing: threading.Event = field(default_factory=threading.Event)
    """Set once the service is asked to end: streams finish, readiness says no."""


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceOf = Annotated[Service, Depends(_service)]
