"""`/v1/applications/{id}/results|statements`: of an application that ran SQL statements."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter

from penstock.engine import artifacts
from penstock.engine.interactive import sessions
from penstock.errors import NotFound
from penstock.lake.registry import Lakes
from penstock.model import Application
from penstock.service import shownplaces
from penstock.service.access import Reader
from penstock.service.context import Service, ServiceOf
from penstock.service.submission import visible

router = APIRouter(prefix="/v1/applications/{application_id}", tags=["sql"])


@router.get("/results", summary="What its SQL statements answered", responses={200: {"model": shownplaces.Results}})
def results(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    """One item for each statement that was begun, in order: `statement`, and `columns`, `rows`, `truncated` or `error`.
    Empty until there is something."""
    found = visible(service, caller, application_id)
    try:
        lines = _read(service, found, "--output", below=sessions.RESULTS).splitlines()
    except NotFound:
        lines = []
    return {"items": [json.loads(line) for line in lines]}


@router.get("/statements", summary="The SQL statements it ran", responses={200: {"model": shownplaces.Statements}})
def text(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    found = visible(service, caller, application_id)
    return {"statements": _read(service, found, "--statements-file", below=artifacts.UPLOADS).decode()}


def _read(service: Service, application: Application, option: str, *, below: str) -> bytes:
    """The object an argument names. Only where we put such objects: an argument may say anything."""
    address = sessions.argument(application.spec, option)
    lake = service.engine.lake(Lakes(service.home).kept_in(application.spec.lake))
    key = (address or "").removeprefix(f"{lake.root}/")
    if not sessions.is_statements(application.spec) or not key.startswith(below) or ".." in key.split("/"):
        raise NotFound(
            f"{application.id} has none here",
            why="it did not run SQL statements, or kept them on the machine it was started on",
            fix="penstock sql runs statements",
        )
    return service.engine.store(lake.name).get(key)
