"""What nodes can hold is counted as Kubernetes counts it; what none can is refused with what one could."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.clusters.kubernetes.quantities import quantity
from penstock.clusters.kubernetes.room import capacity_of, too_large
from penstock.engine.application import ClusterSize, ProcessSize
from tests.unit.clusters.kubernetes.kubernetes_making import TARGET

GIB = 1 << 30


def node(cpu: str, memory: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": memory}},
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", 0.5),
        ("2", 2),
        ("1Gi", GIB),
        ("128974848", 128974848),
        ("1.5G", 1.5e9),
        ("1Ki", 1024),
        ("1e3", 1000),
        ("12E", 12e18),
    ],
)
def test_quantities_are_read(text: str, number: float) -> None:
    assert quantity(text) == number


def test_capacity_is_what_the_nodes_that_take_pods_have() -> None:
    nodes = [node("4", "16Gi"), node("3920m", "8Gi"), node("64", "1Ti", unschedulable=True)]
    capacity = capacity_of(nodes, TARGET)
    assert capacity.memory_bytes == 24 * GIB
    # The engine promises each core twice, Kubernetes once.
    assert capacity.cores == 3


def test_nodes_that_are_not_chosen_do_not_count() -> None:
    target = replace(TARGET, node_selector={"pool": "spark"})
    assert capacity_of([node("4", "16Gi")], target).cores == 0
    assert capacity_of([node("4", "16Gi", labels={"pool": "spark"})], target).cores == 2


def test_a_pod_that_fits_on_no_node_is_refused_though_all_together_could_hold_it() -> None:
    size = ClusterSize(ProcessSize(1, GIB), ProcessSize(8, 4 * GIB), 1)
    problem = too_large(size, [node("4", "16Gi")] * 4, TARGET)
    assert problem is not None
    assert "executor" in problem.message
    assert "--executor-cores 4" in problem.fix


def test_a_keeper_and_files_in_memory_need_room_on_the_node_too() -> None:
    size = ClusterSize(ProcessSize(4, GIB), ProcessSize(4, 4 * GIB), 1, scratch_memory_bytes=12 * GIB)
    driver = too_large(size, [node("4", "16Gi")], TARGET)
    assert driver is not None
    assert "the driver: it needs 4.05 cores" in driver.message
    assert "--driver-cores 3" in driver.fix
    executor = too_large(replace(size, driver=ProcessSize(1, GIB)), [node("4", "16Gi")], TARGET)
    assert executor is not None
    assert "--executor-memory 3686m" not in driver.fix
    fitting = replace(size, driver=ProcessSize(3, GIB), executor=ProcessSize(4, 3500 << 20))
    assert too_large(fitting, [node("4", "16Gi")], TARGET) is None


def test_what_one_node_holds_is_no_problem_and_neither_is_not_knowing() -> None:
    size = ClusterSize(ProcessSize(1, GIB), ProcessSize(4, 14 * GIB), 9)
    assert too_large(size, [node("4", "16Gi")], TARGET) is None
    assert too_large(size, [], TARGET) is None
