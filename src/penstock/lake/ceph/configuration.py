"""Ceph's configuration with a reason for each value, its keys and capabilities, and its daemons' commands.

All paths are relative to the daemons' working directory, because a socket's path has at most 107 bytes, wherever the
home is. This module is pure: it starts nothing.
"""

from __future__ import annotations

import base64
import re
import secrets
import struct
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import NotFound
from penstock.processes import ProcessId

CONFIGURATION = "ceph.conf"
KEYS, LOGS, SOCKETS, CRASHES = "keys", "log", "run", "crash"
ADMINISTRATOR = "client.admin"
INITIAL_KEYRING = f"{KEYS}/initial.keyring"

_MONITOR = "mon."
"""The owner of the monitors' common key, which has no name after the dot."""


@dataclass(frozen=True)
class Ports:
    """Loopback ports that clients know; the other daemons choose ports between 6800 and 7300 at every start."""

    monitor: int
    gateways: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {"monitor": self.monitor, "gateways": list(self.gateways)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Ports:
        return Ports(int(value["monitor"]), tuple(map(int, value["gateways"])))

    @property
    def monitor_address(self) -> str:
        return f"[v2:127.0.0.1:{self.monitor}]"

    def endpoints(self) -> tuple[str, ...]:
        return tuple(f"http://127.0.0.1:{port}" for port in self.gateways)


def ceph_conf(*, fsid: str, ports: Ports, sts_key: str) -> str:
    """The content of `ceph.conf`. It holds a secret (`sts_key`)."""
    return _GENERAL.format(fsid=fsid, monitor=ports.monitor_address, sts_key=sts_key) + "".join(
        f"\n[client.rgw.{number}]\nadmin_socket = {SOCKETS}/$name.asok\n"
        f"rgw_frontends = beast endpoint=127.0.0.1:{port}\n"
        for number, port in enumerate(ports.gateways)
    )


_GENERAL = f"""\
[global]
fsid = {{fsid}}
mon_host = {{monitor}}
# No daemon listens beyond this machine.
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr1 = false
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
keyring = {KEYS}/$name.keyring
chdir =
run_dir = {SOCKETS}
crash_dir = {CRASHES}
log_file = {LOGS}/$name.log
log_to_stderr = false
mon_cluster_log_file = {LOGS}/cluster.log
# A line for each message or request would be most of a busy daemon's writes.
debug_ms = 0/0
debug_rgw = 0/0
# On the single host, replicas and shards are spread over OSDs, and two OSDs may report a third as down.
osd_crush_chooseleaf_type = 0
mon_osd_reporter_subtree_level = osd
osd_pool_default_size = 3
osd_pool_default_min_size = 2
osd_pool_default_pg_num = 4
# Splitting placement groups during a measurement would distort it.
osd_pool_default_pg_autoscale_mode = off

[mon]
mon_data = mon.$id
admin_socket = {SOCKETS}/$name.asok
# Changes wait this long to be batched; the default of a second suits many monitors.
paxos_propose_interval = 0.1
# Percentages of the machine's disk, which this cluster shares.
mon_data_avail_warn = 5
mon_data_avail_crit = 1
mgr_initial_modules =

[mgr]
mgr_data = mgr.$id
admin_socket = {SOCKETS}/$name.asok
# Each module is a Python interpreter of its own: it costs seconds at the start, and memory.
mgr_disabled_modules = alerts influx insights iostat localpool mirroring nfs osd_perf_query osd_support prometheus \
restful selftest snap_schedule stats telegraf test_orchestrator zabbix

[osd]
osd_data = osd.$id
admin_socket = {SOCKETS}/$name.asok
# Ceph's minimum; caching beyond it is left to the operating system.
osd_memory_target = 939524096
# If the kernel reports a virtual disk as rotating, Ceph would choose settings for a spindle.
bluestore_debug_enforce_settings = ssd

[client]
rgw_data = rgw
# The default of 512 threads for each gateway suits dedicated machines.
rgw_thread_pool_size = 128
rgw_dns_name = localhost
# Overwritten and deleted objects free their space after a minute, not after two hours.
rgw_gc_obj_min_wait = 60
rgw_gc_processor_period = 60
# A gateway notices within seconds the writes of others to a bucket with a quota.
rgw_bucket_quota_ttl = 10
rgw_s3_auth_use_sts = true
rgw_sts_key = {{sts_key}}
# Tests of credential renewal need very short sessions.
rgw_sts_min_session_duration = 10
"""


def capabilities(daemons: Sequence[str]) -> dict[str, dict[str, str]]:
    """Cephx capabilities: key owner → service → allowed operations."""
    everything = dict.fromkeys(("mon", "mgr", "osd"), "allow *")
    found = {_MONITOR: {"mon": "allow *"}, ADMINISTRATOR: everything}
    for name in daemons:
        if name.startswith("mgr."):
            found[name] = {"mon": "allow profile mgr", "osd": "allow *"}
        elif name.startswith("osd."):
            found[name] = {"mon": "allow profile osd", "mgr": "allow profile osd", "osd": "allow *"}
        elif name.startswith("client.rgw."):
            found[name] = {"mon": "allow rw", "mgr": "allow rw", "osd": "allow rwx"}
    return found


def keyrings(daemons: Sequence[str]) -> dict[str, str]:
    """Return file name → content with new keys: one file per owner, and the monitor's initial one with all keys."""
    sections = {owner: _section(owner, allowed) for owner, allowed in capabilities(daemons).items()}
    own = {f"{KEYS}/{owner}.keyring": text for owner, text in sections.items() if owner != _MONITOR}
    return {**own, INITIAL_KEYRING: "".join(sections.values())}


def _section(owner: str, allowed: Mapping[str, str]) -> str:
    caps = "".join(f'\tcaps {service} = "{operations}"\n' for service, operations in allowed.items())
    return f"[{owner}]\n\tkey = {_new_key()}\n{caps}"


def _new_key() -> str:
    """A cephx key: type (1, AES), creation time in seconds and nanoseconds, length, 128 random bits."""
    random = secrets.token_bytes(16)
    return base64.b64encode(struct.pack("<hiih", 1, int(time.time()), 0, len(random)) + random).decode("ascii")


MONITOR, MANAGER, OSD, GATEWAY = "monitor", "manager", "osd", "gateway"

_KINDS = {"mon": MONITOR, "mgr": MANAGER, "osd": OSD, "rgw": GATEWAY}
_PROGRAMS = {MONITOR: "ceph-mon", MANAGER: "ceph-mgr", OSD: "ceph-osd", GATEWAY: "radosgw"}
_NAME = re.compile(r"(mon|mgr|osd|rgw)\.([a-z0-9]+)")


@dataclass(frozen=True)
class Daemon:
    """A daemon and its process, which is None if the daemon does not run."""

    name: str
    process: ProcessId | None

    @property
    def kind(self) -> str:
        return kind_of(self.name)


def daemon_names(*, osds: int, gateways: int) -> list[str]:
    """The daemons' names, each after those that it depends on."""
    return ["mon.a", "mgr.a", *(f"osd.{number}" for number in range(osds)), *(f"rgw.{n}" for n in range(gateways))]


def kind_of(name: str) -> str:
    return _KINDS[name.partition(".")[0]]


def describe(names: Collection[str]) -> str:
    """Summarize daemons by kind, such as `manager, 6 OSDs`."""
    kinds = [kind_of(name) for name in names]
    counted = {kind: kinds.count(kind) for kind in kinds}
    words = {kind: "OSD" if kind == OSD else kind for kind in counted}
    return ", ".join(words[kind] if count == 1 else f"{count} {words[kind]}s" for kind, count in counted.items())


def entity(name: str) -> str:
    """Ceph's own name for the daemon; gateways are clients there."""
    return f"client.{name}" if kind_of(name) == GATEWAY else name


def command(name: str) -> list[str]:
    """The daemon's command, to be run in the cluster's directory.

    The daemon stays in the foreground, so that errors from before it opens its log appear on its output.
    """
    return [_PROGRAMS[kind_of(name)], "--foreground", "--conf", CONFIGURATION, "--name", entity(name)]


def daemon_of_command(arguments: Sequence[str]) -> str | None:
    """The daemon with this command line, or None; the caller compares the working directory."""
    if len(arguments) < 6 or Path(arguments[0]).name not in _PROGRAMS.values():
        return None
    name = arguments[5].removeprefix("client.")
    return name if _NAME.fullmatch(name) and list(arguments[1:6]) == command(name)[1:] else None


def require_daemon(name: str, among: Collection[str]) -> str:
    """Return the name itself; raise `NotFound` if no such daemon exists."""
    if name not in among:
        raise NotFound(
            f"This Ceph cluster has no daemon “{name}”",
            why=f"its daemons are {', '.join(among)}",
            fix="penstock lake ceph status lists them",
        )
    return name


def start_stages(missing: Collection[str]) -> list[list[str]]:
    """Group daemons into stages: a stage starts at once, and only when all earlier stages serve.

    OSDs fetch the map from the monitor, gateways need pools that answer; the manager only reports.
    """
    order = ((MONITOR,), (MANAGER, OSD), (GATEWAY,))
    found = [[name for name in missing if kind_of(name) in kinds] for kinds in order]
    return [stage for stage in found if stage]


def stop_stages(running: Collection[str]) -> list[list[str]]:
    """The stages in reverse, so that no daemon waits for one that is gone."""
    return start_stages(running)[::-1]
