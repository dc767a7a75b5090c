"""fio: what it is told, and what it says as the lab's samples."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import ClusterError, MissingRequirement


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
class Target:
    """What fio is to use, by its arguments; `directory` is where it runs."""

    arguments: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    empty: bool = False
    """Whether it must be written once before anything is read: nothing is fetched for what was never written."""


def program() -> str:
    """Where fio is; `MissingRequirement` without it."""
    found = shutil.which("fio")
    if found is None:
        raise MissingRequirement("fio is not installed", fix="apt-get install fio")
    return found


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


def run(arguments: Sequence[str], at: Target) -> dict[str, Any]:
    done = subprocess.run(
        [program(), *arguments],
        capture_output=True,
        text=True,
        cwd=at.directory,
        env=dict(at.environment) or None,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        fix = "choose a directory on a block device: memory file systems have no direct access"
        raise ClusterError("fio failed", why="\n".join(said.splitlines()[-5:]), fix=fix if "irect" in said else "")
    # fio puts notes of its own before the report.
    result: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return result


def verified(arguments: Sequence[str], at: Target) -> tuple[bool, str]:
    try:
        found = run(arguments, at)
    except ClusterError as error:
        if "verify" in error.why:
            return False, error.why
        raise
    return found["jobs"][0]["error"] == 0, ""
