"""`/v1/applications/{id}/logs`: logs and other artifacts, whole, from their end, or followed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse

from penstock.engine.artifacts import validate_name
from penstock.errors import NotFound
from penstock.lake.model import attempt_prefix, belongs_to_attempt
from penstock.model import Application
from penstock.service import responses
from penstock.service.api.applications import visible
from penstock.service.auth import Reader
from penstock.service.context import CurrentService, Service
from penstock.service.guards import while_valid
from penstock.service.streaming import MOST_TAIL_LINES, PIECE_BYTES, last_lines

router = APIRouter(prefix="/v1/applications/{application_id}/logs", tags=["logs"])

START_HEADER = "Penstock-Log-Start"
"""The position of the response's first byte: a client resumes at that plus the number of bytes it received."""

ATTEMPT_HEADER = "Penstock-Log-Attempt"
"""The attempt of the log. Every attempt has logs of its own."""

_SCAN_BYTES = 1 << 20


@router.get("", summary="Its logs and their lengths")
def names(application_id: str, service: CurrentService, caller: Reader) -> responses.Logs:
    found = visible(service, caller, application_id)
    stored = service.engine.artifacts.sizes(found.id)
    names = sorted(stored) if found.state.final else sorted(_usual(found) | stored.keys())
    return responses.Logs(items=[responses.Log(name=name, bytes=stored.get(name)) for name in names])


@router.get(
    "/{name:path}",
    summary="A log, or another artifact",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def read(
    *,
    application_id: str,
    name: Annotated[str, InPath(description="driver.log, driver.out, driver.err, executor-1.log, …")],
    service: CurrentService,
    caller: Reader,
    start: Annotated[int, Query(ge=0, le=1 << 53, description="The first byte.")] = 0,
    tail: Annotated[
        int | None, Query(ge=0, le=MOST_TAIL_LINES, description="The number of last lines to begin with.")
    ] = None,
    follow: Annotated[bool, Query(description="Stream until the application, or this attempt, has ended.")] = False,
    attempt: Annotated[int | None, Query(ge=1, le=1000, description="The present attempt by default.")] = None,
) -> StreamingResponse:
    """Return a log, the end of one, or a stream that follows it.

    `tail` takes precedence over `start`. The headers Penstock-Log-Start and Penstock-Log-Attempt have the position
    where the response begins: a client that loses the connection resumes there with `start` and `attempt`. When an
    attempt ends and another one follows, its log begins at byte 0 of `attempt` plus one.
    """
    found: Application = await to_thread.run_sync(visible, service, caller, application_id)
    number = None if belongs_to_attempt(validate_name(name)) else _attempt(found, attempt)
    read_piece = partial(service.engine.artifacts.piece, found.id, name, attempt=number)
    begun = b""
    if tail is not None:
        # The stream reads what a growing log gets after this scan.
        size = await to_thread.run_sync(_size, service, found, name, number)
        scan = partial(last_lines, lambda position: read_piece(position, _SCAN_BYTES), tail, size=size)
        begun, start = await to_thread.run_sync(scan)
    # Read a piece in any case: an unknown log must be an error before the response begins.
    position = start + len(begun)
    first = await to_thread.run_sync(read_piece, position, PIECE_BYTES)
    rest = (service.log_tailing.follow if follow else service.log_tailing.read)(
        (found.id, name, number), position + len(first)
    )

    async def content() -> AsyncIterator[bytes]:
        if begun + first:
            yield begun + first
        async for piece in while_valid(rest, caller, service.tokens.get):
            yield piece

    headers = {START_HEADER: str(start), "X-Accel-Buffering": "no"}
    if number is not None:
        headers[ATTEMPT_HEADER] = str(number)
    return StreamingResponse(content(), media_type="text/plain; charset=utf-8", headers=headers)


def _size(service: Service, application: Application, name: str, attempt: int | None) -> int:
    """Return the log's present length; 0 where it is unknown."""
    stored = service.engine.artifacts.sizes(application.id)
    place = attempt_prefix(attempt) if attempt is not None and attempt < application.attempt else ""
    return stored.get(place + name, 0)


def _usual(application: Application) -> set[str]:
    """Return the names of the logs that the application's processes write, existing or not."""
    executors = range(1, application.spec.size.executors + 1)
    return {"driver.err", "driver.log", "driver.out", *(f"executor-{number}.log" for number in executors)}


def _attempt(application: Application, number: int | None) -> int:
    if number is not None and number > application.attempt:
        raise NotFound(
            f"{application.id} has no attempt {number}",
            why=f"its present attempt is {application.attempt}",
            fix="omit attempt for the present one",
        )
    return number or application.attempt
