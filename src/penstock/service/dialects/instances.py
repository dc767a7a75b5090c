"""`/v3/analytics_engines/<instance>` and what it keeps: default settings and runtime, home, log forwarding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import Field

from penstock.engine.instances import Instance
from penstock.errors import Conflict, InvalidInput
from penstock.lake.base import Credentials, Lake
from penstock.lake.credentials import checked
from penstock.lake.registry import Lakes
from penstock.service.access import Administrator, Reader, Scope
from penstock.service.context import Service, ServiceOf
from penstock.service.dialects import bodies, instanceviews, kept, keys, lakechoice, operations
from penstock.service.dialects.bodies import Settings, Text
from penstock.service.dialects.kept import HomeStore, Kept, LogForwarding
from penstock.service.dialects.operations import instance_of
from penstock.service.dialects.route import DialectRoute
from penstock.service.dialects.stores import ANY, Store

Changes = Annotated[dict[Text, Text | None], Field(max_length=1000)]


class HomeRequest(bodies.Body):
    instance_id: Text | None = None
    provider: Text | None = None
    type: Text | None = None
    region: Text | None = None
    endpoint: Text | None = None
    hmac_access_key: Text | None = Field(None, repr=False)
    hmac_secret_key: Text | None = Field(None, repr=False)


class KeysRequest(bodies.Body):
    hmac_access_key: Text = Field(repr=False)
    hmac_secret_key: Text = Field(repr=False)


class LogForwardingRequest(bodies.Body):
    enabled: bool = False
    sources: Annotated[list[Text], Field(max_length=20)] | None = None
    tags: Annotated[list[Text], Field(max_length=100)] | None = None


class PlatformLoggingRequest(bodies.Body):
    enable: bool = False


def instances(prefix: str) -> APIRouter:
    router = APIRouter(prefix=prefix + "/{instance_id}", route_class=DialectRoute, tags=["IBM Analytics Engine"])

    @router.get("", summary="An instance")
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

    @router.get("/state", summary="The state of an instance")
    def state(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return instanceviews.state(instance_of(service, caller, instance_id))

    _home(router)
    _defaults(router)
    _consumption(router)
    _logging(router)
    return router


def _home(router: APIRouter) -> None:
    @router.put("/instance_home", summary="Make a store the instance's home")
    def set_home(request: HomeRequest, instance_id: str, service: ServiceOf, caller: Administrator) -> dict[str, Any]:
        instance = instance_of(service, caller, instance_id, Scope.ADMINISTER)
        has = kept.read(instance)
        lake = _store_of(service, request)
        if has.home and Lakes(service.home).get(has.home.lake).endpoints != lake.endpoints:
            raise Conflict(
                f"The instance “{instance_id}” has a home",
                why="what its applications keep is there, and would not follow",
                fix="PATCH …/instance_home changes its keys; a new instance can have another home",
            )
        lake = keys.lake_opened_by(service.home, lake, _keys(request.hmac_access_key, request.hmac_secret_key))
        home = HomeStore(
            lake.name,
            request.instance_id,
            request.provider or HomeStore.provider,
            request.type or HomeStore.type,
            request.region,
        )
        _keep(service, instance, replace(has, home=home))
        return instanceviews.home(home, lake)

    @router.patch("/instance_home", summary="Give the home's new keys")
    def set_keys(request: KeysRequest, instance_id: str, service: ServiceOf, caller: Administrator) -> dict[str, Any]:
        instance = instance_of(service, caller, instance_id, Scope.ADMINISTER)
        has = kept.read(instance)
        if has.home is None:
            raise Conflict(
                f"The instance “{instance_id}” has no home of its own", fix="PUT …/instance_home makes a store its home"
            )
        lake = keys.lake_opened_by(
            service.home,
            Lakes(service.home).get(has.home.lake),
            _keys(request.hmac_access_key, request.hmac_secret_key),
        )
        home = replace(has.home, lake=lake.name)
        _keep(service, instance, replace(has, home=home))
        return instanceviews.home(home, lake)


def _defaults(router: APIRouter) -> None:
    @router.get("/default_configs", summary="The settings every application of the instance begins with")
    def show(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        return dict(kept.read(instance_of(service, caller, instance_id)).default_configs)

    @router.put("/default_configs", summary="Replace them")
    def put(
        settings: Annotated[Settings, Body()], instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, str]:
        return _keep_configs(service, instance_of(service, caller, instance_id, Scope.ADMINISTER), settings)

    @router.patch("/default_configs", summary="Change some; null takes one away")
    def change(
        changes: Annotated[Changes, Body()], instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, str]:
        instance = instance_of(service, caller, instance_id, Scope.ADMINISTER)
        return _keep_configs(service, instance, kept.merged(kept.read(instance).default_configs, changes))

    @router.get("/default_runtime", summary="The runtime its applications have")
    def runtime(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        instance_of(service, caller, instance_id)
        return {"spark_version": operations.spark_version()}

    @router.put("/default_runtime", summary="Ask for a runtime; there is one, and the answer says which")
    def put_runtime(
        request: bodies.Runtime,  # noqa: ARG001  accepted, since unchanged clients ask for versions there are not
        instance_id: str,
        service: ServiceOf,
        caller: Administrator,
    ) -> dict[str, str]:
        instance_of(service, caller, instance_id, Scope.ADMINISTER)
        return {"spark_version": operations.spark_version()}


def _consumption(router: APIRouter) -> None:
    @router.get("/current_resource_consumption", summary="What its running applications are promised")
    def consumption(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        instance = instance_of(service, caller, instance_id)
        return instanceviews.consumption(service.engine.use(instance.name))

    @router.get("/resource_consumption_limits", summary="The most they can be promised at once")
    def limits(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        instance = instance_of(service, caller, instance_id)
        return instanceviews.limits(instance.quota, service.engine.capacity())


def _logging(router: APIRouter) -> None:
    @router.get("/log_forwarding_config", summary="Where logs go")
    def show(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return instanceviews.log_forwarding(kept.read(instance_of(service, caller, instance_id)).log_forwarding)

    @router.put("/log_forwarding_config", summary="Keep a configuration; logs are in the lake in any case")
    def put(
        request: LogForwardingRequest, instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, Any]:
        instance = instance_of(service, caller, instance_id, Scope.ADMINISTER)
        logs = LogForwarding(
            request.enabled,
            tuple(request.sources) if request.sources is not None else LogForwarding.sources,
            tuple(request.tags or ()),
        )
        _keep(service, instance, replace(kept.read(instance), log_forwarding=logs))
        return instanceviews.log_forwarding(logs)

    @router.get("/logging", summary="The same, out of use", deprecated=True)
    def show_platform(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return instanceviews.platform_logging(kept.read(instance_of(service, caller, instance_id)).log_forwarding)

    @router.put("/logging", status_code=201, summary="The same, out of use", deprecated=True)
    def put_platform(
        request: PlatformLoggingRequest, instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, Any]:
        instance = instance_of(service, caller, instance_id, Scope.ADMINISTER)
        has = kept.read(instance)
        logs = replace(has.log_forwarding, enabled=request.enable)
        _keep(service, instance, replace(has, log_forwarding=logs))
        return instanceviews.platform_logging(logs)


def _keep(service: Service, instance: Instance, has: Kept) -> None:
    service.engine.put_instance(kept.written(instance, has))


def _keep_configs(service: Service, instance: Instance, settings: Mapping[str, str]) -> dict[str, str]:
    configs = kept.default_configs(settings)
    _keep(service, instance, replace(kept.read(instance), default_configs=configs))
    return configs


def _store_of(service: Service, request: HomeRequest) -> Lake:
    """The lake at that endpoint, or the default one where none is named. Raises `InvalidInput` for an unknown store."""
    stores = {ANY: Store(request.endpoint)} if request.endpoint else {}
    return lakechoice.choose(stores, [], Lakes(service.home).all(), operations.lake_of(service, None)).lake


def _keys(access: str | None, secret: str | None) -> Credentials | None:
    if access is None and secret is None:
        return None
    if access is None or secret is None:
        raise InvalidInput("Half of the keys is missing", why="hmac_access_key and hmac_secret_key belong together")
    return checked(Credentials(access, secret))
