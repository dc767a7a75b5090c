"""`/v3/analytics_engines/<instance>` and what it keeps: default settings and runtime, log forwarding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import Field

from penstock.engine.tokens import Scope
from penstock.lake.registry import Lakes
from penstock.service.access import Administrator, Reader
from penstock.service.context import Service, ServiceOf
from penstock.service.dialects import bodies, instanceviews, kept, operations, shown
from penstock.service.dialects.bodies import Settings, Text
from penstock.service.dialects.kept import Kept, LogForwarding
from penstock.service.dialects.operations import instance_of
from penstock.service.dialects.route import DialectRoute

Changes = Annotated[dict[Text, Text | None], Field(max_length=1000)]


class LogForwardingRequest(bodies.Body):
    enabled: bool = False
    sources: Annotated[list[Text], Field(max_length=20)] | None = None
    tags: Annotated[list[Text], Field(max_length=100)] | None = None


class PlatformLoggingRequest(bodies.Body):
    enable: bool = False


def instances(prefix: str) -> APIRouter:
    router = APIRouter(prefix=prefix + "/{instance_id}", route_class=DialectRoute, tags=["IBM Analytics Engine"])

    @router.get("", summary="An instance", responses={200: {"model": shown.SparkInstance}})
    def show(request: Request, instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        instance = instance_of(service, caller, instance_id)
        has = kept.read(instance)
        return instanceviews.whole(
            instance,
            has,
            Lakes(service.home).get(has.home.lake) if has.home else None,
            href=str(request.url.replace(query="")),
            spark_version=operations.spark_version(),
        )

    @router.get("/state", summary="The state of an instance", responses={200: {"model": shown.SparkInstanceState}})
    def state(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return instanceviews.state(instance_of(service, caller, instance_id))

    _defaults(router)
    _consumption(router)
    _logging(router)
    return router


def _defaults(router: APIRouter) -> None:
    @router.get("/default_configs", summary="The settings every application of the instance begins with")
    def show(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        return dict(kept.read(instance_of(service, caller, instance_id)).default_configs)

    @router.put("/default_configs", summary="Replace them")
    def put(
        settings: Annotated[Settings, Body()], instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, str]:
        instance_of(service, caller, instance_id, Scope.ADMINISTER)
        configs = kept.default_configs(settings)
        return dict(_change(service, instance_id, lambda has: replace(has, default_configs=configs)).default_configs)

    @router.patch("/default_configs", summary="Change some; null takes one away")
    def change(
        changes: Annotated[Changes, Body()], instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, str]:
        instance_of(service, caller, instance_id, Scope.ADMINISTER)

        def merged(has: Kept) -> Kept:
            return replace(has, default_configs=kept.default_configs(kept.merged(has.default_configs, changes)))

        return dict(_change(service, instance_id, merged).default_configs)

    @router.get(
        "/default_runtime", summary="The runtime its applications have", responses={200: {"model": shown.SparkRuntime}}
    )
    def runtime(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        instance_of(service, caller, instance_id)
        return {"spark_version": operations.spark_version()}

    @router.put(
        "/default_runtime",
        summary="Ask for a runtime; there is one, and the answer says which",
        responses={200: {"model": shown.SparkRuntime}},
    )
    def put_runtime(
        request: bodies.Runtime,  # noqa: ARG001  accepted, since unchanged clients ask for versions there are not
        instance_id: str,
        service: ServiceOf,
        caller: Administrator,
    ) -> dict[str, str]:
        instance_of(service, caller, instance_id, Scope.ADMINISTER)
        return {"spark_version": operations.spark_version()}


def _consumption(router: APIRouter) -> None:
    @router.get(
        "/current_resource_consumption",
        summary="What its running applications are promised",
        responses={200: {"model": shown.SparkConsumption}},
    )
    def consumption(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        instance = instance_of(service, caller, instance_id)
        return instanceviews.consumption(service.engine.use(instance.name))

    @router.get(
        "/resource_consumption_limits",
        summary="The most they can be promised at once",
        responses={200: {"model": shown.SparkLimits}},
    )
    def limits(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        instance = instance_of(service, caller, instance_id)
        return instanceviews.limits(instance.quota, service.engine.capacity())


def _logging(router: APIRouter) -> None:
    @router.get("/log_forwarding_config", summary="Where logs go", responses={200: {"model": shown.LogForwarding}})
    def show(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return instanceviews.log_forwarding(kept.read(instance_of(service, caller, instance_id)).log_forwarding)

    @router.put(
        "/log_forwarding_config",
        summary="Keep a configuration; logs are in the lake in any case",
        responses={200: {"model": shown.LogForwarding}},
    )
    def put(
        request: LogForwardingRequest, instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, Any]:
        instance_of(service, caller, instance_id, Scope.ADMINISTER)
        logs = LogForwarding(
            request.enabled,
            tuple(request.sources) if request.sources is not None else LogForwarding.sources,
            tuple(request.tags or ()),
        )
        has = _change(service, instance_id, lambda has: replace(has, log_forwarding=logs))
        return instanceviews.log_forwarding(has.log_forwarding)

    @router.get(
        "/logging", summary="The same, out of use", deprecated=True, responses={200: {"model": shown.PlatformLogging}}
    )
    def show_platform(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return instanceviews.platform_logging(kept.read(instance_of(service, caller, instance_id)).log_forwarding)

    @router.put(
        "/logging",
        status_code=201,
        summary="The same, out of use",
        deprecated=True,
        responses={201: {"model": shown.PlatformLogging}},
    )
    def put_platform(
        request: PlatformLoggingRequest, instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, Any]:
        instance_of(service, caller, instance_id, Scope.ADMINISTER)

        def switched(has: Kept) -> Kept:
            return replace(has, log_forwarding=replace(has.log_forwarding, enabled=request.enable))

        return instanceviews.platform_logging(_change(service, instance_id, switched).log_forwarding)


def _change(service: Service, instance_id: str, change: Callable[[Kept], Kept]) -> Kept:
    return kept.read(service.engine.change_instance(instance_id, lambda found: kept.changed(found, change)))
