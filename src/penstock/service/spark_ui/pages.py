"""Spark's own pages, live and from the history: an ASGI application of its own, on an origin of its own.

The pages come from processes that run users' code. This application serves nothing else, forwards only requests that
read, and accepts no token: a ticket from the console's origin becomes a cookie, see `access`.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Annotated

from anyio import sleep, to_thread
from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from penstock.engine.interactive.history import HistoryServers
from penstock.engine.tokens import Caller, Scope
from penstock.errors import Forbidden, NotFound, StateError, Unauthenticated
from penstock.lake.registry import Lakes
from penstock.model import Application, State
from penstock.service import problems
from penstock.service.access_log import AnsweredRequest
from penstock.service.api.applications import visible
from penstock.service.context import CurrentService, Service
from penstock.service.guards import Guard, RequestLimits
from penstock.service.spark_ui.access import (
    COOKIE_LIFETIME,
    CurrentProxy,
    Upstream,
    application_root,
    closing_proxy,
    lake_root,
    path_below,
    path_segments,
    request_origin,
)

_OPENING_SECONDS = 20.0
_LOOK_SECONDS = 0.1
_NEW_LOG_SECONDS = 30.0
_NEW_LOG_LOOK_SECONDS = 1.0
_ENDING_WORK = "kill"
"""Part of the addresses by which Spark's server ends jobs and stages.

Refused anywhere in an address: Spark's server reads `kill;x` as `kill`.
"""
_ONE_APPLICATION = "history"

router = APIRouter(lifespan=closing_proxy)


def create_spark_app(
    service: Service,
    *,
    limits: RequestLimits | None = None,
    log_request: Callable[[AnsweredRequest], None] = lambda _: None,
) -> FastAPI:
    """Create the application of the pages' port."""
    app = FastAPI(title="Spark's pages", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.service = service
    problems.install(app)
    app.include_router(router)

    def report(seen: AnsweredRequest) -> None:
        service.metrics.count(seen)
        log_request(seen)

    app.add_middleware(Guard, limits=limits or RequestLimits(), report=report, request_counts=service.request_counts)
    return app


@router.get("/enter")
def enter(ticket: Annotated[str, Query(max_length=100)], request: Request, service: CurrentService) -> RedirectResponse:
    """Exchange the ticket for a cookie, and redirect to the pages."""
    cookie = service.spark_ui.cookie(ticket)
    answer = RedirectResponse(cookie.root, 303)
    answer.set_cookie(
        cookie.name,
        cookie.secret,
        max_age=int(COOKIE_LIFETIME.total_seconds()),
        path=cookie.root,
        secure=_origin(service, request).startswith("https:"),
        httponly=True,
        # Not strict: the console, which links here, may be on another site.
        samesite="lax",
    )
    return answer


@router.get("/applications/{application_id}/")
def application(application_id: str, request: Request, service: CurrentService) -> RedirectResponse:
    found = _application(service, request, application_id)
    return RedirectResponse(f"{application_root(found.id)}{'past' if found.state.final else 'ui'}/")


@router.get("/applications/{application_id}/ui/{path:path}")
async def live(
    application_id: str, path: str, request: Request, *, service: CurrentService, proxy: CurrentProxy
) -> Response:
    """Show the pages of a running application, and redirect to the history once it has ended.

    The first request opens them, which takes a second or two.
    """
    _require_looking(path)
    deadline = monotonic() + _OPENING_SECONDS
    while True:
        found = await to_thread.run_sync(_application, service, request, application_id)
        if found.state.final:
            return RedirectResponse(f"{application_root(found.id)}past/")
        if (upstream := await to_thread.run_sync(_live, service, found)) is not None:
            return await proxy.show(request, upstream, origin=_origin(service, request))
        if monotonic() >= deadline:
            raise StateError("Spark's pages are not open yet", why="the driver is busy", fix="try again in a moment")
        await sleep(_LOOK_SECONDS)


@router.get("/applications/{application_id}/past/{path:path}")
async def past(
    application_id: str, path: str, request: Request, *, service: CurrentService, proxy: CurrentProxy
) -> Response:
    """Show the application's pages of its lake's history server, and no other page of that server."""
    _require_looking(path)
    found = await to_thread.run_sync(_application, service, request, application_id)
    prefix = f"{application_root(found.id)}past"
    if not found.state.final or found.spark_application_id is None:
        raise _no_past(found)
    if not path:
        return RedirectResponse(f"{prefix}/{_ONE_APPLICATION}/{found.spark_application_id}/")
    _require_of(found.spark_application_id, path_below(request.scope["raw_path"], prefix))
    return await _from_history(request, service, found.spec.lake, prefix, proxy=proxy)


@router.get("/lakes/{lake}/{path:path}")
async def lake_history(
    lake: str, path: str, request: Request, *, service: CurrentService, proxy: CurrentProxy
) -> Response:
    """Show a lake's history server: it has the applications of all instances, so it needs the scope read on all."""
    _require_looking(path)
    caller = await to_thread.run_sync(_caller, service, request, lake_root(lake))
    caller.require(Scope.READ)
    return await _from_history(request, service, lake, lake_root(lake).rstrip("/"), proxy=proxy)


async def _from_history(
    request: Request, service: Service, lake: str | None, prefix: str, *, proxy: CurrentProxy
) -> StreamingResponse:
    below = path_segments(path_below(request.scope["raw_path"], prefix))
    # The server looks for new event logs every few seconds only, and this one may be new.
    until = monotonic() + (_NEW_LOG_SECONDS if below[0] == _ONE_APPLICATION else 0)
    while True:
        upstream = await to_thread.run_sync(_past, service, lake, prefix)
        answer = await proxy.show(request, upstream, origin=_origin(service, request))
        if answer.status_code != 404 or monotonic() >= until:
            return answer
        if answer.background is not None:
            await answer.background()
        await sleep(_NEW_LOG_LOOK_SECONDS)


def _caller(service: Service, request: Request, root: str) -> Caller:
    """Return the visitor. Raises `Unauthenticated`."""
    # Other servers of the machine are “same site” to a browser, whatever their port: it sends cookies with their pages'
    # requests. Following a link is allowed from anywhere, since it shows the other page nothing.
    site = request.headers.get("sec-fetch-site", "none")
    arrives = (
        request.headers.get("sec-fetch-mode") == "navigate" and request.headers.get("sec-fetch-dest") == "document"
    )
    if site not in ("none", "same-origin") and not arrives:
        raise Unauthenticated(
            "Another site's page made this request", why="only Spark's own pages may", fix="open the address by itself"
        )
    caller = service.spark_ui.caller(root, request.cookies)
    request.state.slot.belongs_to(caller.token_id)
    request.state.caller = caller
    return caller


def _application(service: Service, request: Request, application_id: str) -> Application:
    """Return the application if the browser may see its pages. Raises `Unauthenticated` and `NotFound`."""
    return visible(service, _caller(service, request, application_root(application_id)), application_id)


def _require_looking(path: str) -> None:
    if _ENDING_WORK in path.lower():
        raise Forbidden(
            "These pages cannot end jobs or stages",
            why="they run applications' code, which could follow such a link by itself",
            fix="penstock stop ID, or the console, ends the application",
        )


def _require_of(spark_application_id: str, below: str) -> None:
    """Raise `NotFound` for a page of the history server that shows other applications."""
    parts = path_segments(below)
    own = (["static"], [_ONE_APPLICATION, spark_application_id], ["api", "v1", "applications", spark_application_id])
    if not any(parts[: len(beginning)] == beginning for beginning in own):
        raise NotFound("This page belongs to another application", fix="open the other application from the console")


def _live(service: Service, found: Application) -> Upstream | None:
    """Return the driver's server; None while the driver is opening its pages."""
    if not found.can_be_watched:
        running = found.state is State.RUNNING
        raise NotFound(
            f"{found.id} has no web interface",
            why="its setting spark.ui.enabled is false" if running else f"it is {found.state.value}",
            fix="submit it without that setting" if running else "look again when it runs",
        )
    pages = service.engine.clusters.web_interface(found)
    prefix = f"{application_root(found.id)}ui"
    return None if pages is None else Upstream(pages.host, pages.port, prefix, pages.key)


def _no_past(found: Application) -> NotFound:
    if found.state.final:
        return NotFound(f"{found.id} is not in the history", why="it ended before Spark started")
    return NotFound(f"{found.id} is not in the history yet", why=f"it is {found.state.value}", fix="look at it live")


def _past(service: Service, lake: str | None, prefix: str) -> Upstream:
    # The lookup also proves that it is a lake's name before it becomes a directory's.
    lakes = Lakes(service.home)
    name = lakes.get(lakes.artifact_lake(lake)).name
    return Upstream(*HistoryServers(service.engine).address(name), prefix=prefix)


def _origin(service: Service, request: Request) -> str:
    """Return the pages' origin for the visitor's browser."""
    return service.spark_origin.url or request_origin(request.url.scheme, request.headers.get("host", ""))
