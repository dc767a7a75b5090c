"""What the limit ranges of the namespace let one pod or container have. Policy pure, one request.

Only what can be known before a pod is made: ratios and the limits of storage are the API server's to apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.clusters.kubernetes import demands
from penstock.clusters.kubernetes.api import Api, listed_if_permitted
from penstock.clusters.kubernetes.demands import Demand
from penstock.clusters.kubernetes.quantities import quantity
from penstock.clusters.kubernetes.target import Target
from penstock.engine.application import ClusterSize, Reason

Json = Mapping[str, Any]

_FIX = "ask for what it allows: --driver-memory, --executor-memory, --executor-cores; kubectl describe limitrange"


def of_namespace(api: Api, namespace: str) -> Sequence[Json]:
    """Empty where they may not be looked at: then the API server alone knows."""
    return listed_if_permitted(api, f"/api/v1/namespaces/{namespace}/limitranges")


def beyond(size: ClusterSize, found: Iterable[Json], target: Target) -> Reason | None:
    """Why a limit range would refuse one of the pods; None where none would."""
    pods = (demands.of_driver(size, target), demands.of_executor(size, target))
    held_to = {"Pod": pods, "Container": tuple(container for pod in pods for container in pod.containers)}
    for limits in found:
        for one in limits.get("spec", {}).get("limits") or []:
            for demand in held_to.get(str(one.get("type")), ()):
                if problem := _problem(demand, one):
                    return Reason("too_large", f"the limit range {limits['metadata']['name']}: {problem}", _FIX)
    return None


def _problem(demand: Demand, limits: Json) -> str | None:
    for name in ("cpu", "memory"):
        most, least = (limits.get("max") or {}).get(name), (limits.get("min") or {}).get(name)
        if most is not None and demand.limits[name] > quantity(str(most)):
            return f"{demand.name} may use {_shown(name, demand.limits[name])} of {name}, {most} is the most"
        if least is not None and demand.requests[name] < quantity(str(least)):
            return f"{demand.name} asks for {_shown(name, demand.requests[name])} of {name}, {least} is the least"
    return None


def _shown(name: str, amount: float) -> str:
    return f"{amount:g}" if name == "cpu" else f"{int(amount) >> 20}Mi"
