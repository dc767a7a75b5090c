"""What an application's pods ask for and may use, by the figures that they are made of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.clusters.kubernetes import manifest, places
from penstock.clusters.kubernetes.quantities import quantity
from penstock.clusters.kubernetes.target import Target
from penstock.engine.application import ClusterSize


@dataclass(frozen=True)
class Demand:
    """Of a container, or of a pod: of all its `containers` together. Amounts by `cpu`, in cores, and `memory`, in
    bytes."""

    name: str
    requests: Mapping[str, float]
    limits: Mapping[str, float]
    containers: tuple[Demand, ...] = ()


def of_driver(size: ClusterSize, target: Target) -> Demand:
    driver = _of_container("the driver", manifest.driver_resources(size, target))
    return _of_pod(places.DRIVER, driver, of_keeper())


def of_keeper() -> Demand:
    """Of its container, in the driver's pod."""
    return _of_container("its keeper", manifest.KEEPER_RESOURCES)


def of_executor(size: ClusterSize, target: Target) -> Demand:
    return _of_pod(places.EXECUTOR, _of_container("the executor", manifest.executor_resources(size, target)))


def _of_pod(role: str, *containers: Demand) -> Demand:
    requests, limits = _sum(it.requests for it in containers), _sum(it.limits for it in containers)
    return Demand(f"the {role}'s pod", requests, limits, containers)


def _of_container(whose: str, resources: Mapping[str, Any]) -> Demand:
    def amounts(kind: str) -> dict[str, float]:
        return {name: quantity(str(text)) for name, text in resources[kind].items()}

    return Demand(f"{whose}'s container", amounts("requests"), amounts("limits"))


def _sum(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total = {"cpu": 0.0, "memory": 0.0}
    for part in parts:
        total = {name: amount + part[name] for name, amount in total.items()}
    return total
