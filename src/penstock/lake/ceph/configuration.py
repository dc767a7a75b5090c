"""Ceph's configuration with a reason beside each value, its keys and capabilities, and its daemons' commands.

All paths are relative to the directory the daemons run in: a socket's path has at most 107 bytes, wherever a home is.
Pure: nothing is started here.
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
"""The monitors' common key has no name of its own."""


@dataclass(frozen=True)
class Ports:
    """Loopback ports that clients know; the other daemons choose theirs between 6800 and 7300 at every start."""

    monitor: int
    gateways: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
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
# Nothing listens beyond this machine.
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
# A line for each message or request would be most of what a busy daemon writes.
debug_ms = 0/0
debug_rgw = 0/0
# One host: replicas and shards are spread over OSDs, and two OSDs of it may call a third dead.
osd_crush_chooseleaf_type = 0
mon_osd_reporter_subtree_level = osd
osd_pool_default_size = 3
osd_pool_default_min_size = 2
osd_pool_default_pg_num = 4
# Splitting groups while something is measured would be measured with it.
osd_pool_default_pg_autoscale_mode = off

[mon]
mon_data = mon.$id
admin_socket = {SOCKETS}/$name.asok
# Changes wait this long for others to be decided with; a second is made for many monitors.
paxos_propose_interval = 0.1
# A share of the machine's disk, which is not this Ceph's alone.
mon_data_avail_warn = 5
mon_data_avail_crit = 1
mgr_initial_modules =

[mgr]
mgr_data = mgr.$id
admin_socket = {SOCKETS}/$name.asok
# Each is a Python interpreter of its own: seconds of the start, and memory.
mgr_disabled_modules = alerts influx insights iostat localpool mirroring nfs osd_perf_query osd_support prometheus \
restful selftest snap_schedule stats telegraf test_orchestrator zabbix

[osd]
osd_data = osd.$id
admin_socket = {SOCKETS}/$name.asok
# The least Ceph accepts; caches beyond it are the operating system's.
osd_memory_target = 939524096
# Where the kernel calls a virtual disk rotating, Ceph would choose what suits a spindle.
bluestore_debug_enforce_settings = ssd

[client]
rgw_data = rgw
# 512 threads a gateway are made for machines of their own.
rgw_thread_pool_size = 128
rgw_dns_name = localhost
# What was overwritten or deleted gives its room back after a minute, not after two hours.
rgw_gc_obj_min_wait = 60
rgw_gc_processor_period = 60
# A gateway learns within seconds what others have written to a bucket with a quota.
rgw_bucket_quota_ttl = 10
rgw_s3_auth_use_sts = true
rgw_sts_key = {{sts_key}}
# Short-lived credentials may be as short as a test of their renewal needs.
rgw_sts_min_session_duration = 10
"""


def capabilities(daemons: Sequence[str]) -> dict[str, dict[str, str]]:
    """Who may do what: the name of a key's owner → the service → what it is allowed there."""
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
    """File → content, with new keys: one file for each owner, and all together for the monitor to begin with."""
    sections = {owner: _section(owner, allowed) for owner, allowed in capabilities(daemons).items()}
    own = {f"{KEYS}/{owner}.keyring": text for owner, text in sections.items() if owner != _MONITOR}
    return {**own, INITIAL_KEYRING: "".join(sections.values())}


def _section(owner: str, allowed: Mapping[str, str]) -> str:
    caps = "".join(f'\tcaps {service} = "{what}"\n' for service, what in allowed.items())
    return f"[{owner}]\n\tkey = {_new_key()}\n{caps}"


def _new_key() -> str:
    """A cephx key: its type (1, AES), when it was made in seconds and nanoseconds, its length, 128 random bits."""
    random = secrets.token_bytes(16)
    return base64.b64encode(struct.pack("<hiih", 1, int(time.time()), 0, len(random)) + random).decode("ascii")


MONITOR, MANAGER, OSD, GATEWAY = "monitor", "manager", "osd", "gateway"

_KINDS = {"mon": MONITOR, "mgr": MANAGER, "osd": OSD, "rgw": GATEWAY}
_PROGRAMS = {MONITOR: "ceph-mon", MANAGER: "ceph-mgr", OSD: "ceph-osd", GATEWAY: "radosgw"}
_NAME = re.compile(r"(mon|mgr|osd|rgw)\.([a-z0-9]+)")


@dataclass(frozen=True)
class Daemon:
    """One daemon and the process that is it now; None where it does not run."""

    name: str
    process: ProcessId | None

    @property
    def kind(self) -> str:
        return kind_of(self.name)


def names(*, osds: int, gateways: int) -> list[str]:
    """In the order in which they depend on each other."""
    return ["mon.a", "mgr.a", *(f"osd.{number}" for number in range(osds)), *(f"rgw.{n}" for n in range(gateways))]


def kind_of(name: str) -> str:
    return _KINDS[name.partition(".")[0]]


def in_words(names: Collection[str]) -> str:
    """`manager, 6 OSDs`"""
    kinds = [kind_of(name) for name in names]
    counted = {kind: kinds.count(kind) for kind in kinds}
    words = {kind: "OSD" if kind == OSD else kind for kind in counted}
    return ", ".join(words[kind] if count == 1 else f"{count} {words[kind]}s" for kind, count in counted.items())


def entity(name: str) -> str:
    """Ceph's own name for it: gateways are clients."""
    return f"client.{name}" if kind_of(name) == GATEWAY else name


def command(name: str) -> list[str]:
    """Run in the cluster's directory. In the foreground: what goes wrong before there is a log is then seen."""
    return [_PROGRAMS[kind_of(name)], "--foreground", "--conf", CONFIGURATION, "--name", entity(name)]


def name_in(arguments: Sequence[str]) -> str | None:
    """Which daemon these arguments of a process make it (the caller compares the working directory)."""
    if len(arguments) < 6 or Path(arguments[0]).name not in _PROGRAMS.values():
        return None
    name = arguments[5].removeprefix("client.")
    return name if _NAME.fullmatch(name) and list(arguments[1:6]) == command(name)[1:] else None


def known(name: str, among: Collection[str]) -> str:
    """The name itself; `NotFound` where there is no such daemon."""
    if name not in among:
        raise NotFound(
            f"This Ceph has no daemon “{name}”",
            why=f"its daemons are {', '.join(among)}",
            fix="penstock lake ceph status shows them",
        )
    return name


def stages(missing: Collection[str]) -> list[list[str]]:
    """What to start, those of one stage at once and only when all of the stages before serve.

    OSDs ask the monitor for the map, gateways need pools that answer; the manager only reports.
    """
    order = ((MONITOR,), (MANAGER, OSD), (GATEWAY,))
    found = [[name for name in missing if kind_of(name) in kinds] for kinds in order]
    return [stage for stage in found if stage]


def stopping(running: Collection[str]) -> list[list[str]]:
    """The other way round: nobody is left waiting for one that is gone."""
    return stages(running)[::-1]
