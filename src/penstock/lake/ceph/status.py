"""The status of a Ceph cluster: health, stored against raw bytes, and each daemon's resource use."""

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
from penstock.lake.ceph.layout import CephState

_SAMPLE_SECONDS = 0.5
"""The interval over which each daemon's processor time is sampled."""


@dataclass(frozen=True)
class DaemonStatus:
    """A daemon's state and resource use; the usage fields are zero if it does not run.

    `cores` is the average number of cores in use during the sample.
    """

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
class PlacementUsage:
    """The contents of one placement. `raw_factor` is its protection's overhead by design; `raw_bytes` is measured."""

    lake: str
    placement: str
    protection: str
    raw_factor: float
    quota_bytes: int
    stored_bytes: int
    raw_bytes: int
    objects: int


@dataclass(frozen=True)
class ClusterHealth:
    """The cluster's state as the monitor reports it."""

    health: str
    findings: tuple[str, ...]
    osds_up: int
    osds_in: int
    groups: Mapping[str, int]
    raw_bytes: int
    raw_used_bytes: int
    stored: tuple[PlacementUsage, ...]


@dataclass(frozen=True)
class CephStatus:
    """A cluster's status.

    `state` is `up`, `degraded` (some daemon does not serve, or the monitor does not answer) or `down`.
    """

    state: str
    endpoints: tuple[str, ...]
    directory: Path
    devices: Mapping[str, Path]
    """Device name → directory of the OSDs' files."""
    free_bytes: int
    """Free space of the file system in which the OSDs' sparse files grow."""
    daemons: tuple[DaemonStatus, ...]
    cluster: ClusterHealth | None
    silence: str
    """The reason why the monitor did not answer; empty if it did."""

    def to_json(self) -> dict[str, Any]:
        devices = {name: str(place) for name, place in self.devices.items()}
        return {**asdict(self), "directory": str(self.directory), "devices": devices}


def read_status(ceph: Ceph) -> CephStatus | None:
    """The cluster's status; None if there is no cluster.

    The call takes about a second, and up to five more if the monitor does not answer.
    """
    state = ceph.state()
    if state is None:
        return None
    found = ceph.daemons()
    before, began = _usage(found), time.monotonic()
    cluster, silence = None, "it does not run"
    if any(daemon.process for daemon in found if daemon.kind == MONITOR):
        try:
            with ceph.monitor() as monitor:
                cluster, silence = parse_cluster(state, *monitor.ask_all([{"prefix": "status"}, {"prefix": "df"}])), ""
        except LakeError as error:
            silence = error.why
    time.sleep(max(0.0, _SAMPLE_SECONDS - (time.monotonic() - began)))
    after, seconds = _usage(found), time.monotonic() - began
    statuses = tuple(
        daemon_status(daemon, before, after, seconds, serves=daemon.process is not None and ceph.serves(daemon.name))
        for daemon in found
    )
    devices = state.device_directories(ceph.directory)
    return CephStatus(
        state=overall_state(statuses, cluster),
        endpoints=state.ports.endpoints(),
        directory=ceph.directory,
        devices=devices,
        free_bytes=shutil.disk_usage(devices["block"]).free,
        daemons=statuses,
        cluster=cluster,
        silence=silence,
    )


def overall_state(daemons: tuple[DaemonStatus, ...], cluster: ClusterHealth | None) -> str:
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


def parse_cluster(state: CephState, status: Mapping[str, Any], usage: Mapping[str, Any]) -> ClusterHealth:
    """Parse the monitor's answers to `status` and `df`."""
    pools = {pool["name"]: pool["stats"] for pool in usage["pools"]}
    placements = state.layout.placements()
    stored = tuple(
        PlacementUsage(
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
    return ClusterHealth(
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
