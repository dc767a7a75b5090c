"""Operations shared by the routes of all dialects: find an instance or an application for a caller, submit, stop.

An error is the service's own problem body with IBM's members beside it, so that one answer serves both kinds of client.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from penstock.engine.policy.fairness import Instance
from penstock.engine.tokens import Caller, Scope
from penstock.errors import InvalidInput, NotFound, PenstockError
from penstock.lake.embedded import BUCKET
from penstock.lake.model import Lake
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.model import Application
from penstock.service import problems
from penstock.service.api import applications
from penstock.service.context import Service
from penstock.service.ibm import configuration, stores
from penstock.service.ibm.bodies import Asked
from penstock.service.ibm.translation import Surroundings, translate

IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="Sent again with the same key, a submission is the first one."),
]


@functools.cache
def spark_version() -> str:
    """The one there is; `4.1` of 4.1.2, as IBM writes versions."""
    return ".".join(version("pyspark").split(".")[:2])


def instance_of(service: Service, caller: Caller, name: str, scope: Scope = Scope.READ) -> Instance:
    """Raises `NotFound`, also where the caller does not see it, and `Forbidden`."""
    if not caller.sees(name):
        raise NotFound(f"There is no instance “{name}”", fix="GET /v1/instances lists them")
    caller.require(scope, name)
    return service.engine.queues.instance(name)


def application_of(
    service: Service, caller: Caller, instance: str, application_id: str, scope: Scope = Scope.READ
) -> Application:
    """By its whole id, within that instance. Raises `NotFound` and `Forbidden`."""
    instance_of(service, caller, instance)
    try:
        application = applications.visible(service, caller, application_id, scope)
    except InvalidInput:
        application = None  # the beginning of several ids
    # The engine also knows beginnings of ids; a client that asks for one did not mean another.
    if application is None or application.id != application_id or application.spec.instance != instance:
        raise NotFound(f"There is no application “{application_id}” in “{instance}”", fix="list them to see which are")
    return application


def submit(service: Service, caller: Caller, instance_name: str, asked: Asked, key: str | None) -> Application:
    """Raises what the engine's `submit` does, and `InvalidInput` for what cannot be had here."""
    instance = instance_of(service, caller, instance_name, Scope.SUBMIT)
    has = configuration.read(instance)
    home = lake_of(service, has.home.lake if has.home else None)
    around = Surroundings(
        instance=instance_name,
        usual=service.engine.usual_size(),
        home=home,
        # No keys of another submission open a store for this one.
        lakes=[*Lakes(service.home).shared(), *([home] if home.scope else [])],
        defaults=has.default_configs,
    )
    found = translate(asked, around)
    lake = stores.lake_opened_by(service.home, found.lake, found.keys, queue=instance_name)
    spec = replace(found.spec, lake=lake.name, idempotency_key=applications.checked_key(key))
    return applications.submit(service, caller, spec)


def lake_of(service: Service, name: str | None) -> Lake:
    """The named lake or the default one, as it is registered: a submission waits for no lake to start.

    Where there is none yet it is the embedded one, which its first use makes.
    """
    lakes = Lakes(service.home)
    if name is None and lakes.default() is None:
        return Lake(EMBEDDED, (), BUCKET, credentials=f"file:{EMBEDDED}", kind="embedded")
    return lakes.get(name)


def stop_application(service: Service, application: Application) -> None:
    """Ask it to end; nothing happens to one that has, or was asked to before."""
    if not application.state.final:
        service.engine.request_stop(application.id)


def ui_address(request: Request, application: Application) -> str:
    """Where a browser gets to Spark's own pages of it while it runs: the console asks for leave."""
    return str(request.base_url.replace(path=f"/v1/applications/{application.id}/ui"))


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
