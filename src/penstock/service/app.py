"""The ASGI application: routers, errors, guards, health and metrics, and its OpenAPI description.

Building it starts nothing; its lifespan does. The description is FastAPI's, with the security and the errors that
FastAPI cannot know. `/health` needs no token and reveals no secret; `/metrics` takes one of the scope read on all
instances (`authorization.credentials_file`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from penstock import __version__
from penstock.engine.repository.audit import Audit
from penstock.engine.tokens import Scope
from penstock.errors import PenstockError, ServiceError
from penstock.service import console, problems, responses
from penstock.service.access_log import Seen
from penstock.service.api import access, applications, artifacts, data, lab, queues, sessions, spark_ui
from penstock.service.auth import Auditor, Reader
from penstock.service.context import Service, ServiceOf
from penstock.service.guards import Guard, Limits
from penstock.service.ibm import applications as dialects

_TAGS = {
    "applications": "Spark applications, each on a cluster of its own: submit, list, show, wait, stop, run again.",
    "logs": "What an application's processes wrote, while it runs and afterwards.",
    "sql": "What SQL statements answered.",
    "files": "Bringing an application's files to the lake.",
    "sessions": "Clusters for interactive work over Spark Connect.",
    "instances": "Who shares the machine, by which part, and who waits for what.",
    "data": "Tables, lakes, profiles and the page cache.",
    "tokens": "Who may use this service.",
    "audit": "Who did what.",
    "lab": "What was measured here.",
    "IBM Analytics Engine": "Its v3 and v4, for programs written for it.",
    "IBM Analytics Engine, older jobs API": "With the cluster's size in the body.",
    "self": "What the caller may do.",
    "health": "For whoever operates the service.",
}
_PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457 problem details, with the problem, why, and how to fix it.",
    "required": ["type", "title", "status", "detail", "problem", "why", "fix", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string", "description": "The status in words."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "The whole explanation."},
        "problem": {"type": "string", "description": "What is wrong, in one sentence."},
        "why": {"type": "string"},
        "fix": {"type": "string", "description": "What to do about it."},
        "code": {"type": "string", "description": "The kind of problem, for programs.", "examples": ["not_found"]},
        "instance": {"type": ["string", "null"], "description": "The request; its id is in the service's journal."},
        "errors": {
            "type": "array",
            "description": "Of a request that is not as described: where, and what.",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
    },
}
_ANY_PROBLEM = {
    "description": "It was not done: what the problem is, why, and how to fix it.",
    "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_DESCRIBED_METHODS = frozenset({"get", "put", "post", "patch", "delete", "head", "options"})
_OPEN = ("/health/",)


def install(app: FastAPI) -> None:
    """Publish it at `/openapi.json`."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
    )
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = _PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of this service: penstock token create NAME, or POST /v1/tokens.",
        }
    }
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            if method in _DESCRIBED_METHODS:
                _complete(operation, guarded=not path.startswith(_OPEN))
    return found


def _complete(operation: dict[str, Any], *, guarded: bool) -> None:
    operation["responses"].pop("422", None)
    # One description for every refusal: the body's `code` tells them apart better than a list of numbers.
    operation["responses"]["default"] = _ANY_PROBLEM
    if guarded:
        operation["security"] = [{"token": []}]


health_router = APIRouter(prefix="/health", tags=["health"])


@health_router.get("/live", summary="The process answers")
async def live() -> dict[str, str]:
    return {"status": "live"}


@health_router.get("/ready", summary="The records answer, and the service is not about to end")
def ready(service: ServiceOf) -> dict[str, str]:
    if service.closing.is_set():
        raise ServiceError("This service is ending", fix="ask again in a moment, or another one on the same records")
    try:
        service.engine.list(limit=1)
    except PenstockError:
        raise
    except Exception as error:
        raise ServiceError("The records do not answer", fix="penstock status, on the service's machine") from error
    return {"status": "ready"}


metrics_router = APIRouter(tags=["health"])


@metrics_router.get("/metrics", summary="Metrics in Prometheus' text format", response_class=PlainTextResponse)
def metrics(service: ServiceOf, caller: Reader) -> PlainTextResponse:
    caller.require(Scope.READ)
    return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


self_router = APIRouter(prefix="/v1/self", tags=["self"])


@self_router.get(
    "",
    summary="The caller's name, scopes and instances, and what this service has",
    responses={200: {"model": responses.Caller}},
)
def show(service: ServiceOf, caller: Reader) -> dict[str, Any]:
    capacity = service.engine.backend.capacity()
    return {
        "name": caller.name,
        "scopes": [scope.value for scope in Scope if caller.may_anywhere(scope)],
        "instances": None if caller.instances is None else sorted(caller.instances),
        "grants": {instance: scope.value for instance, scope in caller.grants.items()},
        "version": __version__,
        "capacity": {"cores": capacity.cores, "memory_bytes": capacity.memory_bytes},
        "usual_size": asdict(service.engine.usual_size()),
        "authenticated": True,
    }


_ABOUT = """Apache Spark applications, each on its own throw-away cluster, over one shared data lake.

Every call below `/v1` needs `Authorization: Bearer TOKEN`. Errors are RFC 9457 problem details with the members
`problem`, `why` and `fix`. Times are ISO 8601 in UTC; sizes are bytes, and `"2g"` is understood on input.
"""
_ROUTERS = (
    health_router,
    metrics_router,
    self_router,
    applications.router,
    artifacts.router,
    applications.statements_router,
    artifacts.files_router,
    queues.router,
    data.router,
    access.tokens_router,
    access.audit_router,
    sessions.changes_router,
    access.browser_access_router,
    lab.router,
    sessions.router,
    spark_ui.router,
    spark_ui.history_router,
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

    def record(entries: Sequence[Audit]) -> None:
        # Not before the first entry: the audit is in a database that a service of this machine may have to start.
        service.engine.audit.add(entries)

    auditor = Auditor(record)

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
    install(app)
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
