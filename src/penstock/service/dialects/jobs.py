"""The older jobs API: `/ae/spark/v2/<instance>/v2/jobs`, with the size in the body and the state in capitals."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from penstock.engine.repository.listing import MOST_PER_PAGE, Query
from penstock.engine.tokens import Scope
from penstock.model import Application
from penstock.service.access import Reader, Submitter
from penstock.service.context import ServiceOf
from penstock.service.dialects import operations, shown, views
from penstock.service.dialects.bodies import JobRequest
from penstock.service.dialects.operations import IdempotencyKey, application_of, instance_of
from penstock.service.dialects.route import DialectRoute


def jobs(prefix: str) -> APIRouter:
    router = APIRouter(prefix=prefix, route_class=DialectRoute, tags=["IBM Analytics Engine, older jobs API"])

    @router.post("", status_code=201, summary="Submit a job", responses={201: {"model": shown.SparkJob}})
    def create(
        request: JobRequest, instance_id: str, service: ServiceOf, caller: Submitter, key: IdempotencyKey = None
    ) -> dict[str, Any]:
        return job(operations.submit(service, caller, instance_id, request.asked(), key))

    @router.get("", summary="List the newest jobs", responses={200: {"model": list[shown.SparkJob]}})
    def listed(instance_id: str, service: ServiceOf, caller: Reader) -> list[dict[str, Any]]:
        instance_of(service, caller, instance_id)
        # This API has no pages.
        page = service.engine.page(Query(instances=(instance_id,), limit=MOST_PER_PAGE))
        return [job(application) for application in page.items]

    @router.get("/{application_id}", summary="The state of a job", responses={200: {"model": shown.SparkJob}})
    def show(instance_id: str, application_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return job(application_of(service, caller, instance_id, application_id))

    @router.delete("/{application_id}", status_code=204, summary="Stop a job; one that has ended stays as it is")
    def stop(instance_id: str, application_id: str, service: ServiceOf, caller: Submitter) -> None:
        operations.stop(service, application_of(service, caller, instance_id, application_id, Scope.SUBMIT))

    return router


def job(application: Application) -> dict[str, Any]:
    shown = views.state(application)
    word = str(shown.pop("state")).upper()
    return {**shown, "job_state": word, "state": word}
