"""`/v1/history` and `/v1/spark-history/`: Spark's own history server, over all event logs of a lake."""

from __future__ import annotations

from time import monotonic
from typing import Annotated, Any

from anyio import sleep, to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, StreamingResponse

from penstock.engine.history import History
from penstock.lake.registry import Lakes
from penstock.service import shownplaces
from penstock.service.access import Reader, Scope, Submitter
from penstock.service.context import Service, ServiceOf
from penstock.service.models import Name
from penstock.service.proxy import ProxyOf, Upstream, closing_proxy

router = APIRouter(tags=["spark"], lifespan=closing_proxy)

# Not below /v1/history: Spark's scripts take the first “history” of an address for their own.
_PAGES = "/v1/spark-history"
_ONE_APPLICATION = "history/"
_NEW_LOG_SECONDS = 30.0
_NEW_LOG_LOOK_SECONDS = 1.0

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
    """Its pages start it as well. It ends by itself when nobody has looked for a while."""
    caller.require(Scope.READ)
    History(service.engine).start(lake)
    return _shown(service, lake)


@router.delete("/v1/history", summary="End the history server", responses={200: {"model": shownplaces.HistoryServer}})
def stop(service: ServiceOf, caller: Submitter, lake: LakeName = None) -> dict[str, Any]:
    """May be repeated. Nothing is lost by it."""
    caller.require(Scope.SUBMIT)
    History(service.engine).stop(lake)
    return _shown(service, lake)


@router.get(f"{_PAGES}/{{lake}}", include_in_schema=False)
def without_slash(lake: str, _: Reader) -> RedirectResponse:
    return RedirectResponse(f"{_PAGES}/{lake}/")


@router.get(f"{_PAGES}/{{lake}}/{{path:path}}", response_class=StreamingResponse, summary="The history server's pages")
async def page(
    lake: str, path: str, request: Request, *, service: ServiceOf, caller: Reader, proxy: ProxyOf
) -> StreamingResponse:
    """`…/history/{spark_application_id}/` is one application. It shows those of all instances: that takes the scope
    read on all of them."""
    caller.require(Scope.READ)
    # The server looks for new logs every few seconds, and this may be the one of a moment ago.
    until = monotonic() + (_NEW_LOG_SECONDS if path.startswith(_ONE_APPLICATION) else 0)
    while True:
        answer = await proxy.show(request, await to_thread.run_sync(_upstream, service, lake))
        if answer.status_code != 404 or monotonic() >= until:
            return answer
        if answer.background is not None:
            await answer.background()
        await sleep(_NEW_LOG_LOOK_SECONDS)


def _upstream(service: Service, lake: str) -> Upstream:
    # Also the check that it is a lake's name, before it is a directory's.
    lakes = Lakes(service.home)
    name = lakes.get(lakes.kept_in(lake)).name
    return Upstream(*History(service.engine).look(name), prefix=f"{_PAGES}/{name}")


def _shown(service: Service, lake: str | None) -> dict[str, Any]:
    found = History(service.engine).status(lake)
    return {**found.to_json(), "url": f"{_PAGES}/{found.lake}/"}
