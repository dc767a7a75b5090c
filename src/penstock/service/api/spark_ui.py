"""`/v1/applications/{id}/ui`, `/v1/history` and `/v1/spark-history`: links to Spark's pages."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from penstock.engine.interactive.history import HistoryServers
from penstock.engine.tokens import Caller, Scope
from penstock.errors import NotFound
from penstock.lake.registry import Lakes
from penstock.service import responses
from penstock.service.api.applications import visible
from penstock.service.auth import Reader, Submitter
from penstock.service.context import Service, ServiceOf
from penstock.service.requests import Name
from penstock.service.spark_ui import application_root, lake_root

router = APIRouter(prefix="/v1/applications/{application_id}/ui", tags=["spark"])


@router.post("", status_code=201, summary="A link to Spark's pages", responses={201: {"model": responses.PagesLink}})
def link(application_id: str, request: Request, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    """Live while the application runs, and from the history afterwards. The link opens them once, within a minute, and
    for an hour, in the browser (or with the cookies of the program) that follows it. No token is to be sent there."""
    return link_to(service, request, caller, application_root(visible(service, caller, application_id).id))


@router.get("", include_in_schema=False)
@router.get("/{path:path}", include_in_schema=False)
def moved(application_id: str, request: Request) -> Response:
    """IBM's clients show the address, and people have noted it down: the console has the button."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(f"{request.scope.get('root_path', '')}/#/application/{quote(application_id, safe='')}")
    raise elsewhere()


def link_to(service: Service, request: Request, caller: Caller, root: str) -> dict[str, Any]:
    """A link that opens the pages below `root`, which the caller was found to be allowed to see."""
    origin = service.spark_origin.seen_from(request.url.scheme, request.headers.get("host", ""))
    ticket = service.spark_ui.ticket(caller, root)
    return {"url": f"{origin}/enter?ticket={ticket.secret}", "expires_at": ticket.ends_at.isoformat()}


def elsewhere() -> NotFound:
    return NotFound(
        "Spark's pages are not at this address",
        why="they run users' code, and have an origin of their own",
        fix="POST /v1/applications/ID/ui answers a link to them; the console has a button for it",
    )


history_router = APIRouter(tags=["spark"])

_PAGES = "/v1/spark-history"

LakeName = Annotated[Name | None, Query(description="Which lake; the default one if not given.")]


@history_router.get(
    "/v1/history", summary="Whether the history server runs", responses={200: {"model": responses.HistoryServer}}
)
def status(service: ServiceOf, caller: Reader, lake: LakeName = None) -> dict[str, Any]:
    caller.require(Scope.READ)
    return _shown(service, lake)


@history_router.post(
    "/v1/history",
    status_code=202,
    summary="Start the history server",
    responses={202: {"model": responses.HistoryServer}},
)
def start(service: ServiceOf, caller: Reader, lake: LakeName = None) -> dict[str, Any]:
    """A look at its pages starts it as well. It ends by itself when nobody has looked for a while."""
    caller.require(Scope.READ)
    HistoryServers(service.engine).start(lake)
    return _shown(service, lake)


@history_router.delete(
    "/v1/history", summary="End the history server", responses={200: {"model": responses.HistoryServer}}
)
def stop(service: ServiceOf, caller: Submitter, lake: LakeName = None) -> dict[str, Any]:
    """May be repeated. Nothing is lost by it."""
    caller.require(Scope.SUBMIT)
    HistoryServers(service.engine).stop(lake)
    return _shown(service, lake)


@history_router.post(
    f"{_PAGES}/{{lake}}",
    status_code=201,
    summary="A link to the history server's pages",
    responses={201: {"model": responses.PagesLink}},
)
def history_link(lake: str, request: Request, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    """As `POST /v1/applications/{id}/ui`, for all applications in the lake: that takes the scope read on all
    instances."""
    caller.require(Scope.READ)
    lakes = Lakes(service.home)
    return link_to(service, request, caller, lake_root(lakes.get(lakes.kept_in(lake)).name))


@history_router.get(f"{_PAGES}/{{path:path}}", include_in_schema=False)
def history_moved() -> None:
    raise elsewhere()


def _shown(service: Service, lake: str | None) -> dict[str, Any]:
    found = HistoryServers(service.engine).status(lake)
    return {**found.to_json(), "url": f"{_PAGES}/{found.lake}"}
