"""`/metrics`: for Prometheus, with a token of the scope read on all instances (`authorization.credentials_file`)."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from penstock.engine.tokens import Scope
from penstock.service.access import Reader
from penstock.service.context import ServiceOf

router = APIRouter(tags=["health"])


@router.get("/metrics", summary="Metrics in Prometheus' text format", response_class=PlainTextResponse)
def metrics(service: ServiceOf, caller: Reader) -> PlainTextResponse:
    caller.require(Scope.READ)
    return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)
