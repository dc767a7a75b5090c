"""What the resource quotas of the namespace leave to applications. Policy pure, one request.

A quota is counted ahead, so that whoever has no room waits in the queue, whole, and not as a driver whose executors are
refused. Only what holds for every pod is: a quota with scopes is for the API server to apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.clusters.base import Capacity
from penstock.clusters.kubernetes.api import Api
from penstock.clusters.kubernetes.manifest import KEEPER_RESOURCES
from penstock.clusters.kubernetes.quantities import quantity
from penstock.clusters.kubernetes.target import Target
from penstock.engine.admission import CORES_PER_CORE
from penstock.errors import Forbidden, NotFound

Json = Mapping[str, Any]

_CPU = ("cpu", "requests.cpu")
_MEMORY = {"memory": "requests", "requests.memory": "requests", "limits.memory": "limits"}
_ROUNDING = 1e-9
_LEAST_CORES = 2
"""Of an application: one for its driver, one for an executor."""


def of_namespace(api: Api, namespace: str) -> list[Json]:
    """None of them where they may not be looked at: then the API server alone knows."""
    try:
        found: list[Json] = api.get(f"/api/v1/namespaces/{namespace}/resourcequotas").get("items") or []
    except (Forbidden, NotFound):
        return []
    return found


def within(capacity: Capacity, found: Iterable[Json], target: Target) -> Capacity:
    """The capacity that quotas leave of one that the nodes have."""
    keeper = float(quantity(str(KEEPER_RESOURCES["requests"]["cpu"])))
    cores_of_keepers = 1 + keeper / (_LEAST_CORES * target.cpu_request)
    for name, hard in _bounds(found):
        if name in _CPU:
            cores = int(hard / target.cpu_request / cores_of_keepers / CORES_PER_CORE + _ROUNDING)
            capacity = replace(capacity, cores=min(capacity.cores, cores))
        elif name in _MEMORY:
            least = min(capacity.memory_bytes, int(hard))
            beside = int(quantity(str(KEEPER_RESOURCES[_MEMORY[name]]["memory"])))
            capacity = replace(capacity, memory_bytes=least, beside_bytes=max(capacity.beside_bytes, beside))
    return capacity


def shortage(found: Iterable[Json], asked: Mapping[str, float]) -> str | None:
    """Which quota has no room for one more pod that asks for so much (`cpu`, `memory`, requests and limits alike)."""
    for quota in found:
        status = quota.get("status", {})
        for name, hard in (status.get("hard") or {}).items():
            wanted = 1.0 if name in ("pods", "count/pods") else asked.get(name.rpartition(".")[2], 0.0)
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


def _bounds(found: Iterable[Json]) -> Iterator[tuple[str, float]]:
    for quota in found:
        spec = quota.get("spec", {})
        if not spec.get("scopes") and not spec.get("scopeSelector"):
            for name, hard in (spec.get("hard") or {}).items():
                yield name, quantity(str(hard))
