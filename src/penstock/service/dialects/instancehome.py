"""`…/instance_home`: the lake of an instance's applications, by the store a client names. Its keys are never shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from penstock.engine.tokens import Scope
from penstock.errors import Conflict, InvalidInput
from penstock.lake.credentials import checked
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.service.access import Administrator
from penstock.service.context import Service, ServiceOf
from penstock.service.dialects import bodies, instanceviews, kept, keys, lakechoice, operations, shown
from penstock.service.dialects.bodies import Text
from penstock.service.dialects.kept import HomeStore, Kept
from penstock.service.dialects.operations import instance_of
from penstock.service.dialects.route import DialectRoute
from penstock.service.dialects.stores import ANY, Store


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

    @router.put("", summary="Make a store the instance's home", responses={200: {"model": shown.SparkInstanceHome}})
    def set_home(request: HomeRequest, instance_id: str, service: ServiceOf, caller: Administrator) -> dict[str, Any]:
        has = kept.read(instance_of(service, caller, instance_id, Scope.ADMINISTER))
        lake = _store_of(service, request)
        if has.home and Lakes(service.home).get(has.home.lake).endpoints != lake.endpoints:
            raise Conflict(
                f"The instance “{instance_id}” has a home",
                why="what its applications keep is there, and would not follow",
                fix="PATCH …/instance_home changes its keys; a new instance can have another home",
            )
        given = _keys(request.hmac_access_key, request.hmac_secret_key)
        lake = keys.lake_opened_by(service.home, lake, given, queue=instance_id)
        home = HomeStore(
            lake.name,
            request.instance_id,
            request.provider or HomeStore.provider,
            request.type or HomeStore.type,
            request.region,
        )
        _settle(service, instance_id, home)
        return instanceviews.home(home, lake)

    @router.patch("", summary="Give the home's new keys", responses={200: {"model": shown.SparkInstanceHome}})
    def set_keys(request: KeysRequest, instance_id: str, service: ServiceOf, caller: Administrator) -> dict[str, Any]:
        has = kept.read(instance_of(service, caller, instance_id, Scope.ADMINISTER))
        if has.home is None:
            raise Conflict(
                f"The instance “{instance_id}” has no home of its own", fix="PUT …/instance_home makes a store its home"
            )
        lake = keys.lake_opened_by(
            service.home,
            Lakes(service.home).get(has.home.lake),
            _keys(request.hmac_access_key, request.hmac_secret_key),
            queue=instance_id,
        )
        home = replace(has.home, lake=lake.name)
        _settle(service, instance_id, home)
        return instanceviews.home(home, lake)

    return router


def _settle(service: Service, instance_id: str, home: HomeStore) -> None:
    def settled(has: Kept) -> Kept:
        return replace(has, home=home)

    service.engine.change_instance(instance_id, lambda found: kept.changed(found, settled))


def _store_of(service: Service, request: HomeRequest) -> Lake:
    """The lake at that endpoint, or the default one where none is named. Raises `InvalidInput` for an unknown store."""
    stores = {ANY: Store(request.endpoint)} if request.endpoint else {}
    return lakechoice.choose(stores, [], Lakes(service.home).shared(), operations.lake_of(service, None)).lake


def _keys(access: str | None, secret: str | None) -> Credentials | None:
    if access is None and secret is None:
        return None
    if access is None or secret is None:
        raise InvalidInput("Half of the keys is missing", why="hmac_access_key and hmac_secret_key belong together")
    return checked(Credentials(access, secret))
