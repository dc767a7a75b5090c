"""Making a Ceph for the first time: its files, its pools, the gateways' user, placements, buckets and quotas."""

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
from penstock.lake.ceph.control import Monitor, administer, run
from penstock.lake.ceph.layout import ERASURE, MOST_GATEWAYS, Layout, State
from penstock.lake.model import Credentials, Lake
from penstock.lake.s3 import s3_client
from penstock.units import GIB

USER = "penstock"
ROLE = "penstock-application"
ROLE_ARN = f"arn:aws:iam:::role/{ROLE}"
_MONITOR_MAP = "monmap"
CODE_PROFILE = "penstock"
# An OSD whose file cannot grow any more aborts; empty ones already take some hundred megabytes in all.
_LEAST_FREE_BYTES = 2 * GIB


def make_files(directory: Path, state: State) -> list[str]:
    """Everything that is there before a daemon runs; the OSDs' own ids, in the order of their numbers."""
    _make_directories(directory, state)
    _require_room(state.device_directories(directory))
    write_atomically(directory / CONFIGURATION, state.configuration())
    # Keys for as many gateways as there may ever be: more of them need no more than a port.
    owners = map(configuration.entity, configuration.names(osds=state.layout.osds, gateways=MOST_GATEWAYS))
    for name, content in keyrings(list(owners)).items():
        write_atomically(directory / name, content)
    write_monitor_map(directory, state.fsid, state.ports)
    doing = "making the monitor's store"
    run(directory, "ceph-mon", "--mkfs", "--conf", CONFIGURATION, "--name", "mon.a", "--monmap", _MONITOR_MAP,
        "--keyring", INITIAL_KEYRING, doing=doing)  # fmt: skip
    (directory / INITIAL_KEYRING).unlink()
    ids = [str(uuid.uuid4()) for _ in range(state.layout.osds)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda number: _make_osd(directory, state, number, ids[number]), range(state.layout.osds)))
    return ids


def write_monitor_map(directory: Path, fsid: str, ports: Ports) -> str:
    """Where the monitor is; the name of the file in `directory`."""
    (directory / _MONITOR_MAP).unlink(missing_ok=True)
    run(directory, "monmaptool", "--create", "--fsid", fsid, "--addv", "a", ports.monitor_address, _MONITOR_MAP,
        doing="writing down the monitor's address")  # fmt: skip
    return _MONITOR_MAP


def move_monitor(directory: Path, state: State) -> None:
    """Give the monitor, which must not run, the port that `state` has."""
    name = write_monitor_map(directory, state.fsid, state.ports)
    run(directory, "ceph-mon", "--conf", CONFIGURATION, "--name", "mon.a", "--inject-monmap", name,
        doing="moving the monitor to another port")  # fmt: skip


def add_osds(monitor: Monitor, ids: list[str]) -> None:
    for number, osd in enumerate(ids):  # one after the other: the monitor gives them their numbers in order
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
    """The lake's user, the second placement, and the role that applications may take. Before the gateways start: they
    read placements then. The user comes first: making it makes the zone that the placements belong to."""
    doing = "making the gateways' user"
    made = administer(directory, "user", "create", f"--uid={USER}", "--display-name=Penstock", doing=doing)
    erasure = layout.placements()[ERASURE]
    group, placement = "--rgw-zonegroup=default", f"--placement-id={erasure.name}"
    doing = "adding the erasure-coded placement"
    administer(directory, "zonegroup", "placement", "add", group, placement, doing=doing)
    administer(
        directory, "zone", "placement", "add", "--rgw-zone=default", placement, f"--data-pool={erasure.pool}",
        "--index-pool=default.rgw.buckets.index", "--data-extra-pool=default.rgw.buckets.non-ec", doing=doing,
    )  # fmt: skip
    if layout.default == ERASURE:
        administer(directory, "zonegroup", "placement", "default", group, placement, doing=doing)
    return credentials_in(made)


def make_role(directory: Path, state: State) -> None:
    """A role that the lake's user may give to an application, narrowed by a policy of its own, by STS."""
    doing = "making the role of applications"
    trust = _policy(Principal={"AWS": [f"arn:aws:iam:::user/{USER}"]}, Action=["sts:AssumeRole"])
    buckets = [f"arn:aws:s3:::{name}" for name in state.lakes()]
    allowed = _policy(Action=["s3:*"], Resource=[*buckets, *(f"{bucket}/*" for bucket in buckets)])
    administer(directory, "role", "create", f"--role-name={ROLE}", f"--assume-role-policy-doc={trust}", doing=doing)
    administer(
        directory, "role-policy", "put", f"--role-name={ROLE}", "--policy-name=lake", f"--policy-doc={allowed}",
        doing=doing,
    )  # fmt: skip


def credentials_of_user(directory: Path) -> Credentials:
    """As the gateways have them: for a home that has lost its own."""
    return credentials_in(administer(directory, "user", "info", f"--uid={USER}", doing="asking for the user's keys"))


def credentials_in(answer: str) -> Credentials:
    """Ceph makes the keys itself, since every user of a machine can read the arguments that would tell it which."""
    key = json.loads(answer)["keys"][0]
    return Credentials(key["access_key"], key["secret_key"])


def make_bucket(directory: Path, lake: Lake, credentials: Credentials, placement: str, quota_bytes: int) -> None:
    """A bucket of that placement, with a quota."""
    s3_client(lake, credentials, lake.endpoints[0]).create_bucket(
        Bucket=lake.bucket, CreateBucketConfiguration={"LocationConstraint": f":{placement}"}
    )
    set_quota(directory, lake.bucket, quota_bytes)


def set_quota(directory: Path, bucket: str, most_bytes: int) -> None:
    """Refuse what would make the bucket larger. Gateways that run take some seconds to learn of it."""
    administer(
        directory, "quota", "enable", "--quota-scope=bucket", f"--bucket={bucket}", f"--max-size={most_bytes}",
        doing="setting a quota",
    )  # fmt: skip


def _policy(**statement: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


def _make_directories(directory: Path, state: State) -> None:
    places = [directory / part for part in (KEYS, LOGS, SOCKETS, CRASHES, "mon.a", "mgr.a", "rgw")]
    places += [directory / f"osd.{number}" for number in range(state.layout.osds)]
    places += state.device_directories(directory).values()
    try:
        for place in places:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StateError(
            f"The directory {error.filename} cannot be made",
            why=error.strerror or str(error),
            fix="make it writable, or name another (--data-dir, --metadata-dir, PENSTOCK_HOME)",
        ) from error


def _require_room(places: Mapping[str, Path]) -> None:
    for place in places.values():
        free = shutil.disk_usage(place).free
        if free < _LEAST_FREE_BYTES:
            raise MissingRequirement(
                "The disk is too full for a Ceph",
                why=f"{free >> 20} MiB are free at {place}; at least {_LEAST_FREE_BYTES >> 20} MiB are needed",
                fix="free some space, or name another disk: --data-dir, --metadata-dir",
            )


def _make_osd(directory: Path, state: State, number: int, osd: str) -> None:
    places = state.device_directories(directory)
    for device in state.layout.devices():
        file = places[device.name] / f"osd.{number}.{device.name}"
        with file.open("wb") as made:
            made.truncate(device.bytes)
        file.chmod(0o600)
        (directory / f"osd.{number}" / device.name).symlink_to(file)
    # The monitor need not run yet: so nothing is read from its own configuration.
    run(directory, "ceph-osd", "--mkfs", "--no-mon-config", "--conf", CONFIGURATION, "--name", f"osd.{number}",
        "--osd-uuid", osd, doing=f"making osd.{number}")  # fmt: skip
