"""`…/spark_applications` of v3 and v4, the older jobs API (`…/v2/jobs`), and the router of all of them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from penstock.engine.repository.listing import MOST_PER_PAGE
from penstock.engine.repository.listing import Query as Wanted
from penstock.engine.tokens import Scope
from penstock.model import Application
from penstock.service.auth import Reader, Submitter
from penstock.service.context import ServiceOf
from penstock.service.ibm import operations, responses, translation
from penstock.service.ibm.bodies import ApplicationRequest, JobRequest
from penstock.service.ibm.instances import history_server, instance_home, instances_router
from penstock.service.ibm.operations import DialectRoute, IdempotencyKey, application_of, instance_of

_USUAL_LIMIT = 100

IntervalText = Annotated[
    str | None,
    Query(
        max_length=100,
        description="`<lower>,<upper>`, the upper end exclusive; ISO 8601, or `BEGINNING` and `CURRENT`.",
        examples=["BEGINNING,CURRENT"],
    ),
]


def applications_router(prefix: str) -> APIRouter:
    router = APIRouter(
        prefix=prefix + "/{instance_id}/spark_applications", route_class=DialectRoute, tags=["IBM Analytics Engine"]
    )

    @router.post(
        "",
        status_code=202,
        summary="Submit an application",
        responses={202: {"model": responses.SparkApplicationAccepted}},
    )
    def create(
        request: ApplicationRequest, instance_id: str, service: ServiceOf, caller: Submitter, key: IdempotencyKey = None
    ) -> dict[str, Any]:
        return responses.accepted(operations.submit(service, caller, instance_id, request.asked(), key))

    @router.get(
        "",
        summary="List applications, the newest first",
        responses={200: {"model": responses.SparkApplicationCollection}},
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
        wanted = translation.asked(state)
        link = _Links(request, limit)
        if state and not wanted:
            return link.collection([], None, None)
        page = service.engine.applications.page(
            Wanted(
                states=tuple(wanted),
                instances=(instance_id,),
                submitted=translation.parse("submission_time_interval", submission_time_interval, now),
                started=translation.parse("start_time_interval", start_time_interval, now),
                ended=translation.parse("end_time_interval", end_time_interval, now),
                limit=limit,
                page=start,
            )
        )
        return link.collection(page.items, page.next, page.previous)

    @router.get(
        "/{application_id}",
        summary="All that is known of an application",
        responses={200: {"model": responses.SparkApplication}},
    )
    def show(
        request: Request, instance_id: str, application_id: str, service: ServiceOf, caller: Reader
    ) -> dict[str, Any]:
        application = application_of(service, caller, instance_id, application_id)
        return responses.whole(
            application,
            spark_version=operations.spark_version(),
            spark_ui=operations.ui_address(request, application),
        )

    @router.get(
        "/{application_id}/state",
        summary="The state of an application",
        responses={200: {"model": responses.SparkApplicationState}},
    )
    def state_of(instance_id: str, application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return responses.state(application_of(service, caller, instance_id, application_id))

    @router.delete(
        "/{application_id}", status_code=204, summary="Stop an application; one that has ended stays as it is"
    )
    def stop(instance_id: str, application_id: str, service: ServiceOf, caller: Submitter) -> None:
        operations.stop_application(service, application_of(service, caller, instance_id, application_id, Scope.SUBMIT))

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
        return responses.entry(
            application,
            href=f"{address}/{application.id}",
            spark_version=operations.spark_version(),
            spark_ui=operations.ui_address(self._request, application),
        )


def jobs(prefix: str) -> APIRouter:
    router = APIRouter(prefix=prefix, route_class=DialectRoute, tags=["IBM Analytics Engine, older jobs API"])

    @router.post("", status_code=201, summary="Submit a job", responses={201: {"model": responses.SparkJob}})
    def create(
        request: JobRequest, instance_id: str, service: ServiceOf, caller: Submitter, key: IdempotencyKey = None
    ) -> dict[str, Any]:
        return job(operations.submit(service, caller, instance_id, request.asked(), key))

    @router.get("", summary="List the newest jobs", responses={200: {"model": list[responses.SparkJob]}})
    def listed(instance_id: str, service: ServiceOf, caller: Reader) -> list[dict[str, Any]]:
        instance_of(service, caller, instance_id)
        # This API has no pages.
        page = service.engine.applications.page(Wanted(instances=(instance_id,), limit=MOST_PER_PAGE))
        return [job(application) for application in page.items]

    @router.get("/{application_id}", summary="The state of a job", responses={200: {"model": responses.SparkJob}})
    def show(instance_id: str, application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return job(application_of(service, caller, instance_id, application_id))

    @router.delete("/{application_id}", status_code=204, summary="Stop a job; one that has ended stays as it is")
    def stop(instance_id: str, application_id: str, service: ServiceOf, caller: Submitter) -> None:
        operations.stop_application(service, application_of(service, caller, instance_id, application_id, Scope.SUBMIT))

    return router


def job(application: Application) -> dict[str, Any]:
    shown = responses.state(application)
    word = str(shown.pop("state")).upper()
    return {**shown, "job_state": word, "state": word}


_V3, _V4 = "/v3/analytics_engines", "/v4/analytics_engines"
_OLDER = ("/ae/spark/v2/{instance_id}/v2/jobs", "/ae/spark/v2/{instance_id}/jobs")


def _all() -> APIRouter:
    found = APIRouter()
    for prefix in (_V3, _V4):
        found.include_router(applications_router(prefix))
        found.include_router(instances_router(prefix))
        found.include_router(instance_home(prefix))
        found.include_router(history_server(prefix))
    for prefix in _OLDER:
        found.include_router(jobs(prefix))
    return found


router = _all()
