"""`…/spark_applications` of v3 and v4, the older jobs API (`…/v2/jobs`), and the router of all of them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

from fastapi import APIRouter, Query, Request

from penstock.engine.repository.listing import MOST_PER_PAGE
from penstock.engine.repository.listing import Query as PageQuery
from penstock.engine.tokens import Scope
from penstock.model import Application
from penstock.service.auth import Reader, Submitter
from penstock.service.context import CurrentService
from penstock.service.ibm import operations, responses, translation
from penstock.service.ibm.bodies import ApplicationRequest, JobRequest
from penstock.service.ibm.instances import history_server, instance_home, instances_router
from penstock.service.ibm.operations import DialectRoute, IdempotencyKey, visible_application, visible_instance

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

    @router.post("", status_code=202, summary="Submit an application")
    def create(
        request: ApplicationRequest,
        instance_id: str,
        service: CurrentService,
        caller: Submitter,
        key: IdempotencyKey = None,
    ) -> responses.SparkApplicationAccepted:
        return responses.accepted_application(
            operations.submit(service, caller, instance_id, request.submission(), key)
        )

    @router.get("", summary="List applications, newest first")
    def listed(
        request: Request,
        instance_id: str,
        service: CurrentService,
        caller: Reader,
        *,
        state: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006  FastAPI copies defaults
        start_time_interval: IntervalText = None,
        submission_time_interval: IntervalText = None,
        end_time_interval: IntervalText = None,
        limit: Annotated[int, Query(ge=1, le=MOST_PER_PAGE)] = _USUAL_LIMIT,
        start: Annotated[str | None, Query(description="`start` of a page's `next` or `previous`.")] = None,
    ) -> responses.SparkApplicationCollection:
        visible_instance(service, caller, instance_id)
        now = datetime.now(timezone.utc)
        states = translation.parse_states(state)
        link = _Links(request, limit)
        if state and not states:
            return link.collection([], None, None)
        page = service.engine.applications.page(
            PageQuery(
                states=tuple(states),
                instances=(instance_id,),
                submitted=translation.parse_interval("submission_time_interval", submission_time_interval, now),
                started=translation.parse_interval("start_time_interval", start_time_interval, now),
                ended=translation.parse_interval("end_time_interval", end_time_interval, now),
                limit=limit,
                page=start,
            )
        )
        return link.collection(page.items, page.next, page.previous)

    @router.get(
        "/{application_id}",
        summary="One application",
    )
    def show(
        request: Request, instance_id: str, application_id: str, service: CurrentService, caller: Reader
    ) -> responses.SparkApplication:
        application = visible_application(service, caller, instance_id, application_id)
        return responses.application_response(
            application,
            spark_version=operations.spark_version(),
            spark_ui=operations.ui_address(request, application),
        )

    @router.get("/{application_id}/state", summary="The state of an application")
    def state_of(
        instance_id: str, application_id: str, service: CurrentService, caller: Reader
    ) -> responses.SparkApplicationState:
        return responses.application_state(visible_application(service, caller, instance_id, application_id))

    @router.delete("/{application_id}", status_code=204, summary="Stop an application; ended ones do not change")
    def stop(instance_id: str, application_id: str, service: CurrentService, caller: Submitter) -> None:
        operations.stop_application(
            service, visible_application(service, caller, instance_id, application_id, Scope.SUBMIT)
        )

    return router


class _Links:
    """Builds a page with links to its neighbours, which repeat the filters."""

    def __init__(self, request: Request, limit: int) -> None:
        self._request = request
        self._limit = limit

    def collection(
        self, items: list[Application], following: str | None, previous: str | None
    ) -> responses.SparkApplicationCollection:
        neighbours = {
            name: responses.PageLink(href=str(self._request.url.include_query_params(start=start)), start=start)
            for name, start in (("next", following), ("previous", previous))
            if start is not None
        }
        return responses.SparkApplicationCollection(
            applications=[self._entry(application) for application in items],
            first=responses.PageLink(href=str(self._request.url.remove_query_params("start"))),
            limit=self._limit,
            **neighbours,
        )

    def _entry(self, application: Application) -> responses.SparkApplicationEntry:
        address = self._request.url.replace(query="")
        return responses.application_entry(
            application,
            href=f"{address}/{application.id}",
            spark_version=operations.spark_version(),
            spark_ui=operations.ui_address(self._request, application),
        )


def jobs(prefix: str) -> APIRouter:
    router = APIRouter(prefix=prefix, route_class=DialectRoute, tags=["IBM Analytics Engine, older jobs API"])

    @router.post("", status_code=201, summary="Submit a job")
    def create(
        request: JobRequest, instance_id: str, service: CurrentService, caller: Submitter, key: IdempotencyKey = None
    ) -> responses.SparkJob:
        return responses.job(operations.submit(service, caller, instance_id, request.submission(), key))

    @router.get("", summary="List the newest jobs")
    def listed(instance_id: str, service: CurrentService, caller: Reader) -> list[responses.SparkJob]:
        visible_instance(service, caller, instance_id)
        # This API has no pages.
        page = service.engine.applications.page(PageQuery(instances=(instance_id,), limit=MOST_PER_PAGE))
        return [responses.job(application) for application in page.items]

    @router.get("/{application_id}", summary="The state of a job")
    def show(instance_id: str, application_id: str, service: CurrentService, caller: Reader) -> responses.SparkJob:
        return responses.job(visible_application(service, caller, instance_id, application_id))

    @router.delete("/{application_id}", status_code=204, summary="Stop a job; ended ones do not change")
    def stop(instance_id: str, application_id: str, service: CurrentService, caller: Submitter) -> None:
        operations.stop_application(
            service, visible_application(service, caller, instance_id, application_id, Scope.SUBMIT)
        )

    return router


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
