"""`/v1/files`: bringing an application's files to the lake, by the hash of their content."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath

from penstock.engine import artifacts
from penstock.engine.repository.applications import now
from penstock.errors import InvalidInput, NotFound
from penstock.service import shown
from penstock.service.access import Submitter
from penstock.service.context import Service, ServiceOf
from penstock.service.models import Name
from penstock.service.submission import require_lake

router = APIRouter(prefix="/v1/files", tags=["files"])

MOST_BYTES = 2 << 30
_SILENCE_SECONDS = 30.0
_FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"

Digest = Annotated[str, InPath(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the content, in hex.")]
FileName = Annotated[str, InPath(pattern=_FILE_NAME, description="The name it has for the application.")]
LakeName = Annotated[Name | None, Query(description="Which lake; the default one if not given.")]


@router.get(
    "/{digest}/{name}", summary="Where a file is that was uploaded before", responses={200: {"model": shown.Uploaded}}
)
def find(
    digest: Digest, name: FileName, service: ServiceOf, caller: Submitter, lake: LakeName = None
) -> dict[str, Any]:
    require_lake(service, caller, lake)
    key = artifacts.upload_key(service.engine.uploads, digest, name)
    store = service.engine.store(lake)
    found = next((one for one in store.list(key) if one.key == key), None)
    if found is None or not artifacts.is_there(found, at=now(), kept=service.retention.unused):
        raise NotFound(f"{name} was not uploaded", fix="PUT it to this address")
    service.engine.copies.keep(key, found.size, lambda: store.get(key))
    return _told(service, lake, key)


@router.put(
    "/{digest}/{name}",
    status_code=201,
    summary="Upload a file",
    responses={201: {"model": shown.Uploaded}},
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
    service.engine.copies.keep(key, file.stat().st_size, file.read_bytes)


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
