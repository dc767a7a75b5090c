"""What the limit ranges of the namespace let one pod or container have. Policy pure, one request.

Only what can be known before a pod is made: ratios and the limits of storage are the API server's to apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.clusters.kubernetes import manifest, places
from penstock.clusters.kubernetes.api import Api
from penstock.clusters.kubernetes.quantities import quantity
from penstock.clusters.kubernetes.target import Target
from penstock.engine.application import ClusterSize, Reason
from penstock.errors import Forbidden, NotFound

Json = Mapping[str, Any]


def of_namespace(api: Api, namespace: str) -> list[Json]:
    """None where they may not be looked at: then the API server alone knows."""
    try:
        found: list[Json] = api.get(f"/api/v1/namespaces/{namespace}/limitranges").get("items") or []
    except (Forbidden, NotFound):
        return []
    return found


def beyond(size: ClusterSize, found: Iterable[Json], target: Target) -> Reason | None:
    """Why a limit range would refuse one of the pods; None where none would."""
    pods = list(_pods(size, target))
    for limits in found:
        for one in limits.get("spec", {}).get("limits") or []:
            things = pods if one.get("type") == "Pod" else [each for pod in pods for each in pod.containers]
            if one.get("type") not in ("Pod", "Container"):
                continue
            for thing in things:
                if problem := _problem(thing, one):
                    return Reason("too_large", f"the limit range {limits['metadata']['name']}: {problem}", _FIX)
    return None


_FIX = "ask for what it allows: --driver-memory, --executor-memory, --executor-cores; kubectl describe limitrange"


@dataclass(frozen=True)
class _Thing:
    """A container, or a pod and all its containers together; amounts by `cpu` and `memory`."""

    name: str
    requests: Mapping[str, float]
    limits: Mapping[str, float]
    containers: tuple[_Thing, ...] = ()


def _pods(size: ClusterSize, target: Target) -> Iterator[_Thing]:
    keeper = _container("its keeper's container", manifest.KEEPER_RESOURCES)
    for name, process, beside in ((places.DRIVER, size.driver, (keeper,)), (places.EXECUTOR, size.executor, ())):
        all_of_it = (_container(f"the {name}'s container", manifest.resources(process, target)), *beside)
        yield _Thing(
            f"the {name}'s pod", _sum(it.requests for it in all_of_it), _sum(it.limits for it in all_of_it), all_of_it
        )


def _container(name: str, resources: Json) -> _Thing:
    def amounts(kind: str) -> dict[str, float]:
        return {resource: quantity(str(text)) for resource, text in resources[kind].items()}

    return _Thing(name, amounts("requests"), amounts("limits"))


def _sum(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total = {"cpu": 0.0, "memory": 0.0}
    for part in parts:
        total = {name: amount + part[name] for name, amount in total.items()}
    return total


def _problem(thing: _Thing, limits: Json) -> str | None:
    for name in ("cpu", "memory"):
        most, least = (limits.get("max") or {}).get(name), (limits.get("min") or {}).get(name)
        if most is not None and thing.limits[name] > quantity(str(most)):
            return f"{thing.name} may use {_shown(name, thing.limits[name])} of {name}, {most} is the most"
        if least is not None and thing.requests[name] < quantity(str(least)):
            return f"{thing.name} asks for {_shown(name, thing.requests[name])} of {name}, {least} is the least"
    return None


def _shown(name: str, amount: float) -> str:
    return f"{amount:g}" if name == "cpu" else f"{int(amount) >> 20}Mi"
