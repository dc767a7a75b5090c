"""`/v1/changes`: what happens, as it happens."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from penstock.service.access import Reader
from penstock.service.context import ServiceOf
from penstock.service.underway import while_valid

router = APIRouter(prefix="/v1/changes", tags=["applications"])


@router.get(
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
