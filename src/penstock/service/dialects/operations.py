"""What the routes of all dialects do: find an instance and an application for a caller, submit, stop."""

from __future__ import annotations

import functools
from dataclasses import replace
from importlib.metadata import version
from typing import Annotated

from fastapi import Header, Request

from penstock.engine.policy.fairness import Instance
from penstock.engine.tokens import Caller, Scope
from penstock.errors import InvalidInput, NotFound
from penstock.lake.embedded import BUCKET
from penstock.lake.model import Lake
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.model import Application
from penstock.service import submission
from penstock.service.context import Service
from penstock.service.dialects import kept, keys
from penstock.service.dialects.asked import Asked
from penstock.service.dialects.translation import Surroundings, translate

IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="Sent again with the same key, a submission is the first one."),
]


@functools.cache
def spark_version() -> str:
    """The one there is; `4.1` of 4.1.2, as IBM writes versions."""
    return ".".join(version("pyspark").split(".")[:2])


def instance_of(service: Service, caller: Caller, name: str, scope: Scope = Scope.READ) -> Instance:
    """Raises `NotFound`, also where the caller does not see it, and `Forbidden`."""
    if not caller.sees(name):
        raise NotFound(f"There is no instance “{name}”", fix="GET /v1/instances lists them")
    caller.require(scope, name)
    return service.engine.instance(name)


def application_of(
    service: Service, caller: Caller, instance: str, application_id: str, scope: Scope = Scope.READ
) -> Application:
    """By its whole id, within that instance. Raises `NotFound` and `Forbidden`."""
    instance_of(service, caller, instance)
    try:
        application = submission.visible(service, caller, application_id, scope)
    except InvalidInput:
        application = None  # the beginning of several ids
    # The engine also knows beginnings of ids; a client that asks for one did not mean another.
    if application is None or application.id != application_id or application.spec.instance != instance:
        raise NotFound(f"There is no application “{application_id}” in “{instance}”", fix="list them to see which are")
    return application


def submit(service: Service, caller: Caller, instance_name: str, asked: Asked, key: str | None) -> Application:
    """Raises what the engine's `submit` does, and `InvalidInput` for what cannot be had here."""
    instance = instance_of(service, caller, instance_name, Scope.SUBMIT)
    has = kept.read(instance)
    home = lake_of(service, has.home.lake if has.home else None)
    around = Surroundings(
        instance=instance_name,
        usual=service.engine.usual_size(),
        home=home,
        # No keys of another submission open a store for this one.
        lakes=[*Lakes(service.home).shared(), *([home] if home.scope else [])],
        defaults=has.default_configs,
    )
    found = translate(asked, around)
    lake = keys.lake_opened_by(service.home, found.lake, found.keys, queue=instance_name)
    spec = replace(found.spec, lake=lake.name, idempotency_key=submission.checked_key(key))
    return submission.submit(service, caller, spec)


def lake_of(service: Service, name: str | None) -> Lake:
    """The named lake or the default one, as it is registered: a submission waits for no lake to start.

    Where there is none yet it is the embedded one, which its first use makes.
    """
    lakes = Lakes(service.home)
    if name is None and lakes.default() is None:
        return Lake(EMBEDDED, (), BUCKET, credentials=f"file:{EMBEDDED}", kind="embedded")
    return lakes.get(name)


def stop(service: Service, application: Application) -> None:
    """Ask it to end; nothing happens to one that has, or was asked to before."""
    if not application.state.final:
        service.engine.request_stop(application.id)


def ui_address(request: Request, application: Application) -> str:
    """Where a browser gets to Spark's own pages of it while it runs: the console asks for leave."""
    return str(request.base_url.replace(path=f"/v1/applications/{application.id}/ui"))
