"""What the routes of these APIs have in common: errors as IBM's clients read them, bodies as IBM's examples send them.

An error is the service's own problem body with IBM's members beside it, so that one answer serves both kinds of client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from penstock.errors import PenstockError
from penstock.service import problems

_JSON = b"application/json"
_UNPROCESSABLE, _BAD_REQUEST = 422, 400

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class DialectRoute(APIRoute):
    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def translated(request: Request) -> Response:
            try:
                return await handle(_as_json(request))
            except PenstockError as error:
                return _answer(request, problems.outside(request, error), problems.status_of(error))
            except RequestValidationError as invalid:
                return _answer(request, *problems.of_validation(invalid))

        return translated


def members(error: PenstockError, status: int, trace: str) -> Mapping[str, Any]:
    """IBM's error body."""
    text = f"{error.problem}: {error.why}" if error.why else error.problem
    return {
        "errors": [{"code": error.code, "message": text, "more_info": error.fix}],
        "trace": trace,
        "status_code": status,
    }


def _answer(request: Request, error: PenstockError, status: int) -> Response:
    # These APIs know one status for whatever is wrong with a request.
    status = _BAD_REQUEST if status == _UNPROCESSABLE else status
    trace = str(getattr(request.state, "request_id", ""))
    return problems.problem(error, status, request_id=trace, more=members(error, status, trace))


def _as_json(request: Request) -> Request:
    """The request, whose body is JSON whatever curl called it: the documentation's own examples name no type.

    Safe as every call carries its token in a header, which no page of a stranger can make a browser send.
    """
    if request.headers.get("content-type", "").startswith(("application/x-www-form-urlencoded", "text/plain")):
        headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
        return Request({**request.scope, "headers": [*headers, (b"content-type", _JSON)]}, request.receive)
    return request
