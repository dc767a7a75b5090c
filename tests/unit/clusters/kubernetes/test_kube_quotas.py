"""What a namespace's quota leaves is known before there is a pod; who has no room waits, and is told for what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes_fake import FakeKubernetes
from kubernetes_making import SIZE, TARGET, container, launch

from penstock.clusters.base import Capacity
from penstock.clusters.kubernetes import cluster, explanation, manifest, quotas
from penstock.clusters.kubernetes.backend import KubernetesBackend
from penstock.engine import admission
from penstock.engine.application import ClusterSize, ProcessSize
from penstock.home import Home
from penstock.processes import until

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


@pytest.mark.parametrize("name", ["memory", "requests.memory", "limits.memory"])
def test_as_many_applications_are_promised_room_as_their_pods_find(name: str) -> None:
    pods = [manifest.driver_pod(TARGET, launch(spec=replace(launch().spec, size=SMALL)))]
    kind = "limits" if name.startswith("limits") else "requests"
    each = sum(
        quotas.quantity(container["resources"][kind]["memory"])
        for pod in pods
        for container in pod["spec"]["containers"]
    ) + manifest.memory_bytes(SMALL.executor, TARGET)
    for number in (1, 2, 7):
        has = quotas.within(NODES, [quota({name: str(int(each * number))})], TARGET)
        assert admission.room(SMALL, [SMALL] * (number - 1), has, 100) is None
        refused = admission.room(SMALL, [SMALL] * number, has, 100)
        assert refused is not None
        assert refused.code == "memory"


def test_cores_are_counted_as_pods_ask_for_them() -> None:
    half = replace(TARGET, cpu_request=0.5)
    # Two cores of half a core each, and a keeper's twentieth.
    has = quotas.within(NODES, [quota({"requests.cpu": "2100m"})], half)
    assert admission.room(SMALL, [SMALL], has) is None
    assert admission.room(SMALL, [SMALL] * 2, has) is not None


def test_what_could_never_fit_is_refused_and_says_what_would() -> None:
    has = quotas.within(NODES, [quota({"requests.memory": "4Gi"})], TARGET)
    refused = admission.refuse(replace(SMALL, executors=10), has)
    assert refused is not None
    assert (refused.code, "--executors" in refused.fix) == ("too_large", True)


def test_a_quota_for_some_pods_only_is_left_to_the_api_server() -> None:
    for scope in ({"scopes": ["BestEffort"]}, {"scopeSelector": {"matchExpressions": []}}):
        assert quotas.within(NODES, [quota({"cpu": "1", "memory": "1Gi"}, **scope)], TARGET) == NODES
    assert quotas.within(NODES, [quota({"services": "1"})], TARGET) == NODES


def test_executors_that_a_quota_refuses_are_told_with_its_name_and_figures() -> None:
    driver = manifest.driver_pod(TARGET, launch())
    missing = explanation.executors_missing(driver, [{"metadata": {"name": "one"}}])
    assert missing is not None
    assert missing.number == SIZE.executors - 1
    full = [quota({"requests.memory": "4Gi"}, {"requests.memory": "3Gi"})]
    told = quotas.shortage(full, missing.each)
    assert told == "team: requests.memory 3Gi of 4Gi used"
    reason = explanation.of_quota(missing.number, told)
    assert reason.code == "quota_exceeded"
    assert (
        reason.message == "2 executors are not made: no room in the namespace's quota team: " + told.partition(": ")[2]
    )
    assert quotas.shortage([quota({"requests.memory": "40Gi"}, {"requests.memory": "3Gi"})], missing.each) is None
    assert quotas.shortage([quota({"pods": "3"}, {"pods": "3"})], missing.each) == "team: pods 3 of 3 used"


def test_executors_whose_number_is_sparks_choice_are_not_missed() -> None:
    wanted = launch(settings={"spark.dynamicAllocation.enabled": "true"})
    assert explanation.executors_missing(manifest.driver_pod(TARGET, wanted), []) is None
    assert explanation.executors_missing(manifest.driver_pod(TARGET, launch()), [{}] * SIZE.executors) is None


def test_the_capacity_of_a_backend_is_what_nodes_and_quotas_both_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, kubernetes = KubernetesBackend(Home(tmp_path), TARGET), FakeKubernetes()
    monkeypatch.setattr(backend, "_opened", kubernetes)
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi"}}}
    kubernetes.objects["/api/v1/nodes/n"] = node
    kubernetes.objects["/api/v1/namespaces/lake/resourcequotas/team"] = quota({"requests.memory": "4Gi"})
    assert backend.capacity().memory_bytes == 4 * GIB
    assert backend.capacity().cores == 4


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

    def told() -> str:
        reason = backend.observe(handle).reason
        return reason.code if reason else ""

    assert until(lambda: told() == "quota_exceeded", 20)
    del kubernetes.objects["/api/v1/namespaces/lake/resourcequotas/team"]
    assert told() == ""
    backend.release(handle)
