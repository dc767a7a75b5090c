"""Resource requests of an application's pods, compared with quotas, limit ranges and nodes.

The policy is pure; each listing is one request. Quotas are checked in advance, so that an application without room
waits in the queue as a whole, instead of running a driver whose executors are rejected. Only rules for every pod are
checked: quotas with scopes, ratios of limits to requests, and storage are left to the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, floor
from typing import Any

from penstock.clusters.kubernetes import layout, manifest
from penstock.clusters.kubernetes.client import QUOTA_FIX, Api, list_if_permitted
from penstock.clusters.kubernetes.target import Target
from penstock.errors import ClusterError, Forbidden
from penstock.model import CAPACITY, CORES_PER_CORE, MORE_NODES, Capacity, ClusterSize, Node, Reason, ResourceLimit
from penstock.units import gibibytes, parse_quantity


@dataclass(frozen=True)
class Demand:
    """The requests and limits of a container, or of a pod as the sum of its `containers`.

    Amounts are `cpu` in cores and `memory` in bytes.
    """

    name: str
    requests: Mapping[str, float]
    limits: Mapping[str, float]
    containers: tuple[Demand, ...] = ()


def driver_demand(size: ClusterSize, target: Target) -> Demand:
    driver = _container("the driver", manifest.driver_resources(size, target))
    return _pod(layout.DRIVER, driver, _sidecar_demand())


def _sidecar_demand() -> Demand:
    return _container("its sidecar", manifest.SIDECAR_RESOURCES)


def executor_demand(size: ClusterSize, target: Target) -> Demand:
    return _pod(layout.EXECUTOR, _container("the executor", manifest.executor_resources(size, target)))


def _pod(role: str, *containers: Demand) -> Demand:
    requests, limits = _sum(it.requests for it in containers), _sum(it.limits for it in containers)
    return Demand(f"the {role}'s pod", requests, limits, containers)


def _container(owner: str, resources: Mapping[str, Any]) -> Demand:
    def amounts(kind: str) -> dict[str, float]:
        return {name: parse_quantity(str(text)) for name, text in resources[kind].items()}

    return Demand(f"{owner}'s container", amounts("requests"), amounts("limits"))


def _sum(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total = {"cpu": 0.0, "memory": 0.0}
    for part in parts:
        total = {name: amount + part[name] for name, amount in total.items()}
    return total


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


def list_quotas(api: Api, namespace: str) -> Sequence[Json]:
    """Return the namespace's quotas; none where listing them is forbidden: then only the API server applies them."""
    return list_if_permitted(api, f"/api/v1/namespaces/{namespace}/resourcequotas")


def limit_by_quotas(capacity: Capacity, found: Iterable[Json], target: Target) -> Capacity:
    """Return the part of the nodes' capacity that the quotas allow.

    Cores and memory are reduced to the quotas' figures, and each quota becomes a bound that is calculated as the API
    server does.
    """
    for quota in found:
        for name, hard in _hard(quota):
            if name in _PODS:
                capacity = _bounded(capacity, quota, name, hard, lambda size: 1.0 + size.executors)
            elif name in _COUNTED:
                kind, resource = _COUNTED[name]
                capacity = _bounded(capacity, quota, name, hard, _total(kind, resource, target))
                left = hard - parse_quantity(manifest.SIDECAR_RESOURCES[kind][resource])
                if resource == "memory":
                    capacity = replace(capacity, memory_bytes=min(capacity.memory_bytes, max(int(left), 0)))
                else:
                    share = target.cpu_request if kind == "requests" else 1.0
                    cores = ceil(floor(left / share + _ROUNDING) / CORES_PER_CORE)
                    capacity = replace(capacity, cores=min(capacity.cores, max(cores, 0)))
    return capacity


def _bounded(
    capacity: Capacity, quota: Json, name: str, hard: float, total: Callable[[ClusterSize], float]
) -> Capacity:
    shown = gibibytes if name.endswith("memory") else "{:g}".format
    bound = ResourceLimit(f"the namespace's quota {quota['metadata']['name']} ({name})", hard, total, QUOTA_FIX, shown)
    return replace(capacity, bounds=(*capacity.bounds, bound))


def _total(kind: str, resource: str, target: Target) -> Callable[[ClusterSize], float]:
    # A queue evaluates the same few sizes again and again.
    @lru_cache(maxsize=256)
    def total(size: ClusterSize) -> float:
        driver, executor = driver_demand(size, target), executor_demand(size, target)
        each = [(demand.requests if kind == "requests" else demand.limits)[resource] for demand in (driver, executor)]
        return each[0] + size.executors * each[1]

    return total


def shortage(found: Iterable[Json], requests: Mapping[str, float]) -> str | None:
    """Describe the first quota without room for one more pod with these requests (`cpu`, `memory`); None if all fit.

    The pod's limits are taken to equal its requests.
    """
    for quota in found:
        status = quota.get("status", {})
        for name, hard in (status.get("hard") or {}).items():
            needed = 1.0 if name in _PODS else requests.get(name.rpartition(".")[2], 0.0)
            used = parse_quantity(str((status.get("used") or {}).get(name, "0")))
            if needed and used + needed > parse_quantity(str(hard)):
                return f"{quota['metadata']['name']}: {name} {(status.get('used') or {}).get(name, '0')} of {hard} used"
    return None


def format_quota(quota: Json) -> str:
    """Format a quota's limits and their use in one line."""
    status = quota.get("status", {})
    used = status.get("used") or {}
    each = (f"{name} {used.get(name, '0')} of {hard}" for name, hard in sorted((status.get("hard") or {}).items()))
    return f"{quota['metadata']['name']}: {', '.join(each)}"


def _hard(quota: Json) -> Iterator[tuple[str, float]]:
    """Yield the limits of a quota that applies to all pods; none where it is limited to some."""
    spec = quota.get("spec", {})
    if not spec.get("scopes") and not spec.get("scopeSelector"):
        for name, hard in (spec.get("hard") or {}).items():
            yield name, parse_quantity(str(hard))


_FIX = "stay within the limit range: --driver-memory, --executor-memory, --executor-cores; kubectl describe limitrange"


def list_limit_ranges(api: Api, namespace: str) -> Sequence[Json]:
    """Return the namespace's limit ranges; none where listing them is forbidden: the API server still applies them."""
    return list_if_permitted(api, f"/api/v1/namespaces/{namespace}/limitranges")


def limit_range_violation(size: ClusterSize, found: Iterable[Json], target: Target) -> Reason | None:
    """Return why a limit range would reject one of the pods; None where none would."""
    pods = (driver_demand(size, target), executor_demand(size, target))
    demands = {"Pod": pods, "Container": tuple(container for pod in pods for container in pod.containers)}
    for limits in found:
        for one in limits.get("spec", {}).get("limits") or []:
            for demand in demands.get(str(one.get("type")), ()):
                if problem := _problem(demand, one):
                    return Reason("too_large", f"the limit range {limits['metadata']['name']}: {problem}", _FIX)
    return None


def _problem(demand: Demand, limits: Json) -> str | None:
    for name in ("cpu", "memory"):
        most, least = (limits.get("max") or {}).get(name), (limits.get("min") or {}).get(name)
        if most is not None and demand.limits[name] > parse_quantity(str(most)):
            return f"{demand.name} has a limit of {_shown(name, demand.limits[name])} {name}, the maximum is {most}"
        if least is not None and demand.requests[name] < parse_quantity(str(least)):
            return f"{demand.name} requests {_shown(name, demand.requests[name])} {name}, the minimum is {least}"
    return None


def _shown(name: str, amount: float) -> str:
    return f"{amount:g}" if name == "cpu" else f"{int(amount) >> 20}Mi"


def list_nodes(api: Api) -> list[Json]:
    """Return the nodes. Raises `ClusterError` where listing them is forbidden."""
    try:
        found: list[Json] = api.get("/api/v1/nodes").get("items") or []
    except Forbidden as error:
        raise ClusterError(
            "The capacity of the cluster is unknown",
            why=error.why,
            fix="declare capacity: {cores: …, memory: …} in the cluster's file; or permit `list nodes`",
        ) from error
    return found


def capacity_of(found: Iterable[Json], target: Target) -> Capacity:
    """Return the capacity of the nodes that accept pods.

    The engine oversubscribes a core `CORES_PER_CORE` times; here the target's `cpu_request` decides instead, so the
    factor is divided out.
    """
    sizes = [_allocatable(node) for node in found if _takes_pods(node, target)]
    cores = sum(cores for cores, _ in sizes) / target.cpu_request / CORES_PER_CORE
    return Capacity(cores=max(int(cores), 1) if sizes else 0, memory_bytes=sum(memory for _, memory in sizes))


def current_capacity(found: Iterable[Json], target: Target) -> Capacity:
    """Return the present capacity of the nodes that accept pods, to which others may be added."""
    nodes = [node for node in found if _takes_pods(node, target)]
    sizes = sorted({_allocatable(node) for node in nodes}, reverse=True)
    return replace(
        capacity_of(nodes, target),
        node=Node(*sizes[0]) if sizes else None,
        obstacle=lambda size: _obstacle(size, sizes, target, declared=False),
    )


def declared_capacity(target: Target) -> Capacity | None:
    """Return the maximum capacity that the cluster's file declares; None where it declares none."""
    if target.capacity is None:
        return None
    if (node := target.largest_node) is None:
        return target.capacity
    largest = [(node.cores, node.memory_bytes)]
    return replace(target.capacity, node=node, obstacle=lambda size: _obstacle(size, largest, target, declared=True))


def _obstacle(
    size: ClusterSize, sizes: Sequence[tuple[float, int]], target: Target, *, declared: bool
) -> Reason | None:
    """Return why no node of these `sizes` (cores, bytes; the largest first) can hold one of the pods, even if empty.

    `declared_capacity`: the sizes are the largest that there will ever be.
    """
    sidecar = _sidecar_demand().requests
    for name, process, overhead, requests, extra in (
        ("driver", size.driver, size.driver_overhead, driver_demand(size, target).requests, sidecar),
        (
            "executor",
            size.executor,
            size.executor_overhead,
            executor_demand(size, target).requests,
            {"cpu": 0.0, "memory": float(size.scratch_memory_of_executor)},
        ),
    ):
        cores, memory = requests["cpu"], int(requests["memory"])
        if any(cores <= most and memory <= holds for most, holds in sizes):
            continue
        needs = f"{cores:g} cores and {gibibytes(memory)}"
        if not sizes:
            return Reason(CAPACITY, f"it waits for a node of {needs} for the {name}; no node accepts pods", MORE_NODES)
        has, holds = sizes[0]
        fit = max(1, min(process.cores, int((has - extra["cpu"]) / target.cpu_request)))
        heap = min(process.memory_bytes, overhead.largest_heap(int(holds - extra["memory"])))
        smaller = f"request less: --{name}-cores {fit} --{name}-memory {max(heap >> 20, 512)}m"
        largest = f"has {has:g} and {gibibytes(holds)}"
        if declared:
            problem = f"no node can hold the {name}: it needs {needs} with its overhead, the largest declared {largest}"
            return Reason("too_large", problem, smaller)
        problem = f"it waits for a node of {needs} for the {name}; the largest today {largest}"
        return Reason(CAPACITY, problem, f"{smaller}; or {MORE_NODES}")
    return None


def _allocatable(node: Json) -> tuple[float, int]:
    has = node.get("status", {}).get("allocatable", {})
    return parse_quantity(str(has.get("cpu", "0"))), int(parse_quantity(str(has.get("memory", "0"))))


def _takes_pods(node: Json, target: Target) -> bool:
    """Return whether the node accepts pods of the target, apart from their sizes and `affinity`."""
    spec = node.get("spec", {})
    if spec.get("unschedulable") or not _is_ready(node):
        return False
    tolerations = [
        *target.tolerations,
        *(
            toleration
            for template in (target.driver_template, target.executor_template)
            for toleration in template.get("spec", {}).get("tolerations") or []
        ),
    ]
    labels = node.get("metadata", {}).get("labels", {})
    return all(labels.get(name) == value for name, value in target.node_selector.items()) and all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in spec.get("taints") or []
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def _is_ready(node: Json) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return all(condition.get("status") == "True" for condition in conditions if condition.get("type") == "Ready")


def _tolerates(toleration: Json, taint: Json) -> bool:
    """Return whether the toleration matches the taint, by the scheduler's rules: without effect or key, any."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and toleration.get("value", "") == taint.get("value", "")
