"""`/v1/applications/{id}/logs` (whole, tail, or followed) and `/v1/files` (uploads, by content hash)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse

from penstock.engine import artifacts
from penstock.engine.artifacts import validate_name
from penstock.engine.repository.applications import now
from penstock.errors import InvalidInput, NotFound
from penstock.lake.model import attempt_prefix, belongs_to_attempt
from penstock.model import Application
from penstock.service import responses
from penstock.service.api.applications import require_lake, visible
from penstock.service.auth import Reader, Submitter
from penstock.service.context import CurrentService, Service
from penstock.service.guards import while_valid
from penstock.service.requests import Name
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
    token = await to_thread.run_sync(service.tokens.get, caller.token_id)

    async def content() -> AsyncIterator[bytes]:
        if begun + first:
            yield begun + first
        async for piece in while_valid(rest, token, service.tokens.get):
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


files_router = APIRouter(prefix="/v1/files", tags=["files"])

MOST_BYTES = 2 << 30
_SILENCE_SECONDS = 30.0
_FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"

Digest = Annotated[str, InPath(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the content, in hex.")]
FileName = Annotated[str, InPath(pattern=_FILE_NAME, description="The file's name in the application.")]
LakeName = Annotated[Name | None, Query(description="The lake; the default lake if omitted.")]


@files_router.get("/{digest}/{name}", summary="The address of an uploaded file")
def find(
    digest: Digest, name: FileName, service: CurrentService, caller: Submitter, lake: LakeName = None
) -> responses.Uploaded:
    require_lake(service, caller, lake)
    key = artifacts.upload_key(service.engine.uploads, digest, name)
    store = service.engine.store(lake)
    found = next((one for one in store.list(key) if one.key == key), None)
    if found is None or not artifacts.outlives_submission(found, at=now(), kept=service.retention.unused):
        raise NotFound(f"{name} was not uploaded", fix="PUT it to this address")
    service.engine.upload_copies.keep(key, found.size, lambda: store.get(key))
    return _uploaded(service, lake, key)


@files_router.put(
    "/{digest}/{name}",
    status_code=201,
    summary="Upload a file",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def upload(
    digest: Digest,
    name: FileName,
    request: Request,
    *,
    service: CurrentService,
    caller: Submitter,
    lake: LakeName = None,
) -> responses.Uploaded:
    """Returns its `address` for use in a submission. A repeated upload changes nothing.

    A file that no application has named for some days is removed.
    """
    await to_thread.run_sync(require_lake, service, caller, lake)
    directory = service.home.root / "service"
    directory.mkdir(mode=0o700, exist_ok=True)
    with (
        service.request_counts.uploading(caller.token_id),
        tempfile.NamedTemporaryFile(dir=directory, prefix="upload-") as file,
    ):
        hashed, size = hashlib.sha256(), 0
        async for piece in _steadily(request.stream()):
            size += len(piece)
            if size > MOST_BYTES:
                raise InvalidInput(
                    f"{name} is too large", why=f"the limit is {MOST_BYTES >> 30} GiB", fix="put it into the lake"
                )
            hashed.update(piece)
            await to_thread.run_sync(file.write, piece)
        if hashed.hexdigest() != digest:
            raise InvalidInput(
                f"{name} does not have the digest in its address",
                why=f"the SHA-256 of the received content is {hashed.hexdigest()}",
                fix="upload it again; sha256sum FILE prints its digest",
            )
        file.flush()
        key = artifacts.upload_key(service.engine.uploads, digest, name)
        await to_thread.run_sync(_store, service, lake, key, Path(file.name))
    return await to_thread.run_sync(_uploaded, service, lake, key)


def _store(service: Service, lake: str | None, key: str, file: Path) -> None:
    service.engine.store(lake).put(key, file)
    service.engine.upload_copies.keep(key, file.stat().st_size, file.read_bytes)


async def _steadily(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces. Raises `InvalidInput` where the client stops sending."""
    iterator = pieces.__aiter__()
    with contextlib.suppress(StopAsyncIteration):
        while True:
            yield await _next(iterator)


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    try:
        return await asyncio.wait_for(pieces.__anext__(), _SILENCE_SECONDS)
    except (TimeoutError, asyncio.TimeoutError):
        raise InvalidInput(
            "The upload stalled", why=f"no data arrived for {_SILENCE_SECONDS:.0f} s", fix="upload it again"
        ) from None


def _uploaded(service: Service, lake: str | None, key: str) -> responses.Uploaded:
    return responses.Uploaded(address=f"{service.engine.lake(lake).root}/{key}")
