"""Clusters on Kubernetes meet the contract of local clusters and leave nothing behind.

`PENSTOCK_TEST_CLUSTER` names the file of a Kubernetes cluster that the tests may use (`penstock cluster example`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.clusters.backend import Launch, Phase
from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.backend import KubernetesBackend
from penstock.clusters.kubernetes.target import Scratch, Target, read_target
from penstock.home import Home
from tests.support.cluster_backend_contract import COUNTS_AND_WAITS, SAYS_AND_ENDS, ClusterBackendContract, until
from tests.support.waiting import within

FILE = os.environ.get("PENSTOCK_TEST_CLUSTER")

SHARED_DIRECTORY = "/var/lib/kubelet/penstock-test-scratch"
"""A directory that nodes of one machine do not share: each kubelet has its own /var/lib/kubelet."""
NAMES_ITS_DIRECTORIES = """
import os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
executors = spark.sparkContext.parallelize(range(1), 1).map(lambda _: os.getcwd()).collect()
print(sys.argv[1], os.getcwd(), *executors)
print("below", sys.argv[2], *os.listdir(sys.argv[2]))
"""

pytestmark = [pytest.mark.skipif(FILE is None, reason="PENSTOCK_TEST_CLUSTER names no cluster file")]


@pytest.fixture
def target() -> Target:
    return read_target(Path(str(FILE)))


@pytest.fixture
def backend(tmp_path: Path, target: Target) -> Iterator[KubernetesBackend]:
    backend = KubernetesBackend(Home(tmp_path / "home"), target)
    yield backend
    left = objects(backend)
    for name in left:
        backend.release(backend.handle(name))
    assert left == set(), "a test left applications on the cluster"


def objects(backend: KubernetesBackend) -> set[str]:
    """Return the applications that have an object in the namespace."""
    found = set()
    for kind in ("pods", "secrets", "configmaps", "services", "persistentvolumeclaims"):
        path = f"/api/v1/namespaces/{backend.target.namespace}/{kind}"
        listed = backend.api.get(path, labelSelector=layout.APPLICATION_LABEL).get("items") or []
        found |= {item["metadata"]["labels"][layout.APPLICATION_LABEL] for item in listed}
    return found


def create_node_directory(backend: KubernetesBackend, path: str) -> str:
    """Create a directory that every user may write to on one of the nodes. Returns the node's name."""
    pods = f"/api/v1/namespaces/{backend.target.namespace}/pods"
    container = {
        "name": "main",
        "image": backend.target.image,
        "imagePullPolicy": backend.target.pull_policy,
        "command": ["chmod", "1777", "/directory"],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "directory", "mountPath": "/directory"}],
    }
    volume = {"name": "directory", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    name = f"directory-{uuid.uuid4().hex[:8]}"
    backend.api.create(pods, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec})
    within(lambda: backend.api.get(f"{pods}/{name}")["status"]["phase"] == "Succeeded")
    node: str = backend.api.get(f"{pods}/{name}")["spec"]["nodeName"]
    backend.api.delete(f"{pods}/{name}", grace_seconds=0)
    return node


def delete_pods(backend: KubernetesBackend, application_id: str, role: str, *, grace_seconds: int) -> None:
    selector = f"{layout.APPLICATION_LABEL}={application_id},{layout.ROLE_LABEL}={role}"
    path = f"/api/v1/namespaces/{backend.target.namespace}/pods"
    backend.api.delete(path, grace_seconds=grace_seconds, labelSelector=selector)


class TestKubernetesBackend(ClusterBackendContract):
    def left_of(self, backend: KubernetesBackend, application_id: str) -> list[str]:  # type: ignore[override]
        """Return the containers of the driver and executors that still run."""
        path = f"/api/v1/namespaces/{backend.target.namespace}/pods"
        pods = backend.api.get(path, labelSelector=f"{layout.APPLICATION_LABEL}={application_id}").get("items") or []
        return [
            f"{pod['metadata']['name']}/{status['name']}"
            for pod in pods
            for status in pod["status"].get("containerStatuses") or []
            if "running" in status["state"] and status["name"] != layout.SIDECAR
        ]

    def test_another_engine_goes_on_where_one_stopped(
        self, backend: KubernetesBackend, launch: Callable[..., Launch], tmp_path: Path
    ) -> None:
        wanted = launch(COUNTS_AND_WAITS)
        backend.launch(wanted)
        handle = backend.handle(wanted.application_id)
        until(backend, handle, Phase.RUNNING)
        other = KubernetesBackend(Home(tmp_path / "another home"), backend.target)
        other.launch(wanted)
        assert until(other, handle, Phase.RUNNING).spark_application_id
        within(lambda: b"counted 10" in other.read(handle, "driver.out", 0))
        other.stop(handle, grace_seconds=10)
        assert other.observe(handle).phase is Phase.ENDED
        other.release(handle)

    def test_an_executor_that_is_killed_is_replaced_and_its_words_are_kept(
        self, backend: KubernetesBackend, launch: Callable[..., Launch]
    ) -> None:
        wanted = launch(COUNTS_AND_WAITS)
        handle = backend.handle(wanted.application_id)
        backend.launch(wanted)
        within(lambda: b"counted 10" in backend.read(handle, "driver.out", 0))
        delete_pods(backend, wanted.application_id, layout.EXECUTOR, grace_seconds=0)
        within(lambda: backend.sizes(handle).get("executor-2.log", 0) > 0)
        assert backend.observe(handle).phase is Phase.RUNNING
        backend.stop(handle, grace_seconds=10)
        kept = backend.collect(handle)
        assert (kept / "executor-1.log").stat().st_size > 0
        backend.release(handle)

    def test_a_driver_that_somebody_deletes_is_lost_and_said_to_be(
        self, backend: KubernetesBackend, launch: Callable[..., Launch]
    ) -> None:
        wanted = launch(COUNTS_AND_WAITS)
        handle = backend.handle(wanted.application_id)
        backend.launch(wanted)
        until(backend, handle, Phase.RUNNING)
        delete_pods(backend, wanted.application_id, layout.DRIVER, grace_seconds=0)
        within(lambda: backend.observe(handle).phase is Phase.LOST)
        reason = backend.observe(handle).reason
        assert reason is not None
        assert reason.code == "driver_lost"
        backend.stop(handle, grace_seconds=5)
        backend.collect(handle)
        backend.release(handle)
        # The driver owns its executors: Kubernetes deletes them.
        within(lambda: objects(backend) == set())

    def test_pods_that_share_a_directory_of_their_node_work_apart_and_leave_nothing_there(
        self, backend: KubernetesBackend, launch: Callable[..., Launch], tmp_path: Path
    ) -> None:
        node = create_node_directory(backend, SHARED_DIRECTORY)
        target = replace(
            backend.target,
            scratch=Scratch(path=SHARED_DIRECTORY),
            node_selector={**backend.target.node_selector, "kubernetes.io/hostname": node},
        )
        shared = KubernetesBackend(Home(tmp_path / "home"), target)
        left: list[str] = []
        # The program changes between the runs: Spark keeps a file of that name that it finds in a working directory.
        for word in ("first", "second"):
            program = NAMES_ITS_DIRECTORIES.replace("sys.argv[1]", repr(word))
            wanted = launch(program, "unused", str(layout.SCRATCH))
            handle = shared.handle(wanted.application_id)
            shared.launch(wanted)
            assert until(shared, handle, Phase.ENDED).exit_code == 0
            (said, driver, executor), (below, volume, *found) = (
                line.split() for line in shared.read(handle, "driver.out", 0).decode().splitlines()
            )
            assert (said, below) == (word, "below")
            directories = {Path(driver).name, Path(executor).name}
            assert len(directories) == 2
            assert {str(Path(driver).parent), str(Path(executor).parent)} == {volume}
            assert directories <= set(found)
            assert not set(left) & set(found)
            left += directories
            shared.collect(handle)
            shared.release(handle)

    def test_a_missing_image_is_reported(self, target: Target, launch: Callable[..., Launch], tmp_path: Path) -> None:
        wrong = replace(target, image="penstock.invalid/none:1", pull_policy="IfNotPresent")
        backend = KubernetesBackend(Home(tmp_path / "home"), wrong)
        wanted = launch(SAYS_AND_ENDS, "never")
        handle = backend.handle(wanted.application_id)
        backend.launch(wanted)
        within(lambda: backend.observe(handle).reason is not None)
        reason = backend.observe(handle).reason
        assert reason is not None
        assert reason.code == "image_pull_failed"
        assert "penstock.invalid/none:1" in reason.message
        backend.stop(handle, grace_seconds=0)
        backend.release(handle)
        assert objects(backend) == set()
