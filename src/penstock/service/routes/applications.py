"""`/v1/applications`: submit, list, show, stop."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from penstock.engine.application import Application
from penstock.errors import NotFound
from penstock.service.access import Caller, Reader
from penstock.service.context import Service, ServiceOf

router = APIRouter(prefix="/v1/applications", tags=["applications"])


@router.get("/{application_id}", summary="All that is known of an application")
def show(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    return _visible(service, caller, application_id).to_json()


def _visible(service: Service, caller: Caller, application_id: str) -> Application:
    """Whose instance the caller does not see does not exist for it: ids are not to be tried out."""
    application = service.engine.get(application_id)
    if not caller.sees("default"):
        raise NotFound(f"There is no application “{application_id}”", fix="penstock apps lists them")
    return application
