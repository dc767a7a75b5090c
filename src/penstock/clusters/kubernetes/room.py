"""What the nodes of a cluster can hold, and what they cannot. Policy pure, one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.clusters.kubernetes import demands
from penstock.clusters.kubernetes.api import Api
from penstock.clusters.kubernetes.quantities import quantity
from penstock.clusters.kubernetes.target import Target
from penstock.engine.admission import CAPACITY, MORE_NODES
from penstock.engine.application import CORES_PER_CORE, Capacity, ClusterSize, Node, Reason
from penstock.errors import ClusterError, Forbidden
from penstock.units import gibibytes

Json = Mapping[str, Any]


def nodes(api: Api) -> list[Json]:
    """Raises `ClusterError` where they may not be looked at."""
    try:
        found: list[Json] = api.get("/api/v1/nodes").get("items") or []
    except Forbidden as error:
        raise ClusterError(
            "How much the cluster can hold is not known",
            why=error.why,
            fix="say it: capacity: {cores: …, memory: …} in the cluster's file; or permit `list nodes`",
        ) from error
    return found


def capacity_of(found: Iterable[Json], target: Target) -> Capacity:
    """Of the nodes that take pods. A core is counted as often as the engine promises none: it is Kubernetes that keeps
    what a pod asks for, and no more of it than the target says."""
    sizes = [_allocatable(node) for node in found if _takes_pods(node, target)]
    cores = sum(cores for cores, _ in sizes) / target.cpu_request / CORES_PER_CORE
    return Capacity(cores=max(int(cores), 1) if sizes else 0, memory_bytes=sum(memory for _, memory in sizes))


def today(found: Iterable[Json], target: Target) -> Capacity:
    """What the nodes that take pods have now, which is not all that there may ever be."""
    nodes = [node for node in found if _takes_pods(node, target)]
    sizes = sorted({_allocatable(node) for node in nodes}, reverse=True)
    return replace(
        capacity_of(nodes, target),
        node=Node(*sizes[0]) if sizes else None,
        obstacle=lambda size: _obstacle(size, sizes, target, declared=False),
    )


def declared(target: Target) -> Capacity | None:
    """What the cluster's file says that there will be at the most; None where it says nothing."""
    if target.capacity is None:
        return None
    if (node := target.largest_node) is None:
        return target.capacity
    largest = [(node.cores, node.memory_bytes)]
    return replace(target.capacity, node=node, obstacle=lambda size: _obstacle(size, largest, target, declared=True))


def _obstacle(
    size: ClusterSize, sizes: Sequence[tuple[float, int]], target: Target, *, declared: bool
) -> Reason | None:
    """Why none of the nodes of these `sizes` (cores, bytes; the largest first) can hold one of the pods, however empty
    it is. `declared`: they are the largest that there will ever be."""
    keeper = demands.of_keeper().requests
    for name, process, overhead, asked, beside in (
        ("driver", size.driver, size.driver_overhead, demands.of_driver(size, target).requests, keeper),
        (
            "executor",
            size.executor,
            size.executor_overhead,
            demands.of_executor(size, target).requests,
            {"cpu": 0.0, "memory": float(size.scratch_memory_of_executor)},
        ),
    ):
        cores, memory = asked["cpu"], int(asked["memory"])
        if any(cores <= most and memory <= holds for most, holds in sizes):
            continue
        needs = f"{cores:g} cores and {gibibytes(memory)}"
        if not sizes:
            return Reason(CAPACITY, f"it waits for a node of {needs} for the {name}; no node takes pods", MORE_NODES)
        has, holds = sizes[0]
        fit = max(1, min(process.cores, int((has - beside["cpu"]) / target.cpu_request)))
        heap = min(process.memory_bytes, overhead.largest_heap(int(holds - beside["memory"])))
        smaller = f"ask for less: --{name}-cores {fit} --{name}-memory {max(heap >> 20, 512)}m"
        largest = f"has {has:g} and {gibibytes(holds)}"
        if declared:
            problem = f"no node can hold the {name}: it needs {needs} with its overhead, the largest declared {largest}"
            return Reason("too_large", problem, smaller)
        problem = f"it waits for a node of {needs} for the {name}; the largest today {largest}"
        return Reason(CAPACITY, problem, f"{smaller}; or {MORE_NODES}")
    return None


def _allocatable(node: Json) -> tuple[float, int]:
    has = node.get("status", {}).get("allocatable", {})
    return quantity(str(has.get("cpu", "0"))), int(quantity(str(has.get("memory", "0"))))


def _takes_pods(node: Json, target: Target) -> bool:
    if node.get("spec", {}).get("unschedulable"):
        return False
    labels = node.get("metadata", {}).get("labels", {})
    return all(labels.get(name) == value for name, value in target.node_selector.items())
