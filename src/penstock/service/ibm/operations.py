"""Operations shared by the routes of all dialects: find an instance or an application for a caller, submit, stop.

An error is the service's own problem body with IBM's members added, so that it serves both kinds of client.
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

from penstock.engine.policy.scheduling import Instance
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
from penstock.service.ibm.bodies import ParsedRequest
from penstock.service.ibm.translation import TranslationContext, translate

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A repeated submission with the same key returns the first one's application.",
    ),
]


@functools.cache
def spark_version() -> str:
    """Return the version of the service's Spark, as IBM writes it: `4.1` for 4.1.2."""
    return ".".join(version("pyspark").split(".")[:2])


def visible_instance(service: Service, caller: Caller, name: str, scope: Scope = Scope.READ) -> Instance:
    """Return the instance. Raises `Forbidden`, and `NotFound` also where the caller does not see it."""
    if not caller.sees(name):
        raise NotFound(f"There is no instance “{name}”", fix="GET /v1/instances lists them")
    caller.require(scope, name)
    return service.engine.queues.instance(name)


def visible_application(
    service: Service, caller: Caller, instance: str, application_id: str, scope: Scope = Scope.READ
) -> Application:
    """Return the application of the instance with that complete id. Raises `NotFound` and `Forbidden`."""
    visible_instance(service, caller, instance)
    try:
        application = applications.visible(service, caller, application_id, scope)
    except InvalidInput:
        application = None  # a prefix of several ids
    # The engine also accepts prefixes of ids, which would be an error of these clients.
    if application is None or application.id != application_id or application.spec.instance != instance:
        raise NotFound(f"There is no application “{application_id}” in “{instance}”", fix="list the applications")
    return application


def submit(
    service: Service, caller: Caller, instance_name: str, submission: ParsedRequest, key: str | None
) -> Application:
    """Translate and submit a request. Raises the errors of the engine, and `InvalidInput` for unsupported requests."""
    instance = visible_instance(service, caller, instance_name, Scope.SUBMIT)
    stored = configuration.read(instance)
    home = registered_lake(service, stored.home.lake if stored.home else None)
    context = TranslationContext(
        instance=instance_name,
        usual=service.engine.usual_size(),
        home=home,
        # Lakes made from the keys of other submissions are left out.
        lakes=[*Lakes(service.home).shared(), *([home] if home.scope else [])],
        defaults=stored.default_configs,
    )
    found = translate(submission, context)
    lake = stores.resolve_credentials(service.home, found.lake, found.keys, queue=instance_name)
    spec = replace(found.spec, lake=lake.name, idempotency_key=applications.validate_key(key))
    return applications.submit(service, caller, spec)


def registered_lake(service: Service, name: str | None) -> Lake:
    """Return the named lake or the default one, without starting it.

    Without a default lake it is the embedded one, which is created at its first use.
    """
    lakes = Lakes(service.home)
    if name is None and lakes.default() is None:
        return Lake(EMBEDDED, (), BUCKET, credentials=f"file:{EMBEDDED}", kind="embedded")
    return lakes.get(name)


def stop_application(service: Service, application: Application) -> None:
    """Request the application's stop, unless it has ended."""
    if not application.state.final:
        service.engine.request_stop(application.id)


def ui_address(request: Request, application: Application) -> str:
    """Return the address that redirects a browser to the console, which opens Spark's own pages."""
    return str(request.base_url.replace(path=f"/v1/applications/{application.id}/ui"))


_JSON = b"application/json"
_UNPROCESSABLE, _BAD_REQUEST = 422, 400

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class DialectRoute(APIRoute):
    """A route with IBM's errors, whose responses leave out unset fields."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "response_model_exclude_unset": True})

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def translated(request: Request) -> Response:
            try:
                return await handle(_as_json(request))
            except PenstockError as error:
                return _answer(request, problems.redacted(request, error), problems.http_status(error))
            except RequestValidationError as invalid:
                return _answer(request, *problems.validation_problem(invalid))

        return translated


def ibm_error_members(error: PenstockError, status: int, trace: str) -> Mapping[str, Any]:
    """IBM's error body."""
    text = f"{error.problem}: {error.why}" if error.why else error.problem
    return {
        "errors": [{"code": error.code, "message": text, "more_info": error.fix}],
        "trace": trace,
        "status_code": status,
    }


def _answer(request: Request, error: PenstockError, status: int) -> Response:
    # These APIs have one status for all invalid requests.
    status = _BAD_REQUEST if status == _UNPROCESSABLE else status
    trace = str(getattr(request.state, "request_id", ""))
    return problems.problem_response(error, status, request_id=trace, more=ibm_error_members(error, status, trace))


def _as_json(request: Request) -> Request:
    """Return the request with the content type JSON: the examples of IBM's documentation let curl send another one.

    This is safe, since every call has its token in a header, which other sites' pages cannot make a browser send.
    """
    if request.headers.get("content-type", "").startswith(("application/x-www-form-urlencoded", "text/plain")):
        headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
        return Request({**request.scope, "headers": [*headers, (b"content-type", _JSON)]}, request.receive)
    return request
