"""The ASGI application: routers, errors, guards. Building it starts nothing."""

from __future__ import annotations

from fastapi import FastAPI

from penstock import __version__
from penstock.service import console, problems
from penstock.service.context import Service
from penstock.service.routes import applications, health, self_

_ABOUT = """Apache Spark applications, each on its own throw-away cluster, over one shared data lake.

Every call below `/v1` needs `Authorization: Bearer TOKEN`. Errors are RFC 9457 problem details with the members
`problem`, `why` and `fix`. Times are ISO 8601 in UTC; sizes are bytes, and `"2g"` is understood on input.
"""


def create_app(service: Service) -> FastAPI:
    app = FastAPI(title="Penstock", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    app.state.service = service
    problems.install(app)
    for router in (health.router, self_.router, applications.router, console.router):
        app.include_router(router)
    return app
