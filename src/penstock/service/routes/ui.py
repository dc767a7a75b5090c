"""`/v1/applications/{id}/ui/`: Spark's own pages of a running application."""

from __future__ import annotations

from html import escape
from time import monotonic

from anyio import sleep, to_thread
from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from penstock.engine.application import Application, State
from penstock.errors import NotFound, StateError
from penstock.service.access import Caller, Reader, Scope
from penstock.service.context import Service, ServiceOf
from penstock.service.proxy import Proxy, ProxyOf, Upstream, closing_proxy, content_policy, origin_of
from penstock.service.submission import visible

router = APIRouter(prefix="/v1/applications/{application_id}/ui", tags=["spark"], lifespan=closing_proxy)

_OPENING_SECONDS = 20.0
_LOOK_SECONDS = 0.1
_ENDING_WORK = "kill"
"""In the addresses by which Spark's server ends jobs and stages, by GET too. Looked for anywhere in them: to Spark's
server `kill;x` is the same."""
_CONFIRMATION = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>End this work?</title></head>
<body style="font: 16px/1.5 sans-serif; margin: 4em auto; max-width: 32em">
<h1 style="font-size: 1.3em">End this job or stage of {application}?</h1>
<p>What it has computed is lost, and the query that it belongs to fails.</p>
<form method="post" action="{address}"><button style="font: inherit">End it</button></form>
</body></html>
"""


@router.get("", include_in_schema=False)
def without_slash(application_id: str, _: Reader) -> RedirectResponse:
    return RedirectResponse(f"{_root(application_id)}/")


@router.get("/{path:path}", response_class=StreamingResponse, summary="The live Spark UI")
async def page(
    application_id: str, path: str, request: Request, *, service: ServiceOf, caller: Reader, proxy: ProxyOf
) -> Response:
    """While the application runs; the first look opens them, which takes a second or two. Looking ends nothing: the
    links by which Spark's pages end a job or a stage lead to a page that asks first. What an application was like
    remains in the history server: `/v1/spark-history/{lake}/`."""
    if _ENDING_WORK in path.lower():
        return _confirmation(request, application_id)
    return await _shown(application_id, request, service, caller, proxy=proxy, scope=Scope.READ)


@router.post("/{path:path}", response_class=StreamingResponse, summary="End a job or a stage")
async def end(
    application_id: str, path: str, request: Request, *, service: ServiceOf, caller: Reader, proxy: ProxyOf
) -> Response:
    """By the address that Spark's pages have for it (`jobs/job/kill/?id=3`, `stages/stage/kill/?id=7`). It takes the
    scope submit, and is audited."""
    if _ENDING_WORK not in path.lower():
        raise HTTPException(405, headers={"Allow": "GET"})
    return await _shown(application_id, request, service, caller, proxy=proxy, scope=Scope.SUBMIT)


def _confirmation(request: Request, application_id: str) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(405, headers={"Allow": "POST"})
    origin = origin_of(request.url.scheme, request.headers.get("host", ""))
    address = request.scope.get("raw_path", b"").decode("ascii", "replace")
    address += f"?{request.url.query}" if request.url.query else ""
    page = _CONFIRMATION.format(application=escape(application_id), address=escape(address))
    policy = content_policy(origin, _root(application_id))
    return HTMLResponse(page, headers={"Content-Security-Policy": policy, "Referrer-Policy": "same-origin"})


async def _shown(
    application_id: str, request: Request, service: Service, caller: Caller, *, proxy: Proxy, scope: Scope
) -> Response:
    deadline = monotonic() + _OPENING_SECONDS
    while (upstream := await to_thread.run_sync(_upstream, service, caller, application_id, scope)) is None:
        if monotonic() >= deadline:
            raise StateError("Spark's pages are not open yet", why="the driver is busy", fix="try again in a moment")
        await sleep(_LOOK_SECONDS)
    return await proxy.show(request, upstream)


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
