"""A namespace's quotas count before the first pod; an application without room waits, with the quota as its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.clusters.kubernetes import cluster, manifest, plan, pod_status, resources
from penstock.clusters.kubernetes.backend import KubernetesBackend
from penstock.clusters.kubernetes.target import Target
from penstock.engine.policy import admission, scheduling
from penstock.home import Home
from penstock.model import Capacity, ClusterSize, Node, Overhead, ProcessSize
from penstock.processes import wait_until
from penstock.units import parse_quantity
from tests.unit.clusters.kubernetes.kubernetes_fake import FakeKubernetes
from tests.unit.clusters.kubernetes.kubernetes_making import SIZE, TARGET, container, launch
from tests.unit.engine.engine_making import START

GIB = 1 << 30
SMALL = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), 1)
NODES = Capacity(cores=64, memory_bytes=256 * GIB)


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": "team"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }


def asked(size: ClusterSize, target: Target, name: str) -> float:
    """Return the sum that the API server calculates over every container of every pod."""
    if name in ("pods", "count/pods"):
        return 1 + size.executors
    kind, _, resource = name.rpartition(".")
    wanted = launch(spec=replace(launch().spec, size=size))
    driver = manifest.driver_pod(target, wanted)["spec"]["containers"]
    settings = plan.settings(target, wanted)
    cores = {
        "requests": settings["spark.kubernetes.executor.request.cores"],
        "limits": settings["spark.executor.cores"],
    }
    memory = int(settings["spark.executor.memory"][:-1]) + int(settings["spark.executor.memoryOverhead"][:-1])
    executor = f"{memory}Mi" if resource == "memory" else cores[kind or "requests"]
    pods = sum(parse_quantity(container["resources"][kind or "requests"][resource]) for container in driver)
    return pods + size.executors * parse_quantity(executor)


NAMES = (
    *("cpu", "requests.cpu", "limits.cpu", "memory", "requests.memory", "limits.memory"),
    *("pods", "count/pods"),
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [SMALL, SIZE, replace(SIZE, scratch_memory_bytes=6 * GIB)])
@pytest.mark.parametrize(("overhead", "cpu_request"), [(Overhead(), 1.0), (Overhead(factor=0.5), 0.3)])
def test_as_many_applications_are_promised_room_as_their_pods_find(
    name: str, size: ClusterSize, overhead: Overhead, cpu_request: float
) -> None:
    target = replace(TARGET, cpu_request=cpu_request)
    size = replace(size, driver_overhead=overhead, executor_overhead=overhead)
    each = asked(size, target, name)
    for number in (1, 2, 7):
        has = resources.limit_by_quotas(NODES, [quota({name: f"{round(each * number * 1000)}m"})], target)
        assert admission.refuse(size, has) is None
        assert admission.room(size, [size] * (number - 1), has) is None
        assert admission.room(size, [size] * number, has) is not None


def test_waiting_for_a_quota_is_explained_with_its_name_and_figures() -> None:
    has = resources.limit_by_quotas(NODES, [quota({"limits.cpu": "7"})], TARGET)
    waits = admission.room(SMALL, [SMALL, SMALL], has)
    assert waits is not None
    assert waits.code == "quota_exceeded"
    assert waits.message == "it needs 3 of the namespace's quota team (limits.cpu), 1 are free"
    assert "describe resourcequota" in waits.fix


def test_the_usual_size_fits_a_quota_that_has_room_for_any() -> None:
    least = resources.limit_by_quotas(NODES, [quota({"limits.cpu": "2.9", "pods": "9"})], TARGET)
    assert admission.refuse(admission.usual_size(least), least) is not None
    for cores in ("3", "3.5", "4", "7", "8", "9.9"):
        has = resources.limit_by_quotas(NODES, [quota({"limits.cpu": cores, "requests.memory": "8Gi"})], TARGET)
        assert admission.refuse(admission.usual_size(has), has) is None


def test_cores_are_counted_as_pods_ask_for_them() -> None:
    half = replace(TARGET, cpu_request=0.5)
    # Two applications: each has two pods that request half a core, and a sidecar that requests a twentieth.
    has = resources.limit_by_quotas(NODES, [quota({"requests.cpu": "2100m"})], half)
    assert admission.room(SMALL, [SMALL], has) is None
    assert admission.room(SMALL, [SMALL] * 2, has) is not None


def test_what_could_never_fit_is_refused_and_says_what_would() -> None:
    for hard in ({"requests.memory": "4Gi"}, {"pods": "4"}, {"limits.cpu": "5"}):
        refused = admission.refuse(
            replace(SMALL, executors=10), resources.limit_by_quotas(NODES, [quota(hard)], TARGET)
        )
        assert refused is not None
        assert refused.code == "too_large"
        assert "--executors 3" in refused.fix


def test_a_quota_that_was_lowered_makes_applications_wait_and_fails_none() -> None:
    lowered = replace(resources.limit_by_quotas(NODES, [quota({"limits.cpu": "2"})], TARGET), elastic=True)
    found = scheduling.schedule(
        scheduling.QueueSnapshot(START, lowered, [scheduling.QueuedApplication("one", "a", SMALL, START)])
    )
    assert not found.refused
    (place,) = found.places
    assert place.reason is not None
    assert place.reason.code == "quota_exceeded"
    assert place.reason.message == "it needs 3 of the namespace's quota team (limits.cpu), which allows 2"
    assert "describe resourcequota" in place.reason.fix


def test_a_quota_for_some_pods_only_is_left_to_the_api_server() -> None:
    for scope in ({"scopes": ["BestEffort"]}, {"scopeSelector": {"matchExpressions": []}}):
        assert resources.limit_by_quotas(NODES, [quota({"cpu": "1", "memory": "1Gi"}, **scope)], TARGET) == NODES
    assert resources.limit_by_quotas(NODES, [quota({"services": "1"})], TARGET) == NODES


def test_executors_refused_by_a_quota_are_reported_with_its_name_and_figures() -> None:
    driver = manifest.driver_pod(TARGET, launch())
    missing = pod_status.missing_executors(driver, [{"metadata": {"name": "one"}}])
    assert missing is not None
    assert missing.number == SIZE.executors - 1
    full = [quota({"requests.memory": "4Gi"}, {"requests.memory": "3Gi"})]
    shortage = resources.shortage(full, missing.each)
    assert shortage == "team: requests.memory 3Gi of 4Gi used"
    reason = pod_status.quota_reason(missing.number, shortage)
    assert reason.code == "quota_exceeded"
    assert (
        reason.message
        == "2 executors are not created: no room in the namespace's quota team: " + shortage.partition(": ")[2]
    )
    assert resources.shortage([quota({"requests.memory": "40Gi"}, {"requests.memory": "3Gi"})], missing.each) is None
    assert resources.shortage([quota({"pods": "3"}, {"pods": "3"})], missing.each) == "team: pods 3 of 3 used"


def test_executors_whose_number_is_sparks_choice_are_not_missed() -> None:
    wanted = launch(settings={"spark.dynamicAllocation.enabled": "true"})
    assert pod_status.missing_executors(manifest.driver_pod(TARGET, wanted), []) is None
    assert pod_status.missing_executors(manifest.driver_pod(TARGET, launch()), [{}] * SIZE.executors) is None


def test_the_capacity_of_a_backend_is_what_nodes_and_quotas_both_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, kubernetes = KubernetesBackend(Home(tmp_path), TARGET), FakeKubernetes()
    monkeypatch.setattr(backend, "_opened", kubernetes)
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi"}}}
    kubernetes.objects["/api/v1/nodes/n"] = node
    kubernetes.objects["/api/v1/namespaces/lake/resourcequotas/team"] = quota({"requests.memory": "4Gi"})
    assert backend.capacity().memory_bytes == 4 * GIB - (128 << 20), "the sidecar's memory is not for heaps"
    assert backend.capacity().cores == 4


def test_without_a_declared_maximum_no_application_is_refused_for_todays_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, kubernetes = KubernetesBackend(Home(tmp_path), TARGET), FakeKubernetes()
    monkeypatch.setattr(backend, "_opened", kubernetes)
    monkeypatch.setattr(backend, "_usable_at", float("inf"))
    assert admission.too_large(SIZE, backend.capacity()) is None, "an autoscaler at zero"
    backend.check(replace(launch().spec, size=SIZE))
    waits = admission.waits_for(SIZE, backend.capacity())
    assert waits is not None
    assert "no node accepts pods" in waits.message
    assert admission.usual_size(backend.capacity()).executor.cores == 1, "what asks for no size can wait, too"


def test_a_declared_maximum_is_promised_before_the_nodes_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An autoscaler adds nodes for pending pods, so the pods have to be created."""
    target = replace(TARGET, capacity=Capacity(16, 64 * GIB), largest_node=Node(4, 16 * GIB))
    backend, kubernetes = KubernetesBackend(Home(tmp_path), target), FakeKubernetes()
    monkeypatch.setattr(backend, "_opened", kubernetes)
    has = backend.capacity()
    assert admission.room(SIZE, [], has) is None
    assert admission.too_large(SIZE, has) is None
    assert admission.too_large(replace(SIZE, executor=ProcessSize(8, GIB)), has) is not None


def test_the_usual_size_fits_a_node_also_where_only_a_total_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor with all declared cores would wait for its node for ever."""
    target = replace(TARGET, capacity=Capacity(32, 256 * GIB))
    backend, kubernetes = KubernetesBackend(Home(tmp_path), target), FakeKubernetes()
    monkeypatch.setattr(backend, "_opened", kubernetes)
    assert admission.usual_size(backend.capacity()).executor.cores == 3, "no node yet: a small one is expected"
    kubernetes.objects["/api/v1/nodes/n"] = {
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "7910m", "memory": "30Gi"}},
    }
    backend = KubernetesBackend(Home(tmp_path), target)
    monkeypatch.setattr(backend, "_opened", kubernetes)
    assert admission.usual_size(backend.capacity()).executor.cores == 7
    assert backend.capacity().cores == 32, "the total is as declared"


def test_a_running_application_whose_executors_a_quota_refuses_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, kubernetes = KubernetesBackend(Home(tmp_path), TARGET), FakeKubernetes()
    monkeypatch.setattr(backend, "_opened", kubernetes)
    monkeypatch.setattr(cluster, "_QUOTA_SECONDS", 0.0)
    script = tmp_path / "a.py"
    script.touch()
    wanted = launch(spec=replace(launch().spec, application=str(script)))
    handle = backend.handle(wanted.application_id)
    backend.launch(wanted)
    runs = [container("driver", running={}), container("keeper", running={})]
    kubernetes.become(f"/api/v1/namespaces/lake/pods/{wanted.application_id}", phase="Running", containerStatuses=runs)
    full = quota({"requests.memory": "4Gi"}, {"requests.memory": "3Gi"})
    kubernetes.objects["/api/v1/namespaces/lake/resourcequotas/team"] = full

    def code() -> str:
        reason = backend.observe(handle).reason
        return reason.code if reason else ""

    assert wait_until(lambda: code() == "quota_exceeded", 20)
    del kubernetes.objects["/api/v1/namespaces/lake/resourcequotas/team"]
    assert code() == ""
    backend.release(handle)
