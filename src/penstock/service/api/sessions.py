"""`/v1/sessions`, clusters for interactive work over Spark Connect, and `/v1/changes`, the feed of events."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from penstock.engine.interactive.sessions import Session
from penstock.engine.tokens import Caller, Scope
from penstock.errors import NotFound
from penstock.service import responses
from penstock.service.api.applications import submit, visible
from penstock.service.auth import Reader, Submitter
from penstock.service.context import Service, ServiceOf
from penstock.service.guards import while_valid
from penstock.service.requests import SessionBody

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


@router.post("", status_code=202, summary="Start a session", responses={202: {"model": responses.Session}})
def create(body: SessionBody, service: ServiceOf, caller: Submitter, response: Response) -> dict[str, Any]:
    """A session is an application, too: it waits for room, and `/v1/applications/{id}` has its logs and its end.

    It has an address once it listens; `GET …/{id}/address` has the token.
    """
    wanted = body.wanted(service.engine.usual_size())
    accepted = submit(service, caller, wanted.specification())
    response.headers["Location"] = f"{router.prefix}/{accepted.id}"
    return _shown(service, service.engine.sessions.get(accepted.id))


@router.get("", summary="List sessions, the newest first", responses={200: {"model": responses.Sessions}})
def listing(
    service: ServiceOf,
    caller: Reader,
    ended: Annotated[bool, Query(description="Those that have ended, too.")] = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> dict[str, Any]:
    found = service.engine.sessions.list(ended=ended, limit=limit, instances=caller.instances)
    return {"items": [_shown(service, session) for session in found]}


@router.get("/{session_id}", summary="One session", responses={200: {"model": responses.Session}})
def show(session_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    return _shown(service, _visible(service, caller, session_id, Scope.READ))


@router.get(
    "/{session_id}/address",
    summary="Where a Spark Connect client reaches it, token included",
    responses={200: {"model": responses.SessionAddress}},
)
def address(session_id: str, service: ServiceOf, caller: Submitter) -> dict[str, str]:
    """Whoever has the address runs code on the cluster, so it takes what starting one takes.

    It is on the loopback of the service's machine: from elsewhere, through `ssh -L PORT:localhost:PORT`.
    """
    found = _visible(service, caller, session_id, Scope.SUBMIT)
    return {"address": service.engine.sessions.address(found.id)}


@router.post("/{session_id}/stop", status_code=202, summary="End it", responses={202: {"model": responses.Session}})
def stop(session_id: str, service: ServiceOf, caller: Submitter) -> dict[str, Any]:
    """Returns at once, and may be repeated."""
    found = _visible(service, caller, session_id, Scope.SUBMIT)
    service.engine.request_stop(found.id)
    return _shown(service, service.engine.sessions.get(found.id))


def _shown(service: Service, session: Session) -> dict[str, Any]:
    """Without where things are on this machine, which a reason may name."""
    shown: dict[str, Any] = service.paths.hidden_in(session.to_json())
    return shown


def _visible(service: Service, caller: Caller, session_id: str, scope: Scope) -> Session:
    application = visible(service, caller, session_id, scope)
    try:
        return service.engine.sessions.get(application.id)
    except NotFound as error:
        raise NotFound(error.problem, fix="GET /v1/sessions lists them") from None


changes_router = APIRouter(prefix="/v1/changes", tags=["applications"])


@changes_router.get(
    "",
    summary="What happens, as it happens",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def changes(service: ServiceOf, caller: Reader) -> StreamingResponse:
    """Server-sent events: `application`, as it is listed, whenever one changes; `progress` of those that run, with
    their `id`; `queue`, as `/v1/queue` begins. The service ends the stream now and then: list anew, and come back."""
    token = await to_thread.run_sync(service.tokens.get, caller.token_id)
    return StreamingResponse(
        while_valid(service.feed.listen(caller.instances), token, service.tokens.get),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
