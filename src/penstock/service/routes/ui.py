"""`/v1/applications/{id}/ui/`: Spark's own pages of a running application."""

from __future__ import annotations

from time import monotonic
from urllib.parse import urlsplit

from anyio import sleep, to_thread
from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, StreamingResponse

from penstock.engine.application import Application, State
from penstock.errors import Forbidden, NotFound, StateError
from penstock.service.access import Caller, Reader, Scope
from penstock.service.context import Service, ServiceOf
from penstock.service.proxy import ProxyOf, Upstream, closing_proxy
from penstock.service.submission import visible

router = APIRouter(prefix="/v1/applications/{application_id}/ui", tags=["spark"], lifespan=closing_proxy)

_OPENING_SECONDS = 20.0
_LOOK_SECONDS = 0.1
_ENDING_WORK = "kill"
"""In the addresses by which Spark's pages end jobs and stages, with GET. Looked for anywhere in them: to Spark's server
`kill;x` is the same."""


@router.get("", include_in_schema=False)
def without_slash(application_id: str, _: Reader) -> RedirectResponse:
    return RedirectResponse(f"{_root(application_id)}/")


@router.get("/{path:path}", response_class=StreamingResponse, summary="The live Spark UI")
async def page(
    application_id: str, path: str, request: Request, *, service: ServiceOf, caller: Reader, proxy: ProxyOf
) -> StreamingResponse:
    """While the application runs; the first look opens them, which takes a second or two. Ending a job or a stage there
    takes the scope submit. What it was like remains in the history server: `/v1/spark-history/{lake}/`."""
    ending = _ENDING_WORK in path.lower()
    if ending and "authorization" not in request.headers:
        _require_own_page(request, application_id)
    scope = Scope.SUBMIT if ending else Scope.READ
    deadline = monotonic() + _OPENING_SECONDS
    while (upstream := await to_thread.run_sync(_upstream, service, caller, application_id, scope)) is None:
        if monotonic() >= deadline:
            raise StateError("Spark's pages are not open yet", why="the driver is busy", fix="try again in a moment")
        await sleep(_LOOK_SECONDS)
    return await proxy.show(request, upstream)


def _require_own_page(request: Request, application_id: str) -> None:
    """A browser follows any page's link with the visitor's rights: only this application's own may end its jobs."""
    came_from = urlsplit(request.headers.get("referer", ""))
    own = came_from.netloc == request.headers.get("host") and came_from.path.startswith(_root(application_id) + "/")
    if not own:
        raise Forbidden(
            "Another page than this application's own asked to end its work",
            why="the request came from elsewhere, or does not say from where",
            fix="end it on the application's own page",
        )


def _root(application_id: str) -> str:
    return f"/v1/applications/{application_id}/ui"


def _upstream(service: Service, caller: Caller, application_id: str, scope: Scope) -> Upstream | None:
    """None where its driver is just opening them."""
    found = visible(service, caller, application_id, scope)
    if not found.can_be_watched:
        raise _none(found)
    pages = service.engine.web_interface(found)
    return None if pages is None else Upstream(pages.host, pages.port, _root(application_id), pages.key)


def _none(application: Application) -> NotFound:
    if application.state.final:
        log = f"history/{application.spark_application_id}/" if application.spark_application_id else ""
        why, fix = "it has ended", f"/v1/spark-history/{application.spec.lake}/{log} shows what is kept of it"
    elif application.state is not State.RUNNING:
        why, fix = f"it is {application.state.value}", "look again when it runs"
    else:
        why, fix = "its setting spark.ui.enabled is false", "submit it without that setting"
    return NotFound(f"{application.id} has no web interface", why=why, fix=fix)
