"""`/v1/applications/{id}/ui`, `/v1/history` and `/v1/spark-history`: links to Spark's pages."""

from __future__ import annotations

from typing import Annotated
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
from penstock.service.context import CurrentService, Service
from penstock.service.requests import Name
from penstock.service.spark_ui.access import application_root, lake_root

router = APIRouter(prefix="/v1/applications/{application_id}/ui", tags=["spark"])


@router.post("", status_code=201, summary="A link to Spark's pages")
def link(application_id: str, request: Request, service: CurrentService, caller: Reader) -> responses.PagesLink:
    """The pages are live while the application runs, and from the history afterwards.

    The link is valid once, within a minute, and opens them for an hour in the browser (or the cookie jar) that follows
    it. Do not send a token there.
    """
    return link_to(service, request, caller, application_root(visible(service, caller, application_id).id))


@router.get("", include_in_schema=False)
@router.get("/{path:path}", include_in_schema=False)
def moved(application_id: str, request: Request) -> Response:
    """Redirect browsers to the console: IBM's clients show this address, and users have bookmarked it."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(f"{request.scope.get('root_path', '')}/#/application/{quote(application_id, safe='')}")
    raise moved_error()


def link_to(service: Service, request: Request, caller: Caller, root: str) -> responses.PagesLink:
    """Return a link to the pages below `root`, after the caller's right to see them was checked."""
    origin = service.spark_origin.for_console(request.url.scheme, request.headers.get("host", ""))
    ticket = service.spark_ui.ticket(caller, root)
    return responses.PagesLink(url=f"{origin}/enter?ticket={ticket.secret}", expires_at=ticket.ends_at)


def moved_error() -> NotFound:
    return NotFound(
        "Spark's pages are not at this address",
        why="they run users' code, and have an origin of their own",
        fix="POST /v1/applications/ID/ui returns a link to them; the console has a button for it",
    )


history_router = APIRouter(tags=["spark"])

_PAGES = "/v1/spark-history"

LakeName = Annotated[Name | None, Query(description="The lake; the default lake if omitted.")]


@history_router.get("/v1/history", summary="The status of the history server")
def status(service: CurrentService, caller: Reader, lake: LakeName = None) -> responses.HistoryServer:
    caller.require(Scope.READ)
    return _status(service, lake)


@history_router.post("/v1/history", status_code=202, summary="Start the history server")
def start(service: CurrentService, caller: Reader, lake: LakeName = None) -> responses.HistoryServer:
    """Opening its pages starts it, too. It ends by itself after some time without use."""
    caller.require(Scope.READ)
    HistoryServers(service.engine).start(lake)
    return _status(service, lake)


@history_router.delete("/v1/history", summary="Stop the history server")
def stop(service: CurrentService, caller: Submitter, lake: LakeName = None) -> responses.HistoryServer:
    """May be repeated. The history itself stays."""
    caller.require(Scope.SUBMIT)
    HistoryServers(service.engine).stop(lake)
    return _status(service, lake)


@history_router.post(f"{_PAGES}/{{lake}}", status_code=201, summary="A link to the history server's pages")
def history_link(lake: str, request: Request, service: CurrentService, caller: Reader) -> responses.PagesLink:
    """As `POST /v1/applications/{id}/ui`, for all applications in the lake. It needs the scope read on all of them."""
    caller.require(Scope.READ)
    lakes = Lakes(service.home)
    return link_to(service, request, caller, lake_root(lakes.get(lakes.artifact_lake(lake)).name))


@history_router.get(f"{_PAGES}/{{path:path}}", include_in_schema=False)
def history_moved() -> None:
    raise moved_error()


def _status(service: Service, lake: str | None) -> responses.HistoryServer:
    found = HistoryServers(service.engine).status(lake)
    return responses.history_server(found, url=f"{_PAGES}/{found.lake}")
