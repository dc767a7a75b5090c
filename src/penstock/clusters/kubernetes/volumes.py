"""The volumes of a cluster's pods, and where they are mounted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.clusters.base import Launch
from penstock.clusters.kubernetes import places
from penstock.clusters.kubernetes.target import Target

Json = dict[str, Any]

_TEMPORARY_BYTES = 2 << 30


def mounts_of_every_container(target: Target) -> list[Json]:
    """That runs Spark."""
    return [
        mount("private", places.PRIVATE, read_only=True),
        mount("keys", places.KEYS, read_only=True),
        # Spark takes every mount of such a name for its local directory.
        mount("spark-local-dir-1", places.SCRATCH),
        mount("temporary", places.TEMPORARY),
        *(mount(f"cache-{tier}", places.CACHE / tier) for tier in target.page_cache),
    ]


def of_every_pod(target: Target, launch: Launch) -> list[Json]:
    private = {name: name for name in launch.private_files}
    keys = {places.TOKEN: places.TOKEN, places.AUTHENTICATION: places.AUTHENTICATION}
    return [
        secret_volume("private", launch, private),
        secret_volume("keys", launch, keys),
        _scratch_volume(target),
        {"name": "temporary", "emptyDir": {"sizeLimit": str(_TEMPORARY_BYTES)}},
        *(
            {"name": f"cache-{tier}", "hostPath": {"path": said.path, "type": "DirectoryOrCreate"}}
            for tier, said in target.page_cache.items()
        ),
    ]


def _scratch_volume(target: Target) -> Json:
    scratch = target.scratch
    if scratch.path:
        return {"name": "spark-local-dir-1", "hostPath": {"path": scratch.path, "type": "Directory"}}
    medium = {"medium": "Memory"} if scratch.medium == "memory" else {}
    return {"name": "spark-local-dir-1", "emptyDir": {**medium, "sizeLimit": str(scratch.size_bytes)}}


def memory_volume(launch: Launch) -> list[Json]:
    """An executor's share of the scratch in memory, where there is any."""
    if not (share := launch.spec.size.scratch_memory_of_executor):
        return []
    return [{"name": "scratch-memory", "emptyDir": {"medium": "Memory", "sizeLimit": str(share)}}]


def memory_mount(launch: Launch) -> list[Json]:
    return [mount("scratch-memory", places.SCRATCH_MEMORY)] if launch.spec.size.scratch_memory_of_executor else []


def secret_volume(name: str, launch: Launch, items: Mapping[str, str]) -> Json:
    """Those keys of the application's secret, under those names; empty where there are none."""
    # Without items a volume holds everything that is in its secret.
    chosen = [{"key": key, "path": path} for key, path in items.items()]
    if not chosen:
        return {"name": name, "emptyDir": {"sizeLimit": "1Mi"}}
    return {"name": name, "secret": {"secretName": places.object_name(launch.application_id), "items": chosen}}


def mount(name: str, path: object, *, read_only: bool = False) -> Json:
    return {"name": name, "mountPath": str(path), **({"readOnly": True} if read_only else {})}
