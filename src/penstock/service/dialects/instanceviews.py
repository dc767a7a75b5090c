"""An instance as IBM's clients read it. Pure."""

from __future__ import annotations

from typing import Any

from penstock.engine.policy.fairness import Instance, Quota, Use
from penstock.lake.model import Lake
from penstock.model import CORES_PER_CORE, Capacity
from penstock.service.dialects import sizes
from penstock.service.dialects.kept import HomeStore, Kept, LogForwarding

ACTIVE = "active"
"""The one state of an instance that exists."""

_NOT_SHOWN = "****"


def state(instance: Instance) -> dict[str, Any]:
    return {"id": instance.name, "state": ACTIVE}


def whole(instance: Instance, kept: Kept, lake: Lake | None, *, href: str, spark_version: str) -> dict[str, Any]:
    """`lake` is its home's; None where it has no home of its own."""
    shown = {
        **state(instance),
        "href": href,
        "default_runtime": {"spark_version": spark_version},
        "default_config": dict(kept.default_configs),
    }
    if kept.home and lake:
        shown["instance_home"] = {"id": kept.home.instance_id, "bucket": lake.bucket, **_store(kept.home, lake)}
    return shown


def home(kept: HomeStore, lake: Lake) -> dict[str, Any]:
    return {"instance_id": kept.instance_id, **_store(kept, lake)}


def consumption(use: Use) -> dict[str, str]:
    """What its clusters are promised now, overheads included."""
    return {"cores": str(use.cores), "memory": sizes.shown(use.memory_bytes)}


def limits(quota: Quota, capacity: Capacity) -> dict[str, str]:
    """The quota's, or all there is to promise."""
    cores = int(capacity.cores * CORES_PER_CORE)
    return {
        "max_cores": str(min(quota.cores or cores, cores)),
        "max_memory": sizes.shown(min(quota.memory_bytes or capacity.memory_bytes, capacity.memory_bytes)),
    }


def log_forwarding(kept: LogForwarding) -> dict[str, Any]:
    return {
        "enabled": kept.enabled,
        "sources": list(kept.sources),
        "tags": list(kept.tags),
        "log_server": {"type": "lake"},
    }


def platform_logging(kept: LogForwarding) -> dict[str, Any]:
    """The same in the words of the operation it replaced."""
    return {"enable": kept.enabled, "components": list(kept.sources), "log_server": {"type": "lake"}}


def _store(kept: HomeStore, lake: Lake) -> dict[str, Any]:
    return {
        "provider": kept.provider,
        "type": kept.type,
        "region": kept.region or lake.region,
        # The embedded lake has none before its first start, HDFS never.
        "endpoint": next(iter(lake.endpoints), ""),
        "hmac_access_key": _NOT_SHOWN,
        "hmac_secret_key": _NOT_SHOWN,
    }
