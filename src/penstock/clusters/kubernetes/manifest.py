"""The objects of one application's cluster: its driver pod, its secret, the template of its executors. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from penstock.clusters.base import Launch
from penstock.clusters.kubernetes import localfiles, places, volumes
from penstock.clusters.kubernetes.target import Target
from penstock.clusters.kubernetes.templates import merged
from penstock.engine.application import ClusterSize, ProcessSize

Json = dict[str, Any]

_GRACE_SECONDS = 60
"""Of a driver pod that somebody deletes: to end Spark, and to bring its logs to the lake."""
_WORK_BYTES = 10 << 30
KEEPER_RESOURCES: Json = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"cpu": "1", "memory": "512Mi"},
}
_CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def labels(target: Target, launch: Launch, role: str) -> dict[str, str]:
    return {
        **target.labels,
        "app.kubernetes.io/part-of": "penstock",
        "app.kubernetes.io/managed-by": "penstock",
        places.APPLICATION_LABEL: launch.application_id,
        # A label's value ends with a letter or a digit.
        places.INSTANCE_LABEL: launch.spec.instance.rstrip("._-"),
        places.ROLE_LABEL: role,
    }


def driver_pod(target: Target, launch: Launch) -> Json:
    driver = {
        **_container(target, places.DRIVER),
        "args": ["python3", "-m", "penstock.clusters.kubernetes.pod.driver"],
        "env": [
            *_environment(launch),
            # Spark's pages listen where this says; the way to them leads through the keeper.
            {"name": "SPARK_LOCAL_IP", "value": "127.0.0.1"},
            _fact("PENSTOCK_POD_IP", "status.podIP"),
        ],
        "ports": [
            _port("driver", places.DRIVER_PORT),
            _port("blocks", places.BLOCKS_PORT),
        ],
        "resources": driver_resources(launch.spec.size, target),
        "volumeMounts": [
            *volumes.mounts_of_every_container(target),
            volumes.mount("launch", places.LAUNCH, read_only=True),
            volumes.mount("work", places.WORK),
        ],
    }
    keeper = {
        **_container(target, places.KEEPER),
        "args": ["python3", "-m", "penstock.clusters.kubernetes.pod.keeper"],
        "ports": [_port("keeper", places.KEEPER_PORT)],
        "resources": KEEPER_RESOURCES,
        "volumeMounts": [
            volumes.mount("private", places.PRIVATE, read_only=True),
            volumes.mount("keys", places.KEYS, read_only=True),
            volumes.mount("launch", places.LAUNCH, read_only=True),
            volumes.mount("work", places.WORK),
            volumes.mount("temporary", places.TEMPORARY),
        ],
    }
    own = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": places.object_name(launch.application_id),
            "namespace": target.namespace,
            "labels": labels(target, launch, places.DRIVER),
            "annotations": {**target.annotations, **_executors_to_come(target, launch)},
        },
        "spec": {
            **_pod_spec(target),
            "serviceAccountName": target.service_account,
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "containers": [driver, keeper],
            "volumes": [
                *volumes.of_every_pod(target, launch),
                volumes.secret_volume("launch", launch, _launch_items(launch)),
                {"name": "work", "emptyDir": {"sizeLimit": str(_WORK_BYTES)}},
            ],
        },
    }
    return merged(target.driver_template, own)


def _executors_to_come(target: Target, launch: Launch) -> dict[str, str]:
    """For whoever asks why they are not there; nothing where their number is Spark's own choice."""
    if launch.settings.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        return {}
    size = launch.spec.size
    asked = executor_resources(size, target)["requests"]
    return {places.EXECUTORS: json.dumps({"number": size.executors, **asked})}


def executor_template(target: Target, launch: Launch) -> Json:
    """What Spark makes executors from: it adds name, image, size, owner and the container's argument itself."""
    executor = {
        **_container(target, places.EXECUTOR),
        # Pages that go with the pod are found by its address; those that stay on the node, by the node's name.
        "env": [*_environment(launch), *([_fact(places.NODE_VARIABLE, "spec.nodeName")] if target.page_cache else [])],
        "volumeMounts": [*volumes.mounts_of_every_container(target), *volumes.memory_mount(launch)],
    }
    own = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": labels(target, launch, places.EXECUTOR),
            "annotations": dict(target.annotations),
        },
        "spec": {
            **_pod_spec(target),
            **_spread(target, launch),
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 10,
            "containers": [executor],
            "volumes": [*volumes.of_every_pod(target, launch), *volumes.memory_volume(launch)],
        },
    }
    return merged(target.executor_template, own)


def _spread(target: Target, launch: Launch) -> Json:
    """The application's executors on as many nodes as have room: each has pages, a network and a disk of its own.

    A wish, which costs none its place. Kubernetes refuses two for one key, so a template's own are the only ones.
    """
    if "topologySpreadConstraints" in target.executor_template.get("spec", {}):
        return {}
    wish = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {
            "matchLabels": {places.APPLICATION_LABEL: launch.application_id, places.ROLE_LABEL: places.EXECUTOR}
        },
    }
    return {"topologySpreadConstraints": [wish]}


def secret(target: Target, launch: Launch, owner: Json, content: Mapping[str, bytes]) -> Json:
    """All that the pods are told and others need not know; it goes with the driver pod `owner`."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": places.object_name(launch.application_id),
            "namespace": target.namespace,
            "labels": labels(target, launch, places.DRIVER),
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "blockOwnerDeletion": False,
                    "controller": False,
                }
            ],
        },
        "data": {name: encoded(value) for name, value in content.items()},
    }


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def driver_resources(size: ClusterSize, target: Target) -> Json:
    return _resources(size.driver, size.driver_bytes, target)


def executor_resources(size: ClusterSize, target: Target) -> Json:
    """As Spark makes them of its settings (`plan.py`).

    Files in memory are counted as the executor's own by the kernel that holds it to its limit.
    """
    return _resources(size.executor, size.executor_bytes + size.scratch_memory_of_executor, target)


def _resources(process: ProcessSize, memory_bytes: int, target: Target) -> Json:
    memory = str(memory_bytes)
    return {
        "requests": {"cpu": milli(process.cores * target.cpu_request), "memory": memory},
        "limits": {"cpu": str(process.cores), "memory": memory},
    }


def milli(cores: float) -> str:
    return f"{round(cores * 1000)}m"


def _pod_spec(target: Target) -> Json:
    chosen: Json = {
        "nodeSelector": dict(target.node_selector),
        "tolerations": [dict(toleration) for toleration in target.tolerations],
        "affinity": dict(target.affinity),
        "priorityClassName": target.priority_class,
        "imagePullSecrets": [{"name": name} for name in target.pull_secrets],
    }
    return {
        **{name: value for name, value in chosen.items() if value},
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }


def _container(target: Target, name: str) -> Json:
    policy = {"imagePullPolicy": target.pull_policy} if target.pull_policy else {}
    from_secrets = (
        [{"secretRef": {"name": secret}} for secret in target.environment_from] if name != places.KEEPER else []
    )
    return {
        "name": name,
        "image": target.image,
        **policy,
        **({"envFrom": from_secrets} if from_secrets else {}),
        "securityContext": {**_CONFINED, "readOnlyRootFilesystem": True},
    }


def _environment(launch: Launch) -> list[Json]:
    where = {"{private}": str(places.PRIVATE), "{published}": str(places.PUBLISHED)}

    def there(value: str) -> str:
        for placeholder, path in where.items():
            value = value.replace(placeholder, path)
        return value

    said = {
        "TMPDIR": str(places.SCRATCH),
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        **{name: there(value) for name, value in launch.environment.items()},
        "PENSTOCK_APPLICATION": launch.application_id,
    }
    # Kubernetes would put other variables in place of $(NAME).
    return [{"name": name, "value": value.replace("$(", "$$(")} for name, value in said.items()]


def _fact(name: str, path: str) -> Json:
    """An environment variable with what only the pod's own record says."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _launch_items(launch: Launch) -> dict[str, str]:
    return {places.PLAN: places.PLAN, places.TEMPLATE: places.TEMPLATE, **localfiles.keys(launch)}


def _port(name: str, number: int) -> Json:
    return {"name": name, "containerPort": number, "protocol": "TCP"}
