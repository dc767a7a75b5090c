"""`/v1/history` and `/v1/spark-history`: Spark's own history server, over all event logs of a lake."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from penstock.engine.interactive.history import History
from penstock.engine.tokens import Scope
from penstock.lake.registry import Lakes
from penstock.service import shownplaces
from penstock.service.access import Reader, Submitter
from penstock.service.context import Service, ServiceOf
from penstock.service.models import Name
from penstock.service.routes.ui import elsewhere, link_to
from penstock.service.sparkui import lake_root

router = APIRouter(tags=["spark"])

_PAGES = "/v1/spark-history"

LakeName = Annotated[Name | None, Query(description="Which lake; the default one if not given.")]


@router.get(
    "/v1/history", summary="Whether the history server runs", responses={200: {"model": shownplaces.HistoryServer}}
)
def status(service: ServiceOf, caller: Reader, lake: LakeName = None) -> dict[str, Any]:
    caller.require(Scope.READ)
    return _shown(service, lake)


@router.post(
    "/v1/history",
    status_code=202,
    summary="Start the history server",
    responses={202: {"model": shownplaces.HistoryServer}},
)
def start(service: ServiceOf, caller: Reader, lake: LakeName = None) -> dict[str, Any]:
    """A look at its pages starts it as well. It ends by itself when nobody has looked for a while."""
    caller.require(Scope.READ)
    History(service.engine).start(lake)
    return _shown(service, lake)


@router.delete("/v1/history", summary="End the history server", responses={200: {"model": shownplaces.HistoryServer}})
def stop(service: ServiceOf, caller: Submitter, lake: LakeName = None) -> dict[str, Any]:
    """May be repeated. Nothing is lost by it."""
    caller.require(Scope.SUBMIT)
    History(service.engine).stop(lake)
    return _shown(service, lake)


@router.post(
    f"{_PAGES}/{{lake}}",
    status_code=201,
    summary="A link to the history server's pages",
    responses={201: {"model": shownplaces.PagesLink}},
)
def link(lake: str, request: Request, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    """As `POST /v1/applications/{id}/ui`, for all applications in the lake: that takes the scope read on all
    instances."""
    caller.require(Scope.READ)
    lakes = Lakes(service.home)
    return link_to(service, request, caller, lake_root(lakes.get(lakes.kept_in(lake)).name))


@router.get(f"{_PAGES}/{{path:path}}", include_in_schema=False)
def moved() -> None:
    raise elsewhere()


def _shown(service: Service, lake: str | None) -> dict[str, Any]:
    found = History(service.engine).status(lake)
    return {**found.to_json(), "url": f"{_PAGES}/{found.lake}"}
