"""`/v1/sessions`, clusters for interactive work over Spark Connect or JDBC, and `/v1/changes`, the event feed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from penstock.engine.interactive.sessions import Session
from penstock.engine.tokens import Caller, Scope
from penstock.errors import NotFound
from penstock.service import responses
from penstock.service.api.applications import submit, visible
from penstock.service.auth import Reader, Submitter, usual_instance
from penstock.service.context import CurrentService, Service
from penstock.service.guards import while_valid
from penstock.service.requests import SessionBody

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


@router.post("", status_code=202, summary="Start a session")
def create(body: SessionBody, service: CurrentService, caller: Submitter, response: Response) -> responses.Session:
    """A session is also an application: it waits for room, and `/v1/applications/{id}` has its logs and final state.

    It has an address once it listens; `GET …/{id}/address` has the token.
    """
    request = body.request(service.engine.usual_size(), usual_instance(caller))
    accepted = submit(service, caller, request.specification())
    response.headers["Location"] = f"{router.prefix}/{accepted.id}"
    return responses.session(service, service.engine.sessions.get(accepted.id))


@router.get("", summary="List sessions, newest first")
def listing(
    service: CurrentService,
    caller: Reader,
    ended: Annotated[bool, Query(description="Include ended sessions.")] = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> responses.Sessions:
    found = service.engine.sessions.list(ended=ended, limit=limit, instances=caller.instances)
    return responses.Sessions(items=[responses.session(service, session) for session in found])


@router.get("/{session_id}", summary="One session")
def show(session_id: str, service: CurrentService, caller: Reader) -> responses.Session:
    return responses.session(service, _visible(service, caller, session_id, Scope.READ))


@router.get("/{session_id}/address", summary="Its address for clients, with the token")
def address(session_id: str, service: CurrentService, caller: Submitter) -> responses.SessionAddress:
    """The address permits running code on the cluster, so it needs the same scope as starting one.

    It is on the loopback of the service's machine; from other machines use `ssh -L PORT:localhost:PORT`.
    """
    found = _visible(service, caller, session_id, Scope.SUBMIT)
    return responses.SessionAddress(address=service.engine.sessions.address(found.id))


@router.post("/{session_id}/stop", status_code=202, summary="Stop it")
def stop(session_id: str, service: CurrentService, caller: Submitter) -> responses.Session:
    """Returns at once, and may be repeated."""
    found = _visible(service, caller, session_id, Scope.SUBMIT)
    service.engine.request_stop(found.id)
    return responses.session(service, service.engine.sessions.get(found.id))


def _visible(service: Service, caller: Caller, session_id: str, scope: Scope) -> Session:
    application = visible(service, caller, session_id, scope)
    try:
        return service.engine.sessions.get(application.id)
    except NotFound as error:
        raise NotFound(error.problem, fix="GET /v1/sessions lists them") from None


changes_router = APIRouter(prefix="/v1/changes", tags=["applications"])


@changes_router.get(
    "",
    summary="A stream of events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def changes(service: CurrentService, caller: Reader) -> StreamingResponse:
    """Server-sent events `application`, `progress` and `queue`.

    `application` is an application as in lists, whenever one changes; `progress` that of a running one, with its `id`;
    `queue` the beginning of `/v1/queue`. The service ends the stream from time to time: list anew, and reconnect.
    """
    return StreamingResponse(
        while_valid(service.feed.listen(caller.instances), caller, service.tokens.get),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
