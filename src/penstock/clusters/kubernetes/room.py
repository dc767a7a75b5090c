"""What the nodes of a cluster can hold, and what they cannot. Policy pure, one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.clusters.base import Capacity
from penstock.clusters.kubernetes import demands
from penstock.clusters.kubernetes.api import Api
from penstock.clusters.kubernetes.quantities import quantity
from penstock.clusters.kubernetes.target import Target
from penstock.engine.admission import CORES_PER_CORE
from penstock.engine.application import ClusterSize, ProcessSize, Reason
from penstock.errors import ClusterError, Forbidden

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


def too_large(size: ClusterSize, found: Iterable[Json], target: Target) -> Reason | None:
    """Why no node could ever hold one of the pods; None where one could, or nothing is known of any."""
    sizes = [_allocatable(node) for node in found if _takes_pods(node, target)]
    keeper = demands.of_keeper().requests
    for name, process, asked, beside in (
        ("driver", size.driver, demands.of_driver(size, target).requests, keeper),
        ("executor", size.executor, demands.of_executor(size, target).requests, _files_in_memory(size)),
    ):
        cores, memory = asked["cpu"], int(asked["memory"])
        if sizes and not any(cores <= most and memory <= holds for most, holds in sizes):
            has, holds = max(sizes)
            return Reason(
                "too_large",
                f"no node can hold the {name}: it needs {cores:g} cores and {memory >> 20} MiB with its overhead, "
                f"the largest has {has:g} and {holds >> 20}",
                f"ask for less: {_fitting(name, process, has - beside['cpu'], holds - beside['memory'], target)}",
            )
    return None


def _files_in_memory(size: ClusterSize) -> Mapping[str, float]:
    return {"cpu": 0.0, "memory": float(size.scratch_memory_of_executor)}


def _fitting(name: str, process: ProcessSize, has: float, holds: float, target: Target) -> str:
    cores = max(1, min(process.cores, int(has / target.cpu_request)))
    heap = min(process.memory_bytes, int(min(holds - (384 << 20), holds / (1 + target.overhead))))
    return f"--{name}-cores {cores} --{name}-memory {max(heap >> 20, 512)}m"


def _allocatable(node: Json) -> tuple[float, int]:
    has = node.get("status", {}).get("allocatable", {})
    return quantity(str(has.get("cpu", "0"))), int(quantity(str(has.get("memory", "0"))))


def _takes_pods(node: Json, target: Target) -> bool:
    if node.get("spec", {}).get("unschedulable"):
        return False
    labels = node.get("metadata", {}).get("labels", {})
    return all(labels.get(name) == value for name, value in target.node_selector.items())
