"""`/v1/applications/{id}/ui`: the way to Spark's own pages of an application, which have an origin of their own."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from penstock.engine.tokens import Caller
from penstock.errors import NotFound
from penstock.service import shownplaces
from penstock.service.access import Reader
from penstock.service.context import Service, ServiceOf
from penstock.service.sparkui import application_root
from penstock.service.submission import visible

router = APIRouter(prefix="/v1/applications/{application_id}/ui", tags=["spark"])


@router.post("", status_code=201, summary="A link to Spark's pages", responses={201: {"model": shownplaces.PagesLink}})
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
