"""`/v1/applications/{id}/logs`: what its processes wrote: whole, the last lines, or as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse

from penstock.engine.application import Application
from penstock.engine.artefacts import checked_name
from penstock.service.access import Reader
from penstock.service.context import Service, ServiceOf
from penstock.service.lastlines import MOST_LINES, last_lines
from penstock.service.submission import visible
from penstock.service.tails import PIECE_BYTES

router = APIRouter(prefix="/v1/applications/{application_id}/logs", tags=["logs"])

START_HEADER = "Penstock-Log-Start"
"""Which byte of the log the answer begins with: a broken stream goes on at that plus what was received."""

_SCAN_BYTES = 1 << 20


@router.get("", summary="The names of its logs")
def names(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    found = visible(service, caller, application_id)
    return {"items": [{"name": name, "bytes": None} for name in _names(service, found)]}


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
    follow: Annotated[bool, Query(description="Go on until the application has ended.")] = False,
) -> StreamingResponse:
    """`tail` goes before `start`. A client that follows and loses its connection goes on with `start`: the header
    Penstock-Log-Start tells where an answer began."""
    found: Application = await to_thread.run_sync(visible, service, caller, application_id)
    checked_name(name)
    begun = b""
    if tail is not None:
        # In a log that grows, what comes after the last whole look is read by the stream.
        begun, start = await to_thread.run_sync(
            last_lines, lambda position: service.engine.piece(found.id, name, position, _SCAN_BYTES), tail
        )
    # Also where there is nothing to read yet: what is not there at all is told before the answer begins.
    position = start + len(begun)
    first = await to_thread.run_sync(service.engine.piece, found.id, name, position, PIECE_BYTES)
    rest = (service.tails.follow if follow else service.tails.read)(found.id, name, position + len(first))

    async def content() -> AsyncIterator[bytes]:
        if begun + first:
            yield begun + first
        async for piece in rest:
            yield piece

    return StreamingResponse(
        content(), media_type="text/plain; charset=utf-8", headers={START_HEADER: str(start), "X-Accel-Buffering": "no"}
    )


def _names(service: Service, application: Application) -> list[str]:
    if application.state.final:
        return sorted(service.engine.artefacts(application.id)) if application.summary is not None else []
    executors = range(1, application.spec.size.executors + 1)
    return ["driver.err", "driver.log", "driver.out", *(f"executor-{number}.log" for number in executors)]
