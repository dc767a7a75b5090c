"""The block device under a directory, by fio: 4 KiB random and 64 KiB sequential, latency to the 99.99th percentile.

What shuffle and spill stand on. Reads and writes go around the operating system's page cache (`O_DIRECT`), so the
device is measured and not memory. fio itself verifies what it wrote.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from penstock.errors import ClusterError, InvalidInput, MissingRequirement
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.units import MIB


@dataclass(frozen=True)
class Pattern:
    """One way to use the device; `rw` is fio's word for it."""

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
"""The documents' two, each way."""


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
    """For each pattern; a file that is read is written and verified before that."""
    depth: int = 1
    """Requests in flight for each worker."""
    workers: int = 1

    def check_options(self) -> None:
        if self.size_bytes < MIB or self.size_bytes % MIB:
            raise InvalidInput(f"A file of {self.size_bytes} bytes is no use here", fix="--size 1g, whole MiB")
        if self.directory and not Path(self.directory).is_dir():
            raise InvalidInput(
                f"There is no directory {self.directory}", fix="--directory of the file system to measure"
            )
        _fio()

    def needs_bytes(self) -> int:
        return self.size_bytes * self.workers

    def repetition(self, session: Session) -> None:
        root = Path(self.directory) if self.directory else session.bench.home.root
        with tempfile.TemporaryDirectory(prefix="blocks-", dir=root) as name:
            scratch = Path(name)
            for pattern in PATTERNS:
                session.listener.now(pattern.name)
                found = _run(self.arguments(pattern, scratch), scratch)
                for sample in samples(pattern, found):
                    session.record(**sample)
                for log in sorted(scratch.glob("rate_bw.*.log")):
                    for point in points(pattern, log.read_text(encoding="ascii")):
                        session.record(**point)
                    log.unlink()
            session.listener.now("verifying what was written")
            session.check("contents", *_verified(self.arguments(PATTERNS[1], scratch, verify=True), scratch))

    def arguments(self, pattern: Pattern, scratch: Path, *, verify: bool = False) -> tuple[str, ...]:
        common = (
            "--name=blocks",
            f"--directory={_escaped(scratch)}",
            "--filename_format=file-$jobnum",
            f"--size={self.size_bytes}",
            f"--numjobs={self.workers}",
            "--group_reporting",
            "--direct=1",
            f"--ioengine={'psync' if self.depth == 1 else 'libaio'}",
            f"--iodepth={self.depth}",
            "--output-format=json+",
        )
        if verify:
            # A whole pass of writing and of reading back what was written, each block with its checksum.
            return (*common, "--rw=write", f"--bs={pattern.block_bytes}", "--verify=crc32c", "--verify_fatal=1")
        return (
            *common,
            f"--rw={pattern.rw}",
            f"--bs={pattern.block_bytes}",
            "--time_based",
            f"--runtime={self.seconds}",
            "--log_avg_msec=1000",
            f"--write_bw_log={scratch / 'rate'}",
        )


def samples(pattern: Pattern, found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The `measure` and the `latency` of fio's report; `ValueError` where it did nothing."""
    side = found["jobs"][0][pattern.direction]
    if not side["total_ios"]:
        raise ValueError(f"fio did nothing for {pattern.name}")
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
    """Of the bucket that fio names by its middle; below 128 ns a bucket is a single value."""
    return middle + (1 << max(0, middle.bit_length() - 8) if middle >= 128 else 0)


def points(pattern: Pattern, log: str) -> Iterator[dict[str, Any]]:
    """fio's bandwidth log: `milliseconds, KiB/s, direction, …` a line, averaged over each second."""
    for line in log.splitlines():
        moment, rate, *_ = (int(field) for field in line.split(","))
        yield {
            "kind": "point",
            "series": pattern.name,
            "second": max(0, round(moment / 1000) - 1),
            "bytes": rate << 10,
            "operations": (rate << 10) // pattern.block_bytes,
        }


def _run(arguments: Sequence[str], scratch: Path) -> dict[str, Any]:
    done = subprocess.run([_fio(), *arguments], capture_output=True, text=True, cwd=scratch, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        fix = "choose a directory on a block device: memory file systems have no direct access"
        raise ClusterError("fio failed", why="\n".join(said.splitlines()[-5:]), fix=fix if "irect" in said else "")
    # fio puts notes of its own before the report.
    result: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return result


def _verified(arguments: Sequence[str], scratch: Path) -> tuple[bool, str]:
    try:
        found = _run(arguments, scratch)
    except ClusterError as error:
        if "verify" in error.why:
            return False, error.why
        raise
    return found["jobs"][0]["error"] == 0, ""


def _escaped(path: Path) -> str:
    """A colon separates directories for fio."""
    return str(path).replace(":", "\\:")


def _fio() -> str:
    found = shutil.which("fio")
    if found is None:
        raise MissingRequirement("fio is not installed", fix="apt-get install fio")
    return found
