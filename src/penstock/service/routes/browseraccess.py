"""`/v1/browser-access`: leave to open one page by its address, for a browser that cannot send a token with it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from penstock.service.access import Reader
from penstock.service.browsergrants import LASTS
from penstock.service.context import ServiceOf

router = APIRouter(prefix="/v1/browser-access", tags=["self"])


class PageBody(BaseModel):
    path: Annotated[str, Field(max_length=400, description="/v1/lab/reports/ID")]


@router.post("", status_code=204, summary="Let this browser open one page by its address")
def grant(body: PageBody, request: Request, service: ServiceOf, caller: Reader) -> Response:
    """Sets a cookie for that path alone, valid for an hour and for reading; with the caller's own rights."""
    granted = service.browser_grants.grant(caller, body.path)
    answer = Response(status_code=204, headers={"Cache-Control": "no-store"})
    answer.set_cookie(
        granted.cookie,
        granted.secret,
        max_age=int(LASTS.total_seconds()),
        path=request.scope.get("root_path", "") + granted.path,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return answer
