"""Where an arm's applications shuffle: a directory of the user's, or a RADOS block device made for the run."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.errors import ClusterError, MissingRequirement
from penstock.lab.bench import Bench
from penstock.lake.ceph import rbd
from penstock.lake.ceph.cluster import KIND, Ceph
from penstock.profiles.base import DISK
from penstock.units import GIB

KRBD = "krbd"
"""In place of a directory: a device of the lake's Ceph, through the kernel, with a file system of its own."""
_LEAST_BYTES = 4 * GIB


def require(bench: Bench, settings: Mapping[str, str]) -> None:
    """Raise `MissingRequirement`, with the reason, where scratch cannot be where the settings want it."""
    chosen = settings.get(DISK)
    if chosen == KRBD:
        if bench.lake.kind != KIND:
            raise MissingRequirement(
                f"The lake “{bench.lake.name}” has no block devices to shuffle on",
                why="its store is not a Ceph of this home",
                fix="penstock lake ceph up, and lake: ceph",
            )
        rbd.require_kernel()
    elif chosen and not Path(chosen).is_dir():
        raise MissingRequirement(
            f"There is no directory {chosen} to shuffle in", why=DISK, fix="mount the device there first"
        )


@contextlib.contextmanager
def placed(bench: Bench, settings: Mapping[str, str], needed_bytes: int) -> Iterator[Mapping[str, str]]:
    """The settings with the directory to shuffle in; a device that is made for it goes with the block."""
    if settings.get(DISK) != KRBD:
        yield settings
        return
    size = max(_LEAST_BYTES, 2 * needed_bytes)
    with (
        rbd.image(Ceph(bench.home), bench.lake.name, size) as image,
        rbd.mapped(image) as device,
        mounted(device, bench.home.root) as directory,
    ):
        yield {**settings, DISK: str(directory)}


@contextlib.contextmanager
def mounted(device: Path, below: Path) -> Iterator[Path]:
    """A new file system on the device, in a directory of its own. Needs root; what is on the device is lost."""
    with tempfile.TemporaryDirectory(prefix="device-", dir=below) as name:
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(device))
        _run("mount", "-o", "noatime,nosuid,nodev", str(device), name)
        try:
            yield Path(name)
        finally:
            _run("umount", name)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{command[0]} failed on {command[-2]}", why=done.stderr.strip(), fix="see dmesg")
