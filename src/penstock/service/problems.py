"""Errors over HTTP: RFC 9457 problem details with the extra members `problem`, `why` and `fix`.

Paths of this machine are redacted: a response has names for its directories instead.
"""

from __future__ import annotations

import copy
import http
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy.exc
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from penstock import errors
from penstock.engine.repository.applications import CONNECTION_LOST
from penstock.errors import PenstockError
from penstock.home import Home
from penstock.service import access_log

_PACKAGE = Path(__file__).parents[1]

Error = TypeVar("Error", bound=PenstockError)


class PathRedactor:
    def __init__(self, home: Home) -> None:
        root = home.root.absolute()
        named = {
            root: "$PENSTOCK_HOME",
            root.parent: "$PENSTOCK_HOME/..",
            _PACKAGE: "PENSTOCK",
            Path(sys.prefix): "PYTHON",
            Path.home(): "~",
        }
        # Longest first, since one may contain another; never the file system's root, which every path contains.
        self._names = sorted(
            ((str(path), name) for path, name in named.items() if len(path.parts) > 1), key=lambda one: -len(one[0])
        )

    def redact(self, text: str) -> str:
        for path, name in self._names:
            if path in text:
                text = text.replace(path, name)
        return text

    def redact_json(self, value: Any) -> Any:
        """Return the JSON value with all its texts redacted."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {name: self.redact_json(part) for name, part in value.items()}
        return [self.redact_json(part) for part in value] if isinstance(value, list) else value

    def redact_error(self, error: Error) -> Error:
        """Return a redacted copy of the error, for a client on another machine."""
        redacted = copy.copy(error)
        redacted.problem, redacted.why, redacted.fix = map(self.redact, (error.problem, error.why, error.fix))
        return redacted


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
_TRANSIENT = frozenset({429, 503})
_RETRY_AFTER_SECONDS = 2
_DEFECT = PenstockError(
    "The service failed", why="this is a defect in Penstock, not in your request", fix="report it with the request's id"
)
_MOST_FINDINGS = 20


def http_status(error: PenstockError) -> int:
    """Return the status of the error's nearest known class; 422 for an error without one."""
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 422)


def retry_headers(status: int) -> dict[str, str]:
    """Return the header by which clients wait before they try again, for a status that passes; none for others."""
    return {"Retry-After": str(_RETRY_AFTER_SECONDS)} if status in _TRANSIENT else {}


def problem_response(
    error: PenstockError,
    status: int,
    *,
    request_id: str = "",
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> JSONResponse:
    """Return the problem body; `detail` has the whole explanation for clients that know only the standard's members."""
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
    extra = {**(headers or {}), **retry_headers(status)}
    if status == http.HTTPStatus.UNAUTHORIZED:
        extra["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body, status, headers=extra, media_type=MEDIA_TYPE)


def validation_problem(error: RequestValidationError) -> tuple[PenstockError, int]:
    """Return the error for a failed validation, and its status.

    It never repeats the request's contents, which may be secret.
    """
    malformed = any(entry["type"] == "json_invalid" for entry in error.errors())
    invalid = errors.InvalidInput(
        "The body is not JSON" if malformed else "The request is invalid",
        why="; ".join(f"{entry['at']}: {entry['problem']}" for entry in _findings(error)),
        fix="/docs describes every request of this service",
    )
    return invalid, 400 if malformed else 422


def install(app: FastAPI) -> None:
    """Register handlers that turn a client's errors into problem bodies; `Guard` answers defects."""
    app.add_exception_handler(PenstockError, _on_penstock_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    for lost in (*CONNECTION_LOST, sqlalchemy.exc.TimeoutError):
        app.add_exception_handler(lost, _on_lost_records)
    app.add_exception_handler(HTTPException, _on_http_error)


def redacted(request: Request, error: PenstockError) -> PenstockError:
    """Return the error with this machine's paths redacted."""
    paths: PathRedactor = request.app.state.service.path_redactor
    return paths.redact_error(error)


def _request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


async def _on_penstock_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PenstockError)  # noqa: S101  registered for no other
    return problem_response(redacted(request, error), http_status(error), request_id=_request_id(request))


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101  registered for no other
    invalid, status = validation_problem(error)
    return problem_response(invalid, status, request_id=_request_id(request), more={"errors": _findings(error)})


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for no other
    if error.status_code == http.HTTPStatus.NOT_FOUND:
        shown: PenstockError = errors.NotFound("There is nothing at this address", fix="/docs lists the addresses")
    elif error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        shown = errors.InvalidInput(
            f"{request.method} is not allowed here", why=f"allowed: {allowed}" if allowed else "", fix="see /docs"
        )
    else:
        shown = errors.InvalidInput(str(error.detail), fix="see /docs")
    return problem_response(shown, error.status_code, request_id=_request_id(request), headers=error.headers)


async def _on_lost_records(request: Request, _: Exception) -> JSONResponse:
    """Answer 503 while the database is down or all its connections are taken: both are transient."""
    unavailable = errors.ServiceError("The database does not answer", why="it is down, or busy", fix="try again")
    return problem_response(unavailable, 503, request_id=_request_id(request))


def internal_error_response(error: Exception, request_id: str) -> JSONResponse:
    """Log the trace under the request's id, and answer 500 without it."""
    access_log.log_defect(error, request_id)
    return problem_response(_DEFECT, 500, request_id=request_id)


def _findings(error: RequestValidationError) -> list[dict[str, str]]:
    return [{"at": _place(entry["loc"]), "problem": str(entry["msg"])} for entry in error.errors()][:_MOST_FINDINGS]


def _place(location: Sequence[Any]) -> str:
    """Return the dotted path of a field, such as `size.executors`, without the part of the request it is in."""
    return ".".join(str(part) for part in location[1:]) or str(location[0] if location else "request")
