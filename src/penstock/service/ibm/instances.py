"""`/v3/analytics_engines/<instance>`: its stored configuration, its home (a lake), and its Spark history server.

The keys of a home are never shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import Field

from penstock.engine.interactive.history import SIZE, HistoryServers, HistoryStatus
from penstock.engine.policy.fairness import Instance
from penstock.engine.tokens import Scope
from penstock.errors import Conflict, InvalidInput
from penstock.lake.credentials import checked
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.service.auth import Administrator, Reader, Submitter
from penstock.service.context import Service, ServiceOf
from penstock.service.ibm import bodies, configuration, operations, responses, stores, translation
from penstock.service.ibm.bodies import Settings, Text
from penstock.service.ibm.configuration import HomeStore, Kept, LogForwarding
from penstock.service.ibm.operations import DialectRoute, instance_of
from penstock.service.ibm.responses import known, moment
from penstock.service.ibm.stores import ANY, Store, choose

Changes = Annotated[dict[Text, Text | None], Field(max_length=1000)]


class LogForwardingRequest(bodies.Body):
    enabled: bool = False
    sources: Annotated[list[Text], Field(max_length=20)] | None = None
    tags: Annotated[list[Text], Field(max_length=100)] | None = None


class PlatformLoggingRequest(bodies.Body):
    enable: bool = False


def instances_router(prefix: str) -> APIRouter:
    router = APIRouter(prefix=prefix + "/{instance_id}", route_class=DialectRoute, tags=["IBM Analytics Engine"])

    @router.get("", summary="An instance", responses={200: {"model": responses.SparkInstance}})
    def show(request: Request, instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        instance = instance_of(service, caller, instance_id)
        has = configuration.read(instance)
        return responses.whole_instance(
            instance,
            has,
            Lakes(service.home).get(has.home.lake) if has.home else None,
            href=str(request.url.replace(query="")),
            spark_version=operations.spark_version(),
        )

    @router.get("/state", summary="The state of an instance", responses={200: {"model": responses.SparkInstanceState}})
    def state(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return responses.instance_state(instance_of(service, caller, instance_id))

    _defaults(router)
    _consumption(router)
    _logging(router)
    return router


def _defaults(router: APIRouter) -> None:
    @router.get("/default_configs", summary="The settings every application of the instance begins with")
    def show(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        return dict(configuration.read(instance_of(service, caller, instance_id)).default_configs)

    @router.put("/default_configs", summary="Replace them")
    def put(
        settings: Annotated[Settings, Body()], instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, str]:
        instance_of(service, caller, instance_id, Scope.ADMINISTER)
        configs = configuration.default_configs(settings)
        return dict(_change(service, instance_id, lambda has: replace(has, default_configs=configs)).default_configs)

    @router.patch("/default_configs", summary="Change some; null takes one away")
    def change(
        changes: Annotated[Changes, Body()], instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, str]:
        instance_of(service, caller, instance_id, Scope.ADMINISTER)

        def merged(has: Kept) -> Kept:
            return replace(
                has,
                default_configs=configuration.default_configs(
                    configuration.merged_configuration(has.default_configs, changes)
                ),
            )

        return dict(_change(service, instance_id, merged).default_configs)

    @router.get(
        "/default_runtime",
        summary="The runtime its applications have",
        responses={200: {"model": responses.SparkRuntime}},
    )
    def runtime(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        instance_of(service, caller, instance_id)
        return {"spark_version": operations.spark_version()}

    @router.put(
        "/default_runtime",
        summary="Ask for a runtime; there is one, and the answer says which",
        responses={200: {"model": responses.SparkRuntime}},
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
        responses={200: {"model": responses.SparkConsumption}},
    )
    def consumption(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        instance = instance_of(service, caller, instance_id)
        return responses.consumption(service.engine.queues.usage_of(instance.name))

    @router.get(
        "/resource_consumption_limits",
        summary="The most they can be promised at once",
        responses={200: {"model": responses.SparkLimits}},
    )
    def limits(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        instance = instance_of(service, caller, instance_id)
        return responses.limits(instance.quota, service.engine.backend.capacity())


def _logging(router: APIRouter) -> None:
    @router.get(
        "/log_forwarding_config", summary="Where logs go", responses={200: {"model": responses.LogForwardingResponse}}
    )
    def show(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return responses.log_forwarding(configuration.read(instance_of(service, caller, instance_id)).log_forwarding)

    @router.put(
        "/log_forwarding_config",
        summary="Keep a configuration; logs are in the lake in any case",
        responses={200: {"model": responses.LogForwardingResponse}},
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
        return responses.log_forwarding(has.log_forwarding)

    @router.get(
        "/logging",
        summary="The same, out of use",
        deprecated=True,
        responses={200: {"model": responses.PlatformLogging}},
    )
    def show_platform(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, Any]:
        return responses.platform_logging(configuration.read(instance_of(service, caller, instance_id)).log_forwarding)

    @router.put(
        "/logging",
        status_code=201,
        summary="The same, out of use",
        deprecated=True,
        responses={201: {"model": responses.PlatformLogging}},
    )
    def put_platform(
        request: PlatformLoggingRequest, instance_id: str, service: ServiceOf, caller: Administrator
    ) -> dict[str, Any]:
        instance_of(service, caller, instance_id, Scope.ADMINISTER)

        def switched(has: Kept) -> Kept:
            return replace(has, log_forwarding=replace(has.log_forwarding, enabled=request.enable))

        return responses.platform_logging(_change(service, instance_id, switched).log_forwarding)


def _change(service: Service, instance_id: str, change: Callable[[Kept], Kept]) -> Kept:
    return configuration.read(
        service.engine.queues.change(instance_id, lambda found: configuration.changed(found, change))
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

    @router.put("", summary="Make a store the instance's home", responses={200: {"model": responses.SparkInstanceHome}})
    def set_home(request: HomeRequest, instance_id: str, service: ServiceOf, caller: Administrator) -> dict[str, Any]:
        has = configuration.read(instance_of(service, caller, instance_id, Scope.ADMINISTER))
        lake = _store_of(service, request)
        if has.home and Lakes(service.home).get(has.home.lake).endpoints != lake.endpoints:
            raise Conflict(
                f"The instance “{instance_id}” has a home",
                why="what its applications keep is there, and would not follow",
                fix="PATCH …/instance_home changes its keys; a new instance can have another home",
            )
        given = _keys(request.hmac_access_key, request.hmac_secret_key)
        lake = stores.lake_opened_by(service.home, lake, given, queue=instance_id)
        home = HomeStore(
            lake.name,
            request.instance_id,
            request.provider or HomeStore.provider,
            request.type or HomeStore.type,
            request.region,
        )
        _settle(service, instance_id, home)
        return responses.home(home, lake)

    @router.patch("", summary="Give the home's new keys", responses={200: {"model": responses.SparkInstanceHome}})
    def set_keys(request: KeysRequest, instance_id: str, service: ServiceOf, caller: Administrator) -> dict[str, Any]:
        has = configuration.read(instance_of(service, caller, instance_id, Scope.ADMINISTER))
        if has.home is None:
            raise Conflict(
                f"The instance “{instance_id}” has no home of its own", fix="PUT …/instance_home makes a store its home"
            )
        lake = stores.lake_opened_by(
            service.home,
            Lakes(service.home).get(has.home.lake),
            _keys(request.hmac_access_key, request.hmac_secret_key),
            queue=instance_id,
        )
        home = replace(has.home, lake=lake.name)
        _settle(service, instance_id, home)
        return responses.home(home, lake)

    return router


def _settle(service: Service, instance_id: str, home: HomeStore) -> None:
    def settled(has: Kept) -> Kept:
        return replace(has, home=home)

    service.engine.queues.change(instance_id, lambda found: configuration.changed(found, settled))


def _store_of(service: Service, request: HomeRequest) -> Lake:
    """The lake at that endpoint, or the default one where none is named. Raises `InvalidInput` for an unknown store."""
    stores = {ANY: Store(request.endpoint)} if request.endpoint else {}
    return choose(stores, [], Lakes(service.home).shared(), operations.lake_of(service, None)).lake


def _keys(access: str | None, secret: str | None) -> Credentials | None:
    if access is None and secret is None:
        return None
    if access is None or secret is None:
        raise InvalidInput("Half of the keys is missing", why="hmac_access_key and hmac_secret_key belong together")
    return checked(Credentials(access, secret))


def history_server(prefix: str) -> APIRouter:
    router = APIRouter(
        prefix=prefix + "/{instance_id}/spark_history_server", route_class=DialectRoute, tags=["IBM Analytics Engine"]
    )

    @router.post(
        "",
        status_code=202,
        summary="Start the history server; one that runs goes on",
        responses={202: {"model": responses.SparkHistoryServer}},
    )
    def start(instance_id: str, service: ServiceOf, caller: Submitter) -> dict[str, str]:
        lake = _lake(instance_of(service, caller, instance_id, Scope.SUBMIT))
        return view(HistoryServers(service.engine).start(lake))

    @router.get("", summary="Whether the history server runs", responses={200: {"model": responses.SparkHistoryServer}})
    def show(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        return view(HistoryServers(service.engine).status(_lake(instance_of(service, caller, instance_id))))

    @router.delete("", status_code=204, summary="Stop the history server; its pages start it again")
    def stop(instance_id: str, service: ServiceOf, caller: Submitter) -> None:
        HistoryServers(service.engine).stop(_lake(instance_of(service, caller, instance_id, Scope.SUBMIT)))

    return router


def _lake(instance: Instance) -> str | None:
    """Its home's; None is the default lake."""
    home = configuration.read(instance).home
    return home.lake if home else None


def view(status: HistoryStatus) -> dict[str, str]:
    return {
        "state": "started" if status.running else "stopped",
        "cores": str(SIZE.cores),
        "memory": translation.shown(SIZE.memory_bytes),
        **known(
            {
                "start_time": moment(status.started_at),
                "stop_time": moment(status.ended_at),
                "auto_termination_time": moment(status.idle_ends_at),
            }
        ),
    }
