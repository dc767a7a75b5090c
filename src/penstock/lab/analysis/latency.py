"""Percentiles of latency from histograms with their error, and rates in every second from `point` samples.

A histogram holds (upper bound, count) pairs; a sample lies above the next lower bound of its scale and at or below its
own. A percentile is the nearest-rank one: the smallest sample that at least that share of all samples does not exceed.
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
    """Latency of one operation and phase, over all counted repetitions."""

    name: str
    phase: str
    count: int
    percentiles: tuple[Percentile, ...]
    """Without those for which there are too few samples: the 99.99th of a thousand is only their maximum."""
    maximum: float
    """The upper bound of its bucket, in seconds."""

    @property
    def error(self) -> float:
        """The greatest relative error by which a percentile may be too high."""
        return max((1 - found.above / found.value for found in self.percentiles if found.value), default=0.0)


def latencies(run: Run) -> list[Latency]:
    """Latencies by operation and phase, in the order they were recorded."""
    merged: dict[tuple[str, str], list[Histogram]] = {}
    errors: dict[tuple[str, str], float] = {}
    for sample in counted(run, "latency"):
        histogram = {float(bound): int(count) for bound, count in sample["histogram"]}
        key = (str(sample["name"]), str(sample["phase"]))
        merged.setdefault(key, []).append(histogram)
        errors[key] = max(errors.get(key, 0.0), float(sample.get("relative_error", 1.0)))
    found = []
    for (name, phase), histograms in merged.items():
        merged_histogram = merge(histograms)
        total = sum(merged_histogram.values())
        if total:
            known = percentiles(merged_histogram, relative_error=errors[name, phase])
            found.append(Latency(name, phase, total, known, max(merged_histogram) / 1e6))
    return found


def merge(histograms: Iterable[Histogram]) -> dict[float, int]:
    """Merge the histograms, without empty buckets."""
    found: dict[float, int] = {}
    for histogram in histograms:
        for bound, count in histogram.items():
            if count:
                found[bound] = found.get(bound, 0) + count
    return found


def percentiles(
    histogram: Histogram, percents: Sequence[float] = PERCENTILES, *, relative_error: float = 1.0
) -> tuple[Percentile, ...]:
    """The percentiles in `percents` (0 < percent ≤ 100) that have at least one sample above them, and the median.

    `relative_error` is that of the scale: a sample lies above the upper bound of its bucket × (1 - `relative_error`).
    Without it, the lower bound of a sample is the upper bound of the next lower bucket that has samples.
    """
    bounds = sorted(bound for bound, count in histogram.items() if count)
    if not bounds:
        return ()
    up_to = list(accumulate(histogram[bound] for bound in bounds))
    total = up_to[-1]
    found = []
    for percent in percents:
        # Integers, in units of a hundredth of a percent, keep 99.9 % of 1000 at exactly 999.
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
class RateSeries:
    """Work of one repetition of one series in every second from `first` to the last, summed over writers.

    Seconds without work are zeros.
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
        """Extremes without the first and the last second, which are partial; None where there is no other."""
        inner = self.amounts[1:-1]
        return Extremes(min(inner), statistics.median(inner), max(inner)) if inner else None


def rate_series(run: Run) -> list[RateSeries]:
    """Rates by series, in the order they first occur, and repetition."""
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
            RateSeries(
                *key,
                span.start,
                tuple(bytes_at[key].get(second, 0) for second in span),
                tuple(operations_at[key].get(second, 0) for second in span),
            )
        )
    return found


def _shares(sample: Sample, field: str) -> Iterator[tuple[int, int]]:
    """Divide a point evenly among its seconds; the points of long work span several."""
    first, width, amount = int(sample["second"]), int(sample.get("seconds", 1)), int(sample.get(field) or 0)
    for index in range(width):
        yield first + index, amount * (index + 1) // width - amount * index // width
