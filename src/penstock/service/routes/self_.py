"""`/v1/self`: what the caller may do here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from penstock import __version__
from penstock.engine.tokens import Scope
from penstock.service import shown
from penstock.service.access import Reader
from penstock.service.context import ServiceOf

router = APIRouter(prefix="/v1/self", tags=["self"])


@router.get(
    "",
    summary="The caller's name, scopes and instances, and what this service has",
    responses={200: {"model": shown.Caller}},
)
def show(service: ServiceOf, caller: Reader) -> dict[str, Any]:
    capacity = service.engine.capacity()
    return {
        "name": caller.name,
        "scopes": [scope.value for scope in Scope if caller.may_anywhere(scope)],
        "instances": None if caller.instances is None else sorted(caller.instances),
        "grants": {instance: scope.value for instance, scope in caller.grants.items()},
        "version": __version__,
        "capacity": {"cores": capacity.cores, "memory_bytes": capacity.memory_bytes},
        "usual_size": asdict(service.engine.usual_size()),
        "authenticated": True,
    }
