"""`/v3/analytics_engines/<instance>`: its stored configuration, its home (a lake), and its Spark history server.

Responses never contain the keys of a home.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Body, Request
from pydantic import Field

from penstock.engine.interactive.history import HistoryServers
from penstock.engine.policy.scheduling import Instance
from penstock.engine.tokens import Scope
from penstock.errors import Conflict, InvalidInput
from penstock.lake.credentials import validate_credentials
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.service.auth import Administrator, Reader, Submitter
from penstock.service.context import CurrentService, Service
from penstock.service.ibm import bodies, configuration, operations, responses, stores
from penstock.service.ibm.bodies import Settings, Text
from penstock.service.ibm.configuration import HomeStore, InstanceConfiguration, LogForwarding
from penstock.service.ibm.operations import DialectRoute, visible_instance
from penstock.service.ibm.stores import ANY, Store, choose_lake

Changes = Annotated[dict[Text, Text | None], Field(max_length=1000)]


class LogForwardingRequest(bodies.Body):
    enabled: bool = False
    sources: Annotated[list[Text], Field(max_length=20)] | None = None
    tags: Annotated[list[Text], Field(max_length=100)] | None = None


class PlatformLoggingRequest(bodies.Body):
    enable: bool = False


def instances_router(prefix: str) -> APIRouter:
    router = APIRouter(prefix=prefix + "/{instance_id}", route_class=DialectRoute, tags=["IBM Analytics Engine"])

    @router.get("", summary="An instance")
    def show(request: Request, instance_id: str, service: CurrentService, caller: Reader) -> responses.SparkInstance:
        instance = visible_instance(service, caller, instance_id)
        stored = configuration.read(instance)
        return responses.instance_response(
            instance,
            stored,
            Lakes(service.home).get(stored.home.lake) if stored.home else None,
            href=str(request.url.replace(query="")),
            spark_version=operations.spark_version(),
        )

    @router.get("/state", summary="The state of an instance")
    def state(instance_id: str, service: CurrentService, caller: Reader) -> responses.SparkInstanceState:
        return responses.instance_state(visible_instance(service, caller, instance_id))

    _defaults(router)
    _consumption(router)
    _logging(router)
    return router


def _defaults(router: APIRouter) -> None:
    @router.get("/default_configs", summary="The default settings of the instance's applications")
    def show(instance_id: str, service: CurrentService, caller: Reader) -> dict[str, str]:
        return dict(configuration.read(visible_instance(service, caller, instance_id)).default_configs)

    @router.put("/default_configs", summary="Replace the default settings")
    def put(
        settings: Annotated[Settings, Body()], instance_id: str, service: CurrentService, caller: Administrator
    ) -> dict[str, str]:
        visible_instance(service, caller, instance_id, Scope.ADMINISTER)
        configs = configuration.checked_settings(settings)
        changed = _change(service, instance_id, lambda stored: replace(stored, default_configs=configs))
        return dict(changed.default_configs)

    @router.patch("/default_configs", summary="Change some default settings; null removes one")
    def change(
        changes: Annotated[Changes, Body()], instance_id: str, service: CurrentService, caller: Administrator
    ) -> dict[str, str]:
        visible_instance(service, caller, instance_id, Scope.ADMINISTER)

        def merged(stored: InstanceConfiguration) -> InstanceConfiguration:
            configs = configuration.merged_configuration(stored.default_configs, changes)
            return replace(stored, default_configs=configuration.checked_settings(configs))

        return dict(_change(service, instance_id, merged).default_configs)

    @router.get("/default_runtime", summary="The runtime of the instance's applications")
    def runtime(instance_id: str, service: CurrentService, caller: Reader) -> responses.SparkRuntime:
        visible_instance(service, caller, instance_id)
        return responses.SparkRuntime(spark_version=operations.spark_version())

    @router.put("/default_runtime", summary="Accept any runtime, and return the only one")
    def put_runtime(
        request: bodies.Runtime,  # noqa: ARG001  accepted, since unchanged clients request versions not available here
        instance_id: str,
        service: CurrentService,
        caller: Administrator,
    ) -> responses.SparkRuntime:
        visible_instance(service, caller, instance_id, Scope.ADMINISTER)
        return responses.SparkRuntime(spark_version=operations.spark_version())


def _consumption(router: APIRouter) -> None:
    @router.get("/current_resource_consumption", summary="The resources promised to its running applications")
    def consumption(instance_id: str, service: CurrentService, caller: Reader) -> responses.SparkConsumption:
        instance = visible_instance(service, caller, instance_id)
        return responses.consumption(service.engine.queues.usage_of(instance.name))

    @router.get("/resource_consumption_limits", summary="The most resources its applications can have at one time")
    def limits(instance_id: str, service: CurrentService, caller: Reader) -> responses.SparkLimits:
        instance = visible_instance(service, caller, instance_id)
        return responses.limits(instance.quota, service.engine.backend.capacity())


def _logging(router: APIRouter) -> None:
    @router.get("/log_forwarding_config", summary="The log forwarding")
    def show(instance_id: str, service: CurrentService, caller: Reader) -> responses.LogForwardingResponse:
        return responses.log_forwarding(
            configuration.read(visible_instance(service, caller, instance_id)).log_forwarding
        )

    @router.put("/log_forwarding_config", summary="Store a configuration; logs are in the lake in any case")
    def put(
        request: LogForwardingRequest, instance_id: str, service: CurrentService, caller: Administrator
    ) -> responses.LogForwardingResponse:
        visible_instance(service, caller, instance_id, Scope.ADMINISTER)
        logs = LogForwarding(
            request.enabled,
            tuple(request.sources) if request.sources is not None else LogForwarding.sources,
            tuple(request.tags or ()),
        )
        stored = _change(service, instance_id, lambda stored: replace(stored, log_forwarding=logs))
        return responses.log_forwarding(stored.log_forwarding)

    @router.get("/logging", summary="As log_forwarding_config", deprecated=True)
    def show_platform(instance_id: str, service: CurrentService, caller: Reader) -> responses.PlatformLogging:
        return responses.platform_logging(
            configuration.read(visible_instance(service, caller, instance_id)).log_forwarding
        )

    @router.put("/logging", status_code=201, summary="As log_forwarding_config", deprecated=True)
    def put_platform(
        request: PlatformLoggingRequest, instance_id: str, service: CurrentService, caller: Administrator
    ) -> responses.PlatformLogging:
        visible_instance(service, caller, instance_id, Scope.ADMINISTER)

        def switched(stored: InstanceConfiguration) -> InstanceConfiguration:
            return replace(stored, log_forwarding=replace(stored.log_forwarding, enabled=request.enable))

        return responses.platform_logging(_change(service, instance_id, switched).log_forwarding)


def _change(
    service: Service, instance_id: str, change: Callable[[InstanceConfiguration], InstanceConfiguration]
) -> InstanceConfiguration:
    return configuration.read(
        service.engine.queues.change(instance_id, lambda found: configuration.change_configuration(found, change))
    )


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


def instance_home(prefix: str) -> APIRouter:
    router = APIRouter(
        prefix=prefix + "/{instance_id}/instance_home", route_class=DialectRoute, tags=["IBM Analytics Engine"]
    )

    @router.put("", summary="Make a store the instance's home")
    def set_home(
        request: HomeRequest, instance_id: str, service: CurrentService, caller: Administrator
    ) -> responses.SparkInstanceHome:
        stored = configuration.read(visible_instance(service, caller, instance_id, Scope.ADMINISTER))
        lake = _store_of(service, request)
        if stored.home and Lakes(service.home).get(stored.home.lake).endpoints != lake.endpoints:
            raise Conflict(
                f"The instance “{instance_id}” already has a home",
                why="its applications' data is there, and would not move",
                fix="PATCH …/instance_home changes its keys; a new instance can have another home",
            )
        keys = _keys(request.hmac_access_key, request.hmac_secret_key)
        lake = stores.resolve_credentials(service.home, lake, keys, queue=instance_id)
        home = HomeStore(
            lake.name,
            request.instance_id,
            request.provider or HomeStore.provider,
            request.type or HomeStore.type,
            request.region,
        )
        _change(service, instance_id, lambda stored: replace(stored, home=home))
        return responses.home_response(home, lake)

    @router.patch("", summary="Replace the home's keys")
    def set_keys(
        request: KeysRequest, instance_id: str, service: CurrentService, caller: Administrator
    ) -> responses.SparkInstanceHome:
        stored = configuration.read(visible_instance(service, caller, instance_id, Scope.ADMINISTER))
        if stored.home is None:
            raise Conflict(
                f"The instance “{instance_id}” has no home of its own", fix="PUT …/instance_home makes a store its home"
            )
        lake = stores.resolve_credentials(
            service.home,
            Lakes(service.home).get(stored.home.lake),
            _keys(request.hmac_access_key, request.hmac_secret_key),
            queue=instance_id,
        )
        home = replace(stored.home, lake=lake.name)
        _change(service, instance_id, lambda stored: replace(stored, home=home))
        return responses.home_response(home, lake)

    return router


def _store_of(service: Service, request: HomeRequest) -> Lake:
    """Return the lake at the request's endpoint, or the default lake. Raises `InvalidInput` for an unknown store."""
    stores = {ANY: Store(request.endpoint)} if request.endpoint else {}
    return choose_lake(stores, [], Lakes(service.home).shared(), operations.registered_lake(service, None)).lake


def _keys(access: str | None, secret: str | None) -> Credentials | None:
    if access is None and secret is None:
        return None
    if access is None or secret is None:
        raise InvalidInput("Half of the keys is missing", why="hmac_access_key and hmac_secret_key belong together")
    return validate_credentials(Credentials(access, secret))


def history_server(prefix: str) -> APIRouter:
    router = APIRouter(
        prefix=prefix + "/{instance_id}/spark_history_server", route_class=DialectRoute, tags=["IBM Analytics Engine"]
    )

    @router.post("", status_code=202, summary="Start the history server if it is not running")
    def start(instance_id: str, service: CurrentService, caller: Submitter) -> responses.SparkHistoryServer:
        lake = _lake(visible_instance(service, caller, instance_id, Scope.SUBMIT))
        return responses.history_server(HistoryServers(service.engine).start(lake))

    @router.get("", summary="The status of the history server")
    def show(instance_id: str, service: CurrentService, caller: Reader) -> responses.SparkHistoryServer:
        lake = _lake(visible_instance(service, caller, instance_id))
        return responses.history_server(HistoryServers(service.engine).status(lake))

    @router.delete("", status_code=204, summary="Stop the history server; opening its pages starts it again")
    def stop(instance_id: str, service: CurrentService, caller: Submitter) -> None:
        name = _lake(visible_instance(service, caller, instance_id, Scope.SUBMIT))
        scope = Lakes(service.home).get(name).scope
        # Other instances use a shared lake's server, so that stopping it requires rights on all, as DELETE /v1/history
        # does. IBM's clients expect a server of their own, and get no error.
        if caller.may(Scope.SUBMIT) or (scope is not None and scope.queue == instance_id):
            HistoryServers(service.engine).stop(name)

    return router


def _lake(instance: Instance) -> str | None:
    """Return the name of the lake of its home; None for the default lake."""
    home = configuration.read(instance).home
    return home.lake if home else None
