"""Block devices by fio: 4 KiB random and 64 KiB sequential, latency to the 99.99th percentile.

What shuffle and spill stand on: the device under a directory, or a RADOS block device of the lake's Ceph. Reads and
writes go around the operating system's page cache (`O_DIRECT`), so the device is measured and not memory; librbd's own
cache is off while fio uses it. fio itself verifies what it wrote.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock.errors import InvalidInput
from penstock.lab import fio
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.lake.ceph import rbd as rados
from penstock.lake.ceph.cluster import KIND as CEPH
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.ceph.configuration import CONFIGURATION
from penstock.lake.model import Lake
from penstock.units import MIB

NOWHERE, RBD, KRBD = "", "rbd", "krbd"
DEVICES = (NOWHERE, RBD, KRBD)
"""A directory's device; a RADOS block device of the lake's Ceph by fio's own client; the same through the kernel."""


@dataclass(frozen=True)
class Blocks(Suite):
    workload: ClassVar[str] = "blocks"
    title: ClassVar[str] = "Block device"
    profile: ClassVar[str] = "default"

    directory: str = ""
    """Empty: the state directory, where applications have their scratch space."""
    size_bytes: int = 1024 * MIB
    """Of each worker's file; larger than any cache of the device to measure the device itself."""
    seconds: int = 10
    """For each pattern; what is read is written and verified before that."""
    depth: int = 1
    """Requests in flight for each worker."""
    workers: int = 1
    device: str = NOWHERE
    """One of `DEVICES`."""

    def check_options(self) -> None:
        if self.size_bytes < MIB or self.size_bytes % MIB:
            raise InvalidInput(f"A file of {self.size_bytes} bytes is no use here", fix="--size 1g, whole MiB")
        if self.device not in DEVICES:
            raise InvalidInput(f"There is no device {self.device}", fix="--device rbd or krbd, or --directory DIR")
        if self.directory and self.device:
            raise InvalidInput(
                f"A directory has its own device, which is not {self.device}", fix="give --directory or --device"
            )
        if self.directory and not Path(self.directory).is_dir():
            raise InvalidInput(
                f"There is no directory {self.directory}", fix="--directory of the file system to measure"
            )
        fio.program()
        if self.device == KRBD:
            rados.require_kernel()

    def needs_bytes(self) -> int:
        return 0 if self.device else self.size_bytes * self.workers

    def check_lake(self, lake: Lake) -> None:
        if self.device and lake.kind != CEPH:
            raise InvalidInput(
                f"The lake “{lake.name}” has no RADOS block devices",
                why=f"its store is {'another Ceph or S3' if lake.kind == 'external' else lake.kind}, and not a Ceph of "
                "this home",
                fix="penstock lake ceph up, and --lake ceph or --lake ceph-erasure",
            )

    def repetition(self, session: Session) -> None:
        root = Path(self.directory) if self.directory else session.bench.home.root
        with tempfile.TemporaryDirectory(prefix="blocks-", dir=root) as name, self._target(session, Path(name)) as at:
            scratch = Path(name)
            if at.empty:
                session.listener.now("writing it once")
                fio.run(self.filling(at), at)
            for pattern in fio.PATTERNS:
                session.listener.now(pattern.name)
                found = fio.run(self.arguments(pattern, at, scratch), at)
                for sample in fio.samples(pattern, found):
                    session.record(**sample)
                for log in sorted(scratch.glob("rate_bw.*.log")):
                    for point in fio.points(pattern, log.read_text(encoding="ascii")):
                        session.record(**point)
                    log.unlink()
            session.listener.now("verifying what was written")
            session.check("contents", *fio.verified(self.verifying(at), at))

    @contextlib.contextmanager
    def _target(self, session: Session, scratch: Path) -> Iterator[fio.Target]:
        if not self.device:
            yield self.files(scratch)
            return
        ceph = Ceph(session.bench.home)
        with rados.image(ceph, session.bench.lake.name, self.size_bytes * self.workers) as image:
            if self.device == RBD:
                yield self.in_store(image)
                return
            with rados.mapped(image) as device:
                yield fio.Target(
                    (f"--filename={device}", *self._shared(), *self._through_kernel()), scratch, empty=True
                )

    def files(self, scratch: Path) -> fio.Target:
        """A file for each worker."""
        named = (f"--directory={_escaped(scratch)}", "--filename_format=file-$jobnum")
        return fio.Target((*named, *self._through_kernel()), scratch)

    def in_store(self, image: rados.Image) -> fio.Target:
        """fio's own client of the store, as the store's administrator."""
        named = ("--ioengine=rbd", "--clientname=admin", f"--pool={image.pool}", f"--rbdname={image.name}")
        environment = {"CEPH_CONF": CONFIGURATION, "PATH": os.environ.get("PATH", os.defpath)}
        return fio.Target((*named, *self._shared()), image.directory, environment, empty=True)

    def _shared(self) -> tuple[str, ...]:
        """Each worker has a part of its own of the one device."""
        return (f"--offset_increment={self.size_bytes}",)

    def _through_kernel(self) -> tuple[str, ...]:
        return ("--direct=1", f"--ioengine={'psync' if self.depth == 1 else 'libaio'}")

    def _common(self, at: fio.Target) -> tuple[str, ...]:
        return (
            "--name=blocks",
            *at.arguments,
            f"--size={self.size_bytes}",
            f"--numjobs={self.workers}",
            "--group_reporting",
            f"--iodepth={self.depth}",
            "--output-format=json+",
        )

    def filling(self, at: fio.Target) -> tuple[str, ...]:
        return (*self._common(at), "--rw=write", f"--bs={MIB}")

    def verifying(self, at: fio.Target) -> tuple[str, ...]:
        """A whole pass of writing and of reading back what was written, each block with its checksum."""
        block = fio.PATTERNS[0].block_bytes
        return (*self._common(at), "--rw=write", f"--bs={block}", "--verify=crc32c", "--verify_fatal=1")

    def arguments(self, pattern: fio.Pattern, at: fio.Target, scratch: Path) -> tuple[str, ...]:
        return (
            *self._common(at),
            f"--rw={pattern.rw}",
            f"--bs={pattern.block_bytes}",
            "--time_based",
            f"--runtime={self.seconds}",
            "--log_avg_msec=1000",
            f"--write_bw_log={scratch / 'rate'}",
        )


def _escaped(path: Path) -> str:
    """A colon separates directories for fio."""
    return str(path).replace(":", "\\:")
