"""`/v1/tokens`: who may use this service. For administrators of all of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fastapi import APIRouter

from penstock.engine.repository.applications import now
from penstock.engine.tokens import Scope, grants, widest
from penstock.service import shown
from penstock.service.access import Administrator
from penstock.service.context import ServiceOf
from penstock.service.models import TokenBody

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


@router.get("", summary="All tokens, without their secrets", responses={200: {"model": shown.Tokens}})
def listing(service: ServiceOf, caller: Administrator) -> dict[str, Any]:
    caller.require(Scope.ADMINISTER)
    return {"items": [token.to_json() for token in service.tokens.list()]}


@router.post("", status_code=201, summary="Make a token", responses={201: {"model": shown.NewToken}})
def create(body: TokenBody, service: ServiceOf, caller: Administrator) -> dict[str, Any]:
    """`token` in the answer is what its holder needs. It is told this once, and nowhere kept."""
    caller.require(Scope.ADMINISTER)
    expires_at = None if body.expires_in is None else now() + timedelta(seconds=body.expires_in)
    token, text = service.tokens.create(body.name, grants(widest(body.scopes), body.instances), expires_at=expires_at)
    return {**token.to_json(), "token": text}


@router.post("/{token_id}/rotate", summary="Give a token a new secret", responses={200: {"model": shown.NewToken}})
def rotate(token_id: str, service: ServiceOf, caller: Administrator) -> dict[str, Any]:
    """The old secret is refused from now on; name, scopes, instances and expiry stay."""
    caller.require(Scope.ADMINISTER)
    token, text = service.tokens.rotate(token_id)
    return {**token.to_json(), "token": text}


@router.delete("/{token_id}", status_code=204, summary="Revoke a token")
def revoke(token_id: str, service: ServiceOf, caller: Administrator) -> None:
    caller.require(Scope.ADMINISTER)
    service.tokens.revoke(token_id)
