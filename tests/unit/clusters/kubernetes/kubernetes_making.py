"""Targets, launches and pods for the tests in this directory."""

from __future__ import annotations

from typing import Any

from penstock.clusters.backend import Launch
from penstock.clusters.kubernetes.target import Target
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize

SIZE = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(2, 2 << 30), 3)
TARGET = Target(namespace="lake", image="registry.example/penstock:1")


def launch(**more: Any) -> Launch:
    spec = ApplicationSpec(
        application="/home/me/ein Vergleich, 100%.py", size=SIZE, name="n", arguments=("ß", "$(HOME)")
    )
    given: dict[str, Any] = {
        "application_id": "app-20261122-abc",
        "spec": spec,
        "settings": {"spark.sql.shuffle.partitions": "4"},
        "environment": {"KEYS": "{private}/keys", "MONEY": "$(HOME)"},
        "private_files": {"keys": "open sesame"},
    }
    return Launch(**{**given, **more})


def pod(**status: Any) -> dict[str, Any]:
    containers = [
        {"name": "driver", "image": TARGET.image, "resources": {"limits": {"memory": str(896 << 20)}}},
        {"name": "keeper", "image": TARGET.image},
    ]
    return {
        "metadata": {"name": "app-1", "creationTimestamp": "2026-11-22T05:00:00Z"},
        "spec": {"containers": containers},
        "status": status,
    }


def container_of(pod: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in pod["spec"]["containers"] if one["name"] == name)


def container(name: str, **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state}
