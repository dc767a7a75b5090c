"""What the block devices of the measuring machine did in each counted repetition, from `usage` samples."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.lab.analysis.samples import counted
from penstock.lab.records import Run


@dataclass(frozen=True)
class DiskTrack:
    """The shuffle's disk in one repetition. Each figure is of the interval that ends at its second."""

    repetition: int
    seconds: tuple[float, ...]
    busy_shares: tuple[float, ...]
    queues: tuple[float, ...]
    read_rates: tuple[float, ...]
    """In bytes per second, as `written_rates`."""
    written_rates: tuple[float, ...]


@dataclass(frozen=True)
class DeviceUse:
    """Medians over the repetitions; see `lab.devices.between`."""

    busy_share: float
    queue: float
    read_bytes: float
    written_bytes: float


def disk_tracks(run: Run) -> list[DiskTrack]:
    """None of a repetition that was too short to be looked at more than once, or of an older record."""
    found = []
    for sample in counted(run, "usage"):
        track = sample.get("disk_over_time") or {}
        seconds = tuple(track.get("second", ()))
        if len(seconds) > 1:
            widths = [end - start for start, end in zip((0.0, *seconds), seconds, strict=False)]
            # Records of before 2026-11-24 may end with an interval too short to be told from the one before it.
            kept = [index for index, width in enumerate(widths) if width > 0]
            found.append(
                DiskTrack(
                    int(sample.get("repetition", 1)),
                    tuple(seconds[index] for index in kept),
                    tuple(track["busy_share"][index] for index in kept),
                    tuple(track["queue"][index] for index in kept),
                    tuple(track["read_bytes"][index] / widths[index] for index in kept),
                    tuple(track["written_bytes"][index] / widths[index] for index in kept),
                )
            )
    return found


def device_uses(run: Run) -> Mapping[str, DeviceUse]:
    """Of every device that worked in any repetition, by name; one that did not in some of them did nothing there."""
    samples = [sample["devices"] for sample in counted(run, "usage") if "devices" in sample]
    return {
        name: DeviceUse(
            *(
                statistics.median(sample.get(name, {}).get(key, 0) for sample in samples)
                for key in ("busy_share", "queue", "read_bytes", "written_bytes")
            )
        )
        for name in dict.fromkeys(name for sample in samples for name in sample)
    }


def shuffle_disk(run: Run) -> str | None:
    """The name of the device that the shuffle's directories are on; None where that is not one device."""
    names = {str(sample["disk"]) for sample in counted(run, "usage") if sample.get("disk")}
    return names.pop() if len(names) == 1 else None
