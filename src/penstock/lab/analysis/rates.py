"""What was done in each second: throughput over time, from `point` samples."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.lab.analysis.samples import counted
from penstock.lab.records import Run, Sample


@dataclass(frozen=True)
class Extremes:
    slowest: float
    median: float
    fastest: float


@dataclass(frozen=True)
class Seconds:
    """One repetition of one series: what was done in every second from its first to its last.

    A second in which nothing was done is there, as zero. Several writers of one series are added up.
    """

    series: str
    repetition: int
    first: int
    bytes: tuple[int, ...]
    operations: tuple[int, ...]

    @property
    def moves_bytes(self) -> bool:
        return any(self.bytes)

    @property
    def amounts(self) -> tuple[int, ...]:
        """Bytes per second, or operations per second where no bytes are moved."""
        return self.bytes if self.moves_bytes else self.operations

    @property
    def extremes(self) -> Extremes | None:
        """Of the whole seconds: work starts and ends within the first and the last. None where there is no other."""
        whole = self.amounts[1:-1]
        return Extremes(min(whole), statistics.median(whole), max(whole)) if whole else None


def seconds(run: Run) -> list[Seconds]:
    """By series in the order they were first seen, then by repetition."""
    bytes_at: dict[tuple[str, int], dict[int, int]] = {}
    operations_at: dict[tuple[str, int], dict[int, int]] = {}
    for sample in counted(run, "point"):
        key = (str(sample["series"]), int(sample.get("repetition", 1)))
        for amounts, field in ((bytes_at, "bytes"), (operations_at, "operations")):
            at = amounts.setdefault(key, {})
            for second, share in _shares(sample, field):
                at[second] = at.get(second, 0) + share
    order = {series: index for index, series in enumerate(dict.fromkeys(series for series, _ in bytes_at))}
    found = []
    for key in sorted(bytes_at, key=lambda key: (order[key[0]], key[1])):
        span = range(min(bytes_at[key]), max(bytes_at[key]) + 1)
        found.append(
            Seconds(
                *key,
                span.start,
                tuple(bytes_at[key].get(second, 0) for second in span),
                tuple(operations_at[key].get(second, 0) for second in span),
            )
        )
    return found


def _shares(sample: Sample, field: str) -> Iterator[tuple[int, int]]:
    """What falls on each second of a point: of long work a point stands for several, which are taken for alike."""
    first, width, amount = int(sample["second"]), int(sample.get("seconds", 1)), int(sample.get(field) or 0)
    for index in range(width):
        yield first + index, amount * (index + 1) // width - amount * index // width
