"""The capacity of nodes is counted as Kubernetes does; a pod too large for any is refused with a size that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clusters.kubernetes.resources import capacity_of, current_capacity, declared_capacity
from penstock.clusters.kubernetes.target import Target
from penstock.engine.policy import admission
from penstock.model import Capacity, ClusterSize, Node, ProcessSize, Reason
from penstock.units import parse_quantity
from tests.unit.clusters.kubernetes.kubernetes_making import TARGET

GIB = 1 << 30


def obstacle(size: ClusterSize, nodes: list[dict[str, Any]], target: Target = TARGET) -> Reason | None:
    found = current_capacity(nodes, target).obstacle
    assert found is not None
    return found(size)


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
    assert parse_quantity(text) == number


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


def taint(effect: str, key: str = "pool", value: str = "gpu") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


MASTER = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "counts"),
    [
        ([MASTER], (), False),
        ([taint("NoExecute")], (), False),
        ([taint("PreferNoSchedule")], (), True),
        ([MASTER], ({"key": MASTER["key"], "operator": "Exists"},), True),
        ([MASTER], ({"key": MASTER["key"], "effect": "NoSchedule"},), True),
        ([MASTER], ({"key": MASTER["key"], "operator": "Exists", "effect": "NoExecute"},), False),
        ([taint("NoSchedule")], ({"key": "pool", "operator": "Equal", "value": "gpu"},), True),
        ([taint("NoSchedule")], ({"key": "pool", "value": "other"},), False),
        ([taint("NoSchedule")], ({"operator": "Exists"},), True),
        ([taint("NoSchedule"), MASTER], ({"key": "pool", "value": "gpu"},), False),
    ],
)
def test_a_node_counts_only_where_its_taints_are_tolerated(
    taints: list[dict[str, str]], tolerations: tuple[dict[str, str], ...], counts: bool
) -> None:
    nodes = [node("4", "16Gi", taints=taints)]
    assert bool(capacity_of(nodes, replace(TARGET, tolerations=tolerations)).cores) == counts
    template = {"spec": {"tolerations": list(tolerations)}}
    assert bool(capacity_of(nodes, replace(TARGET, executor_template=template)).cores) == counts


def test_a_node_that_is_not_ready_has_no_room_and_no_size() -> None:
    workers = [node("4", "16Gi"), node("16", "64Gi")]
    for worker, status in zip(workers, ("True", "Unknown"), strict=True):
        worker["status"]["conditions"] = [{"type": "Ready", "status": status}, {"type": "DiskPressure", "status": "x"}]
    assert capacity_of(workers, TARGET).memory_bytes == 16 * GIB
    assert current_capacity(workers, TARGET).node == Node(4, 16 * GIB)


def test_a_pod_that_fits_on_no_node_waits_for_one_though_all_together_could_hold_it() -> None:
    size = ClusterSize(ProcessSize(1, GIB), ProcessSize(8, 4 * GIB), 1)
    problem = obstacle(size, [node("4", "16Gi")] * 4)
    assert problem is not None
    assert problem.code == "capacity"
    assert problem.message == (
        "it waits for a node of 8 cores and 4.4 GiB for the executor; the largest today has 4 and 16.0 GiB"
    )
    assert "--executor-cores 4" in problem.fix


def test_the_sidecar_and_files_in_memory_need_room_on_the_node() -> None:
    size = ClusterSize(ProcessSize(4, GIB), ProcessSize(4, 4 * GIB), 1, scratch_memory_bytes=12 * GIB)
    driver = obstacle(size, [node("4", "16Gi")])
    assert driver is not None
    assert "a node of 4.05 cores and 1.5 GiB for the driver" in driver.message
    assert "--driver-cores 3" in driver.fix
    executor = obstacle(replace(size, driver=ProcessSize(1, GIB)), [node("4", "16Gi")])
    assert executor is not None
    assert "--executor-memory 3686m" not in driver.fix
    fitting = replace(size, driver=ProcessSize(3, GIB), executor=ProcessSize(4, 3500 << 20))
    assert obstacle(fitting, [node("4", "16Gi")]) is None


def test_what_one_node_holds_is_no_problem() -> None:
    size = ClusterSize(ProcessSize(1, GIB), ProcessSize(4, 14 * GIB), 9)
    assert obstacle(size, [node("4", "16Gi")]) is None


def test_with_no_node_at_all_a_cluster_waits_for_the_first() -> None:
    waits = obstacle(ClusterSize(ProcessSize(1, GIB), ProcessSize(4, 14 * GIB), 9), [])
    assert waits is not None
    assert waits.message == "it waits for a node of 1.05 cores and 1.5 GiB for the driver; no node accepts pods"
    assert "declare capacity:" in waits.fix


def test_too_large_is_what_the_declared_maximum_cannot_hold() -> None:
    target = replace(TARGET, capacity=Capacity(64, 256 * GIB), largest_node=Node(8, 32 * GIB))
    most = declared_capacity(target)
    assert most is not None
    now = replace(current_capacity([node("2", "4Gi")], target), elastic=True, most=most)
    fits = ClusterSize(ProcessSize(1, GIB), ProcessSize(8, 16 * GIB), 4)
    assert admission.too_large(fits, now) is None
    no_node = admission.too_large(replace(fits, executor=ProcessSize(16, 16 * GIB)), now)
    assert no_node is not None
    assert no_node.code == "too_large"
    assert no_node.message == (
        "no node can hold the executor: it needs 16 cores and 17.6 GiB with its overhead, "
        "the largest declared has 8 and 32.0 GiB"
    )
    assert admission.too_large(replace(fits, executors=100), now) is not None
    undeclared = replace(now, most=None)
    assert admission.too_large(replace(fits, executors=100), undeclared) is None
    waits = admission.waits_for(replace(fits, executor=ProcessSize(1, GIB), executors=100), undeclared)
    assert waits is not None
    assert waits.message == "it waits for nodes with 101 cores and 138.9 GiB in all; today's have 2 and 4.0 GiB"


@given(
    st.lists(st.tuples(st.integers(500, 64_000), st.integers(1 << 10, 256 << 10)), min_size=1, max_size=6),
    st.sampled_from([1.0, 0.5]),
)
def test_the_usual_size_waits_for_no_larger_node_where_the_least_cluster_does_not(
    nodes: list[tuple[int, int]], cpu_request: float
) -> None:
    target = replace(TARGET, cpu_request=cpu_request)
    now = replace(current_capacity([node(f"{cpu}m", f"{memory}Mi") for cpu, memory in nodes], target), elastic=True)
    least = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), 1)
    if admission.waits_for(least, now) is None:
        assert admission.waits_for(admission.usual_size(now), now) is None


def test_the_usual_executor_has_the_cores_of_one_node_and_leaves_some_to_the_systems_pods() -> None:
    now = replace(current_capacity([node("7910m", "30Gi")] * 10, TARGET), elastic=True)
    assert admission.usual_size(now).executor == ProcessSize(7, int(27 * GIB / 4) >> 20 << 20)
