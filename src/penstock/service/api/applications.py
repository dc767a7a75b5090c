"""`/v1/applications`: submit, list, show, wait, stop, run again, and the results of SQL statements.

`submission` is the one way in for every dialect. Which files a submission from elsewhere may name is decided here,
purely.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse

from penstock.clusters.settings import BUILT_IN
from penstock.engine import artifacts
from penstock.engine.engine import OnWarning
from penstock.engine.interactive import connect_server, sessions
from penstock.engine.repository import listing
from penstock.engine.tokens import Caller, Scope
from penstock.errors import InvalidInput, NotFound
from penstock.lake.registry import Lakes
from penstock.model import Application, ApplicationSpec, State
from penstock.service import guards, responses
from penstock.service.auth import Reader, Submitter
from penstock.service.context import Service, ServiceOf
from penstock.service.requests import ApplicationBody, Name

_OUR_OWN = frozenset({BUILT_IN, connect_server.__file__})
"""What is run from here whoever asks for it: it is on every machine of the service alike."""

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

    A path would be one of the service's machine, and say of each whether it is there. An http address would be asked
    for by the service, from a place in the network where the caller is not.
    """
    for what, address in _addresses(spec):
        if address not in _OUR_OWN and not _in_lake(address):
            raise InvalidInput(
                f"{what} “{address[:200]}” is not in a lake",
                why="a service takes no file of its own machine, and fetches none from other addresses",
                fix="give s3a://BUCKET/…, or upload it: PUT /v1/files/SHA256/NAME (the CLI and the client do)",
            )
    if found := sorted(_REPOSITORY_SETTINGS & spec.settings.keys()):
        raise InvalidInput(
            f"{found[0]} is not possible through a service",
            why="it would fetch from addresses the service was told",
            fix="bring the jars along: upload them, and name them in jars",
        )


def _addresses(spec: ApplicationSpec) -> Iterator[tuple[str, str]]:
    yield "The application", spec.application
    for what, paths in (("The jar", spec.jars), ("The file", spec.files), ("The Python file", spec.python_files)):
        yield from ((what, path) for path in paths)
    for key in sorted(_FILE_SETTINGS & spec.settings.keys()):
        yield from ((f"{key}:", part.strip()) for part in spec.settings[key].split(",") if part.strip())


def _in_lake(address: str) -> bool:
    bucket, _, key = address.removeprefix(_LAKE).partition("/")
    return address.startswith(_LAKE) and bool(bucket) and bool(key) and ".." not in key.split("/")


_KEY = re.compile(r"[\x21-\x7e]{1,200}")


def submit(
    service: Service, caller: Caller, spec: ApplicationSpec, on_warning: OnWarning = lambda _: None
) -> Application:
    """Record the application for the dispatcher, or return the one its idempotency key belongs to.

    Raises `Forbidden`, and whatever `Engine.enqueue` does.
    """
    caller.require(Scope.SUBMIT, spec.instance)
    require_allowed(spec)
    application = service.engine.enqueue(spec, on_warning)
    guards.note(application_id=application.id)
    return application


def require_lake(service: Service, caller: Caller, name: str | None) -> None:
    """Raise `NotFound`, as for an unknown lake, for one made from the keys of a queue that is not the caller's."""
    Lakes(service.home).require_usable(name, lambda queue: caller.may(Scope.SUBMIT, queue))


def checked_key(text: str | None) -> str | None:
    """An `Idempotency-Key` header. Raises `InvalidInput`."""
    if text is not None and not _KEY.fullmatch(text):
        raise InvalidInput(
            "Idempotency-Key is not understood",
            why="it has 1 to 200 visible ASCII characters",
            fix="a random UUID for each submission that may be repeated",
        )
    return text


def visible(service: Service, caller: Caller, application_id: str, scope: Scope = Scope.READ) -> Application:
    """The application of that id. Whose instance the caller does not see does not exist for it: `NotFound`, as for any
    id that is none. Raises `Forbidden` where it sees the application, and lacks the scope."""
    try:
        application = service.engine.get(application_id)
    except InvalidInput:
        # Of which ids it is the beginning is for those who see them all.
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
        description="A submission repeated with the same key returns the first one's application.",
    ),
]

After = Annotated[datetime | None, Query(description="This moment included.")]
Before = Annotated[datetime | None, Query(description="This moment excluded.")]


@router.post("", status_code=202, summary="Submit an application", responses={202: {"model": responses.Submitted}})
def create(
    body: ApplicationBody, service: ServiceOf, caller: Submitter, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """It waits for room and starts by itself; `warnings` tell what in its settings likely is not what was meant."""
    spec = body.spec(service.engine.usual_size(), idempotency_key=checked_key(idempotency_key))
    warnings: list[str] = []
    accepted = submit(service, caller, spec, warnings.append)
    told = {**responses.application(service, accepted), "warnings": warnings}
    # Made here: an answer that is left to FastAPI waits for a thread once more.
    return JSONResponse(told, 202, headers={"Location": f"{router.prefix}/{accepted.id}"})


@router.get("", summary="List applications, page by page", responses={200: {"model": responses.Applications}})
def page(
    *,
    service: ServiceOf,
    caller: Reader,
    state: Annotated[list[State] | None, Query(description="In one of these states.")] = None,
    tag: Annotated[list[Name] | None, Query(description="With all of these tags.")] = None,
    instance: Annotated[list[Name] | None, Query(description="Of one of these instances.")] = None,
    name: Annotated[Name | None, Query(description="Of exactly this name.")] = None,
    search: Annotated[Name | None, Query(description="With this in their name or id, in any case.")] = None,
    submitted_after: After = None,
    submitted_before: Before = None,
    started_after: After = None,
    started_before: Before = None,
    ended_after: After = None,
    ended_before: Before = None,
    sort: Annotated[str, Query(description="submitted_at, started_at, ended_at or name; - before it: descending.")] = (
        "-submitted_at"
    ),
    limit: Annotated[int, Query(ge=1, le=listing.MOST_PER_PAGE)] = 50,
    page: Annotated[str | None, Query(description="`next` of the page before.", max_length=4000)] = None,
) -> dict[str, Any]:
    """Without `page` from the beginning. What is submitted meanwhile neither repeats nor hides anything."""
    wanted = _seen_by(caller, instance)
    if wanted is not None and not wanted:
        return {"items": [], "next": None}
    found = service.engine.applications.page(
        listing.Query(
            states=tuple(state or ()),
            tags=tuple(tag or ()),
            instances=tuple(sorted(wanted or ())),
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
    return {"items": [responses.application(service, item) for item in found.items], "next": found.next}


@router.get(
    "/{application_id}",
    summary="All that is known of an application",
    responses={200: {"model": responses.ApplicationResponse}},
)
def show(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    """`application_id` may also be the unmistakable beginning of one, or `last`."""
    return responses.application(service, visible(service, caller, application_id))


@router.get(
    "/{application_id}/events",
    summary="What happened to it, oldest first",
    responses={200: {"model": responses.History}},
)
def events(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    found = visible(service, caller, application_id)
    hidden = service.paths.hidden_in
    return {
        "items": [
            {**event, "at": event["at"].isoformat(), "detail": hidden(event["detail"])}
            for event in service.engine.applications.events(found.id)
        ]
    }


@router.get(
    "/{application_id}/deliveries",
    summary="What its webhooks were told, and are still to be told",
    responses={200: {"model": responses.Deliveries}},
)
def deliveries(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    found = visible(service, caller, application_id)
    return {"items": [_told(delivery) for delivery in service.engine.applications.deliveries(found.id)]}


@router.get(
    "/{application_id}/metrics",
    summary="Its progress while it runs, its summary and cost once it has ended",
    responses={200: {"model": responses.Metrics}},
)
def metrics(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    known = responses.application(service, visible(service, caller, application_id))
    return {name: known[name] for name in ("id", "state", "progress", "summary", "cost")}


@router.post(
    "/{application_id}/stop",
    status_code=202,
    summary="Ask it to end",
    responses={202: {"model": responses.ApplicationResponse}},
)
def stop(application_id: str, service: ServiceOf, caller: Submitter) -> dict[str, Any]:
    """Returns at once; may be repeated, and changes nothing once it has ended."""
    found = visible(service, caller, application_id, Scope.SUBMIT)
    return responses.application(service, service.engine.request_stop(found.id))


@router.post(
    "/{application_id}/rerun",
    status_code=202,
    summary="Run it again, as a new one",
    responses={202: {"model": responses.ApplicationResponse}},
)
def rerun(
    application_id: str, service: ServiceOf, caller: Submitter, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    found = visible(service, caller, application_id, Scope.SUBMIT)
    again = replace(found.spec, idempotency_key=checked_key(idempotency_key))
    return responses.application(service, submit(service, caller, again))


@router.get(
    "/{application_id}/wait", summary="Wait for its end", responses={200: {"model": responses.ApplicationResponse}}
)
async def wait(
    application_id: str,
    service: ServiceOf,
    caller: Reader,
    timeout: Annotated[float, Query(ge=0, le=_MOST_WAIT_SECONDS, description="Seconds.")] = 60.0,
) -> dict[str, Any]:
    """The application as it is when it has ended, or when the time is over: its `state` tells which."""
    found: Application = await to_thread.run_sync(visible, service, caller, application_id)
    ended = await service.news.ended(found.id, timeout)
    return await to_thread.run_sync(responses.application, service, ended)


def _told(delivery: Mapping[str, Any]) -> dict[str, Any]:
    moments = {name: delivery[name].isoformat() if delivery[name] else None for name in ("due_at", "delivered_at")}
    return {**delivery, **moments}


def _seen_by(caller: Caller, wanted: list[str] | None) -> set[str] | None:
    """Which instances to list: None for all. One the caller does not see has nothing to list."""
    if caller.instances is None:
        return set(wanted) if wanted else None
    return set(caller.instances) & set(wanted) if wanted else set(caller.instances)


def _utc(moment: datetime | None) -> datetime | None:
    """Times without a zone are UTC, as all of this API's."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


statements_router = APIRouter(prefix="/v1/applications/{application_id}", tags=["sql"])


@statements_router.get(
    "/results", summary="What its SQL statements answered", responses={200: {"model": responses.Results}}
)
def results(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    """One item for each statement that was begun, in order: `statement`, and `columns`, `rows`, `truncated` or `error`.
    Empty until there is something."""
    found = visible(service, caller, application_id)
    try:
        lines = _read(service, found, "--output", below=sessions.RESULTS).splitlines()
    except NotFound:
        lines = []
    return {"items": [json.loads(line) for line in lines]}


@statements_router.get(
    "/statements", summary="The SQL statements it ran", responses={200: {"model": responses.Statements}}
)
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
