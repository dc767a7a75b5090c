"""`/v1/files`: uploads, by the hash of their content."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath

from penstock.engine import uploads
from penstock.engine.repository.applications import now
from penstock.errors import InvalidInput, NotFound
from penstock.service import responses
from penstock.service.api.applications import require_lake
from penstock.service.auth import Submitter
from penstock.service.context import CurrentService, Service
from penstock.service.guards import UPLOAD
from penstock.service.requests import Name

router = APIRouter(prefix="/v1/files", tags=["files"])

MOST_BYTES = 2 << 30
_SILENCE_SECONDS = 30.0

Digest = Annotated[str, InPath(pattern=f"^{uploads.DIGEST}$", description="SHA-256 of the content, in hex.")]
FileName = Annotated[str, InPath(pattern=f"^{uploads.NAME}$", description="The file's name in the application.")]
LakeName = Annotated[Name | None, Query(description="The lake; the default lake if omitted.")]


@router.get("/{digest}/{name}", summary="The address of an uploaded file")
def find(
    digest: Digest, name: FileName, service: CurrentService, caller: Submitter, lake: LakeName = None
) -> responses.Uploaded:
    require_lake(service, caller, lake)
    key = uploads.upload_key(service.engine.uploads, digest, name)
    store = service.engine.store(lake)
    found = next((one for one in store.list(key) if one.key == key), None)
    if found is None or not uploads.outlives_submission(found, at=now(), kept=service.retention.unused):
        raise NotFound(f"{name} was not uploaded", fix="PUT it to this address")
    service.engine.upload_copies.keep(key, found.size, lambda: store.get(key))
    return _uploaded(service, lake, key)


@router.put(
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
        service.request_counts.counting(UPLOAD, caller.token_id),
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
        key = uploads.upload_key(service.engine.uploads, digest, name)
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
