"""`/v1/lab/reports`: the lab's runs on this machine, and a page for each."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from penstock.service import responses
from penstock.service.auth import Reader
from penstock.service.context import CurrentService

router = APIRouter(prefix="/v1/lab/reports", tags=["lab"])

# The page contains its style and script and loads nothing; the sandbox gives it an opaque origin.
_CSP = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; "
    "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"
)


@router.get("", summary="The lab's runs, newest first")
def listing(service: CurrentService, _: Reader) -> responses.Runs:
    return responses.Runs.model_validate({"items": service.reports.rows()})


@router.get("/{run_id}", summary="A run's report", response_class=HTMLResponse)
def report(
    run_id: Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,200}$")], service: CurrentService, _: Reader
) -> HTMLResponse:
    """One HTML page that loads nothing else."""
    return HTMLResponse(service.reports.page(run_id), headers={"Content-Security-Policy": _CSP})
