"""What is known of a cluster that has ended, from its keeper or from what the pod's status still says. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.clusters.kubernetes import places

Json = Mapping[str, Any]

_KEPT = ("started_ms", "ended_ms", "exit_code", "peak_rss_bytes", "cpu_seconds")


def driver_runs(pod: Json) -> bool:
    return "running" in container_state(pod, places.DRIVER)


def keeper_runs(pod: Json) -> bool:
    return "running" in container_state(pod, places.KEEPER)


def summary(status: Json | None, pod: Json | None) -> dict[str, Any]:
    """As every backend's: the observer's own, each process, and the sums. A sum is null where it is not known of every
    process: one without its largest part would pass for a small one."""
    note = _note(pod) if status is None else status
    named: dict[str, Json] = {places.DRIVER: (status or {}).get("ended") or _end_of_container(pod)}
    named.update(note.get("processes") or {})
    processes = {name: {key: (value or {}).get(key) for key in _KEPT} for name, value in named.items()}

    def total(key: str) -> float | None:
        known: list[Any] = [value[key] for value in processes.values() if value[key] is not None]
        return sum(known) if len(known) == len(processes) else None

    cpu_seconds = total("cpu_seconds")
    return {
        **(note.get("summary") or {}),
        "processes": processes,
        "cpu_seconds": None if cpu_seconds is None else round(cpu_seconds, 3),
        "peak_rss_bytes": total("peak_rss_bytes"),
    }


def _note(pod: Json | None) -> Json:
    """What a keeper left in its pod's status when it went."""
    text = container_state(pod or {}, places.KEEPER).get("terminated", {}).get("message")
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _end_of_container(pod: Json | None) -> Json:
    ended = container_state(pod or {}, places.DRIVER).get("terminated") or {}
    return {
        "exit_code": ended.get("exitCode"),
        "started_ms": _ms(ended.get("startedAt")),
        "ended_ms": _ms(ended.get("finishedAt")),
    }


def container_state(pod: Json, container: str) -> Json:
    """`waiting`, `running` or `terminated`, with what is told of it; empty where nothing is."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return next((entry.get("state") for entry in statuses if entry.get("name") == container), None) or {}


def _ms(told: str | None) -> int | None:
    return None if not told else int(datetime.fromisoformat(told.replace("Z", "+00:00")).timestamp() * 1000)
