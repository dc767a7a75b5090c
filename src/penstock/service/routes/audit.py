"""`/v1/audit`: who did what. For administrators of all of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from penstock.engine.tokens import Scope
from penstock.service import shownplaces
from penstock.service.access import Administrator
from penstock.service.context import ServiceOf

router = APIRouter(prefix="/v1/audit", tags=["audit"])


@router.get("", summary="Who did what, the newest first", responses={200: {"model": shownplaces.AuditPage}})
def page(
    service: ServiceOf,
    caller: Administrator,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    page: Annotated[int | None, Query(ge=1, lt=1 << 62, description="`next` of the page before.")] = None,
) -> dict[str, Any]:
    """Every request that may change something and had a valid token, with its outcome. Nothing in it can be changed."""
    caller.require(Scope.ADMINISTER)
    found = service.engine.audit_page(limit=limit, before=page)
    return {"items": [entry.to_json() for entry in found.items], "next": found.next}
