"""`/v1/applications/{id}/logs`: what its processes wrote: whole, the last lines, or as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse

from penstock.engine.artifacts import checked_name
from penstock.errors import NotFound
from penstock.lake.model import is_of_attempt, of_attempt
from penstock.model import Application
from penstock.service import shownplaces
from penstock.service.access import Reader
from penstock.service.context import Service, ServiceOf
from penstock.service.lastlines import MOST_LINES, last_lines
from penstock.service.submission import visible
from penstock.service.tails import PIECE_BYTES
from penstock.service.underway import while_valid

router = APIRouter(prefix="/v1/applications/{application_id}/logs", tags=["logs"])

START_HEADER = "Penstock-Log-Start"
"""Which byte of the log the answer begins with: a broken stream goes on at that plus what was received."""

ATTEMPT_HEADER = "Penstock-Log-Attempt"
"""Whose log it is. Each attempt's begins anew."""

_SCAN_BYTES = 1 << 20


@router.get("", summary="Its logs, and how long they are", responses={200: {"model": shownplaces.Logs}})
def names(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    found = visible(service, caller, application_id)
    there = service.engine.artefacts(found.id)
    names = sorted(there) if found.state.final else sorted(_usual(found) | there.keys())
    return {"items": [{"name": name, "bytes": there.get(name)} for name in names]}


@router.get(
    "/{name:path}",
    summary="A log, or another artefact",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def read(
    *,
    application_id: str,
    name: Annotated[str, Path(description="driver.log, driver.out, driver.err, executor-1.log, …")],
    service: ServiceOf,
    caller: Reader,
    start: Annotated[int, Query(ge=0, le=1 << 53, description="Begin with this byte.")] = 0,
    tail: Annotated[int | None, Query(ge=0, le=MOST_LINES, description="Begin with so many last lines.")] = None,
    follow: Annotated[bool, Query(description="Go on until the application, or this attempt, has ended.")] = False,
    attempt: Annotated[int | None, Query(ge=1, le=1000, description="The present one if not given.")] = None,
) -> StreamingResponse:
    """`tail` goes before `start`. Who follows and loses the connection goes on with `start` and `attempt`: the
    headers Penstock-Log-Start and Penstock-Log-Attempt tell where an answer began. When an attempt is over and the
    application is not, the next one's log begins anew, with byte 0 of `attempt` plus one."""
    found: Application = await to_thread.run_sync(visible, service, caller, application_id)
    of = None if is_of_attempt(checked_name(name)) else _attempt(found, attempt)
    look = partial(service.engine.piece, found.id, name, attempt=of)
    begun = b""
    if tail is not None:
        # In a log that grows, what comes after the last whole look is read by the stream.
        size = await to_thread.run_sync(_size, service, found, name, of)
        scan = partial(last_lines, lambda position: look(position, _SCAN_BYTES), tail, size=size)
        begun, start = await to_thread.run_sync(scan)
    # Also where there is nothing to read yet: what is not there at all is told before the answer begins.
    position = start + len(begun)
    first = await to_thread.run_sync(look, position, PIECE_BYTES)
    rest = (service.tails.follow if follow else service.tails.read)((found.id, name, of), position + len(first))
    token = await to_thread.run_sync(service.tokens.get, caller.token_id)

    async def content() -> AsyncIterator[bytes]:
        if begun + first:
            yield begun + first
        async for piece in while_valid(rest, token, service.tokens.get):
            yield piece

    headers = {START_HEADER: str(start), "X-Accel-Buffering": "no"}
    if of is not None:
        headers[ATTEMPT_HEADER] = str(of)
    return StreamingResponse(content(), media_type="text/plain; charset=utf-8", headers=headers)


def _size(service: Service, application: Application, name: str, attempt: int | None) -> int:
    """How long it is now; 0 where that is not known."""
    there = service.engine.artefacts(application.id)
    place = of_attempt(attempt) if attempt is not None and attempt < application.attempt else ""
    return there.get(place + name, 0)


def _usual(application: Application) -> set[str]:
    """Those its processes write, whether there is something in them already or not."""
    executors = range(1, application.spec.size.executors + 1)
    return {"driver.err", "driver.log", "driver.out", *(f"executor-{number}.log" for number in executors)}


def _attempt(application: Application, asked: int | None) -> int:
    if asked is not None and asked > application.attempt:
        raise NotFound(
            f"{application.id} has no attempt {asked}",
            why=f"it is at its attempt {application.attempt}",
            fix="leave it out",
        )
    return asked or application.attempt
