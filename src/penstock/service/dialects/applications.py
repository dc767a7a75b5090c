"""`…/spark_applications` of v3 and v4, which differ in their prefix only."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from penstock.engine.repository.listing import MOST_PER_PAGE
from penstock.engine.repository.listing import Query as Wanted
from penstock.engine.tokens import Scope
from penstock.model import Application
from penstock.service.access import Reader, Submitter
from penstock.service.context import ServiceOf
from penstock.service.dialects import intervals, operations, shown, states, views
from penstock.service.dialects.bodies import ApplicationRequest
from penstock.service.dialects.operations import IdempotencyKey, application_of, instance_of
from penstock.service.dialects.route import DialectRoute

_USUAL_LIMIT = 100

IntervalText = Annotated[
    str | None,
    Query(
        max_length=100,
        description="`<lower>,<upper>`, the upper end exclusive; ISO 8601, or `BEGINNING` and `CURRENT`.",
        examples=["BEGINNING,CURRENT"],
    ),
]


def applications(prefix: str) -> APIRouter:
    router = APIRouter(
        prefix=prefix + "/{instance_id}/spark_applications", route_class=DialectRoute, tags=["IBM Analytics Engine"]
    )

    @router.post(
        "", status_code=202, summary="Submit an application", responses={202: {"model": shown.SparkApplicationAccepted}}
    )
    def create(
        request: ApplicationRequest, instance_id: str, service: ServiceOf, caller: Submitter, key: IdempotencyKey = None
    ) -> dict[str, Any]:
        return views.accepted(operations.submit(service, caller, instance_id, request.asked(), key))

    @router.get(
        "", summary="List applications, the newest first", responses={200: {"model": shown.SparkApplicationCollection}}
    )
    def listed(
        request: Request,
        instance_id: str,
        service: ServiceOf,
        caller: Reader,
        *,
        state: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006  FastAPI copies defaults
        start_time_interval: IntervalText = None,
        submission_time_interval: IntervalText = None,
        end_time_interval: IntervalText = None,
        limit: Annotated[int, Query(ge=1, le=MOST_PER_PAGE)] = _USUAL_LIMIT,
        start: Annotated[str | None, Query(description="`start` of a page's `next` or `previous`.")] = None,
    ) -> dict[str, Any]:
        instance_of(service, caller, instance_id)
        now = datetime.now(timezone.utc)
        wanted = states.asked(state)
        link = _Links(request, limit)
        if state and not wanted:
            return link.collection([], None, None)
        page = service.engine.page(
            Wanted(
                states=tuple(wanted),
                instances=(instance_id,),
                submitted=intervals.parse("submission_time_interval", submission_time_interval, now),
                started=intervals.parse("start_time_interval", start_time_interval, now),
                ended=intervals.parse("end_time_interval", end_time_interval, now),
                limit=limit,
                page=start,
            )
        )
        return link.collection(page.items, page.next, page.previous)

    @router.get(
        "/{application_id}",
        summary="All that is known of an application",
        responses={200: {"model": shown.SparkApplication}},
    )
    def show(
        request: Request, instance_id: str, application_id: str, service: ServiceOf, caller: Reader
    ) -> dict[str, Any]:
        application = application_of(service, caller, instance_id, application_id)
        return views.whole(
            application,
            spark_version=operations.spark_version(),
            spark_ui=operations.ui_address(request, application),
        )

    @router.get(
        "/{application_id}/state",
        summary="The state of an application",
        responses={200: {"model": shown.SparkApplicationState}},
    )
    def state_of(instance_id: str, application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return views.state(application_of(service, caller, instance_id, application_id))

    @router.delete(
        "/{application_id}", status_code=204, summary="Stop an application; one that has ended stays as it is"
    )
    def stop(instance_id: str, application_id: str, service: ServiceOf, caller: Submitter) -> None:
        operations.stop(service, application_of(service, caller, instance_id, application_id, Scope.SUBMIT))

    return router


class _Links:
    """A page with links to the pages around it, which repeat the filters."""

    def __init__(self, request: Request, limit: int) -> None:
        self._request = request
        self._limit = limit

    def collection(self, items: list[Application], following: str | None, previous: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {
            "applications": [self._entry(application) for application in items],
            "first": {"href": str(self._request.url.remove_query_params("start"))},
            "limit": self._limit,
        }
        for name, start in (("next", following), ("previous", previous)):
            if start is not None:
                found[name] = {"href": str(self._request.url.include_query_params(start=start)), "start": start}
        return found

    def _entry(self, application: Application) -> dict[str, Any]:
        address = self._request.url.replace(query="")
        return views.entry(
            application,
            href=f"{address}/{application.id}",
            spark_version=operations.spark_version(),
            spark_ui=operations.ui_address(self._request, application),
        )
