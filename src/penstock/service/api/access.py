"""`/v1/tokens` and `/v1/audit`, for administrators of all instances; `/v1/browser-access`, the grant of one page."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from penstock.engine.repository.applications import now
from penstock.engine.tokens import Scope, grants, widest
from penstock.service import responses
from penstock.service.auth import GRANT_LIFETIME, Administrator, Reader
from penstock.service.context import CurrentService
from penstock.service.requests import TokenBody

tokens_router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


@tokens_router.get("", summary="All tokens, without their secrets")
def listing(service: CurrentService, caller: Administrator) -> responses.Tokens:
    caller.require(Scope.ADMINISTER)
    return responses.Tokens(items=[responses.token(token) for token in service.tokens.list()])


@tokens_router.post("", status_code=201, summary="Create a token")
def create(body: TokenBody, service: CurrentService, caller: Administrator) -> responses.NewToken:
    """The response's `token` is shown only this once; the service stores a hash."""
    caller.require(Scope.ADMINISTER)
    expires_at = None if body.expires_in is None else now() + timedelta(seconds=body.expires_in)
    token, text = service.tokens.create(body.name, grants(widest(body.scopes), body.instances), expires_at=expires_at)
    return responses.new_token(token, text)


@tokens_router.post("/{token_id}/rotate", summary="Replace a token's secret")
def rotate(token_id: str, service: CurrentService, caller: Administrator) -> responses.NewToken:
    """The old secret is invalid at once; name, scopes, instances and expiry stay."""
    caller.require(Scope.ADMINISTER)
    token, text = service.tokens.rotate(token_id)
    return responses.new_token(token, text)


@tokens_router.delete("/{token_id}", status_code=204, summary="Revoke a token")
def revoke(token_id: str, service: CurrentService, caller: Administrator) -> None:
    caller.require(Scope.ADMINISTER)
    service.tokens.revoke(token_id)


audit_router = APIRouter(prefix="/v1/audit", tags=["audit"])


@audit_router.get("", summary="The audit log, newest first")
def page(
    service: CurrentService,
    caller: Administrator,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    page: Annotated[int | None, Query(ge=1, lt=1 << 62, description="`next` of the previous page.")] = None,
) -> responses.AuditPage:
    """Every request that may change state and had a valid token, with its outcome. Entries cannot be changed."""
    caller.require(Scope.ADMINISTER)
    return responses.AuditPage.model_validate(service.engine.audit.page(limit=limit, before=page))


browser_access_router = APIRouter(prefix="/v1/browser-access", tags=["self"])


class PageBody(BaseModel):
    path: Annotated[str, Field(max_length=400, description="/v1/lab/reports/ID")]


@browser_access_router.post("", status_code=204, summary="Let this browser open one page by address")
def grant(body: PageBody, request: Request, service: CurrentService, caller: Reader) -> Response:
    """Sets a cookie for that path alone. It is valid for an hour, for reading, with the caller's own rights."""
    granted = service.browser_grants.grant(caller, body.path)
    answer = Response(status_code=204, headers={"Cache-Control": "no-store"})
    answer.set_cookie(
        granted.cookie,
        granted.secret,
        max_age=int(GRANT_LIFETIME.total_seconds()),
        path=request.scope.get("root_path", "") + granted.path,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return answer
