"""Block devices on a home's Ceph (RBD): made for a time, in pools of their own, and removed again.

Their data are kept as the lake's are: on three OSDs, or erasure-coded, where only their headers are replicated. fio
and other clients of librbd reach one without the kernel; as a device of this machine it needs a kernel that has `rbd`.
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
from penstock.lake.ceph.control import Monitor, program_path, run
from penstock.lake.ceph.layout import ERASURE, REPLICATED, Layout
from penstock.processes import ProcessId
from penstock.units import MIB

POOL, ERASURE_POOL = "penstock.blocks", "penstock.blocks.erasure"
_KERNEL = Path("/sys/bus/rbd")


@dataclass(frozen=True)
class Image:
    """A block device in the store. Ceph's programs find it from `directory`, where its configuration is."""

    directory: Path
    pool: str
    name: str

    @property
    def spec(self) -> str:
        return f"{self.pool}/{self.name}"


@contextlib.contextmanager
def image(ceph: Ceph, lake: str, size_bytes: int) -> Iterator[Image]:
    """An empty device of that size, kept as that lake's data are; it is removed in the end.

    Raises `MissingRequirement` without the programs, `NotFound` where that Ceph has no such lake, `LakeError` where it
    does not answer.
    """
    if program_path("rbd") is None:
        raise MissingRequirement("There is no rbd on this machine", fix="apt-get install ceph-common")
    erasure = ceph.placement(lake).kind == ERASURE
    with ceph.monitor() as monitor:
        state = ceph.state()
        if state is not None:
            _ensure_pools(monitor, state.layout)
    made = Image(ceph.directory, POOL, f"lab-{os.getpid()}-{secrets.token_hex(4)}")
    _remove_strays(made)
    data = ("--data-pool", ERASURE_POOL) if erasure else ()
    # Layering alone: older kernels know none of the other features, and nothing here needs one.
    features = ("--image-feature", "layering")
    _rbd(made, "create", "--size", f"{-(-size_bytes // MIB)}M", *features, *data, made.spec, doing="making a device")
    try:
        # librbd would answer from its own memory, and say that written is what is not.
        _rbd(made, "config", "image", "set", made.spec, "rbd_cache", "false", doing="setting up a device")
        yield made
    finally:
        _rbd(made, "remove", "--no-progress", made.spec, doing="removing a device")


def require_kernel() -> None:
    """Raise `MissingRequirement`, with the reason, where RADOS devices cannot be devices of this machine."""
    if os.geteuid() != 0:
        raise MissingRequirement(
            "A RADOS block device cannot be mapped by this account",
            why="only root may give the kernel a device",
            fix="run this as root, or measure it without the kernel: --device rbd",
        )
    modprobe = shutil.which("modprobe", path=f"{os.defpath}:/usr/sbin:/sbin")
    if not _KERNEL.exists() and modprobe:
        subprocess.run([modprobe, "rbd"], capture_output=True, check=False)
    if not _KERNEL.exists():
        raise MissingRequirement(
            "This kernel has no RADOS block devices",
            why=f"Linux {os.uname().release} has no {_KERNEL}: it is built without rbd, and no module of it is there",
            fix="use a kernel with CONFIG_BLK_DEV_RBD, or measure it without the kernel: --device rbd",
        )


@contextlib.contextmanager
def mapped(made: Image) -> Iterator[Path]:
    """The image as a device of this machine (`/dev/rbd0`). Raises what `require_kernel` does, or `LakeError`."""
    require_kernel()
    # Our monitors speak only the second version of the protocol.
    told = _rbd(made, "map", "--options", "ms_mode=prefer-crc", made.spec, doing="mapping a device")
    device = Path(told.strip())
    try:
        yield device
    finally:
        _rbd(made, "unmap", str(device), doing="unmapping a device")


def _ensure_pools(monitor: Monitor, layout: Layout) -> None:
    """Both, as large as the gateways' pools of the same kind. What is there stays as it is."""
    groups = {pool.name: pool.groups for pool in layout.pools()}
    for kind, name in ((REPLICATED, POOL), (ERASURE, ERASURE_POOL)):
        many = groups[layout.placements()[kind].pool]
        code = {"erasure_code_profile": CODE_PROFILE} if kind == ERASURE else {}
        monitor.ask("osd pool create", pool=name, pg_num=many, pgp_num=many, pool_type=kind, **code)
        monitor.ask("osd pool application enable", pool=name, app="rbd")
    # Without it an erasure-coded object could only be written as a whole.
    monitor.ask("osd pool set", pool=ERASURE_POOL, var="allow_ec_overwrites", val="true")


def _remove_strays(beside: Image) -> None:
    """Devices of commands that were killed. One that is still mapped cannot be removed, and stays."""
    for name in json.loads(_rbd(beside, "list", "--format", "json", beside.pool, doing="listing devices")):
        owner = re.fullmatch(r"lab-(\d+)-[0-9a-f]+", name)
        if owner and ProcessId.of(int(owner[1])) is None:
            with contextlib.suppress(LakeError):
                _rbd(beside, "remove", "--no-progress", f"{beside.pool}/{name}", doing="removing a device")


def _rbd(made: Image, *arguments: str, doing: str) -> str:
    return run(made.directory, "rbd", "--conf", CONFIGURATION, *arguments, doing=doing)
