"""A real API server accepts the chart's objects."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.clusters.kubernetes import manifest
from penstock.clusters.kubernetes.target import Target, parse_target
from tests.support.kubernetes.chart import FULL, NODES, SMALL
from tests.support.kubernetes.tools import tool
from tests.support.waiting import within
from tests.unit.clusters.kubernetes.kubernetes_making import launch

pytest_plugins = ["tests.support.kubernetes.rendering"]

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]
NODE_DIRECTORY = NODES["pageCache"]["disk"]["path"]
ROOT_OF_THE_NODE = {"name": "root", "hostPath": {"path": "/"}}


@pytest.fixture
def kubectl(request: pytest.FixtureRequest) -> Kubectl:
    config = os.environ.get("PENSTOCK_TEST_KUBECONFIG")
    if not config:
        pytest.skip("PENSTOCK_TEST_KUBECONFIG names no cluster: make test-kubernetes")
    cache = request.config.cache
    assert cache is not None
    program = tool("kubectl", cache.mkdir("kubernetes-tools"))

    def run(*arguments: str, things: object = ()) -> subprocess.CompletedProcess[str]:
        command = [program, "--kubeconfig", config, *arguments]
        text = yaml.safe_dump_all(things)
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("values", [SMALL, {**SMALL, **NODES}, FULL], ids=["small", "nodes", "full"])
def test_a_real_api_server_takes_it(rendered: Any, kubectl: Kubectl, values: dict[str, Any]) -> None:
    """The server validates and admits the objects without storing them, which covers rules that no schema states."""
    # A dry run makes no namespace for the objects that follow.
    there = {"namespace": "default", "createNamespace": False}
    found = rendered({**values, "applications": {**values.get("applications", {}), **there}})
    for thing in found.values():
        thing["metadata"]["namespace"] = "default"
    ran = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", things=found.values())
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == len(found)


@pytest.fixture
def limited(rendered: Any, kubectl: Kubectl) -> Iterator[tuple[str, Target]]:
    """A namespace that the chart's policy limits, and the cluster file of its applications."""
    namespace = f"limited-{uuid.uuid4().hex[:8]}"
    of_namespace = {**NODES["applications"], "namespace": namespace}
    found = rendered({**SMALL, **NODES, "applications": of_namespace})
    kinds = {
        "Namespace",
        "ServiceAccount",
        "DaemonSet",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    made = [thing for (kind, _), thing in found.items() if kind in kinds]
    in_namespace = [thing for thing in made if thing["metadata"].get("namespace", namespace) == namespace]
    # The policy counts a moment after it was created; the DaemonSet comes after that.
    last = [thing for thing in in_namespace if thing["kind"] == "DaemonSet"]
    first = sorted(
        (thing for thing in in_namespace if thing not in last), key=lambda thing: thing["kind"] != "Namespace"
    )
    try:
        created = kubectl("create", "-f", "-", things=first)
        assert created.returncode == 0, created.stderr
        thief = pod("thief", {**honest_spec(), "hostPID": True})
        within(lambda: is_refused(kubectl, namespace, thief))
        assert kubectl("create", "-f", "-", things=last).returncode == 0
        yield namespace, parse_target(found["ConfigMap", "penstock"]["data"]["cluster.yaml"], "cluster.yaml")
    finally:
        kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", things=in_namespace)


def pod(name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": dict(spec)}


def honest_spec() -> dict[str, Any]:
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": "penstock.test/none:1", "securityContext": confined}],
    }


def is_refused(kubectl: Kubectl, namespace: str, thing: dict[str, Any]) -> bool:
    ran = kubectl("create", "--namespace", namespace, "--dry-run=server", "-f", "-", things=[thing])
    if ran.returncode:
        assert "ValidatingAdmissionPolicy" in ran.stderr, ran.stderr
    return ran.returncode != 0


def changed(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> dict[str, Any]:
    """Return an honest specification after a change of it and of its container."""
    spec = copy.deepcopy(honest_spec())
    change(spec, spec["containers"][0])
    return spec


THIEVES: Mapping[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "the node's root": lambda spec, _: spec.update(volumes=[ROOT_OF_THE_NODE]),
    "a parent of a directory": lambda spec, _: spec.update(
        volumes=[{"name": "a", "hostPath": {"path": str(Path(NODE_DIRECTORY).parent)}}]
    ),
    "a volume that the node mounts": lambda spec, _: spec.update(
        volumes=[{"name": "a", "nfs": {"server": "10.0.0.1", "path": "/"}}]
    ),
    "the node's processes": lambda spec, _: spec.update(hostPID=True),
    "the node's network": lambda spec, _: spec.update(hostNetwork=True),
    "the node's shared memory": lambda spec, _: spec.update(hostIPC=True),
    "a port of the node": lambda _, main: main.update(ports=[{"containerPort": 80, "hostPort": 80}]),
    "privileged": lambda _, main: main["securityContext"].update(privileged=True, allowPrivilegeEscalation=True),
    "an init container": lambda spec, main: spec.update(
        initContainers=[{**main, "name": "init", "securityContext": {"privileged": True}}]
    ),
    "more privileges by a program": lambda _, main: main["securityContext"].pop("allowPrivilegeEscalation"),
    "a capability": lambda _, main: main["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    "default capabilities": lambda _, main: main["securityContext"].pop("capabilities"),
    "root": lambda _, main: main["securityContext"].update(runAsUser=0),
    "root for all": lambda spec, _: spec["securityContext"].update(runAsUser=0),
    "any user": lambda spec, _: spec["securityContext"].pop("runAsNonRoot"),
    "any user in one container": lambda _, main: main["securityContext"].update(runAsNonRoot=False),
    "no seccomp": lambda spec, _: spec["securityContext"].pop("seccompProfile"),
    "unconfined": lambda _, main: main["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    "no AppArmor": lambda _, main: main["securityContext"].update(appArmorProfile={"type": "Unconfined"}),
    "an SELinux type": lambda spec, _: spec["securityContext"].update(seLinuxOptions={"type": "spc_t"}),
    "a host in a probe": lambda _, main: main.update(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 80}}),
    "a host in a hook": lambda _, main: main.update(
        lifecycle={"preStop": {"tcpSocket": {"host": "10.0.0.1", "port": 80}}}
    ),
    "a setting of the kernel": lambda spec, _: spec["securityContext"].update(
        sysctls=[{"name": "kernel.shm_rmid_forced", "value": "0"}]
    ),
}


def test_no_pod_of_a_limited_namespace_reaches_other_files_of_its_node(
    limited: tuple[str, Target], kubectl: Kubectl
) -> None:
    namespace, target = limited
    admitted = [
        name for name, change in THIEVES.items() if not is_refused(kubectl, namespace, pod("a", changed(change)))
    ]
    assert admitted == []

    honest = changed(lambda spec, _: spec.update(volumes=[{"name": "a", "hostPath": {"path": NODE_DIRECTORY}}]))
    assert not is_refused(kubectl, namespace, pod("a", honest))
    for made in (manifest.driver_pod(target, launch()), manifest.executor_template(target, launch())):
        made["metadata"]["name"] = "penstock-pod"
        assert not is_refused(kubectl, namespace, made)

    def prepared() -> list[str]:
        found = kubectl("get", "pods", "--namespace", namespace, "--output", "json")
        names = [one["metadata"]["name"] for one in json.loads(found.stdout)["items"]]
        return [name for name in names if name.startswith("penstock-node-directories")]

    within(prepared)
    # A driver may change pods: the DaemonSet's init container runs as root.
    image = {"spec": {"initContainers": [{"name": "permissions", "image": "penstock.test/thief:1"}]}}
    change = ("patch", "--namespace", namespace, "--dry-run=server", "--patch")
    refused = kubectl(*change, json.dumps(image), f"pod/{prepared()[0]}")
    assert refused.returncode != 0
    assert "a pod keeps its images" in refused.stderr
    labelled = kubectl(*change, json.dumps({"metadata": {"labels": {"a": "b"}}}), f"pod/{prepared()[0]}")
    assert labelled.returncode == 0, labelled.stderr
