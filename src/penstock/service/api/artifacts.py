"""`/v1/applications/{id}/logs` (whole, tail, or followed) and `/v1/files` (uploads, by content hash)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse

from penstock.engine import artifacts
from penstock.engine.artifacts import checked_name
from penstock.engine.repository.applications import now
from penstock.errors import InvalidInput, NotFound
from penstock.lake.model import is_of_attempt, of_attempt
from penstock.model import Application
from penstock.service import responses
from penstock.service.api.applications import require_lake, visible
from penstock.service.auth import Reader, Submitter
from penstock.service.context import Service, ServiceOf
from penstock.service.guards import while_valid
from penstock.service.requests import Name
from penstock.service.streaming import MOST_LINES, PIECE_BYTES, last_lines

router = APIRouter(prefix="/v1/applications/{application_id}/logs", tags=["logs"])

START_HEADER = "Penstock-Log-Start"
"""Which byte of the log the answer begins with: a broken stream goes on at that plus what was received."""

ATTEMPT_HEADER = "Penstock-Log-Attempt"
"""Whose log it is. Each attempt's begins anew."""

_SCAN_BYTES = 1 << 20


@router.get("", summary="Its logs, and how long they are", responses={200: {"model": responses.Logs}})
def names(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    found = visible(service, caller, application_id)
    there = service.engine.artifacts.sizes(found.id)
    names = sorted(there) if found.state.final else sorted(_usual(found) | there.keys())
    return {"items": [{"name": name, "bytes": there.get(name)} for name in names]}


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
    look = partial(service.engine.artifacts.piece, found.id, name, attempt=of)
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
    there = service.engine.artifacts.sizes(application.id)
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


files_router = APIRouter(prefix="/v1/files", tags=["files"])

MOST_BYTES = 2 << 30
_SILENCE_SECONDS = 30.0
_FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"

Digest = Annotated[str, InPath(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the content, in hex.")]
FileName = Annotated[str, InPath(pattern=_FILE_NAME, description="The name it has for the application.")]
LakeName = Annotated[Name | None, Query(description="Which lake; the default one if not given.")]


@files_router.get(
    "/{digest}/{name}",
    summary="Where a file is that was uploaded before",
    responses={200: {"model": responses.Uploaded}},
)
def find(
    digest: Digest, name: FileName, service: ServiceOf, caller: Submitter, lake: LakeName = None
) -> dict[str, Any]:
    require_lake(service, caller, lake)
    key = artifacts.upload_key(service.engine.uploads, digest, name)
    store = service.engine.store(lake)
    found = next((one for one in store.list(key) if one.key == key), None)
    if found is None or not artifacts.outlives_submission(found, at=now(), kept=service.retention.unused):
        raise NotFound(f"{name} was not uploaded", fix="PUT it to this address")
    service.engine.upload_copies.keep(key, found.size, lambda: store.get(key))
    return _told(service, lake, key)


@files_router.put(
    "/{digest}/{name}",
    status_code=201,
    summary="Upload a file",
    responses={201: {"model": responses.Uploaded}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def upload(
    digest: Digest, name: FileName, request: Request, *, service: ServiceOf, caller: Submitter, lake: LakeName = None
) -> dict[str, Any]:
    """Returns its `address`, to be named in a submission. Uploading it again changes nothing.

    What no application has named for some days is removed again."""
    await to_thread.run_sync(require_lake, service, caller, lake)
    directory = service.home.root / "service"
    directory.mkdir(mode=0o700, exist_ok=True)
    with (
        service.under_way.uploading(caller.token_id),
        tempfile.NamedTemporaryFile(dir=directory, prefix="upload-") as file,
    ):
        hashed, size = hashlib.sha256(), 0
        async for piece in _steadily(request.stream()):
            size += len(piece)
            if size > MOST_BYTES:
                raise InvalidInput(
                    f"{name} is too large", why=f"a file may have {MOST_BYTES >> 30} GiB", fix="bring it to the lake"
                )
            hashed.update(piece)
            await to_thread.run_sync(file.write, piece)
        if hashed.hexdigest() != digest:
            raise InvalidInput(
                f"{name} is not what its address says",
                why=f"the SHA-256 of what arrived is {hashed.hexdigest()}",
                fix="upload it again; sha256sum FILE tells its digest",
            )
        file.flush()
        key = artifacts.upload_key(service.engine.uploads, digest, name)
        await to_thread.run_sync(_bring, service, lake, key, Path(file.name))
    return await to_thread.run_sync(_told, service, lake, key)


def _bring(service: Service, lake: str | None, key: str, file: Path) -> None:
    service.engine.store(lake).put(key, file)
    service.engine.upload_copies.keep(key, file.stat().st_size, file.read_bytes)


async def _steadily(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same; raises `InvalidInput` where the client falls silent."""
    iterator = pieces.__aiter__()
    with contextlib.suppress(StopAsyncIteration):
        while True:
            yield await _next(iterator)


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    try:
        return await asyncio.wait_for(pieces.__anext__(), _SILENCE_SECONDS)
    except (TimeoutError, asyncio.TimeoutError):
        raise InvalidInput(
            "The upload stopped", why=f"nothing came for {_SILENCE_SECONDS:.0f} s", fix="upload it again"
        ) from None


def _told(service: Service, lake: str | None, key: str) -> dict[str, Any]:
    return {"address": f"{service.engine.lake(lake).root}/{key}"}
