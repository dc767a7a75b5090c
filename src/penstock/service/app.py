"""The ASGI application: routers, errors, guards. Building it starts nothing; its lifespan does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from penstock import __version__
from penstock.service import console, description, problems
from penstock.service.auditor import Auditor
from penstock.service.context import Service
from penstock.service.dialects import router as dialects
from penstock.service.guards import Guard, Limits
from penstock.service.journal import Seen
from penstock.service.routes import (
    applications,
    audit,
    browseraccess,
    changes,
    data,
    files,
    health,
    history,
    instances,
    lab,
    logs,
    metrics,
    self_,
    sessions,
    statements,
    tokens,
    ui,
)

_ABOUT = """Apache Spark applications, each on its own throw-away cluster, over one shared data lake.

Every call below `/v1` needs `Authorization: Bearer TOKEN`. Errors are RFC 9457 problem details with the members
`problem`, `why` and `fix`. Times are ISO 8601 in UTC; sizes are bytes, and `"2g"` is understood on input.
"""
_ROUTERS = (
    health.router,
    metrics.router,
    self_.router,
    applications.router,
    logs.router,
    statements.router,
    files.router,
    instances.router,
    data.router,
    tokens.router,
    audit.router,
    changes.router,
    browseraccess.router,
    lab.router,
    sessions.router,
    ui.router,
    history.router,
    dialects.router,
    console.router,
)


def create_app(
    service: Service,
    *,
    limits: Limits | None = None,
    journal: Callable[[Seen], None] = lambda _: None,
    beside: Callable[[Service], AbstractAsyncContextManager[Any]] | None = None,
) -> FastAPI:
    """`beside` is entered when the application starts: what works while it serves, and ends with it."""
    auditor = Auditor(service.engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = service.bounds.threads
        try:
            if beside is None:
                yield
            else:
                async with beside(service):
                    yield
        finally:
            auditor.close()

    app = FastAPI(
        title="Penstock", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.service = service
    problems.install(app)
    description.install(app)
    for router in _ROUTERS:
        app.include_router(router)

    def tell(seen: Seen) -> None:
        service.metrics.count(seen)
        auditor.add(seen)
        journal(seen)

    app.add_middleware(
        Guard,
        limits=limits or Limits(),
        tell=tell,
        admit=auditor.admit,
        under_way=service.under_way,
        identify=service.tokens.authenticate,
    )
    return app


class ByPort:
    """Several applications of one server: the port that a connection came to decides which answers, and no header does.

    `main` has all other ports, and the server's start and end.
    """

    def __init__(self, main: ASGIApp, others: Mapping[int, ASGIApp]) -> None:
        self._main = main
        self._others = others

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        _, port = scope.get("server") or ("", None)
        await self._others.get(port or 0, self._main)(scope, receive, send)
