"""The objects of one application's cluster: driver pod, secret, executors' and users' templates, volumes. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from penstock.clusters.backend import Launch
from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.target import Target
from penstock.model import ClusterSize, ProcessSize

Json = dict[str, Any]

_TEMPORARY_BYTES = 2 << 30


def _spark_mounts(target: Target) -> list[Json]:
    """Return the mounts of every container that runs Spark."""
    return [
        mount("private", layout.PRIVATE, read_only=True),
        mount("keys", layout.KEYS, read_only=True),
        # Spark uses every mount whose name begins like this as a local directory.
        mount("spark-local-dir-1", layout.SCRATCH),
        mount("temporary", layout.TEMPORARY),
        *(mount(f"cache-{tier}", layout.CACHE / tier) for tier in target.page_cache),
    ]


def _spark_volumes(target: Target, launch: Launch) -> list[Json]:
    private = {name: name for name in launch.private_files}
    keys = {layout.TOKEN: layout.TOKEN, layout.AUTHENTICATION: layout.AUTHENTICATION}
    return [
        secret_volume("private", launch, private),
        secret_volume("keys", launch, keys),
        _scratch_volume(target),
        {"name": "temporary", "emptyDir": {"sizeLimit": str(_TEMPORARY_BYTES)}},
        *(
            {"name": f"cache-{tier}", "hostPath": {"path": directory.path, "type": "DirectoryOrCreate"}}
            for tier, directory in target.page_cache.items()
        ),
    ]


def _scratch_volume(target: Target) -> Json:
    scratch = target.scratch
    if scratch.path:
        return {"name": "spark-local-dir-1", "hostPath": {"path": scratch.path, "type": "Directory"}}
    medium = {"medium": "Memory"} if scratch.medium == "memory" else {}
    return {"name": "spark-local-dir-1", "emptyDir": {**medium, "sizeLimit": str(scratch.size_bytes)}}


def memory_volume(launch: Launch) -> list[Json]:
    """Return the volume with an executor's share of the scratch in memory; none without such scratch."""
    if not (share := launch.spec.size.scratch_memory_of_executor):
        return []
    return [{"name": "scratch-memory", "emptyDir": {"medium": "Memory", "sizeLimit": str(share)}}]


def memory_mount(launch: Launch) -> list[Json]:
    return [mount("scratch-memory", layout.SCRATCH_MEMORY)] if launch.spec.size.scratch_memory_of_executor else []


def secret_volume(name: str, launch: Launch, items: Mapping[str, str]) -> Json:
    """Return a volume with the given keys of the application's secret; an empty directory where there are none."""
    # A secret volume without items would hold every key.
    chosen = [{"key": key, "path": path} for key, path in items.items()]
    if not chosen:
        return {"name": name, "emptyDir": {"sizeLimit": "1Mi"}}
    return {"name": name, "secret": {"secretName": layout.object_name(launch.application_id), "items": chosen}}


def mount(name: str, path: object, *, read_only: bool = False) -> Json:
    return {"name": name, "mountPath": str(path), **({"readOnly": True} if read_only else {})}


_KEYED = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath"}
"""Lists by the key that identifies their entries, as in the API's own strategic merge."""


def merge(template: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two objects; `own` takes precedence.

    Entries of lists in `_KEYED` are merged by their key; other lists are concatenated without duplicates.
    """
    result = dict(template)
    for name, value in own.items():
        below = template.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            result[name] = merge(below, value)
        elif isinstance(value, list) and isinstance(below, list):
            result[name] = _lists(below, value, _KEYED.get(name))
        else:
            result[name] = value
    return result


def _lists(below: list[Any], own: list[Any], key: str | None) -> list[Any]:
    if key is None:
        return [*own, *(entry for entry in below if entry not in own)]
    others = {entry.get(key): entry for entry in below}
    ours = [merge(others.pop(entry.get(key), {}), entry) for entry in own]
    return [*ours, *others.values()]


_GRACE_SECONDS = 60
"""The time that a deleted driver pod has to end Spark and to upload its logs to the lake."""
WORK_BYTES = 10 << 30
"""The size of the volume with the artifacts."""
SIDECAR_RESOURCES: Json = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"cpu": "1", "memory": "512Mi"},
}
_CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def labels(target: Target, launch: Launch, role: str) -> dict[str, str]:
    return {
        **target.labels,
        "app.kubernetes.io/part-of": "penstock",
        "app.kubernetes.io/managed-by": "penstock",
        layout.APPLICATION_LABEL: launch.application_id,
        # A label's value ends with a letter or a digit.
        layout.INSTANCE_LABEL: launch.spec.instance.rstrip("._-"),
        layout.ROLE_LABEL: role,
    }


def driver_pod(target: Target, launch: Launch) -> Json:
    driver = {
        **_container(target, layout.DRIVER),
        "args": ["python3", "-m", "penstock.clusters.kubernetes.pod.driver"],
        "env": [
            *_environment(target, launch),
            # Spark's web UI listens on this address only; requests to it go through the sidecar.
            {"name": "SPARK_LOCAL_IP", "value": "127.0.0.1"},
            _pod_field("PENSTOCK_POD_IP", "status.podIP"),
        ],
        "ports": [
            _port("driver", layout.DRIVER_PORT),
            _port("blocks", layout.BLOCKS_PORT),
        ],
        "resources": driver_resources(launch.spec.size, target),
        "volumeMounts": [
            *_spark_mounts(target),
            mount("launch", layout.LAUNCH, read_only=True),
            mount("work", layout.WORK),
        ],
    }
    sidecar = {
        **_container(target, layout.SIDECAR),
        "args": ["python3", "-m", "penstock.clusters.kubernetes.pod.sidecar"],
        "ports": [_port("keeper", layout.SIDECAR_PORT)],
        "resources": SIDECAR_RESOURCES,
        "volumeMounts": [
            mount("private", layout.PRIVATE, read_only=True),
            mount("keys", layout.KEYS, read_only=True),
            mount("launch", layout.LAUNCH, read_only=True),
            mount("work", layout.WORK),
            mount("temporary", layout.TEMPORARY),
        ],
    }
    own = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": layout.object_name(launch.application_id),
            "namespace": target.namespace,
            "labels": labels(target, launch, layout.DRIVER),
            "annotations": {**target.annotations, **_executors_to_come(target, launch)},
        },
        "spec": {
            **_pod_spec(target),
            "serviceAccountName": target.service_account,
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "containers": [driver, sidecar],
            "volumes": [
                *_spark_volumes(target, launch),
                secret_volume("launch", launch, _launch_items(launch)),
                {"name": "work", "emptyDir": {"sizeLimit": str(WORK_BYTES)}},
            ],
        },
    }
    return merge(target.driver_template, own)


def _executors_to_come(target: Target, launch: Launch) -> dict[str, str]:
    """Return the annotation that explains missing executors; none where Spark chooses their number."""
    if launch.settings.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        return {}
    size = launch.spec.size
    requests = executor_resources(size, target)["requests"]
    return {layout.EXECUTORS: json.dumps({"number": size.executors, **requests})}


def executor_template(target: Target, launch: Launch) -> Json:
    """Return Spark's template of an executor pod; Spark adds name, image, size, owner and the container's argument."""
    executor = {
        **_container(target, layout.EXECUTOR),
        # Cached pages in the pod are found by its address, those on the node by the node's name.
        "env": [
            *_environment(target, launch),
            *([_pod_field(layout.NODE_VARIABLE, "spec.nodeName")] if target.page_cache else []),
        ],
        "volumeMounts": [*_spark_mounts(target), *memory_mount(launch)],
    }
    own = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": labels(target, launch, layout.EXECUTOR),
            "annotations": dict(target.annotations),
        },
        "spec": {
            **_pod_spec(target),
            **_spread(target, launch),
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 10,
            "containers": [executor],
            "volumes": [*_spark_volumes(target, launch), *memory_volume(launch)],
        },
    }
    return merge(target.executor_template, own)


def _spread(target: Target, launch: Launch) -> Json:
    """Spread the application's executors over the nodes: each node has a page cache, a network and a disk of its own.

    The constraint is soft and never leaves an executor unscheduled. Kubernetes rejects two constraints with one key,
    so those of a template replace this one.
    """
    if "topologySpreadConstraints" in target.executor_template.get("spec", {}):
        return {}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {
            "matchLabels": {layout.APPLICATION_LABEL: launch.application_id, layout.ROLE_LABEL: layout.EXECUTOR}
        },
    }
    return {"topologySpreadConstraints": [constraint]}


def secret(target: Target, launch: Launch, owner: Json, content: Mapping[str, bytes]) -> Json:
    """Return the secret with everything that the pods read; it is deleted with the driver pod `owner`."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": layout.object_name(launch.application_id),
            "namespace": target.namespace,
            "labels": labels(target, launch, layout.DRIVER),
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
        "data": {name: encode(value) for name, value in content.items()},
    }


def encode(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def driver_resources(size: ClusterSize, target: Target) -> Json:
    return _resources(size.driver, size.driver_bytes, target)


def executor_resources(size: ClusterSize, target: Target) -> Json:
    """Return the resources that Spark derives from its settings (`plan`).

    The kernel counts files in memory towards the executor's limit.
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
        [{"secretRef": {"name": secret}} for secret in target.environment_from] if name != layout.SIDECAR else []
    )
    return {
        "name": name,
        "image": target.image,
        **policy,
        **({"envFrom": from_secrets} if from_secrets else {}),
        "securityContext": {**_CONFINED, "readOnlyRootFilesystem": True},
    }


def _environment(target: Target, launch: Launch) -> list[Json]:
    paths = {"{private}": str(layout.PRIVATE), "{published}": str(layout.PUBLISHED)}

    def expand(value: str) -> str:
        for placeholder, path in paths.items():
            value = value.replace(placeholder, path)
        return value

    variables = {
        "TMPDIR": str(layout.SCRATCH),
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        **{name: expand(value) for name, value in launch.environment.items()},
        "PENSTOCK_APPLICATION": launch.application_id,
        **({layout.SHARED_SCRATCH: "true"} if target.scratch.path else {}),
    }
    # Kubernetes would expand $(NAME).
    return [{"name": name, "value": value.replace("$(", "$$(")} for name, value in variables.items()]


def _pod_field(name: str, path: str) -> Json:
    """Return an environment variable with the value of a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _launch_items(launch: Launch) -> dict[str, str]:
    return {layout.PLAN: layout.PLAN, layout.TEMPLATE: layout.TEMPLATE, **layout.local_keys(launch)}


def _port(name: str, number: int) -> Json:
    return {"name": name, "containerPort": number, "protocol": "TCP"}
