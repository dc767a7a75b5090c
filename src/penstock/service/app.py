"""The ASGI application: routers, errors, guards, health and metrics, and its OpenAPI description.

Building it starts nothing; its lifespan does. The description is FastAPI's, completed with security and errors.
`/health` needs no token and reveals no secret; `/metrics` needs one with the scope read on all instances (Prometheus:
`authorization.credentials_file`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
from penstock.service.access_log import AnsweredRequest
from penstock.service.api import access, applications, data, iceberg, lab, logs, queues, sessions, spark_ui, uploads
from penstock.service.auth import Auditor, Reader
from penstock.service.context import CurrentService, Service
from penstock.service.guards import Guard, RequestLimits
from penstock.service.ibm import applications as dialects

_TAGS = {
    "applications": "Spark applications, each on a cluster of its own: submit, list, show, wait, stop, run again.",
    "logs": "The logs of an application's processes, while it runs and afterwards.",
    "sql": "Results of SQL statements.",
    "files": "Uploads of an application's files to the lake.",
    "sessions": "Clusters for interactive work over Spark Connect or JDBC.",
    "instances": "The instances that share the machine, with their weights and quotas, and the queue.",
    "data": "Tables, lakes, profiles and the page cache.",
    "tokens": "The tokens of this service's clients.",
    "audit": "The record of all changes.",
    "lab": "Measurements made on this machine.",
    "IBM Analytics Engine": "Versions 3 and 4 of its API, for existing clients.",
    "IBM Analytics Engine, older jobs API": "Jobs with the cluster's size in the body.",
    "self": "The caller's own rights.",
    "health": "Health and metrics, for operators.",
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
        "problem": {"type": "string", "description": "The problem, in one sentence."},
        "why": {"type": "string"},
        "fix": {"type": "string", "description": "The way to fix it."},
        "code": {"type": "string", "description": "The kind of problem, for programs.", "examples": ["not_found"]},
        "instance": {"type": ["string", "null"], "description": "The request; its id is in the service's log."},
        "errors": {
            "type": "array",
            "description": "The invalid fields of a request, each with its path and problem.",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
    },
}
_ANY_PROBLEM = {
    "description": "The request failed; the body has the problem, why, and how to fix it.",
    "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_DESCRIBED_METHODS = frozenset({"get", "put", "post", "patch", "delete", "head", "options"})
_OPEN = ("/health/",)


def install(app: FastAPI) -> None:
    """Publish the OpenAPI description at `/openapi.json`."""

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
    # One response for every error: the body's `code` is more precise than a list of statuses.
    operation["responses"]["default"] = _ANY_PROBLEM
    if guarded:
        operation["security"] = [{"token": []}]


health_router = APIRouter(prefix="/health", tags=["health"])


@health_router.get("/live", summary="The process answers")
async def live() -> dict[str, str]:
    return {"status": "live"}


@health_router.get("/ready", summary="The database answers, and the service is not shutting down")
def ready(service: CurrentService) -> dict[str, str]:
    if service.closing.is_set():
        raise ServiceError(
            "This service is shutting down", fix="try again in a moment, or another service on the same database"
        )
    try:
        service.engine.list(limit=1)
    except PenstockError:
        raise
    except Exception as error:
        raise ServiceError("The database does not answer", fix="penstock status, on the service's machine") from error
    return {"status": "ready"}


metrics_router = APIRouter(tags=["health"])


@metrics_router.get("/metrics", summary="Metrics in Prometheus' text format", response_class=PlainTextResponse)
def metrics(service: CurrentService, caller: Reader) -> PlainTextResponse:
    caller.require(Scope.READ)
    return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


self_router = APIRouter(prefix="/v1/self", tags=["self"])


@self_router.get(
    "",
    summary="The caller's name, scopes and instances, and the service's version and capacity",
)
def show(service: CurrentService, caller: Reader) -> responses.Caller:
    capacity = service.engine.backend.capacity()
    return responses.Caller(
        name=caller.name,
        scopes=[scope for scope in Scope if caller.may_anywhere(scope)],
        instances=None if caller.instances is None else sorted(caller.instances),
        grants=dict(caller.grants),
        version=__version__,
        capacity=responses.Amount(cores=capacity.cores, memory_bytes=capacity.memory_bytes),
        usual_size=responses.ClusterSize.model_validate(service.engine.usual_size()),
        authenticated=True,
    )


_ABOUT = """Apache Spark applications, each on its own throw-away cluster, over one shared data lake.

Every call below `/v1` needs `Authorization: Bearer TOKEN`. Errors are RFC 9457 problem details with the members
`problem`, `why` and `fix`. Times are ISO 8601 in UTC; sizes are bytes, and requests may also have text such as `"2g"`.
"""
_ROUTERS = (
    health_router,
    metrics_router,
    self_router,
    applications.router,
    logs.router,
    applications.statements_router,
    uploads.router,
    queues.router,
    data.router,
    iceberg.router,
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
    limits: RequestLimits | None = None,
    log_request: Callable[[AnsweredRequest], None] = lambda _: None,
    background_tasks: Callable[[Service], AbstractAsyncContextManager[Any]] | None = None,
) -> FastAPI:
    """Create the application. `beside` is entered when it starts, and left when it ends: its background tasks."""

    def record(entries: Sequence[Audit]) -> None:
        # The audit is opened by its first entry, since a service of this machine may have to start the database.
        service.engine.audit.add(entries)

    auditor = Auditor(record)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = service.bounds.threads
        try:
            if background_tasks is None:
                yield
            else:
                async with background_tasks(service):
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

    def report(seen: AnsweredRequest) -> None:
        service.metrics.count(seen)
        auditor.add(seen)
        log_request(seen)

    app.add_middleware(
        Guard,
        limits=limits or RequestLimits(),
        report=report,
        admit=auditor.admit,
        request_counts=service.request_counts,
        identify=service.tokens.authenticate,
    )
    return app


class ByPort:
    """Several applications of one server, chosen by the connection's port, never by a header.

    `main` has all other ports, and the server's lifespan.
    """

    def __init__(self, main: ASGIApp, others: Mapping[int, ASGIApp]) -> None:
        self._main = main
        self._others = others

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        _, port = scope.get("server") or ("", None)
        await self._others.get(port or 0, self._main)(scope, receive, send)
