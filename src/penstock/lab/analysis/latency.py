"""Percentiles of latency from histograms, with what the histogram does not know about them.

A histogram holds (upper bound, count) pairs; a sample lies above the next lower bound of its scale and at or below its
own. A percentile is the nearest-rank one: the smallest sample that at least that share of all samples does not exceed.

What was done in each second: throughput over time, from `point` samples.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from penstock.lab.analysis.samples import counted
from penstock.lab.records import Run, Sample

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)

Histogram = Mapping[float, int]
"""Upper bound in microseconds to the number of samples; mergeable by adding."""


@dataclass(frozen=True)
class Percentile:
    """The true value lies above `above` and at or below `value`; both in seconds."""

    percent: float
    value: float
    above: float


@dataclass(frozen=True)
class Latency:
    """Of all counted repetitions together."""

    name: str
    phase: str
    count: int
    percentiles: tuple[Percentile, ...]
    """Without those that so few samples cannot tell: the 99.99th of a thousand is only their maximum."""
    maximum: float
    """Its bucket's upper bound, in seconds."""

    @property
    def error(self) -> float:
        """By what share of itself a percentile may be too high, at the most."""
        return max((1 - found.above / found.value for found in self.percentiles if found.value), default=0.0)


def latencies(run: Run) -> list[Latency]:
    """A line per operation and phase, in the order they were recorded."""
    merged: dict[tuple[str, str], list[Histogram]] = {}
    errors: dict[tuple[str, str], float] = {}
    for sample in counted(run, "latency"):
        histogram = {float(bound): int(count) for bound, count in sample["histogram"]}
        key = (str(sample["name"]), str(sample["phase"]))
        merged.setdefault(key, []).append(histogram)
        errors[key] = max(errors.get(key, 0.0), float(sample.get("relative_error", 1.0)))
    found = []
    for (name, phase), histograms in merged.items():
        whole = merge(histograms)
        total = sum(whole.values())
        if total:
            told = percentiles(whole, relative_error=errors[name, phase])
            found.append(Latency(name, phase, total, told, max(whole) / 1e6))
    return found


def merge(histograms: Iterable[Histogram]) -> dict[float, int]:
    """One histogram of the samples of all. Empty buckets are left out."""
    found: dict[float, int] = {}
    for histogram in histograms:
        for bound, count in histogram.items():
            if count:
                found[bound] = found.get(bound, 0) + count
    return found


def percentiles(
    histogram: Histogram, wanted: Sequence[float] = PERCENTILES, *, relative_error: float = 1.0
) -> tuple[Percentile, ...]:
    """Those of `wanted` (0 < percent ≤ 100) that are told by at least one sample above them; always the median.

    The error is that of the buckets. `relative_error` is the scale's: a sample is above its bucket's upper bound × (1 -
    it). Where it is not known, a sample is only known to be above the next lower bound that had one.
    """
    bounds = sorted(bound for bound, count in histogram.items() if count)
    if not bounds:
        return ()
    up_to = list(accumulate(histogram[bound] for bound in bounds))
    total = up_to[-1]
    found = []
    for percent in wanted:
        # A hundredth of a percent is the finest in use: whole numbers keep 99.9 % of 1000 at exactly 999.
        rank = max(1, math.ceil(total * round(percent * 100) / 10_000))
        if rank == total and percent > 50:
            continue
        index = next(index for index, cumulative in enumerate(up_to) if cumulative >= rank)
        above = max(bounds[index - 1] if index else 0.0, bounds[index] * (1 - relative_error))
        found.append(Percentile(percent, bounds[index] / 1e6, above / 1e6))
    return tuple(found)


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
