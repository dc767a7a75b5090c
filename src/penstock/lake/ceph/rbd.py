"""Temporary block devices (RBD) on a home's Ceph cluster, in pools of their own.

Their data is protected like the lake's: on three OSDs, or erasure-coded, with only the headers replicated. fio and
other clients of librbd access a device without the kernel; a device of this machine needs a kernel that has `rbd`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import LakeError, MissingRequirement
from penstock.lake.ceph.bootstrap import CODE_PROFILE
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.ceph.configuration import CONFIGURATION
from penstock.lake.ceph.daemons import Monitor, program_path, run
from penstock.lake.ceph.layout import ERASURE, REPLICATED, Layout
from penstock.processes import ProcessId
from penstock.units import MIB

POOL, ERASURE_POOL = "penstock.blocks", "penstock.blocks.erasure"
_KERNEL = Path("/sys/bus/rbd")


@dataclass(frozen=True)
class Image:
    """A block device in the store. Ceph's programs find it through the configuration in `directory`."""

    directory: Path
    pool: str
    name: str

    @property
    def spec(self) -> str:
        return f"{self.pool}/{self.name}"


@contextlib.contextmanager
def image(ceph: Ceph, lake: str, size_bytes: int) -> Iterator[Image]:
    """Create an empty device of that size with the lake's placement, and remove it at the end.

    Raises `MissingRequirement` if `rbd` is not installed, `NotFound` if the cluster has no such lake, and `LakeError`
    if it does not answer.
    """
    if program_path("rbd") is None:
        raise MissingRequirement("There is no rbd on this machine", fix="apt-get install ceph-common")
    erasure = ceph.placement(lake).kind == ERASURE
    with ceph.monitor() as monitor:
        state = ceph.state()
        if state is not None:
            _ensure_pools(monitor, state.layout)
    device = Image(ceph.directory, POOL, f"lab-{os.getpid()}-{secrets.token_hex(4)}")
    _remove_strays(device)
    data = ("--data-pool", ERASURE_POOL) if erasure else ()
    # Only layering: older kernels support no other feature, and none is needed here.
    features = ("--image-feature", "layering")
    size = f"{-(-size_bytes // MIB)}M"
    _rbd(device, "create", "--size", size, *features, *data, device.spec, activity="creating a device")
    try:
        # With its cache, librbd would serve reads from memory and acknowledge writes that are not stored yet.
        _rbd(device, "config", "image", "set", device.spec, "rbd_cache", "false", activity="setting up a device")
        yield device
    finally:
        _rbd(device, "remove", "--no-progress", device.spec, activity="removing a device")


def require_kernel() -> None:
    """Raise `MissingRequirement`, with the reason, if RADOS block devices cannot be mapped on this machine."""
    if os.geteuid() != 0:
        raise MissingRequirement(
            "A RADOS block device cannot be mapped by this account",
            why="only root may add a device to the kernel",
            fix="run this as root, or measure it without the kernel: --device rbd",
        )
    modprobe = shutil.which("modprobe", path=f"{os.defpath}:/usr/sbin:/sbin")
    if not _KERNEL.exists() and modprobe:
        subprocess.run([modprobe, "rbd"], capture_output=True, check=False)
    if not _KERNEL.exists():
        raise MissingRequirement(
            "This kernel does not support RADOS block devices",
            why=f"Linux {os.uname().release} has no {_KERNEL}: rbd is neither built in nor available as a module",
            fix="use a kernel with CONFIG_BLK_DEV_RBD, or measure it without the kernel: --device rbd",
        )


@contextlib.contextmanager
def mapped(image: Image) -> Iterator[Path]:
    """Map the image as a device of this machine (`/dev/rbd0`); raise `LakeError`, or as `require_kernel` does."""
    require_kernel()
    # The cluster's monitors speak only version 2 of the protocol.
    output = _rbd(image, "map", "--options", "ms_mode=prefer-crc", image.spec, activity="mapping a device")
    device = Path(output.strip())
    try:
        yield device
    finally:
        _rbd(image, "unmap", str(device), activity="unmapping a device")


def _ensure_pools(monitor: Monitor, layout: Layout) -> None:
    """Create both pools, sized like the gateways' pools of the same kind; existing pools stay as they are."""
    groups = {pool.name: pool.groups for pool in layout.pools()}
    for kind, name in ((REPLICATED, POOL), (ERASURE, ERASURE_POOL)):
        count = groups[layout.placements()[kind].pool]
        code = {"erasure_code_profile": CODE_PROFILE} if kind == ERASURE else {}
        monitor.ask("osd pool create", pool=name, pg_num=count, pgp_num=count, pool_type=kind, **code)
        monitor.ask("osd pool application enable", pool=name, app="rbd")
    # Without overwrites, an erasure-coded object could only be written as a whole.
    monitor.ask("osd pool set", pool=ERASURE_POOL, var="allow_ec_overwrites", val="true")


def _remove_strays(image: Image) -> None:
    """Remove the devices of killed commands from the image's pool; a device that is still mapped stays."""
    for name in json.loads(_rbd(image, "list", "--format", "json", image.pool, activity="listing devices")):
        owner = re.fullmatch(r"lab-(\d+)-[0-9a-f]+", name)
        if owner and ProcessId.of(int(owner[1])) is None:
            with contextlib.suppress(LakeError):
                _rbd(image, "remove", "--no-progress", f"{image.pool}/{name}", activity="removing a device")


def _rbd(image: Image, *arguments: str, activity: str) -> str:
    return run(image.directory, "rbd", "--conf", CONFIGURATION, *arguments, activity=activity)
