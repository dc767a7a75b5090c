"""`/v1/applications`: submit, list, show, wait, stop, run again, and the results of SQL statements.

`submit` is the entry of every dialect, and `require_allowed` decides which files a submission may name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Response

from penstock.engine.engine import OnWarning
from penstock.engine.engines.registry import engine_of, is_statements
from penstock.engine.interactive import session_server, sessions
from penstock.engine.repository import listing
from penstock.engine.tokens import Caller, Scope
from penstock.errors import InvalidInput, NotFound
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.model import OWN_PROGRAMS, Application, ApplicationSpec, State
from penstock.service import guards, responses
from penstock.service.auth import Reader, Submitter, usual_instance
from penstock.service.context import CurrentService, Service
from penstock.service.requests import ApplicationBody, Name

_OUR_OWN = frozenset({*OWN_PROGRAMS, session_server.__file__})
"""Penstock's own programs, which exist on every machine of the service."""

_LAKE = "s3a://"
_FILE_SETTINGS = frozenset(
    {
        "spark.jars",
        "spark.files",
        "spark.archives",
        "spark.submit.pyFiles",
        "spark.yarn.dist.files",
        "spark.yarn.dist.jars",
        "spark.yarn.dist.archives",
    }
)
_REPOSITORY_SETTINGS = frozenset({"spark.jars.packages", "spark.jars.repositories", "spark.jars.ivySettings"})


def require_allowed(spec: ApplicationSpec) -> None:
    """Raise `InvalidInput` for a file that is not in a lake.

    A path would refer to the service's machine, and reveal which of its files exist. The service would fetch an http
    address from a network that the caller may not reach.
    """
    for kind, address in _addresses(spec):
        if address not in _OUR_OWN and not _in_lake(address):
            raise InvalidInput(
                f"{kind} “{address[:200]}” is not in a lake",
                why="a service reads no files of its own machine, and fetches none from other addresses",
                fix="give s3a://BUCKET/…, or upload it: PUT /v1/files/SHA256/NAME (the CLI and the client do)",
            )
    if found := sorted(_REPOSITORY_SETTINGS & spec.settings.keys()):
        raise InvalidInput(
            f"{found[0]} is not allowed through a service",
            why="the service would fetch from addresses that a client chooses",
            fix="upload the jars, and name them in jars",
        )


def _addresses(spec: ApplicationSpec) -> Iterator[tuple[str, str]]:
    yield "The application", spec.application
    for kind, paths in (("The jar", spec.jars), ("The file", spec.files), ("The Python file", spec.python_files)):
        yield from ((kind, path) for path in paths)
    for key in sorted(_FILE_SETTINGS & spec.settings.keys()):
        yield from ((f"{key}:", part.strip()) for part in spec.settings[key].split(",") if part.strip())


def _in_lake(address: str) -> bool:
    bucket, _, key = address.removeprefix(_LAKE).partition("/")
    return address.startswith(_LAKE) and bool(bucket) and bool(key) and ".." not in key.split("/")


_KEY = re.compile(r"[\x21-\x7e]{1,200}")


def submit(
    service: Service, caller: Caller, spec: ApplicationSpec, on_warning: OnWarning = lambda _: None
) -> Application:
    """Record the application for the dispatcher, or return the one that its idempotency key belongs to.

    Raises `Forbidden`, and the errors of `Engine.enqueue`.
    """
    caller.require(Scope.SUBMIT, spec.instance)
    require_allowed(spec)
    application = service.engine.enqueue(spec, on_warning)
    guards.note_application(application_id=application.id)
    return application


def require_lake(service: Service, caller: Caller, name: str | None) -> None:
    """Raise `NotFound` for an unknown lake, and for one of a queue's keys where the caller may not submit there."""
    Lakes(service.home).require_usable(name, lambda queue: caller.may(Scope.SUBMIT, queue))


def validate_key(text: str | None) -> str | None:
    """Return the value of an `Idempotency-Key` header. Raises `InvalidInput`."""
    if text is not None and not _KEY.fullmatch(text):
        raise InvalidInput(
            "Idempotency-Key is invalid",
            why="it must have 1 to 200 visible ASCII characters",
            fix="send a random UUID with each submission that may be repeated",
        )
    return text


def visible(service: Service, caller: Caller, application_id: str, scope: Scope = Scope.READ) -> Application:
    """Return the application of that id, or of a unique beginning of it.

    Raises `NotFound` for an unknown id and for an application of an instance that the caller does not see, and
    `Forbidden` where the caller sees it but lacks the scope.
    """
    try:
        application = service.engine.get(application_id)
    except InvalidInput:
        # Only callers who see all instances may learn which ids share a beginning.
        if caller.instances is None:
            raise
        application = None
    if application is None or not caller.sees(application.spec.instance):
        raise NotFound(f"There is no application “{application_id}”", fix="GET /v1/applications lists them")
    caller.require(scope, application.spec.instance)
    return application


router = APIRouter(prefix="/v1/applications", tags=["applications"])

_MOST_WAIT_SECONDS = 300.0

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A repeated submission with the same key returns the first one's application.",
    ),
]

After = Annotated[datetime | None, Query(description="Inclusive.")]
Before = Annotated[datetime | None, Query(description="Exclusive.")]


@router.post("", status_code=202, summary="Submit an application", responses={202: {"model": responses.Submitted}})
def create(
    body: ApplicationBody, service: CurrentService, caller: Submitter, idempotency_key: IdempotencyKey = None
) -> Response:
    """The application starts by itself when there is room; `warnings` are of settings that are probably mistakes."""
    usual = engine_of(body).usual_size(service.engine.usual_size())
    spec = body.spec(usual, usual_instance(caller), idempotency_key=validate_key(idempotency_key))
    warnings: list[str] = []
    accepted = submit(service, caller, spec, warnings.append)
    shown = responses.submitted(service, accepted, warnings)
    # Serialised here, since FastAPI would wait for a thread a second time.
    return Response(
        shown.model_dump_json(),
        202,
        media_type="application/json",
        headers={"Location": f"{router.prefix}/{accepted.id}"},
    )


@router.get("", summary="List applications, page by page")
def page(
    *,
    service: CurrentService,
    caller: Reader,
    state: Annotated[list[State] | None, Query(description="One of these states.")] = None,
    tag: Annotated[list[Name] | None, Query(description="All of these tags.")] = None,
    instance: Annotated[list[Name] | None, Query(description="One of these instances.")] = None,
    name: Annotated[Name | None, Query(description="Exactly this name.")] = None,
    search: Annotated[Name | None, Query(description="Part of the name or id, ignoring case.")] = None,
    submitted_after: After = None,
    submitted_before: Before = None,
    started_after: After = None,
    started_before: Before = None,
    ended_after: After = None,
    ended_before: Before = None,
    sort: Annotated[
        str, Query(description="submitted_at, started_at, ended_at or name; with a leading - descending.")
    ] = "-submitted_at",
    limit: Annotated[int, Query(ge=1, le=listing.MOST_PER_PAGE)] = 50,
    page: Annotated[str | None, Query(description="`next` of the previous page.", max_length=4000)] = None,
) -> responses.Applications:
    """Submissions between two pages neither repeat nor hide an application."""
    listed = _listed_instances(caller, instance)
    if listed is not None and not listed:
        return responses.Applications(items=[], next=None)
    found = service.engine.applications.page(
        listing.Query(
            states=tuple(state or ()),
            tags=tuple(tag or ()),
            instances=tuple(sorted(listed or ())),
            name=name,
            search=search,
            submitted=listing.Interval(_utc(submitted_after), _utc(submitted_before)),
            started=listing.Interval(_utc(started_after), _utc(started_before)),
            ended=listing.Interval(_utc(ended_after), _utc(ended_before)),
            sort=sort,
            limit=limit,
            page=page,
        )
    )
    return responses.Applications(items=[responses.application(service, item) for item in found.items], next=found.next)


@router.get("/{application_id}", summary="One application")
def show(application_id: str, service: CurrentService, caller: Reader) -> responses.ApplicationResponse:
    """`application_id` may also be a unique beginning of an id, or `last`."""
    return responses.application(service, visible(service, caller, application_id))


@router.get("/{application_id}/events", summary="Its events, oldest first")
def events(application_id: str, service: CurrentService, caller: Reader) -> responses.History:
    found = visible(service, caller, application_id)
    redact = service.path_redactor.redact_json
    return responses.History.model_validate(
        {
            "items": [
                {**event, "detail": redact(event["detail"])} for event in service.engine.applications.events(found.id)
            ]
        }
    )


@router.get("/{application_id}/deliveries", summary="The notifications of its webhooks, sent and due")
def deliveries(application_id: str, service: CurrentService, caller: Reader) -> responses.Deliveries:
    found = visible(service, caller, application_id)
    return responses.Deliveries.model_validate({"items": service.engine.applications.deliveries(found.id)})


@router.get("/{application_id}/metrics", summary="Its progress while it runs, its summary and cost once it has ended")
def metrics(application_id: str, service: CurrentService, caller: Reader) -> responses.Metrics:
    shown = responses.application(service, visible(service, caller, application_id))
    return responses.Metrics.model_validate(shown)


@router.post("/{application_id}/stop", status_code=202, summary="Stop it")
def stop(application_id: str, service: CurrentService, caller: Submitter) -> responses.ApplicationResponse:
    """Returns at once. Repeated requests are allowed; they change nothing once the application has ended."""
    found = visible(service, caller, application_id, Scope.SUBMIT)
    return responses.application(service, service.engine.request_stop(found.id))


@router.post("/{application_id}/rerun", status_code=202, summary="Submit it again, as a new application")
def rerun(
    application_id: str, service: CurrentService, caller: Submitter, idempotency_key: IdempotencyKey = None
) -> responses.ApplicationResponse:
    found = visible(service, caller, application_id, Scope.SUBMIT)
    again = replace(found.spec, idempotency_key=validate_key(idempotency_key))
    return responses.application(service, submit(service, caller, again))


@router.get("/{application_id}/wait", summary="Wait for its end")
async def wait(
    application_id: str,
    service: CurrentService,
    caller: Reader,
    timeout: Annotated[float, Query(ge=0, le=_MOST_WAIT_SECONDS, description="Seconds.")] = 60.0,
) -> responses.ApplicationResponse:
    """Returns the application when it has ended or the time is over; its `state` shows which."""
    found: Application = await to_thread.run_sync(visible, service, caller, application_id)
    ended = await service.change_notifier.ended(found.id, timeout)
    return await to_thread.run_sync(responses.application, service, ended)


def _listed_instances(caller: Caller, named: list[str] | None) -> set[str] | None:
    """Return the instances to list, without those that the caller does not see; None for all."""
    if caller.instances is None:
        return set(named) if named else None
    return set(caller.instances) & set(named) if named else set(caller.instances)


def _utc(moment: datetime | None) -> datetime | None:
    """Return the time with its zone, UTC by default, like all times of this API."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


MOST_RESULT_BYTES = 64 << 20
"""The limit on results and statements, which are read into memory: the program that wrote them is the user's."""

statements_router = APIRouter(prefix="/v1/applications/{application_id}", tags=["sql"])


@statements_router.get("/results", summary="The results of its SQL statements")
def results(application_id: str, service: CurrentService, caller: Reader) -> responses.Results:
    """An item per started statement, in order: `statement`, and `columns`, `rows` and `truncated`, or `error`.

    Results of more than 64 MiB are refused.
    """
    found = visible(service, caller, application_id)
    with service.request_counts.counting(guards.RESULTS, caller.token_id):
        try:
            lines = _results(service, found).splitlines()
        except NotFound:
            lines = []
        return responses.Results(items=[_item(found, line) for line in lines])


def _item(application: Application, line: bytes) -> dict[str, Any]:
    """Parse a result. Raises `InvalidInput` for anything but an object: the program that wrote it is the user's."""
    try:
        item = json.loads(line)
    except (ValueError, RecursionError):
        item = None
    if not isinstance(item, dict):
        raise InvalidInput(
            f"The results of {application.id} are damaged",
            why="a line of them is no JSON object",
            fix=f"submit it again: POST /v1/applications/{application.id}/rerun",
        )
    return item


@statements_router.get("/statements", summary="The SQL statements it ran")
def text(application_id: str, service: CurrentService, caller: Reader) -> responses.Statements:
    found = visible(service, caller, application_id)
    if not is_statements(found.spec):
        raise NotFound(
            f"{found.id} has no SQL statements",
            why="it runs a program",
            fix=f"POST /v1/applications/{found.id}/rerun submits it again",
        )
    lake = _artifact_lake(service, found)
    content = _limited(
        lambda length: sessions.stored_statements(service.engine.store(lake.name), lake, found, length=length),
        f"The statements of {found.id} are",
        fix="read them in the lake, or submit them in several files",
    )
    return responses.Statements(statements=sessions.statements_text(found, content))


def _results(service: Service, application: Application) -> bytes:
    """The object that an argument names, if it is below the prefix of results: arguments are the user's.

    Raises `NotFound`, and `InvalidInput` for an object above `MOST_RESULT_BYTES`.
    """
    address = sessions.argument(application.spec, "--output")
    lake = _artifact_lake(service, application)
    key = (address or "").removeprefix(f"{lake.root}/")
    if not is_statements(application.spec) or not key.startswith(sessions.RESULTS) or ".." in key.split("/"):
        raise NotFound(f"{application.id} has no results of SQL statements")
    store = service.engine.store(lake.name)
    return _limited(
        lambda length: store.get(key, length=length),
        f"The results of {application.id} are",
        fix=f"request fewer rows (penstock sql --limit), write them to a table, or read {address} in the lake",
    )


def _artifact_lake(service: Service, application: Application) -> Lake:
    return service.engine.lake(Lakes(service.home).artifact_lake(application.spec.lake))


def _limited(read: Callable[[int], bytes], problem: str, *, fix: str) -> bytes:
    # One byte more than the limit: the object may change between a look at its size and the read.
    content = read(MOST_RESULT_BYTES + 1)
    if len(content) > MOST_RESULT_BYTES:
        raise InvalidInput(
            f"{problem} too large for this request",
            why=f"the limit is {MOST_RESULT_BYTES >> 20} MiB, since the service reads them into memory",
            fix=fix,
        )
    return content
