"""`/v1/instances` and `/v1/queue`: the instances that share the machine, and the applications that wait."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from penstock.engine.engines.registry import require_choice
from penstock.engine.policy.scheduling import Instance, InstanceUsage, Quota
from penstock.engine.tokens import Caller, Scope
from penstock.engine.webhooks import shown_secret
from penstock.errors import NotFound
from penstock.service import responses
from penstock.service.auth import Administrator, Reader, Submitter
from penstock.service.context import CurrentService, Service
from penstock.service.requests import InstanceBody

router = APIRouter(prefix="/v1", tags=["instances"])

InstanceName = Annotated[str, Path(max_length=63, description="The instance.")]


@router.get("/instances", summary="The instances, with their quotas and present use")
def listing(service: CurrentService, caller: Reader) -> responses.Instances:
    uses = service.engine.queues.usage()
    found = [instance for instance in service.engine.queues.instances() if caller.sees(instance.name)]
    return responses.Instances(
        items=[responses.instance(instance, uses.get(instance.name, InstanceUsage())) for instance in found]
    )


@router.get("/instances/{name}", summary="One instance")
def show(name: InstanceName, service: CurrentService, caller: Reader) -> responses.Instance:
    return _with_use(service, _visible(service, caller, name))


@router.put("/instances/{name}", summary="Create an instance, or change its weight, quotas and engine")
def put(name: InstanceName, body: InstanceBody, service: CurrentService, caller: Administrator) -> responses.Instance:
    """Running applications continue, also under a smaller quota."""
    caller.require(Scope.ADMINISTER)
    engine = None if body.engine is None else require_choice(body.engine)
    changed = service.engine.queues.put(Instance(name, body.weight, Quota(**body.quota.model_dump())))
    if engine is not None:
        changed = service.engine.queues.change(name, lambda found: found.with_engine(engine))
    return _with_use(service, changed)


@router.delete("/instances/{name}", status_code=204, summary="Remove an instance")
def delete(name: InstanceName, service: CurrentService, caller: Administrator) -> None:
    """Refused while it has applications that have not ended, or valid tokens name it; ended ones stay listed."""
    caller.require(Scope.ADMINISTER)
    service.engine.queues.delete(name)


@router.get("/instances/{name}/webhook-key", summary="The secret that signs an instance's webhooks")
def webhook_key(name: InstanceName, service: CurrentService, caller: Submitter) -> responses.WebhookKey:
    """For receivers to check signatures with, in the form of Standard Webhooks. It needs the scope submit."""
    found = _visible(service, caller, name).name
    caller.require(Scope.SUBMIT, found)
    return responses.WebhookKey(key=shown_secret(service.home, found))


@router.get("/instances/{name}/queue", summary="The waiting applications of one instance")
def queue_of(name: InstanceName, service: CurrentService, caller: Reader) -> responses.Queue:
    return responses.queue(service, caller.sees, _visible(service, caller, name).name)


@router.get("/queue", summary="The waiting applications, in the order of their starts, with reasons")
def queue(service: CurrentService, caller: Reader) -> responses.Queue:
    """Positions are those in the whole queue; applications of instances that the caller does not see are left out."""
    return responses.queue(service, caller.sees)


def _visible(service: Service, caller: Caller, name: str) -> Instance:
    if not caller.sees(name):
        raise NotFound(f"There is no instance “{name}”", fix="GET /v1/instances lists them")
    return service.engine.queues.instance(name)


def _with_use(service: Service, instance: Instance) -> responses.Instance:
    return responses.instance(instance, service.engine.queues.usage_of(instance.name))
