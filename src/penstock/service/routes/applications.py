"""`/v1/applications`: submit, list, show, wait, stop, run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse

from penstock.engine.repository import listing
from penstock.engine.tokens import Caller, Scope
from penstock.model import Application, State
from penstock.service import shown, shownplaces, views
from penstock.service.access import Reader, Submitter
from penstock.service.context import ServiceOf
from penstock.service.models import ApplicationBody, Name
from penstock.service.submission import checked_key, submit, visible

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


@router.post("", status_code=202, summary="Submit an application", responses={202: {"model": shown.Submitted}})
def create(
    body: ApplicationBody, service: ServiceOf, caller: Submitter, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """It waits for room and starts by itself; `warnings` tell what in its settings likely is not what was meant."""
    spec = body.spec(service.engine.usual_size(), idempotency_key=checked_key(idempotency_key))
    accepted = submit(service, caller, spec)
    told = {**views.application(service, accepted), "warnings": list(service.engine.warnings(spec))}
    # Made here: an answer that is left to FastAPI waits for a thread once more.
    return JSONResponse(told, 202, headers={"Location": f"{router.prefix}/{accepted.id}"})


@router.get("", summary="List applications, page by page", responses={200: {"model": shown.Applications}})
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
    found = service.engine.page(
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
    return {"items": [views.application(service, item) for item in found.items], "next": found.next}


@router.get(
    "/{application_id}", summary="All that is known of an application", responses={200: {"model": shown.Application}}
)
def show(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    """`application_id` may also be the unmistakable beginning of one, or `last`."""
    return views.application(service, visible(service, caller, application_id))


@router.get(
    "/{application_id}/events", summary="What happened to it, oldest first", responses={200: {"model": shown.History}}
)
def events(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    found = visible(service, caller, application_id)
    hidden = service.paths.hidden_in
    return {
        "items": [
            {**event, "at": event["at"].isoformat(), "detail": hidden(event["detail"])}
            for event in service.engine.events(found.id)
        ]
    }


@router.get(
    "/{application_id}/deliveries",
    summary="What its webhooks were told, and are still to be told",
    responses={200: {"model": shown.Deliveries}},
)
def deliveries(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    found = visible(service, caller, application_id)
    return {"items": [_told(delivery) for delivery in service.engine.deliveries(found.id)]}


@router.get(
    "/{application_id}/metrics",
    summary="Its progress while it runs, its summary and cost once it has ended",
    responses={200: {"model": shownplaces.Metrics}},
)
def metrics(application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    known = views.application(service, visible(service, caller, application_id))
    return {name: known[name] for name in ("id", "state", "progress", "summary", "cost")}


@router.post(
    "/{application_id}/stop", status_code=202, summary="Ask it to end", responses={202: {"model": shown.Application}}
)
def stop(application_id: str, service: ServiceOf, caller: Submitter) -> dict[str, Any]:
    """Returns at once; may be repeated, and changes nothing once it has ended."""
    found = visible(service, caller, application_id, Scope.SUBMIT)
    return views.application(service, service.engine.request_stop(found.id))


@router.post(
    "/{application_id}/rerun",
    status_code=202,
    summary="Run it again, as a new one",
    responses={202: {"model": shown.Application}},
)
def rerun(
    application_id: str, service: ServiceOf, caller: Submitter, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    found = visible(service, caller, application_id, Scope.SUBMIT)
    again = replace(found.spec, idempotency_key=checked_key(idempotency_key))
    return views.application(service, submit(service, caller, again))


@router.get("/{application_id}/wait", summary="Wait for its end", responses={200: {"model": shown.Application}})
async def wait(
    application_id: str,
    service: ServiceOf,
    caller: Reader,
    timeout: Annotated[float, Query(ge=0, le=_MOST_WAIT_SECONDS, description="Seconds.")] = 60.0,
) -> dict[str, Any]:
    """The application as it is when it has ended, or when the time is over: its `state` tells which."""
    found: Application = await to_thread.run_sync(visible, service, caller, application_id)
    ended = await service.news.ended(found.id, timeout)
    return await to_thread.run_sync(views.application, service, ended)


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
