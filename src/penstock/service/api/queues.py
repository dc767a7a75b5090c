"""`/v1/instances` and `/v1/queue`: who shares the machine, by which part, and who waits for what."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path

from penstock.engine.policy.fairness import Instance, InstanceUsage, Quota
from penstock.engine.tokens import Caller, Scope
from penstock.engine.webhooks import shown_secret
from penstock.errors import NotFound
from penstock.service import responses
from penstock.service.auth import Administrator, Reader, Submitter
from penstock.service.context import Service, ServiceOf
from penstock.service.requests import InstanceBody

router = APIRouter(prefix="/v1", tags=["instances"])

InstanceName = Annotated[str, Path(max_length=63, description="The instance.")]


@router.get(
    "/instances",
    summary="The instances, with what each may have and has",
    responses={200: {"model": responses.Instances}},
)
def listing(service: ServiceOf, caller: Reader) -> dict[str, Any]:
    uses = service.engine.queues.usage()
    found = [instance for instance in service.engine.queues.instances() if caller.sees(instance.name)]
    return {"items": [_shown(instance, uses.get(instance.name, InstanceUsage())) for instance in found]}


@router.get("/instances/{name}", summary="One instance", responses={200: {"model": responses.Instance}})
def show(name: InstanceName, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    return _now(service, _visible(service, caller, name))


@router.put(
    "/instances/{name}",
    summary="Make an instance, or change its weight and quotas",
    responses={200: {"model": responses.Instance}},
)
def put(name: InstanceName, body: InstanceBody, service: ServiceOf, caller: Administrator) -> dict[str, Any]:
    """What runs goes on, also under a smaller quota."""
    caller.require(Scope.ADMINISTER)
    asked = Instance(name, body.weight, Quota(**body.quota.model_dump()))
    return _now(service, service.engine.queues.put(asked))


@router.delete("/instances/{name}", status_code=204, summary="Remove an instance")
def delete(name: InstanceName, service: ServiceOf, caller: Administrator) -> None:
    """Refused while it has applications that have not ended; those that have stay listed."""
    caller.require(Scope.ADMINISTER)
    service.engine.queues.delete(name)


@router.get(
    "/instances/{name}/webhook-key",
    summary="The secret that signs an instance's webhooks",
    responses={200: {"model": responses.WebhookKey}},
)
def webhook_key(name: InstanceName, service: ServiceOf, caller: Submitter) -> dict[str, str]:
    """For receivers to check signatures with, in the form of Standard Webhooks. It takes the scope submit."""
    found = _visible(service, caller, name).name
    caller.require(Scope.SUBMIT, found)
    return {"key": shown_secret(service.home, found)}


@router.get("/instances/{name}/queue", summary="Who waits in one instance", responses={200: {"model": responses.Queue}})
def queue_of(name: InstanceName, service: ServiceOf, caller: Reader) -> dict[str, Any]:
    return responses.queue(service, caller.sees, _visible(service, caller, name).name)


@router.get(
    "/queue",
    summary="Who waits, in the order in which they would start, and why",
    responses={200: {"model": responses.Queue}},
)
def queue(service: ServiceOf, caller: Reader) -> dict[str, Any]:
    """Positions are those in the whole queue. Of other instances than the caller's own nothing else is told."""
    return responses.queue(service, caller.sees)


def _visible(service: Service, caller: Caller, name: str) -> Instance:
    if not caller.sees(name):
        raise NotFound(f"There is no instance “{name}”", fix="GET /v1/instances lists them")
    return service.engine.queues.instance(name)


def _now(service: Service, instance: Instance) -> dict[str, Any]:
    return _shown(instance, service.engine.queues.usage_of(instance.name))


def _shown(instance: Instance, use: InstanceUsage) -> dict[str, Any]:
    return {
        "name": instance.name,
        "weight": instance.weight,
        "quota": asdict(instance.quota),
        "used": use.to_json(),
    }
