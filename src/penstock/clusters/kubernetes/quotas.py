"""What the resource quotas of the namespace leave to applications. Policy pure, one request.

A quota is counted ahead, so that whoever has no room waits in the queue, whole, and not as a driver whose executors are
refused. Only what holds for every pod is: a quota with scopes is for the API server to apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, floor
from typing import Any

from penstock.clusters.kubernetes import demands, manifest
from penstock.clusters.kubernetes.api import QUOTA_FIX, Api, listed_if_permitted
from penstock.clusters.kubernetes.quantities import quantity
from penstock.clusters.kubernetes.target import Target
from penstock.engine.application import CORES_PER_CORE, Capacity, ClusterSize, ResourceLimit
from penstock.units import gibibytes

Json = Mapping[str, Any]

_COUNTED = {
    "cpu": ("requests", "cpu"),
    "requests.cpu": ("requests", "cpu"),
    "limits.cpu": ("limits", "cpu"),
    "memory": ("requests", "memory"),
    "requests.memory": ("requests", "memory"),
    "limits.memory": ("limits", "memory"),
}
_PODS = ("pods", "count/pods")
_ROUNDING = 1e-9


def of_namespace(api: Api, namespace: str) -> Sequence[Json]:
    """Empty where they may not be looked at: then the API server alone knows."""
    return listed_if_permitted(api, f"/api/v1/namespaces/{namespace}/resourcequotas")


def within(capacity: Capacity, found: Iterable[Json], target: Target) -> Capacity:
    """The capacity that quotas leave of one that the nodes have: no more of either than their figures allow, and each
    quota a bound that is counted as the API server does."""
    for quota in found:
        for name, hard in _hard(quota):
            if name in _PODS:
                capacity = _bounded(capacity, quota, name, hard, lambda size: 1.0 + size.executors)
            elif name in _COUNTED:
                kind, resource = _COUNTED[name]
                capacity = _bounded(capacity, quota, name, hard, _asked(kind, resource, target))
                left = hard - quantity(manifest.KEEPER_RESOURCES[kind][resource])
                if resource == "memory":
                    capacity = replace(capacity, memory_bytes=min(capacity.memory_bytes, max(int(left), 0)))
                else:
                    share = target.cpu_request if kind == "requests" else 1.0
                    cores = ceil(floor(left / share + _ROUNDING) / CORES_PER_CORE)
                    capacity = replace(capacity, cores=min(capacity.cores, max(cores, 0)))
    return capacity


def _bounded(
    capacity: Capacity, quota: Json, name: str, hard: float, asked: Callable[[ClusterSize], float]
) -> Capacity:
    shown = gibibytes if name.endswith("memory") else "{:g}".format
    bound = ResourceLimit(f"the namespace's quota {quota['metadata']['name']} ({name})", hard, asked, QUOTA_FIX, shown)
    return replace(capacity, bounds=(*capacity.bounds, bound))


def _asked(kind: str, resource: str, target: Target) -> Callable[[ClusterSize], float]:
    # Remembered: a queue asks for the same few sizes again and again.
    @lru_cache(maxsize=256)
    def asked(size: ClusterSize) -> float:
        driver, executor = demands.of_driver(size, target), demands.of_executor(size, target)
        each = [(demand.requests if kind == "requests" else demand.limits)[resource] for demand in (driver, executor)]
        return each[0] + size.executors * each[1]

    return asked


def shortage(found: Iterable[Json], asked: Mapping[str, float]) -> str | None:
    """Which quota has no room for one more pod that asks for so much (`cpu`, `memory`, requests and limits alike)."""
    for quota in found:
        status = quota.get("status", {})
        for name, hard in (status.get("hard") or {}).items():
            wanted = 1.0 if name in _PODS else asked.get(name.rpartition(".")[2], 0.0)
            used = quantity(str((status.get("used") or {}).get(name, "0")))
            if wanted and used + wanted > quantity(str(hard)):
                return f"{quota['metadata']['name']}: {name} {(status.get('used') or {}).get(name, '0')} of {hard} used"
    return None


def told(quota: Json) -> str:
    """In one line: what it bounds, and how much of that is used."""
    status = quota.get("status", {})
    used = status.get("used") or {}
    each = (f"{name} {used.get(name, '0')} of {hard}" for name, hard in sorted((status.get("hard") or {}).items()))
    return f"{quota['metadata']['name']}: {', '.join(each)}"


def _hard(quota: Json) -> Iterator[tuple[str, float]]:
    """What it bounds of all pods; nothing where it is for some only."""
    spec = quota.get("spec", {})
    if not spec.get("scopes") and not spec.get("scopeSelector"):
        for name, hard in (spec.get("hard") or {}).items():
            yield name, quantity(str(hard))
