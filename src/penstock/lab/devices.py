"""How busy block devices were: differences of the counters that the kernel keeps of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.processes import Disk

_MOST_POINTS = 1024
_DIGITS = 2
"""Of a second, in records."""


class Track:
    """A device's counters over time, at most so many of them: of a long block the looks become rarer.

    Counters only grow, so leaving one out loses nothing but where within the longer interval things happened.
    """

    def __init__(self) -> None:
        self._looks: list[tuple[float, Disk]] = []
        self._stride = 1
        self._skipped = 0

    def add(self, seconds: float, disk: Disk | None, *, last: bool = False) -> None:
        """`seconds` by a clock that only goes forwards. Where a device cannot be read there is no look."""
        self._skipped += 1
        if disk is None or (self._skipped < self._stride and self._looks and not last):
            return
        self._skipped = 0
        if len(self._looks) > 1 and self._recorded(seconds) <= self._recorded(self._looks[-1][0]):
            # The last look can follow another at once: an interval that a record shows without width has no rates.
            self._looks.pop()
        self._looks.append((seconds, disk))
        if len(self._looks) > _MOST_POINTS:
            self._looks = self._looks[::2]
            self._stride *= 2

    def over_time(self) -> dict[str, list[float]]:
        """What `between` says of each interval, which ends at `second` since the first look. Empty without any."""
        found: dict[str, list[float]] = {}
        for (start, before), (end, after) in zip(self._looks, self._looks[1:], strict=False):
            if before.name == after.name and self._recorded(end) > self._recorded(start):
                found.setdefault("second", []).append(self._recorded(end))
                for key, value in between(before, after, (end - start) * 1000).items():
                    found.setdefault(key, []).append(value)
        return found

    def _recorded(self, seconds: float) -> float:
        return round(seconds - self._looks[0][0], _DIGITS)


def between(start: Disk, end: Disk, elapsed_ms: float) -> dict[str, float]:
    """What one device did from one reading to the other. Pure.

    `busy_share` is the share of the time in which it had a request (iostat's %util): 1 is the limit of a device that
    serves one at a time, and of no other. `queue` is how many requests it had on average, waiting or being served
    (iostat's aqu-sz).
    """
    if elapsed_ms <= 0:
        return {"busy_share": 0.0, "queue": 0.0, "read_bytes": 0, "written_bytes": 0}
    return {
        # The kernel's clock is coarser than ours.
        "busy_share": round(min(1.0, (end.busy_ms - start.busy_ms) / elapsed_ms), 4),
        "queue": round((end.queued_ms - start.queued_ms) / elapsed_ms, 3),
        "read_bytes": end.read_bytes - start.read_bytes,
        "written_bytes": end.written_bytes - start.written_bytes,
    }


def all_between(start: Mapping[str, Disk], end: Mapping[str, Disk], elapsed_ms: float) -> dict[str, Any]:
    """The devices that had anything to do, by name."""
    found = {name: between(start[name], end[name], elapsed_ms) for name in sorted(start.keys() & end.keys())}
    return {name: used for name, used in found.items() if any(used.values())}
