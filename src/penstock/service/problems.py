"""Errors over HTTP: RFC 9457 problem details, with the problem, why, and how to fix it as members of their own."""

from __future__ import annotations

import http
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy.exc
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from penstock import errors
from penstock.engine.repository.applications import CONNECTION_LOST
from penstock.errors import PenstockError
from penstock.service import journal
from penstock.service.ourpaths import OurPaths

MEDIA_TYPE = "application/problem+json"

_STATUS: Mapping[type[PenstockError], int] = {
    errors.InvalidInput: 422,
    errors.NotFound: 404,
    errors.MissingRequirement: 503,
    errors.LakeError: 502,
    errors.CatalogError: 502,
    errors.StateError: 409,
    errors.ClusterError: 422,
    errors.ValidationFailed: 500,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.ServiceError: 503,
    errors.Conflict: 409,
    errors.QuotaExceeded: 429,
    errors.InternalError: 500,
}
_PASSING = frozenset({429, 503})
_RETRY_AFTER_SECONDS = 2
_DEFECT = PenstockError(
    "The service failed", why="this is a defect of Penstock, not yours", fix="report it with the request's id"
)
_SHOWN_ERRORS = 20


def status_of(error: PenstockError) -> int:
    """The nearest class of the error decides; an error of no known kind is the client's to fix."""
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 422)


def problem(
    error: PenstockError,
    status: int,
    *,
    request_id: str = "",
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> JSONResponse:
    """`detail` is the whole explanation for clients that know only the standard's members."""
    body = {
        "type": f"urn:penstock:problem:{error.code}",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": str(error),
        "problem": error.problem,
        "why": error.why,
        "fix": error.fix,
        "code": error.code,
        "instance": f"urn:penstock:request:{request_id}" if request_id else None,
        **(more or {}),
    }
    extra = dict(headers or {})
    if status == http.HTTPStatus.UNAUTHORIZED:
        extra["WWW-Authenticate"] = "Bearer"
    if status in _PASSING:
        extra["Retry-After"] = str(_RETRY_AFTER_SECONDS)
    return JSONResponse(body, status, headers=extra, media_type=MEDIA_TYPE)


def of_validation(error: RequestValidationError) -> tuple[PenstockError, int]:
    """What is wrong with a request, and the status. Never what was in it: that may be a secret."""
    malformed = any(entry["type"] == "json_invalid" for entry in error.errors())
    told = errors.InvalidInput(
        "The body is not JSON" if malformed else "The request is not as it should be",
        why="; ".join(f"{entry['at']}: {entry['problem']}" for entry in _findings(error)),
        fix="/docs describes every request of this service",
    )
    return told, 400 if malformed else 422


def install(app: FastAPI) -> None:
    """Make every error a client can make a problem body; what is a defect, `Guard` answers by `defect`."""
    app.add_exception_handler(PenstockError, _on_penstock_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    for lost in (*CONNECTION_LOST, sqlalchemy.exc.TimeoutError):
        app.add_exception_handler(lost, _on_lost_records)
    app.add_exception_handler(HTTPException, _on_http_error)


def outside(request: Request, error: PenstockError) -> PenstockError:
    """The error as it is told to who is elsewhere."""
    paths: OurPaths = request.app.state.service.paths
    return paths.outside(error)


def _request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


async def _on_penstock_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PenstockError)  # noqa: S101  registered for no other
    return problem(outside(request, error), status_of(error), request_id=_request_id(request))


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101  registered for no other
    told, status = of_validation(error)
    return problem(told, status, request_id=_request_id(request), more={"errors": _findings(error)})


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for no other
    if error.status_code == http.HTTPStatus.NOT_FOUND:
        told: PenstockError = errors.NotFound("There is nothing at this address", fix="/docs lists what there is")
    elif error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        told = errors.InvalidInput(
            f"{request.method} is not possible here", why=f"possible: {allowed}" if allowed else "", fix="see /docs"
        )
    else:
        told = errors.InvalidInput(str(error.detail), fix="see /docs")
    return problem(told, error.status_code, request_id=_request_id(request), headers=error.headers)


async def _on_lost_records(request: Request, _: Exception) -> JSONResponse:
    """The database is away, or all its connections are taken: both pass."""
    told = errors.ServiceError("The records do not answer", why="their database is away, or busy", fix="ask again")
    return problem(told, 503, request_id=_request_id(request))


def defect(error: Exception, request_id: str) -> JSONResponse:
    """For what is no error of the client's: the trace is for the journal, and the request's id leads to it."""
    journal.defect(error, request_id)
    return problem(_DEFECT, 500, request_id=request_id)


def _findings(error: RequestValidationError) -> list[dict[str, str]]:
    return [{"at": _place(entry["loc"]), "problem": str(entry["msg"])} for entry in error.errors()][:_SHOWN_ERRORS]


def _place(location: Sequence[Any]) -> str:
    """`body.size.executors` as people write it; a body's own path begins behind its kind."""
    return ".".join(str(part) for part in location[1:]) or str(location[0] if location else "request")
