"""What a Ceph says of itself: health, what is stored against what that takes, and what each daemon uses."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from penstock import processes
from penstock.errors import LakeError
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.ceph.configuration import MONITOR, Daemon
from penstock.lake.ceph.layout import State

_SAMPLE_SECONDS = 0.5
"""How long processors are watched, for what each daemon uses of them."""


@dataclass(frozen=True)
class DaemonStatus:
    """`cores` is what it used of one core while it was watched; all but the name are empty where it does not run."""

    name: str
    kind: str
    serves: bool
    pid: int | None = None
    cores: float = 0.0
    core_seconds: float = 0.0
    resident_bytes: int = 0

    @property
    def state(self) -> str:
        if self.pid is None:
            return "not running"
        return "serves" if self.serves else "does not answer"


@dataclass(frozen=True)
class Stored:
    """What one placement holds. `raw_factor` is what its protection costs by design; `raw_bytes` is measured."""

    lake: str
    placement: str
    protection: str
    raw_factor: float
    quota_bytes: int
    stored_bytes: int
    raw_bytes: int
    objects: int


@dataclass(frozen=True)
class Cluster:
    """What the monitor tells."""

    health: str
    findings: tuple[str, ...]
    osds_up: int
    osds_in: int
    groups: Mapping[str, int]
    raw_bytes: int
    raw_used_bytes: int
    stored: tuple[Stored, ...]


@dataclass(frozen=True)
class Status:
    """`state` is `up`, `degraded` (some daemon does not serve, or the monitor does not answer) or `down`."""

    state: str
    endpoints: tuple[str, ...]
    directory: Path
    devices: Mapping[str, Path]
    """In which directory the OSDs' files of each name are."""
    free_bytes: int
    """Of the file system that the OSDs' sparse files grow in."""
    daemons: tuple[DaemonStatus, ...]
    cluster: Cluster | None
    silence: str
    """Why the monitor told nothing."""

    def as_json(self) -> dict[str, Any]:
        devices = {name: str(place) for name, place in self.devices.items()}
        return {**asdict(self), "directory": str(self.directory), "devices": devices}


def look(ceph: Ceph) -> Status | None:
    """None where there is no Ceph. Takes about a second, and up to five more where the monitor does not answer."""
    state = ceph.state()
    if state is None:
        return None
    found = ceph.daemons()
    before, began = _usage(found), time.monotonic()
    cluster, silence = None, "it does not run"
    if any(daemon.process for daemon in found if daemon.kind == MONITOR):
        try:
            with ceph.monitor() as monitor:
                cluster, silence = cluster_of(state, *monitor.ask_all([{"prefix": "status"}, {"prefix": "df"}])), ""
        except LakeError as error:
            silence = error.why
    time.sleep(max(0.0, _SAMPLE_SECONDS - (time.monotonic() - began)))
    after, seconds = _usage(found), time.monotonic() - began
    told = tuple(
        daemon_status(daemon, before, after, seconds, serves=daemon.process is not None and ceph.serves(daemon.name))
        for daemon in found
    )
    devices = state.device_directories(ceph.directory)
    return Status(
        state=state_of(told, cluster),
        endpoints=state.ports.endpoints(),
        directory=ceph.directory,
        devices=devices,
        free_bytes=shutil.disk_usage(devices["block"]).free,
        daemons=told,
        cluster=cluster,
        silence=silence,
    )


def state_of(daemons: tuple[DaemonStatus, ...], cluster: Cluster | None) -> str:
    if all(daemon.pid is None for daemon in daemons):
        return "down"
    return "up" if cluster and all(daemon.serves for daemon in daemons) else "degraded"


def daemon_status(
    daemon: Daemon,
    before: Mapping[str, processes.Process],
    after: Mapping[str, processes.Process],
    seconds: float,
    *,
    serves: bool,
) -> DaemonStatus:
    status = DaemonStatus(daemon.name, daemon.kind, serves)
    now, earlier = after.get(daemon.name), before.get(daemon.name)
    if now is None or earlier is None:
        return status
    return replace(
        status,
        pid=now.pid,
        cores=(now.core_seconds - earlier.core_seconds) / seconds,
        core_seconds=now.core_seconds,
        resident_bytes=now.resident_bytes,
    )


def cluster_of(state: State, status: Mapping[str, Any], usage: Mapping[str, Any]) -> Cluster:
    """By the monitor's answers to `status` and `df`."""
    pools = {pool["name"]: pool["stats"] for pool in usage["pools"]}
    placements = state.layout.placements()
    stored = tuple(
        Stored(
            lake=name,
            placement=placements[kind].name,
            protection=placements[kind].protection,
            raw_factor=placements[kind].raw_factor,
            quota_bytes=state.quotas[kind],
            stored_bytes=int(pools[placements[kind].pool]["stored"]),
            raw_bytes=int(pools[placements[kind].pool]["bytes_used"]),
            objects=int(pools[placements[kind].pool]["objects"]),
        )
        for name, kind in state.lakes().items()
    )
    checks = status["health"]["checks"].values()
    return Cluster(
        health=status["health"]["status"],
        findings=tuple(check["summary"]["message"] for check in checks),
        osds_up=status["osdmap"]["num_up_osds"],
        osds_in=status["osdmap"]["num_in_osds"],
        groups={entry["state_name"]: entry["count"] for entry in status["pgmap"].get("pgs_by_state", ())},
        raw_bytes=usage["stats"]["total_bytes"],
        raw_used_bytes=usage["stats"]["total_used_raw_bytes"],
        stored=stored,
    )


def _usage(found: list[Daemon]) -> dict[str, processes.Process]:
    wanted = {daemon.process.pid: daemon for daemon in found if daemon.process}
    return {
        wanted[process.pid].name: process
        for process in processes.processes()
        if process.pid in wanted and process.started == getattr(wanted[process.pid].process, "started", None)
    }
