"""What each process of a local store did in a repetition, from `usage` samples."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.lab.analysis.samples import counted, natural
from penstock.lab.records import Run


@dataclass(frozen=True)
class DaemonUse:
    """Medians over the repetitions that it was there for, start to end; bytes are those of block devices."""

    core_seconds: float
    peak_memory_bytes: float | None
    read_bytes: float | None
    written_bytes: float | None


def daemons(run: Run) -> Mapping[str, DaemonUse]:
    """By name (`osd.0`); empty where the store is on other machines, or the record is an older one."""
    samples = [sample.get("daemons") or {} for sample in counted(run, "usage")]
    names = sorted({name for sample in samples for name in sample}, key=natural)

    def median(name: str, key: str) -> float | None:
        values = [sample[name][key] for sample in samples if key in sample.get(name, {})]
        return statistics.median(values) if values else None

    return {
        name: DaemonUse(
            median(name, "core_seconds") or 0.0,
            *(median(name, key) for key in ("peak_memory_bytes", "read_bytes", "written_bytes")),
        )
        for name in names
    }
