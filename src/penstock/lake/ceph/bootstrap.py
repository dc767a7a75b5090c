"""First creation of a Ceph cluster: its files, pools, the gateways' user, placements, buckets and quotas."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from penstock.errors import MissingRequirement, StateError
from penstock.home import write_atomically
from penstock.lake.ceph import configuration
from penstock.lake.ceph.configuration import (
    CONFIGURATION,
    CRASHES,
    INITIAL_KEYRING,
    KEYS,
    LOGS,
    SOCKETS,
    Ports,
    keyrings,
)
from penstock.lake.ceph.daemons import Monitor, administer, run
from penstock.lake.ceph.layout import ERASURE, MOST_GATEWAYS, CephState, Layout
from penstock.lake.model import Credentials, Lake
from penstock.lake.s3 import s3_client
from penstock.units import GIB

USER = "penstock"
ROLE = "penstock-application"
ROLE_ARN = f"arn:aws:iam:::role/{ROLE}"
_MONITOR_MAP = "monmap"
CODE_PROFILE = "penstock"
# An OSD whose file can no longer grow aborts; empty OSDs already take some hundred megabytes in total.
_LEAST_FREE_BYTES = 2 * GIB


def make_files(directory: Path, state: CephState) -> list[str]:
    """Create all files that exist before a daemon runs; return the OSDs' UUIDs in the order of their numbers."""
    _make_directories(directory, state)
    _require_room(state.device_directories(directory))
    write_atomically(directory / CONFIGURATION, state.configuration())
    # Keys for the maximum number of gateways, so that a gateway added later needs only a port.
    owners = map(configuration.entity, configuration.daemon_names(osds=state.layout.osds, gateways=MOST_GATEWAYS))
    for name, content in keyrings(list(owners)).items():
        write_atomically(directory / name, content)
    write_monitor_map(directory, state.fsid, state.ports)
    doing = "creating the monitor's store"
    run(directory, "ceph-mon", "--mkfs", "--conf", CONFIGURATION, "--name", "mon.a", "--monmap", _MONITOR_MAP,
        "--keyring", INITIAL_KEYRING, activity=doing)  # fmt: skip
    (directory / INITIAL_KEYRING).unlink()
    ids = [str(uuid.uuid4()) for _ in range(state.layout.osds)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda number: _make_osd(directory, state, number, ids[number]), range(state.layout.osds)))
    return ids


def write_monitor_map(directory: Path, fsid: str, ports: Ports) -> str:
    """Write the monitor's address to a monitor map; return the file's name in `directory`."""
    (directory / _MONITOR_MAP).unlink(missing_ok=True)
    run(directory, "monmaptool", "--create", "--fsid", fsid, "--addv", "a", ports.monitor_address, _MONITOR_MAP,
        activity="writing the monitor map")  # fmt: skip
    return _MONITOR_MAP


def move_monitor(directory: Path, state: CephState) -> None:
    """Move the monitor, which must not be running, to the port in `state`."""
    name = write_monitor_map(directory, state.fsid, state.ports)
    run(directory, "ceph-mon", "--conf", CONFIGURATION, "--name", "mon.a", "--inject-monmap", name,
        activity="moving the monitor to another port")  # fmt: skip


def add_osds(monitor: Monitor, ids: list[str]) -> None:
    for number, osd in enumerate(ids):  # one at a time: the monitor assigns numbers in order
        monitor.ask("osd new", uuid=osd, id=number)


def make_pools(monitor: Monitor, layout: Layout) -> None:
    code = [f"k={layout.code.data}", f"m={layout.code.parity}", "crush-failure-domain=osd"]
    monitor.ask("osd erasure-code-profile set", name=CODE_PROFILE, profile=code)
    pools = layout.pools()
    monitor.ask_all(
        [
            {
                "prefix": "osd pool create",
                "pool": pool.name,
                "pg_num": pool.groups,
                "pgp_num": pool.groups,
                "pool_type": "erasure" if pool.code else "replicated",
                **({"erasure_code_profile": CODE_PROFILE} if pool.code else {}),
            }
            for pool in pools
        ]
    )
    monitor.ask_all([{"prefix": "osd pool application enable", "pool": pool.name, "app": "rgw"} for pool in pools])


def make_user(directory: Path, layout: Layout) -> Credentials:
    """Create the lake's user and the second placement; return the user's credentials.

    Must run before the gateways start, because they read placements then. The user comes first, because its creation
    also creates the zone that the placements belong to.
    """
    doing = "creating the gateways' user"
    created = administer(directory, "user", "create", f"--uid={USER}", "--display-name=Penstock", activity=doing)
    erasure = layout.placements()[ERASURE]
    group, placement = "--rgw-zonegroup=default", f"--placement-id={erasure.name}"
    doing = "adding the erasure-coded placement"
    administer(directory, "zonegroup", "placement", "add", group, placement, activity=doing)
    administer(
        directory, "zone", "placement", "add", "--rgw-zone=default", placement, f"--data-pool={erasure.pool}",
        "--index-pool=default.rgw.buckets.index", "--data-extra-pool=default.rgw.buckets.non-ec", activity=doing,
    )  # fmt: skip
    if layout.default == ERASURE:
        administer(directory, "zonegroup", "placement", "default", group, placement, activity=doing)
    return parse_credentials(created)


def make_role(directory: Path, state: CephState) -> None:
    """Create the role that applications assume through STS, each narrowed by its own session policy."""
    doing = "creating the applications' role"
    # Ceph takes whoever has credentials of the role for the user, too, and gives them others without their limits.
    trust = _policy(
        {"Principal": {"AWS": [f"arn:aws:iam:::user/{USER}"]}, "Action": ["sts:AssumeRole"]},
        {"Effect": "Deny", "Principal": {"AWS": [ROLE_ARN]}, "Action": ["sts:AssumeRole"]},
    )
    buckets = [f"arn:aws:s3:::{name}" for name in state.lakes()]
    allowed = _policy({"Action": ["s3:*"], "Resource": [*buckets, *(f"{bucket}/*" for bucket in buckets)]})
    administer(directory, "role", "create", f"--role-name={ROLE}", f"--assume-role-policy-doc={trust}", activity=doing)
    administer(
        directory, "role-policy", "put", f"--role-name={ROLE}", "--policy-name=lake", f"--policy-doc={allowed}",
        activity=doing,
    )  # fmt: skip


def user_credentials(directory: Path) -> Credentials:
    """The user's credentials as the gateways know them, for a home that has lost its copy."""
    return parse_credentials(administer(directory, "user", "info", f"--uid={USER}", activity="reading the user's keys"))


def parse_credentials(answer: str) -> Credentials:
    """The credentials in an answer of `radosgw-admin user`.

    Ceph generates the keys: passed as arguments, they would be visible to every user of the machine.
    """
    key = json.loads(answer)["keys"][0]
    return Credentials(key["access_key"], key["secret_key"])


def make_bucket(directory: Path, lake: Lake, credentials: Credentials, placement: str, quota_bytes: int) -> None:
    """Create the lake's bucket in that placement, with a quota."""
    s3_client(lake, credentials, lake.endpoints[0]).create_bucket(
        Bucket=lake.bucket, CreateBucketConfiguration={"LocationConstraint": f":{placement}"}
    )
    set_quota(directory, lake.bucket, quota_bytes)


def set_quota(directory: Path, bucket: str, most_bytes: int) -> None:
    """Limit the bucket to `most_bytes`. Running gateways notice a new quota within some seconds."""
    administer(
        directory, "quota", "enable", "--quota-scope=bucket", f"--bucket={bucket}", f"--max-size={most_bytes}",
        activity="setting a quota",
    )  # fmt: skip


def _policy(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **one} for one in statements]})


def _make_directories(directory: Path, state: CephState) -> None:
    places = [directory / part for part in (KEYS, LOGS, SOCKETS, CRASHES, "mon.a", "mgr.a", "rgw")]
    places += [directory / f"osd.{number}" for number in range(state.layout.osds)]
    places += state.device_directories(directory).values()
    try:
        for place in places:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StateError(
            f"The directory {error.filename} cannot be created",
            why=error.strerror or str(error),
            fix="make it writable, or choose another (--data-dir, --metadata-dir, PENSTOCK_HOME)",
        ) from error


def _require_room(places: Mapping[str, Path]) -> None:
    for place in places.values():
        free = shutil.disk_usage(place).free
        if free < _LEAST_FREE_BYTES:
            raise MissingRequirement(
                "The disk is too full for a Ceph cluster",
                why=f"{free >> 20} MiB are free at {place}; at least {_LEAST_FREE_BYTES >> 20} MiB are needed",
                fix="free some space, or choose another disk: --data-dir, --metadata-dir",
            )


def _make_osd(directory: Path, state: CephState, number: int, osd: str) -> None:
    places = state.device_directories(directory)
    for device in state.layout.devices():
        file = places[device.name] / f"osd.{number}.{device.name}"
        with file.open("wb") as sparse:
            sparse.truncate(device.bytes)
        file.chmod(0o600)
        (directory / f"osd.{number}" / device.name).symlink_to(file)
    # The monitor may not be running yet, so its central configuration is not read.
    run(directory, "ceph-osd", "--mkfs", "--no-mon-config", "--conf", CONFIGURATION, "--name", f"osd.{number}",
        "--osd-uuid", osd, activity=f"creating osd.{number}")  # fmt: skip
