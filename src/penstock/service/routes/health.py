"""`/health`: whether the process lives, and whether it can do its work. Needs no token and tells no secret."""

from __future__ import annotations

from fastapi import APIRouter

from penstock.errors import PenstockError, ServiceError
from penstock.service.context import ServiceOf

router = APIRouter(prefix="/health", tags=["health"])


@router.get("/live", summary="The process answers")
async def live() -> dict[str, str]:
    return {"status": "live"}


@router.get("/ready", summary="The records answer, and the service is not about to end")
def ready(service: ServiceOf) -> dict[str, str]:
    if service.closing.is_set():
        raise ServiceError("This service is ending", fix="ask again in a moment, or another one on the same records")
    try:
        service.engine.list(limit=1)
    except PenstockError:
        raise
    except Exception as error:
        raise ServiceError("The records do not answer", fix="penstock status, on the service's machine") from error
    return {"status": "ready"}
