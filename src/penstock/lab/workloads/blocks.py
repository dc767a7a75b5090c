"""Block devices by fio: 4 KiB random and 64 KiB sequential, latency to the 99.99th percentile.

The device is that of a directory, or a RADOS block device of the lake's Ceph, as shuffle and spill use it. Reads and
writes bypass the operating system's page cache (`O_DIRECT`), so the device is measured and not memory; librbd's own
cache is off while fio uses it. fio itself verifies the written blocks.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from penstock.errors import ClusterError, InvalidInput, MissingRequirement
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.options import Option, path, size
from penstock.lake.ceph import rbd as rados
from penstock.lake.ceph.cluster import KIND as CEPH
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.ceph.configuration import CONFIGURATION
from penstock.lake.model import Lake
from penstock.units import MIB


@dataclass(frozen=True)
class Pattern:
    """An access pattern; `rw` is fio's name of it."""

    name: str
    rw: str
    block_bytes: int

    @property
    def direction(self) -> str:
        return "write" if self.rw.endswith("write") else "read"


PATTERNS = (
    Pattern("sequential write, 64 KiB", "write", 64 << 10),
    Pattern("sequential read, 64 KiB", "read", 64 << 10),
    Pattern("random write, 4 KiB", "randwrite", 4 << 10),
    Pattern("random read, 4 KiB", "randread", 4 << 10),
)
"""The two patterns of the published Ceph tests, for reads and writes."""


@dataclass(frozen=True)
class FioTarget:
    """The device for fio, by fio's arguments; `directory` is the working directory."""

    arguments: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    empty: bool = False
    """Whether it must be written once before reads: Ceph fetches nothing for blocks that were never written."""


def fio_path() -> str:
    """Return the path of fio. Raises `MissingRequirement` without it."""
    found = shutil.which("fio")
    if found is None:
        raise MissingRequirement("fio is not installed", fix="apt-get install fio")
    return found


def samples(pattern: Pattern, found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the `measure` and the `latency` samples of fio's report. Raises `ValueError` where it made no request."""
    side = found["jobs"][0][pattern.direction]
    if not side["total_ios"]:
        raise ValueError(f"fio made no request for {pattern.name}")
    yield {
        "kind": "measure",
        "name": pattern.name,
        "basis": "rate",
        "elapsed_ms": side["runtime"],
        "bytes": side["io_bytes"],
        "operations": side["total_ios"],
        "mean_latency_us": side["clat_ns"]["mean"] / 1000,
        "highest_latency_us": side["clat_ns"]["max"] / 1000,
    }
    bins = {_upper_bound(int(middle)): count for middle, count in side["clat_ns"]["bins"].items()}
    yield {
        "kind": "latency",
        "name": pattern.name,
        "phase": "total",
        "unit": "us",
        "relative_error": _BUCKETS_ERROR,
        "histogram": [[upper / 1000, bins[upper]] for upper in sorted(bins) if bins[upper]],
    }


_BUCKETS_ERROR = 1 / 64
"""fio divides each power of two of nanoseconds into 64 buckets (its `stat.h`, FIO_IO_U_PLAT_BITS)."""


def _upper_bound(middle: int) -> int:
    """Return the upper bound of the bucket that fio names by its middle; below 128 ns a bucket is a single value."""
    return middle + (1 << max(0, middle.bit_length() - 8) if middle >= 128 else 0)


def points(pattern: Pattern, log: str) -> Iterator[dict[str, Any]]:
    """Parse fio's bandwidth log: `milliseconds, KiB/s, direction, …` a line, averaged over each second."""
    for line in log.splitlines():
        moment, rate, *_ = (int(field) for field in line.split(","))
        yield {
            "kind": "point",
            "series": pattern.name,
            "second": max(0, round(moment / 1000) - 1),
            "bytes": rate << 10,
            "operations": (rate << 10) // pattern.block_bytes,
        }


def run_fio(arguments: Sequence[str], at: FioTarget) -> dict[str, Any]:
    done = subprocess.run(
        [fio_path(), *arguments],
        capture_output=True,
        text=True,
        cwd=at.directory,
        env=dict(at.environment) or None,
        check=False,
    )
    if done.returncode != 0:
        output = done.stderr.strip() or done.stdout.strip()
        fix = "choose a directory on a block device: memory file systems have no direct I/O"
        raise ClusterError("fio failed", why="\n".join(output.splitlines()[-5:]), fix=fix if "irect" in output else "")
    # fio prints notes before the report.
    result: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return result


def run_verification(arguments: Sequence[str], at: FioTarget) -> tuple[bool, str]:
    try:
        found = run_fio(arguments, at)
    except ClusterError as error:
        if "verify" in error.why:
            return False, error.why
        raise
    return found["jobs"][0]["error"] == 0, ""


DIRECTORY_DEVICE, RBD, KRBD = "", "rbd", "krbd"
DEVICES = (DIRECTORY_DEVICE, RBD, KRBD)
"""A directory's device; a RADOS block device of the lake's Ceph through librbd; the same through the kernel."""


@dataclass(frozen=True)
class Blocks(Suite):
    workload: ClassVar[str] = "blocks"
    title: ClassVar[str] = "Block device"
    profile: ClassVar[str] = "default"

    directory: Annotated[str, path("Directory on the device.", default_note="the state directory")] = ""
    size_bytes: Annotated[int, size("Size of each worker's file, larger than the device's cache.")] = 1024 * MIB
    seconds: Annotated[int, Option("Seconds for each of the four patterns.", least=1)] = 10
    depth: Annotated[int, Option("Requests in flight per worker.", least=1, most=1024)] = 1
    workers: Annotated[int, Option("Worker processes, each with its own file.", least=1, most=256)] = 1
    device: Annotated[
        str,
        Option("RADOS block device in the Ceph of --lake: rbd (fio's client) or krbd (the kernel's)."),
    ] = DIRECTORY_DEVICE
    """One of `DEVICES`."""

    def check_options(self) -> None:
        if self.size_bytes < MIB or self.size_bytes % MIB:
            raise InvalidInput(f"The file size cannot be {self.size_bytes} bytes", fix="give whole MiB: --size 1g")
        if self.device not in DEVICES:
            raise InvalidInput(f"There is no device {self.device}", fix="--device rbd or krbd, or --directory DIR")
        if self.directory and self.device:
            raise InvalidInput(
                f"--directory and --device {self.device} exclude each other", fix="give --directory or --device"
            )
        if self.directory and not Path(self.directory).is_dir():
            raise InvalidInput(
                f"There is no directory {self.directory}",
                fix="give a directory of the file system to measure: --directory DIR",
            )
        fio_path()
        if self.device == KRBD:
            rados.require_kernel()

    def needs_bytes(self) -> int:
        return 0 if self.device else self.size_bytes * self.workers

    def check_lake(self, lake: Lake) -> None:
        if self.device and lake.kind != CEPH:
            raise InvalidInput(
                f"The lake “{lake.name}” has no RADOS block devices",
                why=f"its store is {'another Ceph or S3' if lake.kind == 'external' else lake.kind}, "
                "not a Ceph cluster of this home",
                fix="run penstock lake ceph up, and give --lake ceph or --lake ceph-erasure",
            )

    def repetition(self, session: Session) -> None:
        root = Path(self.directory) if self.directory else session.bench.home.root
        with tempfile.TemporaryDirectory(prefix="blocks-", dir=root) as name, self._target(session, Path(name)) as at:
            scratch = Path(name)
            if at.empty:
                session.listener.now("filling the device")
                run_fio(self.filling(at), at)
            for pattern in PATTERNS:
                session.listener.now(pattern.name)
                found = run_fio(self.arguments(pattern, at, scratch), at)
                for sample in samples(pattern, found):
                    session.record(**sample)
                for log in sorted(scratch.glob("rate_bw.*.log")):
                    for point in points(pattern, log.read_text(encoding="ascii")):
                        session.record(**point)
                    log.unlink()
            session.listener.now("verifying written blocks")
            session.check("contents", *run_verification(self.verifying(at), at))

    @contextlib.contextmanager
    def _target(self, session: Session, scratch: Path) -> Iterator[FioTarget]:
        if not self.device:
            yield self.files(scratch)
            return
        ceph = Ceph(session.bench.home)
        with rados.image(ceph, session.bench.lake.name, self.size_bytes * self.workers) as image:
            if self.device == RBD:
                yield self.in_store(image)
                return
            with rados.mapped(image) as device:
                yield FioTarget((f"--filename={device}", *self._shared(), *self._through_kernel()), scratch, empty=True)

    def files(self, scratch: Path) -> FioTarget:
        """Return a target with a file for each worker."""
        named = (f"--directory={_escaped(scratch)}", "--filename_format=file-$jobnum")
        return FioTarget((*named, *self._through_kernel()), scratch)

    def in_store(self, image: rados.Image) -> FioTarget:
        """Return a target through librbd, as the store's administrator."""
        named = ("--ioengine=rbd", "--clientname=admin", f"--pool={image.pool}", f"--rbdname={image.name}")
        environment = {"CEPH_CONF": CONFIGURATION, "PATH": os.environ.get("PATH", os.defpath)}
        return FioTarget((*named, *self._shared()), image.directory, environment, empty=True)

    def _shared(self) -> tuple[str, ...]:
        """Return the arguments that give each worker its own part of the shared device."""
        return (f"--offset_increment={self.size_bytes}",)

    def _through_kernel(self) -> tuple[str, ...]:
        return ("--direct=1", f"--ioengine={'psync' if self.depth == 1 else 'libaio'}")

    def _common(self, at: FioTarget) -> tuple[str, ...]:
        return (
            "--name=blocks",
            *at.arguments,
            f"--size={self.size_bytes}",
            f"--numjobs={self.workers}",
            "--group_reporting",
            f"--iodepth={self.depth}",
            "--output-format=json+",
        )

    def filling(self, at: FioTarget) -> tuple[str, ...]:
        return (*self._common(at), "--rw=write", f"--bs={MIB}")

    def verifying(self, at: FioTarget) -> tuple[str, ...]:
        """Return the arguments of a full pass that writes each block with a checksum and reads it back."""
        block = PATTERNS[0].block_bytes
        return (*self._common(at), "--rw=write", f"--bs={block}", "--verify=crc32c", "--verify_fatal=1")

    def arguments(self, pattern: Pattern, at: FioTarget, scratch: Path) -> tuple[str, ...]:
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
    """Escape colons, which separate directories for fio."""
    return str(path).replace(":", "\\:")
