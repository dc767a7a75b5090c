"""`/iceberg/v1`: Iceberg's REST catalog protocol, for Spark, Trino, DuckDB, PyIceberg and others with a token."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.routing import APIRoute

from penstock.engine.tokens import Scope
from penstock.errors import PenstockError
from penstock.service import problems
from penstock.service.auth import Reader, usual_instance
from penstock.service.context import CurrentService
from penstock.service.guards import CATALOG
from penstock.service.iceberg import catalog as iceberg

PREFIX = "/iceberg/v1"


class _Route(APIRoute):
    """A route whose errors have the protocol's form, which its clients read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except PenstockError as error:
                return _response(iceberg.refusal(problems.redacted(request, error)))

        return handled


router = APIRouter(prefix=PREFIX, route_class=_Route, include_in_schema=False)


async def _whole_body(request: Request) -> bytes:
    return await request.body()


@router.get("/config")
def configuration(
    service: CurrentService, caller: Reader, warehouse: Annotated[str | None, Query(max_length=100)] = None
) -> Response:
    """`warehouse` names the instance in which the client works, and whose its new namespaces are."""
    instance = warehouse or usual_instance(caller)
    caller.require(Scope.READ, instance)
    with service.request_counts.counting(CATALOG, caller.token_id):
        return _response(service.iceberg.configuration(instance))


@router.api_route("/{instance}/{path:path}", methods=["GET", "HEAD", "POST", "DELETE"])
def passed_on(
    instance: str,
    request: Request,
    service: CurrentService,
    caller: Reader,
    body: Annotated[bytes, Depends(_whole_body)],
) -> Response:
    caller.require(Scope.READ, instance)
    raw = request.scope.get("raw_path") or request.url.path.encode()
    segments = raw.decode("ascii", "replace").removeprefix(request.scope.get("root_path", "")).split("/")
    # Split before it is decoded: a name may have a slash.
    path = tuple(unquote(part) for part in segments[4:])
    delegated = "vended-credentials" in request.headers.get("x-iceberg-access-delegation", "")
    asked = iceberg.Request(request.method, path, dict(request.query_params), body, delegated)
    with service.request_counts.counting(CATALOG, caller.token_id):
        return _response(service.iceberg.answer(caller, instance, asked))


def _response(answer: iceberg.Answer) -> Response:
    return Response(
        answer.body,
        answer.status,
        headers=problems.retry_headers(answer.status),
        media_type="application/json" if answer.body else None,
    )
